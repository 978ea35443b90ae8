/* One member takes the place of another; and changes that do not get there in time. */
#include "lq_test.h"
#include "support/replica_rig.h"

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

static struct lq_replica *leader(void)
{
    uint32_t id = lq_nodes_leader(&nodes);
    return id == 0 ? NULL : nodes.nodes[id].replica;
}

static enum lq_change_result replace(uint32_t old_node, uint32_t new_node, const char *address)
{
    struct lq_replica *replica = leader();
    return replica == NULL ? LQ_CHANGE_NOT_LEADER
                           : lq_replica_replace(replica, old_node, new_node, address);
}

/* Asks whoever leads until it is so, as an operator would. */
static void replace_at_last(uint32_t old_node, uint32_t new_node, const char *address)
{
    enum lq_change_result result = replace(old_node, new_node, address);
    nodes.nodes[old_node].may_stop = true;
    for (int i = 0; i < 10000 && result != LQ_CHANGE_DONE; i++) {
        ck_assert_int_ne(result, LQ_CHANGE_INVALID);
        ck_assert_int_ne(result, LQ_CHANGE_BUSY);
        lq_nodes_advance(&nodes, 1);
        result = replace(old_node, new_node, address);
    }
    ck_assert_int_eq(result, LQ_CHANGE_DONE);
    lq_nodes_advance(&nodes, 1500);
}

static void change_at_last(enum lq_change_kind kind, uint32_t node, const char *address)
{
    enum lq_change_result result = LQ_CHANGE_BUSY;
    for (int i = 0; i < 10000 && result != LQ_CHANGE_DONE; i++) {
        lq_nodes_advance(&nodes, 1);
        result = lq_replica_change(leader(), kind, node, address);
        ck_assert_int_ne(result, LQ_CHANGE_INVALID);
    }
    ck_assert_int_eq(result, LQ_CHANGE_DONE);
}

static void add_four(void)
{
    lq_nodes_start(&nodes, 4);
    change_at_last(LQ_CHANGE_ADD, 4, "node4:1");
    for (int i = 0; i < 3000 && !lq_nodes_status(&nodes, 4).is_serving; i++) {
        lq_nodes_advance(&nodes, 1);
    }
    ck_assert(lq_nodes_status(&nodes, 4).is_serving);
}

/* All members agree that node 4 is in the place of `gone`, and a lock goes through node 4. */
static void judge_four_at(uint32_t gone, const char *address)
{
    struct lq_rig_client *client;
    for (uint32_t id = 1; id <= 4; id++) {
        const struct lq_members *members;
        if (id == gone) {
            continue;
        }
        members = lq_replica_members(nodes.nodes[id].replica);
        ck_assert_uint_eq(members->n, 3);
        ck_assert_uint_eq(lq_members_n_voters(members), 3);
        ck_assert(lq_members_is_voter(members, 4));
        ck_assert_str_eq(lq_members_find(members, 4)->address, address);
        ck_assert_ptr_null(lq_members_find(members, gone));
        ck_assert(lq_nodes_status(&nodes, id).is_serving);
    }
    client = lq_nodes_connect(&nodes, 4);
    lq_rig_say(client, "A 0 60 99 through-four");
    lq_nodes_advance(&nodes, 50);
    ck_assert_uint_eq(lq_rig_hear_count(client, LQ_OP_ACQUIRE), 1);
}

static void judge_four_instead_of(uint32_t gone)
{
    judge_four_at(gone, "node4:1");
}

static bool is_origin_open(uint32_t at, uint32_t node)
{
    struct lq_origin_state origin;
    return lq_table_origin(lq_replica_table(nodes.nodes[at].replica), node, &origin) &&
           origin.is_open;
}

/* ---- It works. */

/* Also when the old one is the leader. */
START_TEST(a_voter_is_replaced)
{
    uint32_t old_node = (uint32_t)_i, other = old_node == 2 ? 3 : 2;
    struct lq_rig_client *holder = lq_nodes_connect(&nodes, other);
    struct lq_rig_client *waiter = lq_nodes_connect(&nodes, old_node);
    lq_rig_say(holder, "A 0 60 7 key");
    lq_nodes_advance(&nodes, 20);
    lq_rig_say(waiter, "A 60 60 8 key");
    lq_nodes_advance(&nodes, 100); /* until a heartbeat told all of it */
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, other), 1);
    ck_assert(is_origin_open(other, old_node));
    lq_nodes_start(&nodes, 4);
    replace_at_last(old_node, 4, "node4:1");
    judge_four_instead_of(old_node);
    ck_assert_ptr_null(nodes.nodes[old_node].replica);
    ck_assert_ptr_nonnull(strstr(nodes.nodes[old_node].stop_text, "removed"));
    ck_assert(!is_origin_open(other, old_node));
    ck_assert(is_origin_open(other, 4));
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, other), 0);
    LQ_HEARS(holder, "A 1 7 key");
    lq_rig_say(holder, "R 1 key");
    lq_nodes_advance(&nodes, 20);
    LQ_HEARS(holder, "R 1 key");
    ck_assert_int_eq(replace(old_node, 4, "node4:1"), LQ_CHANGE_DONE);
}
END_TEST

/* What it is for: the old one is dead, and the new one comes only after the request. */
START_TEST(a_dead_voter_is_replaced)
{
    lq_nodes_kill(&nodes, 3);
    lq_nodes_advance(&nodes, 100);
    ck_assert_int_eq(replace(3, 4, "node4:1"), LQ_CHANGE_STARTED);
    lq_nodes_advance(&nodes, 2000);
    ck_assert_uint_eq(lq_replica_members(leader())->n, 4);
    ck_assert_uint_eq(lq_members_n_voters(lq_replica_members(leader())), 3);
    ck_assert_int_eq(replace(3, 4, "node4:1"), LQ_CHANGE_STARTED);
    lq_nodes_start(&nodes, 4);
    lq_nodes_advance(&nodes, 3000); /* one request is enough while the leader lives */
    ck_assert_int_eq(replace(3, 4, "node4:1"), LQ_CHANGE_DONE);
    judge_four_instead_of(3);
    ck_assert(!is_origin_open(1, 3));
}
END_TEST

START_TEST(the_new_one_of_a_standby_is_a_standby)
{
    const struct lq_members *members;
    change_at_last(LQ_CHANGE_DEMOTE, 3, NULL);
    lq_nodes_start(&nodes, 4);
    replace_at_last(3, 4, "node4:1");
    members = lq_replica_members(nodes.nodes[2].replica);
    ck_assert_uint_eq(members->n, 3);
    ck_assert_uint_eq(lq_members_n_voters(members), 2);
    ck_assert_ptr_nonnull(lq_members_find(members, 4));
    ck_assert_ptr_null(lq_members_find(members, 3));
    ck_assert(!lq_members_is_voter(members, 4));
    ck_assert_int_eq(replace(3, 4, "node4:1"), LQ_CHANGE_DONE);
}
END_TEST

/* The new one may be a member already: only what is missing is done. */
START_TEST(a_member_takes_the_place_of_another)
{
    add_four();
    replace_at_last(3, 4, "node4:1");
    judge_four_instead_of(3);
}
END_TEST

START_TEST(a_new_leader_goes_on_when_it_is_asked)
{
    lq_nodes_start(&nodes, 4);
    ck_assert_int_eq(replace(3, 4, "node4:1"), LQ_CHANGE_STARTED);
    nodes.nodes[3].may_stop = true;
    lq_nodes_advance(&nodes, (uint64_t)_i); /* until then it got this or that far */
    lq_nodes_kill(&nodes, 1);
    for (int i = 0; i < 3000 && leader() == NULL; i++) {
        lq_nodes_advance(&nodes, 1);
    }
    lq_nodes_start(&nodes, 1);
    replace_at_last(3, 4, "node4:1");
    judge_four_instead_of(3);
}
END_TEST

/* Nobody asks again: the new leader does not know of it, and does nothing. */
START_TEST(a_new_leader_that_is_not_asked_leaves_it)
{
    ck_assert_int_eq(replace(3, 4, "node4:1"), LQ_CHANGE_STARTED);
    lq_nodes_advance(&nodes, 100);
    lq_nodes_lead(&nodes, 2);
    lq_nodes_start(&nodes, 4);
    lq_nodes_advance(&nodes, 3000);
    ck_assert_uint_eq(lq_replica_members(leader())->n, 4);
    ck_assert_uint_eq(lq_members_n_voters(lq_replica_members(leader())), 3);
    replace_at_last(3, 4, "node4:1");
    judge_four_instead_of(3);
}
END_TEST

/* ---- The new one where the old one was: a disk was lost, say, and the machine is the same. */

START_TEST(at_the_same_address)
{
    lq_nodes_kill(&nodes, 3);
    lq_nodes_start(&nodes, 4);
    ck_assert_int_eq(replace(3, 4, "node3:1"), LQ_CHANGE_STARTED);
    lq_nodes_advance(&nodes, 3000); /* one request is enough while the leader lives */
    ck_assert_int_eq(replace(3, 4, "node3:1"), LQ_CHANGE_DONE);
    judge_four_at(3, "node3:1");
    ck_assert_uint_eq(nodes.nodes[1].notes[LQ_NOTE_CHANGE_FAILED], 0);
}
END_TEST

START_TEST(at_the_same_address_with_new_leaders)
{
    lq_nodes_kill(&nodes, 3);
    lq_nodes_start(&nodes, 4);
    ck_assert_int_eq(replace(3, 4, "node3:1"), LQ_CHANGE_STARTED);
    lq_nodes_advance(&nodes, (uint64_t)_i);
    lq_nodes_kill(&nodes, 1);
    lq_nodes_advance(&nodes, 100);
    lq_nodes_start(&nodes, 1);
    for (int i = 0; i < 3000 && leader() == NULL; i++) {
        lq_nodes_advance(&nodes, 1);
    }
    replace_at_last(3, 4, "node3:1");
    judge_four_at(3, "node3:1");
}
END_TEST

START_TEST(a_leader_at_the_same_address)
{
    lq_nodes_start(&nodes, 4);
    replace_at_last(1, 4, "node1:1");
    judge_four_at(1, "node1:1");
}
END_TEST

START_TEST(a_standby_at_the_same_address)
{
    change_at_last(LQ_CHANGE_DEMOTE, 3, NULL);
    lq_nodes_kill(&nodes, 3);
    lq_nodes_start(&nodes, 4);
    replace_at_last(3, 4, "node3:1");
    ck_assert_uint_eq(lq_members_n_voters(lq_replica_members(leader())), 2);
    ck_assert_ptr_nonnull(lq_members_find(lq_replica_members(leader()), 4));
}
END_TEST

/* ---- Old lives. */

/* The origin of another life of node 4 is opened. */
static void open_later_life_of_four(void)
{
    uint64_t boot = lq_nodes_status(&nodes, 4).boot;
    struct lq_message open = {.kind = LQ_MESSAGE_OPEN, .incarnation = (boot + 1) << 32 | 1};
    struct lq_buffer buffer;
    const uint8_t *body;
    size_t len, used;
    lq_buffer_init(&buffer);
    lq_message_put(&buffer, &open, NULL, NULL);
    ck_assert_int_eq(
        lq_message_unframe(buffer.bytes, buffer.len, LQ_MESSAGE_MAX, &body, &len, &used),
        LQ_FRAMED_ONE);
    ck_assert(lq_replica_receive(leader(), 4, body, len));
    lq_buffer_done(&buffer);
}

/* Node 2 stood still, and reads of node 4's next life before what the one before had sent: that is
 * ignored, but they are messages. */
START_TEST(what_comes_late_from_an_earlier_life_is_no_offence)
{
    struct lq_origin_state origin;
    uint64_t boot;
    add_four();
    boot = lq_nodes_status(&nodes, 4).boot;
    nodes.nodes[2].is_paused = true;
    for (uint32_t id = 1; id <= 3; id++) {
        nodes.is_cut[id][4] = true;
    }
    open_later_life_of_four();
    lq_nodes_advance(&nodes, 200);
    nodes.nodes[2].is_paused = false;
    lq_nodes_advance(&nodes, 100);
    ck_assert(lq_table_origin(lq_replica_table(nodes.nodes[2].replica), 4, &origin));
    ck_assert_uint_eq(origin.id.incarnation >> 32, boot + 1);
    ck_assert(lq_nodes_status(&nodes, 2).is_serving);
}
END_TEST

/* ---- It is refused. */

START_TEST(senseless_requests_are_refused)
{
    char long_address[LQ_ADDRESS_MAX + 2];
    memset(long_address, 'a', sizeof long_address);
    long_address[LQ_ADDRESS_MAX + 1] = 0;
    ck_assert_int_eq(replace(3, 3, "node3:1"), LQ_CHANGE_INVALID);
    ck_assert_int_eq(replace(9, 4, "node4:1"), LQ_CHANGE_INVALID);
    ck_assert_int_eq(replace(3, 2, "other:1"), LQ_CHANGE_INVALID);
    ck_assert_int_eq(replace(3, 4, NULL), LQ_CHANGE_INVALID);
    ck_assert_int_eq(replace(3, 4, long_address), LQ_CHANGE_INVALID);
    ck_assert_int_eq(lq_replica_replace(nodes.nodes[2].replica, 3, 4, "node4:1"),
                     LQ_CHANGE_NOT_LEADER);
    lq_nodes_advance(&nodes, 500);
    ck_assert_uint_eq(lq_replica_members(leader())->n, 3);
    ck_assert_uint_eq(nodes.nodes[1].notes[LQ_NOTE_CHANGE_FAILED], 0);
}
END_TEST

START_TEST(one_at_a_time)
{
    ck_assert_int_eq(replace(3, 4, "node4:1"), LQ_CHANGE_STARTED);
    lq_nodes_advance(&nodes, 100);
    ck_assert_int_eq(replace(3, 5, "node5:1"), LQ_CHANGE_BUSY);
    ck_assert_int_eq(replace(2, 4, "node4:1"), LQ_CHANGE_BUSY);
    ck_assert_int_eq(replace(3, 4, "node4:1"), LQ_CHANGE_STARTED);
    lq_nodes_start(&nodes, 4);
    replace_at_last(3, 4, "node4:1");
    judge_four_instead_of(3);
    lq_nodes_start(&nodes, 5);
    replace_at_last(2, 5, "node5:1");
    ck_assert(lq_members_is_voter(lq_replica_members(leader()), 5));
}
END_TEST

START_TEST(an_address_in_use_is_refused)
{
    ck_assert_int_eq(replace(3, 4, "node2:1"), LQ_CHANGE_INVALID);
    lq_nodes_advance(&nodes, 500);
    ck_assert_uint_eq(lq_replica_members(leader())->n, 3);
    lq_nodes_start(&nodes, 4);
    replace_at_last(3, 4, "node4:1");
    judge_four_instead_of(3);
}
END_TEST

START_TEST(an_id_that_was_here_before_is_refused)
{
    lq_nodes_start(&nodes, 4);
    replace_at_last(3, 4, "node4:1");
    ck_assert_int_eq(replace(2, 3, "node3:1"), LQ_CHANGE_INVALID);
    lq_nodes_advance(&nodes, 500);
    ck_assert_ptr_null(lq_members_find(lq_replica_members(leader()), 3));
    ck_assert_ptr_nonnull(lq_members_find(lq_replica_members(leader()), 2));
}
END_TEST

/* ---- What did not get there is told. */

START_TEST(a_promotion_that_is_given_up_is_told)
{
    uint64_t *n_failed = &nodes.nodes[1].notes[LQ_NOTE_CHANGE_FAILED];
    add_four();
    *n_failed = 0;
    lq_nodes_cut(&nodes, 4, true);
    ck_assert_int_eq(lq_replica_change(leader(), LQ_CHANGE_PROMOTE, 4, NULL), LQ_CHANGE_STARTED);
    for (int i = 0; i < 10000 && *n_failed == 0; i++) {
        lq_nodes_advance(&nodes, 1);
    }
    ck_assert_uint_eq(*n_failed, 1);
    ck_assert(!lq_members_is_voter(lq_replica_members(leader()), 4));
    lq_nodes_cut(&nodes, 4, false);
    change_at_last(LQ_CHANGE_PROMOTE, 4, NULL);
    ck_assert_uint_eq(*n_failed, 1);
}
END_TEST

START_TEST(a_transfer_that_is_given_up_is_told)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 1);
    uint64_t *n_failed = &nodes.nodes[1].notes[LQ_NOTE_CHANGE_FAILED];
    lq_nodes_cut(&nodes, 2, true);
    ck_assert_int_eq(lq_replica_change(leader(), LQ_CHANGE_TRANSFER, 2, NULL), LQ_CHANGE_STARTED);
    ck_assert_int_eq(lq_replica_change(leader(), LQ_CHANGE_TRANSFER, 3, NULL), LQ_CHANGE_BUSY);
    lq_nodes_advance(&nodes, 900);
    ck_assert_uint_eq(*n_failed, 0);
    lq_nodes_advance(&nodes, 200);
    ck_assert_uint_eq(*n_failed, 1);
    lq_rig_say(client, "A 0 60 7 key");
    lq_nodes_advance(&nodes, 500);
    LQ_HEARS(client, "A 1 7 key");
    ck_assert_uint_eq(lq_nodes_leader(&nodes), 1);
    lq_nodes_cut(&nodes, 2, false);
    lq_nodes_advance(&nodes, 500);
    ck_assert_uint_eq(*n_failed, 1);
    lq_nodes_lead(&nodes, 2);
}
END_TEST

static Suite *replace_suite(void)
{
    Suite *suite = suite_create("replica_replace");
    TCase *tcase = tcase_create("replace");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_voter_is_replaced, 1, 4);
    tcase_add_test(tcase, a_dead_voter_is_replaced);
    tcase_add_test(tcase, the_new_one_of_a_standby_is_a_standby);
    tcase_add_test(tcase, a_member_takes_the_place_of_another);
    tcase_add_loop_test(tcase, a_new_leader_goes_on_when_it_is_asked, 0, 30);
    tcase_add_test(tcase, at_the_same_address);
    tcase_add_loop_test(tcase, at_the_same_address_with_new_leaders, 0, 30);
    tcase_add_test(tcase, a_leader_at_the_same_address);
    tcase_add_test(tcase, a_standby_at_the_same_address);
    tcase_add_test(tcase, a_new_leader_that_is_not_asked_leaves_it);
    tcase_add_test(tcase, what_comes_late_from_an_earlier_life_is_no_offence);
    tcase_add_test(tcase, senseless_requests_are_refused);
    tcase_add_test(tcase, one_at_a_time);
    tcase_add_test(tcase, an_address_in_use_is_refused);
    tcase_add_test(tcase, an_id_that_was_here_before_is_refused);
    tcase_add_test(tcase, a_promotion_that_is_given_up_is_told);
    tcase_add_test(tcase, a_transfer_that_is_given_up_is_told);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(replace_suite());
}
