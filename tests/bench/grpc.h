/* gRPC calls over one connection of the load: HTTP/2 by libnghttp2, each call a stream of its own.
 *
 *     lq_bench_grpc_send() --> bytes in the connection's output
 *     bytes of its input --> lq_bench_grpc_receive() --> lq_bench_grpc_next() for each message
 *
 * A call is either unary, one message there and one back, and then free for the next; or a stream,
 * open from its first message until the connection ends, with any number of messages in both
 * directions.
 *
 * libnghttp2 must not be called from its own callbacks. So these only note what came, and the
 * messages are handed out after it has returned: whoever gets one may send the next at once.
 *
 * Failure: whatever is wrong with the connection, with a call, or with its status ends the
 * connection, by lq_bench_conn_fail(). */
#ifndef LQ_BENCH_GRPC_H
#define LQ_BENCH_GRPC_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conn.h"

enum {
    LQ_BENCH_GRPC_PREFIX_BYTES = 5, /* of each message: a flag and its length */
    /* Of messages on their way, with their prefixes. The longest is a transaction with seven keys
       of 1 KiB. */
    LQ_BENCH_GRPC_BUFFER_BYTES = 16384,
    /* What HTTP/2 adds to a request at most, above all the headers of the first one. */
    LQ_BENCH_GRPC_EXTRA_BYTES = 2048,
};

struct lq_bench_grpc_call {
    const char *path; /* /service/Method */
    void *owner;      /* whose call this is, for the caller */
    bool is_stream;

    /* The rest is grpc.c's own. */
    struct lq_bench_grpc *grpc;
    struct lq_bench_grpc_call *next; /* among those that something came for */
    bool is_listed, is_over;
    int32_t id;           /* of the HTTP/2 stream; 0: none is open */
    int32_t status;       /* of the call, -1 while unknown */
    size_t out_len;       /* bytes of `out` that libnghttp2 has not taken yet */
    size_t in_at, in_len; /* bytes of `in` that were handed out, and that came */
    uint8_t out[LQ_BENCH_GRPC_BUFFER_BYTES];
    uint8_t in[LQ_BENCH_GRPC_BUFFER_BYTES];
};

/* One connection's. */
struct lq_bench_grpc {
    struct lq_bench_conn *conn;
    nghttp2_session *session;
    uint8_t *out; /* where the bytes to send go next, in the connection's output */
    struct lq_bench_grpc_call *first, *last; /* something came for them */
};

/* Sets up a zeroed one and writes the beginning of HTTP/2 into the connection's output. Returns 0,
 * or -1 after lq_bench_conn_fail(). lq_bench_grpc_done() either way, and also for one that only was
 * zeroed. */
int lq_bench_grpc_init(struct lq_bench_grpc *grpc, struct lq_bench_conn *conn);
void lq_bench_grpc_done(struct lq_bench_grpc *grpc);

/* Where a message for the call may be written: LQ_BENCH_GRPC_BUFFER_BYTES less the prefix from
 * there on. Valid until lq_bench_grpc_send(). */
uint8_t *lq_bench_grpc_message(struct lq_bench_grpc_call *call);

/* Sends the message of `len` bytes that was written there, for a unary call that is free or for a
 * stream. Writes at `out`, somewhere in the connection's output, and returns the end; after a
 * failure `out` itself. */
uint8_t *lq_bench_grpc_send(struct lq_bench_grpc *grpc, struct lq_bench_grpc_call *call, size_t len,
                            uint8_t *out);

/* Takes all of the connection's input. Returns 0, or -1 after lq_bench_conn_fail(). */
int lq_bench_grpc_receive(struct lq_bench_grpc *grpc);

/* The next message that came, of `*ret_len` bytes at `*ret`, valid until that call's next one, and
 * whose it is. Returns NULL if there is no other: then look whether the connection failed. */
struct lq_bench_grpc_call *lq_bench_grpc_next(struct lq_bench_grpc *grpc, const uint8_t **ret,
                                              size_t *ret_len);

#endif
