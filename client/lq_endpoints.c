#include "lq_endpoints.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool copy_port(struct lq_endpoint *endpoint, const char *port, size_t len)
{
    unsigned long value;
    if (len < 1 || len > 5 || strspn(port, "0123456789") < len) {
        return false;
    }
    memcpy(endpoint->port, port, len);
    endpoint->port[len] = '\0';
    value = strtoul(endpoint->port, NULL, 10);
    return value >= 1 && value <= 65535;
}

static bool copy_host(struct lq_endpoint *endpoint, const char *host, size_t len)
{
    if (len < 1 || len > LQ_HOST_MAX || memchr(host, ' ', len) != NULL) {
        return false;
    }
    memcpy(endpoint->host, host, len);
    endpoint->host[len] = '\0';
    return true;
}

/* Reads one "HOST", "HOST:PORT", "[IPV6]" or "[IPV6]:PORT". Returns NULL, or what is wrong. */
static const char *parse_one(struct lq_endpoint *endpoint, const char *text, size_t len,
                             const char *default_port)
{
    const char *host = text, *rest, *end = text + len;
    size_t host_len;

    if (len > 0 && text[0] == '[') {
        rest = memchr(text, ']', len);
        if (rest == NULL) {
            return "a ']' is missing behind the IPv6 address";
        }
        host = text + 1;
        host_len = (size_t)(rest - host);
        rest++;
    } else {
        rest = memchr(text, ':', len);
        rest = rest == NULL ? end : rest;
        host_len = (size_t)(rest - host);
        if (rest < end && memchr(rest + 1, ':', (size_t)(end - rest - 1)) != NULL) {
            return "put an IPv6 address in brackets, as in [::1]:7311";
        }
    }
    if (!copy_host(endpoint, host, host_len)) {
        return "the host is missing or cannot be a name; write HOST:PORT";
    }
    if (rest == end && default_port != NULL) {
        (void)snprintf(endpoint->port, sizeof endpoint->port, "%s", default_port);
        return NULL;
    }
    if (rest == end) {
        return "the port is missing; write HOST:PORT";
    }
    if (*rest != ':' || !copy_port(endpoint, rest + 1, (size_t)(end - rest - 1))) {
        return "the port must be a number from 1 to 65535; write HOST:PORT";
    }
    return NULL;
}

bool lq_endpoints_parse(struct lq_endpoints *ret_endpoints, const char *text,
                        const char *default_port, char *ret_error, size_t error_cap)
{
    const char *at = text;

    ret_endpoints->n = ret_endpoints->n_addresses = 0;
    for (;;) {
        size_t len = strcspn(at, ",");
        const char *fault;
        if (ret_endpoints->n == LQ_ENDPOINTS_MAX) {
            (void)snprintf(ret_error, error_cap, "more than %d endpoints", LQ_ENDPOINTS_MAX);
            return false;
        }
        fault = parse_one(&ret_endpoints->items[ret_endpoints->n], at, len, default_port);
        if (fault != NULL) {
            (void)snprintf(ret_error, error_cap, "endpoint '%.*s': %s", len < 80 ? (int)len : 80,
                           at, fault);
            return false;
        }
        ret_endpoints->n++;
        if (at[len] == '\0') {
            return true;
        }
        at += len + 1;
    }
}

/* Each endpoint behind this one keeps room for one address. */
static size_t room_for(const struct lq_endpoints *endpoints, size_t i)
{
    return LQ_ADDRESSES_MAX - endpoints->n_addresses - (endpoints->n - 1 - i);
}

void lq_endpoints_add(struct lq_endpoints *endpoints, size_t i, const struct addrinfo *found)
{
    size_t room = room_for(endpoints, i);

    for (; found != NULL && room > 0; found = found->ai_next, room--) {
        struct lq_address *address = &endpoints->addresses[endpoints->n_addresses++];
        memcpy(&address->socket_address, found->ai_addr, found->ai_addrlen);
        address->len = found->ai_addrlen;
        address->endpoint = i;
    }
}

void lq_endpoints_add_old(struct lq_endpoints *endpoints, size_t i, const struct lq_endpoints *old)
{
    size_t room = room_for(endpoints, i);

    for (size_t j = 0; j < old->n_addresses && room > 0; j++) {
        if (old->addresses[j].endpoint == i) {
            endpoints->addresses[endpoints->n_addresses++] = old->addresses[j];
            room--;
        }
    }
}

/* Looks one endpoint up. Returns an EAI code. */
static int resolve_one(struct lq_endpoints *endpoints, size_t i, int flags)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    struct addrinfo *found = NULL;
    int code = getaddrinfo(endpoints->items[i].host, endpoints->items[i].port, &hints, &found);

    if (code == 0) {
        lq_endpoints_add(endpoints, i, found);
        freeaddrinfo(found);
    }
    return code;
}

size_t lq_endpoints_resolve_numbers(struct lq_endpoints *endpoints)
{
    size_t n_names = 0;

    endpoints->n_addresses = 0;
    for (size_t i = 0; i < endpoints->n; i++) {
        if (resolve_one(endpoints, i, AI_NUMERICHOST) != 0) {
            endpoints->addresses[endpoints->n_addresses++] = (struct lq_address){.endpoint = i};
            n_names++;
        }
    }
    return n_names;
}

bool lq_endpoints_resolve(struct lq_endpoints *endpoints, char *ret_error, size_t error_cap)
{
    const struct lq_endpoints old = *endpoints;

    endpoints->n_addresses = 0;
    for (size_t i = 0; i < endpoints->n; i++) {
        int code = resolve_one(endpoints, i, 0);
        if (code != 0) {
            lq_endpoints_add_old(endpoints, i, &old);
            (void)snprintf(ret_error, error_cap, "no address for host '%.80s': %s",
                           endpoints->items[i].host, gai_strerror(code));
        }
    }
    return endpoints->n_addresses > 0;
}

void lq_endpoints_text(const struct lq_endpoints *endpoints, size_t i, char *ret_text, size_t cap)
{
    const struct lq_endpoint *endpoint = &endpoints->items[i];
    bool ipv6 = strchr(endpoint->host, ':') != NULL;
    (void)snprintf(ret_text, cap, "%s%s%s:%s", ipv6 ? "[" : "", endpoint->host, ipv6 ? "]" : "",
                   endpoint->port);
}
