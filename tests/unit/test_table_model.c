/* The lock table against its naive model (table_model.h): a long random history of all commands
 * over few keys and few origins, with times around deadlines and caps that are hit. After each
 * command every outcome, count and deadline must be equal; two tables with different secrets are
 * fed alike and must have equal digests. At the end every kind of outcome, and every cap, must have
 * been met: else the test proves nothing.
 *
 * LQ_OPS: how many commands. LQ_SEED: the seed. */
#include "lq_test.h"
#include "support/hot_assert.h"
#include "support/table_model.h"

#include <stdio.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OPS_DEFAULT 100000
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OPS_DEFAULT 100000
#endif
#endif
#ifndef OPS_DEFAULT
#define OPS_DEFAULT 1000000
#endif

/* Commands between two changes of character: how many keys and origins, which caps. */
#define EPISODE 500

/* Commands between two recomputations of the digest. */
#define RECOMPUTE 64

static const char *const cap_names[] = {"keys", "bytes of a key", "waiters of a key", "waiters",
                                        "bytes of a waiter"};
#define N_CAPS (sizeof cap_names / sizeof *cap_names)

struct run {
    struct lq_rand rand;
    struct lq_model model;
    struct lq_table *tables[2];
    struct lq_outcomes outcomes[2];
    struct lq_stamp stamp;
    size_t n_keys;
    uint32_t n_nodes;
    uint64_t seen[LQ_OUTCOME_STALE + 1];
    uint64_t caps_hit[N_CAPS];
};

static bool chance(struct run *run, uint64_t percent)
{
    return lq_rand_below(&run->rand, 100) < percent;
}

static uint64_t below(struct run *run, uint64_t n)
{
    return lq_rand_below(&run->rand, n);
}

/* ---- Drawing. */

static void draw_caps(struct run *run)
{
    struct lq_caps *caps = &run->stamp.caps;
    *caps = (struct lq_caps){.keys = UINT64_MAX,
                             .waiters_per_key = LQ_MODEL_WAITERS - 4,
                             .waiters = UINT64_MAX,
                             .state_bytes = UINT64_MAX};
    switch (below(run, 6)) {
    case 0:
        caps->keys = below(run, run->n_keys + 1);
        break;
    case 1:
        caps->waiters_per_key = below(run, 5);
        break;
    case 2:
        caps->waiters = below(run, 12);
        break;
    case 3:
        caps->state_bytes = below(run, 10 * LQ_LOCK_BYTES);
        break;
    default:
        break;
    }
}

static void draw_time(struct run *run)
{
    uint64_t *now_ms = &run->stamp.time_ms;
    uint64_t next_ms = lq_model_next_deadline(&run->model, chance(run, 50));
    uint64_t draw = below(run, 100);
    if (draw < 20) {
        *now_ms += below(run, 50);
    } else if (draw < 30 && next_ms != UINT64_MAX && next_ms + 1 > *now_ms) {
        next_ms += below(run, 3); /* one before, at, or one after */
        *now_ms = next_ms - 1 > *now_ms ? next_ms - 1 : *now_ms;
    } else if (draw < 31) {
        *now_ms += below(run, 4000);
    }
}

/* Most of the time one that may take effect. */
static void draw_origin(struct run *run, struct lq_command *command)
{
    const struct lq_model_node *node;
    for (int tries = 0; tries < 4; tries++) {
        command->origin.node = (uint32_t)(1 + below(run, run->n_nodes));
        if (run->model.nodes[command->origin.node].is_open) {
            break;
        }
    }
    node = &run->model.nodes[command->origin.node];
    command->origin.incarnation = node->incarnation;
    command->seq = node->last_seq + 1;
    if (chance(run, 3)) {
        command->origin.incarnation += below(run, 3) - 1;
    }
    if (chance(run, 3)) {
        command->seq =
            chance(run, 20) ? lq_rand_next(&run->rand) : command->seq + below(run, 4) - 2;
    }
}

/* The token of the holder, or one near it. */
static uint64_t draw_token(struct run *run, const struct lq_model_lock *lock)
{
    return chance(run, 80) ? lock->token : run->model.last_token - below(run, 5);
}

/* The seq of some waiter of this origin, or any seq. */
static uint64_t draw_target(struct run *run, const struct lq_command *command)
{
    for (int tries = 0; tries < 8; tries++) {
        const struct lq_model_lock *lock = &run->model.locks[below(run, run->n_keys)];
        if (lock->is_registered && lock->n_waiters > 0) {
            const struct lq_model_grant *waiter = &lock->waiters[below(run, lock->n_waiters)];
            if (waiter->origin.node == command->origin.node || chance(run, 5)) {
                return waiter->seq;
            }
        }
    }
    return below(run, run->model.nodes[command->origin.node].last_seq + 3);
}

static enum lq_command_type draw_type(struct run *run)
{
    static const uint8_t shares[] = {
        [LQ_COMMAND_ACQUIRE] = 44,     [LQ_COMMAND_RELEASE] = 17,     [LQ_COMMAND_RENEW] = 9,
        [LQ_COMMAND_CANCEL] = 8,       [LQ_COMMAND_EXPIRE] = 12,      [LQ_COMMAND_ORIGIN_OPEN] = 6,
        [LQ_COMMAND_ORIGIN_CLOSE] = 1, [LQ_COMMAND_FORCE_RELEASE] = 3};
    uint64_t draw = below(run, 100);
    size_t type = LQ_COMMAND_ACQUIRE;
    while (draw >= shares[type]) {
        draw -= shares[type++];
    }
    return (enum lq_command_type)type;
}

/* Draws a command; its key is `ret_key`, an index. */
static struct lq_command draw_command(struct run *run, size_t *ret_key)
{
    struct lq_command command = {.type = (uint8_t)draw_type(run)};
    size_t key = below(run, run->n_keys);
    *ret_key = key;
    command.key = (const uint8_t *)lq_model_keys[key];
    command.key_len = (uint16_t)strlen(lq_model_keys[key]);
    if (command.type == LQ_COMMAND_EXPIRE) {
        command.token = draw_token(run, &run->model.locks[key]);
        return command;
    }
    draw_origin(run, &command);
    if (command.type == LQ_COMMAND_ORIGIN_OPEN || command.type == LQ_COMMAND_ORIGIN_CLOSE) {
        command.origin.incarnation += chance(run, 50) && command.type == LQ_COMMAND_ORIGIN_OPEN;
        command.seq = 0;
    } else if (command.type == LQ_COMMAND_CANCEL) {
        command.target = draw_target(run, &command);
    } else {
        command.token = draw_token(run, &run->model.locks[key]);
        command.lease_s = (uint8_t)(chance(run, 90) ? 1 + below(run, 3) : 1 + below(run, 255));
        command.wait_s = (uint8_t)(chance(run, 30) ? 0 : 1 + below(run, 255));
        command.owner = below(run, 10);
    }
    return command;
}

/* ---- Comparing. */

static void check_outcomes(const struct run *run, const struct lq_outcomes *outcomes)
{
    LQ_HOT_ASSERT(outcomes->count == run->model.n_outcomes);
    for (size_t i = 0; i < outcomes->count; i++) {
        const struct lq_outcome *is = &outcomes->items[i], *should = &run->model.outcomes[i];
        LQ_HOT_ASSERT(is->kind == should->kind);
        LQ_HOT_ASSERT(is->origin.node == should->origin.node);
        LQ_HOT_ASSERT(is->origin.incarnation == should->origin.incarnation);
        LQ_HOT_ASSERT(is->seq == should->seq);
        LQ_HOT_ASSERT(is->token == should->token);
        LQ_HOT_ASSERT(is->lease_s == should->lease_s);
        LQ_HOT_ASSERT(is->stamp_ms == should->stamp_ms);
    }
}

static void check_counts(const struct run *run, const struct lq_table *table)
{
    struct lq_table_counts is = lq_table_counts(table), should = lq_model_counts(&run->model);
    LQ_HOT_ASSERT(is.keys == should.keys);
    LQ_HOT_ASSERT(is.waiters == should.waiters);
    LQ_HOT_ASSERT(is.state_bytes == should.state_bytes);
    LQ_HOT_ASSERT(is.last_token == should.last_token);
    LQ_HOT_ASSERT(is.time_ms == run->stamp.time_ms);
}

/* The lock that is told to be due is one of those that are due first. */
static void check_due(const struct run *run, const struct lq_table *table, enum lq_which which)
{
    uint64_t next_ms = lq_model_next_deadline(&run->model, which == LQ_WHICH_CONTENDED);
    struct lq_command expire;
    LQ_HOT_ASSERT(lq_table_next_deadline(table, which) == next_ms);
    if (!lq_table_due(table, which, run->stamp.time_ms, &expire)) {
        LQ_HOT_ASSERT(next_ms > run->stamp.time_ms);
        return;
    }
    for (size_t key = 0; key < LQ_MODEL_KEYS; key++) {
        const struct lq_model_lock *lock = &run->model.locks[key];
        if (lock->is_registered && lock->token == expire.token) {
            LQ_HOT_ASSERT(lock->deadline_ms == next_ms && next_ms <= run->stamp.time_ms);
            LQ_HOT_ASSERT(lock->n_waiters > 0 || which == LQ_WHICH_ALL);
            LQ_HOT_ASSERT(expire.key_len == strlen(lq_model_keys[key]));
            LQ_HOT_ASSERT(memcmp(expire.key, lq_model_keys[key], expire.key_len) == 0);
            return;
        }
    }
    ck_abort_msg("a lock is due that is not there");
}

static void check_key_due(const struct run *run, const struct lq_table *table, size_t key)
{
    const struct lq_model_lock *lock = &run->model.locks[key];
    const char *text = lq_model_keys[key];
    struct lq_command expire;
    bool is_due =
        lq_table_key_due(table, (const uint8_t *)text, strlen(text), run->stamp.time_ms, &expire);
    LQ_HOT_ASSERT(is_due == (lock->is_registered && lock->deadline_ms <= run->stamp.time_ms));
    LQ_HOT_ASSERT(!is_due || expire.token == lock->token);
}

static void check_all(const struct run *run, size_t key, uint64_t op)
{
    uint64_t digest = lq_table_digest(run->tables[0]);
    LQ_HOT_ASSERT(digest == lq_table_digest(run->tables[1]));
    for (int i = 0; i < 2; i++) {
        check_outcomes(run, &run->outcomes[i]);
        check_counts(run, run->tables[i]);
        check_due(run, run->tables[i], LQ_WHICH_ALL);
        check_due(run, run->tables[i], LQ_WHICH_CONTENDED);
        check_key_due(run, run->tables[i], key);
        if (op % RECOMPUTE == 0) {
            LQ_HOT_ASSERT(lq_table_digest_recomputed(run->tables[i]) == digest);
        }
    }
}

/* ---- The run. */

static void count_seen(struct run *run)
{
    for (size_t i = 0; i < run->model.n_outcomes; i++) {
        run->seen[run->model.outcomes[i].kind]++;
    }
    for (size_t i = 0; i < N_CAPS && run->model.busy != NULL; i++) {
        run->caps_hit[i] += strcmp(run->model.busy, cap_names[i]) == 0;
    }
}

static void step(struct run *run, uint64_t op)
{
    struct lq_command command;
    size_t key;
    if (op % EPISODE == 0) {
        run->n_keys = 1 + below(run, LQ_MODEL_KEYS);
        run->n_nodes = (uint32_t)(1 + below(run, LQ_MODEL_NODES));
    }
    if (op % EPISODE == 0 || chance(run, 1)) {
        draw_caps(run);
    }
    draw_time(run);
    command = draw_command(run, &key);
    lq_model_apply(&run->model, &command, key, &run->stamp);
    for (int i = 0; i < 2; i++) {
        run->outcomes[i].count = 0;
        lq_table_apply(run->tables[i], &command, &run->stamp, &run->outcomes[i]);
    }
    check_all(run, key, op);
    count_seen(run);
}

static void tell(const struct run *run, uint64_t n_ops)
{
    printf("%llu commands; outcomes by kind:", (unsigned long long)n_ops);
    for (size_t kind = 1; kind <= LQ_OUTCOME_STALE; kind++) {
        printf(" %llu", (unsigned long long)run->seen[kind]);
    }
    for (size_t i = 0; i < N_CAPS; i++) {
        printf("; busy for %s: %llu", cap_names[i], (unsigned long long)run->caps_hit[i]);
    }
    printf("\n");
}

START_TEST(equals_its_model)
{
    uint64_t n_ops = lq_test_number("LQ_OPS", OPS_DEFAULT);
    static struct run run;
    run = (struct run){.rand = lq_rand_of(lq_test_seed(), 1)};
    for (int i = 0; i < 2; i++) {
        uint8_t secret[16];
        lq_rand_fill(&run.rand, secret, sizeof secret);
        run.tables[i] = lq_table_new(secret, 1);
        lq_outcomes_init(&run.outcomes[i]);
    }
    for (uint64_t op = 0; op < n_ops; op++) {
        step(&run, op);
    }
    tell(&run, n_ops);
    for (size_t kind = 1; kind <= LQ_OUTCOME_STALE && n_ops >= OPS_DEFAULT / 10; kind++) {
        ck_assert_msg(run.seen[kind] > 0, "outcome %zu was never met", kind);
    }
    for (size_t i = 0; i < N_CAPS && n_ops >= OPS_DEFAULT / 10; i++) {
        ck_assert_msg(run.caps_hit[i] > 0, "the cap on %s was never met", cap_names[i]);
    }
    for (int i = 0; i < 2; i++) {
        lq_outcomes_done(&run.outcomes[i]);
        lq_table_free(run.tables[i]);
    }
}
END_TEST

static Suite *table_model_suite(void)
{
    Suite *suite = suite_create("table_model");
    TCase *tcase = tcase_create("model");
    tcase_set_timeout(tcase, 0); /* as long as LQ_OPS asks for */
    tcase_add_test(tcase, equals_its_model);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(table_model_suite());
}
