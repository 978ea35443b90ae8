#include "lq_spans.h"

#include "lq_check.h"

/* A walk along one length. */
struct cursor {
    const struct lq_span_list *length;
    const struct lq_span *next;
};

static struct lq_span *first_of(const struct lq_span_list *length)
{
    return LQ_CONTAINER(length->spans.next, struct lq_span, in_length);
}

void lq_spans_init(struct lq_spans *spans)
{
    lq_heap_init(&spans->heap);
    spans->now_ms = 0;
    for (int i = 0; i < 256; i++) {
        lq_list_init(&spans->lengths[i].spans);
        spans->lengths[i].by_first.place = LQ_HEAP_OUT;
    }
}

void lq_spans_done(struct lq_spans *spans)
{
    lq_heap_done(&spans->heap);
}

void lq_span_init(struct lq_span *span)
{
    lq_list_init(&span->in_length);
    span->end_ms = LQ_NEVER;
}

void lq_spans_begin(struct lq_spans *spans, struct lq_span *span, uint64_t now_ms, uint8_t seconds)
{
    LQ_CHECK(now_ms >= spans->now_ms);
    spans->now_ms = now_ms;
    span->end_ms = lq_span_end(now_ms, seconds);
    lq_spans_resume(spans, span, seconds);
}

void lq_spans_resume(struct lq_spans *spans, struct lq_span *span, uint8_t seconds)
{
    struct lq_span_list *length = &spans->lengths[seconds];
    const struct lq_list *last = length->spans.prev;
    LQ_CHECK(seconds >= 1 && !lq_span_is_running(span));
    LQ_CHECK(last == &length->spans ||
             LQ_CONTAINER(last, struct lq_span, in_length)->end_ms <= span->end_ms);
    if (lq_list_is_empty(&length->spans)) {
        lq_heap_insert(&spans->heap, &length->by_first, span->end_ms);
    }
    lq_list_append(&length->spans, &span->in_length);
}

void lq_spans_remove(struct lq_spans *spans, struct lq_span *span, uint8_t seconds)
{
    struct lq_span_list *length = &spans->lengths[seconds];
    bool is_first = length->spans.next == &span->in_length;
    LQ_CHECK(lq_span_is_running(span));
    lq_list_remove(&span->in_length);
    if (lq_list_is_empty(&length->spans)) {
        lq_heap_remove(&spans->heap, &length->by_first);
    } else if (is_first) {
        lq_heap_move(&spans->heap, &length->by_first, first_of(length)->end_ms);
    }
}

struct lq_span *lq_spans_first(const struct lq_spans *spans)
{
    const struct lq_heap_node *node = lq_heap_first(&spans->heap);
    return node == NULL ? NULL : first_of(LQ_CONTAINER(node, struct lq_span_list, by_first));
}

uint64_t lq_spans_first_ms(const struct lq_spans *spans)
{
    return lq_heap_first_ms(&spans->heap);
}

/* The span at `at` if it has ended, NULL at the end of its list or before those that run on. */
static const struct lq_span *ended_at(const struct lq_span_list *length, const struct lq_list *at,
                                      uint64_t time_ms)
{
    const struct lq_span *span = LQ_CONTAINER(at, const struct lq_span, in_length);
    return at == &length->spans || span->end_ms > time_ms ? NULL : span;
}

/* Finds the first span of each length that has one which ended; returns how many there are. */
static size_t find_ended(const struct lq_spans *spans, uint64_t time_ms, struct cursor *ret_cursors)
{
    size_t n = 0;
    if (lq_spans_first_ms(spans) > time_ms) {
        return 0; /* the usual case */
    }
    for (size_t i = 0; i < 256; i++) {
        const struct lq_span_list *length = &spans->lengths[i];
        const struct lq_span *next = ended_at(length, length->spans.next, time_ms);
        if (next != NULL) {
            ret_cursors[n++] = (struct cursor){.length = length, .next = next};
        }
    }
    return n;
}

size_t lq_spans_each_ended(const struct lq_spans *spans, uint64_t time_ms, size_t max,
                           void (*visit)(const struct lq_span *span, void *argument),
                           void *argument)
{
    struct cursor cursors[256];
    size_t n = find_ended(spans, time_ms, cursors), visited = 0;
    while (n > 0) { /* a round */
        size_t n_left = 0;
        for (size_t i = 0; i < n; i++) {
            struct cursor cursor = cursors[i];
            if (visited == max) {
                return visited;
            }
            visit(cursor.next, argument);
            visited++;
            cursor.next = ended_at(cursor.length, cursor.next->in_length.next, time_ms);
            if (cursor.next != NULL) {
                cursors[n_left++] = cursor;
            }
        }
        n = n_left;
    }
    return visited;
}
