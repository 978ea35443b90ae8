#include "lq_listen.h"

#include "lq_address.h"
#include "lq_check.h"
#include "lq_log.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A listening socket on one resolved address, or -1 with errno. */
static int listen_on(const struct addrinfo *info, int backlog)
{
    int on = 1, error;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, backlog) != 0) {
        error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

int lq_listen_open(const char *address, const char *setting, int backlog)
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
        fd = listen_on(info, backlog);
    }
    error = errno;
    freeaddrinfo(infos);
    if (fd < 0) {
        lq_log(LQ_LOG_ERROR, "cannot listen; is another server running there?",
               LQ_TEXT("address", address), LQ_TEXT("setting", setting),
               LQ_TEXT("reason", strerror(error)));
    }
    return fd;
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
