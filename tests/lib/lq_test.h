/* What all unit test programs share: numbers from the environment, a seeded generator, and a main
 * function around one suite. A run that used the generator prints its seed; the same seed gives the
 * same run. */
#ifndef LQ_TEST_H
#define LQ_TEST_H

#include <check.h>
#include <stddef.h>
#include <stdint.h>

/* A small generator (splitmix64): good enough to draw test cases, the same on every machine. */
struct lq_rand {
    uint64_t state;
};

/* The seed of this run: LQ_SEED when it is set, else one from the clock. The first call prints it,
 * so a test program calls this in main, before Check forks. */
uint64_t lq_test_seed(void);

/* The number in the environment variable `name` (such as LQ_OPS), or `otherwise` when it is not
 * set. Anything but a decimal number ends the program with a message. */
uint64_t lq_test_number(const char *name, uint64_t otherwise);

/* A generator of its own for each `stream` of the same seed. */
struct lq_rand lq_rand_of(uint64_t seed, uint64_t stream);
uint64_t lq_rand_next(struct lq_rand *rand);

/* A number from 0 to `n` - 1; `n` is at least 1. */
uint64_t lq_rand_below(struct lq_rand *rand, uint64_t n);
void lq_rand_fill(struct lq_rand *rand, uint8_t *ret_bytes, size_t len);

/* Runs `suite`, prints Check's summary and frees the suite. Returns the exit status of the program:
 * 0 when at least one test ran and none failed. */
int lq_test_run(Suite *suite);

#endif
