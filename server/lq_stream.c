#include "lq_stream.h"

#include "lq_check.h"
#include "lq_limits.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Silence that the kernel, or the watch over connections, takes for the end: their timers are
 * coarse, and the promise is LQ_VANISHED_MS. */
#define SILENCE_MS (LQ_VANISHED_MS - 2000)

/* An idle connection is probed after 4, 7, 10 and 13 s; at the last the silence has lasted. */
#define KEEPALIVE_IDLE_S  4
#define KEEPALIVE_AGAIN_S 3
#define KEEPALIVE_PROBES  3

_Static_assert(SILENCE_MS == 1000 * (KEEPALIVE_IDLE_S + KEEPALIVE_PROBES * KEEPALIVE_AGAIN_S),
               "the last probe ends the silence");

static enum lq_stream_result failure(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? LQ_STREAM_BLOCKED
                                                                     : LQ_STREAM_BROKEN;
}

static enum lq_stream_result tcp_read(struct lq_stream *stream, uint8_t *ret_bytes, size_t cap,
                                      size_t *ret_len)
{
    ssize_t n = recv(stream->fd, ret_bytes, cap, 0);
    *ret_len = n > 0 ? (size_t)n : 0;
    if (n < 0) {
        return failure();
    }
    return n == 0 ? LQ_STREAM_EOF : LQ_STREAM_OK;
}

static enum lq_stream_result tcp_write(struct lq_stream *stream, const struct lq_view *views,
                                       size_t n, size_t *ret_len)
{
    struct iovec parts[LQ_STREAM_VIEWS];
    struct msghdr message = {.msg_iov = parts};
    ssize_t sent;
    LQ_CHECK(n >= 1 && n <= LQ_STREAM_VIEWS);
    for (size_t i = 0; i < n; i++) {
        /* iovec has no const; sendmsg does not write */
        parts[i].iov_base = (void *)(uintptr_t)views[i].bytes;
        parts[i].iov_len = views[i].len;
    }
    message.msg_iovlen = n;
    sent = n == 1 ? send(stream->fd, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL)
                  : sendmsg(stream->fd, &message, MSG_NOSIGNAL);
    *ret_len = sent > 0 ? (size_t)sent : 0;
    return sent < 0 ? failure() : LQ_STREAM_OK;
}

static void tcp_shutdown(struct lq_stream *stream)
{
    (void)shutdown(stream->fd, SHUT_WR); /* fails only when the connection is gone anyway */
}

static void tcp_close(struct lq_stream *stream)
{
    (void)close(stream->fd);
    stream->fd = -1;
}

static const struct lq_stream_ops tcp_ops = {
    .read = tcp_read, .write = tcp_write, .shutdown = tcp_shutdown, .close = tcp_close};

/* These can fail only on a socket that is dead already, which its first read tells. */
static void set_option(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof value);
}

/* Without TCP_USER_TIMEOUT: it ends connections whose window was closed for so long, although the
 * other host answers, and counts from when the window was closed first, even if it has been open
 * again. The watch over connections does what it was for. */
void lq_stream_tcp_init(struct lq_stream *stream, int fd)
{
    *stream = (struct lq_stream){.ops = &tcp_ops, .fd = fd};
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_AGAIN_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
}

/* The kernel's view of the connection; false when it can't be had. */
static bool read_info(const struct lq_stream *stream, struct tcp_info *ret_info)
{
    socklen_t len = sizeof *ret_info;
    return getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, ret_info, &len) == 0;
}

bool lq_stream_has_vanished(const struct lq_stream *stream)
{
    struct tcp_info info;
    if (!read_info(stream, &info) || info.tcpi_state == TCP_CLOSE) {
        return true;
    }
    /* A host whose window is closed is probed ever more seldom, and answers: silence alone proves
     * nothing there. */
    return info.tcpi_probes >= 2 || (info.tcpi_unacked > 0 && info.tcpi_last_ack_recv > SILENCE_MS);
}

bool lq_stream_is_all_acknowledged(const struct lq_stream *stream)
{
    int n_left = 0;
    return ioctl(stream->fd, SIOCOUTQ, &n_left) == 0 && n_left == 0;
}

bool lq_stream_is_dead(const struct lq_stream *stream)
{
    struct tcp_info info;
    return !read_info(stream, &info) || info.tcpi_state == TCP_CLOSE;
}
