/* What the engine sends: filled from the log, cut by bytes, neither late nor in floods. */
#include "lq_test.h"
#include "support/replica_engines.h"

#include <string.h>

static struct lq_engines engines;
static struct lq_engines_node *const one = &engines.nodes[1];

static void set_up(void)
{
    lq_engines_init(&engines, 3, 3);
    lq_engines_start_all(&engines, 3);
    lq_engines_elect_node(&engines, 1);
    ck_assert(lq_engines_submit(&engines, 1, "of this term"));
    lq_engines_advance(&engines, 200);
}

static void tear_down(void)
{
    lq_engines_done(&engines);
}

/* ---- Filling. */

struct piece {
    uint64_t prev_index, prev_term;
    uint32_t count;
    size_t bytes;
};

/* The APPENDs with entries to node 3 among the messages from `since` on. */
static size_t pieces_since(uint64_t since, struct piece *ret, size_t max)
{
    size_t n = 0;
    for (uint64_t i = since; i < engines.n_sent && n < max; i++) {
        const struct lq_engines_sent *sent = &engines.sent[i % LQ_ENGINES_SENT];
        if (sent->from == 1 && sent->to == 3 && sent->message.kind == LQ_MESSAGE_APPEND &&
            sent->message.count > 0) {
            ret[n++] = (struct piece){sent->message.prev_index, sent->message.prev_term,
                                      sent->message.count, sent->bytes};
        }
    }
    return n;
}

START_TEST(entries_are_filled_from_the_log_and_cut_by_bytes)
{
    struct piece pieces[64];
    uint64_t first = lq_log_last(&one->log).index, since;
    static char text[5001];
    size_t n;
    engines.is_cut[1][3] = true;
    for (int i = 0; i < 40; i++) {
        memset(text, 'a' + i % 26, 5000);
        text[i == 20 ? 5000 : 700] = '\0'; /* one is larger than any message */
        ck_assert(lq_engines_submit(&engines, 1, text));
        lq_engines_settle(&engines);
        text[700] = 'x';
    }
    lq_engines_advance(&engines, 100); /* falls back to probing */
    engines.is_cut[1][3] = false;
    since = engines.n_sent;
    lq_engines_advance(&engines, 100);
    n = pieces_since(since, pieces, 64);
    ck_assert_uint_gt(n, 8);
    ck_assert_uint_eq(pieces[0].prev_index, first);
    for (size_t i = 0; i < n; i++) {
        ck_assert(pieces[i].bytes <= 4096 + 200 || pieces[i].count == 1);
        ck_assert_uint_eq(pieces[i].prev_term, lq_log_term_of(&one->log, pieces[i].prev_index));
        if (i > 0) {
            ck_assert_uint_eq(pieces[i].prev_index, pieces[i - 1].prev_index + pieces[i - 1].count);
        }
    }
    ck_assert_uint_eq(lq_log_last(&engines.nodes[3].log).index, lq_log_last(&one->log).index);
    for (uint64_t index = first + 1; index <= lq_log_last(&one->log).index; index++) {
        const struct lq_log_entry *mine = lq_log_at(&one->log, index);
        const struct lq_log_entry *theirs = lq_log_at(&engines.nodes[3].log, index);
        ck_assert_uint_eq(mine->check, theirs->check);
        ck_assert_uint_eq(mine->len, theirs->len);
        ck_assert_mem_eq(mine->bytes, theirs->bytes, mine->len);
    }
}
END_TEST

/* ---- Pacing. */

/* For one second, submissions at random times; each must be committed after one round trip and be
 * known everywhere soon, never only after a heartbeat. */
START_TEST(healthy_peers_stay_pipelining)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    uint64_t pending[64], times[64], before = engines.n_sent, submissions = 0, n = 0;
    engines.latency_ms = 1 + (uint64_t)_i % 3;
    for (int ms = 0; ms < 1000; ms++) {
        if (lq_rand_below(&rand, 1 + (uint64_t)_i) == 0) {
            ck_assert(lq_engines_submit(&engines, 1, "now"));
            ck_assert_uint_lt(n, 64);
            pending[n] = lq_log_last(&one->log).index;
            times[n++] = engines.now_ms;
            submissions++;
        }
        lq_engines_advance(&engines, 1);
        while (n > 0 && lq_engine_commit(one->engine) >= pending[0]) {
            ck_assert_uint_le(engines.now_ms - times[0], 2 * engines.latency_ms + 1);
            memmove(pending, pending + 1, --n * sizeof pending[0]);
            memmove(times, times + 1, n * sizeof times[0]);
        }
        ck_assert(n == 0 || engines.now_ms - times[0] <= 2 * engines.latency_ms + 1);
    }
    /* The entry, the news that it is committed, and their answers, for each of two peers; and 25
     * heartbeats. */
    ck_assert_uint_le(engines.n_sent - before, 8 * submissions + 4 * 30);
}
END_TEST

START_TEST(an_idle_leader_sends_a_heartbeat_each_time)
{
    uint64_t before = engines.n_sent;
    lq_engines_advance(&engines, 1000);
    ck_assert_uint_ge(engines.n_sent - before, 4 * 24);
    ck_assert_uint_le(engines.n_sent - before, 4 * 26);
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_LEADER);
    ck_assert_uint_le(lq_engine_deadline(one->engine), engines.now_ms + LQ_ENGINES_HEARTBEAT_MS);
}
END_TEST

static size_t bytes_to(uint32_t node, uint64_t since)
{
    size_t bytes = 0;
    for (uint64_t i = since; i < engines.n_sent; i++) {
        const struct lq_engines_sent *sent = &engines.sent[i % LQ_ENGINES_SENT];
        bytes += sent->to == node ? sent->bytes : 0;
    }
    return bytes;
}

/* Node 3 is frozen: its link stands, it answers nothing. It is probed at the pace of heartbeats,
 * however much is submitted. */
START_TEST(a_frozen_peer_is_not_flooded)
{
    size_t bytes = 0, submitted = 0, since_frozen = 0;
    lq_engines_stop(&engines, 3);
    for (int ms = 0; ms < 1000; ms++) {
        for (int i = 0; i < 3; i++) {
            uint64_t since = engines.n_sent;
            ck_assert(lq_engines_submit(&engines, 1,
                                        "some hundred bytes of commands in one entry: "
                                        "as many as a small batch has, no more"));
            submitted += 83 + 21;
            lq_engines_settle(&engines);
            bytes += bytes_to(3, since);
        }
        {
            uint64_t since = engines.n_sent;
            lq_engines_advance(&engines, 1);
            bytes += bytes_to(3, since);
        }
        since_frozen = bytes;
    }
    /* The pipeline's first flight of 512 entries, then 25 windows of as many at most. */
    ck_assert_uint_le(since_frozen, 512 * 200 + 26 * (512 * (size_t)(83 + 40) + 200));
    ck_assert_uint_gt(submitted, 300000);
    ck_assert_uint_eq(lq_engine_commit(one->engine), lq_log_last(&one->log).index);
}
END_TEST

START_TEST(a_full_queue_gets_heartbeats_only)
{
    uint64_t since;
    lq_engine_peer_full(one->engine, 3, true);
    since = engines.n_sent;
    for (int i = 0; i < 50; i++) {
        ck_assert(lq_engines_submit(&engines, 1, "more"));
        lq_engines_advance(&engines, 3);
    }
    for (uint64_t i = since; i < engines.n_sent; i++) {
        const struct lq_engines_sent *sent = &engines.sent[i % LQ_ENGINES_SENT];
        ck_assert(i + LQ_ENGINES_SENT < engines.n_sent || sent->to != 3 ||
                  sent->message.count == 0);
    }
    ck_assert_uint_lt(lq_log_last(&engines.nodes[3].log).index, lq_log_last(&one->log).index);
    lq_engine_peer_full(one->engine, 3, false);
    lq_engines_advance(&engines, 3 * LQ_ENGINES_HEARTBEAT_MS);
    ck_assert_uint_eq(lq_log_last(&engines.nodes[3].log).index, lq_log_last(&one->log).index);
}
END_TEST

/* What was lost on the way is sent again within two heartbeats or so. */
START_TEST(lost_entries_come_again)
{
    engines.is_cut[1][3] = true;
    ck_assert(lq_engines_submit(&engines, 1, "lost"));
    lq_engines_settle(&engines);
    engines.is_cut[1][3] = false;
    lq_engines_advance(&engines, 2 * LQ_ENGINES_HEARTBEAT_MS + 2);
    ck_assert_uint_eq(lq_log_last(&engines.nodes[3].log).index, lq_log_last(&one->log).index);
}
END_TEST

START_TEST(many_entries_behind_are_caught_up_quickly)
{
    uint64_t since;
    lq_engines_stop(&engines, 3);
    for (int i = 0; i < 3000; i++) {
        ck_assert(lq_engines_submit(&engines, 1, "while it was away"));
        lq_engines_settle(&engines);
    }
    lq_engines_start(&engines, 3);
    since = engines.now_ms;
    while (lq_log_last(&engines.nodes[3].log).index < lq_log_last(&one->log).index) {
        lq_engines_advance(&engines, 1);
        ck_assert_uint_lt(engines.now_ms, since + 300);
    }
}
END_TEST

/* ---- Transfer. */

START_TEST(a_transfer_waits_for_the_whole_log)
{
    engines.is_cut[1][2] = true;
    ck_assert(lq_engines_submit(&engines, 1, "not there yet"));
    lq_engines_settle(&engines);
    ck_assert_uint_lt(lq_engine_match(one->engine, 2), lq_log_last(&one->log).index);
    ck_assert(!lq_engine_transfer(one->engine, 2));
    ck_assert(!lq_engine_is_transferring(one->engine));
    ck_assert(lq_engines_submit(&engines, 1, "goes on"));
    engines.is_cut[1][2] = false;
    lq_engines_advance(&engines, 3 * LQ_ENGINES_HEARTBEAT_MS);
    ck_assert_uint_eq(lq_engine_match(one->engine, 2), lq_log_last(&one->log).index);
    ck_assert(lq_engine_transfer(one->engine, 2));
    lq_engines_advance(&engines, 20);
    ck_assert_int_eq(lq_engine_role(engines.nodes[2].engine), LQ_ENGINE_LEADER);
    ck_assert_uint_eq(lq_engines_elect(&engines), 2);
    ck_assert(lq_engines_submit(&engines, 2, "and on"));
}
END_TEST

START_TEST(a_transfer_that_fails_is_over_after_a_while_and_can_be_tried_again)
{
    uint64_t term = lq_engine_term(one->engine);
    engines.is_cut[1][2] = true; /* what tells it to begin is lost */
    ck_assert(lq_engine_transfer(one->engine, 2));
    ck_assert(lq_engine_is_transferring(one->engine));
    ck_assert(!lq_engines_submit(&engines, 1, "not now"));
    ck_assert(!lq_engine_transfer(one->engine, 3));
    engines.is_cut[1][2] = false;
    lq_engines_advance(&engines, LQ_ENGINES_ELECTION_MS + 2 * LQ_ENGINES_HEARTBEAT_MS);
    ck_assert(!lq_engine_is_transferring(one->engine));
    ck_assert_uint_eq(lq_engine_term(one->engine), term);
    ck_assert(lq_engines_submit(&engines, 1, "again"));
    lq_engines_advance(&engines, 10);
    ck_assert_uint_eq(lq_engine_commit(one->engine), lq_log_last(&one->log).index);
    ck_assert(lq_engine_transfer(one->engine, 2));
    lq_engines_advance(&engines, 20);
    ck_assert_int_eq(lq_engine_role(engines.nodes[2].engine), LQ_ENGINE_LEADER);
}
END_TEST

START_TEST(a_transfer_to_nobody_is_refused)
{
    ck_assert(!lq_engine_transfer(one->engine, 1));
    ck_assert(!lq_engine_transfer(one->engine, 9));
    ck_assert(!lq_engine_transfer(engines.nodes[2].engine, 3));
    ck_assert_ptr_null(lq_engine_fault(one->engine));
}
END_TEST

static Suite *engine_suite(void)
{
    Suite *suite = suite_create("engine_send");
    TCase *tcase = tcase_create("send");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, entries_are_filled_from_the_log_and_cut_by_bytes);
    tcase_add_loop_test(tcase, healthy_peers_stay_pipelining, 0, 12);
    tcase_add_test(tcase, an_idle_leader_sends_a_heartbeat_each_time);
    tcase_add_test(tcase, a_frozen_peer_is_not_flooded);
    tcase_add_test(tcase, a_full_queue_gets_heartbeats_only);
    tcase_add_test(tcase, lost_entries_come_again);
    tcase_add_test(tcase, many_entries_behind_are_caught_up_quickly);
    tcase_add_test(tcase, a_transfer_waits_for_the_whole_log);
    tcase_add_test(tcase, a_transfer_that_fails_is_over_after_a_while_and_can_be_tried_again);
    tcase_add_test(tcase, a_transfer_to_nobody_is_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(engine_suite());
}
