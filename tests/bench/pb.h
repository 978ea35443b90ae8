/* The wire form of protocol buffers, as far as gRPC services with small messages need it: varints
 * and byte strings, written into and read from a bounded buffer. A cursor that ran out of room, or
 * over bytes that mean nothing, stays bad, so that it is enough to look once at the end. */
#ifndef LQ_BENCH_PB_H
#define LQ_BENCH_PB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_bench_pb_out {
    uint8_t *at, *end;
    bool bad; /* something did not fit: the message is of no use */
};

/* A field of a message. Numbers are in `value`; strings and messages in `bytes`, which points into
 * what is read. */
struct lq_bench_pb_field {
    uint32_t number;
    uint64_t value;
    const uint8_t *bytes; /* NULL: a number */
    size_t len;
};

struct lq_bench_pb_in {
    const uint8_t *at, *end;
    bool bad; /* the bytes are no message */
};

void lq_bench_pb_put_number(struct lq_bench_pb_out *out, uint32_t field, uint64_t value);
void lq_bench_pb_put_bytes(struct lq_bench_pb_out *out, uint32_t field, const uint8_t *bytes,
                           size_t len);

/* A message within the message: all that is put between the two calls belongs to it. It may have up
 * to 16,383 bytes. `begin` is what lq_bench_pb_open() returned. */
uint8_t *lq_bench_pb_open(struct lq_bench_pb_out *out, uint32_t field);
void lq_bench_pb_close(struct lq_bench_pb_out *out, const uint8_t *begin);

struct lq_bench_pb_in lq_bench_pb_in(const uint8_t *bytes, size_t len);

/* Reads the next field. Returns false at the end, and where the bytes are bad. */
bool lq_bench_pb_next(struct lq_bench_pb_in *in, struct lq_bench_pb_field *ret);

#endif
