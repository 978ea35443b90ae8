/* Unwritten answers against one long row of bytes; what is read back when the connection is gone;
 * and the pool from which chunks come. */
#include "lq_limits.h"
#include "lq_mem.h"
#include "lq_outbuf.h"
#include "lq_test.h"
#include "support/hot_assert.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK      8192 /* what a chunk holds */
#define FRAMES_MAX 4096

static const uint8_t letters[LQ_KEY_MAX] = "keys are read from here";

/* A T of exactly `size` bytes. */
static struct lq_frame frame_of(size_t size, uint64_t owner)
{
    return (struct lq_frame){
        .op = LQ_OP_ACQUIRE, .owner = owner, .key = letters, .key_len = (uint16_t)(size - 18)};
}

/* An outbuf, and all that was ever put into it. */
struct both {
    struct lq_pool pool;
    struct lq_outbuf out;
    uint8_t *bytes;
    size_t len, written;
    size_t starts[FRAMES_MAX]; /* of the frames */
    size_t n;
};

static void both_init(struct both *both, size_t keep)
{
    *both = (struct both){.bytes = malloc((size_t)FRAMES_MAX * LQ_FRAME_MAX)};
    lq_outbuf_pool_init(&both->pool, keep);
    lq_outbuf_init(&both->out);
}

static void both_done(struct both *both)
{
    lq_outbuf_done(&both->out, &both->pool);
    LQ_HOT_ASSERT(both->out.unread == 0);
    lq_pool_done(&both->pool);
    free(both->bytes);
}

static void put(struct both *both, const struct lq_frame *frame)
{
    uint8_t encoded[LQ_FRAME_MAX];
    size_t len = lq_answer_encode(frame, encoded, sizeof encoded);
    LQ_HOT_ASSERT(both->n < FRAMES_MAX);
    both->starts[both->n++] = both->len;
    memcpy(both->bytes + both->len, encoded, len);
    both->len += len;
    LQ_HOT_ASSERT(lq_outbuf_put(&both->out, &both->pool, frame) == len);
}

static void put_size(struct both *both, size_t size)
{
    struct lq_frame frame = frame_of(size, both->n);
    put(both, &frame);
}

static void wrote(struct both *both, size_t len)
{
    lq_outbuf_wrote(&both->out, &both->pool, len);
    both->written += len;
}

/* The views, however few are asked for, are the bytes that follow. */
static void check_views(const struct both *both)
{
    struct lq_view views[64];
    for (size_t n = 0; n <= 64; n = 2 * n + 1) {
        size_t used = lq_outbuf_views(&both->out, views, n), at = both->written;
        LQ_HOT_ASSERT(used <= n);
        for (size_t i = 0; i < used; i++) {
            LQ_HOT_ASSERT(views[i].len > 0);
            LQ_HOT_ASSERT(views[i].len <= both->len - at);
            LQ_HOT_ASSERT(memcmp(views[i].bytes, both->bytes + at, views[i].len) == 0);
            at += views[i].len;
        }
        LQ_HOT_ASSERT(used == n || at == both->len);
    }
    LQ_HOT_ASSERT(both->out.unread == both->len - both->written);
}

/* The number of the first grant at or behind frame `next`. */
static size_t next_grant(const struct both *both, size_t next)
{
    while (next < both->n && both->bytes[both->starts[next]] != LQ_OP_ACQUIRE) {
        next++;
    }
    return next;
}

/* What lq_outbuf_take_grant gives after the connection has gone, in slices: the grants of which
 * nothing was written. */
static void check_taken(struct both *both)
{
    struct lq_frame answer;
    size_t next = 0;
    while (next < both->n && both->starts[next] < both->written) {
        next++;
    }
    next = next_grant(both, next);
    lq_outbuf_forget_begun(&both->out);
    while (both->out.first != NULL) {
        uint64_t budget = 3;
        while (lq_outbuf_take_grant(&both->out, &both->pool, &budget, &answer)) {
            uint8_t encoded[LQ_FRAME_MAX];
            size_t len = lq_answer_encode(&answer, encoded, sizeof encoded);
            LQ_HOT_ASSERT(next < both->n);
            LQ_HOT_ASSERT(memcmp(encoded, both->bytes + both->starts[next], len) == 0);
            next = next_grant(both, next + 1);
        }
        LQ_HOT_ASSERT(budget == 0 || both->out.first == NULL);
    }
    LQ_HOT_ASSERT(next == both->n);
    LQ_HOT_ASSERT(both->out.unread == 0);
}

START_TEST(an_empty_one_has_nothing_to_write)
{
    struct both both;
    both_init(&both, 4);
    check_views(&both);
    wrote(&both, 0);
    check_taken(&both);
    both_done(&both);
}
END_TEST

/* Written in pieces of a fixed size: 1, around a frame, around a chunk, and everything at once. */
START_TEST(is_written_in_pieces_of_any_size)
{
    static const size_t pieces[] = {1, 31, 32, 33, 1024, CHUNK - 1, CHUNK, CHUNK + 1, 100000};
    struct both both;
    both_init(&both, 4);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 600; i++) {
            put_size(&both, 20 + i % 90);
        }
        while (both.written < both.len) {
            size_t left = both.len - both.written;
            if (pieces[_i] > 1 || left % 16 == 0) { /* slow, so not for every byte */
                check_views(&both);
            }
            wrote(&both, left < pieces[_i] ? left : pieces[_i]);
        }
        check_views(&both);
        LQ_HOT_ASSERT(both.out.first == NULL);
    }
    both_done(&both);
}
END_TEST

/* Eight frames of 1024 bytes fill a chunk to its last byte. Gone with every number of bytes written
 * around every boundary of frames and chunks. */
START_TEST(what_was_not_begun_is_read_back)
{
    for (size_t boundary = 0; boundary <= 20; boundary++) {
        for (size_t off = 0; off < 3; off++) {
            struct both both;
            size_t len = 1024 * boundary + off;
            both_init(&both, 4);
            for (size_t i = 0; i < 20; i++) {
                put_size(&both, 1024);
            }
            wrote(&both, len == 0 ? 0 : (len - 1 < both.len ? len - 1 : both.len));
            check_views(&both);
            check_taken(&both);
            both_done(&both);
        }
    }
}
END_TEST

/* Frames of every op and of the largest size; writes and puts in any order; gone at any point. */
START_TEST(equals_a_row_of_bytes_at_random)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    static const uint8_t ops[] = "ATBRKNPE";
    struct both both;
    both_init(&both, lq_rand_below(&rand, 3));
    for (int i = 0; i < 400; i++) {
        uint8_t op = ops[lq_rand_below(&rand, sizeof ops - 1)];
        uint64_t longest = lq_rand_below(&rand, 4) == 0 ? LQ_KEY_MAX : 40;
        struct lq_frame frame = {.op = op, .owner = lq_rand_next(&rand), .key = letters};
        frame.key_len = op == LQ_OP_PING ? 0 : (uint16_t)(1 + lq_rand_below(&rand, longest));
        frame.token = lq_rand_next(&rand);
        frame.code = (uint8_t)lq_rand_below(&rand, 256);
        put(&both, &frame);
        if (lq_rand_below(&rand, 3) == 0) {
            wrote(&both, lq_rand_below(&rand, both.len - both.written + 1));
        }
        check_views(&both);
    }
    check_taken(&both);
    both_done(&both);
}
END_TEST

/* ---- The pool. */

START_TEST(a_pool_keeps_no_more_than_it_may)
{
    struct lq_pool pool;
    void *pieces[10];
    uint64_t allocations;
    lq_pool_init(&pool, 100, 4);
    for (size_t i = 0; i < 10; i++) {
        pieces[i] = lq_pool_get(&pool);
        memset(pieces[i], (int)i, 100);
    }
    for (size_t i = 0; i < 10; i++) {
        LQ_HOT_ASSERT(((const uint8_t *)pieces[i])[99] == i);
        lq_pool_put(&pool, pieces[i]);
        LQ_HOT_ASSERT(pool.n_idle == (i < 4 ? i + 1 : 4));
    }
    allocations = lq_mem_allocations();
    for (size_t i = 0; i < 4; i++) {
        pieces[i] = lq_pool_get(&pool);
    }
    LQ_HOT_ASSERT(lq_mem_allocations() == allocations);
    pieces[4] = lq_pool_get(&pool);
    LQ_HOT_ASSERT(lq_mem_allocations() == allocations + 1);
    for (size_t i = 0; i < 5; i++) {
        lq_pool_put(&pool, pieces[i]);
    }
    lq_pool_done(&pool);
}
END_TEST

START_TEST(a_warm_outbuf_allocates_nothing)
{
    struct both both;
    struct lq_frame frame = frame_of(50, 1);
    uint64_t allocations = 0;
    both_init(&both, 4);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 400; i++) {
            (void)lq_outbuf_put(&both.out, &both.pool, &frame);
        }
        wrote(&both, both.out.unread);
        allocations = round == 0 ? lq_mem_allocations() : allocations;
        LQ_HOT_ASSERT(lq_mem_allocations() == allocations);
    }
    both_done(&both);
}
END_TEST

static Suite *outbuf_suite(void)
{
    Suite *suite = suite_create("outbuf");
    TCase *out = tcase_create("outbuf");
    TCase *pool = tcase_create("pool");
    tcase_set_timeout(out, 60);
    tcase_set_timeout(pool, 60);
    tcase_add_test(out, an_empty_one_has_nothing_to_write);
    tcase_add_loop_test(out, is_written_in_pieces_of_any_size, 0, 9);
    tcase_add_test(out, what_was_not_begun_is_read_back);
    tcase_add_loop_test(out, equals_a_row_of_bytes_at_random, 0, 40);
    tcase_add_test(pool, a_pool_keeps_no_more_than_it_may);
    tcase_add_test(pool, a_warm_outbuf_allocates_nothing);
    suite_add_tcase(suite, out);
    suite_add_tcase(suite, pool);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(outbuf_suite());
}
