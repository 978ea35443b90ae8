/* Deadlines of spans of 1 to 255 whole seconds that begin now: leases and waits. Time does not go
 * back, so the spans of one length end in the order in which they begin: each length is a list that
 * is sorted by itself, and a min-heap over the lists finds the next deadline. Beginning and
 * removing a span touches its neighbours, never a million others. */
#ifndef LQ_SPANS_H
#define LQ_SPANS_H

#include "lq_heap.h"
#include "lq_list.h"

#include <stdbool.h>
#include <stdint.h>

/* Lives inside the member, which also remembers the length. */
struct lq_span {
    struct lq_list in_length;
    uint64_t end_ms;
};

/* The spans of one length. */
struct lq_span_list {
    struct lq_list spans;
    struct lq_heap_node by_first; /* by the end of the first span, while there is one */
};

struct lq_spans {
    struct lq_span_list lengths[256]; /* by seconds; 0 is not used */
    struct lq_heap heap;
    uint64_t now_ms; /* the latest beginning */
};

/* The end of a span that begins at `now_ms`. Clocks are read in whole milliseconds, rounded down,
 * so one more makes sure that the whole span has passed when the clock shows the end. */
static inline uint64_t lq_span_end(uint64_t now_ms, uint8_t seconds)
{
    return now_ms + (uint64_t)seconds * 1000 + 1;
}

/* The other way round: when a span of that length began which ends at `end_ms`. */
static inline uint64_t lq_span_beginning(uint64_t end_ms, uint8_t seconds)
{
    return end_ms - lq_span_end(0, seconds);
}

/* `spans` must not move in memory afterwards. */
void lq_spans_init(struct lq_spans *spans);

/* Members still inside are merely forgotten. */
void lq_spans_done(struct lq_spans *spans);

/* Sets up a span that is in no structure. */
void lq_span_init(struct lq_span *span);

/* The span, which is not running, begins at `now_ms` (never below that of an earlier call) and
 * takes 1 to 255 s. */
void lq_spans_begin(struct lq_spans *spans, struct lq_span *span, uint64_t now_ms, uint8_t seconds);

/* Lets a span run on whose `end_ms` is set already. Of one length, those must be resumed in the
 * order of their ends. */
void lq_spans_resume(struct lq_spans *spans, struct lq_span *span, uint8_t seconds);

/* Takes a running span of that length out. */
void lq_spans_remove(struct lq_spans *spans, struct lq_span *span, uint8_t seconds);

/* The running span that ends first, or NULL. */
struct lq_span *lq_spans_first(const struct lq_spans *spans);

/* When that is, or LQ_NEVER. */
uint64_t lq_spans_first_ms(const struct lq_spans *spans);

/* Calls `visit` for running spans that have ended at `time_ms`, at most `max` of them, and returns
 * for how many. Each length in turn, shortest first, gives its next one, so that when there are
 * more than `max` none of the lengths starves. `visit` must not change anything here. */
size_t lq_spans_each_ended(const struct lq_spans *spans, uint64_t time_ms, size_t max,
                           void (*visit)(const struct lq_span *span, void *argument),
                           void *argument);

static inline bool lq_span_is_running(const struct lq_span *span)
{
    return !lq_list_is_empty(&span->in_length);
}

#endif
