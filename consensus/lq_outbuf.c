#include "lq_outbuf.h"

#include "lq_check.h"
#include "lq_limits.h"

/* Room for a few of the largest frames, and for over a hundred usual ones. */
#define CHUNK_BYTES 8192

struct lq_chunk {
    struct lq_chunk *next;
    size_t len;
    size_t n_grants; /* frames A among its frames */
    uint8_t bytes[CHUNK_BYTES];
};

void lq_outbuf_pool_init(struct lq_pool *pool, size_t keep)
{
    lq_pool_init(pool, sizeof(struct lq_chunk), keep);
}

void lq_outbuf_init(struct lq_outbuf *out)
{
    *out = (struct lq_outbuf){0};
}

static void drop_first(struct lq_outbuf *out, struct lq_pool *pool)
{
    struct lq_chunk *chunk = out->first;
    out->first = chunk->next;
    out->sent = 0;
    if (out->first == NULL) {
        out->last = NULL;
    }
    lq_pool_put(pool, chunk);
}

void lq_outbuf_done(struct lq_outbuf *out, struct lq_pool *pool)
{
    while (out->first != NULL) {
        drop_first(out, pool);
    }
    lq_outbuf_init(out);
}

static void add_chunk(struct lq_outbuf *out, struct lq_pool *pool)
{
    struct lq_chunk *chunk = lq_pool_get(pool);
    chunk->next = NULL;
    chunk->len = 0;
    chunk->n_grants = 0;
    if (out->last == NULL) {
        out->first = chunk;
    } else {
        out->last->next = chunk;
    }
    out->last = chunk;
}

size_t lq_outbuf_put(struct lq_outbuf *out, struct lq_pool *pool, const struct lq_frame *answer)
{
    size_t len = 0;
    if (out->last != NULL) {
        len = lq_answer_encode(answer, out->last->bytes + out->last->len,
                               CHUNK_BYTES - out->last->len);
    }
    if (len == 0) {
        add_chunk(out, pool);
        len = lq_answer_encode(answer, out->last->bytes, CHUNK_BYTES);
    }
    LQ_CHECK(len > 0);
    out->last->len += len;
    out->last->n_grants += answer->op == LQ_OP_ACQUIRE;
    out->unread += len;
    return len;
}

size_t lq_outbuf_views(const struct lq_outbuf *out, struct lq_view *ret_views, size_t n)
{
    size_t skip = out->sent, used = 0;
    for (struct lq_chunk *chunk = out->first; chunk != NULL && used < n; chunk = chunk->next) {
        ret_views[used++] =
            (struct lq_view){.bytes = chunk->bytes + skip, .len = chunk->len - skip};
        skip = 0;
    }
    return used;
}

void lq_outbuf_wrote(struct lq_outbuf *out, struct lq_pool *pool, size_t len)
{
    LQ_CHECK(len <= out->unread);
    out->unread -= len;
    out->sent += len;
    while (out->first != NULL && out->sent >= out->first->len) {
        size_t beyond = out->sent - out->first->len;
        drop_first(out, pool);
        out->sent = beyond;
    }
    LQ_CHECK(out->first != NULL || (out->sent == 0 && out->unread == 0));
}

/* Only the first chunk can be written in part. Frames begin at its start: walk to the first that
 * begins at or after what was written. */
void lq_outbuf_forget_begun(struct lq_outbuf *out)
{
    size_t at = 0, used = 0;
    struct lq_frame frame;
    while (at < out->sent) {
        LQ_CHECK(lq_answer_decode(out->first->bytes + at, out->first->len - at, &frame, &used) ==
                 LQ_DECODED_FRAME);
        at += used;
    }
    out->unread -= at - out->sent;
    out->sent = at;
}

/* Takes the next frame of the first chunk, which is not at its end. */
static void take(struct lq_outbuf *out, struct lq_frame *ret_answer)
{
    struct lq_chunk *chunk = out->first;
    size_t used = 0;
    LQ_CHECK(lq_answer_decode(chunk->bytes + out->sent, chunk->len - out->sent, ret_answer,
                              &used) == LQ_DECODED_FRAME);
    out->sent += used;
    out->unread -= used;
}

bool lq_outbuf_take_grant(struct lq_outbuf *out, struct lq_pool *pool, uint64_t *budget,
                          struct lq_frame *ret_answer)
{
    while (*budget > 0 && out->first != NULL) {
        struct lq_chunk *chunk = out->first;
        --*budget;
        if (out->sent == chunk->len || chunk->n_grants == 0) {
            out->unread -= chunk->len - out->sent;
            drop_first(out, pool);
            continue;
        }
        take(out, ret_answer);
        if (ret_answer->op == LQ_OP_ACQUIRE) {
            return true;
        }
    }
    return false;
}
