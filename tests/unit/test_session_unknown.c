/* Requests whose outcome does not become known, in time (OVERDUE) or ever (LOST): nothing is
 * invented, the connection ends instead, and a grant that comes after all is released. The backend
 * does here what the test tells it to. */
#include "lq_limits.h"
#include "lq_test.h"
#include "support/session_text.h"

#define MANY 32

struct script {
    struct lq_backend backend;
    struct lq_request *submitted[MANY]; /* all, in their order; freed with their last answer */
    struct lq_request *cancelled[MANY];
    struct lq_answer answers[MANY]; /* to be taken by the hub */
    size_t n_submitted, n_cancelled, n_answers, n_taken;
};

static struct script script;
static struct lq_rig *rig;
static struct lq_rig_client *a;

static void script_begin(struct lq_backend *backend, uint64_t now_ms)
{
    (void)backend;
    (void)now_ms;
}

static void script_submit(struct lq_backend *backend, struct lq_request *request)
{
    (void)backend;
    ck_assert_uint_lt(script.n_submitted, MANY);
    script.submitted[script.n_submitted++] = request;
}

static void script_cancel(struct lq_backend *backend, struct lq_request *request)
{
    (void)backend;
    ck_assert_uint_lt(script.n_cancelled, MANY);
    script.cancelled[script.n_cancelled++] = request;
}

static void script_end(struct lq_backend *backend)
{
    (void)backend;
}

static bool script_take(struct lq_backend *backend, struct lq_answer *ret_answer)
{
    (void)backend;
    if (script.n_taken == script.n_answers) {
        return false;
    }
    *ret_answer = script.answers[script.n_taken++];
    return true;
}

static uint64_t script_deadline(const struct lq_backend *backend)
{
    (void)backend;
    return script.n_taken < script.n_answers ? 0 : LQ_NEVER;
}

static const struct lq_backend_ops script_ops = {
    .begin = script_begin,
    .submit = script_submit,
    .cancel = script_cancel,
    .end = script_end,
    .take = script_take,
    .deadline = script_deadline,
};

static void setup_capped(uint64_t requests_max)
{
    struct lq_rig_options options = lq_rig_defaults();
    options.hub.requests_max = requests_max;
    script = (struct script){.backend.ops = &script_ops};
    rig = lq_rig_new(&options);
    lq_hub_free(rig->hub);
    rig->hub = lq_hub_new(&options.hub, &script.backend);
    a = lq_rig_connect(rig);
}

static void setup(void)
{
    setup_capped(LQ_REQUESTS_DEFAULT);
}

static void teardown(void)
{
    lq_rig_free(rig);
}

/* Puts an answer for the request submitted as number `at` (from 0) where the hub takes it. */
static void give(size_t at, enum lq_answer_kind kind, uint64_t token)
{
    ck_assert_uint_lt(at, script.n_submitted);
    ck_assert_uint_lt(script.n_answers, MANY);
    script.answers[script.n_answers++] =
        (struct lq_answer){.request = script.submitted[at], .kind = kind, .token = token};
}

/* The same, and acts on it. */
static void answer(size_t at, enum lq_answer_kind kind, uint64_t token)
{
    give(at, kind, token);
    lq_rig_go(rig);
}

/* a sends these, and all are submitted and acquires that wait are open. */
static void begin(const char *words)
{
    lq_rig_say(a, "%s", words);
    lq_rig_go(rig);
    for (size_t i = 0; i < script.n_submitted; i++) {
        if (script.submitted[i]->op == LQ_OP_ACQUIRE && script.submitted[i]->wait_s > 0) {
            give(i, LQ_ANSWER_OPEN, 0);
        }
    }
    lq_rig_go(rig);
    ck_assert_int_eq(a->end, LQ_RIG_CONNECTED);
}

/* The latest submission releases this token, for nobody; the backend does it. */
static void check_released(size_t n_submitted, uint64_t token)
{
    const struct lq_request *last = script.submitted[n_submitted - 1];
    ck_assert_uint_eq(script.n_submitted, n_submitted);
    ck_assert_int_eq(last->op, LQ_OP_RELEASE);
    ck_assert_uint_eq(last->token, token);
    ck_assert_ptr_null(last->session);
    answer(n_submitted - 1, LQ_ANSWER_RELEASED, 0);
}

/* a's connection was closed without a word more than these. */
static void check_aborted(const char *words)
{
    ck_assert_int_eq(a->end, LQ_RIG_ABORTED);
    LQ_HEARS(a, words);
    ck_assert_uint_eq(lq_hub_n_sessions(rig->hub), 0);
}

/* ---- Overdue. */

START_TEST(overdue_then_granted)
{
    begin("A 9 5 1 k");
    answer(0, LQ_ANSWER_OVERDUE, 0);
    check_aborted("");
    ck_assert_uint_eq(script.n_cancelled, 1); /* as for any connection that is gone */
    ck_assert_ptr_eq(script.cancelled[0], script.submitted[0]);
    answer(0, LQ_ANSWER_GRANTED, 7);
    check_released(2, 7);
    ck_assert_uint_eq(lq_hub_counters(rig->hub).taken_back, 1);
    ck_assert_uint_eq(lq_hub_counters(rig->hub).granted, 0);
}
END_TEST

START_TEST(overdue_and_granted_before_the_close)
{
    begin("A 9 5 1 k");
    give(0, LQ_ANSWER_OVERDUE, 0);
    answer(0, LQ_ANSWER_GRANTED, 7);
    check_aborted("");
    ck_assert_uint_eq(script.n_cancelled, 0);
    check_released(2, 7);
}
END_TEST

START_TEST(overdue_then_cancelled)
{
    begin("A 9 5 1 k");
    answer(0, LQ_ANSWER_OVERDUE, 0);
    answer(0, LQ_ANSWER_CANCELLED, 0);
    check_aborted("");
    ck_assert_uint_eq(script.n_submitted, 1);
}
END_TEST

/* Its outcome is unknown from the beginning on: it was never open. */
START_TEST(overdue_while_it_is_not_open)
{
    lq_rig_say(a, "A 0 5 1 k; A 9 5 2 j");
    lq_rig_go(rig);
    answer(0, LQ_ANSWER_OVERDUE, 0);
    check_aborted("");
    ck_assert_uint_eq(script.n_cancelled, 0);
    answer(0, LQ_ANSWER_TIMEOUT, 0);
    answer(1, LQ_ANSWER_OPEN, 0); /* now it can be taken back */
    ck_assert_uint_eq(script.n_cancelled, 1);
    answer(1, LQ_ANSWER_CANCELLED, 0);
    ck_assert_uint_eq(script.n_submitted, 2);
}
END_TEST

START_TEST(overdue_release_and_renewal)
{
    begin("R 3 k; K 5 4 j");
    answer(0, LQ_ANSWER_OVERDUE, 0);
    answer(1, LQ_ANSWER_OVERDUE, 0);
    answer(1, LQ_ANSWER_RENEWED, 0);
    answer(0, LQ_ANSWER_RELEASED, 0);
    check_aborted("");
    ck_assert_uint_eq(script.n_submitted, 2);
}
END_TEST

/* As it goes without a leader: the wait ends, the cancel finds nobody to decide it. */
START_TEST(overdue_after_its_timeout)
{
    begin("A 1 5 1 k");
    lq_rig_advance(rig, 1001);
    ck_assert_uint_eq(script.n_cancelled, 1);
    answer(0, LQ_ANSWER_OVERDUE, 0);
    check_aborted("");
    ck_assert_uint_eq(script.n_cancelled, 1); /* not again */
    answer(0, LQ_ANSWER_OVERDUE, 0);          /* nor does it matter again */
    answer(0, LQ_ANSWER_GRANTED, 7);
    check_released(2, 7);
}
END_TEST

START_TEST(overdue_while_taken_back_by_the_client)
{
    begin("A 9 5 1 k; A 9 5 1 k");
    lq_rig_say(a, "C 1 k");
    lq_rig_go(rig);
    ck_assert_uint_eq(script.n_cancelled, 1);
    answer(0, LQ_ANSWER_OVERDUE, 0);
    check_aborted("");
    ck_assert_uint_eq(script.n_cancelled, 2);
    answer(0, LQ_ANSWER_CANCELLED, 0);
    answer(1, LQ_ANSWER_CANCELLED, 0);
}
END_TEST

/* ---- Lost. */

START_TEST(lost_with_others_open)
{
    begin("A 9 5 1 k; A 9 5 2 j; A 9 5 3 i; R 9 k");
    answer(0, LQ_ANSWER_LOST, 0);
    check_aborted("");
    ck_assert_uint_eq(script.n_cancelled, 2);
    answer(1, LQ_ANSWER_CANCELLED, 0);
    answer(3, LQ_ANSWER_RELEASED, 0);
    answer(2, LQ_ANSWER_GRANTED, 7);
    check_released(5, 7);
}
END_TEST

/* All in one turn, as when an origin was closed. */
START_TEST(all_are_lost)
{
    begin("A 9 5 1 k; A 9 5 1 k; R 9 k; K 5 9 k; A 0 5 2 j");
    for (size_t i = 0; i < 5; i++) {
        give(i, LQ_ANSWER_LOST, 0);
    }
    lq_rig_go(rig);
    check_aborted("");
    ck_assert_uint_eq(script.n_submitted, 5);
    ck_assert_uint_eq(script.n_cancelled, 0);
}
END_TEST

START_TEST(lost_after_overdue)
{
    begin("A 9 5 1 k");
    give(0, LQ_ANSWER_OVERDUE, 0);
    answer(0, LQ_ANSWER_LOST, 0);
    check_aborted("");
}
END_TEST

START_TEST(lost_after_eof)
{
    begin("A 9 5 1 k; R 9 k");
    lq_rig_send_eof(a);
    lq_rig_go(rig);
    ck_assert_uint_eq(script.n_cancelled, 1);
    answer(0, LQ_ANSWER_CANCELLED, 0);
    answer(1, LQ_ANSWER_LOST, 0);
    check_aborted("T 1 k");
}
END_TEST

START_TEST(lost_after_a_bad_frame)
{
    begin("A 9 5 1 k; R 9 k");
    lq_rig_send(a, "?", 1);
    lq_rig_go(rig);
    ck_assert_uint_eq(script.n_cancelled, 1);
    answer(0, LQ_ANSWER_LOST, 0);
    check_aborted(""); /* not the E, which says that all before it was answered */
    answer(1, LQ_ANSWER_RELEASED, 0);
}
END_TEST

/* A release that the hub made for itself. */
START_TEST(lost_for_nobody)
{
    begin("A 9 5 1 k");
    lq_rig_break(a);
    answer(0, LQ_ANSWER_GRANTED, 7);
    ck_assert_uint_eq(script.n_submitted, 2);
    answer(1, LQ_ANSWER_OVERDUE, 0);
    answer(1, LQ_ANSWER_LOST, 0);
    ck_assert_uint_eq(script.n_submitted, 2);
}
END_TEST

/* ---- When nobody listens any more. */

START_TEST(overdue_when_the_connection_is_gone)
{
    begin("A 9 5 1 k; R 9 k");
    lq_rig_break(a);
    answer(0, LQ_ANSWER_OVERDUE, 0);
    answer(1, LQ_ANSWER_OVERDUE, 0);
    ck_assert_ptr_null(lq_hub_take_touched(rig->hub));
    answer(1, LQ_ANSWER_NOT_HELD, 0);
    answer(0, LQ_ANSWER_GRANTED, 7);
    check_released(3, 7);
    ck_assert_int_eq(a->end, LQ_RIG_BROKEN);
}
END_TEST

START_TEST(lost_when_the_connection_is_gone)
{
    begin("A 9 5 1 k; R 9 k");
    lq_rig_break(a);
    answer(0, LQ_ANSWER_LOST, 0);
    answer(1, LQ_ANSWER_LOST, 0);
    ck_assert_ptr_null(lq_hub_take_touched(rig->hub));
    ck_assert_uint_eq(script.n_submitted, 2);
    ck_assert_int_eq(a->end, LQ_RIG_BROKEN);
}
END_TEST

/* E 6 was the last word already, and promised nothing about what it left open. */
START_TEST(unknown_after_the_stop)
{
    begin("A 9 5 1 k; A 9 5 2 k");
    lq_rig_set_window(a, 0);
    lq_rig_stop(rig);
    answer(0, LQ_ANSWER_OVERDUE, 0);
    answer(1, LQ_ANSWER_LOST, 0);
    ck_assert_int_eq(a->end, LQ_RIG_CONNECTED);
    ck_assert_int_eq(lq_session_wish(a->session), LQ_WISH_CLOSE);
    lq_rig_set_window(a, LQ_RIG_OPEN_WINDOW);
    ck_assert_int_eq(a->end, LQ_RIG_CLOSED);
    LQ_HEARS(a, "E 6");
    lq_rig_go(rig);
    answer(0, LQ_ANSWER_GRANTED, 7);
    check_released(3, 7);
}
END_TEST

/* ---- Around the abort. */

START_TEST(answers_before_it_stay_in_order)
{
    begin("R 1 k; R 2 k; A 9 5 3 k; R 4 k");
    give(1, LQ_ANSWER_NOT_HELD, 0);
    give(0, LQ_ANSWER_RELEASED, 0);
    give(2, LQ_ANSWER_OVERDUE, 0);
    give(3, LQ_ANSWER_RELEASED, 0);
    lq_rig_say(a, "P 1");
    lq_rig_go(rig);
    check_aborted("P 1; N 2 k; R 1 k");
    answer(2, LQ_ANSWER_CANCELLED, 0);
}
END_TEST

/* A grant that was answered, but of which nothing left, is released as for any close. */
START_TEST(a_grant_that_did_not_leave_is_taken_back)
{
    begin("A 0 5 1 k; R 9 j");
    lq_rig_set_window(a, 0);
    give(0, LQ_ANSWER_GRANTED, 7);
    answer(1, LQ_ANSWER_LOST, 0);
    ck_assert_int_eq(a->end, LQ_RIG_ABORTED);
    check_released(3, 7);
}
END_TEST

/* Whatever the shell does before it closes: nothing is read, said or begun. */
START_TEST(nothing_follows_it)
{
    static const char acquire[] = "A\x09\x05\0\0\0\0\0\0\0\x07k\n";
    begin("A 9 5 1 k; R 9 j");
    lq_rig_set_window(a, 0);
    lq_rig_say(a, "P 1");
    lq_rig_go(rig);
    give(0, LQ_ANSWER_OVERDUE, 0);
    lq_hub_turn(rig->hub, rig->now_ms);
    ck_assert_ptr_eq(lq_hub_take_touched(rig->hub), a->session);
    ck_assert_int_eq(lq_session_wish(a->session), LQ_WISH_ABORT);
    ck_assert(!lq_session_wants_input(a->session));
    lq_session_input(a->session, (const uint8_t *)acquire, sizeof acquire - 1);
    lq_session_eof(a->session);
    give(1, LQ_ANSWER_RELEASED, 0);
    rig->now_ms += 2 * LQ_UNREAD_TIMEOUT_S_DEFAULT * UINT64_C(1000);
    lq_hub_stop(rig->hub, rig->now_ms);
    ck_assert_int_eq(lq_session_wish(a->session), LQ_WISH_ABORT);
    lq_rig_set_window(a, 1); /* a byte more goes, and then it is closed */
    check_aborted("...");
    lq_rig_go(rig);
    answer(0, LQ_ANSWER_CANCELLED, 0);
    ck_assert_uint_eq(script.n_submitted, 2);
    ck_assert_uint_eq(lq_hub_n_sessions(rig->hub), 0);
}
END_TEST

/* A free place does not take up again what was held back. */
START_TEST(what_was_held_back_stays_undone)
{
    teardown();
    setup_capped(1);
    begin("A 9 5 1 k; R 9 j");
    ck_assert_uint_eq(script.n_submitted, 1);
    answer(0, LQ_ANSWER_LOST, 0);
    check_aborted("");
    ck_assert_uint_eq(script.n_submitted, 1);
}
END_TEST

/* A hub that is freed while such a request is open leaks nothing (the sanitizer looks). */
START_TEST(freed_in_the_middle)
{
    begin("A 9 5 1 k; R 9 j; A 9 5 2 k");
    answer(1, LQ_ANSWER_OVERDUE, 0);
    check_aborted("");
}
END_TEST

static Suite *session_unknown_suite(void)
{
    Suite *suite = suite_create("session_unknown");
    TCase *tcase = tcase_create("unknown");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, overdue_then_granted);
    tcase_add_test(tcase, overdue_and_granted_before_the_close);
    tcase_add_test(tcase, overdue_then_cancelled);
    tcase_add_test(tcase, overdue_while_it_is_not_open);
    tcase_add_test(tcase, overdue_release_and_renewal);
    tcase_add_test(tcase, overdue_after_its_timeout);
    tcase_add_test(tcase, overdue_while_taken_back_by_the_client);
    tcase_add_test(tcase, lost_with_others_open);
    tcase_add_test(tcase, all_are_lost);
    tcase_add_test(tcase, lost_after_overdue);
    tcase_add_test(tcase, lost_after_eof);
    tcase_add_test(tcase, lost_after_a_bad_frame);
    tcase_add_test(tcase, lost_for_nobody);
    tcase_add_test(tcase, overdue_when_the_connection_is_gone);
    tcase_add_test(tcase, lost_when_the_connection_is_gone);
    tcase_add_test(tcase, unknown_after_the_stop);
    tcase_add_test(tcase, answers_before_it_stay_in_order);
    tcase_add_test(tcase, a_grant_that_did_not_leave_is_taken_back);
    tcase_add_test(tcase, nothing_follows_it);
    tcase_add_test(tcase, what_was_held_back_stays_undone);
    tcase_add_test(tcase, freed_in_the_middle);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(session_unknown_suite());
}
