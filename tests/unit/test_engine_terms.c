/* What the replica adds to raft: each term's own entry, changes one at a time, transfers that wait,
 * messages that wait for the disk. Whole nodes, since the rules are theirs. */
#include "lq_replica_impl.h"
#include "lq_test.h"
#include "support/replica_rig.h"

#include <stdio.h>
#include <string.h>

static struct lq_nodes nodes;

static void set_up(void)
{
    lq_nodes_init(&nodes, 3);
    (void)lq_nodes_form(&nodes, 3);
    lq_nodes_lead(&nodes, 1);
}

static void tear_down(void)
{
    lq_nodes_done(&nodes);
}

static enum lq_change_result change(uint32_t at, enum lq_change_kind kind, uint32_t node)
{
    char address[16];
    (void)snprintf(address, sizeof address, "node%u:1", node);
    return lq_replica_change(nodes.nodes[at].replica, kind, node,
                             kind == LQ_CHANGE_ADD ? address : NULL);
}

/* Advances until node 1's members in force are as said, within `ms`. */
static void advance_until(uint32_t node, bool is_member, bool is_voter, uint64_t ms)
{
    uint64_t until = nodes.now_ms + ms;
    while (true) {
        const struct lq_members *members = &nodes.nodes[1].replica->replay.members;
        if ((lq_members_find(members, node) != NULL) == is_member &&
            lq_members_is_voter(members, node) == is_voter) {
            return;
        }
        ck_assert_msg(nodes.now_ms < until, "node %u is not so after %lu ms", node,
                      (unsigned long)ms);
        lq_nodes_advance(&nodes, 1);
    }
}

/* ---- Terms. */

START_TEST(each_term_begins_with_an_entry_of_its_own)
{
    for (uint32_t id = 2; id <= 3; id++) {
        const struct lq_replica *replica = nodes.nodes[id].replica;
        struct lq_replica_status status;
        lq_nodes_advance(&nodes, 1000);
        lq_nodes_lead(&nodes, id);
        status = lq_nodes_status(&nodes, id);
        ck_assert_uint_eq(lq_log_last(&replica->log).term, status.term);
        ck_assert_uint_eq(lq_log_term_of(&replica->log, replica->lead.first_index), status.term);
        ck_assert_int_eq(lq_log_at(&replica->log, replica->lead.first_index)->type,
                         LQ_ENTRY_COMMANDS);
        ck_assert_uint_ge(status.commit_index, replica->lead.first_index);
        ck_assert(replica->lead.is_ready);
    }
}
END_TEST

static bool drops_results;

static enum lq_nodes_fate drop_results(uint32_t from, uint32_t to, const struct lq_message *message)
{
    (void)from;
    (void)to;
    return drops_results && message->kind == LQ_MESSAGE_APPEND_RESULT ? LQ_NODES_DROP
                                                                      : LQ_NODES_PASS;
}

/* Else the known bug of changing one server at a time. */
START_TEST(changes_wait_for_the_commit_of_the_terms_own_entry)
{
    nodes.filter = drop_results;
    ck_assert_int_eq(change(1, LQ_CHANGE_TRANSFER, 2), LQ_CHANGE_STARTED);
    while (lq_nodes_leader(&nodes) != 2 || lq_nodes_status(&nodes, 2).role != LQ_REPLICA_LEADER) {
        lq_nodes_advance(&nodes, 1);
        drops_results = lq_nodes_leader(&nodes) == 2;
    }
    lq_nodes_advance(&nodes, 50);
    ck_assert_int_eq(lq_nodes_status(&nodes, 2).role, LQ_REPLICA_LEADER);
    ck_assert_int_eq(change(2, LQ_CHANGE_ADD, 4), LQ_CHANGE_BUSY);
    ck_assert_int_eq(change(2, LQ_CHANGE_REMOVE, 3), LQ_CHANGE_BUSY);
    ck_assert_uint_eq(lq_replica_members(nodes.nodes[2].replica)->n, 3);
    drops_results = false;
    lq_nodes_advance(&nodes, 100);
    ck_assert_int_eq(change(2, LQ_CHANGE_ADD, 4), LQ_CHANGE_STARTED);
}
END_TEST

static void restart_alone(void)
{
    lq_nodes_done(&nodes);
    lq_nodes_init(&nodes, 1);
    (void)lq_nodes_form(&nodes, 1);
}

START_TEST(the_sole_voter_gets_a_new_term_at_each_start)
{
    uint64_t term;
    restart_alone();
    for (int i = 0; i < 3; i++) {
        term = lq_nodes_status(&nodes, 1).term;
        lq_nodes_kill(&nodes, 1);
        (void)lq_nodes_form(&nodes, 1);
        ck_assert_uint_gt(lq_nodes_status(&nodes, 1).term, term);
    }
}
END_TEST

/* ---- Changes. */

START_TEST(one_server_per_change_one_change_at_a_time)
{
    ck_assert_int_eq(change(1, LQ_CHANGE_ADD, 4), LQ_CHANGE_STARTED);
    ck_assert_int_eq(change(1, LQ_CHANGE_ADD, 5), LQ_CHANGE_BUSY);
    ck_assert_int_eq(change(1, LQ_CHANGE_REMOVE, 3), LQ_CHANGE_BUSY);
    ck_assert_int_eq(change(1, LQ_CHANGE_ADD, 4), LQ_CHANGE_DONE); /* safe to repeat */
    ck_assert_int_eq(change(2, LQ_CHANGE_ADD, 5), LQ_CHANGE_NOT_LEADER);
    advance_until(4, true, false, 100);
    ck_assert_int_eq(change(1, LQ_CHANGE_ADD, 5), LQ_CHANGE_STARTED);
    advance_until(5, true, false, 100);
    ck_assert_int_eq(change(1, LQ_CHANGE_REMOVE, 5), LQ_CHANGE_STARTED);
    advance_until(5, false, false, 100);
    ck_assert_int_eq(change(1, LQ_CHANGE_REMOVE, 5), LQ_CHANGE_DONE);
}
END_TEST

START_TEST(changes_that_make_no_sense)
{
    ck_assert_int_eq(change(1, LQ_CHANGE_PROMOTE, 9), LQ_CHANGE_INVALID);
    ck_assert_int_eq(change(1, LQ_CHANGE_DEMOTE, 9), LQ_CHANGE_INVALID);
    ck_assert_int_eq(change(1, LQ_CHANGE_PROMOTE, 2), LQ_CHANGE_DONE);
    ck_assert_int_eq(change(1, LQ_CHANGE_TRANSFER, 9), LQ_CHANGE_INVALID);
    ck_assert_int_eq(change(1, LQ_CHANGE_TRANSFER, 1), LQ_CHANGE_DONE);
    ck_assert_int_eq(lq_replica_change(nodes.nodes[1].replica, LQ_CHANGE_ADD, 4, NULL),
                     LQ_CHANGE_INVALID);
    ck_assert_int_eq(lq_replica_change(nodes.nodes[1].replica, LQ_CHANGE_ADD, 4, "node2:1"),
                     LQ_CHANGE_INVALID); /* that address is node 2's */
    ck_assert_int_eq(lq_replica_change(nodes.nodes[1].replica, LQ_CHANGE_ADD, 2, "other:1"),
                     LQ_CHANGE_INVALID);
    ck_assert_int_eq(lq_replica_change(nodes.nodes[1].replica, LQ_CHANGE_ADD, 0, "other:1"),
                     LQ_CHANGE_INVALID);
    ck_assert_int_eq(change(1, LQ_CHANGE_ADD, 3), LQ_CHANGE_DONE);
}
END_TEST

START_TEST(a_standby_that_has_all_becomes_a_voter_on_an_idle_cluster_quickly)
{
    ck_assert_int_eq(change(1, LQ_CHANGE_ADD, 4), LQ_CHANGE_STARTED);
    advance_until(4, true, false, 100);
    lq_nodes_start(&nodes, 4);
    lq_nodes_advance(&nodes, 2000);
    ck_assert_uint_eq(lq_nodes_status(&nodes, 4).applied_index,
                      lq_nodes_status(&nodes, 1).applied_index);
    ck_assert(lq_nodes_status(&nodes, 4).is_serving); /* a standby serves, too */
    ck_assert_int_eq(change(1, LQ_CHANGE_PROMOTE, 4), LQ_CHANGE_STARTED);
    ck_assert_int_eq(change(1, LQ_CHANGE_PROMOTE, 4), LQ_CHANGE_STARTED);
    advance_until(4, true, true, 150);
    ck_assert_int_eq(change(1, LQ_CHANGE_DEMOTE, 4), LQ_CHANGE_STARTED);
    advance_until(4, true, false, 150);
}
END_TEST

START_TEST(a_removed_leader_steps_down_and_stops)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lq_rig_say(client, "A 60 60 7 key");
    lq_nodes_advance(&nodes, 50);
    LQ_HEARS(client, "A 1 7 key");
    nodes.nodes[1].may_stop = true;
    ck_assert_int_eq(change(1, LQ_CHANGE_REMOVE, 1), LQ_CHANGE_STARTED);
    lq_nodes_advance(&nodes, 2000);
    ck_assert_ptr_null(nodes.nodes[1].replica);
    ck_assert_ptr_nonnull(strstr(nodes.nodes[1].stop_text, "removed"));
    ck_assert_uint_ne(lq_nodes_leader(&nodes), 0);
    lq_rig_say(client, "R 1 key");
    lq_nodes_advance(&nodes, 100);
    LQ_HEARS(client, "R 1 key");
}
END_TEST

START_TEST(the_origin_of_a_removed_node_is_closed)
{
    struct lq_rig_client *holder = lq_nodes_connect(&nodes, 2);
    struct lq_rig_client *waiter = lq_nodes_connect(&nodes, 3);
    lq_rig_say(holder, "A 60 60 7 key");
    lq_nodes_advance(&nodes, 50);
    lq_rig_say(waiter, "A 60 60 8 key");
    lq_nodes_advance(&nodes, 50);
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, 1), 1);
    nodes.nodes[3].may_stop = true;
    ck_assert_int_eq(change(1, LQ_CHANGE_REMOVE, 3), LQ_CHANGE_STARTED);
    lq_nodes_advance(&nodes, 100);
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, 1), 0);
    lq_nodes_advance(&nodes, 2000);
    ck_assert_ptr_nonnull(strstr(nodes.nodes[3].stop_text, "removed"));
    ck_assert_int_ne(waiter->end, LQ_RIG_CONNECTED);
    ck_assert_int_eq(change(1, LQ_CHANGE_ADD, 3), LQ_CHANGE_INVALID); /* its id was used */
}
END_TEST

/* Two in one process would lead in the same term: the last two voters never become one other. */
START_TEST(the_last_voters_are_not_removed)
{
    nodes.nodes[3].may_stop = nodes.nodes[2].may_stop = true;
    ck_assert_int_eq(change(1, LQ_CHANGE_REMOVE, 3), LQ_CHANGE_STARTED);
    advance_until(3, false, false, 100);
    ck_assert_int_eq(change(1, LQ_CHANGE_REMOVE, 1), LQ_CHANGE_INVALID);
    ck_assert_int_eq(change(1, LQ_CHANGE_DEMOTE, 1), LQ_CHANGE_INVALID);
    ck_assert_int_eq(change(1, LQ_CHANGE_REMOVE, 2), LQ_CHANGE_STARTED);
    advance_until(2, false, false, 100);
    ck_assert_int_eq(change(1, LQ_CHANGE_REMOVE, 1), LQ_CHANGE_INVALID);
    ck_assert_int_eq(lq_nodes_status(&nodes, 1).role, LQ_REPLICA_LEADER);
}
END_TEST

/* ---- Transfers. */

static uint32_t starved; /* this node gets no entries */

static enum lq_nodes_fate starve(uint32_t from, uint32_t to, const struct lq_message *message)
{
    (void)from;
    return to == starved && message->kind == LQ_MESSAGE_APPEND && message->count > 0
               ? LQ_NODES_DROP
               : LQ_NODES_PASS;
}

START_TEST(a_transfer_waits_for_a_node_that_lags)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 3);
    starved = 2;
    nodes.filter = starve;
    lq_rig_say(client, "A 0 60 7 key");
    lq_nodes_advance(&nodes, 50);
    ck_assert_int_eq(change(1, LQ_CHANGE_TRANSFER, 2), LQ_CHANGE_STARTED);
    ck_assert_int_eq(change(1, LQ_CHANGE_TRANSFER, 3), LQ_CHANGE_BUSY);
    lq_nodes_advance(&nodes, 300);
    ck_assert_uint_eq(lq_nodes_leader(&nodes), 1);
    starved = 0;
    lq_nodes_advance(&nodes, 150);
    ck_assert_uint_eq(lq_nodes_leader(&nodes), 2);
}
END_TEST

START_TEST(after_a_transfer_that_failed_proposals_go_on)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 3);
    starved = 2;
    nodes.filter = starve;
    lq_rig_say(client, "A 0 60 7 key");
    lq_nodes_advance(&nodes, 50);
    LQ_HEARS(client, "A 1 7 key");
    ck_assert_int_eq(change(1, LQ_CHANGE_TRANSFER, 2), LQ_CHANGE_STARTED);
    lq_rig_say(client, "R 1 key");
    lq_nodes_advance(&nodes, 500);
    LQ_HEARS(client, ""); /* what would make it lag again waits */
    lq_nodes_advance(&nodes, 700);
    LQ_HEARS(client, "R 1 key");
    ck_assert_uint_eq(lq_nodes_leader(&nodes), 1);
}
END_TEST

START_TEST(a_leader_whose_disk_is_full_lets_another_lead)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 3);
    nodes.nodes[1].is_full = true;
    for (unsigned i = 0; i < 1500 && lq_nodes_leader(&nodes) == 1; i++) {
        lq_rig_say(client, "A 0 60 %u key%u", i, i);
        lq_nodes_advance(&nodes, 3);
    }
    ck_assert_uint_ne(lq_nodes_leader(&nodes), 1);
    ck_assert(lq_nodes_status(&nodes, 1).is_full);
    lq_nodes_advance(&nodes, 500);
    (void)lq_rig_hear(client);
    lq_rig_say(client, "A 0 60 7 last");
    lq_nodes_advance(&nodes, 100);
    ck_assert_uint_eq(lq_rig_hear_count(client, LQ_OP_ACQUIRE), 1);
    nodes.nodes[1].is_full = false;
    lq_nodes_advance(&nodes, 2000);
    ck_assert(!lq_nodes_status(&nodes, 1).is_full);
    ck_assert_uint_eq(lq_nodes_status(&nodes, 1).applied_index,
                      lq_nodes_status(&nodes, lq_nodes_leader(&nodes)).applied_index);
}
END_TEST

/* ---- The disk. */

static unsigned n_votes_of_two;

static enum lq_nodes_fate count_votes(uint32_t from, uint32_t to, const struct lq_message *message)
{
    (void)to;
    if (from == 2 && message->kind == LQ_MESSAGE_VOTE_RESULT && !message->is_pre_vote &&
        message->is_granted) {
        n_votes_of_two++;
    }
    return LQ_NODES_PASS;
}

START_TEST(no_message_leaves_before_term_and_vote_are_durable)
{
    n_votes_of_two = 0;
    nodes.filter = count_votes;
    lq_nodes_advance(&nodes, 100);
    nodes.nodes[2].holds_disk = true;
    nodes.nodes[2].is_paused = true; /* so that it does not stand for election itself */
    lq_nodes_kill(&nodes, 1);
    lq_nodes_advance(&nodes, 5);
    nodes.nodes[2].is_paused = false;
    lq_nodes_advance(&nodes, 1500);
    ck_assert_uint_eq(n_votes_of_two, 0);
    ck_assert_uint_eq(lq_nodes_leader(&nodes), 0);
    nodes.nodes[2].holds_disk = false;
    lq_nodes_advance(&nodes, 1500);
    ck_assert_uint_ne(lq_nodes_leader(&nodes), 0);
}
END_TEST

START_TEST(a_slow_disk_acknowledges_nothing)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 1);
    nodes.nodes[2].holds_disk = nodes.nodes[3].holds_disk = true;
    lq_rig_say(client, "A 20 60 7 key");
    lq_nodes_advance(&nodes, 300);
    LQ_HEARS(client, "");
    nodes.nodes[3].holds_disk = false;
    lq_nodes_advance(&nodes, 20);
    LQ_HEARS(client, "A 1 7 key");
}
END_TEST

START_TEST(everything_is_there_after_all_were_down)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    uint64_t boots[4];
    lq_rig_say(client, "A 20 100 7 key; A 20 100 8 other; R 2 other");
    lq_nodes_advance(&nodes, 50);
    LQ_HEARS(client, "A 1 7 key; A 2 8 other; R 2 other");
    for (uint32_t id = 1; id <= 3; id++) {
        boots[id] = lq_nodes_status(&nodes, id).boot;
        lq_nodes_kill(&nodes, id);
    }
    lq_nodes_advance(&nodes, 1000);
    (void)lq_nodes_form(&nodes, 3);
    for (uint32_t id = 1; id <= 3; id++) {
        ck_assert_uint_eq(lq_nodes_holder(&nodes, id, "key"), 1);
        ck_assert_uint_eq(lq_nodes_holder(&nodes, id, "other"), 0);
        ck_assert_uint_eq(lq_nodes_status(&nodes, id).boot, boots[id] + 1);
    }
    client = lq_nodes_connect(&nodes, 3);
    lq_rig_say(client, "R 1 key; A 0 60 9 key");
    lq_nodes_advance(&nodes, 50);
    LQ_HEARS(client, "R 1 key; A 3 9 key");
}
END_TEST

static Suite *engine_suite(void)
{
    Suite *suite = suite_create("engine_terms");
    TCase *tcase = tcase_create("terms");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, each_term_begins_with_an_entry_of_its_own);
    tcase_add_test(tcase, changes_wait_for_the_commit_of_the_terms_own_entry);
    tcase_add_test(tcase, the_sole_voter_gets_a_new_term_at_each_start);
    tcase_add_test(tcase, one_server_per_change_one_change_at_a_time);
    tcase_add_test(tcase, changes_that_make_no_sense);
    tcase_add_test(tcase, a_standby_that_has_all_becomes_a_voter_on_an_idle_cluster_quickly);
    tcase_add_test(tcase, a_removed_leader_steps_down_and_stops);
    tcase_add_test(tcase, the_origin_of_a_removed_node_is_closed);
    tcase_add_test(tcase, the_last_voters_are_not_removed);
    tcase_add_test(tcase, a_transfer_waits_for_a_node_that_lags);
    tcase_add_test(tcase, after_a_transfer_that_failed_proposals_go_on);
    tcase_add_test(tcase, a_leader_whose_disk_is_full_lets_another_lead);
    tcase_add_test(tcase, no_message_leaves_before_term_and_vote_are_durable);
    tcase_add_test(tcase, a_slow_disk_acknowledges_nothing);
    tcase_add_test(tcase, everything_is_there_after_all_were_down);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(engine_suite());
}
