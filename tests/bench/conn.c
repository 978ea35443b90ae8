#include "conn.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load.h"
#include "net.h"

int lq_bench_conn_open(struct lq_bench_conn *conn, const char *target, int epoll, size_t in_size,
                       size_t out_size)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = conn};
    conn->epoll = epoll;
    conn->in_size = in_size;
    conn->out_size = out_size;
    conn->in = malloc(in_size);
    conn->out = malloc(out_size);
    conn->fd = lq_bench_net_connect(target, conn->error, sizeof conn->error);
    if (conn->fd < 0)
        return -1;
    if (conn->in == NULL || conn->out == NULL)
        return lq_bench_conn_fail(conn, "out of memory");
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, conn->fd, &e) != 0)
        return lq_bench_conn_fail(conn, "epoll: %s", strerror(errno));
    return 0;
}

void lq_bench_conn_close(struct lq_bench_conn *conn)
{
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
    free(conn->in);
    free(conn->out);
    conn->in = conn->out = NULL;
}

int lq_bench_conn_receive(struct lq_bench_conn *conn)
{
    ssize_t n = recv(conn->fd, conn->in + conn->in_len, conn->in_size - conn->in_len, 0);
    if (n > 0) {
        conn->in_len += (size_t)n;
        return 0;
    }
    if (n == 0)
        return lq_bench_conn_fail(conn, "the server closed the connection");
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    return lq_bench_conn_fail(conn, "read: %s", strerror(errno));
}

void lq_bench_conn_consumed(struct lq_bench_conn *conn, size_t n)
{
    conn->in_len -= n;
    if (conn->in_len > 0)
        memmove(conn->in, conn->in + n, conn->in_len);
}

static int want_write(struct lq_bench_conn *conn, bool wanted)
{
    struct epoll_event e = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = conn};
    if (conn->waits_to_write == wanted)
        return 0;
    if (epoll_ctl(conn->epoll, EPOLL_CTL_MOD, conn->fd, &e) != 0)
        return lq_bench_conn_fail(conn, "epoll: %s", strerror(errno));
    conn->waits_to_write = wanted;
    return 0;
}

int lq_bench_conn_flush(struct lq_bench_conn *conn)
{
    ssize_t n;
    if (conn->out_len == 0)
        return 0;
    n = send(conn->fd, conn->out, conn->out_len, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return lq_bench_conn_fail(conn, "write: %s", strerror(errno));
    if (n > 0) {
        conn->out_len -= (size_t)n;
        if (conn->out_len > 0)
            memmove(conn->out, conn->out + n, conn->out_len);
    }
    return want_write(conn, conn->out_len > 0);
}

int lq_bench_conn_fail(struct lq_bench_conn *conn, const char *format, ...)
{
    va_list ap;
    if (conn->error[0] == '\0') {
        va_start(ap, format);
        (void)vsnprintf(conn->error, sizeof conn->error, format, ap);
        va_end(ap);
    }
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
    return -1;
}

void lq_bench_conn_push(struct lq_bench_conn *conn, struct lq_bench_slot *slot)
{
    slot->next = NULL;
    if (conn->last != NULL)
        conn->last->next = slot;
    else
        conn->first = slot;
    conn->last = slot;
}

struct lq_bench_slot *lq_bench_conn_pop(struct lq_bench_conn *conn)
{
    struct lq_bench_slot *slot = conn->first;
    if (slot != NULL) {
        conn->first = slot->next;
        if (conn->first == NULL)
            conn->last = NULL;
    }
    return slot;
}
