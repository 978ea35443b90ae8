/* The engine in elections: votes, sole voters, leaders whose process is gone. */
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

static void give_vote(uint32_t from, uint64_t term, bool is_pre_vote)
{
    lq_engines_feed(&engines, 1, from,
                    &(struct lq_message){.kind = LQ_MESSAGE_VOTE_RESULT,
                                         .term = term,
                                         .is_pre_vote = is_pre_vote,
                                         .is_granted = true},
                    NULL);
}

static void heartbeat(uint32_t from, uint64_t term)
{
    lq_engines_feed(
        &engines, 1, from,
        &(struct lq_message){
            .kind = LQ_MESSAGE_APPEND, .term = term, .prev_index = 1, .prev_term = 1, .commit = 1},
        NULL);
}

/* ---- Elections. */

START_TEST(three_elect_one_and_keep_it)
{
    uint32_t leader;
    uint64_t term;
    lq_engines_start_all(&engines, 3);
    leader = lq_engines_elect(&engines);
    term = lq_engine_term(one->engine);
    ck_assert_uint_le(engines.now_ms, LQ_ENGINES_START_MS + 3 * LQ_ENGINES_ELECTION_MS);
    lq_engines_advance(&engines, 5000);
    ck_assert_uint_eq(lq_engines_elect(&engines), leader);
    ck_assert_uint_eq(lq_engine_term(one->engine), term);
}
END_TEST

START_TEST(a_leader_without_a_majority_steps_down)
{
    lq_engines_start_all(&engines, 3);
    lq_engines_elect_node(&engines, 1);
    lq_engines_stop(&engines, 2);
    lq_engines_stop(&engines, 3);
    lq_engines_advance(&engines, 2 * LQ_ENGINES_ELECTION_MS);
    ck_assert_int_ne(lq_engine_role(one->engine), LQ_ENGINE_LEADER);
    ck_assert(!lq_engines_submit(&engines, 1, "nobody would hear"));
}
END_TEST

/* Terms do not grow while a node is cut off: votes are asked for in advance. */
START_TEST(a_node_that_was_cut_off_disturbs_nobody)
{
    uint64_t term;
    lq_engines_start_all(&engines, 3);
    lq_engines_elect_node(&engines, 1);
    term = lq_engine_term(one->engine);
    for (uint32_t id = 1; id <= 2; id++) {
        engines.is_cut[id][3] = engines.is_cut[3][id] = true;
    }
    lq_engines_advance(&engines, 5000);
    ck_assert_uint_eq(lq_engine_term(engines.nodes[3].engine), term);
    for (uint32_t id = 1; id <= 2; id++) {
        engines.is_cut[id][3] = engines.is_cut[3][id] = false;
    }
    lq_engines_advance(&engines, 1000);
    ck_assert_uint_eq(lq_engines_elect(&engines), 1);
    ck_assert_uint_eq(lq_engine_term(one->engine), term);
}
END_TEST

/* ---- Results of votes. */

/* Raft looks at a candidate's fields in whatever state it is in. */
START_TEST(the_result_of_a_vote_is_ignored_by_whoever_is_no_candidate)
{
    lq_engines_start_all(&engines, 1);
    engines.is_mute = true;
    give_vote(2, 1, false);
    give_vote(3, 7, false);
    give_vote(3, 7, true);
    ck_assert_uint_eq(lq_engine_term(one->engine), 1);
    heartbeat(2, 2);
    ck_assert_uint_eq(lq_engine_leader(one->engine), 2);
    give_vote(3, 2, false);
    give_vote(3, 9, true);
    give_vote(3, 9, false);
    ck_assert_uint_eq(lq_engine_term(one->engine), 2);
    ck_assert_uint_eq(lq_engine_leader(one->engine), 2);
    ck_assert_uint_eq(one->n_terms, 1);
}
END_TEST

START_TEST(a_leader_ignores_the_result_of_a_vote)
{
    lq_engines_start_all(&engines, 3);
    lq_engines_elect_node(&engines, 1);
    give_vote(2, lq_engine_term(one->engine), false);
    give_vote(2, lq_engine_term(one->engine) + 5, true);
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_LEADER);
}
END_TEST

START_TEST(votes_in_advance_elect_nobody)
{
    lq_engines_start_all(&engines, 1);
    engines.is_mute = true;
    ck_assert(lq_engine_skip_timeout(one->engine));
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_CANDIDATE);
    ck_assert_uint_eq(lq_engine_term(one->engine), 1);
    give_vote(2, 2, false); /* a real one, asked for in an earlier life */
    give_vote(4, 2, true);  /* of nobody */
    give_vote(3, 3, true);  /* for a term that is far ahead: not granted to us */
    ck_assert_uint_eq(lq_engine_term(one->engine), 1);
    give_vote(3, 2, true);
    ck_assert_uint_eq(lq_engine_term(one->engine), 2);
    ck_assert_uint_eq(one->start.vote, 1);
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_CANDIDATE);
    give_vote(3, 2, true); /* again: does not count as a real one */
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_CANDIDATE);
    give_vote(3, 1, false);
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_CANDIDATE);
    give_vote(3, 2, false);
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_LEADER);
}
END_TEST

/* Raft alone would begin one real vote after the other, and depose the leader of the others when it
 * hears of them again. */
START_TEST(after_a_vote_that_failed_votes_are_asked_for_in_advance_again)
{
    const struct lq_message *ask;
    lq_engines_start_all(&engines, 1);
    engines.is_mute = true;
    ck_assert(lq_engine_skip_timeout(one->engine));
    give_vote(2, 2, true);
    ck_assert_uint_eq(lq_engine_term(one->engine), 2);
    lq_engines_advance(&engines, 10 * LQ_ENGINES_ELECTION_MS);
    ck_assert_uint_eq(lq_engine_term(one->engine), 2);
    ask = &lq_engines_last(&engines, 1, 2, LQ_MESSAGE_VOTE)->message;
    ck_assert(ask->is_pre_vote);
    ck_assert_uint_eq(ask->term, 3);
    give_vote(3, 2, true); /* in advance, for the vote that failed */
    ck_assert_uint_eq(lq_engine_term(one->engine), 2);
    give_vote(3, 3, true);
    ck_assert_uint_eq(lq_engine_term(one->engine), 3);
    give_vote(2, 3, false);
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_LEADER);
}
END_TEST

/* The leave to disturb a leader, which comes with a transfer, is for one vote. */
START_TEST(a_transfer_that_failed_disturbs_nobody_later)
{
    const struct lq_message *ask;
    lq_engines_start_all(&engines, 1);
    engines.is_mute = true;
    heartbeat(3, 2);
    lq_engines_feed(&engines, 1, 3,
                    &(struct lq_message){
                        .kind = LQ_MESSAGE_TIMEOUT_NOW, .term = 2, .last_index = 1, .last_term = 1},
                    NULL);
    ask = &lq_engines_last(&engines, 1, 2, LQ_MESSAGE_VOTE)->message;
    ck_assert(!ask->is_pre_vote && ask->is_disrupting);
    lq_engines_advance(&engines, 3 * LQ_ENGINES_ELECTION_MS);
    ask = &lq_engines_last(&engines, 1, 2, LQ_MESSAGE_VOTE)->message;
    ck_assert(ask->is_pre_vote && !ask->is_disrupting);
    ck_assert_uint_eq(lq_engine_term(one->engine), 3);
}
END_TEST

START_TEST(one_vote_in_a_term_also_after_a_restart)
{
    struct lq_message ask = {
        .kind = LQ_MESSAGE_VOTE, .term = 5, .last_index = 9, .last_term = 4, .is_disrupting = true};
    lq_engines_start_all(&engines, 1);
    engines.is_mute = true;
    lq_engines_feed(&engines, 1, 2, &ask, NULL);
    ck_assert(lq_engines_last(&engines, 1, 2, LQ_MESSAGE_VOTE_RESULT)->message.is_granted);
    ck_assert_uint_eq(one->start.term, 5);
    ck_assert_uint_eq(one->start.vote, 2);
    lq_engines_stop(&engines, 1);
    lq_engines_start(&engines, 1);
    lq_engines_feed(&engines, 1, 3, &ask, NULL);
    ck_assert(!lq_engines_last(&engines, 1, 3, LQ_MESSAGE_VOTE_RESULT)->message.is_granted);
    lq_engines_feed(&engines, 1, 2, &ask, NULL);
    ck_assert(lq_engines_last(&engines, 1, 2, LQ_MESSAGE_VOTE_RESULT)->message.is_granted);
}
END_TEST

/* ---- Sole voters. */

/* Raft lets it lead in the term that it was in, in which another may have led. */
START_TEST(the_sole_voter_elects_itself_in_a_new_term)
{
    struct lq_message append = {
        .kind = LQ_MESSAGE_APPEND, .term = 6, .prev_index = 1, .prev_term = 1, .commit = 1};
    uint64_t before = LQ_ENGINES_START_MS;
    lq_engines_done(&engines);
    lq_engines_init(&engines, 1, 2);
    lq_engines_start(&engines, 1); /* what a restart raises is the replica's part */
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_LEADER);
    lq_engines_feed(&engines, 1, 2, &append, NULL);
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_FOLLOWER);
    ck_assert_uint_eq(one->start.term, 6);
    lq_engines_advance(&engines, 3 * LQ_ENGINES_ELECTION_MS);
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_LEADER);
    ck_assert_uint_eq(lq_engine_term(one->engine), 7);
    ck_assert_uint_eq(one->start.term, 7);
    ck_assert_uint_eq(one->start.vote, 1);
    ck_assert_uint_gt(engines.now_ms, before);
}
END_TEST

START_TEST(the_sole_voter_gets_a_new_term_also_when_it_does_not_wait)
{
    lq_engines_done(&engines);
    lq_engines_init(&engines, 1, 2);
    lq_engines_start(&engines, 1);
    heartbeat(2, 6);
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_FOLLOWER);
    (void)lq_engine_skip_timeout(one->engine);
    lq_engines_settle(&engines);
    ck_assert(lq_engine_role(one->engine) != LQ_ENGINE_LEADER || lq_engine_term(one->engine) > 6);
}
END_TEST

START_TEST(the_sole_voter_gets_a_new_term_also_when_it_is_told_to_lead)
{
    lq_engines_done(&engines);
    lq_engines_init(&engines, 1, 2);
    lq_engines_start(&engines, 1);
    heartbeat(2, 6);
    lq_engines_feed(&engines, 1, 2,
                    &(struct lq_message){
                        .kind = LQ_MESSAGE_TIMEOUT_NOW, .term = 6, .last_index = 1, .last_term = 1},
                    NULL);
    ck_assert(lq_engine_role(one->engine) != LQ_ENGINE_LEADER || lq_engine_term(one->engine) > 6);
}
END_TEST

/* ---- A leader whose process is gone. */

/* Both that are left try again and again; returns the one that succeeds, in time. */
static uint32_t succeed(uint32_t dead)
{
    uint64_t since = engines.now_ms;
    while (true) {
        for (uint32_t id = 1; id <= 3; id++) {
            const struct lq_engine *engine = engines.nodes[id].engine;
            if (id == dead) {
                continue;
            }
            if (lq_engine_role(engine) == LQ_ENGINE_LEADER) {
                return id;
            }
            if ((engines.now_ms - since) % (10 + 7 * id) == 2 * id &&
                lq_engine_may_skip(engine, dead)) {
                (void)lq_engine_skip_timeout(engines.nodes[id].engine);
            }
        }
        lq_engines_advance(&engines, 1);
        ck_assert_uint_lt(engines.now_ms, since + 100);
    }
}

START_TEST(a_dead_leader_is_not_waited_for)
{
    lq_engines_start_all(&engines, 3);
    lq_engines_elect_node(&engines, 3);
    lq_engines_stop(&engines, 3);
    ck_assert_uint_ne(succeed(3), 3);
}
END_TEST

START_TEST(a_living_leader_is_not_skipped)
{
    lq_engines_start_all(&engines, 3);
    lq_engines_elect_node(&engines, 3);
    ck_assert(!lq_engine_may_skip(one->engine, 2));
    ck_assert(!lq_engine_may_skip(engines.nodes[3].engine, 3));
    ck_assert(lq_engine_may_skip(one->engine, 3));
}
END_TEST

START_TEST(a_real_vote_is_never_skipped)
{
    lq_engines_start_all(&engines, 1);
    engines.is_mute = true;
    heartbeat(3, 2);
    ck_assert(lq_engine_may_skip(one->engine, 3));
    ck_assert(lq_engine_skip_timeout(one->engine));
    ck_assert(lq_engine_may_skip(one->engine, 3)); /* votes in advance: again is fine */
    engines.now_ms += 20;
    lq_engine_set_time(one->engine, engines.now_ms);
    ck_assert(lq_engine_skip_timeout(one->engine));
    ck_assert_uint_eq(lq_engine_term(one->engine), 2);
    give_vote(2, 3, true);
    ck_assert_uint_eq(lq_engine_term(one->engine), 3);
    ck_assert(!lq_engine_may_skip(one->engine, 3)); /* the real vote is under way */
}
END_TEST

START_TEST(an_election_of_another_that_was_voted_for_is_not_skipped)
{
    lq_engines_start_all(&engines, 1);
    engines.is_mute = true;
    heartbeat(3, 2);
    lq_engines_feed(&engines, 1, 2,
                    &(struct lq_message){.kind = LQ_MESSAGE_VOTE,
                                         .term = 3,
                                         .last_index = 1,
                                         .last_term = 1,
                                         .is_disrupting = true},
                    NULL);
    ck_assert_uint_eq(one->start.vote, 2);
    ck_assert(!lq_engine_may_skip(one->engine, 3));
}
END_TEST

START_TEST(nothing_is_skipped_before_the_journal_is_drained)
{
    struct lq_message_entry entry = lq_engines_entry(2, 2, "not durable");
    lq_engines_start_all(&engines, 1);
    engines.is_mute = true;
    one->holds_writes = true;
    lq_engines_feed(&engines, 1, 3,
                    &(struct lq_message){.kind = LQ_MESSAGE_APPEND,
                                         .term = 2,
                                         .prev_index = 1,
                                         .prev_term = 1,
                                         .commit = 1,
                                         .count = 1},
                    &entry);
    ck_assert(!lq_engine_skip_timeout(one->engine));
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_FOLLOWER);
    lq_engines_advance(&engines, 4 * LQ_ENGINES_ELECTION_MS); /* nor by itself */
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_FOLLOWER);
    lq_engine_stored(one->engine, 2);
    ck_assert(lq_engine_skip_timeout(one->engine));
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_CANDIDATE);
}
END_TEST

/* The time that was skipped is gone for raft's clock alone, and for good. */
START_TEST(skipped_time_changes_no_timing_later)
{
    uint32_t leader, next;
    uint64_t term;
    lq_engines_start_all(&engines, 3);
    leader = lq_engines_elect(&engines);
    for (int i = 0; i < 20; i++) {
        lq_engines_stop(&engines, leader);
        next = succeed(leader);
        lq_engines_start(&engines, leader);
        lq_engines_advance(&engines, 50);
        leader = next;
    }
    term = lq_engine_term(engines.nodes[leader].engine);
    lq_engines_advance(&engines, 3000);
    ck_assert_uint_eq(lq_engines_elect(&engines), leader);
    ck_assert_uint_eq(lq_engine_term(engines.nodes[leader].engine), term);
    ck_assert_uint_le(lq_engine_deadline(one->engine), engines.now_ms + 2 * LQ_ENGINES_ELECTION_MS);
}
END_TEST

START_TEST(a_standby_neither_votes_nor_skips)
{
    lq_engines_done(&engines);
    lq_engines_init(&engines, 2, 3);
    lq_engines_start_all(&engines, 3);
    lq_engines_elect_node(&engines, 1);
    lq_engines_stop(&engines, 1);
    lq_engines_stop(&engines, 2);
    ck_assert(!lq_engine_may_skip(engines.nodes[3].engine, 1));
    (void)lq_engine_skip_timeout(engines.nodes[3].engine);
    lq_engines_advance(&engines, 2000);
    ck_assert_int_eq(lq_engine_role(engines.nodes[3].engine), LQ_ENGINE_FOLLOWER);
}
END_TEST

static Suite *engine_suite(void)
{
    Suite *suite = suite_create("engine_votes");
    TCase *tcase = tcase_create("votes");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, three_elect_one_and_keep_it);
    tcase_add_test(tcase, a_leader_without_a_majority_steps_down);
    tcase_add_test(tcase, a_node_that_was_cut_off_disturbs_nobody);
    tcase_add_test(tcase, the_result_of_a_vote_is_ignored_by_whoever_is_no_candidate);
    tcase_add_test(tcase, a_leader_ignores_the_result_of_a_vote);
    tcase_add_test(tcase, votes_in_advance_elect_nobody);
    tcase_add_test(tcase, after_a_vote_that_failed_votes_are_asked_for_in_advance_again);
    tcase_add_test(tcase, a_transfer_that_failed_disturbs_nobody_later);
    tcase_add_test(tcase, one_vote_in_a_term_also_after_a_restart);
    tcase_add_test(tcase, the_sole_voter_elects_itself_in_a_new_term);
    tcase_add_test(tcase, the_sole_voter_gets_a_new_term_also_when_it_does_not_wait);
    tcase_add_test(tcase, the_sole_voter_gets_a_new_term_also_when_it_is_told_to_lead);
    tcase_add_test(tcase, a_dead_leader_is_not_waited_for);
    tcase_add_test(tcase, a_living_leader_is_not_skipped);
    tcase_add_test(tcase, a_real_vote_is_never_skipped);
    tcase_add_test(tcase, an_election_of_another_that_was_voted_for_is_not_skipped);
    tcase_add_test(tcase, nothing_is_skipped_before_the_journal_is_drained);
    tcase_add_test(tcase, skipped_time_changes_no_timing_later);
    tcase_add_test(tcase, a_standby_neither_votes_nor_skips);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(engine_suite());
}
