#include "lq_admin_impl.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* Takes the host out of "HOST", "HOST:PORT", "[IPV6]" or "[IPV6]:PORT". */
static bool take_host(const char *header, char ret_host[LQ_HOST_MAX + 1], bool *ret_is_bracketed)
{
    bool is_bracketed = header[0] == '[';
    const char *host = header + is_bracketed;
    size_t len = strcspn(host, is_bracketed ? "]" : ":");
    const char *rest = host + len;
    if (len == 0 || len > LQ_HOST_MAX || (is_bracketed && *rest++ != ']')) {
        return false;
    }
    if (*rest != '\0' && (*rest != ':' || strspn(rest + 1, "0123456789") != strlen(rest + 1))) {
        return false;
    }
    memcpy(ret_host, host, len);
    ret_host[len] = '\0';
    *ret_is_bracketed = is_bracketed;
    return true;
}

static bool is_ip(int family, const char *host)
{
    uint8_t address[sizeof(struct in6_addr)];
    return inet_pton(family, host, address) == 1;
}

bool lq_admin_host_is_known(const char *header, const char *own, const struct lq_members *members)
{
    char host[LQ_HOST_MAX + 1];
    bool is_bracketed;
    struct lq_address address;
    if (header == NULL) {
        return true; /* no browser leaves it out */
    }
    if (!take_host(header, host, &is_bracketed)) {
        return false;
    }
    if (is_bracketed) {
        return is_ip(AF_INET6, host);
    }
    if (is_ip(AF_INET, host) || strcasecmp(host, "localhost") == 0 || strcasecmp(host, own) == 0) {
        return true;
    }
    for (size_t i = 0; i < members->n; i++) {
        if (lq_address_parse(members->items[i].address, &address) &&
            strcasecmp(host, address.host) == 0) {
            return true;
        }
    }
    return false;
}
