/* The bytes of one connection, seen from the client: frames in, frames out, and how long the server
 * has been silent. Pure; bounded. */
#ifndef LQ_WIRE_H
#define LQ_WIRE_H

#include "lq_frame.h"
#include "lq_limits.h"

#include <stdbool.h>

/* A step's frame, its C, a P, and a release that makes up for a late grant. */
#define LQ_WIRE_OUT_MAX ((size_t)4 * LQ_FRAME_MAX)

/* No frame can be taken back. */
#define LQ_WIRE_NO_MARK SIZE_MAX

struct lq_wire {
    size_t in_len, in_used, out_len, out_sent;
    size_t mark;         /* where in `out` that begins which can be taken back */
    bool mark_ping_open; /* `ping_open` at that time */
    uint64_t heard_ms;   /* when the last byte came, or watching began */
    uint64_t pinged_ms;  /* when the open P was made */
    uint64_t nonce;      /* of the last P */
    bool ping_open;      /* its answer has not come */
    uint8_t in[LQ_FRAME_MAX];
    uint8_t out[LQ_WIRE_OUT_MAX];
};

/* A new connection. Keeps counting nonces. */
void lq_wire_reset(struct lq_wire *wire, uint64_t now_ms);

/* Appends a request. */
void lq_wire_put(struct lq_wire *wire, const struct lq_frame *frame);

/* What is put from now on can be taken back until a byte of it is written. */
void lq_wire_mark(struct lq_wire *wire);

/* Takes it back, if not one byte of it was written. */
void lq_wire_take_back(struct lq_wire *wire);

/* Whether bytes were put and not all of them written. */
bool lq_wire_is_pending(const struct lq_wire *wire);

/* The bytes to write next; `ret_len` 0 when there are none. Valid until the next call. */
const uint8_t *lq_wire_output(const struct lq_wire *wire, size_t *ret_len);

/* `len` of those were handed to the kernel. Returns whether bytes behind the mark were among them.
 */
bool lq_wire_wrote(struct lq_wire *wire, size_t len);

/* Where to put received bytes, and how many fit: at least one while every frame that has come was
 * taken with lq_wire_next. */
uint8_t *lq_wire_space(struct lq_wire *wire, size_t *ret_cap);

/* `len` bytes were put there. */
void lq_wire_received(struct lq_wire *wire, size_t len, uint64_t now_ms);

/* The next answer. Its key points into the wire until the next call. */
enum lq_decoded lq_wire_next(struct lq_wire *wire, struct lq_frame *ret_frame);

/* Makes a ping and returns its nonce, or does nothing and returns that of the one still open. */
uint64_t lq_wire_ping(struct lq_wire *wire, uint64_t now_ms);

/* Takes an answer to a ping; false when nobody asked. */
bool lq_wire_pong(struct lq_wire *wire, uint64_t nonce);

/* When a silent server is to be pinged, or, with a ping open, given up. */
uint64_t lq_wire_silence_due_ms(const struct lq_wire *wire);

#endif
