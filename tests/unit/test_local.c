/* The backend of simple mode by itself: lazy expiry, the sweep and its slices, what it asks for as
 * the next turn, quarantine. How clients see all this: test_session_waits.c. */
#include "lq_limits.h"
#include "lq_test.h"
#include "support/local_rig.h"

#include <stdio.h>
#include <string.h>

#define START    LQ_LOCAL_RIG_START
#define SWEEP_MS LQ_LOCAL_RIG_SWEEP

static struct lq_local_rig rig;

static void begin_with(const struct lq_local_options *options)
{
    lq_local_rig_done(&rig);
    lq_local_rig_init(&rig, options);
}

static void setup(void)
{
    struct lq_local_options options = lq_local_rig_defaults();
    lq_local_rig_init(&rig, &options);
}

static void teardown(void)
{
    lq_local_rig_done(&rig);
}

/* `n` keys that nobody waits for, with a lease of 2 s. */
static void register_many(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "key-%zu", i);
        (void)lq_local_rig_acquire(&rig, key, 0);
    }
    lq_local_rig_drop_answers(&rig);
}

/* ---- Answers. */

START_TEST(each_request_is_answered)
{
    struct lq_request *first, *waiter, *other;
    lq_local_rig_begin(&rig, START);
    first = lq_local_rig_acquire(&rig, "k", 0);
    lq_local_rig_check(&rig, first, LQ_ANSWER_GRANTED, 1);
    lq_local_rig_check(&rig, lq_local_rig_acquire(&rig, "k", 0), LQ_ANSWER_TIMEOUT, 0);
    waiter = lq_local_rig_acquire(&rig, "k", 9);
    lq_local_rig_check(&rig, waiter, LQ_ANSWER_OPEN, 0);
    other = lq_local_rig_acquire(&rig, "k", 9);
    lq_local_rig_check(&rig, other, LQ_ANSWER_OPEN, 0);
    lq_local_rig_check(&rig, lq_local_rig_submit(&rig, LQ_OP_RENEW, "k", 0, 1), LQ_ANSWER_RENEWED,
                       0);
    lq_local_rig_check(&rig, lq_local_rig_submit(&rig, LQ_OP_RENEW, "k", 0, 2), LQ_ANSWER_NOT_HELD,
                       0);
    lq_local_rig_check(&rig, lq_local_rig_submit(&rig, LQ_OP_RELEASE, "k", 0, 2),
                       LQ_ANSWER_NOT_HELD, 0);
    lq_local_rig_check_none(&rig);
    lq_local_rig_check(&rig, lq_local_rig_submit(&rig, LQ_OP_RELEASE, "k", 0, 1),
                       LQ_ANSWER_RELEASED, 0);
    lq_local_rig_check(&rig, waiter, LQ_ANSWER_GRANTED, 2);
    rig.backend->ops->cancel(rig.backend, other);
    lq_local_rig_check(&rig, other, LQ_ANSWER_CANCELLED, 0);
    lq_local_rig_check_none(&rig);
    lq_local_rig_end(&rig);
    lq_local_rig_check_none(&rig);
}
END_TEST

/* Granted in the turn in which it is cancelled: the grant is its last answer. */
START_TEST(a_grant_that_came_first_stays)
{
    struct lq_request *waiter;
    lq_local_rig_begin(&rig, START);
    (void)lq_local_rig_acquire(&rig, "k", 0);
    waiter = lq_local_rig_acquire(&rig, "k", 9);
    lq_local_rig_drop_answers(&rig);
    (void)lq_local_rig_submit(&rig, LQ_OP_RELEASE, "k", 0, 1);
    rig.backend->ops->cancel(rig.backend, waiter);
    lq_local_rig_check(&rig, rig.requests[2], LQ_ANSWER_RELEASED, 0);
    lq_local_rig_check(&rig, waiter, LQ_ANSWER_GRANTED, 2);
    lq_local_rig_check_none(&rig);
}
END_TEST

START_TEST(tokens_begin_where_they_should)
{
    struct lq_local_options options = lq_local_rig_defaults();
    options.first_token = UINT64_C(1700000000000000);
    begin_with(&options);
    lq_local_rig_begin(&rig, START);
    lq_local_rig_check(&rig, lq_local_rig_acquire(&rig, "k", 0), LQ_ANSWER_GRANTED,
                       UINT64_C(1700000000000000));
    lq_local_rig_check(&rig, lq_local_rig_acquire(&rig, "j", 0), LQ_ANSWER_GRANTED,
                       UINT64_C(1700000000000001));
}
END_TEST

/* ---- Expiry. */

START_TEST(an_expired_key_is_taken_over_by_the_next_acquire)
{
    lq_local_rig_begin(&rig, START);
    lq_local_rig_check(&rig, lq_local_rig_acquire(&rig, "k", 0), LQ_ANSWER_GRANTED, 1);
    lq_local_rig_end(&rig);
    lq_local_rig_begin(&rig, START + 2000);
    lq_local_rig_check(&rig, lq_local_rig_acquire(&rig, "k", 0), LQ_ANSWER_TIMEOUT, 0);
    lq_local_rig_end(&rig);
    lq_local_rig_begin(&rig, START + 2001);
    ck_assert_uint_eq(lq_local_rig_counts(&rig).keys, 1); /* nobody waits: it lies there */
    lq_local_rig_check(&rig, lq_local_rig_acquire(&rig, "k", 0), LQ_ANSWER_GRANTED, 2);
    lq_local_rig_check(&rig, lq_local_rig_acquire(&rig, "k", 0), LQ_ANSWER_TIMEOUT, 0);
    lq_local_rig_end(&rig);
}
END_TEST

START_TEST(a_waiter_is_granted_at_the_deadline)
{
    struct lq_request *waiter;
    lq_local_rig_begin(&rig, START);
    (void)lq_local_rig_acquire(&rig, "k", 0);
    lq_local_rig_drop_answers(&rig);
    ck_assert_uint_eq(lq_local_rig_deadline(&rig), START + SWEEP_MS);
    waiter = lq_local_rig_acquire(&rig, "k", 9);
    lq_local_rig_drop_answers(&rig);
    lq_local_rig_end(&rig);
    ck_assert_uint_eq(lq_local_rig_deadline(&rig), START + 2001);
    lq_local_rig_begin(&rig, START + 2000);
    lq_local_rig_check_none(&rig);
    lq_local_rig_end(&rig);
    lq_local_rig_begin(&rig, START + 2001);
    lq_local_rig_check(&rig, waiter, LQ_ANSWER_GRANTED, 2);
    lq_local_rig_end(&rig);
    ck_assert_uint_eq(lq_local_rig_deadline(&rig), START + SWEEP_MS);
}
END_TEST

static void name_key(size_t i, char ret_key[32])
{
    (void)snprintf(ret_key, 32, "key-%zu", i);
}

/* A key below `n` whose lease has ended. */
static size_t find_due(size_t n)
{
    struct lq_command expire;
    char key[32];
    for (size_t i = 0; i < n; i++) {
        name_key(i, key);
        if (lq_table_key_due(lq_local_table(rig.backend), (const uint8_t *)key, strlen(key),
                             rig.now_ms, &expire)) {
            return i;
        }
    }
    ck_abort_msg("nothing is due");
    return n;
}

/* More are due than one turn hands on; an acquire that meets one of the rest finds it handed on. */
START_TEST(due_locks_are_handed_on_in_slices)
{
    size_t n = LQ_TURN_EXPIRES + 7, at;
    struct lq_request *late;
    char key[32];
    lq_local_rig_begin(&rig, START);
    register_many(n);
    for (size_t i = 0; i < n; i++) {
        name_key(i, key);
        (void)lq_local_rig_acquire(&rig, key, 9);
    }
    lq_local_rig_drop_answers(&rig);
    lq_local_rig_end(&rig);
    lq_local_rig_begin(&rig, START + 2001);
    ck_assert_uint_eq(lq_local_rig_counts(&rig).waiters, n - LQ_TURN_EXPIRES);
    lq_local_rig_drop_answers(&rig);
    at = find_due(n);
    name_key(at, key);
    late = lq_local_rig_acquire(&rig, key, 0);
    lq_local_rig_check(&rig, rig.requests[n + at], LQ_ANSWER_GRANTED, n + LQ_TURN_EXPIRES + 1);
    lq_local_rig_check(&rig, late, LQ_ANSWER_TIMEOUT, 0);
    lq_local_rig_end(&rig);
    ck_assert_uint_le(lq_local_rig_deadline(&rig), rig.now_ms);
    lq_local_rig_turn(&rig, START + 2001);
    ck_assert_uint_eq(lq_local_rig_counts(&rig).waiters, 0);
    ck_assert_uint_gt(lq_local_rig_deadline(&rig), rig.now_ms);
    lq_local_rig_drop_answers(&rig);
}
END_TEST

/* ---- The sweep. */

/* At fixed times from the beginning, however late a turn is. */
START_TEST(the_sweep_keeps_its_times)
{
    lq_local_rig_begin(&rig, START);
    (void)lq_local_rig_acquire(&rig, "k", 0);
    lq_local_rig_drop_answers(&rig);
    lq_local_rig_end(&rig);
    lq_local_rig_turn(&rig, START + SWEEP_MS - 1);
    ck_assert_uint_eq(lq_local_rig_counts(&rig).keys, 1);
    lq_local_rig_turn(&rig, START + SWEEP_MS + 1234);
    ck_assert_uint_eq(lq_local_rig_counts(&rig).keys, 0);
    ck_assert_uint_eq(lq_local_rig_deadline(&rig), LQ_NEVER);
    lq_local_rig_begin(&rig, START + SWEEP_MS + 2000);
    (void)lq_local_rig_acquire(&rig, "k", 0);
    lq_local_rig_drop_answers(&rig);
    lq_local_rig_end(&rig);
    ck_assert_uint_eq(lq_local_rig_deadline(&rig), START + 2 * SWEEP_MS);
    lq_local_rig_turn(&rig, START + 2 * SWEEP_MS - 1);
    ck_assert_uint_eq(lq_local_rig_counts(&rig).keys, 1);
    lq_local_rig_turn(&rig, START + 2 * SWEEP_MS);
    ck_assert_uint_eq(lq_local_rig_counts(&rig).keys, 0);
}
END_TEST

START_TEST(the_sweep_leaves_what_is_held)
{
    lq_local_rig_begin(&rig, START);
    (void)lq_local_rig_acquire(&rig, "k", 0);
    lq_local_rig_end(&rig);
    lq_local_rig_begin(&rig, START + 3500);
    (void)lq_local_rig_acquire(&rig, "j", 0);
    lq_local_rig_end(&rig);
    lq_local_rig_drop_answers(&rig);
    lq_local_rig_turn(&rig, START + SWEEP_MS);
    ck_assert_uint_eq(lq_local_rig_counts(&rig).keys, 1);
    ck_assert_uint_eq(lq_local_rig_deadline(&rig), START + 2 * SWEEP_MS);
    lq_local_rig_begin(&rig, START + SWEEP_MS);
    lq_local_rig_check(&rig, lq_local_rig_submit(&rig, LQ_OP_RELEASE, "j", 0, 2),
                       LQ_ANSWER_RELEASED, 0);
}
END_TEST

START_TEST(the_sweep_goes_in_slices)
{
    size_t n = 3 * LQ_TURN_EXPIRES + 5;
    lq_local_rig_begin(&rig, START);
    register_many(n);
    lq_local_rig_end(&rig);
    lq_local_rig_turn(&rig, START + SWEEP_MS);
    for (size_t left = n - LQ_TURN_EXPIRES; left > LQ_TURN_EXPIRES; left -= LQ_TURN_EXPIRES) {
        ck_assert_uint_eq(lq_local_rig_counts(&rig).keys, left);
        ck_assert_uint_eq(lq_local_rig_deadline(&rig), 0); /* at once */
        lq_local_rig_turn(&rig, rig.now_ms);
    }
    ck_assert_uint_eq(lq_local_rig_counts(&rig).keys, 5);
    lq_local_rig_turn(&rig, rig.now_ms);
    ck_assert_uint_eq(lq_local_rig_counts(&rig).keys, 0);
    ck_assert_uint_eq(lq_local_rig_deadline(&rig), LQ_NEVER);
}
END_TEST

/* A slice that ends with the last key is followed by an empty one, not by none for ever. */
START_TEST(the_sweep_of_exactly_one_slice)
{
    lq_local_rig_begin(&rig, START);
    register_many(LQ_TURN_EXPIRES);
    lq_local_rig_end(&rig);
    lq_local_rig_turn(&rig, START + SWEEP_MS);
    ck_assert_uint_eq(lq_local_rig_counts(&rig).keys, 0);
    lq_local_rig_turn(&rig, rig.now_ms);
    ck_assert_uint_eq(lq_local_rig_deadline(&rig), LQ_NEVER);
}
END_TEST

START_TEST(nothing_to_do_is_never)
{
    ck_assert_uint_eq(lq_local_rig_deadline(&rig), LQ_NEVER);
    lq_local_rig_turn(&rig, START + 1000000);
    ck_assert_uint_eq(lq_local_rig_deadline(&rig), LQ_NEVER);
}
END_TEST

/* ---- Quarantine. */

static void begin_in_quarantine(void)
{
    struct lq_local_options options = lq_local_rig_defaults();
    options.quarantine_s = 2;
    options.caps.waiters = 3;
    begin_with(&options);
}

START_TEST(quarantine_holds_back)
{
    struct lq_request *first, *second, *third;
    begin_in_quarantine();
    lq_local_rig_begin(&rig, START);
    lq_local_rig_check(&rig, lq_local_rig_acquire(&rig, "k", 0), LQ_ANSWER_TIMEOUT, 0);
    first = lq_local_rig_acquire(&rig, "k", 9);
    lq_local_rig_check(&rig, first, LQ_ANSWER_OPEN, 0);
    second = lq_local_rig_acquire(&rig, "k", 9);
    lq_local_rig_check(&rig, second, LQ_ANSWER_OPEN, 0);
    third = lq_local_rig_acquire(&rig, "j", 9);
    lq_local_rig_check(&rig, third, LQ_ANSWER_OPEN, 0);
    lq_local_rig_check(&rig, lq_local_rig_acquire(&rig, "i", 9), LQ_ANSWER_BUSY, 0);
    lq_local_rig_check(&rig, lq_local_rig_submit(&rig, LQ_OP_RELEASE, "k", 0, 1),
                       LQ_ANSWER_NOT_HELD, 0);
    lq_local_rig_check(&rig, lq_local_rig_submit(&rig, LQ_OP_RENEW, "k", 0, 1), LQ_ANSWER_NOT_HELD,
                       0);
    lq_local_rig_end(&rig);
    ck_assert_uint_eq(lq_local_rig_deadline(&rig), START + 2001);
    lq_local_rig_begin(&rig, START + 2000);
    lq_local_rig_check_none(&rig);
    rig.backend->ops->cancel(rig.backend, third);
    lq_local_rig_check(&rig, third, LQ_ANSWER_CANCELLED, 0);
    lq_local_rig_end(&rig);
    lq_local_rig_begin(&rig, START + 2001);
    lq_local_rig_check(&rig, first, LQ_ANSWER_GRANTED, 1);
    lq_local_rig_check(&rig, second, LQ_ANSWER_OPEN, 0);
    lq_local_rig_check_none(&rig);
    lq_local_rig_check(&rig, lq_local_rig_acquire(&rig, "j", 0), LQ_ANSWER_GRANTED, 2);
    rig.backend->ops->cancel(rig.backend, second);
    lq_local_rig_check(&rig, second, LQ_ANSWER_CANCELLED, 0);
    lq_local_rig_end(&rig);
}
END_TEST

/* Nobody waits for its end: no turn is asked for, and it ends all the same. */
START_TEST(quarantine_ends_unseen)
{
    begin_in_quarantine();
    ck_assert_uint_eq(lq_local_rig_deadline(&rig), LQ_NEVER);
    lq_local_rig_begin(&rig, START + 2001);
    lq_local_rig_check(&rig, lq_local_rig_acquire(&rig, "k", 0), LQ_ANSWER_GRANTED, 1);
}
END_TEST

static Suite *local_suite(void)
{
    Suite *suite = suite_create("local");
    TCase *tcase = tcase_create("local");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, each_request_is_answered);
    tcase_add_test(tcase, a_grant_that_came_first_stays);
    tcase_add_test(tcase, tokens_begin_where_they_should);
    tcase_add_test(tcase, an_expired_key_is_taken_over_by_the_next_acquire);
    tcase_add_test(tcase, a_waiter_is_granted_at_the_deadline);
    tcase_add_test(tcase, due_locks_are_handed_on_in_slices);
    tcase_add_test(tcase, the_sweep_keeps_its_times);
    tcase_add_test(tcase, the_sweep_leaves_what_is_held);
    tcase_add_test(tcase, the_sweep_goes_in_slices);
    tcase_add_test(tcase, the_sweep_of_exactly_one_slice);
    tcase_add_test(tcase, nothing_to_do_is_never);
    tcase_add_test(tcase, quarantine_holds_back);
    tcase_add_test(tcase, quarantine_ends_unseen);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(local_suite());
}
