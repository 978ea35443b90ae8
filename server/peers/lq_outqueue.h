/* Bytes on their way to a peer, in pieces, so that a long queue is neither moved nor copied when it
 * grows. */
#ifndef LQ_OUTQUEUE_H
#define LQ_OUTQUEUE_H

#include "lq_list.h"
#include "lq_outbuf.h"

#include <stddef.h>
#include <stdint.h>

struct lq_outqueue {
    struct lq_list pieces;
    size_t sent;  /* bytes of the first piece that were written */
    uint64_t len; /* bytes not written yet */
};

void lq_outqueue_init(struct lq_outqueue *queue);

/* Frees what is in it; it is empty afterwards. */
void lq_outqueue_done(struct lq_outqueue *queue);

/* Appends a copy. */
void lq_outqueue_add(struct lq_outqueue *queue, const uint8_t *bytes, size_t len);

/* Fills at most `n` views of what is to be written next and returns how many; 0 only when the queue
 * is empty. They are valid until the next call. */
size_t lq_outqueue_views(const struct lq_outqueue *queue, struct lq_view *ret_views, size_t n);

/* The next `len` bytes, no more than there are, were taken by the kernel. */
void lq_outqueue_wrote(struct lq_outqueue *queue, size_t len);

#endif
