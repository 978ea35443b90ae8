/* Release, renew and ping as transitions of the client's core. (Acquire: test_client_core.c.) */
#include "client_rig.h"

START_TEST(release_is_repeated)
{
    begin(LQ_GOAL_RELEASE, 1, 0, 1000);
    connect_now(1000);
    ck_assert_int_eq(written(1000, -1).op, 'R');
    lq_core_lost(&core, 1000, LQ_WHY_EOF);
    connect_now(1100);
    ck_assert_uint_eq(written(1100, -1).token, TOKEN);
    answer('N', 1101);
    expect(LOQUET_NOT_HELD, 1101);
    ck_assert(outcome.repeated);
    begin(LQ_GOAL_RELEASE, 0, 0, 2000);
    (void)written(2000, -1);
    answer('R', 2001);
    expect(LOQUET_RELEASED, 2001);
    ck_assert(!outcome.repeated);
}
END_TEST

START_TEST(renewal_counts_from_its_sending)
{
    begin(LQ_GOAL_RENEW, 0, 10, 1000);
    connect_now(1000);
    ck_assert_int_eq(written(1010, -1).op, 'K');
    answer('K', 1500);
    expect(LOQUET_RENEWED, 1500);
    ck_assert_uint_eq(outcome.ends_ms, 1010 + 9800);
    begin(LQ_GOAL_RENEW, 0, 10, 2000);
    (void)written(2000, -1);
    lq_core_tick(&core, 3000); /* a third of its time: another connection */
    ck_assert_int_eq(core.conn, LQ_CONN_NONE);
    lq_core_tick(&core, 5000);
    expect(LOQUET_INDETERMINATE, 5000);
}
END_TEST

START_TEST(server_without_renewals)
{
    begin(LQ_GOAL_RENEW, 0, 10, 1000);
    connect_now(1000);
    (void)written(1000, -1);
    answer('E', 1001);
    expect(LOQUET_INVALID, 1001);
}
END_TEST

START_TEST(idle_connection_that_ended)
{
    size_t address;
    begin(LQ_GOAL_PING, 0, 0, 1000);
    connect_now(1000);
    answer_as('P', written(1000, -1).owner, 0, "", 1001);
    expect(LOQUET_ALIVE, 1001);
    begin(LQ_GOAL_RELEASE, 0, 0, 2000);
    lq_core_lost(&core, 2000, LQ_WHY_EOF); /* costs no try: it may have been dead for long */
    ck_assert(lq_core_dial(&core, 2000, &address));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client step");
    TCase *tcase = tcase_create("client step");

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, release_is_repeated);
    tcase_add_test(tcase, renewal_counts_from_its_sending);
    tcase_add_test(tcase, server_without_renewals);
    tcase_add_test(tcase, idle_connection_that_ended);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
