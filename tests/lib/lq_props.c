#include "lq_props.h"

#include <stdlib.h>
#include <string.h>

const struct lq_direction lq_requests = {"request", "ARKCP", lq_request_decode, lq_request_encode};
const struct lq_direction lq_answers = {"answer", "ARTBNKPE", lq_answer_decode, lq_answer_encode};

/* ---- Drawing frames. */

/* Numbers whose bytes are, or hold, a line feed, zero or the highest value. */
static uint64_t draw_u64(struct lq_rand *rand)
{
    static const uint64_t liked[] = {0, 1, 10, UINT64_C(0x0A0A0A0A0A0A0A0A), UINT64_MAX};
    uint64_t pick = lq_rand_below(rand, 2 * (sizeof liked / sizeof *liked));
    return pick < sizeof liked / sizeof *liked ? liked[pick] : lq_rand_next(rand);
}

static uint8_t draw_u8(struct lq_rand *rand, uint8_t lowest)
{
    static const uint8_t liked[] = {0, 1, 10, 255};
    uint64_t pick = lq_rand_below(rand, 2 * sizeof liked);
    uint8_t value = pick < sizeof liked ? liked[pick] : (uint8_t)lq_rand_below(rand, 256);
    return value < lowest ? lowest : value;
}

static size_t draw_len(struct lq_rand *rand, size_t lowest)
{
    static const size_t highest[] = {1, 8, 32, LQ_KEY_MAX};
    uint64_t pick = lq_rand_below(rand, 5);
    return pick == 4 ? LQ_KEY_MAX : lowest + lq_rand_below(rand, highest[pick] - lowest + 1);
}

/* One character of 1 to 4 bytes into at most `room` bytes; returns its length. */
static size_t draw_char(struct lq_rand *rand, uint8_t *ret_bytes, size_t room)
{
    static const char *const liked[] = {"a",        "\r",           "\x7F",
                                        "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x94\x92"};
    const char *text = liked[lq_rand_below(rand, sizeof liked / sizeof *liked)];
    size_t len = strlen(text) <= room ? strlen(text) : 1;

    memcpy(ret_bytes, len == strlen(text) ? text : "z", len);
    return len;
}

static uint16_t draw_key(struct lq_rand *rand, size_t lowest, uint8_t ret_key[LQ_KEY_MAX])
{
    size_t len = draw_len(rand, lowest);
    for (size_t at = 0; at < len;) {
        at += draw_char(rand, ret_key + at, len - at);
    }
    return (uint16_t)len;
}

struct lq_frame lq_props_draw(const struct lq_direction *direction, struct lq_rand *rand,
                              uint8_t ret_key[LQ_KEY_MAX])
{
    uint8_t op = (uint8_t)direction->ops[lq_rand_below(rand, strlen(direction->ops))];
    bool asks = direction == &lq_requests;
    struct lq_frame frame = {.op = op, .key = ret_key};

    if (asks && op == 'A') {
        frame.wait_s = draw_u8(rand, 0);
    }
    if (asks && (op == 'A' || op == 'K')) {
        frame.lease_s = draw_u8(rand, 1);
    }
    if (op == 'E') {
        frame.code = draw_u8(rand, 0);
    }
    if (strchr("ACPTB", op) != NULL) {
        frame.owner = draw_u64(rand);
    }
    if (op == 'R' || op == 'K' || op == 'N' || (op == 'A' && !asks)) {
        frame.token = draw_u64(rand);
    }
    if (op != 'P') {
        frame.key_len = draw_key(rand, op == 'E' ? 0 : 1, ret_key);
    }
    return frame;
}

bool lq_props_equal(const struct lq_frame *a, const struct lq_frame *b)
{
    return a->op == b->op && a->wait_s == b->wait_s && a->lease_s == b->lease_s &&
           a->code == b->code && a->owner == b->owner && a->token == b->token &&
           a->key_len == b->key_len &&
           (a->key_len == 0 ||
            (a->key != NULL && b->key != NULL && memcmp(a->key, b->key, a->key_len) == 0));
}

/* ---- Properties of any stream. */

/* E with an empty text: the smallest frame there is. */
#define SMALLEST 3

/* What one call of the decoder gave. */
struct result {
    enum lq_decoded decoded;
    struct lq_frame frame;
    size_t used;
    bool touched_frame, touched_used;
};

/* Decodes a copy of exactly `len` bytes that ends where its memory ends. `frame.key` points into
 * the original afterwards. */
static struct result decode_copy(const struct lq_direction *direction, const uint8_t *bytes,
                                 size_t len)
{
    static uint8_t block[LQ_FRAME_MAX + 2]; /* spares most calls an allocation */
    const struct lq_frame untouched = {.op = 0xA5, .owner = 0xA5A5, .key = bytes};
    struct result result = {.frame = untouched, .used = SIZE_MAX};
    uint8_t *copy = len <= sizeof block ? block + sizeof block - len : malloc(len);

    if (copy == NULL) {
        abort();
    }
    memcpy(copy, bytes, len);
    result.decoded = direction->decode(copy, len, &result.frame, &result.used);
    result.touched_used = result.used != SIZE_MAX;
    result.touched_frame = result.frame.key != bytes || !lq_props_equal(&result.frame, &untouched);
    if (result.decoded == LQ_DECODED_FRAME && result.frame.key != NULL) {
        size_t at = (size_t)(result.frame.key - copy);
        result.frame.key = at <= len ? bytes + at : NULL;
    }
    if (len > sizeof block) {
        free(copy);
    }
    return result;
}

/* Every prefix of fewer than `len` bytes must be the beginning of something. */
static const char *prefixes_fault(const struct lq_direction *direction, const uint8_t *bytes,
                                  size_t len)
{
    for (size_t n = 0; n < len; n++) {
        struct result result = decode_copy(direction, bytes, n);
        if (result.decoded != LQ_DECODED_MORE) {
            return "a shorter prefix was already decided";
        }
        if (result.touched_frame || result.touched_used) {
            return "MORE touched its outputs";
        }
    }
    return NULL;
}

static const char *frame_fault(const struct lq_direction *direction, const uint8_t *bytes,
                               size_t len, const struct result *got)
{
    uint8_t encoded[LQ_FRAME_MAX + 1];
    struct result exact;

    if (got->used < SMALLEST || got->used > len || got->used > LQ_FRAME_MAX) {
        return "a frame of impossible size";
    }
    if (got->frame.key == NULL || got->frame.key + got->frame.key_len + 1 != bytes + got->used) {
        return "the key does not stand just before the line feed";
    }
    exact = decode_copy(direction, bytes, got->used);
    if (exact.decoded != LQ_DECODED_FRAME || !lq_props_equal(&exact.frame, &got->frame)) {
        return "bytes behind a frame changed it";
    }
    if (direction->encode(&got->frame, encoded, sizeof encoded) != got->used ||
        memcmp(encoded, bytes, got->used) != 0) {
        return "encoding a decoded frame gave other bytes";
    }
    if (direction->encode(&got->frame, encoded, got->used - 1) != 0) {
        return "a frame was encoded into too few bytes";
    }
    return prefixes_fault(direction, bytes, got->used);
}

static const char *bad_fault(const struct lq_direction *direction, const uint8_t *bytes, size_t len,
                             const struct result *got)
{
    const struct lq_frame expected = {.op = bytes[0], .code = got->frame.code};
    size_t first = 1;

    if (got->touched_used) {
        return "BAD set the used size";
    }
    if (!lq_props_equal(&got->frame, &expected) || got->frame.code < LQ_WIRE_UNKNOWN_OP ||
        got->frame.code > LQ_WIRE_LEASE_ZERO) {
        return "BAD without a right code and op, or with more than these";
    }
    while (first < len && decode_copy(direction, bytes, first).decoded == LQ_DECODED_MORE) {
        first++;
    }
    if (first > LQ_FRAME_MAX) {
        return "a fault was seen only after more than a frame";
    }
    for (size_t n = first; n < len && n <= LQ_FRAME_MAX + 1; n++) {
        struct result result = decode_copy(direction, bytes, n);
        if (result.decoded != LQ_DECODED_BAD || result.frame.code != got->frame.code) {
            return "bytes behind a fault changed it";
        }
    }
    return prefixes_fault(direction, bytes, first);
}

const char *lq_props_fault(const struct lq_direction *direction, const uint8_t *bytes, size_t len)
{
    const char *fault = NULL;

    for (size_t at = 0; at < len && fault == NULL;) {
        struct result got = decode_copy(direction, bytes + at, len - at);
        switch (got.decoded) {
        case LQ_DECODED_FRAME:
            fault = frame_fault(direction, bytes + at, len - at, &got);
            at += got.used;
            break;
        case LQ_DECODED_BAD:
            return bad_fault(direction, bytes + at, len - at, &got);
        case LQ_DECODED_MORE:
            return len - at >= LQ_FRAME_MAX ? "a whole frame's worth of bytes needs more"
                                            : prefixes_fault(direction, bytes + at, len - at);
        }
    }
    return fault;
}
