/* The origin in a healthy cluster and without a leader: what is numbered, held, answered. */
#include "lq_test.h"
#include "support/replica_rig.h"

#include <string.h>

static struct lq_nodes nodes;

static void tear_down(void)
{
    lq_nodes_done(&nodes);
}

static void set_up_three(void)
{
    lq_nodes_init(&nodes, 3);
    (void)lq_nodes_form(&nodes, 3);
    lq_nodes_lead(&nodes, 1);
}

static void set_up_one(void)
{
    lq_nodes_init(&nodes, 1);
    (void)lq_nodes_form(&nodes, 1);
}

/* Nodes 1 and 3 are gone: nobody leads any more. */
static void lose_the_majority(void)
{
    lq_nodes_kill(&nodes, 1);
    lq_nodes_kill(&nodes, 3);
    lq_nodes_advance(&nodes, 1500);
    ck_assert_uint_eq(lq_nodes_status(&nodes, 2).leader, 0);
    ck_assert(!lq_nodes_status(&nodes, 2).is_serving);
}

/* ---- Healthy. */

START_TEST(one_node_serves)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 1);
    lq_rig_say(client, "A 10 5 7 key; A 0 5 8 key; R 1 key; K 5 1 key; A 0 9 9 key");
    lq_nodes_advance(&nodes, 5);
    LQ_HEARS(client, "A 1 7 key; T 8 key; R 1 key; N 1 key; A 2 9 key");
}
END_TEST

START_TEST(every_node_serves_the_same_locks)
{
    struct lq_rig_client *clients[4];
    for (uint32_t id = 1; id <= 3; id++) {
        clients[id] = lq_nodes_connect(&nodes, id);
    }
    lq_rig_say(clients[2], "A 10 5 7 key");
    lq_nodes_advance(&nodes, 20);
    LQ_HEARS(clients[2], "A 1 7 key");
    lq_rig_say(clients[3], "A 10 5 8 key");
    lq_rig_say(clients[1], "A 0 5 9 key");
    lq_nodes_advance(&nodes, 20);
    LQ_HEARS(clients[3], "");
    LQ_HEARS(clients[1], "T 9 key");
    lq_rig_say(clients[1], "R 1 key"); /* on another connection, at another node */
    lq_nodes_advance(&nodes, 20);
    LQ_HEARS(clients[1], "R 1 key");
    LQ_HEARS(clients[3], "A 2 8 key");
    ck_assert_uint_eq(lq_nodes_holder(&nodes, 1, "key"), 2);
}
END_TEST

START_TEST(a_wait_ends_at_the_origin)
{
    struct lq_rig_client *holder = lq_nodes_connect(&nodes, 3);
    struct lq_rig_client *waiter = lq_nodes_connect(&nodes, 2);
    lq_rig_say(holder, "A 10 60 7 key");
    lq_nodes_advance(&nodes, 20);
    lq_rig_say(waiter, "A 2 5 8 key; A 20 5 9 key");
    lq_nodes_advance(&nodes, 1990);
    LQ_HEARS(waiter, "");
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, 1), 2);
    lq_nodes_advance(&nodes, 50);
    LQ_HEARS(waiter, "T 8 key");
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, 1), 1);
    lq_rig_say(waiter, "C 9 key");
    lq_nodes_advance(&nodes, 20);
    LQ_HEARS(waiter, "T 9 key");
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, 1), 0);
}
END_TEST

START_TEST(a_lease_ends_through_the_log)
{
    struct lq_rig_client *holder = lq_nodes_connect(&nodes, 3);
    struct lq_rig_client *waiter = lq_nodes_connect(&nodes, 2);
    uint64_t began;
    lq_rig_say(holder, "A 10 3 7 key");
    lq_nodes_advance(&nodes, 20);
    LQ_HEARS(holder, "A 1 7 key");
    began = nodes.now_ms;
    lq_rig_say(waiter, "A 20 5 8 key");
    lq_nodes_advance(&nodes, 2950 - 20);
    LQ_HEARS(waiter, "");
    lq_nodes_advance(&nodes, 200);
    LQ_HEARS(waiter, "A 2 8 key");
    ck_assert_uint_ge(nodes.now_ms - began, 2970);
}
END_TEST

/* An undeliverable grant: not one byte of it was taken, and the connection is gone. */
START_TEST(a_grant_that_can_not_be_delivered_is_released)
{
    struct lq_rig_client *holder = lq_nodes_connect(&nodes, 3);
    struct lq_rig_client *gone = lq_nodes_connect(&nodes, 2);
    struct lq_rig_client *next = lq_nodes_connect(&nodes, 3);
    lq_rig_say(holder, "A 10 60 7 key");
    lq_nodes_advance(&nodes, 20);
    gone->window = 0;
    lq_rig_say(gone, "A 20 60 8 key");
    lq_nodes_advance(&nodes, 20);
    lq_rig_say(next, "A 20 60 9 key");
    lq_nodes_advance(&nodes, 20);
    lq_rig_say(holder, "R 1 key");
    lq_nodes_advance(&nodes, 20);
    ck_assert_uint_eq(lq_nodes_holder(&nodes, 1, "key"), 2);
    lq_nodes_break(&nodes, gone);
    lq_nodes_advance(&nodes, 20);
    LQ_HEARS(next, "A 3 9 key");
}
END_TEST

START_TEST(waits_of_a_connection_that_is_gone_leave_the_queue)
{
    struct lq_rig_client *holder = lq_nodes_connect(&nodes, 3);
    struct lq_rig_client *gone = lq_nodes_connect(&nodes, 2);
    lq_rig_say(holder, "A 10 60 7 key");
    lq_nodes_advance(&nodes, 20);
    lq_rig_say(gone, "A 60 60 8 key");
    lq_nodes_advance(&nodes, 20);
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, 1), 1);
    lq_nodes_break(&nodes, gone);
    lq_nodes_advance(&nodes, 20);
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, 1), 0);
}
END_TEST

/* ---- Without a leader nothing is numbered, and what is held ends by itself. */

START_TEST(nothing_is_numbered_without_a_leader)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lose_the_majority();
    lq_rig_say(client, "A 20 5 7 key; A 0 5 8 other; R 1 third");
    lq_nodes_advance(&nodes, 20);
    ck_assert_uint_eq(lq_nodes_status(&nodes, 2).held_requests, 3);
    ck_assert_uint_eq(lq_nodes_status(&nodes, 2).outbox_bytes, 0);
}
END_TEST

START_TEST(held_acquires_end_with_t_at_the_end_of_their_wait)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lose_the_majority();
    lq_rig_say(client, "A 3 5 7 key");
    lq_nodes_advance(&nodes, 2990);
    LQ_HEARS(client, "");
    lq_nodes_advance(&nodes, 30);
    LQ_HEARS(client, "T 7 key");
    ck_assert_int_eq(client->end, LQ_RIG_CONNECTED);
    ck_assert_uint_eq(lq_nodes_status(&nodes, 2).held_requests, 0);
}
END_TEST

START_TEST(held_acquires_can_be_cancelled)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lose_the_majority();
    lq_rig_say(client, "A 30 5 7 key");
    lq_nodes_advance(&nodes, 100);
    lq_rig_say(client, "C 7 key");
    lq_nodes_advance(&nodes, 5);
    LQ_HEARS(client, "T 7 key");
}
END_TEST

/* The first one's answer is still on its way when the second cancel comes. */
START_TEST(two_cancels_end_two_acquires_of_one_name)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lq_rig_say(client, "A 0 30 5 key; A 30 5 7 key; A 30 5 7 key");
    lq_nodes_advance(&nodes, 50);
    LQ_HEARS(client, "A 1 5 key");
    lq_rig_say(client, "C 7 key; C 7 key");
    lq_nodes_advance(&nodes, 50);
    LQ_HEARS(client, "T 7 key; T 7 key");
}
END_TEST

START_TEST(held_acquires_that_do_not_wait_end_with_b_after_a_second)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lose_the_majority();
    lq_rig_say(client, "A 0 5 7 key");
    lq_nodes_advance(&nodes, 990);
    LQ_HEARS(client, "");
    lq_nodes_advance(&nodes, 30);
    LQ_HEARS(client, "B 7 key");
    ck_assert_int_eq(client->end, LQ_RIG_CONNECTED);
}
END_TEST

START_TEST(held_releases_and_renewals_close_their_session_after_ten_seconds)
{
    struct lq_rig_client *release = lq_nodes_connect(&nodes, 2);
    struct lq_rig_client *renewal = lq_nodes_connect(&nodes, 2);
    struct lq_rig_client *other = lq_nodes_connect(&nodes, 2);
    lose_the_majority();
    lq_rig_say(release, "R 1 key");
    lq_rig_say(renewal, "K 5 1 key");
    lq_rig_say(other, "A 60 5 7 key");
    lq_nodes_advance(&nodes, 9900);
    ck_assert_int_eq(release->end, LQ_RIG_CONNECTED);
    ck_assert_int_eq(renewal->end, LQ_RIG_CONNECTED);
    lq_nodes_advance(&nodes, 200);
    ck_assert_int_eq(release->end, LQ_RIG_ABORTED);
    ck_assert_int_eq(renewal->end, LQ_RIG_ABORTED);
    LQ_HEARS(release, "");
    LQ_HEARS(renewal, "");
    ck_assert_int_eq(other->end, LQ_RIG_CONNECTED);
}
END_TEST

START_TEST(held_requests_go_on_in_their_order_when_there_is_a_leader)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lose_the_majority();
    lq_rig_say(client, "A 20 5 7 key; A 0 5 8 key; R 1 key; A 20 5 9 key");
    lq_nodes_advance(&nodes, 500);
    LQ_HEARS(client, "");
    lq_nodes_start(&nodes, 3);
    lq_nodes_advance(&nodes, 450);
    lq_nodes_advance(&nodes, 1500);
    ck_assert_uint_ne(lq_nodes_leader(&nodes), 0);
    {
        const char *heard = lq_rig_hear(client);
        /* Whether the one that does not wait was in time depends on the election. */
        ck_assert_msg(strcmp(heard, "A 1 7 key; T 8 key; R 1 key; A 2 9 key") == 0 ||
                          strcmp(heard, "B 8 key; A 1 7 key; R 1 key; A 2 9 key") == 0,
                      "%s", heard);
    }
}
END_TEST

/* ---- What has a number is not answered by guesses. */

START_TEST(numbered_acquires_stay_open_and_are_closed_five_seconds_after_their_wait)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lq_nodes_cut(&nodes, 2, true);
    lq_rig_say(client, "A 2 5 7 key");
    lq_nodes_advance(&nodes, 5);
    ck_assert_uint_gt(lq_nodes_status(&nodes, 2).outbox_bytes, 0);
    lq_nodes_advance(&nodes, 6900);
    LQ_HEARS(client, "");
    ck_assert_int_eq(client->end, LQ_RIG_CONNECTED);
    lq_nodes_advance(&nodes, 200);
    LQ_HEARS(client, "");
    ck_assert_int_eq(client->end, LQ_RIG_ABORTED);
}
END_TEST

START_TEST(numbered_acquires_that_do_not_wait_are_closed_after_five_seconds)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lq_nodes_cut(&nodes, 2, true);
    lq_rig_say(client, "A 0 5 7 key");
    lq_nodes_advance(&nodes, 4900);
    ck_assert_int_eq(client->end, LQ_RIG_CONNECTED);
    lq_nodes_advance(&nodes, 200);
    LQ_HEARS(client, "");
    ck_assert_int_eq(client->end, LQ_RIG_ABORTED);
}
END_TEST

/* What is granted after all when nobody listens is released. */
START_TEST(a_grant_after_its_session_was_closed_is_released)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lq_nodes_cut(&nodes, 2, true);
    lq_rig_say(client, "A 0 60 7 key");
    lq_nodes_advance(&nodes, 4800);
    lq_nodes_advance(&nodes, 100);
    lq_nodes_cut(&nodes, 2, false);
    lq_nodes_break(&nodes, client);
    lq_nodes_advance(&nodes, 1500);
    ck_assert_uint_eq(lq_nodes_holder(&nodes, 1, "key"), 0);
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, 1), 0);
}
END_TEST

START_TEST(a_numbered_request_is_answered_once_the_leader_is_reached)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lq_nodes_cut(&nodes, 2, true);
    lq_rig_say(client, "A 20 60 7 key; A 0 60 8 key");
    lq_nodes_advance(&nodes, 1500);
    LQ_HEARS(client, "");
    lq_nodes_cut(&nodes, 2, false);
    lq_nodes_advance(&nodes, 1000);
    LQ_HEARS(client, "A 1 7 key; T 8 key");
}
END_TEST

static Suite *home_suite(void)
{
    Suite *suite = suite_create("home");
    TCase *one = tcase_create("one"), *three = tcase_create("three");
    tcase_add_checked_fixture(one, set_up_one, tear_down);
    tcase_add_test(one, one_node_serves);
    suite_add_tcase(suite, one);
    tcase_add_checked_fixture(three, set_up_three, tear_down);
    tcase_set_timeout(three, 60);
    tcase_add_test(three, every_node_serves_the_same_locks);
    tcase_add_test(three, a_wait_ends_at_the_origin);
    tcase_add_test(three, a_lease_ends_through_the_log);
    tcase_add_test(three, a_grant_that_can_not_be_delivered_is_released);
    tcase_add_test(three, waits_of_a_connection_that_is_gone_leave_the_queue);
    tcase_add_test(three, nothing_is_numbered_without_a_leader);
    tcase_add_test(three, held_acquires_end_with_t_at_the_end_of_their_wait);
    tcase_add_test(three, held_acquires_can_be_cancelled);
    tcase_add_test(three, two_cancels_end_two_acquires_of_one_name);
    tcase_add_test(three, held_acquires_that_do_not_wait_end_with_b_after_a_second);
    tcase_add_test(three, held_releases_and_renewals_close_their_session_after_ten_seconds);
    tcase_add_test(three, held_requests_go_on_in_their_order_when_there_is_a_leader);
    tcase_add_test(three, numbered_acquires_stay_open_and_are_closed_five_seconds_after_their_wait);
    tcase_add_test(three, numbered_acquires_that_do_not_wait_are_closed_after_five_seconds);
    tcase_add_test(three, a_grant_after_its_session_was_closed_is_released);
    tcase_add_test(three, a_numbered_request_is_answered_once_the_leader_is_reached);
    suite_add_tcase(suite, three);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(home_suite());
}
