/* The lock table, row by row: both matrices of docs/protocol.md, queues, renewals, cancels and
 * expiries. How commands and outcomes are written: table_rig.h. */
#include "lq_heap.h"
#include "lq_limits.h"
#include "lq_test.h"
#include "support/table_rig.h"

#include <string.h>

static struct lq_table_rig rig;

static void setup(void)
{
    lq_table_rig_init(&rig);
}

static void teardown(void)
{
    lq_table_rig_done(&rig);
}

#define DO(words, outcomes)        ck_assert_str_eq(lq_table_rig_do(&rig, words), outcomes)
#define AFTER(ms, words, outcomes) ck_assert_str_eq(lq_table_rig_after(&rig, ms, words), outcomes)

static struct lq_table_counts counts(void)
{
    return lq_table_counts(rig.table);
}

/* ---- Acquire. */

START_TEST(an_unregistered_key_is_granted)
{
    DO("A 1 0 5 7 k", "1/1 granted 1");
    ck_assert_uint_eq(rig.outcomes.items[0].lease_s, 5);
    ck_assert_uint_eq(rig.outcomes.items[0].stamp_ms, 1000);
    ck_assert_uint_eq(counts().keys, 1);
    DO("A 1 10 5 7 other", "1/2 granted 2");
    ck_assert_uint_eq(counts().keys, 2);
    ck_assert_uint_eq(counts().waiters, 0);
    ck_assert_uint_eq(counts().last_token, 2);
}
END_TEST

START_TEST(wait_0_on_a_held_key_times_out)
{
    DO("A 1 0 5 7 k; A 1 0 5 8 k; A 2 0 5 9 k", "1/1 granted 1; 1/2 timeout; 2/1 timeout");
    ck_assert_uint_eq(counts().waiters, 0);
}
END_TEST

START_TEST(the_same_owner_gets_no_special_treatment)
{
    DO("A 1 0 5 7 k; A 1 0 5 7 k; A 1 10 5 7 k; A 1 10 5 7 k",
       "1/1 granted 1; 1/2 timeout; 1/3 queued; 1/4 queued");
    DO("R 1 1 k; R 1 2 k; R 1 3 k",
       "1/5 released; 1/3 granted 2; 1/6 released; 1/4 granted 3; 1/7 released");
}
END_TEST

START_TEST(an_expired_holder_still_holds_until_its_expire)
{
    DO("A 1 0 1 7 k", "1/1 granted 1");
    AFTER(5000, "A 1 0 1 7 k; A 1 9 1 7 k", "1/2 timeout; 1/3 queued");
    DO("X 1 k", "expired; 1/3 granted 2");
}
END_TEST

START_TEST(any_byte_may_stand_in_a_key)
{
    uint8_t key[LQ_KEY_MAX];
    struct lq_command command = {.type = LQ_COMMAND_ACQUIRE,
                                 .lease_s = 5,
                                 .origin = {.node = 1, .incarnation = 1},
                                 .key = key};
    for (size_t i = 0; i < sizeof key; i++) {
        key[i] = (uint8_t)(i * 7 + 1);
    }
    for (command.key_len = 1; command.key_len <= LQ_KEY_MAX; command.key_len++) {
        struct lq_command due;
        command.seq++;
        lq_table_apply(rig.table, &command, &rig.stamp, &rig.outcomes);
        ck_assert(lq_table_key_due(rig.table, key, command.key_len, UINT64_MAX, &due));
        ck_assert_uint_eq(due.token, command.key_len);
        ck_assert_uint_eq(due.key_len, command.key_len);
        ck_assert_mem_eq(due.key, key, command.key_len);
    }
    ck_assert_uint_eq(counts().keys, LQ_KEY_MAX);
}
END_TEST

/* ---- Release. */

START_TEST(release_with_the_token_deletes_the_key)
{
    DO("A 1 0 5 7 k; R 2 1 k; R 2 1 k", "1/1 granted 1; 2/1 released; 2/2 not held");
    ck_assert_uint_eq(counts().keys, 0);
    ck_assert_uint_eq(counts().state_bytes, 0);
    DO("A 1 0 5 7 k", "1/2 granted 2");
}
END_TEST

START_TEST(release_hands_over_in_order)
{
    DO("A 1 0 5 1 k; A 2 9 6 2 k; A 1 9 7 3 k; A 2 9 8 4 k",
       "1/1 granted 1; 2/1 queued; 1/2 queued; 2/2 queued");
    AFTER(10, "R 1 1 k", "1/3 released; 2/1 granted 2");
    ck_assert_uint_eq(rig.outcomes.items[1].lease_s, 6);
    ck_assert_uint_eq(rig.outcomes.items[1].stamp_ms, 1010);
    DO("A 1 0 5 5 k; A 1 9 5 6 k", "1/4 timeout; 1/5 queued"); /* nobody barges in */
    DO("R 1 2 k; R 1 3 k; R 1 4 k; R 1 5 k", "1/6 released; 1/2 granted 3; 1/7 released; "
                                             "2/2 granted 4; 1/8 released; 1/5 granted 5; "
                                             "1/9 released");
    ck_assert_uint_eq(counts().keys, 0);
}
END_TEST

START_TEST(release_with_another_token_does_nothing)
{
    DO("A 1 0 5 7 k; A 1 9 5 8 k", "1/1 granted 1; 1/2 queued");
    DO("R 1 0 k; R 1 2 k; R 1 18446744073709551615 k; R 1 1 j",
       "1/3 not held; 1/4 not held; 1/5 not held; 1/6 not held");
    DO("R 1 1 k; R 1 1 k", "1/7 released; 1/2 granted 2; 1/8 not held");
}
END_TEST

START_TEST(release_of_an_expired_key_is_released)
{
    DO("A 1 0 1 7 k", "1/1 granted 1");
    AFTER(10000, "R 1 1 k; R 1 1 k", "1/2 released; 1/3 not held");
}
END_TEST

START_TEST(force_release_needs_no_token)
{
    DO("A 1 0 5 7 k; A 1 9 5 8 k", "1/1 granted 1; 1/2 queued");
    DO("F 2 k; F 2 k; F 2 k", "2/1 released; 1/2 granted 2; 2/2 released; 2/3 not held");
    ck_assert_uint_eq(counts().keys, 0);
}
END_TEST

/* ---- Renew. */

START_TEST(renew_counts_from_now)
{
    DO("A 1 0 5 7 k", "1/1 granted 1");
    AFTER(4000, "K 2 2 1 k", "2/1 renewed"); /* ends at 7001, after the first end at 6001 */
    AFTER(2000, "X 1 k", "stale");
    ck_assert_uint_eq(lq_table_next_deadline(rig.table, LQ_WHICH_ALL), 7001);
    AFTER(1, "X 1 k", "expired");
}
END_TEST

START_TEST(renew_may_shorten)
{
    DO("A 1 0 255 7 k; K 1 1 1 k", "1/1 granted 1; 1/2 renewed");
    ck_assert_uint_eq(lq_table_next_deadline(rig.table, LQ_WHICH_ALL), 2001);
}
END_TEST

START_TEST(renew_is_refused_without_the_grant)
{
    DO("A 1 0 5 7 k", "1/1 granted 1");
    DO("K 1 5 2 k; K 1 5 0 k; K 1 5 1 j", "1/2 not held; 1/3 not held; 1/4 not held");
    AFTER(5000, "K 1 5 1 k", "1/5 renewed");  /* the last ms */
    AFTER(5001, "K 1 5 1 k", "1/6 not held"); /* ended, not yet swept */
    ck_assert_uint_eq(counts().keys, 1);
    DO("X 1 k; K 1 5 1 k", "expired; 1/7 not held");
}
END_TEST

START_TEST(renew_holds_off_those_who_wait)
{
    DO("A 1 0 1 7 k; A 1 9 1 8 k", "1/1 granted 1; 1/2 queued");
    AFTER(1000, "K 1 9 1 k", "1/3 renewed");
    AFTER(1000, "X 1 k", "stale");
    ck_assert_uint_eq(lq_table_next_deadline(rig.table, LQ_WHICH_CONTENDED), 11001);
}
END_TEST

/* ---- Cancel. */

START_TEST(cancel_takes_its_place_from_the_queue)
{
    DO("A 1 0 5 1 k; A 1 9 5 2 k; A 1 9 5 3 k; A 1 9 5 4 k",
       "1/1 granted 1; 1/2 queued; 1/3 queued; 1/4 queued");
    DO("C 1 3; C 1 3; R 1 1 k; R 1 2 k; R 1 3 k",
       "1/3 cancelled; 1/6 not queued; 1/7 released; 1/2 granted 2; 1/8 released; "
       "1/4 granted 3; 1/9 released");
    ck_assert_uint_eq(counts().waiters, 0);
}
END_TEST

START_TEST(cancel_of_head_and_tail)
{
    DO("A 1 0 5 1 k; A 1 9 5 2 k; A 1 9 5 3 k; A 1 9 5 4 k; C 1 2; C 1 4",
       "1/1 granted 1; 1/2 queued; 1/3 queued; 1/4 queued; 1/2 cancelled; 1/4 cancelled");
    DO("A 1 9 5 5 k; R 1 1 k; R 1 2 k",
       "1/7 queued; 1/8 released; 1/3 granted 2; 1/9 released; 1/7 granted 3");
}
END_TEST

START_TEST(cancel_of_what_is_not_queued)
{
    DO("A 1 0 5 1 k; C 1 1; C 1 99; C 1 2", "1/1 granted 1; 1/2 not queued; 1/3 not queued; "
                                            "1/4 not queued");
    DO("A 2 9 5 2 k; C 1 1", "2/1 queued; 1/5 not queued"); /* another origin's */
    ck_assert_uint_eq(counts().waiters, 1);
    DO("C 2 1", "2/1 cancelled");
    DO("R 1 1 k", "1/6 released");
    ck_assert_uint_eq(counts().state_bytes, 0);
}
END_TEST

/* ---- Expire. */

START_TEST(expire_needs_token_and_time)
{
    DO("A 1 0 5 7 k; X 1 k", "1/1 granted 1; stale");
    AFTER(5000, "X 1 k", "stale");
    AFTER(1, "X 2 k; X 1 j; X 1 k; X 1 k", "stale; stale; expired; stale");
    ck_assert_uint_eq(counts().keys, 0);
}
END_TEST

START_TEST(expire_hands_over_in_order)
{
    DO("A 1 0 1 1 k; A 1 9 2 2 k; A 1 9 3 3 k", "1/1 granted 1; 1/2 queued; 1/3 queued");
    AFTER(1001, "X 1 k", "expired; 1/2 granted 2");
    ck_assert_uint_eq(lq_table_next_deadline(rig.table, LQ_WHICH_CONTENDED), 1000 + 1001 + 2001);
    AFTER(2001, "X 2 k", "expired; 1/3 granted 3");
    ck_assert_uint_eq(lq_table_next_deadline(rig.table, LQ_WHICH_CONTENDED), LQ_NEVER);
    ck_assert_uint_eq(lq_table_next_deadline(rig.table, LQ_WHICH_ALL), 1000 + 1001 + 2001 + 3001);
}
END_TEST

/* What is due, earliest first, and never a ms early; contended ones are among all. */
START_TEST(due_locks_are_told_in_time)
{
    DO("A 1 0 3 1 a; A 1 0 2 2 b; A 1 0 1 3 c; A 1 9 1 4 b",
       "1/1 granted 1; 1/2 granted 2; 1/3 granted 3; 1/4 queued");
    rig.stamp.time_ms = 2000;
    ck_assert_str_eq(lq_table_rig_due(&rig, LQ_WHICH_ALL), "");
    rig.stamp.time_ms = 2001;
    ck_assert_str_eq(lq_table_rig_due(&rig, LQ_WHICH_ALL), "3 c");
    rig.stamp.time_ms = 9000;
    ck_assert_str_eq(lq_table_rig_due(&rig, LQ_WHICH_CONTENDED), "2 b");
    DO("X 3 c", "expired");
    ck_assert_str_eq(lq_table_rig_due(&rig, LQ_WHICH_ALL), "2 b");
    DO("C 1 4", "1/4 cancelled");
    ck_assert_str_eq(lq_table_rig_due(&rig, LQ_WHICH_CONTENDED), "");
    ck_assert_str_eq(lq_table_rig_due(&rig, LQ_WHICH_ALL), "2 b");
    DO("X 2 b", "expired");
    ck_assert_str_eq(lq_table_rig_due(&rig, LQ_WHICH_ALL), "1 a");
    DO("X 1 a", "expired");
    ck_assert_str_eq(lq_table_rig_due(&rig, LQ_WHICH_ALL), "");
}
END_TEST

START_TEST(the_due_lock_of_one_key)
{
    struct lq_command expire = {.token = 99};
    DO("A 1 0 1 1 k", "1/1 granted 1");
    ck_assert(!lq_table_key_due(rig.table, (const uint8_t *)"k", 1, 2000, &expire));
    ck_assert(!lq_table_key_due(rig.table, (const uint8_t *)"j", 1, 9000, &expire));
    ck_assert_uint_eq(expire.token, 99);
    ck_assert(lq_table_key_due(rig.table, (const uint8_t *)"k", 1, 2001, &expire));
    ck_assert_uint_eq(expire.type, LQ_COMMAND_EXPIRE);
    ck_assert_uint_eq(expire.token, 1);
    ck_assert_uint_eq(expire.key_len, 1);
}
END_TEST

static Suite *table_suite(void)
{
    Suite *suite = suite_create("table");
    TCase *tcase = tcase_create("table");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, an_unregistered_key_is_granted);
    tcase_add_test(tcase, wait_0_on_a_held_key_times_out);
    tcase_add_test(tcase, the_same_owner_gets_no_special_treatment);
    tcase_add_test(tcase, an_expired_holder_still_holds_until_its_expire);
    tcase_add_test(tcase, any_byte_may_stand_in_a_key);
    tcase_add_test(tcase, release_with_the_token_deletes_the_key);
    tcase_add_test(tcase, release_hands_over_in_order);
    tcase_add_test(tcase, release_with_another_token_does_nothing);
    tcase_add_test(tcase, release_of_an_expired_key_is_released);
    tcase_add_test(tcase, force_release_needs_no_token);
    tcase_add_test(tcase, renew_counts_from_now);
    tcase_add_test(tcase, renew_may_shorten);
    tcase_add_test(tcase, renew_is_refused_without_the_grant);
    tcase_add_test(tcase, renew_holds_off_those_who_wait);
    tcase_add_test(tcase, cancel_takes_its_place_from_the_queue);
    tcase_add_test(tcase, cancel_of_head_and_tail);
    tcase_add_test(tcase, cancel_of_what_is_not_queued);
    tcase_add_test(tcase, expire_needs_token_and_time);
    tcase_add_test(tcase, expire_hands_over_in_order);
    tcase_add_test(tcase, due_locks_are_told_in_time);
    tcase_add_test(tcase, the_due_lock_of_one_key);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(table_suite());
}
