#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

uint64_t lq_bench_net_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

int lq_bench_net_split(const char *address, char host[256], char port[6])
{
    const char *colon = strrchr(address, ':');
    size_t len = colon != NULL ? (size_t)(colon - address) : 0;
    if (len == 0 || strlen(colon + 1) == 0 || strlen(colon + 1) > 5)
        return -1;
    if (address[0] == '[' && address[len - 1] == ']') {
        address++;
        len -= 2;
    }
    if (len == 0 || len > 255)
        return -1;
    memcpy(host, address, len);
    host[len] = '\0';
    memcpy(port, colon + 1, strlen(colon + 1) + 1);
    return 0;
}

int lq_bench_net_nth(const char *list, uint32_t i, char *ret_address, size_t size)
{
    const char *word = list;
    uint32_t n = 1;
    size_t len;
    for (const char *at = list; *at != '\0'; at++)
        n += *at == ',';
    for (i %= n; i > 0; i--)
        word += strcspn(word, ",") + 1;
    len = strcspn(word, ",");
    if (len >= size)
        return -1;
    memcpy(ret_address, word, len);
    ret_address[len] = '\0';
    return 0;
}

int lq_bench_net_tune(int fd)
{
    int on = 1, flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return -1;
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Fills *ret with the addresses of HOST:PORT; the caller frees them. */
static int resolve(const char *address, int flags, struct addrinfo **ret, char *error, size_t size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    char host[256], port[6];
    int rv;
    if (lq_bench_net_split(address, host, port) != 0) {
        (void)snprintf(error, size, "'%s' is not HOST:PORT", address);
        return -1;
    }
    rv = getaddrinfo(host, port, &hints, ret);
    if (rv != 0) {
        (void)snprintf(error, size, "%s: %s", address, gai_strerror(rv));
        return -1;
    }
    return 0;
}

int lq_bench_net_connect(const char *address, char *error, size_t size)
{
    struct addrinfo *list, *a;
    int fd = -1;
    if (resolve(address, AI_NUMERICSERV, &list, error, size) != 0)
        return -1;
    for (a = list; a != NULL; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0 && lq_bench_net_tune(fd) == 0)
            break;
        (void)snprintf(error, size, "cannot connect to %s: %s", address, strerror(errno));
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    return fd;
}

int lq_bench_net_listen(const char *address, char *error, size_t size)
{
    struct addrinfo *list;
    int fd, on = 1;
    if (resolve(address, AI_NUMERICSERV | AI_PASSIVE, &list, error, size) != 0)
        return -1;
    fd = socket(list->ai_family, list->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, list->ai_addr, list->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0) {
        (void)snprintf(error, size, "cannot listen on %s: %s", address, strerror(errno));
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    return fd;
}

int lq_bench_net_name(int fd, char *ret_address, size_t size)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    char host[64], port[8];
    int n;
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0 ||
        getnameinfo((struct sockaddr *)&address, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return -1;
    n = snprintf(ret_address, size, address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host,
                 port);
    return n > 0 && (size_t)n < size ? 0 : -1;
}

void lq_bench_net_raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* a connection that fails for it says so */
    }
}
