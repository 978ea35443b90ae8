/* One thread. A turn is: everything that came is taken in; what follows for the others goes out, so
 * that they sync while we do; then our own sync, and what follows from that. */
#include "floor_node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "floor_journal.h"
#include "floor_peer.h"
#include "net.h"

enum {
    OP_BYTES = LQ_BENCH_FLOOR_OP_BYTES,
    EVENTS = 1024,
};

/* An operation without an answer: with the leader any, with a follower one of its own clients. */
struct waiting {
    struct lq_bench_floor_peer *from;
    uint8_t op[OP_BYTES];
};

struct node {
    int epoll;
    bool leads;
    struct lq_bench_floor_journal journal;
    struct lq_bench_floor_peer *logs[LQ_BENCH_FLOOR_FOLLOWERS]; /* a follower has [0] */
    struct lq_bench_floor_peer *upstream;                       /* a follower's */
    struct lq_bench_floor_peer *first_dirty;
    struct lq_bench_floor_bytes batch; /* to be appended at the end of this turn */
    struct waiting *queue;             /* from `head` up to `tail`, oldest first */
    size_t head, tail, size;
    uint64_t durable, answered; /* operations */
};

static void die(const char *what)
{
    (void)fprintf(stderr, "lq_bench: a node of the floor: %s: %s\n", what, strerror(errno));
    _exit(1);
}

/* ---- The queue. */

static void push(struct node *node, struct lq_bench_floor_peer *from, const uint8_t *op)
{
    if (node->tail == node->size && node->head > node->size / 2) {
        memmove(node->queue, node->queue + node->head,
                (node->tail - node->head) * sizeof *node->queue);
        node->tail -= node->head;
        node->head = 0;
    } else if (node->tail == node->size) {
        node->size = 2 * node->size + 64;
        node->queue = reallocarray(node->queue, node->size, sizeof *node->queue);
        if (node->queue == NULL)
            die("queue");
    }
    node->queue[node->tail].from = from;
    memcpy(node->queue[node->tail].op, op, OP_BYTES);
    node->tail++;
    from->waiting++;
}

/* ---- Out. */

static void mark(struct node *node, struct lq_bench_floor_peer *peer)
{
    if (peer->is_dirty)
        return;
    peer->is_dirty = true;
    peer->next_dirty = node->first_dirty;
    node->first_dirty = peer;
}

static void put(struct node *node, struct lq_bench_floor_peer *peer, const uint8_t *bytes,
                size_t len)
{
    if (peer->fd < 0)
        return;
    lq_bench_floor_bytes_add(&peer->out, bytes, len);
    mark(node, peer);
}

/* The oldest operation is answered. */
static void answer(struct node *node)
{
    struct waiting *w = &node->queue[node->head++];
    put(node, w->from, w->op, OP_BYTES);
    w->from->waiting--;
    lq_bench_floor_peer_release(w->from);
}

/* A client may go; without a link there is no floor. */
static void lose(struct lq_bench_floor_peer *peer)
{
    if (peer->kind != LQ_BENCH_FLOOR_CLIENT)
        die("a link has ended");
    lq_bench_floor_peer_close(peer);
}

static void flush_all(struct node *node)
{
    while (node->first_dirty != NULL) {
        struct lq_bench_floor_peer *peer = node->first_dirty;
        node->first_dirty = peer->next_dirty;
        peer->is_dirty = false;
        if (peer->fd >= 0 && lq_bench_floor_peer_flush(peer) != 0)
            lose(peer);
        lq_bench_floor_peer_release(peer);
    }
}

/* ---- In. */

static void take_op(struct node *node, struct lq_bench_floor_peer *peer, const uint8_t *op)
{
    switch (peer->kind) {
    case LQ_BENCH_FLOOR_CLIENT:
        push(node, peer, op);
        if (node->leads)
            lq_bench_floor_bytes_add(&node->batch, op, OP_BYTES);
        else
            put(node, node->upstream, op, OP_BYTES);
        break;
    case LQ_BENCH_FLOOR_UPSTREAM:
        if (node->head < node->tail)
            answer(node);
        break;
    case LQ_BENCH_FLOOR_LEADER:
        lq_bench_floor_bytes_add(&node->batch, op, OP_BYTES);
        break;
    case LQ_BENCH_FLOOR_LISTENER:
    case LQ_BENCH_FLOOR_FOLLOWER:
        break;
    }
}

static void take(struct node *node, struct lq_bench_floor_peer *peer)
{
    bool counts = peer->kind == LQ_BENCH_FLOOR_FOLLOWER;
    size_t one = counts ? sizeof peer->durable : OP_BYTES, at = 0;
    if (lq_bench_floor_peer_receive(peer) != 0) {
        lose(peer);
        lq_bench_floor_peer_release(peer);
        return;
    }
    for (; peer->in_len - at >= one; at += one) {
        if (counts)
            memcpy(&peer->durable, peer->in + at, one);
        else
            take_op(node, peer, peer->in + at);
    }
    lq_bench_floor_peer_consumed(peer, at);
}

static void accept_one(const struct node *node, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (lq_bench_net_tune(fd) != 0 ||
        lq_bench_floor_peer_new(LQ_BENCH_FLOOR_CLIENT, fd, node->epoll) == NULL)
        close(fd);
}

static void serve(struct node *node, struct lq_bench_floor_peer *peer, uint32_t events)
{
    if (peer->kind == LQ_BENCH_FLOOR_LISTENER) {
        accept_one(node, peer->fd);
        return;
    }
    if (events & EPOLLOUT)
        mark(node, peer);
    if (events & ~(uint32_t)EPOLLOUT)
        take(node, peer);
}

/* ---- A turn. */

static void answer_durable(struct node *node)
{
    uint64_t reached = 0;
    for (unsigned i = 0; i < LQ_BENCH_FLOOR_FOLLOWERS; i++)
        if (node->logs[i]->durable > reached)
            reached = node->logs[i]->durable;
    if (reached > node->durable)
        reached = node->durable;
    for (; node->answered < reached; node->answered++)
        answer(node);
}

static void sync_batch(struct node *node)
{
    struct lq_bench_floor_bytes *batch = &node->batch;
    if (batch->len == 0)
        return;
    if (lq_bench_floor_journal_append(&node->journal, batch->bytes, batch->len) != 0)
        die("journal");
    node->durable += batch->len / OP_BYTES;
    batch->len = 0;
    if (!node->leads)
        put(node, node->logs[0], (const uint8_t *)&node->durable, sizeof node->durable);
}

static void turn(struct node *node)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(node->epoll, events, EVENTS, -1);
    if (n < 0 && errno != EINTR)
        die("epoll");
    for (int i = 0; i < n; i++)
        serve(node, events[i].data.ptr, events[i].events);
    if (node->leads) {
        answer_durable(node);
        for (unsigned i = 0; node->batch.len > 0 && i < LQ_BENCH_FLOOR_FOLLOWERS; i++)
            put(node, node->logs[i], node->batch.bytes, node->batch.len);
    }
    flush_all(node);
    sync_batch(node);
    if (node->leads)
        answer_durable(node);
    flush_all(node);
}

static struct lq_bench_floor_peer *peer_new(const struct node *node, enum lq_bench_floor_kind kind,
                                            int fd)
{
    struct lq_bench_floor_peer *peer = lq_bench_floor_peer_new(kind, fd, node->epoll);
    if (peer == NULL)
        die("a link");
    return peer;
}

void lq_bench_floor_node_run(unsigned number, const struct lq_bench_floor_seat *seat)
{
    struct node node = {.leads = number == 0, .journal.fd = seat->journal};
    node.epoll = epoll_create1(EPOLL_CLOEXEC);
    peer_new(&node, LQ_BENCH_FLOOR_LISTENER, seat->listener);
    if (node.leads) {
        for (unsigned i = 0; i < LQ_BENCH_FLOOR_FOLLOWERS; i++) {
            node.logs[i] = peer_new(&node, LQ_BENCH_FLOOR_FOLLOWER, seat->logs[i]);
            peer_new(&node, LQ_BENCH_FLOOR_CLIENT, seat->relays[i]);
        }
    } else {
        node.logs[0] = peer_new(&node, LQ_BENCH_FLOOR_LEADER, seat->logs[0]);
        node.upstream = peer_new(&node, LQ_BENCH_FLOOR_UPSTREAM, seat->relays[0]);
    }
    for (;;)
        turn(&node);
}
