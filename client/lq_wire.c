#include "lq_wire.h"

#include "lq_check.h"
#include "lq_client_limits.h"

#include <string.h>

void lq_wire_reset(struct lq_wire *wire, uint64_t now_ms)
{
    wire->in_len = wire->in_used = 0;
    wire->out_len = wire->out_sent = 0;
    wire->mark = LQ_WIRE_NO_MARK;
    wire->ping_open = false;
    wire->heard_ms = now_ms;
}

/* Moves unwritten bytes to the front. */
static void compact_output(struct lq_wire *wire)
{
    memmove(wire->out, wire->out + wire->out_sent, wire->out_len - wire->out_sent);
    wire->out_len -= wire->out_sent;
    wire->mark = wire->out_sent <= wire->mark && wire->mark != LQ_WIRE_NO_MARK
                     ? wire->mark - wire->out_sent
                     : LQ_WIRE_NO_MARK;
    wire->out_sent = 0;
}

void lq_wire_put(struct lq_wire *wire, const struct lq_frame *frame)
{
    size_t len;
    if (sizeof wire->out - wire->out_len < LQ_FRAME_MAX) {
        compact_output(wire);
    }
    len = lq_request_encode(frame, wire->out + wire->out_len, sizeof wire->out - wire->out_len);
    LQ_CHECK(len > 0); /* the core puts at most four frames on one connection before they leave */
    wire->out_len += len;
}

void lq_wire_mark(struct lq_wire *wire)
{
    compact_output(wire);
    wire->mark = wire->out_len;
    wire->mark_ping_open = wire->ping_open;
}

void lq_wire_take_back(struct lq_wire *wire)
{
    if (wire->mark != LQ_WIRE_NO_MARK && wire->out_sent <= wire->mark) {
        wire->out_len = wire->mark;
        wire->ping_open = wire->mark_ping_open;
    }
}

bool lq_wire_is_pending(const struct lq_wire *wire)
{
    return wire->out_sent < wire->out_len;
}

const uint8_t *lq_wire_output(const struct lq_wire *wire, size_t *ret_len)
{
    *ret_len = wire->out_len - wire->out_sent;
    return wire->out + wire->out_sent;
}

bool lq_wire_wrote(struct lq_wire *wire, size_t len)
{
    LQ_CHECK(len <= wire->out_len - wire->out_sent);
    wire->out_sent += len;
    return wire->mark != LQ_WIRE_NO_MARK && wire->out_sent > wire->mark;
}

uint8_t *lq_wire_space(struct lq_wire *wire, size_t *ret_cap)
{
    memmove(wire->in, wire->in + wire->in_used, wire->in_len - wire->in_used);
    wire->in_len -= wire->in_used;
    wire->in_used = 0;
    *ret_cap = sizeof wire->in - wire->in_len;
    return wire->in + wire->in_len;
}

void lq_wire_received(struct lq_wire *wire, size_t len, uint64_t now_ms)
{
    LQ_CHECK(len <= sizeof wire->in - wire->in_len);
    wire->in_len += len;
    wire->heard_ms = now_ms;
}

enum lq_decoded lq_wire_next(struct lq_wire *wire, struct lq_frame *ret_frame)
{
    size_t used;
    enum lq_decoded decoded =
        lq_answer_decode(wire->in + wire->in_used, wire->in_len - wire->in_used, ret_frame, &used);
    if (decoded == LQ_DECODED_FRAME) {
        wire->in_used += used;
    }
    return decoded;
}

uint64_t lq_wire_ping(struct lq_wire *wire, uint64_t now_ms)
{
    if (!wire->ping_open) {
        struct lq_frame ping = {.op = LQ_OP_PING, .owner = ++wire->nonce};
        lq_wire_put(wire, &ping);
        wire->ping_open = true;
        wire->pinged_ms = now_ms;
    }
    return wire->nonce;
}

bool lq_wire_pong(struct lq_wire *wire, uint64_t nonce)
{
    if (!wire->ping_open || nonce != wire->nonce) {
        return false;
    }
    wire->ping_open = false;
    return true;
}

uint64_t lq_wire_silence_due_ms(const struct lq_wire *wire)
{
    if (wire->ping_open) {
        uint64_t since = wire->heard_ms > wire->pinged_ms ? wire->heard_ms : wire->pinged_ms;
        return since + LQ_PING_PATIENCE_MS;
    }
    return wire->heard_ms + LQ_PING_AFTER_MS;
}
