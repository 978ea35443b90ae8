/* A min-heap of times whose members know their place, so that any of them can be moved or removed.
 * Four children a node (half the levels of a binary heap), in segments, so that growing never
 * copies the whole heap. */
#ifndef LQ_HEAP_H
#define LQ_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lives inside the member. */
struct lq_heap_node {
    uint32_t place; /* LQ_HEAP_OUT while in no heap */
};

#define LQ_HEAP_OUT UINT32_MAX

/* No time: what lq_heap_first_ms gives for an empty heap, and "never" wherever a deadline is told.
 */
#define LQ_NEVER UINT64_MAX

static inline uint64_t lq_earlier(uint64_t a_ms, uint64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

struct lq_heap_entry;

struct lq_heap {
    struct lq_heap_entry **segments;
    size_t n_segments;   /* allocated */
    size_t cap_segments; /* room in the array of pointers */
    size_t count;        /* members */
};

void lq_heap_init(struct lq_heap *heap);

/* Frees the heap; members still inside are merely forgotten. */
void lq_heap_done(struct lq_heap *heap);

/* Adds a member that is in no heap. */
void lq_heap_insert(struct lq_heap *heap, struct lq_heap_node *node, uint64_t at_ms);

/* Gives a member of this heap another time. */
void lq_heap_move(struct lq_heap *heap, struct lq_heap_node *node, uint64_t at_ms);

/* Removes a member of this heap. */
void lq_heap_remove(struct lq_heap *heap, struct lq_heap_node *node);

/* The member with the smallest time, or NULL. Among equal times: any. */
struct lq_heap_node *lq_heap_first(const struct lq_heap *heap);

/* The smallest time, or LQ_NEVER. */
uint64_t lq_heap_first_ms(const struct lq_heap *heap);

static inline bool lq_heap_holds(const struct lq_heap_node *node)
{
    return node->place != LQ_HEAP_OUT;
}

#endif
