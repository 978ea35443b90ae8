/* The listening socket of the admin interface. Connections are accepted here and handed to
 * libmicrohttpd, so that at the limit, and while the process has no descriptor left, they wait in
 * the kernel's queue without keeping the loop busy. */
#include "lq_admin_impl.h"
#include "lq_check.h"
#include "lq_clock.h"
#include "lq_limits.h"
#include "lq_log.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
    if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
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

/* ---- Opening. */

/* A listening socket on one resolved address, or -1 with errno. */
static int listen_on(const struct addrinfo *info)
{
    int on = 1, error;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, LQ_ADMIN_LINKS_MAX) != 0) {
        error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* Resolves and listens on the first address that works; -1 when none does, which was logged. */
static int open_socket(const struct lq_address *address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *infos;
    int fd = -1, error = getaddrinfo(address->host, address->port, &hints, &infos);
    if (error != 0) {
        lq_log(LQ_LOG_ERROR, "cannot resolve the address of --admin",
               LQ_TEXT("host", address->host), LQ_TEXT("reason", gai_strerror(error)));
        return -1;
    }
    for (const struct addrinfo *info = infos; info != NULL && fd < 0; info = info->ai_next) {
        fd = listen_on(info);
    }
    error = errno;
    freeaddrinfo(infos);
    if (fd < 0) {
        lq_log(LQ_LOG_ERROR, "cannot listen for admin; is another server running there?",
               LQ_TEXT("host", address->host), LQ_TEXT("port", address->port),
               LQ_TEXT("reason", strerror(error)));
    }
    return fd;
}

bool lq_admin_listen_open(struct lq_admin *admin)
{
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    char text[LQ_ADDRESS_TEXT] = "unknown";
    admin->fd = open_socket(&admin->address);
    if (admin->fd < 0) {
        return false;
    }
    if (getsockname(admin->fd, (struct sockaddr *)&bound, &len) == 0) {
        lq_address_format((struct sockaddr *)&bound, len, text);
    }
    lq_log(LQ_LOG_INFO, "listening for admin", LQ_TEXT("address", text));
    return true;
}

void lq_admin_listen_start(struct lq_admin *admin)
{
    LQ_CHECK(uv_poll_init_socket(admin->loop, &admin->accepting, admin->fd) == 0);
    lq_admin_listen_resume(admin);
}
