#include "lq_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t lq_test_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    char *end = NULL;
    unsigned long long number;

    if (text == NULL || *text == '\0') {
        return otherwise;
    }
    errno = 0;
    number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0) {
        (void)fprintf(stderr, "%s=%s is not a decimal number\n", name, text);
        exit(EXIT_FAILURE);
    }
    return number;
}

uint64_t lq_test_seed(void)
{
    static uint64_t seed;
    static int known;
    struct timespec now;

    if (!known) {
        (void)clock_gettime(CLOCK_REALTIME, &now);
        seed =
            lq_test_number("LQ_SEED", (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec);
        known = 1;
        (void)printf("seed %llu (again: LQ_SEED=%llu)\n", (unsigned long long)seed,
                     (unsigned long long)seed);
        (void)fflush(stdout);
    }
    return seed;
}

struct lq_rand lq_rand_of(uint64_t seed, uint64_t stream)
{
    struct lq_rand rand = {.state = seed};
    rand.state = lq_rand_next(&rand) ^ (stream * UINT64_C(0xD1342543DE82EF95));
    return rand;
}

uint64_t lq_rand_next(struct lq_rand *rand)
{
    uint64_t z;

    rand->state += UINT64_C(0x9E3779B97F4A7C15);
    z = rand->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t lq_rand_below(struct lq_rand *rand, uint64_t n)
{
    return lq_rand_next(rand) % n;
}

void lq_rand_fill(struct lq_rand *rand, uint8_t *ret_bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        uint64_t word = lq_rand_next(rand);
        size_t n = len - at < sizeof word ? len - at : sizeof word;
        memcpy(ret_bytes + at, &word, n);
        at += n;
    }
}

int lq_test_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int ran, failed;

    srunner_run_all(runner, CK_ENV);
    ran = srunner_ntests_run(runner);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return ran > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
