/* The frames of the client protocol: docs/protocol.md is the rule, this is its code. Both
 * directions, pure: bytes in, a frame out, and back. A frame is a fixed header, then a key (or
 * nothing, or a text), then one line feed. */
#ifndef LQ_FRAME_H
#define LQ_FRAME_H

#include <stddef.h>
#include <stdint.h>

/* The op byte. An answer may share its letter with the request. */
enum lq_op {
    LQ_OP_ACQUIRE = 'A',  /* request; answer: granted */
    LQ_OP_RELEASE = 'R',  /* request; answer: released */
    LQ_OP_RENEW = 'K',    /* request; answer: renewed */
    LQ_OP_CANCEL = 'C',   /* request only */
    LQ_OP_PING = 'P',     /* request and answer */
    LQ_OP_TIMEOUT = 'T',  /* answer: not granted, the wait is over */
    LQ_OP_BUSY = 'B',     /* answer: not granted, no room */
    LQ_OP_NOT_HELD = 'N', /* answer: this token does not hold the key */
    LQ_OP_ERROR = 'E',    /* answer: the server closes the connection */
};

/* The code of an error frame. */
enum lq_wire_error {
    LQ_WIRE_OK = 0, /* never sent */
    LQ_WIRE_UNKNOWN_OP = 1,
    LQ_WIRE_EMPTY_KEY = 2,
    LQ_WIRE_KEY_TOO_LONG = 3,
    LQ_WIRE_KEY_NOT_UTF8 = 4,
    LQ_WIRE_LEASE_ZERO = 5,
    LQ_WIRE_SHUTTING_DOWN = 6,
};

/* One frame of either direction. Fields that its op does not have are 0. */
struct lq_frame {
    uint8_t op;       /* enum lq_op, or any byte on its way in */
    uint8_t wait_s;   /* request A */
    uint8_t lease_s;  /* requests A, K */
    uint8_t code;     /* answer E: enum lq_wire_error; a bad request: the code to answer it with */
    uint16_t key_len; /* bytes at `key` */
    uint64_t owner;   /* A, T, B, C: correlation of one acquire; P: its nonce */
    uint64_t token;   /* R, N, K, answer A: the fencing token */
    const uint8_t *key; /* not owned: inside the decoded bytes, or the caller's; E: the text */
};

enum lq_decoded {
    LQ_DECODED_FRAME, /* a whole, valid frame */
    LQ_DECODED_MORE,  /* the bytes so far are the beginning of a frame */
    LQ_DECODED_BAD,   /* no continuation can make this valid; frame.code says why */
};

/* Decodes the request at the start of `len` bytes.
 * FRAME: fills `ret_frame` and sets `ret_used` to its size in bytes. MORE: call again with the same
 * bytes and more behind them; at most LQ_FRAME_MAX bytes can be outstanding. BAD: only
 * `ret_frame->code` and `op` are set. The result depends on the bytes alone, not on how they were
 * split. Of several faults, that of the earlier byte is reported: unknown op, lease 0, then the
 * key. */
enum lq_decoded lq_request_decode(const uint8_t *bytes, size_t len, struct lq_frame *ret_frame,
                                  size_t *ret_used);

/* The same for answers, as a client reads them. An E's text is its key. */
enum lq_decoded lq_answer_decode(const uint8_t *bytes, size_t len, struct lq_frame *ret_frame,
                                 size_t *ret_used);

/* Writes a request to `ret_bytes` (`cap` bytes long) and returns its size, or 0 when it does not
 * fit. The caller has checked the key (lq_key_is_valid) and the lease; the op must be one of a
 * request. */
size_t lq_request_encode(const struct lq_frame *frame, uint8_t *ret_bytes, size_t cap);

/* The same for answers. */
size_t lq_answer_encode(const struct lq_frame *frame, uint8_t *ret_bytes, size_t cap);

/* The text that goes with an error code: what was wrong, in words for the person who wrote the
 * client. */
const char *lq_wire_error_text(uint8_t code);

#endif
