/* The histogram against sorted values. */
#include <stdlib.h>

#include "histogram.h"
#include "lq_test.h"

#define N 20000

static uint64_t seed;
static struct lq_bench_histogram histogram;

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Values of all magnitudes that a histogram keeps: a random number of random bits. */
static uint64_t draw(struct lq_rand *rand)
{
    return lq_rand_next(rand) >> (64 - 1 - lq_rand_below(rand, LQ_BENCH_HISTOGRAM_MAX_BITS));
}

START_TEST(test_percentiles)
{
    static uint64_t values[N];
    struct lq_rand rand = lq_rand_of(seed, 0);
    lq_bench_histogram_init(&histogram);
    for (size_t i = 0; i < N; i++) {
        values[i] = draw(&rand);
        lq_bench_histogram_record(&histogram, values[i]);
    }
    qsort(values, N, sizeof values[0], compare);
    ck_assert_uint_eq(histogram.count, N);
    ck_assert_uint_eq(histogram.max_ns, values[N - 1]);
    for (size_t percent = 1; percent <= 100; percent++) {
        uint64_t exact = values[N * percent / 100 - 1];
        uint64_t got = lq_bench_histogram_percentile(&histogram, (double)percent);
        ck_assert_uint_ge(got, exact);
        ck_assert_uint_le(got - exact, exact / 128);
    }
}
END_TEST

START_TEST(test_edges)
{
    lq_bench_histogram_init(&histogram);
    ck_assert_uint_eq(lq_bench_histogram_percentile(&histogram, 50), 0);
    lq_bench_histogram_record(&histogram, 0);
    ck_assert_uint_eq(lq_bench_histogram_percentile(&histogram, 100), 0);
    lq_bench_histogram_record(&histogram, UINT64_MAX);
    ck_assert_uint_eq(lq_bench_histogram_percentile(&histogram, 50), 0);
    ck_assert_uint_eq(lq_bench_histogram_percentile(&histogram, 99), UINT64_MAX);
    ck_assert_uint_eq(lq_bench_histogram_percentile(&histogram, 0), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("histogram");
    TCase *t = tcase_create("histogram");
    seed = lq_test_seed();
    tcase_add_test(t, test_percentiles);
    tcase_add_test(t, test_edges);
    suite_add_tcase(suite, t);
    return lq_test_run(suite);
}
