#include "pb.h"

#include <string.h>

enum {
    WIRE_VARINT = 0,
    WIRE_BYTES = 2,

    VARINT_MAX_BYTES = 10,
    /* The length of a message within a message is written when the message is there, over a varint
     * of fixed size: its first byte says that another follows even where one would do. Every reader
     * takes that. */
    LENGTH_BYTES = 2,
    LENGTH_MAX = (1 << (7 * LENGTH_BYTES)) - 1,
};

/* ---- Writing. */

static void put_varint(struct lq_bench_pb_out *out, uint64_t n)
{
    while (n >= 0x80 && out->at < out->end) {
        *out->at++ = (uint8_t)(n | 0x80);
        n >>= 7;
    }
    if (out->at < out->end)
        *out->at++ = (uint8_t)n;
    else
        out->bad = true;
}

static void put_tag(struct lq_bench_pb_out *out, uint32_t field, uint32_t wire)
{
    put_varint(out, (uint64_t)field << 3 | wire);
}

void lq_bench_pb_put_number(struct lq_bench_pb_out *out, uint32_t field, uint64_t value)
{
    put_tag(out, field, WIRE_VARINT);
    put_varint(out, value);
}

void lq_bench_pb_put_bytes(struct lq_bench_pb_out *out, uint32_t field, const uint8_t *bytes,
                           size_t len)
{
    put_tag(out, field, WIRE_BYTES);
    put_varint(out, len);
    if (out->bad || len > (size_t)(out->end - out->at)) {
        out->bad = true;
        return;
    }
    memcpy(out->at, bytes, len);
    out->at += len;
}

uint8_t *lq_bench_pb_open(struct lq_bench_pb_out *out, uint32_t field)
{
    put_tag(out, field, WIRE_BYTES);
    if (out->end - out->at < LENGTH_BYTES)
        out->bad = true;
    else
        out->at += LENGTH_BYTES;
    return out->at;
}

void lq_bench_pb_close(struct lq_bench_pb_out *out, const uint8_t *begin)
{
    size_t len = (size_t)(out->at - begin);
    uint8_t *length = out->at - len - LENGTH_BYTES;
    if (len > LENGTH_MAX)
        out->bad = true;
    if (out->bad)
        return;
    length[0] = (uint8_t)(len | 0x80);
    length[1] = (uint8_t)(len >> 7);
}

/* ---- Reading. */

struct lq_bench_pb_in lq_bench_pb_in(const uint8_t *bytes, size_t len)
{
    struct lq_bench_pb_in in = {.at = bytes, .end = bytes + len};
    return in;
}

static uint64_t get_varint(struct lq_bench_pb_in *in)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < VARINT_MAX_BYTES && in->at < in->end; i++) {
        uint8_t byte = *in->at++;
        n |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80)
            return n;
    }
    in->bad = true;
    return 0;
}

bool lq_bench_pb_next(struct lq_bench_pb_in *in, struct lq_bench_pb_field *ret)
{
    struct lq_bench_pb_field f = {0};
    uint64_t tag, n;
    if (in->bad || in->at == in->end)
        return false;
    tag = get_varint(in);
    n = get_varint(in);
    f.number = (uint32_t)(tag >> 3);
    if ((tag & 7) == WIRE_VARINT) {
        f.value = n;
    } else if ((tag & 7) == WIRE_BYTES && n <= (size_t)(in->end - in->at)) {
        f.bytes = in->at;
        f.len = n;
        in->at += n;
    } else { /* fixed sizes and groups: none of the messages has them */
        in->bad = true;
    }
    if (!in->bad)
        *ret = f;
    return !in->bad;
}
