/* Spans of whole seconds against an array: which one ends first, after any beginnings and removals,
 * in time that never goes back. */
#include "lq_spans.h"
#include "lq_test.h"
#include "support/hot_assert.h"

#include <stdlib.h>

struct item {
    struct lq_span span;
    uint64_t end_ms;
    uint8_t seconds; /* 0: not running */
};

struct both {
    struct lq_spans spans;
    struct item *items;
    size_t n;
    uint64_t now_ms;
};

static void both_init(struct both *both, size_t n)
{
    *both = (struct both){.items = calloc(n, sizeof *both->items), .n = n, .now_ms = 100};
    lq_spans_init(&both->spans);
    for (size_t i = 0; i < n; i++) {
        lq_span_init(&both->items[i].span);
    }
}

static void both_done(struct both *both)
{
    lq_spans_done(&both->spans);
    free(both->items);
}

static void begin(struct both *both, size_t at, uint8_t seconds)
{
    struct item *item = &both->items[at];
    item->seconds = seconds;
    item->end_ms = both->now_ms + 1000 * (uint64_t)seconds + 1;
    lq_spans_begin(&both->spans, &item->span, both->now_ms, seconds);
    LQ_HOT_ASSERT(item->span.end_ms == item->end_ms);
    LQ_HOT_ASSERT(lq_span_is_running(&item->span));
}

static void drop(struct both *both, size_t at)
{
    struct item *item = &both->items[at];
    lq_spans_remove(&both->spans, &item->span, item->seconds);
    item->seconds = 0;
    LQ_HOT_ASSERT(!lq_span_is_running(&item->span));
}

/* The one that ends first, by looking at all, has the same end as the one that is told. */
static void check_first(const struct both *both)
{
    const struct lq_span *first = lq_spans_first(&both->spans);
    uint64_t end_ms = LQ_NEVER;
    for (size_t i = 0; i < both->n; i++) {
        if (both->items[i].seconds != 0 && both->items[i].end_ms < end_ms) {
            end_ms = both->items[i].end_ms;
        }
    }
    LQ_HOT_ASSERT(lq_spans_first_ms(&both->spans) == end_ms);
    LQ_HOT_ASSERT((first == NULL) == (end_ms == LQ_NEVER));
    LQ_HOT_ASSERT(first == NULL || first->end_ms == end_ms);
}

START_TEST(a_span_is_never_a_moment_short)
{
    ck_assert_uint_eq(lq_span_end(0, 1), 1001);
    ck_assert_uint_eq(lq_span_end(5, 255), 255006);
}
END_TEST

/* Few lengths and times that stand still, so that ties and lists of several occur; or many. */
START_TEST(equals_an_array_at_random)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    uint64_t n_lengths = _i % 2 == 0 ? 3 : 255;
    struct both both;
    both_init(&both, 1 + lq_rand_below(&rand, 50));
    for (int i = 0; i < 5000; i++) {
        size_t at = lq_rand_below(&rand, both.n);
        both.now_ms += lq_rand_below(&rand, 3) == 0 ? lq_rand_below(&rand, 700) : 0;
        if (both.items[at].seconds != 0) {
            drop(&both, at);
        }
        if (lq_rand_below(&rand, 3) != 0) {
            begin(&both, at, (uint8_t)(1 + lq_rand_below(&rand, n_lengths)));
        }
        check_first(&both);
    }
    both_done(&both);
}
END_TEST

/* Those of one length come in the order in which they began: FIFO of what is due together. */
START_TEST(equal_lengths_keep_their_order)
{
    struct both both;
    both_init(&both, 100);
    for (size_t i = 0; i < 100; i++) {
        both.now_ms += i % 3;
        begin(&both, i, 7);
    }
    for (size_t i = 0; i < 100; i += 5) {
        drop(&both, i);
    }
    for (size_t i = 0; i < 100; i++) {
        if (i % 5 != 0) {
            ck_assert_ptr_eq(lq_spans_first(&both.spans), &both.items[i].span);
            drop(&both, i);
        }
    }
    check_first(&both);
    both_done(&both);
}
END_TEST

static Suite *spans_suite(void)
{
    Suite *suite = suite_create("spans");
    TCase *tcase = tcase_create("spans");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_span_is_never_a_moment_short);
    tcase_add_loop_test(tcase, equals_an_array_at_random, 0, 20);
    tcase_add_test(tcase, equal_lengths_keep_their_order);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(spans_suite());
}
