/* The port on which peers come in. Whoever connects costs a descriptor and a few bytes until it has
 * said who it is; there are few of these, and the oldest makes room for the newest, so that a crowd
 * that says nothing does not keep a peer out, which speaks at once. */
#include "lq_check.h"
#include "lq_clock.h"
#include "lq_heap.h"
#include "lq_links_impl.h"
#include "lq_listen.h"
#include "lq_log.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections accepted in one round of the loop. */
#define ACCEPTS 32

/* Pause after running out of descriptors. */
#define RETRY_MS 100

static void on_ready(uv_poll_t *poll, int status, int events);

static void on_accept_failed(struct lq_links *links, int error)
{
    if (!lq_listen_has_run_out(error)) {
        return; /* a connection that died while it waited */
    }
    if (lq_limiter_allows(&links->refusals, "accept", lq_clock_ms(), LQ_REFUSED_LOG_MS)) {
        lq_log(LQ_LOG_WARN, "cannot accept connections of peers for now",
               LQ_TEXT("reason", strerror(error)));
    }
    LQ_CHECK(uv_poll_stop(&links->port) == 0);
    links->port_at_ms = lq_clock_ms() + RETRY_MS;
    lq_links_wake_at(links, links->port_at_ms);
}

void lq_port_resume(struct lq_links *links)
{
    if (links->port_fd >= 0) {
        links->port_at_ms = LQ_NEVER;
        LQ_CHECK(uv_poll_start(&links->port, UV_READABLE, on_ready) == 0);
    }
}

static void evict(struct lq_links *links)
{
    struct lq_conn *oldest = NULL;
    unsigned n = 0;
    for (struct lq_list *at = links->conns.prev; at != &links->conns; at = at->prev) {
        struct lq_conn *conn = LQ_CONTAINER(at, struct lq_conn, in_conns);
        if (conn->peer == NULL) {
            oldest = conn;
            n++;
        }
    }
    if (n >= LQ_NAMELESS_MAX) {
        lq_conn_close(oldest);
    }
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct lq_links *links = LQ_CONTAINER(poll, struct lq_links, port);
    (void)events;
    if (status < 0) { /* the loop gave this descriptor up: try again in a moment */
        on_accept_failed(links, ENOBUFS);
        return;
    }
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage address;
        socklen_t len = sizeof address;
        int fd = accept4(links->port_fd, (struct sockaddr *)&address, &len,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            on_accept_failed(links, errno);
            return;
        }
        evict(links);
        (void)lq_conn_new(links, fd, LQ_CONN_WAITING, (struct sockaddr *)&address, len);
    }
}

bool lq_links_listen(struct lq_links *links, const char *address)
{
    LQ_CHECK(links->port_fd < 0);
    links->port_fd = lq_listen_open(address, "--peer, or --peer-listen", SOMAXCONN);
    if (links->port_fd < 0) {
        return false;
    }
    LQ_CHECK(uv_poll_init_socket(links->loop, &links->port, links->port_fd) == 0);
    links->n_open++;
    lq_port_resume(links);
    lq_listen_log(links->port_fd, "listening for peers");
    return true;
}

static void on_closed(uv_handle_t *handle)
{
    lq_links_release(LQ_CONTAINER(handle, struct lq_links, port));
}

void lq_port_close(struct lq_links *links)
{
    if (links->port_fd >= 0) {
        uv_close((uv_handle_t *)&links->port, on_closed);
        (void)close(links->port_fd);
        links->port_fd = -1;
    }
}
