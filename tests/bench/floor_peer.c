#include "floor_peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

void lq_bench_floor_bytes_add(struct lq_bench_floor_bytes *to, const uint8_t *bytes, size_t len)
{
    if (len > to->size - to->len) {
        size_t size = 2 * to->size + len;
        uint8_t *grown = realloc(to->bytes, size);
        if (grown == NULL) {
            (void)fprintf(stderr, "lq_bench: out of memory\n");
            _exit(1);
        }
        to->bytes = grown;
        to->size = size;
    }
    memcpy(to->bytes + to->len, bytes, len);
    to->len += len;
}

struct lq_bench_floor_peer *lq_bench_floor_peer_new(enum lq_bench_floor_kind kind, int fd,
                                                    int epoll)
{
    struct lq_bench_floor_peer *peer = calloc(1, sizeof *peer);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = peer};
    if (peer == NULL)
        return NULL;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) != 0) {
        free(peer);
        return NULL;
    }
    peer->kind = kind;
    peer->fd = fd;
    peer->epoll = epoll;
    return peer;
}

void lq_bench_floor_peer_release(struct lq_bench_floor_peer *peer)
{
    if (peer->fd >= 0 || peer->waiting > 0 || peer->is_dirty)
        return;
    free(peer->out.bytes);
    free(peer);
}

void lq_bench_floor_peer_close(struct lq_bench_floor_peer *peer)
{
    close(peer->fd);
    peer->fd = -1;
}

int lq_bench_floor_peer_receive(struct lq_bench_floor_peer *peer)
{
    ssize_t n = recv(peer->fd, peer->in + peer->in_len, sizeof peer->in - peer->in_len, 0);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    peer->in_len += (size_t)n;
    return n == 0 ? -1 : 0;
}

void lq_bench_floor_peer_consumed(struct lq_bench_floor_peer *peer, size_t n)
{
    peer->in_len -= n;
    if (peer->in_len > 0)
        memmove(peer->in, peer->in + n, peer->in_len);
}

int lq_bench_floor_peer_flush(struct lq_bench_floor_peer *peer)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = peer};
    struct lq_bench_floor_bytes *out = &peer->out;
    ssize_t n = send(peer->fd, out->bytes, out->len, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return -1;
    if (n > 0) {
        out->len -= (size_t)n;
        memmove(out->bytes, out->bytes + n, out->len);
    }
    if ((out->len > 0) == peer->waits_to_write)
        return 0;
    peer->waits_to_write = out->len > 0;
    if (peer->waits_to_write)
        e.events |= EPOLLOUT;
    return epoll_ctl(peer->epoll, EPOLL_CTL_MOD, peer->fd, &e);
}
