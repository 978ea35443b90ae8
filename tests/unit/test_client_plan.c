/* When a lease is renewed and the work under it ended. */
#include "lq_plan.h"
#include "lq_test.h"

START_TEST(plan_by_the_clock)
{
    struct lq_plan plan;
    lq_plan_init(&plan, 1, 1000, 1980);
    ck_assert_uint_eq(plan.renew_ms, 1333);
    ck_assert_uint_eq(lq_plan_due_ms(&plan), 1680);
    ck_assert_int_eq(lq_plan_next(&plan, 1679), LQ_PLAN_GO_ON);
    ck_assert_int_eq(lq_plan_next(&plan, 1680), LQ_PLAN_TERM);
    ck_assert_int_eq(lq_plan_next(&plan, 1681), LQ_PLAN_GO_ON);
    ck_assert_int_eq(lq_plan_next(&plan, 1880), LQ_PLAN_KILL);
    ck_assert_int_eq(lq_plan_next(&plan, 1881), LQ_PLAN_KILL);
    ck_assert(lq_plan_is_lease_over(&plan, 1680));
}
END_TEST

START_TEST(plan_renewed_and_ended)
{
    struct lq_plan plan;
    lq_plan_init(&plan, 1, 1000, 1980);
    lq_plan_renewed(&plan, 1, 1500, 2480);
    ck_assert_int_eq(lq_plan_next(&plan, 1900), LQ_PLAN_GO_ON);
    ck_assert_int_eq(lq_plan_next(&plan, 2180), LQ_PLAN_TERM);
    lq_plan_renewed(&plan, 1, 2190, 3170); /* too late to go on */
    ck_assert_int_eq(lq_plan_next(&plan, 2379), LQ_PLAN_GO_ON);
    ck_assert_int_eq(lq_plan_next(&plan, 2380), LQ_PLAN_KILL);
    lq_plan_init(&plan, 30, 1000, 30400);
    lq_plan_end(&plan, 2000, 1000, 5000);
    lq_plan_end(&plan, 2500, 0, 500);
    ck_assert_int_eq(lq_plan_next(&plan, 2500), LQ_PLAN_TERM);
    ck_assert_int_eq(lq_plan_next(&plan, 3000), LQ_PLAN_KILL);
    ck_assert(!lq_plan_is_lease_over(&plan, 3000));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client plan");
    TCase *tcase = tcase_create("client plan");

    tcase_add_test(tcase, plan_by_the_clock);
    tcase_add_test(tcase, plan_renewed_and_ended);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
