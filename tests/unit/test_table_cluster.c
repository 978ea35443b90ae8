/* What cluster mode asks of the table beyond applying commands: all that is due, the origins, the
 * fate of one acquire, closing an origin with many waiters, and another life after a forced
 * recovery. */
#include "lq_snapshot.h"
#include "lq_test.h"
#include "support/hot_assert.h"
#include "support/table_rig.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static uint64_t seed;
static struct lq_table_rig rig;

static void setup(void)
{
    lq_table_rig_init(&rig);
}

static void teardown(void)
{
    lq_table_rig_done(&rig);
}

#define DO(words, outcomes) ck_assert_str_eq(lq_table_rig_do(&rig, words), outcomes)

/* Applies without a look at the outcomes. */
static void do_quietly(const char *words)
{
    (void)lq_table_rig_do(&rig, words);
}

/* ---- All that is due. */

struct visits {
    size_t n;
    char text[1024];
};

static void note(void *context, const struct lq_command *expire)
{
    struct visits *visits = context;
    size_t len = strlen(visits->text);
    ck_assert_int_eq(expire->type, LQ_COMMAND_EXPIRE);
    (void)snprintf(visits->text + len, sizeof visits->text - len, "%s%" PRIu64 " %.*s",
                   len == 0 ? "" : "; ", expire->token, expire->key_len, (const char *)expire->key);
    visits->n++;
}

/* That exactly these are due at that time, of at most `max`; nothing changes. */
static void check_due(uint64_t time_ms, size_t max, const char *words)
{
    struct visits visits = {0};
    uint64_t digest = lq_table_digest(rig.table);
    size_t n = lq_table_due_all(rig.table, time_ms, max, note, &visits);
    ck_assert_str_eq(visits.text, words);
    ck_assert_uint_eq(n, visits.n);
    ck_assert_uint_eq(lq_table_digest(rig.table), digest);
    ck_assert_uint_eq(lq_table_digest_recomputed(rig.table), digest);
}

START_TEST(nothing_is_due)
{
    check_due(UINT64_MAX, SIZE_MAX, "");
    do_quietly("A 1 0 2 7 k");
    check_due(3000, SIZE_MAX, "");
    check_due(3001, SIZE_MAX, "1 k");
    check_due(3001, 0, "");
    check_due(UINT64_MAX, SIZE_MAX, "1 k");
}
END_TEST

/* Each length in turn gives one, and those of one length come in the order of their ends. */
START_TEST(every_length_has_its_share)
{
    do_quietly("A 1 0 2 7 a; A 1 0 255 7 b; A 1 0 1 7 c; A 1 0 2 7 d; A 1 9 2 8 a");
    (void)lq_table_rig_after(&rig, 1, "A 1 0 1 7 e; A 2 0 1 7 f; K 1 1 1 a");
    check_due(2001, SIZE_MAX, "3 c");
    check_due(2002, SIZE_MAX, "3 c; 5 e; 6 f; 1 a");
    check_due(3001, SIZE_MAX, "3 c; 4 d; 5 e; 6 f; 1 a");
    check_due(300000, SIZE_MAX, "3 c; 4 d; 2 b; 5 e; 6 f; 1 a");
    check_due(300000, 6, "3 c; 4 d; 2 b; 5 e; 6 f; 1 a");
    check_due(300000, 4, "3 c; 4 d; 2 b; 5 e");
    check_due(300000, 2, "3 c; 4 d");
}
END_TEST

struct expiries {
    struct lq_table *table;
    uint64_t time_ms;
    size_t n;
};

static void check_expiry(void *context, const struct lq_command *expire)
{
    struct expiries *expiries = context;
    struct lq_command same;
    LQ_HOT_ASSERT(
        lq_table_key_due(expiries->table, expire->key, expire->key_len, expiries->time_ms, &same));
    LQ_HOT_ASSERT(same.token == expire->token);
    expiries->n++;
}

/* As many as there are to expire one by one. */
START_TEST(drawn_leases)
{
    struct lq_rand rand = lq_rand_of(seed, 1);
    struct expiries all;
    struct lq_command expire;
    size_t n = 0;
    for (int i = 0; i < 2000; i++) {
        char words[64];
        (void)snprintf(words, sizeof words, "A 1 0 %d 7 %d", 1 + (int)lq_rand_below(&rand, 255), i);
        (void)lq_table_rig_after(&rig, lq_rand_below(&rand, 100), words);
    }
    rig.stamp.time_ms += 50000;
    all = (struct expiries){.table = rig.table, .time_ms = rig.stamp.time_ms};
    ck_assert_uint_eq(lq_table_due_all(rig.table, all.time_ms, SIZE_MAX, check_expiry, &all),
                      all.n);
    while (lq_table_due(rig.table, LQ_WHICH_ALL, rig.stamp.time_ms, &expire)) {
        lq_table_apply(rig.table, &expire, &rig.stamp, &rig.outcomes);
        n++;
    }
    ck_assert_uint_gt(n, 100);
    ck_assert_uint_eq(all.n, n);
    check_due(rig.stamp.time_ms, SIZE_MAX, "");
}
END_TEST

/* ---- Origins. */

static void check_origin(uint32_t node, uint64_t incarnation, bool is_open, uint64_t last_seq,
                         uint64_t n_waiters)
{
    struct lq_origin_state state = {0};
    ck_assert(lq_table_origin(rig.table, node, &state));
    ck_assert_uint_eq(state.id.node, node);
    ck_assert_uint_eq(state.id.incarnation, incarnation);
    ck_assert_int_eq(state.is_open, is_open);
    ck_assert_uint_eq(state.last_seq, last_seq);
    ck_assert_uint_eq(state.n_waiters, n_waiters);
}

START_TEST(origins_are_told)
{
    struct lq_origin_state states[5] = {{.last_seq = 99}};
    ck_assert(!lq_table_origin(rig.table, 3, states));
    ck_assert_uint_eq(states[0].last_seq, 99);
    check_origin(1, 1, true, 0, 0);
    do_quietly("O 7.4; O 0; A 1 0 5 1 k; A 1 9 5 2 k; A 1 9 5 3 k; A 2 9 5 4 k; R 2 9 k");
    check_origin(1, 1, true, 3, 2);
    check_origin(2, 1, true, 2, 1);
    do_quietly("R 1 1 k; C 1 3; Q 2; Q 7.4; O 1.5");
    check_origin(1, 5, true, 0, 0);
    check_origin(2, 1, false, 2, 0);
    check_origin(7, 4, false, 0, 0);
    ck_assert_uint_eq(lq_table_origins(rig.table, states, 5), 4);
    ck_assert_uint_eq(states[0].id.node, 0);
    ck_assert_uint_eq(states[1].id.node, 1);
    ck_assert_uint_eq(states[1].id.incarnation, 5);
    ck_assert_uint_eq(states[2].id.node, 2);
    ck_assert_uint_eq(states[2].last_seq, 2);
    ck_assert_uint_eq(states[3].id.node, 7);
    ck_assert(!states[3].is_open);
    states[2].id.node = 99;
    ck_assert_uint_eq(lq_table_origins(rig.table, states, 2), 2);
    ck_assert_uint_eq(states[2].id.node, 99);
    ck_assert_uint_eq(lq_table_origins(rig.table, states, 0), 0);
}
END_TEST

/* ---- The fate of one acquire. */

static enum lq_fate fate_of(uint32_t node, uint64_t incarnation, uint64_t seq, const char *key,
                            struct lq_outcome *ret)
{
    return lq_table_fate(rig.table, (struct lq_origin_id){.node = node, .incarnation = incarnation},
                         seq, (const uint8_t *)key, strlen(key), ret);
}

static void check_fate(uint32_t node, uint64_t seq, const char *key, enum lq_fate fate)
{
    struct lq_outcome untouched = {.kind = 99};
    ck_assert_int_eq(fate_of(node, 1, seq, key, &untouched), fate);
    ck_assert_int_eq(untouched.kind, 99);
}

static void check_holds(uint32_t node, uint64_t seq, const char *key, uint64_t token,
                        uint8_t lease_s, uint64_t stamp_ms)
{
    struct lq_outcome outcome;
    ck_assert_int_eq(fate_of(node, 1, seq, key, &outcome), LQ_FATE_HOLDING);
    ck_assert_int_eq(outcome.kind, LQ_OUTCOME_GRANTED);
    ck_assert_uint_eq(outcome.origin.node, node);
    ck_assert_uint_eq(outcome.origin.incarnation, 1);
    ck_assert_uint_eq(outcome.seq, seq);
    ck_assert_uint_eq(outcome.token, token);
    ck_assert_uint_eq(outcome.lease_s, lease_s);
    ck_assert_uint_eq(outcome.stamp_ms, stamp_ms);
}

START_TEST(fates)
{
    struct lq_outcome outcome;
    do_quietly("A 1 0 5 1 k; A 1 9 6 2 k; A 2 9 7 3 k; A 1 0 5 4 k; A 1 0 5 5 j");
    check_holds(1, 1, "k", 1, 5, 1000);
    check_holds(1, 4, "j", 2, 5, 1000);
    check_fate(1, 2, "k", LQ_FATE_WAITING);
    check_fate(2, 1, "k", LQ_FATE_WAITING);
    check_fate(1, 3, "k", LQ_FATE_GONE); /* timeout */
    check_fate(1, 5, "k", LQ_FATE_GONE); /* not applied yet */
    check_fate(1, 1, "j", LQ_FATE_GONE); /* another key */
    check_fate(2, 9, "i", LQ_FATE_GONE);
    check_fate(3, 1, "k", LQ_FATE_GONE); /* an origin that never was */
    ck_assert_int_eq(fate_of(1, 2, 1, "k", &outcome), LQ_FATE_GONE);
    ck_assert_int_eq(fate_of(1, 2, 2, "k", &outcome), LQ_FATE_GONE);
    (void)lq_table_rig_after(&rig, 700, "R 1 1 k");
    check_fate(1, 1, "k", LQ_FATE_GONE);
    check_holds(1, 2, "k", 3, 6, 1700);
    (void)lq_table_rig_after(&rig, 50, "K 2 9 3 k; C 2 1"); /* renewed by another */
    check_holds(1, 2, "k", 3, 9, 1750);
    check_fate(2, 1, "k", LQ_FATE_GONE); /* cancelled */
}
END_TEST

/* A lease that has ended is held until its Expire, and a grant outlives its origin. */
START_TEST(fates_near_the_end)
{
    struct lq_outcome outcome;
    do_quietly("A 1 0 5 1 k; A 1 9 6 2 k");
    (void)lq_table_rig_after(&rig, 9000, "O 3");
    check_holds(1, 1, "k", 1, 5, 1000);
    do_quietly("O 1.2");
    check_holds(1, 1, "k", 1, 5, 1000);
    check_fate(1, 2, "k", LQ_FATE_GONE);
    do_quietly("A 1.2/1 9 5 7 k");
    ck_assert_int_eq(fate_of(1, 2, 1, "k", &outcome), LQ_FATE_WAITING);
    check_fate(1, 1, "j", LQ_FATE_GONE);
    DO("X 1 k", "expired; 1.2/1 granted 2");
    check_fate(1, 1, "k", LQ_FATE_GONE);
    ck_assert_int_eq(fate_of(1, 2, 1, "k", &outcome), LQ_FATE_HOLDING);
    ck_assert_uint_eq(outcome.stamp_ms, 10000);
}
END_TEST

/* Puts the table that a snapshot makes in the place of the rig's. */
static void restore(const struct lq_buffer *bytes)
{
    static const uint8_t secret[16] = {9};
    lq_table_free(rig.table);
    rig.table = lq_snapshot_restore(bytes->bytes, bytes->len, secret);
    ck_assert_ptr_nonnull(rig.table);
    ck_assert_uint_eq(lq_table_digest_recomputed(rig.table), lq_table_digest(rig.table));
}

static void pass_through_snapshot(void)
{
    struct lq_buffer bytes = {0};
    struct lq_snapshot *snapshot = lq_snapshot_begin(rig.table, &bytes);
    while (!lq_snapshot_step(snapshot, 100, &bytes)) {
    }
    lq_snapshot_end(snapshot);
    restore(&bytes);
    lq_buffer_done(&bytes);
}

START_TEST(a_snapshot_keeps_fates_and_origins)
{
    do_quietly("A 1 0 255 1 k; A 1 9 6 2 k; A 2 9 7 3 k; A 2 0 1 4 j; K 2 9 1 k; Q 2");
    pass_through_snapshot();
    check_holds(1, 1, "k", 1, 9, 1000);
    check_holds(2, 2, "j", 2, 1, 1000);
    check_fate(1, 2, "k", LQ_FATE_WAITING);
    check_fate(2, 1, "k", LQ_FATE_GONE);
    check_origin(1, 1, true, 2, 1);
    check_origin(2, 1, false, 3, 0);
    check_due(2001, SIZE_MAX, "2 j");
}
END_TEST

/* ---- Closing with many waiters. The rig compares the digests after each command. */

/* Who waits for k, in their order, as the rest of the grants that follow one another. */
static void check_queue(const char *words)
{
    char all[1024] = "", force[32];
    for (int seq = 1; lq_table_counts(rig.table).waiters > 0; seq++) {
        const char *got, *granted;
        (void)snprintf(force, sizeof force, "F 3/%d k", seq);
        got = lq_table_rig_do(&rig, force);
        granted = strstr(got, "; ");
        ck_assert_ptr_nonnull(granted);
        (void)snprintf(all + strlen(all), sizeof all - strlen(all), "%.*s",
                       (int)(strcspn(granted + 2, " ") + 1), granted + 2);
    }
    ck_assert_str_eq(all, words);
}

struct closing {
    const char *queue; /* the nodes that wait, in their order */
    const char *left;  /* who is there after node 1 was closed */
};

static const struct closing closings[] = {
    {"1", ""},
    {"1111", ""},
    {"2", "2/1 "},
    {"112", "2/1 "},
    {"211", "2/1 "},
    {"12111212111", "2/1 2/2 2/3 "},
    {"2112", "2/1 2/2 "},
    {"1212", "2/1 2/2 "},
    {"1122112211", "2/1 2/2 2/3 2/4 "},
};

START_TEST(closing_takes_out_runs)
{
    const struct closing *closing = &closings[_i];
    size_t n_gone = strlen(closing->queue) - strlen(closing->left) / strlen("2/1 ");
    char words[32];
    do_quietly("O 3; O 4; A 4 0 5 9 k; A 4 0 5 9 j");
    for (const char *at = closing->queue; *at != '\0'; at++) {
        (void)snprintf(words, sizeof words, "A %c 9 5 7 k", *at);
        do_quietly(words);
    }
    if (_i % 2 == 1) {
        do_quietly("A 1 9 5 7 j"); /* and another queue */
        n_gone++;
    }
    DO("Q 1", "1/0 closed");
    check_origin(1, 1, false, n_gone, 0);
    check_queue(closing->left);
    do_quietly("F 4 k; F 4 j");
    ck_assert_uint_eq(lq_table_counts(rig.table).state_bytes, 0);
}
END_TEST

/* What a snapshot saw of the queues before stays in it. */
START_TEST(closing_during_a_snapshot)
{
    struct lq_buffer bytes = {0};
    struct lq_snapshot *snapshot;
    uint64_t digest;
    do_quietly("A 2 0 5 9 a; A 2 0 5 9 b; A 1 9 5 1 a; A 1 9 5 2 b; A 2 9 5 3 b; A 1 9 5 4 b");
    digest = lq_table_digest(rig.table);
    snapshot = lq_snapshot_begin(rig.table, &bytes);
    DO("Q 1", "1/0 closed");
    while (!lq_snapshot_step(snapshot, 1, &bytes)) {
    }
    lq_snapshot_end(snapshot);
    restore(&bytes);
    lq_buffer_done(&bytes);
    ck_assert_uint_eq(lq_table_digest(rig.table), digest);
    check_origin(1, 1, true, 3, 3);
}
END_TEST

/* ---- Another life. */

START_TEST(reborn)
{
    do_quietly("O 3; Q 3; A 1 0 5 1 k; A 1 9 5 2 k; A 2 9 5 3 k; A 2 0 9 4 j; A 1 9 5 5 j");
    lq_table_reborn(rig.table, UINT64_C(1) << 40);
    ck_assert_uint_eq(lq_table_digest(rig.table), lq_table_digest_recomputed(rig.table));
    ck_assert_uint_eq(lq_table_counts(rig.table).waiters, 0);
    ck_assert_uint_eq(lq_table_counts(rig.table).keys, 2);
    ck_assert_uint_eq(lq_table_counts(rig.table).last_token, (UINT64_C(1) << 40) + 2);
    check_origin(1, 1, false, 3, 0);
    check_origin(2, 1, false, 2, 0);
    check_origin(3, 1, false, 0, 0);
    check_holds(1, 1, "k", 1, 5, 1000);
    DO("A 1/4 0 5 7 i; O 1; O 2.2; R 2.2/1 2 j",
       "1/4 skipped; 1/0 refused; 2.2/0 opened; 2.2/1 released");
    check_due(6001, SIZE_MAX, "1 k");
    ck_assert_str_eq(lq_table_rig_after(&rig, 5001, "X 1 k; A 2.2/2 0 5 7 k"),
                     "expired; 2.2/2 granted 1099511627779");
    pass_through_snapshot();
}
END_TEST

START_TEST(reborn_empty)
{
    struct lq_table *table = lq_table_new((const uint8_t[16]){1}, 1);
    lq_table_reborn(table, 0);
    ck_assert_uint_eq(lq_table_counts(table).last_token, 0);
    lq_table_reborn(table, UINT64_MAX);
    ck_assert_uint_eq(lq_table_counts(table).last_token, UINT64_MAX);
    ck_assert_uint_eq(lq_table_digest(table), lq_table_digest_recomputed(table));
    lq_table_free(table);
}
END_TEST

START_TEST(tokens_never_begin_again)
{
    do_quietly("A 1 0 5 1 k");
    lq_table_reborn(rig.table, UINT64_MAX);
}
END_TEST

static Suite *table_cluster_suite(void)
{
    Suite *suite = suite_create("table_cluster");
    TCase *tcase = tcase_create("cluster");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, nothing_is_due);
    tcase_add_test(tcase, every_length_has_its_share);
    tcase_add_test(tcase, drawn_leases);
    tcase_add_test(tcase, origins_are_told);
    tcase_add_test(tcase, fates);
    tcase_add_test(tcase, fates_near_the_end);
    tcase_add_test(tcase, a_snapshot_keeps_fates_and_origins);
    tcase_add_loop_test(tcase, closing_takes_out_runs, 0,
                        (int)(sizeof closings / sizeof *closings));
    tcase_add_test(tcase, closing_during_a_snapshot);
    tcase_add_test(tcase, reborn);
    tcase_add_test(tcase, reborn_empty);
    tcase_add_test_raise_signal(tcase, tokens_never_begin_again, SIGABRT);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    seed = lq_test_seed();
    return lq_test_run(table_cluster_suite());
}
