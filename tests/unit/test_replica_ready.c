/* When a node says that it is of use, and when not and why. */
#include "lq_test.h"
#include "replica_rig.h"
#include "session_text.h"

#include <string.h>

static struct lq_nodes nodes;

static void setup(void)
{
    lq_nodes_init(&nodes, 3);
}

static void teardown(void)
{
    lq_nodes_done(&nodes);
}

static void is_ready(uint32_t id)
{
    const char *text = lq_replica_not_ready(nodes.nodes[id].replica);
    ck_assert_msg(text == NULL, "node %u: %s", id, text);
}

static void is_not_ready(uint32_t id, const char *why)
{
    const char *text = lq_replica_not_ready(nodes.nodes[id].replica);
    ck_assert_msg(text != NULL && strstr(text, why) != NULL, "node %u: \"%s\" instead of \"%s\"",
                  id, text == NULL ? "ready" : text, why);
}

static uint32_t other_than(uint32_t a, uint32_t b)
{
    return 6 - a - b;
}

START_TEST(all_of_a_cluster_that_is_well)
{
    (void)lq_nodes_form(&nodes, 3);
    lq_nodes_advance(&nodes, 1000);
    for (uint32_t id = 1; id <= 3; id++) {
        is_ready(id);
    }
}
END_TEST

START_TEST(one_that_has_not_met_all)
{
    lq_nodes_start(&nodes, 1);
    lq_nodes_start(&nodes, 2);
    lq_nodes_advance(&nodes, 1000);
    is_not_ready(1, "first members");
    is_not_ready(2, "first members");
}
END_TEST

START_TEST(one_that_waits_to_be_added)
{
    (void)lq_nodes_form(&nodes, 3);
    lq_nodes_start(&nodes, 4);
    lq_nodes_advance(&nodes, 1000);
    is_not_ready(4, "added");
}
END_TEST

/* Within an election timeout and a ping, before anybody was elected or stepped down. */
START_TEST(those_without_contact)
{
    uint32_t leader = lq_nodes_form(&nodes, 3);
    uint32_t follower = leader % 3 + 1, third = other_than(leader, follower);
    lq_nodes_advance(&nodes, 1000);
    lq_nodes_cut(&nodes, follower, true);
    lq_nodes_advance(&nodes, nodes.options.election_ms + 200);
    is_not_ready(follower, "");
    is_ready(leader);
    is_ready(third);
    lq_nodes_cut(&nodes, third, true);
    lq_nodes_advance(&nodes, 2000);
    for (uint32_t id = 1; id <= 3; id++) {
        is_not_ready(id, "");
    }
    lq_nodes_cut(&nodes, follower, false);
    lq_nodes_cut(&nodes, third, false);
    lq_nodes_advance(&nodes, 5000);
    for (uint32_t id = 1; id <= 3; id++) {
        is_ready(id);
    }
}
END_TEST

START_TEST(one_whose_links_stand_but_carry_nothing)
{
    uint32_t leader = lq_nodes_form(&nodes, 3);
    uint32_t follower = leader % 3 + 1;
    lq_nodes_advance(&nodes, 1000);
    nodes.nodes[leader].is_paused = true;
    lq_nodes_advance(&nodes, 200);
    is_ready(follower); /* it can't know yet */
    lq_nodes_kill(&nodes, other_than(leader, follower));
    lq_nodes_advance(&nodes, 1500);
    is_not_ready(follower, "");
}
END_TEST

/* All links are well, and the leader's own disk too; but no other one takes what it proposes. */
START_TEST(one_whose_requests_are_not_committed)
{
    uint32_t leader = lq_nodes_form(&nodes, 3);
    uint32_t follower = leader % 3 + 1, third = other_than(leader, follower);
    struct lq_rig_client *client = lq_nodes_connect(&nodes, leader);
    lq_nodes_advance(&nodes, 1000);
    nodes.nodes[follower].holds_disk = nodes.nodes[third].holds_disk = true;
    is_ready(leader);
    lq_rig_say(client, "A 0 60 1 key");
    lq_nodes_advance(&nodes, 200);
    is_ready(leader); /* it may be slow */
    lq_nodes_advance(&nodes, UINT64_C(4) * nodes.options.election_ms);
    is_not_ready(leader, "not committed");
    nodes.nodes[follower].holds_disk = nodes.nodes[third].holds_disk = false;
    lq_nodes_advance(&nodes, 2000);
    for (uint32_t id = 1; id <= 3; id++) {
        is_ready(id);
    }
}
END_TEST

START_TEST(one_that_leaves)
{
    uint32_t leader = lq_nodes_form(&nodes, 3);
    lq_replica_leave(nodes.nodes[leader].replica);
    is_not_ready(leader, "stops");
}
END_TEST

/* Told in the middle of a turn that begins later: the sessions' turn still comes, and is no harm.
 */
START_TEST(one_that_was_told_to_stop)
{
    const struct lq_message removed = {.kind = LQ_MESSAGE_REMOVED, .index = 1000};
    uint32_t leader = lq_nodes_form(&nodes, 3), id = leader % 3 + 1;
    struct lq_nodes_node *node = &nodes.nodes[id];
    uint64_t later_ms = nodes.now_ms + 1000000; /* whatever its own clock is ahead */
    struct lq_buffer bytes;
    lq_buffer_init(&bytes);
    lq_message_put(&bytes, &removed, NULL, NULL);
    ck_assert(lq_replica_receive(node->replica, leader, bytes.bytes + LQ_MESSAGE_LEN_BYTES,
                                 bytes.len - LQ_MESSAGE_LEN_BYTES));
    lq_buffer_done(&bytes);
    lq_replica_wake(node->replica, later_ms);
    lq_replica_turn(node->replica);
    lq_hub_turn(node->hub, later_ms);
    lq_replica_flush(node->replica);
    is_not_ready(id, "stops");
}
END_TEST

START_TEST(how_a_leader_sees_its_peers)
{
    uint32_t leader = lq_nodes_form(&nodes, 3);
    struct lq_replica_peer peer;
    lq_nodes_advance(&nodes, 1000);
    ck_assert(lq_replica_peer(nodes.nodes[leader].replica, leader % 3 + 1, &peer));
    ck_assert(peer.is_linked);
    ck_assert_uint_le(peer.echo_age_ms, 150);
    ck_assert_uint_eq(peer.match_index, lq_nodes_status(&nodes, leader).last_index);
    ck_assert(!lq_replica_peer(nodes.nodes[leader].replica, 77, &peer));
}
END_TEST

static Suite *suite_of_ready(void)
{
    Suite *suite = suite_create("readiness");
    TCase *tcase = tcase_create("readiness");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, all_of_a_cluster_that_is_well);
    tcase_add_test(tcase, one_that_has_not_met_all);
    tcase_add_test(tcase, one_that_waits_to_be_added);
    tcase_add_test(tcase, those_without_contact);
    tcase_add_test(tcase, one_whose_links_stand_but_carry_nothing);
    tcase_add_test(tcase, one_whose_requests_are_not_committed);
    tcase_add_test(tcase, one_that_leaves);
    tcase_add_test(tcase, one_that_was_told_to_stop);
    tcase_add_test(tcase, how_a_leader_sees_its_peers);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(suite_of_ready());
}
