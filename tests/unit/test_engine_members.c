/* The engine and changes of the members. */
#include "lq_mem.h"
#include "lq_test.h"
#include "support/replica_engines.h"

static struct lq_engines engines;
static struct lq_engines_node *const one = &engines.nodes[1];

static void set_up(void)
{
    lq_engines_init(&engines, 3, 3);
}

static void tear_down(void)
{
    lq_engines_done(&engines);
}

static struct lq_members with(uint32_t node, const char *address, enum lq_role role)
{
    struct lq_members members = {0};
    ck_assert(lq_members_add(&members, 1, "node1:1", LQ_ROLE_VOTER));
    ck_assert(lq_members_add(&members, 2, "node2:1", LQ_ROLE_VOTER));
    ck_assert(lq_members_add(&members, 3, "node3:1", LQ_ROLE_VOTER));
    ck_assert(lq_members_add(&members, node, address, role));
    return members;
}

static struct lq_members without(uint32_t node)
{
    struct lq_members members = with(4, "node4:1", LQ_ROLE_STANDBY);
    ck_assert(lq_members_remove(&members, 4));
    ck_assert(lq_members_remove(&members, node));
    return members;
}

static void lead_as_one(void)
{
    lq_engines_start_all(&engines, 3);
    lq_engines_elect_node(&engines, 1);
    ck_assert(lq_engines_submit(&engines, 1, "of this term"));
    lq_engines_advance(&engines, 50);
}

/* ---- Every applied change is answered. */

START_TEST(without_an_answer_changes_are_refused_for_ever)
{
    struct lq_members members;
    lead_as_one();
    one->holds_changes = true;
    members = with(4, "node4:1", LQ_ROLE_STANDBY);
    ck_assert(lq_engines_submit_members(&engines, 1, &members));
    lq_engines_advance(&engines, 500);
    ck_assert_uint_eq(one->applied_members.n, 4);
    ck_assert(!lq_engine_can_change(one->engine));
    lq_engine_configured(one->engine, one->applied_members_index, &one->applied_members);
    ck_assert(lq_engine_can_change(one->engine));
}
END_TEST

START_TEST(every_applied_change_is_answered_so_that_another_is_possible)
{
    struct lq_members members;
    lead_as_one();
    for (int i = 0; i < 4; i++) {
        members = with(4, "node4:1", LQ_ROLE_STANDBY);
        if (i % 2 == 1) {
            ck_assert(lq_members_remove(&members, 4));
        }
        ck_assert(lq_engine_can_change(one->engine));
        ck_assert(lq_engines_submit_members(&engines, 1, &members));
        ck_assert(!lq_engine_can_change(one->engine));
        lq_engines_advance(&engines, 100);
        ck_assert_uint_eq(lq_engine_members(one->engine)->n, members.n);
        ck_assert_uint_eq(lq_engine_members(engines.nodes[3].engine)->n, members.n);
    }
}
END_TEST

START_TEST(one_change_at_a_time)
{
    struct lq_members members;
    uint64_t last;
    lead_as_one();
    engines.is_mute = true;
    members = with(4, "node4:1", LQ_ROLE_STANDBY);
    ck_assert(lq_engines_submit_members(&engines, 1, &members));
    last = lq_log_last(&one->log).index;
    members = with(5, "node5:1", LQ_ROLE_STANDBY);
    ck_assert(!lq_engines_submit_members(&engines, 1, &members));
    ck_assert_uint_eq(lq_log_last(&one->log).index, last);
    ck_assert_ptr_nonnull(lq_members_find(lq_engine_members(one->engine), 4));
    ck_assert_ptr_null(lq_engine_fault(one->engine));
    ck_assert(lq_engines_submit(&engines, 1, "commands go on"));
}
END_TEST

START_TEST(a_removed_leader_steps_down)
{
    struct lq_members members = without(1);
    uint32_t leader;
    lead_as_one();
    ck_assert(lq_engines_submit_members(&engines, 1, &members));
    lq_engines_advance(&engines, 100);
    ck_assert_uint_eq(one->applied_members.n, 2);
    ck_assert_int_ne(lq_engine_role(one->engine), LQ_ENGINE_LEADER);
    lq_engines_stop(&engines, 1);
    leader = lq_engines_elect(&engines);
    ck_assert_uint_ne(leader, 1);
    ck_assert(lq_engines_submit(&engines, leader, "and it goes on"));
    lq_engines_advance(&engines, 100);
    ck_assert_uint_eq(engines.nodes[2].applied, lq_log_last(&engines.nodes[leader].log).index);
}
END_TEST

START_TEST(a_demoted_leader_steps_down)
{
    struct lq_members members = without(3);
    lead_as_one();
    ck_assert(lq_members_add(&members, 3, "node3:1", LQ_ROLE_VOTER));
    ck_assert(lq_members_set_role(&members, 1, LQ_ROLE_STANDBY));
    ck_assert(lq_engines_submit_members(&engines, 1, &members));
    lq_engines_advance(&engines, 100);
    ck_assert_int_ne(lq_engine_role(one->engine), LQ_ENGINE_LEADER);
    ck_assert_uint_ne(lq_engines_elect(&engines), 1);
}
END_TEST

/* ---- A change that is not the first new entry of its message. */

/* Node 1, fed by hand: commands 2 and 3, a change at 4, a command 5, all of term 2. */
static void feed_change_in_the_middle(uint64_t commit)
{
    struct lq_members members = with(4, "node4:1", LQ_ROLE_STANDBY);
    struct lq_buffer bytes;
    struct lq_message_entry entries[4] = {lq_engines_entry(2, 2, "a"), lq_engines_entry(3, 2, "b"),
                                          lq_engines_members_entry(4, 2, &members, &bytes),
                                          lq_engines_entry(5, 2, "c")};
    lq_engines_start(&engines, 1);
    engines.is_mute = true;
    lq_engines_feed(&engines, 1, 2,
                    &(struct lq_message){.kind = LQ_MESSAGE_APPEND,
                                         .term = 2,
                                         .prev_index = 1,
                                         .prev_term = 1,
                                         .commit = commit,
                                         .count = 4},
                    entries);
    lq_buffer_done(&bytes);
    lq_engines_settle(&engines);
    ck_assert_uint_eq(lq_log_last(&one->log).index, 5);
    ck_assert_uint_eq(lq_engine_last_stored(one->engine), 5);
    ck_assert_uint_eq(lq_engine_members(one->engine)->n, 4);
}

/* A command of node 3's term 3 comes to stand at `index`. */
static void replace_from(uint64_t index)
{
    struct lq_message_entry entry = lq_engines_entry(index, 3, "other");
    lq_engines_feed(&engines, 1, 3,
                    &(struct lq_message){.kind = LQ_MESSAGE_APPEND,
                                         .term = 3,
                                         .prev_index = index - 1,
                                         .prev_term = 2,
                                         .commit = 1,
                                         .count = 1},
                    &entry);
    lq_engines_settle(&engines);
    ck_assert_uint_eq(lq_log_last(&one->log).index, index);
    ck_assert_uint_eq(lq_log_last(&one->log).term, 3);
}

/* Raft would have it at 2, where the first new entry stands, and take it back. */
START_TEST(a_change_behind_other_new_entries_has_its_own_index)
{
    feed_change_in_the_middle(1);
    replace_from(5);
    ck_assert_uint_eq(lq_engine_members(one->engine)->n, 4);
}
END_TEST

START_TEST(a_change_is_rolled_back_when_it_is_replaced)
{
    feed_change_in_the_middle(1);
    replace_from(4);
    ck_assert_uint_eq(lq_engine_members(one->engine)->n, 3);
    ck_assert_ptr_null(lq_members_find(lq_engine_members(one->engine), 4));
}
END_TEST

START_TEST(a_change_is_rolled_back_when_what_stands_before_it_is_replaced)
{
    feed_change_in_the_middle(1);
    replace_from(3);
    ck_assert_uint_eq(lq_engine_members(one->engine)->n, 3);
}
END_TEST

START_TEST(a_change_that_comes_committed_is_in_force_for_good)
{
    feed_change_in_the_middle(4);
    ck_assert_uint_eq(one->applied_members_index, 4);
    replace_from(5);
    ck_assert_uint_eq(lq_engine_members(one->engine)->n, 4);
}
END_TEST

/* Two changes in one message, of which the first is committed, whether the commit index says so or
 * not: rolling back the second must find the first. */
START_TEST(a_roll_back_finds_the_members_of_the_change_before)
{
    struct lq_members members = with(4, "node4:1", LQ_ROLE_STANDBY);
    struct lq_buffer first, second;
    struct lq_message_entry entries[3];
    entries[0] = lq_engines_members_entry(2, 2, &members, &first);
    entries[1] = lq_engines_entry(3, 2, "a");
    ck_assert(lq_members_add(&members, 5, "node5:1", LQ_ROLE_STANDBY));
    entries[2] = lq_engines_members_entry(4, 2, &members, &second);
    lq_engines_start(&engines, 1);
    engines.is_mute = true;
    lq_engines_feed(&engines, 1, 2,
                    &(struct lq_message){.kind = LQ_MESSAGE_APPEND,
                                         .term = 2,
                                         .prev_index = 1,
                                         .prev_term = 1,
                                         .commit = _i == 0 ? 3 : 1,
                                         .count = 3},
                    entries);
    lq_buffer_done(&first);
    lq_buffer_done(&second);
    lq_engines_settle(&engines);
    ck_assert_uint_eq(lq_engine_members(one->engine)->n, 5);
    replace_from(4);
    ck_assert_uint_eq(lq_engine_members(one->engine)->n, 4);
    ck_assert_ptr_nonnull(lq_members_find(lq_engine_members(one->engine), 4));
}
END_TEST

/* A leader that was started anew does not know how far its log is committed, so a voter that lagged
 * gets three changes in one message under a commit index from before them. When the third is
 * replaced, the members are those of the second, who then are asked for their votes: one vote of
 * the first three must not make a leader of a cluster of five. */
START_TEST(a_roll_back_under_an_old_commit_index_does_not_split_the_cluster)
{
    struct lq_members members = with(4, "node4:1", LQ_ROLE_VOTER);
    struct lq_engine *engine;
    struct lq_buffer bytes[3];
    struct lq_message_entry entries[3];
    struct lq_message vote = {.kind = LQ_MESSAGE_VOTE_RESULT, .is_granted = true};
    entries[0] = lq_engines_members_entry(2, 2, &members, &bytes[0]);
    ck_assert(lq_members_add(&members, 5, "node5:1", LQ_ROLE_VOTER));
    entries[1] = lq_engines_members_entry(3, 2, &members, &bytes[1]);
    ck_assert(lq_members_set_role(&members, 2, LQ_ROLE_STANDBY));
    entries[2] = lq_engines_members_entry(4, 2, &members, &bytes[2]);
    lq_engines_start(&engines, 1);
    engine = one->engine;
    engines.is_mute = true;
    lq_engines_feed(&engines, 1, 2,
                    &(struct lq_message){.kind = LQ_MESSAGE_APPEND,
                                         .term = 2,
                                         .prev_index = 1,
                                         .prev_term = 1,
                                         .commit = 1,
                                         .count = 3},
                    entries);
    for (size_t i = 0; i < 3; i++) {
        lq_buffer_done(&bytes[i]);
    }
    lq_engines_settle(&engines);
    ck_assert_uint_eq(lq_members_n_voters(lq_engine_members(engine)), 4);
    replace_from(4);
    ck_assert_uint_eq(lq_engine_members(engine)->n, 5);
    ck_assert_uint_eq(lq_members_n_voters(lq_engine_members(engine)), 5);
    lq_engines_advance(&engines, 2000);
    ck_assert_ptr_nonnull(lq_engines_last(&engines, 1, 5, LQ_MESSAGE_VOTE));
    vote.term = lq_engine_term(engine) + 1;
    vote.is_pre_vote = true;
    lq_engines_feed(&engines, 1, 2, &vote, NULL);
    ck_assert_uint_lt(lq_engine_term(engine), vote.term); /* the pre-vote is not won */
    lq_engines_feed(&engines, 1, 3, &vote, NULL);
    ck_assert_uint_eq(lq_engine_term(engine), vote.term);
    vote.is_pre_vote = false;
    lq_engines_feed(&engines, 1, 2, &vote, NULL);
    ck_assert_int_ne(lq_engine_role(engine), LQ_ENGINE_LEADER);
    lq_engines_feed(&engines, 1, 4, &vote, NULL);
    ck_assert_int_eq(lq_engine_role(engine), LQ_ENGINE_LEADER);
}
END_TEST

/* Leaves the allocator with nothing better than the memory that was freed last. */
static void stir_memory(void)
{
    void *blocks[16][8];
    for (size_t i = 0; i < 16; i++) {
        for (size_t size = 0; size < 8; size++) {
            blocks[i][size] = lq_malloc(24 + 16 * size);
        }
    }
    for (size_t i = 0; i < 16; i++) {
        for (size_t size = 0; size < 8; size++) {
            lq_free(blocks[i][size]);
        }
    }
}

/* The same index, the same number of members, perhaps even the same memory: but other members. */
START_TEST(a_change_that_replaces_a_change_is_noticed)
{
    for (int i = 0; i < 50; i++) {
        uint32_t node = 5 + (uint32_t)i;
        uint64_t term = 3 + (uint64_t)i;
        struct lq_members members = with(node, "other:1", LQ_ROLE_STANDBY);
        struct lq_buffer bytes;
        struct lq_message_entry entry = lq_engines_members_entry(4, term, &members, &bytes);
        if (i == 0) {
            feed_change_in_the_middle(1);
        }
        stir_memory();
        lq_engines_feed(&engines, 1, 2 + (uint32_t)(i % 2),
                        &(struct lq_message){.kind = LQ_MESSAGE_APPEND,
                                             .term = term,
                                             .prev_index = 3,
                                             .prev_term = 2,
                                             .commit = 1,
                                             .count = 1},
                        &entry);
        lq_buffer_done(&bytes);
        lq_engines_settle(&engines);
        ck_assert_uint_eq(lq_engine_members(one->engine)->n, 4);
        ck_assert_uint_eq(lq_engine_members(one->engine)->items[3].node, node);
    }
}
END_TEST

START_TEST(members_are_found_again_at_a_start)
{
    feed_change_in_the_middle(1);
    lq_engines_stop(&engines, 1);
    lq_engines_start(&engines, 1);
    ck_assert_uint_eq(lq_engine_members(one->engine)->n, 4);
    replace_from(4);
    ck_assert_uint_eq(lq_engine_members(one->engine)->n, 3);
}
END_TEST

/* ---- Promotion. */

START_TEST(a_node_that_has_all_is_promoted_on_an_idle_cluster_at_once)
{
    struct lq_members members;
    lq_engines_done(&engines);
    lq_engines_init(&engines, 3, 4);
    lq_engines_start_all(&engines, 4);
    lq_engines_elect_node(&engines, 1);
    ck_assert(lq_engines_submit(&engines, 1, "of this term"));
    lq_engines_advance(&engines, 200);
    ck_assert_int_eq(lq_engine_catch_up_state(one->engine, 4), LQ_CATCH_UP_NONE);
    lq_engine_catch_up(one->engine, 4);
    ck_assert_int_eq(lq_engine_catch_up_state(one->engine, 4), LQ_CATCH_UP_RUNNING);
    lq_engine_catch_up(one->engine, 4); /* asking again does nothing */
    ck_assert(!lq_engine_can_change(one->engine));
    ck_assert(lq_engines_submit(&engines, 1, "empty"));
    lq_engines_advance(&engines, 5);
    ck_assert_int_eq(lq_engine_catch_up_state(one->engine, 4), LQ_CATCH_UP_FINISHED);
    members = with(4, "node4:1", LQ_ROLE_VOTER);
    ck_assert(lq_engines_submit_members(&engines, 1, &members));
    lq_engines_advance(&engines, 50);
    ck_assert(lq_members_is_voter(&engines.nodes[4].applied_members, 4));
    lq_engine_catch_up(one->engine, 4); /* a voter needs none */
    lq_engine_catch_up(one->engine, 9); /* nobody */
    ck_assert(lq_engine_can_change(one->engine));
}
END_TEST

START_TEST(a_promotion_of_a_dead_node_is_given_up)
{
    lq_engines_done(&engines);
    lq_engines_init(&engines, 3, 4);
    lq_engines_start_all(&engines, 3);
    lq_engines_elect_node(&engines, 1);
    lq_engine_catch_up(one->engine, 4);
    ck_assert(lq_engines_submit(&engines, 1, "empty"));
    lq_engines_advance(&engines, 6000);
    ck_assert_int_eq(lq_engine_catch_up_state(one->engine, 4), LQ_CATCH_UP_ABORTED);
    ck_assert(lq_engine_can_change(one->engine));
    lq_engines_start(&engines, 4);
    lq_engine_catch_up(one->engine, 4);
    ck_assert(lq_engines_submit(&engines, 1, "again"));
    lq_engines_advance(&engines, 500);
    ck_assert_int_eq(lq_engine_catch_up_state(one->engine, 4), LQ_CATCH_UP_FINISHED);
}
END_TEST

static Suite *engine_suite(void)
{
    Suite *suite = suite_create("engine_members");
    TCase *tcase = tcase_create("members");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, without_an_answer_changes_are_refused_for_ever);
    tcase_add_test(tcase, every_applied_change_is_answered_so_that_another_is_possible);
    tcase_add_test(tcase, one_change_at_a_time);
    tcase_add_test(tcase, a_removed_leader_steps_down);
    tcase_add_test(tcase, a_demoted_leader_steps_down);
    tcase_add_test(tcase, a_change_behind_other_new_entries_has_its_own_index);
    tcase_add_test(tcase, a_change_is_rolled_back_when_it_is_replaced);
    tcase_add_test(tcase, a_change_is_rolled_back_when_what_stands_before_it_is_replaced);
    tcase_add_test(tcase, a_change_that_comes_committed_is_in_force_for_good);
    tcase_add_loop_test(tcase, a_roll_back_finds_the_members_of_the_change_before, 0, 2);
    tcase_add_test(tcase, a_roll_back_under_an_old_commit_index_does_not_split_the_cluster);
    tcase_add_test(tcase, a_change_that_replaces_a_change_is_noticed);
    tcase_add_test(tcase, members_are_found_again_at_a_start);
    tcase_add_test(tcase, a_node_that_has_all_is_promoted_on_an_idle_cluster_at_once);
    tcase_add_test(tcase, a_promotion_of_a_dead_node_is_given_up);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(engine_suite());
}
