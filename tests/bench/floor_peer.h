/* Whoever a node of the floor talks to: a socket with a buffer for each direction.
 *
 * Life: new, then any number of receive, put and flush. A peer whose socket failed is closed, but
 * stays until no operation of it is waiting for an answer and it is on no list; then it is freed.
 */
#ifndef LQ_BENCH_FLOOR_PEER_H
#define LQ_BENCH_FLOOR_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LQ_BENCH_FLOOR_IN_BYTES = 16384,
};

enum lq_bench_floor_kind {
    LQ_BENCH_FLOOR_LISTENER,
    LQ_BENCH_FLOOR_CLIENT,   /* sends operations: a client, or with the leader a follower for its
                                clients */
    LQ_BENCH_FLOOR_UPSTREAM, /* answers operations: a follower's relay link */
    LQ_BENCH_FLOOR_FOLLOWER, /* says how much is durable: the leader's log link */
    LQ_BENCH_FLOOR_LEADER,   /* sends what to append: a follower's log link */
};

struct lq_bench_floor_bytes {
    uint8_t *bytes;
    size_t len, size;
};

struct lq_bench_floor_peer {
    enum lq_bench_floor_kind kind;
    int fd; /* -1: closed */
    int epoll;
    bool waits_to_write;
    bool is_dirty; /* on the node's list of those to flush */
    struct lq_bench_floor_peer *next_dirty;
    uint32_t waiting; /* its operations without an answer */
    uint64_t durable; /* a follower: operations that are durable there */
    struct lq_bench_floor_bytes out;
    size_t in_len;
    uint8_t in[LQ_BENCH_FLOOR_IN_BYTES];
};

/* Appends; ends the process if there is no memory. */
void lq_bench_floor_bytes_add(struct lq_bench_floor_bytes *to, const uint8_t *bytes, size_t len);

/* Makes a peer of a socket and has epoll watch it. Returns NULL with errno; the socket then stays
 * the caller's. */
struct lq_bench_floor_peer *lq_bench_floor_peer_new(enum lq_bench_floor_kind kind, int fd,
                                                    int epoll);

/* Frees the peer if it is closed and nothing knows it any more. */
void lq_bench_floor_peer_release(struct lq_bench_floor_peer *peer);

void lq_bench_floor_peer_close(struct lq_bench_floor_peer *peer);

/* Reads once, behind what is there. Returns 0, or -1 if the socket has ended or failed. */
int lq_bench_floor_peer_receive(struct lq_bench_floor_peer *peer);

/* Drops the first n bytes of the input. */
void lq_bench_floor_peer_consumed(struct lq_bench_floor_peer *peer, size_t n);

/* Writes once what there is to write. Returns 0 (the rest goes when there is room), or -1 if the
 * socket failed. */
int lq_bench_floor_peer_flush(struct lq_bench_floor_peer *peer);

#endif
