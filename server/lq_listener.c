/* Accepting connections. At the cap, and while the process has no descriptor left, new connections
 * stay in the kernel's queue: capacity is never an error. */
#include "lq_check.h"
#include "lq_clock.h"
#include "lq_listen.h"
#include "lq_log.h"
#include "lq_server_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections accepted in one turn. */
#define ACCEPTS 128

/* Pause after running out of descriptors. */
#define RETRY_MS 100

#define WARN_MS 10000

static void on_ready(uv_poll_t *poll, int status, int events);

static void pause_accepting(struct lq_listener *listener)
{
    listener->is_paused = true;
    LQ_CHECK(uv_poll_stop(&listener->poll) == 0);
}

void lq_listener_resume(struct lq_listener *listener)
{
    if (listener->fd < 0 || !listener->is_paused) {
        return;
    }
    listener->is_paused = false;
    LQ_CHECK(uv_poll_start(&listener->poll, UV_READABLE, on_ready) == 0);
}

static void on_retry(uv_timer_t *timer)
{
    lq_listener_resume(LQ_CONTAINER(timer, struct lq_listener, retry));
}

/* Trouble that goes on is told every ten seconds, not every time. */
static bool may_warn(struct lq_listener *listener)
{
    uint64_t now_ms = lq_clock_ms();
    if (now_ms < listener->next_warn_ms) {
        return false;
    }
    listener->next_warn_ms = now_ms + WARN_MS;
    return true;
}

static void on_accept_failed(struct lq_listener *listener, int error)
{
    if (lq_listen_has_run_out(error)) {
        lq_log(LQ_LOG_WARN, "cannot accept connections for now", LQ_TEXT("reason", strerror(error)),
               LQ_NUMBER("connections", listener->server->n_links));
        pause_accepting(listener);
        LQ_CHECK(uv_timer_start(&listener->retry, on_retry, RETRY_MS, 0) == 0);
    }
}

static bool is_full(struct lq_listener *listener)
{
    struct lq_server *server = listener->server;
    if (server->n_links < server->max_links) {
        return false;
    }
    if (may_warn(listener)) {
        lq_log(LQ_LOG_WARN, "all connections taken, further ones wait; see --max-connections",
               LQ_NUMBER("connections", server->n_links));
    }
    pause_accepting(listener);
    return true;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct lq_listener *listener = LQ_CONTAINER(poll, struct lq_listener, poll);
    (void)events;
    if (status < 0) { /* the loop gave this descriptor up: try again in a moment */
        on_accept_failed(listener, ENOBUFS);
        return;
    }
    for (int i = 0; i < ACCEPTS; i++) {
        int fd;
        lq_server_make_room(listener->server);
        if (listener->fd < 0 || is_full(listener)) {
            return;
        }
        fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return;
        }
        if (fd < 0) {
            on_accept_failed(listener, errno);
            return;
        }
        listener->server->n_calls++;
        lq_link_open(listener->server, fd);
    }
}

bool lq_listener_start(struct lq_listener *listener, struct lq_server *server, const char *address)
{
    listener->server = server;
    listener->fd = lq_listen_open(address, "--listen", SOMAXCONN);
    if (listener->fd < 0) {
        return false;
    }
    LQ_CHECK(uv_timer_init(&server->loop, &listener->retry) == 0);
    LQ_CHECK(uv_poll_init_socket(&server->loop, &listener->poll, listener->fd) == 0);
    listener->is_paused = true;
    lq_listener_resume(listener);
    lq_listen_log(listener->fd, "listening");
    return true;
}

void lq_listener_stop(struct lq_listener *listener)
{
    if (listener->fd < 0) {
        return;
    }
    uv_close((uv_handle_t *)&listener->retry, NULL);
    uv_close((uv_handle_t *)&listener->poll, NULL);
    (void)close(listener->fd);
    listener->fd = -1;
}
