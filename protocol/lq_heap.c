#include "lq_heap.h"

#include "lq_check.h"
#include "lq_mem.h"

#define SEGMENT  ((size_t)4096) /* entries: 64 KiB */
#define CHILDREN ((size_t)4)

struct lq_heap_entry {
    uint64_t at_ms;
    struct lq_heap_node *node;
};

void lq_heap_init(struct lq_heap *heap)
{
    *heap = (struct lq_heap){0};
}

void lq_heap_done(struct lq_heap *heap)
{
    for (size_t i = 0; i < heap->n_segments; i++) {
        lq_free(heap->segments[i]);
    }
    lq_free(heap->segments);
    *heap = (struct lq_heap){0};
}

static struct lq_heap_entry *entry(const struct lq_heap *heap, size_t place)
{
    return &heap->segments[place / SEGMENT][place % SEGMENT];
}

static void put(struct lq_heap *heap, size_t place, struct lq_heap_entry value)
{
    *entry(heap, place) = value;
    value.node->place = (uint32_t)place;
}

static void sift_up(struct lq_heap *heap, size_t place, struct lq_heap_entry value)
{
    while (place > 0) {
        size_t parent = (place - 1) / CHILDREN;
        if (entry(heap, parent)->at_ms <= value.at_ms) {
            break;
        }
        put(heap, place, *entry(heap, parent));
        place = parent;
    }
    put(heap, place, value);
}

/* The child with the smallest time; `place` has at least one. */
static size_t smallest_child(const struct lq_heap *heap, size_t place)
{
    size_t first = CHILDREN * place + 1, best = first;
    for (size_t i = first + 1; i < first + CHILDREN && i < heap->count; i++) {
        if (entry(heap, i)->at_ms < entry(heap, best)->at_ms) {
            best = i;
        }
    }
    return best;
}

static void sift_down(struct lq_heap *heap, size_t place, struct lq_heap_entry value)
{
    while (CHILDREN * place + 1 < heap->count) {
        size_t child = smallest_child(heap, place);
        if (entry(heap, child)->at_ms >= value.at_ms) {
            break;
        }
        put(heap, place, *entry(heap, child));
        place = child;
    }
    put(heap, place, value);
}

/* Puts `value` where it belongs, starting from a place that is free. */
static void settle(struct lq_heap *heap, size_t place, struct lq_heap_entry value)
{
    if (place > 0 && value.at_ms < entry(heap, (place - 1) / CHILDREN)->at_ms) {
        sift_up(heap, place, value);
    } else {
        sift_down(heap, place, value);
    }
}

static void add_segment(struct lq_heap *heap)
{
    if (heap->n_segments == heap->cap_segments) {
        heap->cap_segments = heap->cap_segments == 0 ? 16 : 2 * heap->cap_segments;
        heap->segments =
            lq_realloc(heap->segments, heap->cap_segments, sizeof(struct lq_heap_entry *));
    }
    heap->segments[heap->n_segments] = lq_malloc(SEGMENT * sizeof(struct lq_heap_entry));
    heap->n_segments++;
}

/* Keeps one spare segment, so that a count that swings around a boundary does not allocate each
 * time. */
static void drop_segments(struct lq_heap *heap)
{
    while (heap->n_segments > heap->count / SEGMENT + 2) {
        heap->n_segments--;
        lq_free(heap->segments[heap->n_segments]);
    }
}

void lq_heap_insert(struct lq_heap *heap, struct lq_heap_node *node, uint64_t at_ms)
{
    LQ_CHECK(node->place == LQ_HEAP_OUT && heap->count < LQ_HEAP_OUT - 1);
    if (heap->count == heap->n_segments * SEGMENT) {
        add_segment(heap);
    }
    heap->count++;
    sift_up(heap, heap->count - 1, (struct lq_heap_entry){.at_ms = at_ms, .node = node});
}

void lq_heap_move(struct lq_heap *heap, struct lq_heap_node *node, uint64_t at_ms)
{
    LQ_CHECK(node->place < heap->count && entry(heap, node->place)->node == node);
    settle(heap, node->place, (struct lq_heap_entry){.at_ms = at_ms, .node = node});
}

void lq_heap_remove(struct lq_heap *heap, struct lq_heap_node *node)
{
    size_t place = node->place;
    LQ_CHECK(place < heap->count && entry(heap, place)->node == node);
    heap->count--;
    if (place < heap->count) {
        settle(heap, place, *entry(heap, heap->count));
    }
    node->place = LQ_HEAP_OUT;
    drop_segments(heap);
}

struct lq_heap_node *lq_heap_first(const struct lq_heap *heap)
{
    return heap->count == 0 ? NULL : entry(heap, 0)->node;
}

uint64_t lq_heap_first_ms(const struct lq_heap *heap)
{
    return heap->count == 0 ? LQ_NEVER : entry(heap, 0)->at_ms;
}
