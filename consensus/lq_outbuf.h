/* Answers of one connection that were not written yet: whole frames in chunks from a pool. The
 * chunk at the front is kept until its last byte was written, so that the frames which the kernel
 * never saw can still be read back. */
#ifndef LQ_OUTBUF_H
#define LQ_OUTBUF_H

#include "lq_frame.h"
#include "lq_pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_chunk;

struct lq_outbuf {
    struct lq_chunk *first, *last;
    size_t sent;   /* bytes of the first chunk that were written */
    size_t unread; /* bytes not written yet, in all chunks */
};

/* Bytes to be written; not owned. */
struct lq_view {
    const uint8_t *bytes;
    size_t len;
};

/* The pool that all outbufs of a hub share; keeps at most `keep` idle chunks. */
void lq_outbuf_pool_init(struct lq_pool *pool, size_t keep);

void lq_outbuf_init(struct lq_outbuf *out);

/* Gives all chunks back. */
void lq_outbuf_done(struct lq_outbuf *out, struct lq_pool *pool);

/* Appends an answer. Returns its size in bytes. */
size_t lq_outbuf_put(struct lq_outbuf *out, struct lq_pool *pool, const struct lq_frame *answer);

/* Fills at most `n` views of what is to be written next and returns how many. They stay valid until
 * lq_outbuf_wrote. */
size_t lq_outbuf_views(const struct lq_outbuf *out, struct lq_view *ret_views, size_t n);

/* The next `len` bytes were taken by the kernel. */
void lq_outbuf_wrote(struct lq_outbuf *out, struct lq_pool *pool, size_t len);

/* ---- For a connection that is gone: what of its answers never reached the kernel. */

/* Forgets the rest of a frame that was written in part, once, before lq_outbuf_take. */
void lq_outbuf_forget_begun(struct lq_outbuf *out);

/* Fills the next frame A and drops all up to it, or returns false when none is left or `*budget` is
 * spent; chunks without an A cost 1 each, others 1 a frame. Its key is valid until the next call.
 */
bool lq_outbuf_take_grant(struct lq_outbuf *out, struct lq_pool *pool, uint64_t *budget,
                          struct lq_frame *ret_answer);

#endif
