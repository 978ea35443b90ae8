/* The few socket calls that the load, the echo server and the floor share. */
#ifndef LQ_BENCH_NET_H
#define LQ_BENCH_NET_H

#include <stddef.h>
#include <stdint.h>

enum {
    LQ_BENCH_ADDRESS_SIZE = 264, /* of a HOST:PORT and its end */
};

/* Nanoseconds of the monotonic clock. */
uint64_t lq_bench_net_now_ns(void);

/* Splits HOST:PORT or [IPV6]:PORT. Returns 0 with both texts filled, or -1. */
int lq_bench_net_split(const char *address, char host[256], char port[6]);

/* Copies the i-th address of a list with commas between them, which begins again at its end, as a
 * text. Returns 0, or -1 if it does not fit. */
int lq_bench_net_nth(const char *list, uint32_t i, char *ret_address, size_t size);

/* A connected, non-blocking socket without Nagle's delay, or -1 with the reason in error. */
int lq_bench_net_connect(const char *address, char *error, size_t size);

/* A non-blocking listening socket, or -1 with the reason in error. */
int lq_bench_net_listen(const char *address, char *error, size_t size);

/* The address that a socket is bound to, as HOST:PORT in digits. Returns 0 or -1. */
int lq_bench_net_name(int fd, char *ret_address, size_t size);

/* Switches a socket to non-blocking and Nagle's delay off. Returns 0 or -1 with errno. */
int lq_bench_net_tune(int fd);

/* Raises the soft limit of file descriptors to the hard one, for many connections. */
void lq_bench_net_raise_limit(void);

#endif
