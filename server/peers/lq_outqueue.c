#include "lq_outqueue.h"

#include "lq_buffer.h"
#include "lq_check.h"
#include "lq_mem.h"

#include <stdbool.h>

/* Of a piece, unless what is appended at once is longer. */
#define PIECE_BYTES ((size_t)64 << 10)

/* `bytes` has all of its room from the start. The last piece is never without bytes, except that an
 * empty queue keeps one, for the next message. */
struct piece {
    struct lq_list in_pieces;
    struct lq_buffer bytes;
};

static struct piece *piece_of(struct lq_list *member)
{
    return LQ_CONTAINER(member, struct piece, in_pieces);
}

static void free_piece(struct piece *piece)
{
    lq_list_remove(&piece->in_pieces);
    lq_buffer_done(&piece->bytes);
    lq_free(piece);
}

void lq_outqueue_init(struct lq_outqueue *queue)
{
    *queue = (struct lq_outqueue){.len = 0};
    lq_list_init(&queue->pieces);
}

void lq_outqueue_done(struct lq_outqueue *queue)
{
    while (!lq_list_is_empty(&queue->pieces)) {
        free_piece(piece_of(queue->pieces.next));
    }
    queue->sent = 0;
    queue->len = 0;
}

static struct piece *add_piece(struct lq_outqueue *queue, size_t len)
{
    struct piece *piece = lq_calloc(1, sizeof *piece);
    lq_buffer_init(&piece->bytes);
    (void)lq_buffer_extend(&piece->bytes, len > PIECE_BYTES ? len : PIECE_BYTES);
    piece->bytes.len = 0;
    lq_list_append(&queue->pieces, &piece->in_pieces);
    return piece;
}

void lq_outqueue_add(struct lq_outqueue *queue, const uint8_t *bytes, size_t len)
{
    queue->len += len;
    if (!lq_list_is_empty(&queue->pieces)) {
        struct lq_buffer *last = &piece_of(queue->pieces.prev)->bytes;
        size_t room = last->cap - last->len, part = len < room ? len : room;
        lq_buffer_add(last, bytes, part);
        bytes += part;
        len -= part;
    }
    if (len > 0) {
        lq_buffer_add(&add_piece(queue, len)->bytes, bytes, len);
    }
}

size_t lq_outqueue_views(const struct lq_outqueue *queue, struct lq_view *ret_views, size_t n)
{
    size_t used = 0, skipped = queue->sent;
    if (queue->len == 0) {
        return 0;
    }
    for (struct lq_list *at = queue->pieces.next; at != &queue->pieces && used < n; at = at->next) {
        const struct lq_buffer *bytes = &piece_of(at)->bytes;
        ret_views[used++] =
            (struct lq_view){.bytes = bytes->bytes + skipped, .len = bytes->len - skipped};
        skipped = 0;
    }
    return used;
}

/* The first piece was written to its end. */
static void finish_piece(struct lq_outqueue *queue, struct piece *piece)
{
    bool is_last = piece->in_pieces.next == &queue->pieces;
    queue->sent = 0;
    if (is_last && piece->bytes.cap <= PIECE_BYTES) {
        piece->bytes.len = 0;
    } else {
        free_piece(piece);
    }
}

void lq_outqueue_wrote(struct lq_outqueue *queue, size_t len)
{
    LQ_CHECK(len <= queue->len);
    queue->len -= len;
    while (len > 0) {
        struct piece *first = piece_of(queue->pieces.next);
        size_t left = first->bytes.len - queue->sent;
        if (len < left) {
            queue->sent += len;
            return;
        }
        len -= left;
        finish_piece(queue, first);
    }
}
