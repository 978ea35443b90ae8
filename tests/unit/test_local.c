/* The backend of simple mode by itself: lazy expiry, the sweep and its slices, what it asks for as
 * the next turn, quarantine. How clients see all this: test_session_waits.c. */
#include "lq_frame.h"
#include "lq_limits.h"
#include "lq_local.h"
#include "lq_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START    UINT64_C(1000)
#define SWEEP_MS UINT64_C(5000)

/* ---- A backend, and requests that belong to the test until they had their last answer. */

static struct lq_backend *backend;
static uint64_t now_ms;
static struct lq_request *requests[16384];
static size_t n_requests;

static void begin_with(struct lq_local_options options)
{
    now_ms = START;
    n_requests = 0;
    backend = lq_local_new(&options, now_ms);
}

static struct lq_local_options defaults(void)
{
    return (struct lq_local_options){.caps = {.keys = 1000000,
                                              .waiters_per_key = 1000,
                                              .waiters = 1000000,
                                              .state_bytes = UINT64_MAX},
                                     .sweep_ms = SWEEP_MS,
                                     .first_token = 1};
}

static void setup(void)
{
    begin_with(defaults());
}

static void teardown(void)
{
    lq_local_free(backend);
    for (size_t i = 0; i < n_requests; i++) {
        free(requests[i]);
    }
}

static void turn_begins(uint64_t at_ms)
{
    now_ms = at_ms;
    backend->ops->begin(backend, now_ms);
}

static void turn_ends(void)
{
    backend->ops->end(backend);
}

static void turn(uint64_t at_ms)
{
    turn_begins(at_ms);
    turn_ends();
}

static struct lq_request *submit(enum lq_op op, const char *key, uint8_t wait_s, uint64_t number)
{
    size_t len = strlen(key);
    struct lq_request *request = calloc(1, sizeof *request + len);
    request->op = (uint8_t)op;
    request->wait_s = wait_s;
    request->lease_s = 2;
    request->key_len = (uint16_t)len;
    request->owner = op == LQ_OP_ACQUIRE ? number : 0;
    request->token = op == LQ_OP_ACQUIRE ? 0 : number;
    lq_list_init(&request->in_held);
    memcpy(request->key, key, len);
    requests[n_requests++] = request;
    backend->ops->submit(backend, request);
    return request;
}

static struct lq_request *acquire(const char *key, uint8_t wait_s)
{
    return submit(LQ_OP_ACQUIRE, key, wait_s, 7);
}

/* The next answer is this one. */
static void check_answer(const struct lq_request *request, enum lq_answer_kind kind, uint64_t token)
{
    struct lq_answer answer;
    ck_assert(backend->ops->take(backend, &answer));
    ck_assert_ptr_eq(answer.request, request);
    ck_assert_int_eq(answer.kind, kind);
    ck_assert_uint_eq(answer.token, token);
}

static void check_no_answer(void)
{
    struct lq_answer answer = {.token = 99};
    ck_assert(!backend->ops->take(backend, &answer));
    ck_assert_uint_eq(answer.token, 99);
}

static void drop_answers(void)
{
    struct lq_answer answer;
    while (backend->ops->take(backend, &answer)) {
    }
}

static uint64_t deadline(void)
{
    return backend->ops->deadline(backend);
}

static struct lq_table_counts counts(void)
{
    return lq_table_counts(lq_local_table(backend));
}

/* `n` keys that nobody waits for, with a lease of 2 s. */
static void register_many(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "key-%zu", i);
        (void)acquire(key, 0);
    }
    drop_answers();
}

/* ---- Answers. */

START_TEST(each_request_is_answered)
{
    struct lq_request *first, *waiter, *other;
    turn_begins(START);
    first = acquire("k", 0);
    check_answer(first, LQ_ANSWER_GRANTED, 1);
    check_answer(acquire("k", 0), LQ_ANSWER_TIMEOUT, 0);
    waiter = acquire("k", 9);
    check_answer(waiter, LQ_ANSWER_OPEN, 0);
    other = acquire("k", 9);
    check_answer(other, LQ_ANSWER_OPEN, 0);
    check_answer(submit(LQ_OP_RENEW, "k", 0, 1), LQ_ANSWER_RENEWED, 0);
    check_answer(submit(LQ_OP_RENEW, "k", 0, 2), LQ_ANSWER_NOT_HELD, 0);
    check_answer(submit(LQ_OP_RELEASE, "k", 0, 2), LQ_ANSWER_NOT_HELD, 0);
    check_no_answer();
    check_answer(submit(LQ_OP_RELEASE, "k", 0, 1), LQ_ANSWER_RELEASED, 0);
    check_answer(waiter, LQ_ANSWER_GRANTED, 2);
    backend->ops->cancel(backend, other);
    check_answer(other, LQ_ANSWER_CANCELLED, 0);
    check_no_answer();
    turn_ends();
    check_no_answer();
}
END_TEST

/* Granted in the turn in which it is cancelled: the grant is its last answer. */
START_TEST(a_grant_that_came_first_stays)
{
    struct lq_request *waiter;
    turn_begins(START);
    (void)acquire("k", 0);
    waiter = acquire("k", 9);
    drop_answers();
    (void)submit(LQ_OP_RELEASE, "k", 0, 1);
    backend->ops->cancel(backend, waiter);
    check_answer(requests[2], LQ_ANSWER_RELEASED, 0);
    check_answer(waiter, LQ_ANSWER_GRANTED, 2);
    check_no_answer();
}
END_TEST

START_TEST(tokens_begin_where_they_should)
{
    struct lq_local_options options = defaults();
    options.first_token = UINT64_C(1700000000000000);
    teardown();
    begin_with(options);
    turn_begins(START);
    check_answer(acquire("k", 0), LQ_ANSWER_GRANTED, UINT64_C(1700000000000000));
    check_answer(acquire("j", 0), LQ_ANSWER_GRANTED, UINT64_C(1700000000000001));
}
END_TEST

/* ---- Expiry. */

START_TEST(an_expired_key_is_taken_over_by_the_next_acquire)
{
    turn_begins(START);
    check_answer(acquire("k", 0), LQ_ANSWER_GRANTED, 1);
    turn_ends();
    turn_begins(START + 2000);
    check_answer(acquire("k", 0), LQ_ANSWER_TIMEOUT, 0);
    turn_ends();
    turn_begins(START + 2001);
    ck_assert_uint_eq(counts().keys, 1); /* nobody waits: it lies there */
    check_answer(acquire("k", 0), LQ_ANSWER_GRANTED, 2);
    check_answer(acquire("k", 0), LQ_ANSWER_TIMEOUT, 0);
    turn_ends();
}
END_TEST

START_TEST(a_waiter_is_granted_at_the_deadline)
{
    struct lq_request *waiter;
    turn_begins(START);
    (void)acquire("k", 0);
    drop_answers();
    ck_assert_uint_eq(deadline(), START + SWEEP_MS);
    waiter = acquire("k", 9);
    drop_answers();
    turn_ends();
    ck_assert_uint_eq(deadline(), START + 2001);
    turn_begins(START + 2000);
    check_no_answer();
    turn_ends();
    turn_begins(START + 2001);
    check_answer(waiter, LQ_ANSWER_GRANTED, 2);
    turn_ends();
    ck_assert_uint_eq(deadline(), START + SWEEP_MS);
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
        if (lq_table_key_due(lq_local_table(backend), (const uint8_t *)key, strlen(key), now_ms,
                             &expire)) {
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
    turn_begins(START);
    register_many(n);
    for (size_t i = 0; i < n; i++) {
        name_key(i, key);
        (void)acquire(key, 9);
    }
    drop_answers();
    turn_ends();
    turn_begins(START + 2001);
    ck_assert_uint_eq(counts().waiters, n - LQ_TURN_EXPIRES);
    drop_answers();
    at = find_due(n);
    name_key(at, key);
    late = acquire(key, 0);
    check_answer(requests[n + at], LQ_ANSWER_GRANTED, n + LQ_TURN_EXPIRES + 1);
    check_answer(late, LQ_ANSWER_TIMEOUT, 0);
    turn_ends();
    ck_assert_uint_le(deadline(), now_ms);
    turn(START + 2001);
    ck_assert_uint_eq(counts().waiters, 0);
    ck_assert_uint_gt(deadline(), now_ms);
    drop_answers();
}
END_TEST

/* ---- The sweep. */

/* At fixed times from the beginning, however late a turn is. */
START_TEST(the_sweep_keeps_its_times)
{
    turn_begins(START);
    (void)acquire("k", 0);
    drop_answers();
    turn_ends();
    turn(START + SWEEP_MS - 1);
    ck_assert_uint_eq(counts().keys, 1);
    turn(START + SWEEP_MS + 1234);
    ck_assert_uint_eq(counts().keys, 0);
    ck_assert_uint_eq(deadline(), LQ_NEVER);
    turn_begins(START + SWEEP_MS + 2000);
    (void)acquire("k", 0);
    drop_answers();
    turn_ends();
    ck_assert_uint_eq(deadline(), START + 2 * SWEEP_MS);
    turn(START + 2 * SWEEP_MS - 1);
    ck_assert_uint_eq(counts().keys, 1);
    turn(START + 2 * SWEEP_MS);
    ck_assert_uint_eq(counts().keys, 0);
}
END_TEST

START_TEST(the_sweep_leaves_what_is_held)
{
    turn_begins(START);
    (void)acquire("k", 0);
    turn_ends();
    turn_begins(START + 3500);
    (void)acquire("j", 0);
    turn_ends();
    drop_answers();
    turn(START + SWEEP_MS);
    ck_assert_uint_eq(counts().keys, 1);
    ck_assert_uint_eq(deadline(), START + 2 * SWEEP_MS);
    turn_begins(START + SWEEP_MS);
    check_answer(submit(LQ_OP_RELEASE, "j", 0, 2), LQ_ANSWER_RELEASED, 0);
}
END_TEST

START_TEST(the_sweep_goes_in_slices)
{
    size_t n = 3 * LQ_TURN_EXPIRES + 5;
    turn_begins(START);
    register_many(n);
    turn_ends();
    turn(START + SWEEP_MS);
    for (size_t left = n - LQ_TURN_EXPIRES; left > LQ_TURN_EXPIRES; left -= LQ_TURN_EXPIRES) {
        ck_assert_uint_eq(counts().keys, left);
        ck_assert_uint_eq(deadline(), 0); /* at once */
        turn(now_ms);
    }
    ck_assert_uint_eq(counts().keys, 5);
    turn(now_ms);
    ck_assert_uint_eq(counts().keys, 0);
    ck_assert_uint_eq(deadline(), LQ_NEVER);
}
END_TEST

/* A slice that ends with the last key is followed by an empty one, not by none for ever. */
START_TEST(the_sweep_of_exactly_one_slice)
{
    turn_begins(START);
    register_many(LQ_TURN_EXPIRES);
    turn_ends();
    turn(START + SWEEP_MS);
    ck_assert_uint_eq(counts().keys, 0);
    turn(now_ms);
    ck_assert_uint_eq(deadline(), LQ_NEVER);
}
END_TEST

START_TEST(nothing_to_do_is_never)
{
    ck_assert_uint_eq(deadline(), LQ_NEVER);
    turn(START + 1000000);
    ck_assert_uint_eq(deadline(), LQ_NEVER);
}
END_TEST

/* ---- Quarantine. */

static void begin_in_quarantine(void)
{
    struct lq_local_options options = defaults();
    options.quarantine_s = 2;
    options.caps.waiters = 3;
    teardown();
    begin_with(options);
}

START_TEST(quarantine_holds_back)
{
    struct lq_request *first, *second, *third;
    begin_in_quarantine();
    turn_begins(START);
    check_answer(acquire("k", 0), LQ_ANSWER_TIMEOUT, 0);
    first = acquire("k", 9);
    check_answer(first, LQ_ANSWER_OPEN, 0);
    second = acquire("k", 9);
    check_answer(second, LQ_ANSWER_OPEN, 0);
    third = acquire("j", 9);
    check_answer(third, LQ_ANSWER_OPEN, 0);
    check_answer(acquire("i", 9), LQ_ANSWER_BUSY, 0);
    check_answer(submit(LQ_OP_RELEASE, "k", 0, 1), LQ_ANSWER_NOT_HELD, 0);
    check_answer(submit(LQ_OP_RENEW, "k", 0, 1), LQ_ANSWER_NOT_HELD, 0);
    turn_ends();
    ck_assert_uint_eq(deadline(), START + 2001);
    turn_begins(START + 2000);
    check_no_answer();
    backend->ops->cancel(backend, third);
    check_answer(third, LQ_ANSWER_CANCELLED, 0);
    turn_ends();
    turn_begins(START + 2001);
    check_answer(first, LQ_ANSWER_GRANTED, 1);
    check_answer(second, LQ_ANSWER_OPEN, 0);
    check_no_answer();
    check_answer(acquire("j", 0), LQ_ANSWER_GRANTED, 2);
    backend->ops->cancel(backend, second);
    check_answer(second, LQ_ANSWER_CANCELLED, 0);
    turn_ends();
}
END_TEST

/* Nobody waits for its end: no turn is asked for, and it ends all the same. */
START_TEST(quarantine_ends_unseen)
{
    begin_in_quarantine();
    ck_assert_uint_eq(deadline(), LQ_NEVER);
    turn_begins(START + 2001);
    check_answer(acquire("k", 0), LQ_ANSWER_GRANTED, 1);
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
