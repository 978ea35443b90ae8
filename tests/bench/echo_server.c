#include "echo_server.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net.h"
#include "options.h"

/* A client, with what the kernel did not take. While anything is left, nothing more is read from
 * it. */
struct peer {
    int fd;
    size_t left, at;
    uint8_t buffer[65536];
};

static int announce(int fd)
{
    char address[LQ_BENCH_ADDRESS_SIZE];
    if (lq_bench_net_name(fd, address, sizeof address) != 0)
        return -1;
    (void)fprintf(stderr, "level=info msg=listening address=%s\n", address);
    return 0;
}

static void accept_one(int epoll, int listener)
{
    struct epoll_event e = {.events = EPOLLIN};
    struct peer *p;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    p = malloc(sizeof *p);
    e.data.ptr = p;
    if (p == NULL || lq_bench_net_tune(fd) != 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) != 0) {
        free(p);
        close(fd);
        return;
    }
    p->fd = fd;
    p->left = p->at = 0;
}

/* Writes what is left and waits for room, or for input, accordingly. Returns 0 or -1. */
static int give_back(int epoll, struct peer *p, int was_waiting)
{
    struct epoll_event e = {.data.ptr = p};
    ssize_t n = send(p->fd, p->buffer + p->at, p->left, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return -1;
    if (n > 0) {
        p->at += (size_t)n;
        p->left -= (size_t)n;
    }
    if ((p->left > 0) == was_waiting)
        return 0;
    e.events = p->left > 0 ? EPOLLOUT : EPOLLIN;
    return epoll_ctl(epoll, EPOLL_CTL_MOD, p->fd, &e);
}

static int serve(int epoll, struct peer *p)
{
    ssize_t n;
    if (p->left > 0)
        return give_back(epoll, p, 1);
    n = recv(p->fd, p->buffer, sizeof p->buffer, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    p->at = 0;
    p->left = (size_t)n;
    return give_back(epoll, p, 0);
}

static void turn(int epoll, int listener)
{
    struct epoll_event events[256];
    int n = epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < n; i++) {
        struct peer *p = events[i].data.ptr;
        if (p == NULL) {
            accept_one(epoll, listener);
        } else if (serve(epoll, p) != 0) {
            close(p->fd);
            free(p);
        }
    }
}

int lq_bench_echo_server_run(const char *listen_address)
{
    char error[256];
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    int epoll, listener = lq_bench_net_listen(listen_address, error, sizeof error);
    if (listener < 0) {
        (void)fprintf(stderr, "lq_bench: %s\n", error);
        return LQ_BENCH_UNAVAILABLE;
    }
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e) != 0 ||
        announce(listener) != 0) {
        (void)fprintf(stderr, "lq_bench: cannot serve: %s\n", strerror(errno));
        return LQ_BENCH_FAILED;
    }
    for (;;)
        turn(epoll, listener);
}
