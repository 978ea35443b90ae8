/* The seam between a socket and what is said over it: a non-blocking stream of bytes. Today plain
 * TCP; TLS will be another set of operations, and nothing above will notice. */
#ifndef LQ_STREAM_H
#define LQ_STREAM_H

#include "lq_outbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lq_stream_result {
    LQ_STREAM_OK,      /* at least one byte was moved */
    LQ_STREAM_BLOCKED, /* nothing now: wait until the descriptor is ready */
    LQ_STREAM_EOF,     /* reading only: the other side sends no more */
    LQ_STREAM_BROKEN,  /* the connection is gone */
};

struct lq_stream;

struct lq_stream_ops {
    enum lq_stream_result (*read)(struct lq_stream *stream, uint8_t *ret_bytes, size_t cap,
                                  size_t *ret_len);
    /* `*ret_len` bytes were taken; with BLOCKED and BROKEN, none. */
    enum lq_stream_result (*write)(struct lq_stream *stream, const struct lq_view *views, size_t n,
                                   size_t *ret_len);
    /* Our side sends no more. */
    void (*shutdown)(struct lq_stream *stream);
    void (*close)(struct lq_stream *stream);
};

struct lq_stream {
    const struct lq_stream_ops *ops;
    int fd;
};

/* Views that one write can take. */
#define LQ_STREAM_VIEWS 16

/* A stream over a connected, non-blocking TCP socket, which it owns from now on. Sets TCP_NODELAY,
 * and keepalive so that a host that vanishes is noticed within LQ_VANISHED_MS while all that was
 * written to it is acknowledged; else lq_stream_has_vanished tells. */
void lq_stream_tcp_init(struct lq_stream *stream, int fd);

/* Whether the other host has acknowledged all that was written. */
bool lq_stream_is_all_acknowledged(const struct lq_stream *stream);

/* Whether the other host has acknowledged nothing for LQ_VANISHED_MS, or the connection is dead in
 * any other way. */
bool lq_stream_has_vanished(const struct lq_stream *stream);

/* Whether both directions are over (a reset, or shut down from both sides). */
bool lq_stream_is_dead(const struct lq_stream *stream);

#endif
