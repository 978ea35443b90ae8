/* Grants that nobody can have heard of, because the connection was gone before one byte of them was
 * sent, are released at once; all others stand. */
#include "lq_test.h"
#include "support/session_text.h"

#include <stdio.h>

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

START_TEST(a_grant_that_was_not_sent_is_taken_back)
{
    hold();
    lq_rig_set_window(b, 0);
    lq_rig_say(b, "A 9 200 2 k");
    lq_rig_say(c, "A 100 200 3 k");
    lq_rig_go(rig);
    lq_rig_say(a, "R 1 k");
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_holder(rig, "k", 1), 2);
    lq_rig_break(b);
    lq_rig_go(rig);
    LQ_HEARS(c, "A 3 3 k");
    ck_assert_uint_eq(lq_hub_counters(rig->hub).taken_back, 1);
    check_quiet(2);
}
END_TEST

START_TEST(a_grant_stands_once_a_byte_was_sent)
{
    lq_rig_set_window(b, 1);
    lq_rig_say(b, "A 9 200 2 k");
    lq_rig_go(rig);
    lq_rig_break(b);
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_holder(rig, "k", 1), 1);
    ck_assert_uint_eq(lq_hub_counters(rig->hub).taken_back, 0);
    check_quiet(2);
}
END_TEST

/* Grants of 19 + 4 bytes and pings of 10 between them, in several chunks, with every number of
 * bytes sent around the beginning of each: exactly those that had not begun are taken back. */
START_TEST(exactly_the_unsent_grants_are_taken_back)
{
    const size_t grant = 22, ping = 10, n = 600;
    for (size_t sent = 0; sent < n * (grant + ping); sent += sent % 7 == 0 ? 131 : 1) {
        size_t n_begun = (sent + grant + ping - 1) / (grant + ping), n_stand = n_begun;
        struct lq_rig_client *client = lq_rig_connect(rig);
        lq_rig_set_window(client, sent);
        for (unsigned i = 0; i < n; i++) {
            lq_rig_say(client, "A 9 200 2 k%03u", i);
            lq_rig_go(rig);
            lq_rig_say(client, "P 1");
            lq_rig_go(rig);
        }
        lq_rig_break(client);
        lq_rig_go(rig);
        ck_assert_uint_eq(lq_rig_counts(rig).keys, n_stand);
        for (size_t i = 0; i < n; i++) { /* and they are the first ones */
            char key[8];
            (void)snprintf(key, sizeof key, "k%03u", (unsigned)i);
            ck_assert_uint_eq(lq_rig_holder(rig, key, 4) != 0, i < n_stand);
            lq_rig_say(a, "R %llu %s", (unsigned long long)lq_rig_holder(rig, key, 4), key);
        }
        lq_rig_go(rig);
        sent += sent > 100 ? 997 : 0;
    }
    check_quiet(3);
}
END_TEST

/* Other answers are simply lost; a release or renewal is not undone. */
START_TEST(other_unsent_answers_undo_nothing)
{
    lq_rig_say(a, "A 0 200 1 k; A 0 2 2 j");
    lq_rig_go(rig);
    lq_rig_set_window(b, 0);
    lq_rig_say(b, "R 1 k; K 200 2 j; A 0 5 3 j; R 9 j");
    lq_rig_go(rig);
    lq_rig_break(b);
    lq_rig_advance(rig, 10000);
    ck_assert_uint_eq(lq_rig_holder(rig, "k", 1), 0);
    ck_assert_uint_eq(lq_rig_holder(rig, "j", 1), 2);
    ck_assert_uint_eq(lq_hub_counters(rig->hub).taken_back, 0);
}
END_TEST

static Suite *session_unsent_suite(void)
{
    Suite *suite = suite_create("session_unsent");
    TCase *tcase = tcase_create("unsent");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_grant_that_was_not_sent_is_taken_back);
    tcase_add_test(tcase, a_grant_stands_once_a_byte_was_sent);
    tcase_add_test(tcase, exactly_the_unsent_grants_are_taken_back);
    tcase_add_test(tcase, other_unsent_answers_undo_nothing);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(session_unsent_suite());
}
