/* Exactly once: whatever happens to leaders, links and messages, each command of an origin takes
 * effect once, and its client hears of it once. */
#include "lq_test.h"
#include "support/replica_rig.h"

#include <stdio.h>
#include <string.h>

static struct lq_nodes nodes;
static struct lq_rand random_of_filter;

/* How often each command was applied at node 2, by kind of its effect. */
static uint64_t n_acquired, n_released, n_skipped;

static void on_applied(void *context, uint64_t index, const struct lq_stamp *stamp,
                       const struct lq_command *command, const struct lq_outcome *outcomes,
                       size_t n_outcomes)
{
    (void)context;
    (void)index;
    (void)stamp;
    (void)command;
    for (size_t i = 0; i < n_outcomes; i++) {
        n_acquired += outcomes[i].kind == LQ_OUTCOME_GRANTED;
        n_released += outcomes[i].kind == LQ_OUTCOME_RELEASED;
        n_skipped += outcomes[i].kind == LQ_OUTCOME_SKIPPED;
    }
}

static void set_up(void)
{
    lq_nodes_init(&nodes, 3);
    (void)lq_nodes_form(&nodes, 3);
    lq_nodes_lead(&nodes, 1);
    n_acquired = n_released = n_skipped = 0;
    lq_replica_observe(nodes.nodes[2].replica, on_applied, NULL);
    random_of_filter = lq_rand_of(lq_test_seed(), 1);
}

static void tear_down(void)
{
    lq_nodes_done(&nodes);
}

/* ---- Messages that are lost, doubled, late. */

static enum lq_nodes_fate drop_outcomes(uint32_t from, uint32_t to,
                                        const struct lq_message *message)
{
    (void)from;
    (void)to;
    return message->kind == LQ_MESSAGE_OUTCOMES ? LQ_NODES_DROP : LQ_NODES_PASS;
}

START_TEST(without_outcomes_of_the_leader_the_own_table_answers)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    nodes.filter = drop_outcomes;
    lq_rig_say(client, "A 10 5 7 key; A 0 5 8 key; K 5 1 key; R 1 key; R 1 key");
    lq_nodes_advance(&nodes, 200);
    LQ_HEARS(client, "A 1 7 key; T 8 key; K 1 key; R 1 key; N 1 key");
    ck_assert_uint_eq(lq_nodes_status(&nodes, 2).outbox_bytes, 0);
}
END_TEST

static enum lq_nodes_fate no_entries_to_two(uint32_t from, uint32_t to,
                                            const struct lq_message *message)
{
    (void)from;
    return to == 2 && message->kind == LQ_MESSAGE_APPEND && message->count > 0 ? LQ_NODES_DROP
                                                                               : LQ_NODES_PASS;
}

/* The first one wins: here that of the leader, long before the own table has it. */
START_TEST(the_leader_answers_before_the_own_table)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    nodes.filter = no_entries_to_two;
    lq_rig_say(client, "A 10 5 7 key; R 1 key");
    lq_nodes_advance(&nodes, 20);
    LQ_HEARS(client, "A 1 7 key; R 1 key");
    ck_assert_uint_eq(n_acquired, 0);
    ck_assert_uint_eq(lq_nodes_status(&nodes, 2).outbox_bytes, 0);
    nodes.filter = NULL;
    lq_nodes_advance(&nodes, 300);
    LQ_HEARS(client, "");
    ck_assert_uint_eq(n_acquired, 1);
}
END_TEST

static enum lq_nodes_fate double_submits(uint32_t from, uint32_t to,
                                         const struct lq_message *message)
{
    (void)from;
    (void)to;
    return message->kind == LQ_MESSAGE_SUBMIT || message->kind == LQ_MESSAGE_OUTCOMES
               ? LQ_NODES_TWICE
               : LQ_NODES_PASS;
}

START_TEST(a_command_that_comes_twice_is_done_once)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    nodes.filter = double_submits;
    for (int i = 0; i < 10; i++) {
        lq_rig_say(client, "A 0 5 %d key%d", i, i);
        lq_nodes_advance(&nodes, 1);
    }
    lq_nodes_advance(&nodes, 200);
    ck_assert_uint_eq(lq_rig_hear_count(client, LQ_OP_ACQUIRE), 10);
    ck_assert_uint_eq(n_acquired, 10);
}
END_TEST

static unsigned n_to_drop;

static enum lq_nodes_fate drop_one_submit(uint32_t from, uint32_t to,
                                          const struct lq_message *message)
{
    (void)from;
    (void)to;
    if (message->kind == LQ_MESSAGE_SUBMIT && n_to_drop > 0) {
        n_to_drop--;
        return LQ_NODES_DROP;
    }
    return LQ_NODES_PASS;
}

/* The leader sees the gap and says from where to send again. */
START_TEST(a_lost_command_is_asked_for_again_at_once)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    nodes.filter = drop_one_submit;
    n_to_drop = 1;
    lq_nodes_advance(&nodes, 100);
    lq_rig_say(client, "A 0 5 7 first");
    lq_nodes_advance(&nodes, 1);
    lq_rig_say(client, "A 0 5 8 second");
    lq_nodes_advance(&nodes, 20);
    LQ_HEARS(client, "A 1 7 first; A 2 8 second");
    ck_assert_uint_eq(n_to_drop, 0);
}
END_TEST

/* Nothing follows that would show the gap. */
START_TEST(a_lost_last_command_comes_again_after_a_while)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    nodes.filter = drop_one_submit;
    n_to_drop = 2;
    lq_rig_say(client, "A 0 5 7 first");
    lq_nodes_advance(&nodes, 1000);
    LQ_HEARS(client, "A 1 7 first");
}
END_TEST

static enum lq_nodes_fate anything(uint32_t from, uint32_t to, const struct lq_message *message)
{
    (void)from;
    (void)to;
    if (message->kind != LQ_MESSAGE_SUBMIT && message->kind != LQ_MESSAGE_OUTCOMES &&
        message->kind != LQ_MESSAGE_RESEND) {
        return LQ_NODES_PASS;
    }
    return (enum lq_nodes_fate)lq_rand_below(&random_of_filter, 4);
}

START_TEST(lost_doubled_and_reordered_commands_are_done_once_each_in_order)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    struct lq_frame answer;
    uint64_t token = 0, n = 0;
    nodes.filter = anything;
    random_of_filter = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    for (unsigned i = 0; i < 60; i++) {
        lq_rig_say(client, "A 0 60 %u key%u", i, i);
        lq_nodes_advance(&nodes, lq_rand_below(&random_of_filter, 4));
    }
    lq_nodes_advance(&nodes, 3000);
    nodes.filter = NULL;
    lq_nodes_advance(&nodes, 1000);
    while (lq_rig_next(client, &answer)) {
        ck_assert_int_eq(answer.op, LQ_OP_ACQUIRE);
        ck_assert_uint_eq(answer.owner + 1, answer.token); /* in the order of the requests */
        ck_assert_uint_ne(answer.token, token);
        token = answer.token;
        n++;
    }
    ck_assert_uint_eq(n, 60);
    ck_assert_uint_eq(n_acquired, 60);
    ck_assert_int_eq(client->end, LQ_RIG_CONNECTED);
}
END_TEST

/* ---- Leaders that die. */

START_TEST(clients_of_other_nodes_do_not_notice_that_the_leader_died)
{
    struct lq_rig_client *two = lq_nodes_connect(&nodes, 2), *three = lq_nodes_connect(&nodes, 3);
    uint64_t since;
    lq_rig_say(two, "A 20 60 7 key");
    lq_nodes_advance(&nodes, 20);
    lq_rig_say(three, "A 60 60 8 key"); /* queued */
    lq_nodes_advance(&nodes, 20);
    LQ_HEARS(two, "A 1 7 key");
    lq_rig_say(two, "A 0 60 9 in-flight; R 1 key; A 60 60 10 key");
    lq_nodes_advance(&nodes, 1);
    lq_nodes_kill(&nodes, 1);
    since = nodes.now_ms;
    while (lq_nodes_leader(&nodes) == 0) {
        lq_nodes_advance(&nodes, 1);
        ck_assert_uint_lt(nodes.now_ms, since + 1500); /* a split vote now and then */
    }
    lq_nodes_advance(&nodes, 300);
    LQ_HEARS(two, "A 2 9 in-flight; R 1 key");
    LQ_HEARS(three, "A 3 8 key"); /* kept its place */
    lq_rig_say(three, "R 3 key");
    lq_nodes_advance(&nodes, 50);
    LQ_HEARS(two, "A 4 10 key");
    ck_assert_uint_eq(n_acquired, 4);
    ck_assert_uint_eq(n_released, 2);
}
END_TEST

/* Leaders come and go while commands are on their way. */
START_TEST(once_across_many_leaders)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    uint64_t n = 0;
    struct lq_frame answer;
    for (unsigned i = 0; i < 150; i++) {
        lq_rig_say(client, "A 0 60 %u key%u", i, i);
        lq_nodes_advance(&nodes, lq_rand_below(&rand, 20));
        if (i % 10 == 5) {
            uint32_t leader = lq_nodes_leader(&nodes);
            if (leader != 0) {
                (void)lq_replica_change(nodes.nodes[leader].replica, LQ_CHANGE_TRANSFER,
                                        1 + (uint32_t)lq_rand_below(&rand, 3), NULL);
            }
        } else if (i % 40 == 20) {
            uint32_t dead = lq_nodes_leader(&nodes);
            if (dead != 0 && dead != 2) {
                lq_nodes_kill(&nodes, dead);
                lq_nodes_advance(&nodes, lq_rand_below(&rand, 300));
                lq_nodes_start(&nodes, dead);
            }
        }
    }
    lq_nodes_advance(&nodes, 2000);
    while (lq_rig_next(client, &answer)) {
        n += answer.op == LQ_OP_ACQUIRE;
        ck_assert(answer.op == LQ_OP_ACQUIRE || answer.op == LQ_OP_BUSY);
    }
    ck_assert_uint_eq(n, n_acquired);
    ck_assert_uint_ge(n, 100);
    ck_assert_int_eq(client->end, LQ_RIG_CONNECTED);
    ck_assert_uint_eq(lq_nodes_status(&nodes, 2).outbox_bytes, 0);
}
END_TEST

/* The node that the client is at becomes the leader, and ceases to be. */
START_TEST(the_origin_itself_becomes_the_leader)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    for (unsigned i = 0; i < 6; i++) {
        lq_rig_say(client, "A 60 60 %u key", i);
        lq_nodes_advance(&nodes, 3);
        (void)lq_replica_change(nodes.nodes[i % 2 == 0 ? 1 : 2].replica, LQ_CHANGE_TRANSFER,
                                i % 2 == 0 ? 2 : 1, NULL);
        lq_rig_say(client, "A 0 60 %u other%u", 100 + i, i);
        lq_nodes_advance(&nodes, 200);
        ck_assert_uint_eq(lq_nodes_leader(&nodes), i % 2 == 0 ? 2 : 1);
    }
    ck_assert_uint_eq(lq_rig_hear_count(client, LQ_OP_ACQUIRE), 7);
    ck_assert_uint_eq(n_acquired, 7);
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, 2), 5);
}
END_TEST

static Suite *home_suite(void)
{
    Suite *suite = suite_create("home_once");
    TCase *tcase = tcase_create("once");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, without_outcomes_of_the_leader_the_own_table_answers);
    tcase_add_test(tcase, the_leader_answers_before_the_own_table);
    tcase_add_test(tcase, a_command_that_comes_twice_is_done_once);
    tcase_add_test(tcase, a_lost_command_is_asked_for_again_at_once);
    tcase_add_test(tcase, a_lost_last_command_comes_again_after_a_while);
    tcase_add_loop_test(tcase, lost_doubled_and_reordered_commands_are_done_once_each_in_order, 0,
                        10);
    tcase_add_test(tcase, clients_of_other_nodes_do_not_notice_that_the_leader_died);
    tcase_add_loop_test(tcase, once_across_many_leaders, 0, 5);
    tcase_add_test(tcase, the_origin_itself_becomes_the_leader);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(home_suite());
}
