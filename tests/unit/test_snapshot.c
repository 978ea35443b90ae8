/* Snapshots of the table: written in slices between commands they are the state at their beginning,
 * to the byte; restored they go on exactly as the table that they were taken of; and no damaged
 * snapshot becomes a table. */
#include "lq_mem.h"
#include "lq_snapshot.h"
#include "lq_test.h"

#include <stdio.h>
#include <string.h>

#define NODES 3
#define KEYS  40

/* About as many commands are applied for each snapshot; LQ_OPS counts commands. */
#define STEPS_USUAL 200

static uint64_t seed;
static const uint8_t secret[16] = {1};
static const uint8_t other_secret[16] = {2};

/* A table that random commands are applied to; `twins` get the same ones. */
struct bench {
    struct lq_table *tables[2];
    struct lq_outcomes outcomes;
    struct lq_rand rand;
    struct lq_stamp stamp;
    uint64_t incarnation[NODES], last_seq[NODES];
    char key[32];
};

static void bench_init(struct bench *bench, uint64_t stream)
{
    *bench = (struct bench){.rand = lq_rand_of(seed, stream)};
    bench->tables[0] = lq_table_new(secret, 1);
    lq_outcomes_init(&bench->outcomes);
    bench->stamp = (struct lq_stamp){
        .time_ms = 1000,
        .caps = {.keys = 35, .waiters_per_key = 6, .waiters = 100, .state_bytes = 1 << 20}};
}

static void bench_done(struct bench *bench)
{
    lq_table_free(bench->tables[0]);
    lq_table_free(bench->tables[1]);
    lq_outcomes_done(&bench->outcomes);
}

static void apply(struct bench *bench, const struct lq_command *command)
{
    for (int i = 0; i < 2; i++) {
        if (bench->tables[i] != NULL) {
            lq_table_apply(bench->tables[i], command, &bench->stamp, &bench->outcomes);
        }
    }
    bench->outcomes.count = 0;
}

static void set_key(struct bench *bench, struct lq_command *command)
{
    int len = snprintf(bench->key, sizeof bench->key, "key-%u",
                       (unsigned)lq_rand_below(&bench->rand, KEYS));
    command->key = (const uint8_t *)bench->key;
    command->key_len = (uint16_t)len;
}

/* Tokens are guessed among the recent ones, so that many are right. */
static uint64_t guess_token(struct bench *bench)
{
    uint64_t last = lq_table_counts(bench->tables[0]).last_token;
    return last - lq_rand_below(&bench->rand, last < KEYS ? last + 1 : KEYS);
}

static void apply_from_origin(struct bench *bench)
{
    static const uint8_t types[] = {
        LQ_COMMAND_ACQUIRE, LQ_COMMAND_ACQUIRE, LQ_COMMAND_ACQUIRE,
        LQ_COMMAND_RELEASE, LQ_COMMAND_RELEASE, LQ_COMMAND_RENEW,
        LQ_COMMAND_RENEW,   LQ_COMMAND_CANCEL,  LQ_COMMAND_FORCE_RELEASE};
    uint32_t node = (uint32_t)lq_rand_below(&bench->rand, NODES);
    struct lq_command command = {.type = types[lq_rand_below(&bench->rand, sizeof types)]};
    command.origin = (struct lq_origin_id){.node = node, .incarnation = bench->incarnation[node]};
    command.seq = ++bench->last_seq[node];
    if (command.type == LQ_COMMAND_CANCEL) {
        command.target = command.seq - lq_rand_below(&bench->rand, command.seq);
    } else {
        set_key(bench, &command);
    }
    if (command.type == LQ_COMMAND_ACQUIRE || command.type == LQ_COMMAND_RENEW) {
        command.lease_s = (uint8_t)(1 + lq_rand_below(&bench->rand, 4));
    }
    if (command.type == LQ_COMMAND_ACQUIRE) {
        command.wait_s = (uint8_t)lq_rand_below(&bench->rand, 3);
        command.owner = lq_rand_next(&bench->rand);
    } else if (command.type != LQ_COMMAND_CANCEL) {
        command.token = guess_token(bench);
    }
    apply(bench, &command);
}

static void open_or_close(struct bench *bench)
{
    uint32_t node = (uint32_t)lq_rand_below(&bench->rand, NODES);
    bool opens = lq_rand_below(&bench->rand, 4) != 0;
    if (opens) {
        bench->incarnation[node]++;
        bench->last_seq[node] = 0;
    }
    apply(bench,
          &(struct lq_command){.type = opens ? LQ_COMMAND_ORIGIN_OPEN : LQ_COMMAND_ORIGIN_CLOSE,
                               .origin = {.node = node, .incarnation = bench->incarnation[node]}});
}

static void expire_something(struct bench *bench)
{
    struct lq_command expire;
    if (lq_table_due(bench->tables[0], LQ_WHICH_ALL, bench->stamp.time_ms, &expire)) {
        uint8_t key[64]; /* the tables' own key goes away with the first of them that expires it */
        ck_assert_uint_le(expire.key_len, sizeof key);
        memcpy(key, expire.key, expire.key_len);
        expire.key = key;
        apply(bench, &expire);
    }
}

static void step(struct bench *bench)
{
    uint64_t what = lq_rand_below(&bench->rand, 100);
    bench->stamp.time_ms += lq_rand_below(&bench->rand, 20);
    if (what < 1) {
        open_or_close(bench);
    } else if (what < 15) {
        expire_something(bench);
    } else {
        apply_from_origin(bench);
    }
}

/* The whole snapshot, written at once. */
static struct lq_buffer take(struct lq_table *table)
{
    struct lq_buffer out = {0};
    struct lq_snapshot *snapshot = lq_snapshot_begin(table, &out);
    ck_assert(lq_snapshot_step(snapshot, UINT64_MAX, &out));
    lq_snapshot_end(snapshot);
    return out;
}

static void assert_same_bytes(const struct lq_buffer *a, const struct lq_buffer *b)
{
    ck_assert_uint_eq(a->len, b->len);
    ck_assert_mem_eq(a->bytes, b->bytes, a->len);
}

/* One snapshot in slices, with commands between them; now and then it is given up half way. */
static void take_in_slices(struct bench *bench)
{
    struct lq_buffer whole = take(bench->tables[0]), sliced = {0};
    struct lq_snapshot *snapshot = lq_snapshot_begin(bench->tables[0], &sliced);
    bool is_complete = false, is_given_up = lq_rand_below(&bench->rand, 5) == 0;
    while (!is_complete && !(is_given_up && lq_rand_below(&bench->rand, 8) == 0)) {
        for (uint64_t n = lq_rand_below(&bench->rand, 30); n > 0; n--) {
            step(bench);
        }
        is_complete = lq_snapshot_step(snapshot, 1 + lq_rand_below(&bench->rand, 5), &sliced);
    }
    lq_snapshot_end(snapshot);
    if (is_complete) {
        assert_same_bytes(&whole, &sliced);
    }
    lq_buffer_done(&whole);
    lq_buffer_done(&sliced);
}

START_TEST(slices_between_commands_give_the_state_at_the_beginning)
{
    struct bench bench;
    bench_init(&bench, 1);
    for (uint64_t i = 0; i < lq_test_number("LQ_OPS", 80000) / STEPS_USUAL; i++) {
        for (int n = 0; n < 50; n++) {
            step(&bench);
        }
        take_in_slices(&bench);
    }
    bench_done(&bench);
}
END_TEST

/* The restored table has another secret, and goes on with the same commands to the same states. */
START_TEST(a_restored_table_goes_on_as_the_first)
{
    struct bench bench;
    bench_init(&bench, 2);
    for (uint64_t i = 0; i < lq_test_number("LQ_OPS", 80000) / STEPS_USUAL; i++) {
        struct lq_buffer bytes = take(bench.tables[0]), again;
        lq_table_free(bench.tables[1]);
        bench.tables[1] = lq_snapshot_restore(bytes.bytes, bytes.len, other_secret);
        ck_assert_ptr_nonnull(bench.tables[1]);
        ck_assert_uint_eq(lq_table_digest(bench.tables[1]), lq_table_digest(bench.tables[0]));
        for (int n = 0; n < 200; n++) {
            step(&bench);
            ck_assert_uint_eq(lq_table_digest(bench.tables[1]), lq_table_digest(bench.tables[0]));
        }
        ck_assert_uint_eq(lq_table_digest_recomputed(bench.tables[1]),
                          lq_table_digest(bench.tables[1]));
        lq_buffer_done(&bytes);
        bytes = take(bench.tables[0]);
        again = take(bench.tables[1]);
        assert_same_bytes(&bytes, &again);
        lq_buffer_done(&bytes);
        lq_buffer_done(&again);
    }
    bench_done(&bench);
}
END_TEST

static bool is_accepted(const uint8_t *bytes, size_t len)
{
    uint8_t *copy =
        lq_calloc(len, 1); /* of exactly that size, so that a sanitizer sees a read beyond */
    struct lq_table *table;
    memcpy(copy, bytes, len);
    table = lq_snapshot_restore(copy, len, secret);
    lq_table_free(table);
    lq_free(copy);
    return table != NULL;
}

static struct lq_buffer draw_snapshot(struct bench *bench)
{
    do {
        step(bench);
    } while (lq_table_counts(bench->tables[0]).waiters < 5);
    return take(bench->tables[0]);
}

START_TEST(every_flipped_bit_and_every_cut_is_refused)
{
    struct bench bench;
    struct lq_buffer bytes;
    bench_init(&bench, 3);
    bytes = draw_snapshot(&bench);
    ck_assert(is_accepted(bytes.bytes, bytes.len));
    for (size_t i = 0; i < 8 * bytes.len; i++) {
        bytes.bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        ck_assert_msg(!is_accepted(bytes.bytes, bytes.len), "bit %zu", i);
        bytes.bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    for (size_t len = 0; len < bytes.len; len++) {
        ck_assert_msg(!is_accepted(bytes.bytes, len), "cut at %zu", len);
    }
    lq_buffer_add(&bytes, "", 1);
    ck_assert(!is_accepted(bytes.bytes, bytes.len));
    lq_buffer_done(&bytes);
    bench_done(&bench);
}
END_TEST

START_TEST(an_empty_table_has_a_snapshot_too)
{
    struct lq_table *table = lq_table_new(secret, 77);
    struct lq_buffer bytes = take(table);
    struct lq_table *restored = lq_snapshot_restore(bytes.bytes, bytes.len, other_secret);
    ck_assert_ptr_nonnull(restored);
    ck_assert_uint_eq(lq_table_counts(restored).last_token, 76);
    lq_buffer_done(&bytes);
    lq_table_free(restored);
    lq_table_free(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("snapshot");
    TCase *tests = tcase_create("snapshot");
    seed = lq_test_seed();
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, slices_between_commands_give_the_state_at_the_beginning);
    tcase_add_test(tests, a_restored_table_goes_on_as_the_first);
    tcase_add_test(tests, every_flipped_bit_and_every_cut_is_refused);
    tcase_add_test(tests, an_empty_table_has_a_snapshot_too);
    suite_add_tcase(suite, tests);
    return lq_test_run(suite);
}
