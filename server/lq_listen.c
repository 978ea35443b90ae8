#include "lq_listen.h"

#include "lq_address.h"
#include "lq_check.h"
#include "lq_log.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Sockets that were bound in advance: for clients, peers and admin. */
#define BOUND_MAX 3

static struct {
    const char *address;
    int fd;
} bound[BOUND_MAX];
static size_t n_bound;

/* A socket bound to one resolved address, or -1 with errno. */
static int bind_to(const struct addrinfo *info)
{
    int on = 1, error;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, info->ai_addr, info->ai_addrlen) != 0) {
        error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int listen_on(int fd, int backlog)
{
    int error;
    if (fd >= 0 && listen(fd, backlog) != 0) {
        error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static void log_failure(const char *address, const char *setting, int error)
{
    lq_log(LQ_LOG_ERROR, "cannot listen; is another server running there?",
           LQ_TEXT("address", address), LQ_TEXT("setting", setting),
           LQ_TEXT("reason", strerror(error)));
}

/* Bound to the first address that works; with a backlog it listens, too. */
static int open_socket(const char *address, const char *setting, int backlog)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *infos;
    struct lq_address parsed;
    int fd = -1, error;
    LQ_CHECK(lq_address_parse(address, &parsed)); /* the configuration checked it */
    error = getaddrinfo(parsed.host, parsed.port, &hints, &infos);
    if (error != 0) {
        lq_log(LQ_LOG_ERROR, "cannot resolve the address to listen on", LQ_TEXT("address", address),
               LQ_TEXT("setting", setting), LQ_TEXT("reason", gai_strerror(error)));
        return -1;
    }
    for (const struct addrinfo *info = infos; info != NULL && fd < 0; info = info->ai_next) {
        fd = bind_to(info);
        fd = backlog == 0 ? fd : listen_on(fd, backlog);
    }
    error = errno;
    freeaddrinfo(infos);
    if (fd < 0) {
        log_failure(address, setting, error);
    }
    return fd;
}

bool lq_listen_bind(const char *address, const char *setting)
{
    int fd = open_socket(address, setting, 0);
    LQ_CHECK(n_bound < BOUND_MAX);
    if (fd >= 0) {
        bound[n_bound].address = address;
        bound[n_bound++].fd = fd;
    }
    return fd >= 0;
}

int lq_listen_open(const char *address, const char *setting, int backlog)
{
    for (size_t i = 0; i < n_bound; i++) {
        int fd = bound[i].fd;
        if (fd >= 0 && strcmp(bound[i].address, address) == 0) {
            bound[i].fd = -1;
            fd = listen_on(fd, backlog);
            if (fd < 0) {
                log_failure(address, setting, errno);
            }
            return fd;
        }
    }
    return open_socket(address, setting, backlog);
}

void lq_listen_log(int fd, const char *msg)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    char text[LQ_ADDRESS_TEXT] = "unknown";
    if (getsockname(fd, (struct sockaddr *)&address, &len) == 0) {
        lq_address_format((struct sockaddr *)&address, len, text);
    }
    lq_log(LQ_LOG_INFO, msg, LQ_TEXT("address", text));
}

bool lq_listen_has_run_out(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}
