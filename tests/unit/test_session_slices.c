/* What takes long is done in slices: no turn does more than its share, and the next one is asked
 * for at once. */
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

/* Nothing waits, and nobody but `n` sessions is there. */
static void check_quiet(uint64_t n)
{
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_counts(rig).waiters, 0);
    ck_assert_uint_eq(lq_hub_n_sessions(rig->hub), n);
    ck_assert_uint_eq(lq_hub_taken_in(rig->hub), 0);
    ck_assert_uint_gt(lq_hub_deadline(rig->hub), rig->now_ms);
}

#define N_WAITERS 20000u

static void queue_many(struct lq_rig_client *client)
{
    for (unsigned i = 0; i < N_WAITERS; i++) {
        lq_rig_say(client, "A 255 5 %u k%u", i, i % 4);
    }
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_counts(rig).waiters, N_WAITERS);
}

/* Each turn does its share, and asks for the next one at once. */
static void check_slices(void)
{
    unsigned turns = 0;
    while (lq_rig_counts(rig).waiters > 0) {
        uint64_t before = lq_rig_counts(rig).waiters;
        lq_rig_turn(rig);
        ck_assert(lq_rig_counts(rig).waiters == 0 || lq_hub_deadline(rig->hub) <= rig->now_ms);
        ck_assert_uint_le(before - lq_rig_counts(rig).waiters, LQ_TURN_ENDINGS);
        ck_assert_uint_lt(lq_rig_counts(rig).waiters, before);
        turns++;
    }
    ck_assert_uint_ge(turns, N_WAITERS / LQ_TURN_ENDINGS / 2);
    lq_rig_go(rig);
    check_quiet(2);
}

static void hold_four(void)
{
    lq_rig_say(a, "A 0 255 1 k0; A 0 255 1 k1; A 0 255 1 k2; A 0 255 1 k3");
    lq_rig_go(rig);
}

START_TEST(eof_with_many_waiters)
{
    hold_four();
    queue_many(b);
    lq_rig_send_eof(b);
    check_slices();
    ck_assert_uint_eq(lq_rig_hear_count(b, LQ_OP_TIMEOUT), N_WAITERS);
    ck_assert_int_eq(b->end, LQ_RIG_CLOSED);
}
END_TEST

START_TEST(broken_with_many_waiters)
{
    hold_four();
    queue_many(b);
    lq_rig_break(b);
    check_slices();
}
END_TEST

/* The connection breaks when the first slice was done: the rest goes on, unheard. */
START_TEST(broken_between_slices)
{
    hold_four();
    queue_many(b);
    lq_session_eof(b->session);
    lq_rig_turn(rig);
    ck_assert_uint_lt(lq_rig_counts(rig).waiters, N_WAITERS);
    ck_assert_uint_gt(lq_rig_counts(rig).waiters, 0);
    lq_rig_break(b);
    check_slices();
    ck_assert_uint_eq(lq_hub_counters(rig->hub).taken_back, 0);
}
END_TEST

START_TEST(stop_with_many_waiters)
{
    hold_four();
    (void)lq_rig_hear(a);
    queue_many(b);
    lq_hub_stop(rig->hub, rig->now_ms);
    while (lq_rig_counts(rig).waiters > 0) {
        uint64_t before = lq_rig_counts(rig).waiters;
        lq_rig_turn(rig);
        ck_assert_uint_le(before - lq_rig_counts(rig).waiters, LQ_TURN_ENDINGS);
    }
    LQ_HEARS(a, "E 6"); /* not later than the others */
    LQ_HEARS(b, "E 6");
    LQ_HEARS(c, "E 6");
    check_quiet(0);
}
END_TEST

/* Thousands of grants that were never sent are released in slices. */
START_TEST(broken_with_many_unsent_grants)
{
    lq_rig_set_window(b, 0);
    for (unsigned i = 0; i < N_WAITERS; i++) {
        lq_rig_say(b, "A 0 255 %u key-%u", i, i);
    }
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, N_WAITERS);
    lq_rig_break(b);
    while (lq_rig_counts(rig).keys > 0) {
        uint64_t before = lq_rig_counts(rig).keys;
        lq_rig_turn(rig);
        ck_assert_uint_le(before - lq_rig_counts(rig).keys, LQ_TURN_ENDINGS);
        ck_assert(lq_rig_counts(rig).keys == 0 || lq_hub_deadline(rig->hub) <= rig->now_ms);
    }
    check_quiet(2);
}
END_TEST

/* Whoever ends slowly does not keep others from being served. */
START_TEST(others_are_served_meanwhile)
{
    hold_four();
    queue_many(b);
    lq_rig_break(b);
    lq_rig_say(c, "A 0 5 7 free");
    lq_rig_turn(rig);
    LQ_HEARS(c, "A 5 7 free");
}
END_TEST

static Suite *session_slices_suite(void)
{
    Suite *suite = suite_create("session_slices");
    TCase *tcase = tcase_create("slices");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, eof_with_many_waiters);
    tcase_add_test(tcase, broken_with_many_waiters);
    tcase_add_test(tcase, broken_between_slices);
    tcase_add_test(tcase, stop_with_many_waiters);
    tcase_add_test(tcase, broken_with_many_unsent_grants);
    tcase_add_test(tcase, others_are_served_meanwhile);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(session_slices_suite());
}
