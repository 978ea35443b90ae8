/* Caps of a connection: open requests, unread answers, and how long they may stay unread; and those
 * of the table as a client meets them. */
#include "lq_heap.h"
#include "lq_limits.h"
#include "lq_test.h"
#include "support/session_text.h"

static struct lq_rig *rig;
static struct lq_rig_client *a, *b, *c;

static void begin(const struct lq_rig_options *options)
{
    rig = lq_rig_new(options);
    a = lq_rig_connect(rig);
    b = lq_rig_connect(rig);
    c = lq_rig_connect(rig);
}

static void begin_with_requests_max(uint64_t requests_max)
{
    struct lq_rig_options options = lq_rig_defaults();
    options.hub.requests_max = requests_max;
    begin(&options);
}

static void begin_with_unread_max(uint64_t unread_max, uint64_t unread_total_max)
{
    struct lq_rig_options options = lq_rig_defaults();
    options.hub.unread_max = unread_max;
    options.hub.unread_total_max = unread_total_max;
    begin(&options);
}

static void teardown(void)
{
    lq_rig_free(rig);
}

/* a holds k by token 1, and j by token 2. */
static void hold(void)
{
    lq_rig_say(a, "A 0 255 1 k");
    lq_rig_go(rig);
    lq_rig_say(a, "A 0 255 1 j");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k; A 2 1 j");
}

/* ---- Open requests. */

START_TEST(an_acquire_beyond_the_cap_is_busy)
{
    begin_with_requests_max(2);
    hold();
    lq_rig_say(b, "A 9 5 1 k; A 9 5 2 k; A 9 5 3 k; A 0 5 4 k; A 0 5 5 free");
    lq_rig_go(rig);
    LQ_HEARS(b, "B 3 k; B 4 k; B 5 free"); /* checked before the table */
    lq_rig_say(b, "A 0 5 6 free; P 1; C 1 k");
    lq_rig_go(rig);
    LQ_HEARS(b, "B 6 free; P 1; T 1 k");
    lq_rig_say(b, "A 0 5 7 free");
    lq_rig_go(rig);
    LQ_HEARS(b, "A 3 7 free");
    ck_assert_uint_eq(lq_hub_counters(rig->hub).busy, 4);
}
END_TEST

/* Requests that came but had no turn yet are open, too. */
START_TEST(the_cap_counts_what_had_no_turn_yet)
{
    begin_with_requests_max(2);
    lq_rig_say(a, "A 0 5 1 k; A 0 5 2 j; A 0 5 3 i");
    lq_rig_turn(rig);
    LQ_HEARS(a, "B 3 i; A 1 1 k; A 2 2 j");
    lq_rig_say(a, "A 0 5 3 i");
    lq_rig_turn(rig);
    LQ_HEARS(a, "A 3 3 i");
}
END_TEST

START_TEST(a_cancel_does_not_count)
{
    begin_with_requests_max(1);
    lq_rig_say(a, "C 7 k; C 8 k; A 0 5 7 k; C 7 k; C 8 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 7 k");
    lq_rig_say(b, "A 9 5 1 k; C 1 k; C 1 k");
    lq_rig_go(rig);
    LQ_HEARS(b, "T 1 k");
}
END_TEST

/* Releases and renewals beyond the cap are not refused but held back, and what follows them with
 * them; all is executed in order once there is room. */
START_TEST(releases_beyond_the_cap_are_held_back)
{
    begin_with_requests_max(1);
    hold();
    lq_rig_say(b, "A 2 5 1 k; R 2 j; P 1; A 0 5 2 j; A 0 5 3 j; K 5 9 j");
    lq_rig_go(rig);
    LQ_HEARS(b, "");
    ck_assert(!lq_session_wants_input(b->session));
    ck_assert_uint_eq(lq_rig_holder(rig, "j", 1), 2);
    lq_rig_say(b, "P 2");
    lq_rig_go(rig);
    LQ_HEARS(b, "");
    lq_rig_advance(rig, 2001);
    LQ_HEARS(b, "T 1 k; P 1; B 2 j; B 3 j; R 2 j; P 2; N 9 j");
    ck_assert(lq_session_wants_input(b->session));
}
END_TEST

/* A long row of releases behind a cap of one: one a turn, all in order. */
START_TEST(held_back_input_goes_on_bit_by_bit)
{
    struct lq_frame answer;
    begin_with_requests_max(1);
    for (unsigned i = 0; i < 3000; i++) {
        lq_rig_say(a, "R %u some-key-of-middling-length", i);
    }
    lq_rig_send_eof(a);
    lq_rig_go(rig);
    for (unsigned i = 0; i < 3000; i++) {
        ck_assert(lq_rig_next(a, &answer));
        ck_assert_uint_eq(answer.op, LQ_OP_NOT_HELD);
        ck_assert_uint_eq(answer.token, i);
    }
    ck_assert_int_eq(a->end, LQ_RIG_CLOSED);
}
END_TEST

START_TEST(a_bad_frame_behind_held_back_input)
{
    begin_with_requests_max(1);
    hold();
    lq_rig_say(b, "A 2 5 1 k; R 2 j; R 9 j");
    lq_rig_send(b, "?", 1);
    lq_rig_go(rig);
    LQ_HEARS(b, "");
    lq_rig_advance(rig, 2001);
    LQ_HEARS(b, "T 1 k; R 2 j; N 9 j; E 1");
    ck_assert_int_eq(b->end, LQ_RIG_CLOSED);
}
END_TEST

/* What was held back may itself begin to wait: the bad frame behind it takes it back. */
START_TEST(a_bad_frame_behind_a_held_back_acquire)
{
    begin_with_requests_max(3);
    hold();
    lq_rig_say(b, "A 2 5 1 k; A 2 5 2 k; A 2 5 3 k; R 9 j; A 200 5 4 k");
    lq_rig_send(b, "?", 1);
    lq_rig_go(rig);
    LQ_HEARS(b, "");
    lq_rig_advance(rig, 2001);
    LQ_HEARS(b, "T 1 k; T 2 k; T 3 k; N 9 j; E 1");
    ck_assert_int_eq(b->end, LQ_RIG_CLOSED);
    ck_assert_uint_eq(lq_rig_counts(rig).waiters, 0);
}
END_TEST

/* The end of input stands behind what is held back: it is noticed when that was read. */
START_TEST(eof_behind_held_back_input)
{
    begin_with_requests_max(1);
    hold();
    lq_rig_say(b, "A 2 5 1 k; R 2 j; R 9 j");
    lq_rig_send_eof(b);
    lq_rig_go(rig);
    LQ_HEARS(b, "");
    lq_rig_advance(rig, 2001);
    LQ_HEARS(b, "T 1 k; R 2 j; N 9 j");
    ck_assert_int_eq(b->end, LQ_RIG_CLOSED);
}
END_TEST

START_TEST(stop_with_input_held_back)
{
    begin_with_requests_max(1);
    hold();
    lq_rig_say(b, "A 9 5 1 k; R 2 j");
    lq_rig_go(rig);
    lq_hub_stop(rig->hub, rig->now_ms);
    lq_rig_go(rig);
    LQ_HEARS(b, "E 6");
    ck_assert_uint_eq(lq_rig_holder(rig, "j", 1), 2);
    ck_assert_uint_eq(lq_hub_n_sessions(rig->hub), 0);
}
END_TEST

/* ---- Unread answers. */

START_TEST(reading_pauses_while_answers_pile_up)
{
    begin_with_unread_max(30, 1000000);
    lq_rig_set_window(a, 0);
    lq_rig_say(a, "P 1; P 2");
    lq_rig_go(rig);
    ck_assert(lq_session_wants_input(a->session));
    lq_rig_say(a, "P 3");
    lq_rig_go(rig);
    ck_assert(!lq_session_wants_input(a->session));
    lq_rig_say(a, "A 0 5 1 k");
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 0);
    lq_rig_set_window(a, 1);
    ck_assert(lq_session_wants_input(a->session));
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 1);
    lq_rig_set_window(a, LQ_RIG_OPEN_WINDOW);
    LQ_HEARS(a, "P 1; P 2; P 3; A 1 1 k");
}
END_TEST

/* Paused for 30 s without coming below: aborted; its grant that was not sent is taken back. */
START_TEST(a_client_that_does_not_read_is_aborted)
{
    begin_with_unread_max(30, 1000000);
    lq_rig_set_window(a, 0);
    lq_rig_say(a, "P 1; P 2; A 0 200 1 k");
    lq_rig_go(rig);
    lq_rig_advance(rig, 29999);
    ck_assert_int_eq(a->end, LQ_RIG_CONNECTED);
    lq_rig_advance(rig, 1);
    ck_assert_int_eq(a->end, LQ_RIG_ABORTED);
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 0);
    ck_assert_uint_eq(lq_hub_n_sessions(rig->hub), 2);
}
END_TEST

/* Coming below the cap once begins the time anew; dribbling above it does not. */
START_TEST(the_time_runs_while_above_the_cap)
{
    begin_with_unread_max(30, 1000000);
    lq_rig_set_window(a, 0);
    lq_rig_set_window(b, 0);
    lq_rig_say(a, "P 1; P 2; P 3");
    lq_rig_say(b, "P 1; P 2; P 3; P 4; P 5");
    lq_rig_go(rig);
    lq_rig_advance(rig, 20000);
    lq_rig_set_window(a, 1);
    lq_rig_set_window(b, 10);
    lq_rig_say(a, "P 4");
    lq_rig_go(rig);
    lq_rig_advance(rig, 9999);
    ck_assert_int_eq(b->end, LQ_RIG_CONNECTED);
    lq_rig_advance(rig, 1);
    ck_assert_int_eq(b->end, LQ_RIG_ABORTED);
    ck_assert_int_eq(a->end, LQ_RIG_CONNECTED);
    lq_rig_advance(rig, 20000);
    ck_assert_int_eq(a->end, LQ_RIG_ABORTED);
}
END_TEST

/* A server that was idle for long does not take its last turn for the present. */
START_TEST(the_stall_time_counts_from_now)
{
    begin_with_unread_max(30, 1000000);
    lq_rig_set_window(a, 0);
    lq_rig_say(a, "P 1; P 2");
    lq_rig_go(rig);
    rig->now_ms += 100000; /* no turn in between */
    lq_rig_say(a, "P 3");
    lq_rig_go(rig);
    ck_assert_int_eq(a->end, LQ_RIG_CONNECTED);
    lq_rig_advance(rig, 29999);
    ck_assert_int_eq(a->end, LQ_RIG_CONNECTED);
    lq_rig_advance(rig, 1);
    ck_assert_int_eq(a->end, LQ_RIG_ABORTED);
}
END_TEST

/* A client that is through with its session, and only has to read, must go on reading. */
START_TEST(a_finished_session_is_aborted_when_nothing_is_read)
{
    begin_with_unread_max(1000, 1000000);
    lq_rig_set_window(a, 0);
    lq_rig_set_window(b, 0);
    lq_rig_say(a, "P 1; P 2");
    lq_rig_say(b, "P 1; P 2");
    lq_rig_send_eof(a);
    lq_rig_send_eof(b);
    lq_rig_go(rig);
    rig->now_ms += 29000; /* no turn in between */
    lq_rig_set_window(b, 5);
    lq_rig_go(rig);
    lq_rig_advance(rig, 999);
    ck_assert_int_eq(a->end, LQ_RIG_CONNECTED);
    lq_rig_advance(rig, 1);
    ck_assert_int_eq(a->end, LQ_RIG_ABORTED);
    lq_rig_advance(rig, 28999);
    ck_assert_int_eq(b->end, LQ_RIG_CONNECTED);
    lq_rig_set_window(b, 15);
    ck_assert_int_eq(b->end, LQ_RIG_CLOSED);
    LQ_HEARS(b, "P 1; P 2");
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_hub_deadline(rig->hub), LQ_NEVER);
}
END_TEST

/* Many that each stay below their cap: beyond the common one those with unread answers pause; who
 * reads is served. */
START_TEST(the_cap_on_all_unread_answers)
{
    begin_with_unread_max(1000, 50);
    lq_rig_set_window(a, 0);
    lq_rig_set_window(b, 0);
    lq_rig_say(a, "P 1; P 2; P 3");
    lq_rig_say(b, "P 1; P 2");
    lq_rig_go(rig);
    ck_assert(!lq_session_wants_input(a->session));
    ck_assert(!lq_session_wants_input(b->session));
    lq_rig_say(c, "P 1; A 0 5 1 k");
    lq_rig_go(rig);
    LQ_HEARS(c, "P 1; A 1 1 k");
    lq_rig_set_window(b, 1);
    lq_rig_go(rig);
    ck_assert(lq_session_wants_input(a->session));
    ck_assert(lq_session_wants_input(b->session));
    lq_rig_say(b, "P 3");
    lq_rig_go(rig);
    ck_assert(!lq_session_wants_input(a->session));
    lq_rig_break(a);
    lq_rig_go(rig);
    ck_assert(lq_session_wants_input(b->session));
}
END_TEST

/* Nobody pins the common cap for ever: who does not read while it is crossed is aborted. */
START_TEST(the_common_cap_has_an_end)
{
    begin_with_unread_max(1000, 30);
    lq_rig_set_window(a, 0);
    lq_rig_say(a, "P 1; P 2; P 3");
    lq_rig_go(rig);
    lq_rig_advance(rig, 29999);
    ck_assert_int_eq(a->end, LQ_RIG_CONNECTED);
    lq_rig_advance(rig, 1);
    ck_assert_int_eq(a->end, LQ_RIG_ABORTED);
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_hub_deadline(rig->hub), LQ_NEVER);
}
END_TEST

/* ---- The table's caps. */

START_TEST(caps_of_the_table_are_busy)
{
    struct lq_rig_options options = lq_rig_defaults();
    options.local.caps =
        (struct lq_caps){.keys = 2, .waiters_per_key = 2, .waiters = 3, .state_bytes = UINT64_MAX};
    begin(&options);
    hold();
    lq_rig_say(b, "A 9 5 1 i; A 0 5 2 i; A 9 5 3 k; A 9 5 4 k; A 9 5 5 k; A 0 5 6 k; A 9 5 7 j");
    lq_rig_say(c, "A 9 5 8 j; A 0 5 9 j");
    lq_rig_go(rig);
    LQ_HEARS(b, "B 1 i; B 2 i; B 5 k; T 6 k");
    LQ_HEARS(c, "B 8 j; T 9 j");
}
END_TEST

/* An expired key gives its place to a new acquire of itself, even at the cap. */
START_TEST(an_expired_key_is_taken_over_at_the_cap)
{
    struct lq_rig_options options = lq_rig_defaults();
    options.local.caps.keys = 1;
    begin(&options);
    lq_rig_say(a, "A 0 1 1 k");
    lq_rig_go(rig);
    lq_rig_advance(rig, 1001);
    lq_rig_say(a, "A 0 5 2 k; A 0 5 3 j");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k; A 2 2 k; B 3 j");
}
END_TEST

static Suite *session_caps_suite(void)
{
    Suite *suite = suite_create("session_caps");
    TCase *tcase = tcase_create("caps");
    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, an_acquire_beyond_the_cap_is_busy);
    tcase_add_test(tcase, the_cap_counts_what_had_no_turn_yet);
    tcase_add_test(tcase, a_cancel_does_not_count);
    tcase_add_test(tcase, releases_beyond_the_cap_are_held_back);
    tcase_add_test(tcase, held_back_input_goes_on_bit_by_bit);
    tcase_add_test(tcase, a_bad_frame_behind_held_back_input);
    tcase_add_test(tcase, a_bad_frame_behind_a_held_back_acquire);
    tcase_add_test(tcase, eof_behind_held_back_input);
    tcase_add_test(tcase, stop_with_input_held_back);
    tcase_add_test(tcase, reading_pauses_while_answers_pile_up);
    tcase_add_test(tcase, a_client_that_does_not_read_is_aborted);
    tcase_add_test(tcase, the_time_runs_while_above_the_cap);
    tcase_add_test(tcase, the_stall_time_counts_from_now);
    tcase_add_test(tcase, a_finished_session_is_aborted_when_nothing_is_read);
    tcase_add_test(tcase, the_cap_on_all_unread_answers);
    tcase_add_test(tcase, the_common_cap_has_an_end);
    tcase_add_test(tcase, caps_of_the_table_are_busy);
    tcase_add_test(tcase, an_expired_key_is_taken_over_at_the_cap);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(session_caps_suite());
}
