/* Accepting for the admin interface: connections are accepted here and handed to
 * libmicrohttpd, so that at the limit, and while the process has no descriptor left, they wait in
 * the kernel's queue without keeping the loop busy. */
#include "lq_admin_impl.h"
#include "lq_check.h"
#include "lq_clock.h"
#include "lq_limits.h"
#include "lq_listen.h"

#include <errno.h>
#include <sys/socket.h>

/* Connections accepted in one turn. */
#define ACCEPTS 16

/* Pause after running out of descriptors. */
#define RETRY_MS 100

/* ---- Accepting. */

static void pause_accepting(struct lq_admin *admin)
{
    admin->is_accepting = false;
    LQ_CHECK(uv_poll_stop(&admin->accepting) == 0);
}

static void on_accept_failed(struct lq_admin *admin, int error)
{
    if (lq_listen_has_run_out(error)) {
        pause_accepting(admin);
        admin->accept_again_ms = lq_clock_ms() + RETRY_MS;
    }
    /* Everything else concerns a connection that died while it waited. */
}

static void accept_some(struct lq_admin *admin)
{
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof peer;
        int fd;
        if (admin->n_links >= LQ_ADMIN_LINKS_MAX) {
            pause_accepting(admin);
            return;
        }
        fd = accept4(admin->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return;
        }
        if (fd < 0) {
            on_accept_failed(admin, errno);
            return;
        }
        /* Closes `fd` when it fails, which is no more than a connection lost. */
        (void)MHD_add_connection(admin->daemon, fd, (struct sockaddr *)&peer, len);
    }
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct lq_admin *admin = LQ_CONTAINER(poll, struct lq_admin, accepting);
    (void)events;
    if (status < 0) { /* the loop gave this descriptor up: try again in a moment */
        on_accept_failed(admin, ENOBUFS);
    } else {
        accept_some(admin);
    }
    lq_admin_run(admin);
}

void lq_admin_listen_resume(struct lq_admin *admin)
{
    if (admin->fd >= 0 && !admin->is_accepting) {
        admin->is_accepting = true;
        admin->accept_again_ms = LQ_NEVER;
        LQ_CHECK(uv_poll_start(&admin->accepting, UV_READABLE, on_ready) == 0);
    }
}

void lq_admin_listen_start(struct lq_admin *admin)
{
    LQ_CHECK(uv_poll_init_socket(admin->loop, &admin->accepting, admin->fd) == 0);
    lq_admin_listen_resume(admin);
}
