/* Messages that no honest peer sends, or that came too late: they neither end the process nor
 * change anything. */
#include "lq_test.h"
#include "support/replica_engines.h"

#include <string.h>

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

/* Node 1 follows node 2 in term 4: entries 2 to 5 of term 3, 6 to 8 of term 4; 6 are committed. */
static void follow(void)
{
    struct lq_message_entry entries[7];
    for (uint64_t i = 0; i < 7; i++) {
        entries[i] = lq_engines_entry(2 + i, i < 4 ? 3 : 4, "entry");
    }
    engines.is_mute = true;
    lq_engines_start(&engines, 1);
    lq_engines_feed(&engines, 1, 2,
                    &(struct lq_message){.kind = LQ_MESSAGE_APPEND,
                                         .term = 4,
                                         .prev_index = 1,
                                         .prev_term = 1,
                                         .commit = 6,
                                         .count = 7},
                    entries);
    lq_engines_settle(&engines);
    ck_assert_uint_eq(lq_engine_commit(one->engine), 6);
}

static void lead(void)
{
    lq_engines_start_all(&engines, 3);
    lq_engines_elect_node(&engines, 1);
    for (int i = 0; i < 5; i++) {
        ck_assert(lq_engines_submit(&engines, 1, "entry"));
        lq_engines_advance(&engines, 20);
    }
}

struct state {
    uint64_t term, vote, last, last_term, stored, commit, applied;
    uint32_t leader;
    enum lq_engine_role role;
    size_t members;
};

static struct state state_of(void)
{
    return (struct state){.term = lq_engine_term(one->engine),
                          .vote = one->start.vote,
                          .last = lq_log_last(&one->log).index,
                          .last_term = lq_log_last(&one->log).term,
                          .stored = lq_engine_last_stored(one->engine),
                          .commit = lq_engine_commit(one->engine),
                          .applied = one->applied,
                          .leader = lq_engine_leader(one->engine),
                          .role = lq_engine_role(one->engine),
                          .members = lq_engine_members(one->engine)->n};
}

/* The message arrives and nothing is different. */
static void shrugs_off(uint32_t from, const struct lq_message *message,
                       const struct lq_message_entry *entries)
{
    struct state before = state_of(), after;
    lq_engines_feed(&engines, 1, from, message, entries);
    lq_engines_settle(&engines);
    after = state_of();
    ck_assert_ptr_null(lq_engine_fault(one->engine));
    ck_assert_uint_eq(before.term, after.term);
    ck_assert_uint_eq(before.vote, after.vote);
    ck_assert_uint_eq(before.last, after.last);
    ck_assert_uint_eq(before.last_term, after.last_term);
    ck_assert_uint_eq(before.stored, after.stored);
    ck_assert_uint_eq(before.commit, after.commit);
    ck_assert_uint_eq(before.applied, after.applied);
    ck_assert_uint_eq(before.leader, after.leader);
    ck_assert_int_eq(before.role, after.role);
    ck_assert_uint_eq(before.members, after.members);
}

static struct lq_message append(uint64_t term, uint64_t prev_index, uint64_t prev_term,
                                uint32_t count)
{
    return (struct lq_message){.kind = LQ_MESSAGE_APPEND,
                               .term = term,
                               .prev_index = prev_index,
                               .prev_term = prev_term,
                               .commit = 6,
                               .count = count};
}

START_TEST(entries_whose_terms_make_no_sense)
{
    struct lq_message_entry entries[3];
    struct lq_message message = append(4, 8, 4, 3);
    follow();
    for (uint64_t i = 0; i < 3; i++) {
        entries[i] = lq_engines_entry(9 + i, 4, "entry");
    }
    entries[1].term = 3; /* falls */
    shrugs_off(2, &message, entries);
    entries[1].term = 0;
    shrugs_off(2, &message, entries);
    entries[1].term = 5; /* above the message's */
    shrugs_off(2, &message, entries);
    entries[1].term = UINT64_MAX;
    shrugs_off(2, &message, entries);
    entries[1].term = 4;
    entries[0].term = 3; /* below that of the entry before */
    shrugs_off(2, &message, entries);
}
END_TEST

START_TEST(entries_of_no_type)
{
    static const uint8_t types[] = {0, 4, 77, 255};
    struct lq_message message = append(4, 8, 4, 1);
    follow();
    for (size_t i = 0; i < sizeof types; i++) {
        struct lq_message_entry entry = lq_engines_entry(9, 4, "entry");
        entry.type = types[i];
        shrugs_off(2, &message, &entry);
    }
}
END_TEST

START_TEST(members_that_can_not_be_read)
{
    struct lq_members members = {0};
    struct lq_message message = append(4, 8, 4, 2);
    struct lq_message_entry entries[2];
    struct lq_buffer bytes;
    ck_assert(lq_members_add(&members, 1, "node1:1", LQ_ROLE_VOTER));
    ck_assert(lq_members_add(&members, 2, "node2:1", LQ_ROLE_VOTER));
    follow();
    entries[0] = lq_engines_entry(9, 4, "good");
    entries[1] = lq_engines_members_entry(10, 4, &members, &bytes);
    for (size_t len = 0; len < bytes.len; len++) { /* cut short */
        entries[1].len = (uint32_t)len;
        shrugs_off(2, &message, entries);
    }
    entries[1].len = (uint32_t)bytes.len;
    for (size_t i = 0; i < 9; i++) { /* another version; a number of members that is not there */
        bytes.bytes[i] ^= 0x80;
        shrugs_off(2, &message, entries);
        bytes.bytes[i] ^= 0x80;
    }
    lq_buffer_done(&bytes);
}
END_TEST

START_TEST(places_in_the_log_that_can_not_be)
{
    static const uint64_t indexes[] = {9, 12, UINT64_C(1) << 62, UINT64_MAX - 1, UINT64_MAX};
    struct lq_message_entry entry = lq_engines_entry(1, 4, "entry");
    struct lq_message message;
    follow();
    for (size_t i = 0; i < sizeof indexes / sizeof indexes[0]; i++) {
        message = append(4, indexes[i], 4, 1);
        shrugs_off(2, &message, &entry);
        message = append(4, indexes[i], 4, 0);
        message.commit = UINT64_MAX;
        shrugs_off(2, &message, NULL);
    }
    message = append(4, 0, 4, 1); /* an index without its term, and the other way round */
    shrugs_off(2, &message, &entry);
    message = append(4, 3, 0, 1);
    shrugs_off(2, &message, &entry);
    message = append(4, 7, 9, 1); /* a term above the message's */
    shrugs_off(2, &message, &entry);
    message = append(4, 7, 3, 1); /* 7 has term 4 here: rejected */
    shrugs_off(2, &message, &entry);
}
END_TEST

START_TEST(terms_that_can_not_be)
{
    static const uint64_t terms[] = {0, UINT64_MAX, UINT64_MAX / 2, (UINT64_C(1) << 62) + 1};
    static const uint8_t kinds[] = {LQ_MESSAGE_VOTE, LQ_MESSAGE_VOTE_RESULT, LQ_MESSAGE_APPEND,
                                    LQ_MESSAGE_APPEND_RESULT, LQ_MESSAGE_TIMEOUT_NOW};
    follow();
    for (size_t k = 0; k < sizeof kinds; k++) {
        for (size_t i = 0; i < sizeof terms / sizeof terms[0]; i++) {
            struct lq_message message = {.kind = kinds[k], .term = terms[i]};
            shrugs_off(2, &message, NULL);
            shrugs_off(3, &message, NULL);
            shrugs_off(99, &message, NULL);
        }
    }
}
END_TEST

START_TEST(messages_of_earlier_terms)
{
    struct lq_message_entry entry = lq_engines_entry(7, 3, "late");
    struct lq_message message = append(3, 6, 3, 1);
    follow();
    shrugs_off(3, &message, &entry);
    message = (struct lq_message){.kind = LQ_MESSAGE_VOTE, .term = 3, .last_index = 99};
    shrugs_off(3, &message, NULL);
    message.is_disrupting = true;
    shrugs_off(3, &message, NULL);
    message = (struct lq_message){
        .kind = LQ_MESSAGE_TIMEOUT_NOW, .term = 3, .last_index = 8, .last_term = 4};
    shrugs_off(2, &message, NULL);
}
END_TEST

START_TEST(orders_to_lead_that_do_not_concern_us)
{
    struct lq_message message = {
        .kind = LQ_MESSAGE_TIMEOUT_NOW, .term = 4, .last_index = 8, .last_term = 4};
    follow();
    shrugs_off(3, &message, NULL); /* not our leader */
    message.last_index = 7;
    shrugs_off(2, &message, NULL); /* we do not have what it has */
    message.last_index = 0;
    message.last_term = 0;
    shrugs_off(2, &message, NULL);
    message.last_index = 9;
    message.last_term = 4;
    shrugs_off(2, &message, NULL);
}
END_TEST

/* A node that knows no cluster yet. */
START_TEST(a_blank_node_is_told_anything)
{
    static const uint8_t kinds[] = {LQ_MESSAGE_VOTE, LQ_MESSAGE_VOTE_RESULT,
                                    LQ_MESSAGE_APPEND_RESULT, LQ_MESSAGE_TIMEOUT_NOW};
    lq_engines_done(&engines);
    lq_engines_init(&engines, 0, 0);
    lq_engines_start(&engines, 1);
    engines.is_mute = true;
    for (size_t k = 0; k < sizeof kinds; k++) {
        for (uint64_t term = 0; term < 3; term++) {
            struct lq_message message = {
                .kind = kinds[k], .term = term, .is_granted = true, .last_index = term};
            lq_engines_feed(&engines, 1, 2, &message, NULL);
            message.is_disrupting = message.is_pre_vote = true;
            lq_engines_feed(&engines, 1, 2, &message, NULL);
        }
    }
    lq_engines_advance(&engines, 2000);
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_FOLLOWER);
    ck_assert_ptr_null(lq_engine_fault(one->engine));
    ck_assert(!lq_engine_skip_timeout(one->engine) ||
              lq_engine_role(one->engine) == LQ_ENGINE_FOLLOWER);
}
END_TEST

/* ---- To a leader. */

START_TEST(a_leader_ignores_entries_of_its_own_term)
{
    struct lq_message message;
    struct lq_message_entry entry;
    uint64_t term, last;
    lead();
    term = lq_engine_term(one->engine);
    last = lq_log_last(&one->log).index;
    entry = lq_engines_entry(last + 1, term, "usurped");
    message = append(term, last, term, 1);
    shrugs_off(2, &message, &entry);
    message = append(term, last, term, 0);
    shrugs_off(3, &message, NULL);
    message = append(term, 1, 1, 0);
    shrugs_off(99, &message, NULL);
}
END_TEST

START_TEST(a_leader_ignores_acknowledgements_that_are_older_than_what_it_knows)
{
    struct lq_message message = {.kind = LQ_MESSAGE_APPEND_RESULT};
    uint64_t last, match;
    lead();
    last = lq_log_last(&one->log).index;
    match = lq_engine_match(one->engine, 3);
    ck_assert_uint_eq(match, last);
    message.term = lq_engine_term(one->engine);
    for (uint64_t rejected = 0; rejected <= last + 2; rejected++) {
        for (uint64_t index = 0; index <= last + 2; index++) {
            if (rejected == 0 && index > match) {
                continue; /* more than the log has: raft cuts it */
            }
            message.rejected = rejected;
            message.last_index = index;
            shrugs_off(3, &message, NULL);
            ck_assert_uint_eq(lq_engine_match(one->engine, 3), match);
        }
    }
    message.rejected = UINT64_MAX;
    message.last_index = UINT64_MAX;
    shrugs_off(3, &message, NULL);
    message.last_index = UINT64_MAX - 1;
    shrugs_off(3, &message, NULL);
    message.rejected = 0;
    message.last_index = UINT64_MAX;
    shrugs_off(3, &message, NULL);
    shrugs_off(99, &message, NULL);
    ck_assert(lq_engines_submit(&engines, 1, "goes on"));
    lq_engines_advance(&engines, 100);
    ck_assert_uint_eq(engines.nodes[3].applied, lq_log_last(&one->log).index);
}
END_TEST

/* ---- Anything. */

static uint64_t odd_number(struct lq_rand *rand)
{
    switch (lq_rand_below(rand, 12)) {
    case 0:
        return UINT64_MAX - lq_rand_below(rand, 3);
    case 1:
        return (UINT64_C(1) << 62) - 1 + lq_rand_below(rand, 3);
    case 2:
        return 0;
    default:
        return lq_rand_below(rand, 12);
    }
}

static void feed_anything(struct lq_rand *rand)
{
    struct lq_message message = {.kind = (uint8_t)(1 + lq_rand_below(rand, 5)),
                                 .is_pre_vote = lq_rand_below(rand, 2),
                                 .is_disrupting = lq_rand_below(rand, 2),
                                 .is_granted = lq_rand_below(rand, 2)};
    uint32_t from = (uint32_t)(1 + lq_rand_below(rand, 5));
    struct lq_message_entry entries[4];
    struct lq_members members = {0};
    struct lq_buffer bytes = {0};
    message.term = lq_rand_below(rand, 40) == 0
                       ? odd_number(rand) % 50
                       : lq_engine_term(one->engine) + (lq_rand_below(rand, 15) == 0);
    message.last_index = odd_number(rand);
    message.last_term = odd_number(rand);
    message.prev_index = odd_number(rand);
    message.prev_term = lq_rand_below(rand, 3) == 0 ? odd_number(rand)
                                                    : lq_log_term_of(&one->log, message.prev_index);
    message.rejected = odd_number(rand);
    if (message.kind == LQ_MESSAGE_APPEND) {
        uint64_t base = message.prev_index;
        /* Nothing that was committed is contradicted: a node rightly stops at that. */
        if (base < lq_engine_commit(one->engine) ||
            message.prev_term != lq_log_term_of(&one->log, base)) {
            return;
        }
        message.count = (uint32_t)lq_rand_below(rand, 5);
        (void)lq_members_add(&members, 1, "node1:1", LQ_ROLE_VOTER);
        (void)lq_members_add(&members, 2, "node2:1", LQ_ROLE_VOTER);
        (void)lq_members_add(&members, 3, "node3:1", LQ_ROLE_VOTER);
        (void)lq_members_add(&members, 4 + (uint32_t)lq_rand_below(rand, 3), "x:1",
                             LQ_ROLE_STANDBY);
        for (uint32_t i = 0; i < message.count; i++) {
            uint64_t term = lq_rand_below(rand, 8) == 0 ? odd_number(rand) : message.term;
            if (lq_rand_below(rand, 3) == 0 && bytes.len == 0) {
                entries[i] = lq_engines_members_entry(base + 1 + i, term, &members, &bytes);
            } else {
                entries[i] = lq_engines_entry(base + 1 + i, term, "x");
            }
        }
        message.commit = lq_rand_below(rand, 3) == 0 ? base : 0;
    }
    lq_engines_feed(&engines, 1, from, &message,
                    message.kind == LQ_MESSAGE_APPEND ? entries : NULL);
    lq_buffer_done(&bytes);
}

START_TEST(anything_at_all)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    lq_engines_start(&engines, 1);
    engines.is_mute = true;
    one->holds_writes = _i % 2 == 1;
    for (int i = 0; i < 2000; i++) {
        feed_anything(&rand);
        if (lq_rand_below(&rand, 20) == 0) {
            (void)lq_engine_skip_timeout(one->engine);
        }
        if (lq_rand_below(&rand, 20) == 0) {
            (void)lq_engines_submit(&engines, 1, "own");
        }
        if (lq_rand_below(&rand, 5) == 0) {
            lq_engine_stored(one->engine, lq_log_last(&one->log).index);
        }
        lq_engines_advance(&engines, lq_rand_below(&rand, 30));
    }
    ck_assert_ptr_null(lq_engine_fault(one->engine));
}
END_TEST

static Suite *engine_suite(void)
{
    Suite *suite = suite_create("engine_hostile");
    TCase *tcase = tcase_create("hostile");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, entries_whose_terms_make_no_sense);
    tcase_add_test(tcase, entries_of_no_type);
    tcase_add_test(tcase, members_that_can_not_be_read);
    tcase_add_test(tcase, places_in_the_log_that_can_not_be);
    tcase_add_test(tcase, terms_that_can_not_be);
    tcase_add_test(tcase, messages_of_earlier_terms);
    tcase_add_test(tcase, orders_to_lead_that_do_not_concern_us);
    tcase_add_test(tcase, a_blank_node_is_told_anything);
    tcase_add_test(tcase, a_leader_ignores_entries_of_its_own_term);
    tcase_add_test(tcase, a_leader_ignores_acknowledgements_that_are_older_than_what_it_knows);
    tcase_add_loop_test(tcase, anything_at_all, 0, 10);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(engine_suite());
}
