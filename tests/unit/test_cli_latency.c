/* The histogram of `loquet bench`. */
#include "lq_latency.h"
#include "lq_test.h"

#include <check.h>
#include <string.h>

static struct lq_latency latency;

static void set_up(void)
{
    memset(&latency, 0, sizeof latency);
}

START_TEST(nothing_was_measured)
{
    ck_assert_uint_eq(lq_latency_percentile(&latency, 50), 0);
    ck_assert_uint_eq(lq_latency_percentile(&latency, 100), 0);
}
END_TEST

START_TEST(short_times_are_exact)
{
    for (uint64_t us = 1; us <= 60; us++) {
        lq_latency_add(&latency, us);
    }
    ck_assert_uint_eq(lq_latency_percentile(&latency, 1), 1);
    ck_assert_uint_eq(lq_latency_percentile(&latency, 50), 30);
    ck_assert_uint_eq(lq_latency_percentile(&latency, 100), 60);
}
END_TEST

/* A class ends at most 1/32 behind any of its times, and never before one. */
START_TEST(every_time_is_near_the_end_of_its_class)
{
    for (uint64_t us = 1; us <= UINT32_MAX; us += us / 77 + 1) {
        uint64_t told;
        set_up();
        lq_latency_add(&latency, us);
        told = lq_latency_percentile(&latency, 50);
        ck_assert_uint_ge(told, us);
        ck_assert_uint_le(told, us + us / 32);
    }
    set_up();
    lq_latency_add(&latency, UINT64_MAX);
    ck_assert_uint_eq(lq_latency_percentile(&latency, 50), UINT32_MAX);
}
END_TEST

START_TEST(one_in_a_hundred_is_slow)
{
    static struct lq_latency other;
    for (int i = 0; i < 50; i++) {
        lq_latency_add(&latency, 10);
        lq_latency_add(&other, i == 0 ? 20000 : 11);
    }
    lq_latency_join(&latency, &other);
    ck_assert_uint_eq(latency.n, 100);
    ck_assert_uint_eq(lq_latency_percentile(&latency, 50), 10);
    ck_assert_uint_eq(lq_latency_percentile(&latency, 51), 11);
    ck_assert_uint_eq(lq_latency_percentile(&latency, 99), 11);
    ck_assert_uint_ge(lq_latency_percentile(&latency, 100), 20000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cli_latency");
    TCase *tcase = tcase_create("cli_latency");
    tcase_add_checked_fixture(tcase, set_up, NULL);
    tcase_add_test(tcase, nothing_was_measured);
    tcase_add_test(tcase, short_times_are_exact);
    tcase_add_test(tcase, every_time_is_near_the_end_of_its_class);
    tcase_add_test(tcase, one_in_a_hundred_is_slow);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
