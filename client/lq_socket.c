#include "lq_socket.h"

#include "lq_time.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Reading in one turn goes round at most so often: a server that talks without end must not keep
 * the deadlines from being looked at. */
#define READS_PER_TURN 16

static void set_option(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof value); /* each is a help, none is needed */
}

static int open_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, LQ_USER_TIMEOUT_MS);
        set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
        set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, LQ_KEEPALIVE_IDLE_S);
        set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, LQ_KEEPALIVE_INTERVAL_S);
        set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, LQ_KEEPALIVE_PROBES);
    }
    return fd;
}

static void lose(struct lq_core *core, struct lq_channel *channel, enum lq_why why, int code)
{
    lq_core_lost(core, channel, lq_time_now_ms(), why, code);
}

int lq_socket_dial(struct lq_core *core, struct lq_channel *channel,
                   const struct lq_address *address)
{
    int code, fd = open_socket(address->socket_address.ss_family);

    if (fd < 0) {
        lose(core, channel, LQ_WHY_DIAL, errno);
        return -1;
    }
    if (connect(fd, (const struct sockaddr *)&address->socket_address, address->len) == 0 ||
        errno == EINPROGRESS) {
        return fd;
    }
    code = errno;
    (void)close(fd);
    lose(core, channel, LQ_WHY_DIAL, code);
    return -1;
}

/* Whether we are connected to ourselves: when nobody listens, the kernel may by chance give our end
 * the very port that we connect to (TCP's simultaneous open). */
static bool is_self_connected(int fd)
{
    struct sockaddr_storage ours = {0}, theirs = {0};
    socklen_t our_len = sizeof ours, their_len = sizeof theirs;

    return getsockname(fd, (struct sockaddr *)&ours, &our_len) == 0 &&
           getpeername(fd, (struct sockaddr *)&theirs, &their_len) == 0 && our_len == their_len &&
           memcmp(&ours, &theirs, our_len) == 0;
}

bool lq_socket_finish_dial(struct lq_core *core, struct lq_channel *channel, int fd)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLOUT};
    int code = 0;
    socklen_t len = sizeof code;

    if (poll(&pollfd, 1, 0) <= 0) {
        return false;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) != 0) {
        code = errno;
    }
    if (code == 0 && is_self_connected(fd)) {
        code = ECONNREFUSED;
    }
    if (code != 0) {
        lose(core, channel, LQ_WHY_DIAL, code);
    } else {
        lq_core_connected(core, channel, lq_time_now_ms());
    }
    return true;
}

static bool is_temporary(int code)
{
    return code == EAGAIN || code == EWOULDBLOCK || code == EINTR;
}

void lq_socket_receive(struct lq_core *core, struct lq_channel *channel, int fd)
{
    size_t cap;
    ssize_t n;

    for (int i = 0; i < READS_PER_TURN && lq_core_is_open(channel); i++) {
        uint8_t *space = lq_core_space(core, channel, &cap);
        n = recv(fd, space, cap, 0);
        if (n > 0) {
            lq_core_received(core, channel, (size_t)n, lq_time_now_ms());
            if ((size_t)n < cap) {
                return; /* that was all */
            }
        } else if (n == 0) {
            lose(core, channel, LQ_WHY_EOF, 0);
        } else if (is_temporary(errno)) {
            return;
        } else {
            lose(core, channel, LQ_WHY_BROKEN, errno);
        }
    }
}

void lq_socket_transmit(struct lq_core *core, struct lq_channel *channel, int fd)
{
    while (lq_core_is_open(channel)) {
        size_t len;
        const uint8_t *bytes = lq_core_output(core, channel, lq_time_now_ms(), &len);
        ssize_t n;

        if (len == 0) {
            return;
        }
        n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n > 0) {
            lq_core_wrote(core, channel, (size_t)n);
        } else if (n == 0 || is_temporary(errno)) {
            lq_core_full(core, channel);
            return;
        } else {
            lose(core, channel, LQ_WHY_BROKEN, errno);
        }
    }
}
