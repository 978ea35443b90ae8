/* Caps of the lock table, one by one, exactly at their edge; their order among the rows of the
 * acquire matrix; and that they come with each command's stamp. */
#include "lq_test.h"
#include "support/table_rig.h"

static struct lq_table_rig rig;

static void setup(void)
{
    lq_table_rig_init(&rig);
}

static void teardown(void)
{
    lq_table_rig_done(&rig);
}

#define DO(words, outcomes) ck_assert_str_eq(lq_table_rig_do(&rig, words), outcomes)

START_TEST(keys)
{
    rig.stamp.caps.keys = 2;
    DO("A 1 0 5 1 a; A 1 9 5 2 b; A 1 0 5 3 c; A 1 9 5 4 c",
       "1/1 granted 1; 1/2 granted 2; 1/3 busy; 1/4 busy");
    DO("A 1 0 5 5 a; A 1 9 5 6 a", "1/5 timeout; 1/6 queued"); /* no new key */
    DO("R 1 2 b; A 1 0 5 7 c; A 1 0 5 8 b", "1/7 released; 1/8 granted 3; 1/9 busy");
    DO("R 1 1 a; A 1 0 5 9 b", "1/10 released; 1/6 granted 4; 1/11 busy"); /* handed on */
}
END_TEST

START_TEST(waiters_per_key)
{
    rig.stamp.caps.waiters_per_key = 2;
    DO("A 1 0 5 1 a; A 1 9 5 2 a; A 2 9 5 3 a; A 1 9 5 4 a; A 2 0 5 5 a",
       "1/1 granted 1; 1/2 queued; 2/1 queued; 1/3 busy; 2/2 timeout");
    DO("A 1 0 5 6 b; A 1 9 5 7 b", "1/4 granted 2; 1/5 queued");
    DO("C 1 2; A 1 9 5 8 a; A 1 9 5 9 a", "1/2 cancelled; 1/7 queued; 1/8 busy");
    DO("R 1 1 a; A 1 9 5 9 a", "1/9 released; 2/1 granted 3; 1/10 queued");
}
END_TEST

START_TEST(waiters)
{
    rig.stamp.caps.waiters = 2;
    DO("A 1 0 5 1 a; A 1 0 5 2 b; A 1 9 5 3 a; A 1 9 5 4 b; A 1 9 5 5 a; A 1 9 5 6 b",
       "1/1 granted 1; 1/2 granted 2; 1/3 queued; 1/4 queued; 1/5 busy; 1/6 busy");
    DO("A 1 0 5 7 a; A 1 9 5 8 c", "1/7 timeout; 1/8 granted 3"); /* not queued: no waiter */
    DO("R 1 1 a; A 1 9 5 9 b", "1/9 released; 1/3 granted 4; 1/10 queued");
}
END_TEST

START_TEST(no_waiters_at_all)
{
    rig.stamp.caps.waiters = 0;
    DO("A 1 0 5 1 a; A 1 9 5 2 a; A 1 0 5 3 a", "1/1 granted 1; 1/2 busy; 1/3 timeout");
}
END_TEST

/* Room for a lock and its key of 3 bytes to the byte, then one byte less. */
START_TEST(state_bytes_for_a_key)
{
    rig.stamp.caps.state_bytes = 2 * LQ_LOCK_BYTES + 3 + 4;
    DO("A 1 0 5 1 abc; A 1 0 5 2 abcde", "1/1 granted 1; 1/2 busy");
    DO("A 1 0 5 3 abcd; A 1 0 5 4 x", "1/3 granted 2; 1/4 busy");
    ck_assert_uint_eq(lq_table_counts(rig.table).state_bytes, rig.stamp.caps.state_bytes);
    DO("A 1 0 5 5 abc; A 1 9 5 6 abc", "1/5 timeout; 1/6 busy");
    DO("R 1 1 abc; A 1 0 5 7 abc", "1/7 released; 1/8 granted 3");
}
END_TEST

START_TEST(state_bytes_for_a_waiter)
{
    rig.stamp.caps.state_bytes = LQ_LOCK_BYTES + 1 + 2 * lq_waiter_bytes(1);
    DO("A 1 0 5 1 a; A 1 9 5 2 a; A 1 9 5 3 a; A 1 9 5 4 a; A 1 0 5 5 a",
       "1/1 granted 1; 1/2 queued; 1/3 queued; 1/4 busy; 1/5 timeout");
    ck_assert_uint_eq(lq_table_counts(rig.table).state_bytes, rig.stamp.caps.state_bytes);
    DO("R 1 1 a; A 1 9 5 6 a; A 1 9 5 7 a", "1/6 released; 1/2 granted 2; 1/7 queued; 1/8 busy");
}
END_TEST

/* Row by row: the key's cap comes first and only for a new key; wait 0 is T whatever the caps; the
 * queue's come last. */
START_TEST(the_order_of_the_rows)
{
    DO("A 1 0 5 1 a", "1/1 granted 1");
    rig.stamp.caps = (struct lq_caps){0};
    DO("A 1 0 5 2 a; A 1 9 5 3 a; A 1 0 5 4 b; A 1 9 5 5 b",
       "1/2 timeout; 1/3 busy; 1/4 busy; 1/5 busy");
    DO("K 1 5 1 a; R 1 1 a; R 1 1 a; A 1 0 5 6 a",
       "1/6 renewed; 1/7 released; 1/8 not held; 1/9 busy"); /* R, K know no cap */
}
END_TEST

/* Caps that fall below what is there refuse what is new and take nothing away. */
START_TEST(caps_may_change_with_every_stamp)
{
    DO("A 1 0 5 1 a; A 1 0 5 2 b; A 1 9 5 3 a; A 1 9 5 4 a",
       "1/1 granted 1; 1/2 granted 2; 1/3 queued; 1/4 queued");
    rig.stamp.caps = (struct lq_caps){
        .keys = 1, .waiters_per_key = 1, .waiters = 1, .state_bytes = LQ_LOCK_BYTES};
    DO("A 1 0 5 5 c; A 1 9 5 6 a; A 1 9 5 7 b", "1/5 busy; 1/6 busy; 1/7 busy");
    DO("R 1 1 a; R 1 3 a; R 1 4 a; R 1 2 b",
       "1/8 released; 1/3 granted 3; 1/9 released; 1/4 granted 4; 1/10 released; 1/11 released");
    DO("A 1 0 5 8 c", "1/12 busy"); /* one byte too much */
    rig.stamp.caps.state_bytes++;
    DO("A 1 0 5 9 c", "1/13 granted 5");
}
END_TEST

START_TEST(counts_add_up)
{
    struct lq_table_counts counts;
    DO("A 1 0 5 1 abc; A 1 9 5 2 abc; A 2 9 5 3 abc; A 1 0 5 4 d",
       "1/1 granted 1; 1/2 queued; 2/1 queued; 1/3 granted 2");
    counts = lq_table_counts(rig.table);
    ck_assert_uint_eq(counts.keys, 2);
    ck_assert_uint_eq(counts.waiters, 2);
    ck_assert_uint_eq(counts.state_bytes, 2 * LQ_LOCK_BYTES + 4 + 2 * lq_waiter_bytes(3));
    ck_assert_uint_eq(counts.last_token, 2);
    ck_assert_uint_eq(counts.time_ms, 1000);
    ck_assert_str_eq(lq_table_rig_after(&rig, 5, "X 2 d"), "stale");
    ck_assert_uint_eq(lq_table_counts(rig.table).time_ms, 1005);
}
END_TEST

static Suite *table_caps_suite(void)
{
    Suite *suite = suite_create("table_caps");
    TCase *tcase = tcase_create("caps");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, keys);
    tcase_add_test(tcase, waiters_per_key);
    tcase_add_test(tcase, waiters);
    tcase_add_test(tcase, no_waiters_at_all);
    tcase_add_test(tcase, state_bytes_for_a_key);
    tcase_add_test(tcase, state_bytes_for_a_waiter);
    tcase_add_test(tcase, the_order_of_the_rows);
    tcase_add_test(tcase, caps_may_change_with_every_stamp);
    tcase_add_test(tcase, counts_add_up);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(table_caps_suite());
}
