/* Sessions over the local backend: every request and its answers, as a client sees them. How
 * conversations are written: support/session_text.h. More by theme in test_session_*.c. */
#include "lq_limits.h"
#include "lq_test.h"
#include "support/session_text.h"

#include <string.h>

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

/* ---- Acquire and release. */

START_TEST(a_free_key_is_granted)
{
    lq_rig_say(a, "A 0 5 7 k; A 255 255 8 j");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 7 k; A 2 8 j");
    LQ_HEARS(b, "");
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 2);
}
END_TEST

START_TEST(wait_0_on_a_held_key_is_one_attempt)
{
    lq_rig_say(a, "A 0 5 7 k; A 0 5 8 k");
    lq_rig_say(b, "A 0 5 9 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 7 k; T 8 k");
    LQ_HEARS(b, "T 9 k");
    ck_assert_uint_eq(lq_rig_counts(rig).waiters, 0);
}
END_TEST

START_TEST(release_needs_the_token)
{
    lq_rig_say(a, "A 0 5 7 k; R 2 k; R 1 j; R 1 k; R 1 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 7 k; N 2 k; N 1 j; R 1 k; N 1 k");
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 0);
}
END_TEST

START_TEST(any_connection_may_release)
{
    lq_rig_say(a, "A 0 5 7 k");
    lq_rig_go(rig);
    lq_rig_say(b, "R 1 k");
    lq_rig_say(c, "A 0 5 7 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 7 k");
    LQ_HEARS(b, "R 1 k");
    LQ_HEARS(c, "A 2 7 k");
}
END_TEST

START_TEST(release_hands_over_in_order)
{
    lq_rig_say(a, "A 0 5 1 k; A 9 5 2 k");
    lq_rig_say(b, "A 9 5 3 k; A 9 5 4 k");
    lq_rig_say(c, "A 9 5 5 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k");
    lq_rig_say(c, "A 0 5 6 k; R 1 k; A 0 5 6 k"); /* nobody barges in */
    lq_rig_go(rig);
    LQ_HEARS(a, "A 2 2 k");
    LQ_HEARS(c, "T 6 k; R 1 k; T 6 k");
    lq_rig_say(a, "R 2 k; R 3 k; R 4 k; R 5 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "R 2 k; R 3 k; R 4 k; R 5 k");
    LQ_HEARS(b, "A 3 3 k; A 4 4 k");
    LQ_HEARS(c, "A 5 5 k");
}
END_TEST

START_TEST(a_hundred_waiters_are_served_in_order)
{
    struct lq_rig_client *waiters[100];
    lq_rig_say(a, "A 0 5 1 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k");
    for (uint64_t i = 0; i < 100; i++) {
        waiters[i] = lq_rig_connect(rig);
        lq_rig_say(waiters[i], "A 255 5 %llu k", (unsigned long long)(1000 - i));
        lq_rig_turn(rig);
    }
    for (uint64_t i = 0; i < 100; i++) {
        struct lq_frame answer;
        lq_rig_say(a, "R %llu k", 1 + (unsigned long long)i);
        lq_rig_go(rig);
        ck_assert(lq_rig_next(waiters[i], &answer));
        ck_assert_uint_eq(answer.op, LQ_OP_ACQUIRE);
        ck_assert_uint_eq(answer.owner, 1000 - i);
        ck_assert_uint_eq(answer.token, i + 2);
    }
}
END_TEST

/* An owner correlates one attempt with its answer, and is nothing else. */
START_TEST(the_same_owner_gets_no_special_treatment)
{
    lq_rig_say(a, "A 0 5 7 k; A 0 5 7 k; A 9 5 7 k; A 9 5 7 k");
    lq_rig_say(b, "A 9 5 7 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 7 k; T 7 k");
    lq_rig_say(c, "R 1 k; R 2 k; R 3 k; R 4 k");
    lq_rig_go(rig);
    LQ_HEARS(c, "R 1 k; R 2 k; R 3 k; R 4 k");
    LQ_HEARS(a, "A 2 7 k; A 3 7 k");
    LQ_HEARS(b, "A 4 7 k");
}
END_TEST

/* Requests of one read are executed in their order, answers follow it. */
START_TEST(requests_may_be_pipelined)
{
    lq_rig_say(a, "A 0 5 1 k; R 1 k; A 0 5 2 k; K 5 2 k; R 2 k; K 5 2 k; R 2 k; A 0 5 3 k");
    lq_rig_turn(rig);
    LQ_HEARS(a, "A 1 1 k; R 1 k; A 2 2 k; K 2 k; R 2 k; N 2 k; N 2 k; A 3 3 k");
}
END_TEST

/* More than fits into a turn, or a read. */
START_TEST(ten_thousand_requests_in_one_write)
{
    struct lq_frame answer;
    for (unsigned i = 0; i < 10000; i++) {
        lq_rig_say(a, "A 0 5 %u key-%u", i, i % 5000);
    }
    lq_rig_send_eof(a);
    lq_rig_go(rig);
    for (unsigned i = 0; i < 10000; i++) {
        ck_assert(lq_rig_next(a, &answer));
        ck_assert_uint_eq(answer.op, i < 5000 ? LQ_OP_ACQUIRE : LQ_OP_TIMEOUT);
        ck_assert_uint_eq(answer.owner, i);
    }
    ck_assert(!lq_rig_next(a, &answer));
    ck_assert_int_eq(a->end, LQ_RIG_CLOSED);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 5000);
}
END_TEST

/* Every length of key, through all sizes of requests and answers. */
START_TEST(keys_of_every_length)
{
    char key[LQ_KEY_MAX + 1];
    memset(key, 'x', sizeof key);
    for (size_t len = 1; len <= LQ_KEY_MAX; len++) {
        struct lq_frame answer;
        lq_rig_say(a, "A 9 5 1 %.*s", (int)len, key);
        lq_rig_say(b, "A 9 5 2 %.*s; C 2 %.*s", (int)len, key, (int)len, key);
        lq_rig_go(rig);
        ck_assert(lq_rig_next(a, &answer));
        ck_assert_uint_eq(answer.token, len);
        ck_assert_uint_eq(answer.key_len, len);
        ck_assert_mem_eq(answer.key, key, len);
        ck_assert(lq_rig_next(b, &answer));
        ck_assert_uint_eq(answer.op, LQ_OP_TIMEOUT);
        ck_assert_uint_eq(answer.key_len, len);
    }
    ck_assert_uint_eq(lq_rig_counts(rig).keys, LQ_KEY_MAX);
}
END_TEST

/* ---- Renew. */

START_TEST(renew_keeps_token_and_lock)
{
    lq_rig_say(a, "A 0 2 7 k");
    lq_rig_go(rig);
    for (int i = 0; i < 5; i++) {
        lq_rig_advance(rig, 1500);
        lq_rig_say(b, "K 2 1 k");
        lq_rig_go(rig);
        LQ_HEARS(b, "K 1 k");
    }
    lq_rig_say(c, "A 0 5 7 k");
    lq_rig_go(rig);
    LQ_HEARS(c, "T 7 k");
}
END_TEST

START_TEST(renew_is_refused_without_the_grant)
{
    lq_rig_say(a, "A 0 2 7 k; K 5 2 k; K 5 1 j");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 7 k; N 2 k; N 1 j");
    lq_rig_advance(rig, 2000);
    lq_rig_say(a, "K 2 1 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "K 1 k");
    lq_rig_advance(rig, 2001);
    lq_rig_say(a, "K 2 1 k"); /* ended, though not yet swept */
    lq_rig_go(rig);
    LQ_HEARS(a, "N 1 k");
}
END_TEST

/* ---- Cancel. */

START_TEST(cancel_takes_a_waiting_acquire_back)
{
    lq_rig_say(a, "A 0 5 1 k");
    lq_rig_say(b, "A 9 5 2 k");
    lq_rig_go(rig);
    lq_rig_say(b, "C 2 k; C 2 k");
    lq_rig_go(rig);
    LQ_HEARS(b, "T 2 k");
    ck_assert_uint_eq(lq_rig_counts(rig).waiters, 0);
    lq_rig_say(a, "R 1 k");
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 0);
}
END_TEST

START_TEST(cancel_in_the_same_bytes)
{
    lq_rig_say(a, "A 0 5 1 k; A 9 5 2 k; C 2 k; A 9 5 3 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k; T 2 k");
    lq_rig_say(a, "R 1 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "R 1 k; A 2 3 k");
}
END_TEST

START_TEST(cancel_of_what_was_answered_is_silent)
{
    lq_rig_say(a, "C 1 k; A 0 5 1 k; C 1 k; A 0 5 2 k; C 2 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k; T 2 k");
    lq_rig_say(a, "C 1 k; C 2 k; C 3 j");
    lq_rig_go(rig);
    LQ_HEARS(a, "");
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 1);
}
END_TEST

/* Its connection, owner and key must all be the same. */
START_TEST(cancel_hits_only_what_it_names)
{
    lq_rig_say(a, "A 0 5 1 k; A 0 5 2 j");
    lq_rig_say(b, "A 9 5 7 k; A 9 5 7 j; A 9 5 8 k");
    lq_rig_say(c, "A 9 5 7 k; A 9 5 9 k");
    lq_rig_go(rig);
    lq_rig_say(a, "C 7 k; C 7 j");
    lq_rig_say(b, "C 9 k; C 8 j; C 7 kk");
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_counts(rig).waiters, 5);
    lq_rig_say(c, "C 7 k");
    lq_rig_go(rig);
    LQ_HEARS(c, "T 7 k");
    lq_rig_say(b, "C 7 j");
    lq_rig_go(rig);
    LQ_HEARS(b, "T 7 j");
    ck_assert_uint_eq(lq_rig_counts(rig).waiters, 3);
}
END_TEST

/* Of several with the same owner and key, the oldest goes. */
START_TEST(cancel_of_equal_ones_takes_the_oldest)
{
    lq_rig_say(a, "A 0 1 1 k; A 10 5 7 k; A 20 5 7 k; A 30 5 7 k; A 9 5 8 k; C 7 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k; T 7 k");
    lq_rig_say(a, "R 1 k"); /* the second is granted, the third and the fourth stay */
    lq_rig_go(rig);
    LQ_HEARS(a, "R 1 k; A 2 7 k");
    lq_rig_say(a, "C 7 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "T 7 k");
    lq_rig_say(a, "C 7 k; R 2 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "R 2 k; A 3 8 k");
    ck_assert_uint_eq(lq_rig_counts(rig).waiters, 0);
}
END_TEST

/* Which of them went is seen by when the others end. */
START_TEST(cancel_goes_on_with_the_next_oldest)
{
    lq_rig_say(a, "A 0 255 1 k; A 10 5 7 k; A 20 5 7 k; A 30 5 7 k; C 7 k; C 7 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k; T 7 k; T 7 k");
    lq_rig_advance(rig, 30000);
    LQ_HEARS(a, "");
    lq_rig_advance(rig, 1);
    LQ_HEARS(a, "T 7 k");
}
END_TEST

/* Many equal ones, taken away from the front, the end and the middle. */
START_TEST(cancel_of_many_equal_ones)
{
    lq_rig_say(a, "A 0 200 1 k");
    for (unsigned i = 0; i < 100; i++) {
        lq_rig_say(a, "A %u 5 7 k", 101 + i % 3);
    }
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k");
    lq_rig_advance(rig, 101001); /* each third one times out */
    ck_assert_uint_eq(lq_rig_hear_count(a, LQ_OP_TIMEOUT), 34);
    for (unsigned i = 0; i < 66; i++) {
        lq_rig_say(a, "C 7 k");
        lq_rig_go(rig);
        LQ_HEARS(a, "T 7 k");
    }
    lq_rig_say(a, "C 7 k; A 9 5 7 k; C 7 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "T 7 k");
    ck_assert_uint_eq(lq_rig_counts(rig).waiters, 0);
}
END_TEST

/* ---- Ping, and what is counted. */

START_TEST(ping_is_answered_in_every_state)
{
    lq_rig_say(a, "P 0; P 18446744073709551615; A 0 5 1 k; P 10");
    lq_rig_turn(rig);
    LQ_HEARS(a, "P 0; P 18446744073709551615; P 10; A 1 1 k");
    lq_rig_say(b, "A 9 5 2 k; P 3");
    lq_rig_turn(rig);
    LQ_HEARS(b, "P 3");
    lq_rig_say(b, "P 4");
    lq_rig_turn(rig);
    LQ_HEARS(b, "P 4");
}
END_TEST

START_TEST(what_happens_is_counted)
{
    struct lq_hub_counters counters;
    lq_rig_say(a, "A 0 5 1 k; A 0 5 2 k; A 9 5 3 k; R 1 k; K 5 2 k; P 1; C 9 k");
    lq_rig_say(b, "A 9 5 4 k");
    lq_rig_send(c, "?", 1);
    lq_rig_go(rig);
    lq_rig_break(b);
    lq_rig_go(rig);
    counters = lq_hub_counters(rig->hub);
    ck_assert_uint_eq(counters.requests, 8);
    ck_assert_uint_eq(counters.granted, 2);
    ck_assert_uint_eq(counters.timeouts, 1);
    ck_assert_uint_eq(counters.busy, 0);
    ck_assert_uint_eq(counters.errors, 1);
    ck_assert_uint_eq(counters.taken_back, 0);
    ck_assert_uint_eq(lq_hub_n_sessions(rig->hub), 1);
}
END_TEST

static Suite *session_suite(void)
{
    Suite *suite = suite_create("session");
    TCase *tcase = tcase_create("requests");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_free_key_is_granted);
    tcase_add_test(tcase, wait_0_on_a_held_key_is_one_attempt);
    tcase_add_test(tcase, release_needs_the_token);
    tcase_add_test(tcase, any_connection_may_release);
    tcase_add_test(tcase, release_hands_over_in_order);
    tcase_add_test(tcase, a_hundred_waiters_are_served_in_order);
    tcase_add_test(tcase, the_same_owner_gets_no_special_treatment);
    tcase_add_test(tcase, requests_may_be_pipelined);
    tcase_add_test(tcase, ten_thousand_requests_in_one_write);
    tcase_add_test(tcase, keys_of_every_length);
    tcase_add_test(tcase, renew_keeps_token_and_lock);
    tcase_add_test(tcase, renew_is_refused_without_the_grant);
    tcase_add_test(tcase, cancel_takes_a_waiting_acquire_back);
    tcase_add_test(tcase, cancel_in_the_same_bytes);
    tcase_add_test(tcase, cancel_of_what_was_answered_is_silent);
    tcase_add_test(tcase, cancel_hits_only_what_it_names);
    tcase_add_test(tcase, cancel_of_equal_ones_takes_the_oldest);
    tcase_add_test(tcase, cancel_goes_on_with_the_next_oldest);
    tcase_add_test(tcase, cancel_of_many_equal_ones);
    tcase_add_test(tcase, ping_is_answered_in_every_state);
    tcase_add_test(tcase, what_happens_is_counted);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(session_suite());
}
