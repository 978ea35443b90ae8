/* Tests of frames, for whoever has bytes to try: unit tests, golden vectors, fuzz target. Both
 * directions of the protocol behind one pair of functions, a generator of valid frames, and the
 * properties that every stream of bytes must have. */
#ifndef LQ_PROPS_H
#define LQ_PROPS_H

#include "lq_frame.h"
#include "lq_limits.h"
#include "lq_test.h"

#include <stdbool.h>

/* One direction of the protocol. */
struct lq_direction {
    const char *name; /* "request" or "answer" */
    const char *ops;  /* every op byte of this direction */
    enum lq_decoded (*decode)(const uint8_t *bytes, size_t len, struct lq_frame *ret_frame,
                              size_t *ret_used);
    size_t (*encode)(const struct lq_frame *frame, uint8_t *ret_bytes, size_t cap);
};

extern const struct lq_direction lq_requests;
extern const struct lq_direction lq_answers;

/* Draws a valid frame of this direction, every field that its op has at random, with a liking for
 * limits and for bytes 0A. The key goes to `ret_key`. */
struct lq_frame lq_props_draw(const struct lq_direction *direction, struct lq_rand *rand,
                              uint8_t ret_key[LQ_KEY_MAX]);

bool lq_props_equal(const struct lq_frame *a, const struct lq_frame *b);

/* Decodes a whole stream of `len` bytes and checks what must hold for any bytes at all: every
 * proper prefix of a frame needs more; a fault, once seen, stays the same whatever follows; outputs
 * stay untouched where the contract says so; a decoded frame encodes to the bytes it came from.
 * Every prefix is given to the decoder in memory of exactly its size, so that a sanitizer sees a
 * read beyond. Returns NULL when all holds, else what does not. */
const char *lq_props_fault(const struct lq_direction *direction, const uint8_t *bytes, size_t len);

#endif
