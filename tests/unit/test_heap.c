/* The heap of times against a plain array: the first is always the smallest, wherever members are
 * moved or removed; segments come and go. */
#include "lq_heap.h"
#include "lq_list.h"
#include "lq_mem.h"
#include "lq_test.h"
#include "support/hot_assert.h"

#include <stdlib.h>

struct item {
    struct lq_heap_node node;
    uint64_t at_ms;
};

static struct item *item_of(struct lq_heap_node *node)
{
    return LQ_CONTAINER(node, struct item, node);
}

static void insert(struct lq_heap *heap, struct item *item, uint64_t at_ms)
{
    item->at_ms = at_ms;
    lq_heap_insert(heap, &item->node, at_ms);
    LQ_HOT_ASSERT(lq_heap_holds(&item->node));
}

static void drop(struct lq_heap *heap, struct item *item)
{
    lq_heap_remove(heap, &item->node);
    LQ_HOT_ASSERT(!lq_heap_holds(&item->node));
}

static struct item *new_items(size_t n)
{
    struct item *items = calloc(n, sizeof *items);
    for (size_t i = 0; i < n; i++) {
        items[i].node.place = LQ_HEAP_OUT;
    }
    return items;
}

/* The smallest time by looking at all. */
static uint64_t smallest(const struct item *items, size_t n)
{
    uint64_t found = LQ_NEVER;
    for (size_t i = 0; i < n; i++) {
        if (lq_heap_holds(&items[i].node) && items[i].at_ms < found) {
            found = items[i].at_ms;
        }
    }
    return found;
}

static void check_first(const struct lq_heap *heap, const struct item *items, size_t n)
{
    struct lq_heap_node *first = lq_heap_first(heap);
    LQ_HOT_ASSERT(lq_heap_first_ms(heap) == smallest(items, n));
    if (heap->count == 0) {
        LQ_HOT_ASSERT(first == NULL);
    } else {
        LQ_HOT_ASSERT(item_of(first)->at_ms == lq_heap_first_ms(heap));
    }
}

START_TEST(an_empty_heap_has_no_first)
{
    struct lq_heap heap;
    lq_heap_init(&heap);
    LQ_HOT_ASSERT(lq_heap_first(&heap) == NULL);
    LQ_HOT_ASSERT(lq_heap_first_ms(&heap) == LQ_NEVER);
    lq_heap_done(&heap);
}
END_TEST

/* Few members and few times, so that every shape and every tie occurs; a time of LQ_NEVER, too. */
START_TEST(equals_an_array_at_random)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    size_t n = 1 + lq_rand_below(&rand, 60);
    uint64_t times = 1 + lq_rand_below(&rand, 100);
    struct item *items = new_items(n);
    struct lq_heap heap;
    size_t count = 0;
    lq_heap_init(&heap);
    for (int i = 0; i < 5000; i++) {
        struct item *item = &items[lq_rand_below(&rand, n)];
        uint64_t draw = lq_rand_below(&rand, times + 1);
        uint64_t at_ms = draw == times ? LQ_NEVER : draw;
        if (!lq_heap_holds(&item->node)) {
            insert(&heap, item, at_ms);
            count++;
        } else if (lq_rand_below(&rand, 2) == 0) {
            item->at_ms = at_ms;
            lq_heap_move(&heap, &item->node, at_ms);
        } else {
            drop(&heap, item);
            count--;
        }
        LQ_HOT_ASSERT(heap.count == count);
        check_first(&heap, items, n);
    }
    lq_heap_done(&heap);
    free(items);
}
END_TEST

/* Through several segments: what comes out is sorted, also after many were removed in the middle.
 */
START_TEST(many_come_out_in_order)
{
    const size_t n = 30000;
    struct lq_rand rand = lq_rand_of(lq_test_seed(), 100);
    struct item *items = new_items(n);
    struct lq_heap heap;
    uint64_t last_ms = 0;
    lq_heap_init(&heap);
    for (size_t i = 0; i < n; i++) {
        insert(&heap, &items[i], lq_rand_below(&rand, 2 * n));
    }
    for (size_t i = 0; i < n; i += 3) {
        drop(&heap, &items[i]);
    }
    for (size_t i = 1; i < n; i += 3) {
        items[i].at_ms = lq_rand_below(&rand, 2 * n);
        lq_heap_move(&heap, &items[i].node, items[i].at_ms);
    }
    LQ_HOT_ASSERT(heap.count == n - n / 3);
    while (heap.count > 0) {
        struct item *item = item_of(lq_heap_first(&heap));
        LQ_HOT_ASSERT(item->at_ms >= last_ms);
        LQ_HOT_ASSERT(item->at_ms == lq_heap_first_ms(&heap));
        last_ms = item->at_ms;
        drop(&heap, item);
    }
    lq_heap_done(&heap);
    free(items);
}
END_TEST

/* Room for 4096 members a segment: none is kept far beyond need, and a count that swings around a
 * boundary allocates nothing. */
START_TEST(segments_are_given_back)
{
    const size_t n = 20000, segment = 4096;
    struct item *items = new_items(n);
    struct lq_heap heap;
    uint64_t allocations;
    lq_heap_init(&heap);
    for (size_t i = 0; i < n; i++) {
        insert(&heap, &items[i], i);
        LQ_HOT_ASSERT(heap.n_segments * segment >= heap.count);
        LQ_HOT_ASSERT(heap.n_segments <= heap.count / segment + 2);
    }
    for (size_t i = n; i-- > segment;) {
        drop(&heap, &items[i]);
        LQ_HOT_ASSERT(heap.n_segments <= heap.count / segment + 2);
    }
    allocations = lq_mem_allocations();
    for (int i = 0; i < 100; i++) {
        insert(&heap, &items[segment], 1);
        insert(&heap, &items[segment + 1], 2);
        drop(&heap, &items[segment]);
        drop(&heap, &items[segment + 1]);
        drop(&heap, &items[0]);
        insert(&heap, &items[0], 0);
    }
    LQ_HOT_ASSERT(lq_mem_allocations() == allocations);
    lq_heap_done(&heap);
    free(items);
}
END_TEST

static Suite *heap_suite(void)
{
    Suite *suite = suite_create("heap");
    TCase *tcase = tcase_create("heap");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, an_empty_heap_has_no_first);
    tcase_add_loop_test(tcase, equals_an_array_at_random, 0, 40);
    tcase_add_test(tcase, many_come_out_in_order);
    tcase_add_test(tcase, segments_are_given_back);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(heap_suite());
}
