/* Lists of servers, "HOST:PORT[,HOST:PORT...]", and their addresses. */
#ifndef LQ_ENDPOINTS_H
#define LQ_ENDPOINTS_H

#include "lq_client_limits.h"

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* "[" host "]:" port and the zero. */
#define LQ_ENDPOINT_TEXT_MAX (LQ_HOST_MAX + 10)

struct lq_endpoint {
    char host[LQ_HOST_MAX + 1];
    char port[6];
};

struct lq_address {
    struct sockaddr_storage socket_address;
    socklen_t len;
    size_t endpoint; /* index of the endpoint that it belongs to */
};

struct lq_endpoints {
    size_t n, n_addresses;
    struct lq_endpoint items[LQ_ENDPOINTS_MAX];
    struct lq_address addresses[LQ_ADDRESSES_MAX];
};

/* The port of a server that is named without one. */
#define LQ_ENDPOINTS_PORT "7311"

/* Reads a list. Pure. On failure returns false, with what is wrong and how to mend it in
 * `ret_error` (zero-terminated); `ret_endpoints` is undefined then. Without :PORT the port is
 * `default_port`, or there is a fault when that is NULL. */
bool lq_endpoints_parse(struct lq_endpoints *ret_endpoints, const char *text,
                        const char *default_port, char *ret_error, size_t error_cap);

/* Looks the hosts up; may block for as long as the system's resolver does. False when none has an
 * address, with the reason in `ret_error`. */
bool lq_endpoints_resolve(struct lq_endpoints *endpoints, char *ret_error, size_t error_cap);

/* The same without looking names up, which blocks nobody: a name gets one address without length.
 * Returns how many names there are. */
size_t lq_endpoints_resolve_numbers(struct lq_endpoints *endpoints);

/* Adds the addresses found for endpoint `i`, leaving room for at least one of each that follows. To
 * be called in the order of the endpoints, with `n_addresses` 0 at first. */
void lq_endpoints_add(struct lq_endpoints *endpoints, size_t i, const struct addrinfo *found);

/* Nothing was found for endpoint `i`: adds the addresses that it had. */
void lq_endpoints_add_old(struct lq_endpoints *endpoints, size_t i, const struct lq_endpoints *old);

/* Writes "HOST:PORT" of endpoint `i`. */
void lq_endpoints_text(const struct lq_endpoints *endpoints, size_t i, char *ret_text, size_t cap);

#endif
