/* The engine and the log: what is durable, what is replaced, what is committed. */
#include "lq_test.h"
#include "support/replica_engines.h"

/* Node 1 of three, fed by hand by 2 and 3. */
static struct lq_engines engines;
static struct lq_engines_node *const one = &engines.nodes[1];

static void set_up(void)
{
    lq_engines_init(&engines, 3, 3);
    engines.is_mute = true;
    lq_engines_start(&engines, 1);
}

static void tear_down(void)
{
    lq_engines_done(&engines);
}

/* Commands of `term` at `first` and on, behind an entry of `prev_term`. */
static void append(uint32_t from, uint64_t term, uint64_t first, uint64_t prev_term, uint32_t count,
                   uint64_t commit)
{
    struct lq_message_entry entries[32];
    struct lq_message message = {.kind = LQ_MESSAGE_APPEND,
                                 .term = term,
                                 .prev_index = first - 1,
                                 .prev_term = prev_term,
                                 .commit = commit,
                                 .count = count};
    for (uint32_t i = 0; i < count; i++) {
        entries[i] = lq_engines_entry(first + i, term, term % 2 ? "odd" : "even");
    }
    lq_engines_feed(&engines, 1, from, &message, entries);
}

static uint64_t acknowledged_to(uint32_t node)
{
    const struct lq_engines_sent *sent =
        lq_engines_last(&engines, 1, node, LQ_MESSAGE_APPEND_RESULT);
    ck_assert_ptr_nonnull(sent);
    ck_assert_uint_eq(sent->message.rejected, 0);
    return sent->message.last_index;
}

START_TEST(nothing_is_acknowledged_before_it_is_durable)
{
    one->holds_writes = true;
    append(2, 2, 2, 1, 3, 1);
    ck_assert_uint_eq(lq_log_last(&one->log).index, 4);
    ck_assert_ptr_null(lq_engines_last(&engines, 1, 2, LQ_MESSAGE_APPEND_RESULT));
    append(2, 2, 5, 2, 0, 1); /* a heartbeat is answered at once */
    ck_assert_uint_eq(acknowledged_to(2), 1);
    lq_engine_stored(one->engine, 3);
    ck_assert_uint_eq(acknowledged_to(2), 3);
    lq_engine_stored(one->engine, 4);
    ck_assert_uint_eq(acknowledged_to(2), 4);
}
END_TEST

/* The engine's part: what was durable of entries that were replaced counts no more, and a
 * completion at or below what is known says nothing. */
START_TEST(a_stale_write_completion_says_nothing_after_a_truncation)
{
    one->holds_writes = true;
    append(2, 2, 2, 1, 4, 1);
    lq_engine_stored(one->engine, 5);
    ck_assert_uint_eq(acknowledged_to(2), 5);
    append(3, 3, 3, 2, 3, 1); /* replaces 3, 4 and 5 */
    ck_assert_uint_eq(lq_engine_last_stored(one->engine), 2);
    lq_engine_stored(one->engine, 2); /* of the old 2 to 5, as the journal cuts it */
    lq_engine_stored(one->engine, 1);
    ck_assert_uint_eq(lq_engine_last_stored(one->engine), 2);
    append(3, 3, 6, 3, 0, 1);
    ck_assert_uint_eq(acknowledged_to(3), 2);
    lq_engine_stored(one->engine, 5);
    ck_assert_uint_eq(acknowledged_to(3), 5);
}
END_TEST

/* A short old message with a newer commit index: raft takes the smaller of both. */
START_TEST(the_commit_index_never_falls)
{
    append(2, 2, 2, 1, 6, 5);
    lq_engines_settle(&engines);
    ck_assert_uint_eq(lq_engine_commit(one->engine), 5);
    append(2, 2, 2, 1, 1, 7); /* came late: it ends at 2 */
    ck_assert_uint_eq(lq_engine_commit(one->engine), 5);
    ck_assert_uint_eq(one->applied, 5);
    append(2, 2, 8, 2, 0, 7);
    ck_assert_uint_eq(lq_engine_commit(one->engine), 7);
}
END_TEST

START_TEST(an_old_message_truncates_nothing)
{
    append(2, 2, 2, 1, 6, 1);
    append(2, 2, 2, 1, 2, 1);
    ck_assert_uint_eq(lq_log_last(&one->log).index, 7);
    append(2, 2, 3, 2, 0, 1);
    ck_assert_uint_eq(lq_log_last(&one->log).index, 7);
}
END_TEST

START_TEST(entries_that_do_not_fit_on_are_rejected)
{
    const struct lq_engines_sent *sent;
    append(2, 2, 2, 1, 2, 1);
    append(2, 2, 6, 2, 1, 5); /* 4 and 5 are missing */
    sent = lq_engines_last(&engines, 1, 2, LQ_MESSAGE_APPEND_RESULT);
    ck_assert_uint_eq(sent->message.rejected, 5);
    ck_assert_uint_eq(sent->message.last_index, 3);
    append(3, 4, 4, 3, 1, 3); /* 3 has term 2 here */
    sent = lq_engines_last(&engines, 1, 3, LQ_MESSAGE_APPEND_RESULT);
    ck_assert_uint_eq(sent->message.rejected, 3);
    ck_assert_uint_eq(sent->message.last_index, 2);
    ck_assert_uint_eq(lq_log_last(&one->log).index, 3);
    ck_assert_uint_eq(lq_engine_commit(one->engine), 1);
    ck_assert_ptr_null(lq_engine_fault(one->engine));
}
END_TEST

/* Entries of an earlier term are not committed by counting copies (Raft, figure 8). */
START_TEST(entries_of_older_terms_are_not_committed_by_counting)
{
    struct lq_message result = {
        .kind = LQ_MESSAGE_APPEND_RESULT, .term = 3, .rejected = 0, .last_index = 3};
    append(2, 2, 2, 1, 2, 1);
    lq_engines_settle(&engines);
    ck_assert(lq_engine_skip_timeout(one->engine));
    lq_engines_feed(
        &engines, 1, 3,
        &(struct lq_message){
            .kind = LQ_MESSAGE_VOTE_RESULT, .term = 3, .is_pre_vote = true, .is_granted = true},
        NULL);
    lq_engines_feed(
        &engines, 1, 3,
        &(struct lq_message){.kind = LQ_MESSAGE_VOTE_RESULT, .term = 3, .is_granted = true}, NULL);
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_LEADER);
    lq_engines_settle(&engines);
    ck_assert_uint_eq(lq_log_last(&one->log).index, 4); /* raft's barrier */
    lq_engines_feed(&engines, 1, 3, &result, NULL);
    ck_assert_uint_eq(lq_engine_commit(one->engine), 1);
    result.last_index = 4;
    lq_engines_feed(&engines, 1, 3, &result, NULL);
    ck_assert_uint_eq(lq_engine_commit(one->engine), 4);
}
END_TEST

START_TEST(what_is_started_from_the_log_is_durable)
{
    append(2, 2, 2, 1, 5, 4);
    lq_engines_settle(&engines);
    lq_engines_stop(&engines, 1);
    lq_engines_start(&engines, 1);
    ck_assert_uint_eq(lq_engine_term(one->engine), 2);
    ck_assert_uint_eq(lq_engine_last_stored(one->engine), 6);
    ck_assert_uint_eq(lq_engine_commit(one->engine), 1);
    ck_assert_uint_eq(lq_engine_members(one->engine)->n, 3);
    append(2, 2, 7, 2, 0, 4);
    ck_assert_uint_eq(acknowledged_to(2), 6);
    ck_assert_uint_eq(lq_engine_commit(one->engine), 4);
}
END_TEST

/* Whatever order writes, terms and truncations come in: what is acknowledged is durable and what is
 * committed stays. */
START_TEST(writes_and_truncations_at_random)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    uint64_t term = 2, terms[64] = {0, 1}, last = 1, safe = 1, committed = 1;
    one->holds_writes = true;
    for (int i = 0; i < 300; i++) {
        uint64_t at = safe + 1 + lq_rand_below(&rand, last - safe + 1);
        uint32_t count = (uint32_t)lq_rand_below(&rand, 4);
        if (lq_rand_below(&rand, 4) == 0) { /* another leader: agrees up to at - 1 */
            term++;
        } else {
            at = last + 1;
        }
        count = at + count >= 60 ? 0 : count;
        append(2 + (uint32_t)(term % 2), term, at, terms[at - 1], count,
               lq_rand_below(&rand, 3) == 0 ? committed + 1 : 0);
        for (uint32_t k = 0; k < count; k++) {
            terms[at + k] = term;
        }
        last = count > 0 ? at + count - 1 : last;
        ck_assert_uint_eq(lq_log_last(&one->log).index, last);
        for (uint64_t k = 1; k <= last; k++) {
            ck_assert_uint_eq(lq_log_term_of(&one->log, k), terms[k]);
        }
        ck_assert_uint_le(lq_engine_last_stored(one->engine), last);
        ck_assert_uint_ge(lq_engine_commit(one->engine), committed);
        committed = lq_engine_commit(one->engine);
        safe = committed;
        if (lq_rand_below(&rand, 2) == 0) {
            lq_engine_stored(one->engine, 1 + lq_rand_below(&rand, last));
        }
    }
    ck_assert_ptr_null(lq_engine_fault(one->engine));
}
END_TEST

static Suite *engine_suite(void)
{
    Suite *suite = suite_create("engine_log");
    TCase *tcase = tcase_create("log");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, nothing_is_acknowledged_before_it_is_durable);
    tcase_add_test(tcase, a_stale_write_completion_says_nothing_after_a_truncation);
    tcase_add_test(tcase, the_commit_index_never_falls);
    tcase_add_test(tcase, an_old_message_truncates_nothing);
    tcase_add_test(tcase, entries_that_do_not_fit_on_are_rejected);
    tcase_add_test(tcase, entries_of_older_terms_are_not_committed_by_counting);
    tcase_add_test(tcase, what_is_started_from_the_log_is_durable);
    tcase_add_loop_test(tcase, writes_and_truncations_at_random, 0, 20);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(engine_suite());
}
