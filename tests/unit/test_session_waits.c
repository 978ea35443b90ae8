/* Time in sessions: waits that end, leases that end, the sweep, and the order of what falls into
 * one turn. */
#include "lq_heap.h"
#include "lq_limits.h"
#include "lq_test.h"
#include "support/session_text.h"

static struct lq_rig *rig;
static struct lq_rig_client *a, *b, *c;

static void setup(void)
{
    rig = lq_rig_new(NULL);
    a = lq_rig_connect(rig);
    b = lq_rig_connect(rig);
    c = lq_rig_connect(rig);
}

static void teardown(void)
{
    lq_rig_free(rig);
}

/* ---- Waits. */

/* Never early: the whole span has passed on a clock of whole ms; and at the first turn after. */
START_TEST(a_wait_ends_in_time)
{
    lq_rig_say(a, "A 0 255 1 k; A 1 5 2 k; A 2 5 3 k; A 255 5 4 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k");
    ck_assert_uint_eq(lq_hub_deadline(rig->hub), rig->now_ms + 1001);
    lq_rig_advance(rig, 1000);
    LQ_HEARS(a, "");
    lq_rig_advance(rig, 1);
    LQ_HEARS(a, "T 2 k");
    lq_rig_advance(rig, 999);
    LQ_HEARS(a, "");
    lq_rig_advance(rig, 1);
    LQ_HEARS(a, "T 3 k");
    lq_rig_say(a, "K 255 1 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "K 1 k");
    lq_rig_advance(rig, 252999);
    LQ_HEARS(a, "");
    lq_rig_advance(rig, 1);
    LQ_HEARS(a, "T 4 k");
    ck_assert_uint_eq(lq_rig_counts(rig).waiters, 0);
}
END_TEST

/* The wait counts from the turn in which the request came, not from the beginning of the server. */
START_TEST(a_wait_counts_from_its_request)
{
    lq_rig_say(a, "A 0 255 1 k");
    lq_rig_go(rig);
    lq_rig_advance(rig, 7777);
    lq_rig_say(b, "A 3 5 2 k");
    lq_rig_go(rig);
    lq_rig_advance(rig, 3000);
    LQ_HEARS(b, "");
    lq_rig_advance(rig, 1);
    LQ_HEARS(b, "T 2 k");
}
END_TEST

/* A turn that comes late ends all waits that are over. */
START_TEST(a_late_turn_ends_all_that_is_over)
{
    lq_rig_say(a, "A 0 255 1 k; A 1 5 2 k; A 2 5 3 k; A 30 5 4 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k");
    rig->now_ms += 10000;
    lq_rig_turn(rig);
    LQ_HEARS(a, "T 2 k; T 3 k");
}
END_TEST

/* More waits than one turn ends: the hub asks for more turns at once. */
START_TEST(many_waits_end_in_slices)
{
    unsigned n = 3 * LQ_TURN_TIMEOUTS + 10;
    struct lq_table_counts before;
    lq_rig_say(a, "A 0 255 1 k");
    for (unsigned i = 0; i < n; i++) {
        lq_rig_say(a, "A 1 5 %u k", i + 2);
    }
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k");
    rig->now_ms += 1001;
    do {
        before = lq_rig_counts(rig);
        ck_assert_uint_le(lq_hub_deadline(rig->hub), rig->now_ms);
        lq_rig_turn(rig);
        ck_assert_uint_le(before.waiters - lq_rig_counts(rig).waiters, LQ_TURN_TIMEOUTS);
        ck_assert_uint_lt(lq_rig_counts(rig).waiters, before.waiters);
    } while (lq_rig_counts(rig).waiters > 0);
    ck_assert_uint_eq(lq_rig_hear_count(a, LQ_OP_TIMEOUT), n);
}
END_TEST

/* ---- Expiry. */

START_TEST(an_expired_key_is_taken_over)
{
    lq_rig_say(a, "A 0 1 1 k; A 0 1 1 j");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k; A 2 1 j");
    rig->now_ms += 1000;
    lq_rig_say(b, "A 0 5 2 k");
    lq_rig_go(rig);
    LQ_HEARS(b, "T 2 k");
    rig->now_ms += 1;
    lq_rig_say(b, "A 0 5 2 k; A 9 5 3 j");
    lq_rig_go(rig);
    LQ_HEARS(b, "A 3 2 k; A 4 3 j");
    lq_rig_say(a, "R 1 k; K 9 2 j");
    lq_rig_go(rig);
    LQ_HEARS(a, "N 1 k; N 2 j");
}
END_TEST

/* Without any input: the hub names the time, and the head of the queue is granted then. */
START_TEST(expiry_hands_over_in_order)
{
    lq_rig_say(a, "A 0 2 1 k");
    lq_rig_go(rig);
    lq_rig_say(b, "A 9 1 2 k");
    lq_rig_say(c, "A 9 1 3 k");
    lq_rig_go(rig);
    lq_rig_say(b, "A 9 1 4 k");
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_hub_deadline(rig->hub), LQ_RIG_START_MS + 2001);
    lq_rig_advance(rig, 2000);
    LQ_HEARS(b, "");
    lq_rig_advance(rig, 1);
    LQ_HEARS(b, "A 2 2 k");
    lq_rig_advance(rig, 1000);
    LQ_HEARS(c, "");
    lq_rig_advance(rig, 1);
    LQ_HEARS(c, "A 3 3 k");
    LQ_HEARS(b, "");
    lq_rig_advance(rig, 1001);
    LQ_HEARS(b, "A 4 4 k");
}
END_TEST

/* The lease counts from the grant, however long the wait was. */
START_TEST(a_lease_counts_from_its_grant)
{
    lq_rig_say(a, "A 0 5 1 k; A 9 3 2 k");
    lq_rig_go(rig);
    lq_rig_advance(rig, 4000);
    lq_rig_say(b, "R 1 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k; A 2 2 k");
    lq_rig_advance(rig, 3000);
    lq_rig_say(b, "A 0 1 3 k");
    lq_rig_go(rig);
    LQ_HEARS(b, "R 1 k; T 3 k");
    lq_rig_advance(rig, 1);
    lq_rig_say(b, "A 0 1 3 k");
    lq_rig_go(rig);
    LQ_HEARS(b, "A 3 3 k");
}
END_TEST

/* A renewal moves the expiry away from those who wait; their waits do not move. */
START_TEST(a_renewal_holds_waiters_off)
{
    lq_rig_say(a, "A 0 2 1 k");
    lq_rig_say(b, "A 3 5 2 k");
    lq_rig_go(rig);
    lq_rig_advance(rig, 1500);
    lq_rig_say(a, "K 2 1 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k; K 1 k");
    lq_rig_advance(rig, 1501);
    LQ_HEARS(b, "T 2 k");
}
END_TEST

/* More locks with waiters than one turn hands on end at once. */
START_TEST(many_expiries_are_handed_on_in_slices)
{
    unsigned n = 2 * LQ_TURN_EXPIRES + 10;
    for (unsigned i = 0; i < n; i++) {
        lq_rig_say(a, "A 0 1 %u key-%u", i, i);
        lq_rig_say(b, "A 9 9 %u key-%u", i, i);
    }
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_hear_count(a, LQ_OP_ACQUIRE), n);
    rig->now_ms += 1001;
    lq_rig_turn(rig);
    ck_assert_uint_eq(lq_rig_hear_count(b, LQ_OP_ACQUIRE), LQ_TURN_EXPIRES);
    ck_assert_uint_le(lq_hub_deadline(rig->hub), rig->now_ms);
    lq_rig_say(c, "A 0 5 1 key-%u; A 0 5 1 key-0", n - 1);
    lq_rig_go(rig); /* even now nobody barges in */
    ck_assert_uint_eq(lq_rig_hear_count(c, LQ_OP_TIMEOUT), 2);
    ck_assert_uint_eq(lq_rig_hear_count(b, LQ_OP_ACQUIRE), n - LQ_TURN_EXPIRES);
}
END_TEST

/* ---- The order of a turn. */

/* A lease and a wait that end in the same instant: the grant wins. */
START_TEST(a_grant_wins_over_a_timeout)
{
    lq_rig_say(a, "A 0 2 1 k; A 2 5 2 k");
    lq_rig_go(rig);
    lq_rig_advance(rig, 2001);
    LQ_HEARS(a, "A 1 1 k; A 2 2 k");
}
END_TEST

/* So does a release that comes in the turn in which the wait ends. */
START_TEST(a_release_wins_over_a_timeout)
{
    lq_rig_say(a, "A 0 9 1 k");
    lq_rig_say(b, "A 2 5 2 k");
    lq_rig_go(rig);
    rig->now_ms += 2001;
    lq_rig_say(a, "R 1 k");
    lq_rig_turn(rig);
    LQ_HEARS(b, "A 2 2 k");
}
END_TEST

/* Endings come before timeouts: whoever ends with E in the instant in which its wait is over hears
 * E alone. */
START_TEST(an_ending_wins_over_a_timeout)
{
    lq_rig_say(a, "A 0 9 1 k");
    lq_rig_say(b, "A 2 5 2 k");
    lq_rig_go(rig);
    rig->now_ms += 2001;
    lq_rig_send(b, "?", 1);
    lq_rig_go(rig);
    LQ_HEARS(b, "E 1");
}
END_TEST

/* What is due goes ahead of the requests of a turn, in every combination. */
START_TEST(expiry_goes_ahead_of_requests)
{
    lq_rig_say(a, "A 0 2 1 k; A 0 2 1 j; A 0 2 1 i");
    lq_rig_say(b, "A 9 5 2 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k; A 2 1 j; A 3 1 i");
    rig->now_ms += 2001;
    lq_rig_say(a, "R 1 k; K 9 2 j; R 3 i"); /* i is not swept yet: R */
    lq_rig_say(c, "A 0 5 3 k; A 0 5 3 j");
    lq_rig_turn(rig);
    LQ_HEARS(b, "A 4 2 k");
    LQ_HEARS(a, "N 1 k; N 2 j; R 3 i");
    LQ_HEARS(c, "T 3 k; A 5 3 j");
}
END_TEST

/* ---- The sweep. */

START_TEST(the_sweep_removes_what_has_expired)
{
    lq_rig_advance(rig, 1000);
    lq_rig_say(a, "A 0 1 1 k; A 0 9 2 j");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k; A 2 2 j");
    ck_assert_uint_eq(lq_hub_deadline(rig->hub), LQ_RIG_START_MS + LQ_SWEEP_MS_DEFAULT);
    lq_rig_advance(rig, 3999);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 2);
    lq_rig_advance(rig, 1);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 1);
    lq_rig_say(a, "R 1 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "N 1 k");
    lq_rig_advance(rig, 9999); /* j ended 1 ms after the sweep before */
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 1);
    lq_rig_advance(rig, 1);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 0);
    ck_assert_uint_eq(lq_hub_deadline(rig->hub), LQ_NEVER);
}
END_TEST

START_TEST(before_the_sweep_a_release_is_released)
{
    lq_rig_say(a, "A 0 1 1 k");
    lq_rig_go(rig);
    lq_rig_advance(rig, 4000);
    lq_rig_say(a, "R 1 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k; R 1 k");
}
END_TEST

static TCase *with(Suite *suite, const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    return tcase;
}

static Suite *session_waits_suite(void)
{
    Suite *suite = suite_create("session_waits");
    TCase *waits = with(suite, "waits");
    TCase *expiry = with(suite, "expiry");
    TCase *turn = with(suite, "turn");
    TCase *sweep = with(suite, "sweep");
    tcase_add_test(waits, a_wait_ends_in_time);
    tcase_add_test(waits, a_wait_counts_from_its_request);
    tcase_add_test(waits, a_late_turn_ends_all_that_is_over);
    tcase_add_test(waits, many_waits_end_in_slices);
    tcase_add_test(expiry, an_expired_key_is_taken_over);
    tcase_add_test(expiry, expiry_hands_over_in_order);
    tcase_add_test(expiry, a_lease_counts_from_its_grant);
    tcase_add_test(expiry, a_renewal_holds_waiters_off);
    tcase_add_test(expiry, many_expiries_are_handed_on_in_slices);
    tcase_add_test(turn, a_grant_wins_over_a_timeout);
    tcase_add_test(turn, a_release_wins_over_a_timeout);
    tcase_add_test(turn, an_ending_wins_over_a_timeout);
    tcase_add_test(turn, expiry_goes_ahead_of_requests);
    tcase_add_test(sweep, the_sweep_removes_what_has_expired);
    tcase_add_test(sweep, before_the_sweep_a_release_is_released);
    return suite;
}

int main(void)
{
    return lq_test_run(session_waits_suite());
}
