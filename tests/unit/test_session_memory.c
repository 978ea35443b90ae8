/* No allocation per request once the server has warmed up, other than one for a new key and one or
 * two for an acquire that waits (the waiter, and the queue of its key). The rig itself does not
 * count. */
#include "lq_mem.h"
#include "lq_test.h"
#include "support/session_text.h"

#define N_CLIENTS 16u
#define DEPTH     16u
#define ROUNDS    50u

static struct lq_rig *rig;
static struct lq_rig_client *clients[N_CLIENTS];

static void setup(void)
{
    rig = lq_rig_new(NULL);
    for (size_t i = 0; i < N_CLIENTS; i++) {
        clients[i] = lq_rig_connect(rig);
    }
}

static void teardown(void)
{
    lq_rig_free(rig);
}

/* One round: every client sends, one turn or more, every client reads. */
typedef void say_fn(struct lq_rig_client *client, unsigned i, unsigned round);

static void play(say_fn *say, unsigned round)
{
    for (unsigned i = 0; i < N_CLIENTS; i++) {
        say(clients[i], i, round);
    }
    lq_rig_go(rig);
}

/* Allocations of ROUNDS rounds, after as many to warm up; `ret_counters` is what happened in them.
 */
static uint64_t count_allocations(say_fn *say, struct lq_hub_counters *ret_counters)
{
    struct lq_hub_counters before, after;
    uint64_t allocations;
    for (unsigned round = 0; round < ROUNDS; round++) {
        play(say, round);
    }
    before = lq_hub_counters(rig->hub);
    allocations = lq_mem_allocations();
    for (unsigned round = 0; round < ROUNDS; round++) {
        play(say, round);
    }
    allocations = lq_mem_allocations() - allocations;
    after = lq_hub_counters(rig->hub);
    ret_counters->requests = after.requests - before.requests;
    ret_counters->granted = after.granted - before.granted;
    ret_counters->timeouts = after.timeouts - before.timeouts;
    ret_counters->busy = after.busy - before.busy;
    return allocations;
}

/* ---- Keys of its own: pairs of acquire and release, DEPTH of them in flight. */

static uint64_t last_token; /* of all rounds so far */

static void say_pairs(struct lq_rig_client *client, unsigned i, unsigned round)
{
    (void)round;
    for (unsigned at = 0; at < DEPTH; at++) {
        last_token++;
        lq_rig_say(client,
                   "A 5 30 %u a-key-of-thirty-two-bytes-%04u; R %llu "
                   "a-key-of-thirty-two-bytes-%04u",
                   at, i * DEPTH + at, (unsigned long long)last_token, i * DEPTH + at);
    }
}

START_TEST(a_pair_allocates_its_key)
{
    struct lq_hub_counters counters;
    uint64_t allocations = count_allocations(say_pairs, &counters);
    ck_assert_uint_eq(counters.granted, ROUNDS * N_CLIENTS * DEPTH);
    ck_assert_uint_eq(counters.requests, 2 * counters.granted);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 0);
    ck_assert_uint_eq(allocations, counters.granted);
}
END_TEST

/* ---- What needs neither a new key nor a waiter. */

static void say_small(struct lq_rig_client *client, unsigned i, unsigned round)
{
    (void)i;
    (void)round;
    for (unsigned at = 0; at < DEPTH; at++) {
        lq_rig_say(client,
                   "A 0 5 1 held; R 99 held; K 5 99 held; K 255 1 held; P 3; C 9 held; R 7 j");
    }
}

START_TEST(other_requests_allocate_nothing)
{
    struct lq_hub_counters counters;
    lq_rig_say(clients[0], "A 0 255 1 held");
    lq_rig_go(rig);
    ck_assert_uint_eq(count_allocations(say_small, &counters), 0);
    ck_assert_uint_eq(counters.requests, 7 * ROUNDS * N_CLIENTS * DEPTH);
    ck_assert_uint_eq(counters.timeouts, ROUNDS * N_CLIENTS * DEPTH);
}
END_TEST

/* ---- One key for all: every acquire waits, and is handed the lock. */

static void say_shared(struct lq_rig_client *client, unsigned i, unsigned round)
{
    if (i == 0) {
        lq_rig_say(client, "A 0 200 1 shared");
        last_token++;
    } else {
        lq_rig_say(client, "A 200 200 1 shared");
    }
    (void)round;
}

static void say_release(struct lq_rig_client *client, unsigned i, unsigned round)
{
    lq_rig_say(client, "R %llu shared", (unsigned long long)last_token + i);
    last_token += i == N_CLIENTS - 1 ? N_CLIENTS - 1 : 0;
    (void)round;
}

static void say_turns(struct lq_rig_client *client, unsigned i, unsigned round)
{
    if (i == 0 && round % 2 == 1) {
        ck_assert_uint_eq(lq_rig_counts(rig).waiters, N_CLIENTS - 1);
    }
    (round % 2 == 0 ? say_shared : say_release)(client, i, round);
}

START_TEST(a_waiter_allocates_twice_at_most)
{
    struct lq_hub_counters counters;
    uint64_t allocations = count_allocations(say_turns, &counters);
    ck_assert_uint_eq(counters.granted, ROUNDS / 2 * N_CLIENTS);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 0);
    ck_assert_uint_le(allocations, 2 * counters.granted);
}
END_TEST

/* ---- Waiters that give up: by C in the same read. */

static void say_cancelled(struct lq_rig_client *client, unsigned i, unsigned round)
{
    (void)round;
    for (unsigned at = 0; at < DEPTH; at++) {
        lq_rig_say(client, "A 9 9 %u held; C %u held; A 9 9 %u held; C %u held", at, at, i, i);
    }
}

START_TEST(a_cancelled_waiter_allocates_twice_at_most)
{
    struct lq_hub_counters counters;
    uint64_t allocations;
    lq_rig_say(clients[0], "A 0 255 1 held");
    lq_rig_go(rig);
    allocations = count_allocations(say_cancelled, &counters);
    ck_assert_uint_eq(counters.timeouts, 2 * ROUNDS * N_CLIENTS * DEPTH);
    ck_assert_uint_le(allocations, 2 * counters.timeouts);
}
END_TEST

/* ---- Expired keys, taken over again and again. */

static void say_expired(struct lq_rig_client *client, unsigned i, unsigned round)
{
    (void)round;
    if (i == 0) {
        rig->now_ms += 1001;
    }
    for (unsigned at = 0; at < DEPTH; at++) {
        lq_rig_say(client, "A 0 1 1 key-%u", i * DEPTH + at);
    }
}

START_TEST(a_take_over_allocates_its_key)
{
    struct lq_hub_counters counters;
    uint64_t allocations = count_allocations(say_expired, &counters);
    ck_assert_uint_eq(counters.granted, ROUNDS * N_CLIENTS * DEPTH);
    ck_assert_uint_le(allocations, counters.granted);
}
END_TEST

static Suite *session_memory_suite(void)
{
    Suite *suite = suite_create("session_memory");
    TCase *tcase = tcase_create("memory");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_pair_allocates_its_key);
    tcase_add_test(tcase, other_requests_allocate_nothing);
    tcase_add_test(tcase, a_waiter_allocates_twice_at_most);
    tcase_add_test(tcase, a_cancelled_waiter_allocates_twice_at_most);
    tcase_add_test(tcase, a_take_over_allocates_its_key);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(session_memory_suite());
}
