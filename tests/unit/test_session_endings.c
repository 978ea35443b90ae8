/* The end of sessions: end of input, bad frames, broken connections and shutdown, in every state.
 */
#include "lq_test.h"
#include "support/session_text.h"

#include <stdlib.h>

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

/* a holds k by token 1. */
static void hold(void)
{
    lq_rig_say(a, "A 0 200 1 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k");
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

/* ---- End of input. */

START_TEST(eof_after_nothing)
{
    lq_rig_send_eof(a);
    lq_rig_turn(rig);
    LQ_HEARS(a, "");
    ck_assert_int_eq(a->end, LQ_RIG_CLOSED);
    check_quiet(2);
}
END_TEST

/* As `printf ... | nc -N` does it: bytes and the end of input before any turn. */
START_TEST(eof_behind_requests)
{
    lq_rig_say(a, "A 9 5 7 k; A 0 5 8 j; K 5 2 j; R 9 k; P 3");
    lq_rig_send(a, "A", 1); /* the beginning of a frame: ignored */
    lq_rig_turn(rig);
    lq_rig_send_eof(a);
    lq_rig_turn(rig);
    LQ_HEARS(a, "P 3; A 1 7 k; A 2 8 j; K 2 j; N 9 k");
    ck_assert_int_eq(a->end, LQ_RIG_CLOSED);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 2); /* what was granted stays */
}
END_TEST

/* Both told in one turn, the acquire not yet handed to the table. */
START_TEST(eof_in_the_same_turn)
{
    static const char acquire[] = "A\x09\x05\0\0\0\0\0\0\0\x07k\n";
    hold();
    lq_session_input(b->session, (const uint8_t *)acquire, sizeof acquire - 1);
    lq_session_eof(b->session);
    lq_rig_turn(rig);
    LQ_HEARS(b, "T 7 k");
    ck_assert_int_eq(b->end, LQ_RIG_CLOSED);
    check_quiet(2);
}
END_TEST

START_TEST(eof_cancels_what_waits)
{
    hold();
    lq_rig_say(b, "A 9 5 2 k; A 9 5 3 k; A 9 5 2 k");
    lq_rig_say(c, "A 9 5 4 k");
    lq_rig_go(rig);
    lq_rig_say(b, "A 9 5 5 k; A 0 5 6 j");
    lq_rig_send_eof(b);
    lq_rig_go(rig);
    LQ_HEARS(b, "A 2 6 j; T 2 k; T 3 k; T 2 k; T 5 k");
    ck_assert_int_eq(b->end, LQ_RIG_CLOSED);
    lq_rig_say(a, "R 1 k");
    lq_rig_go(rig);
    LQ_HEARS(c, "A 3 4 k"); /* its turn */
}
END_TEST

/* A client that ended its input but does not read yet gets all its answers before the close. */
START_TEST(eof_closes_after_the_last_answer)
{
    lq_rig_set_window(a, 0);
    lq_rig_say(a, "A 0 5 7 k; P 1");
    lq_rig_send_eof(a);
    lq_rig_go(rig);
    ck_assert_int_eq(a->end, LQ_RIG_CONNECTED);
    ck_assert_int_eq(lq_session_wish(a->session), LQ_WISH_CLOSE);
    ck_assert(!lq_session_wants_input(a->session));
    lq_rig_set_window(a, 10);
    LQ_HEARS(a, "P 1");
    lq_rig_set_window(a, 18);
    LQ_HEARS(a, "...");
    ck_assert_int_eq(a->end, LQ_RIG_CONNECTED);
    lq_rig_set_window(a, 1);
    LQ_HEARS(a, "A 1 7 k");
    ck_assert_int_eq(a->end, LQ_RIG_CLOSED);
}
END_TEST

/* Input after the end of input, or a second end, changes nothing. */
START_TEST(nothing_comes_after_the_end)
{
    hold();
    lq_rig_set_window(b, 0);
    lq_rig_say(b, "A 9 5 2 k");
    lq_rig_send_eof(b);
    lq_rig_go(rig);
    lq_session_input(b->session, (const uint8_t *)"P", 1);
    lq_session_eof(b->session);
    lq_rig_go(rig);
    lq_rig_set_window(b, LQ_RIG_OPEN_WINDOW);
    LQ_HEARS(b, "T 2 k");
    check_quiet(2);
}
END_TEST

/* ---- A bad frame (more of them in test_session_input.c). */

START_TEST(an_error_cancels_what_waits_without_a_word)
{
    hold();
    lq_rig_say(b, "A 9 5 2 k; A 0 5 3 j");
    lq_rig_say(c, "A 9 5 4 k");
    lq_rig_go(rig);
    LQ_HEARS(b, "A 2 3 j");
    lq_rig_say(b, "A 9 5 5 k; A 0 5 6 k; P 1");
    lq_rig_send(b, "?", 1);
    lq_rig_say(b, "P 2; R 1 k");
    lq_rig_go(rig);
    LQ_HEARS(b, "P 1; T 6 k; E 1"); /* wait 0 has its answer, those that wait have none */
    ck_assert_int_eq(b->end, LQ_RIG_CLOSED);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 2);
    ck_assert_uint_eq(lq_rig_counts(rig).waiters, 1);
}
END_TEST

/* ---- A broken connection. */

START_TEST(broken_while_idle)
{
    lq_rig_break(a);
    lq_rig_turn(rig);
    check_quiet(2);
}
END_TEST

START_TEST(broken_with_half_a_frame)
{
    lq_rig_send(a, "A\x09", 2);
    lq_rig_turn(rig);
    lq_rig_break(a);
    lq_rig_turn(rig);
    check_quiet(2);
}
END_TEST

/* Requests that came, but had no turn: executed, except that what would wait is cancelled, and what
 * is granted is released. */
START_TEST(broken_before_the_turn)
{
    struct lq_rig_bytes bytes = {0};
    hold();
    lq_rig_encode(&bytes, "A 9 5 2 k; A 0 5 3 j; A 9 5 4 j; C 2 k; R 1 k; P 1; K 9 5 k; C 4 j");
    lq_session_input(b->session, bytes.at, bytes.len);
    free(bytes.at);
    lq_rig_break(b);
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 0);
    check_quiet(2);
}
END_TEST

START_TEST(broken_while_waiting)
{
    hold();
    lq_rig_say(b, "A 9 5 2 k; A 9 5 3 k; A 9 5 2 k");
    lq_rig_say(c, "A 9 5 4 k");
    lq_rig_go(rig);
    lq_rig_break(b);
    lq_rig_turn(rig);
    ck_assert_uint_eq(lq_rig_counts(rig).waiters, 1);
    lq_rig_say(a, "R 1 k");
    lq_rig_turn(rig);
    LQ_HEARS(c, "A 2 4 k");
    check_quiet(2);
}
END_TEST

/* The release comes in the same turn as the break: the dead may be granted, but not for long. */
START_TEST(broken_in_the_turn_of_its_grant)
{
    hold();
    lq_rig_say(b, "A 9 5 2 k");
    lq_rig_say(c, "A 9 5 4 k");
    lq_rig_go(rig);
    lq_rig_break(b);
    lq_rig_say(a, "R 1 k");
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_hear_count(c, LQ_OP_ACQUIRE), 1);
    check_quiet(2);
}
END_TEST

/* The same with the expiry of the holder. */
START_TEST(broken_in_the_turn_of_an_expiry)
{
    lq_rig_say(a, "A 0 2 1 k");
    lq_rig_go(rig);
    lq_rig_say(b, "A 9 5 2 k");
    lq_rig_say(c, "A 9 5 4 k");
    lq_rig_go(rig);
    rig->now_ms += 2001;
    lq_rig_break(b);
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_hear_count(c, LQ_OP_ACQUIRE), 1);
    check_quiet(2);
}
END_TEST

START_TEST(broken_while_ending)
{
    hold();
    lq_rig_set_window(b, 0);
    lq_rig_say(b, "A 9 5 2 k; A 0 5 3 j");
    lq_rig_send_eof(b);
    lq_rig_go(rig);
    ck_assert_int_eq(lq_session_wish(b->session), LQ_WISH_CLOSE);
    lq_rig_break(b);
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 1); /* j was taken back */
    check_quiet(2);
}
END_TEST

START_TEST(broken_with_input_held_back)
{
    struct lq_rig_options options = lq_rig_defaults();
    options.hub.requests_max = 1;
    teardown();
    rig = lq_rig_new(&options);
    a = lq_rig_connect(rig);
    b = lq_rig_connect(rig);
    hold();
    lq_rig_say(b, "A 9 5 2 k; R 1 k");
    lq_rig_go(rig);
    ck_assert(!lq_session_wants_input(b->session));
    lq_rig_break(b);
    lq_rig_go(rig);
    check_quiet(1);
}
END_TEST

/* ---- Shutdown. */

START_TEST(stop_tells_everybody)
{
    hold();
    lq_rig_say(b, "A 9 5 2 k");
    lq_rig_send(c, "A\x09", 2);
    lq_rig_go(rig);
    lq_rig_set_window(a, 0);
    lq_rig_say(a, "P 1");
    lq_rig_go(rig);
    lq_hub_stop(rig->hub, rig->now_ms);
    lq_rig_say(b, "P 2");
    ck_assert(!lq_session_wants_input(b->session));
    lq_rig_go(rig);
    LQ_HEARS(b, "E 6"); /* not a word for the acquire that waits */
    LQ_HEARS(c, "E 6");
    ck_assert_int_eq(b->end, LQ_RIG_CLOSED);
    lq_rig_set_window(a, LQ_RIG_OPEN_WINDOW);
    LQ_HEARS(a, "P 1; E 6");
    check_quiet(0);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 1);
    lq_hub_stop(rig->hub, rig->now_ms);
}
END_TEST

/* Requests that were read before are executed and answered. */
START_TEST(stop_behind_requests)
{
    struct lq_rig_bytes bytes = {0};
    hold();
    lq_rig_encode(&bytes, "A 9 5 2 k; A 0 5 3 j; R 1 k; R 7 k");
    lq_session_input(b->session, bytes.at, bytes.len);
    free(bytes.at);
    lq_session_eof(c->session);
    lq_hub_stop(rig->hub, rig->now_ms);
    lq_rig_go(rig);
    LQ_HEARS(b, "A 2 3 j; R 1 k; A 3 2 k; N 7 k; E 6");
    LQ_HEARS(c, ""); /* its end came first */
    check_quiet(0);
}
END_TEST

/* ---- A hub that is freed in any state leaks nothing (the sanitizer looks). */

START_TEST(freed_in_the_middle)
{
    struct lq_rig_bytes bytes = {0};
    hold();
    lq_rig_set_window(b, 0);
    lq_rig_say(b, "A 9 5 2 k; A 9 5 2 k; A 0 5 3 j");
    lq_rig_send(b, "A", 1);
    lq_rig_go(rig);
    lq_rig_break(b);
    lq_rig_encode(&bytes, "A 9 5 2 k; A 0 5 3 i; C 2 k; R 1 k; P 1; K 9 5 k");
    lq_session_input(c->session, bytes.at, bytes.len);
    lq_session_input(a->session, bytes.at, bytes.len);
    lq_rig_break(c);
    free(bytes.at);
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

static Suite *session_endings_suite(void)
{
    Suite *suite = suite_create("session_endings");
    TCase *eof = with(suite, "eof");
    TCase *broken = with(suite, "broken");
    TCase *stop = with(suite, "stop");
    tcase_add_test(eof, eof_after_nothing);
    tcase_add_test(eof, eof_behind_requests);
    tcase_add_test(eof, eof_in_the_same_turn);
    tcase_add_test(eof, eof_cancels_what_waits);
    tcase_add_test(eof, eof_closes_after_the_last_answer);
    tcase_add_test(eof, nothing_comes_after_the_end);
    tcase_add_test(eof, an_error_cancels_what_waits_without_a_word);
    tcase_add_test(broken, broken_while_idle);
    tcase_add_test(broken, broken_with_half_a_frame);
    tcase_add_test(broken, broken_before_the_turn);
    tcase_add_test(broken, broken_while_waiting);
    tcase_add_test(broken, broken_in_the_turn_of_its_grant);
    tcase_add_test(broken, broken_in_the_turn_of_an_expiry);
    tcase_add_test(broken, broken_while_ending);
    tcase_add_test(broken, broken_with_input_held_back);
    tcase_add_test(stop, stop_tells_everybody);
    tcase_add_test(stop, stop_behind_requests);
    tcase_add_test(stop, freed_in_the_middle);
    return suite;
}

int main(void)
{
    return lq_test_run(session_endings_suite());
}
