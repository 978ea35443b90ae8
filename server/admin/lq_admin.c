/* The life of the admin interface: start (daemon, handles, listening socket), runs, stop.
 *
 * libmicrohttpd runs without threads of its own: it keeps its sockets in an epoll descriptor, which
 * the loop polls; whenever that is ready, or a time has come, it is given one run, in which it
 * reads what there is, has requests answered (lq_admin_http.c) and writes what can be written.
 *
 *   accepted -> request -> answered -> request -> ... -> closed by the client
 *                  \          \
 *                   too long: cut (shut down; libmicrohttpd notices in its next run and closes)
 *
 * Its own timeout counts from the latest byte, so a client could keep a place by sending a byte now
 * and then. Ours counts from the latest answer. */
#include "lq_admin_impl.h"
#include "lq_check.h"
#include "lq_clock.h"
#include "lq_limits.h"
#include "lq_listen.h"
#include "lq_log.h"
#include "lq_mem.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- Runs. */

/* When the oldest connection is to be cut. */
static uint64_t cut_at_ms(const struct lq_admin *admin)
{
    bool is_crowded = admin->n_links >= LQ_ADMIN_LINKS_MAX;
    if (lq_list_is_empty(&admin->links)) {
        return LQ_NEVER;
    }
    return LQ_CONTAINER(admin->links.next, struct lq_admin_link, in_links)->since_ms +
           (is_crowded ? lq_earlier(admin->timeout_ms, LQ_ADMIN_CROWDED_MS) : admin->timeout_ms);
}

static void cut_slow(struct lq_admin *admin, uint64_t now_ms)
{
    while (cut_at_ms(admin) <= now_ms) {
        struct lq_admin_link *link =
            LQ_CONTAINER(admin->links.next, struct lq_admin_link, in_links);
        lq_list_remove(&link->in_links);
        (void)shutdown(link->fd, SHUT_RDWR); /* may be closed by its client already */
    }
}

static void on_timer(uv_timer_t *timer);

static void arm(struct lq_admin *admin, uint64_t now_ms)
{
    uint64_t at_ms = lq_earlier(cut_at_ms(admin), admin->accept_again_ms);
    MHD_UNSIGNED_LONG_LONG wait_ms;
    if (MHD_get_timeout(admin->daemon, &wait_ms) == MHD_YES) {
        at_ms = lq_earlier(at_ms, now_ms + wait_ms);
    }
    if (at_ms == LQ_NEVER) {
        LQ_CHECK(uv_timer_stop(&admin->timer) == 0);
        return;
    }
    uv_update_time(admin->loop);
    LQ_CHECK(uv_timer_start(&admin->timer, on_timer, at_ms <= now_ms ? 0 : at_ms - now_ms, 0) == 0);
}

void lq_admin_run(struct lq_admin *admin)
{
    uint64_t now_ms;
    admin->is_running = true;
    (void)MHD_run(admin->daemon);
    admin->is_running = false;
    now_ms = lq_clock_ms();
    cut_slow(admin, now_ms);
    if (admin->accept_again_ms <= now_ms) {
        lq_admin_listen_resume(admin);
    }
    arm(admin, now_ms);
}

static void on_timer(uv_timer_t *timer)
{
    lq_admin_run(LQ_CONTAINER(timer, struct lq_admin, timer));
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    lq_admin_run(LQ_CONTAINER(poll, struct lq_admin, poll));
}

/* ---- Stopping. */

static void on_closed(uv_handle_t *handle)
{
    struct lq_admin *admin = handle->data;
    if (--admin->n_open == 0) {
        lq_free(admin);
    }
}

static void close_handle(struct lq_admin *admin, uv_handle_t *handle)
{
    handle->data = admin;
    admin->n_open++;
    uv_close(handle, on_closed);
}

void lq_admin_stop(struct lq_admin *admin)
{
    if (admin == NULL) {
        return;
    }
    LQ_CHECK(!admin->is_running);
    close_handle(admin, (uv_handle_t *)&admin->accepting); /* before the descriptors go */
    close_handle(admin, (uv_handle_t *)&admin->poll);
    close_handle(admin, (uv_handle_t *)&admin->timer);
    (void)close(admin->fd);
    admin->fd = -1;
    MHD_stop_daemon(admin->daemon);
    LQ_CHECK(admin->n_links == 0);
}

/* ---- Starting. */

static void open_handles(struct lq_admin *admin)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(admin->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    LQ_CHECK(info != NULL && info->epoll_fd >= 0);
    LQ_CHECK(uv_timer_init(admin->loop, &admin->timer) == 0);
    LQ_CHECK(uv_poll_init(admin->loop, &admin->poll, info->epoll_fd) == 0);
    LQ_CHECK(uv_poll_start(&admin->poll, UV_READABLE, on_poll) == 0);
}

struct lq_admin *lq_admin_start(uv_loop_t *loop, const char *address,
                                const struct lq_admin_user *user)
{
    struct lq_admin *admin = lq_calloc(1, sizeof *admin);
    admin->user = *user;
    admin->loop = loop;
    admin->accept_again_ms = LQ_NEVER;
    admin->timeout_ms = LQ_ADMIN_TIMEOUT_MS;
    lq_list_init(&admin->links);
    json_set_alloc_funcs(lq_malloc, lq_free);             /* so JSON never lacks memory either */
    LQ_CHECK(lq_address_parse(address, &admin->address)); /* the configuration checked it */
    admin->fd = lq_listen_open(address, "--admin", LQ_ADMIN_LINKS_MAX);
    if (admin->fd < 0) {
        lq_free(admin);
        return NULL;
    }
    lq_listen_log(admin->fd, "listening for admin");
    admin->daemon = lq_admin_http_start(admin);
    if (admin->daemon == NULL) {
        lq_log(LQ_LOG_ERROR, "cannot start the admin interface",
               LQ_TEXT("reason", strerror(errno)));
        (void)close(admin->fd);
        lq_free(admin);
        return NULL;
    }
    open_handles(admin);
    lq_admin_listen_start(admin);
    return admin;
}
