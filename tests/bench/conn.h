/* One client connection: a non-blocking socket, a buffer for each direction, and the requests in
 * flight.
 *
 * The buffers are allocated once. The output never overflows: a slot has at most one request in
 * flight, so `depth` requests are all that can ever be unsent. The input holds at least one whole
 * answer.
 *
 * Life: open, then any number of receive, put bytes at out + out_len, flush; at the first failure
 * lq_bench_conn_fail() closes the socket for good and keeps the reason. */
#ifndef LQ_BENCH_CONN_H
#define LQ_BENCH_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_bench_slot;
struct lq_bench_load;

struct lq_bench_conn {
    int fd; /* -1: failed or never opened */
    int epoll;
    bool waits_to_write; /* EPOLLOUT is set: the kernel had no room */
    uint8_t *in, *out;
    size_t in_len, in_size;
    size_t out_len, out_size;
    struct lq_bench_slot *first, *last; /* in flight, oldest first; which ones the driver decides */
    void *reader;                       /* the driver's own state, if it needs any */
    struct lq_bench_load *load;
    uint32_t active; /* slots of this connection with a request in flight */
    char error[160];
};

/* Connects and registers with `epoll` for input. Returns 0, or -1 with the reason in ->error. */
int lq_bench_conn_open(struct lq_bench_conn *conn, const char *target, int epoll, size_t in_size,
                       size_t out_size);

/* Closes and frees; fine on one that failed or, zeroed with fd = -1, was never opened. */
void lq_bench_conn_close(struct lq_bench_conn *conn);

/* Reads once, behind the input that is there. Returns 0 (perhaps nothing came), or -1 after
 * lq_bench_conn_fail(). */
int lq_bench_conn_receive(struct lq_bench_conn *conn);

/* Drops the first n bytes of the input. */
void lq_bench_conn_consumed(struct lq_bench_conn *conn, size_t n);

/* Writes what is there, in one call. Returns 0 (the rest goes when the kernel has room), or -1
 * after lq_bench_conn_fail(). */
int lq_bench_conn_flush(struct lq_bench_conn *conn);

/* Closes the socket and notes why, the first time. Returns -1, for the caller to return. */
int lq_bench_conn_fail(struct lq_bench_conn *conn, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The queue of requests in flight. */
void lq_bench_conn_push(struct lq_bench_conn *conn, struct lq_bench_slot *slot);
struct lq_bench_slot *lq_bench_conn_pop(struct lq_bench_conn *conn); /* NULL if empty */

#endif
