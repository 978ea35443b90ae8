#include "lq_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_port(const char *text, char ret_port[6])
{
    size_t len = strlen(text);
    if (len < 1 || len > 5 || strspn(text, "0123456789") != len ||
        strtoul(text, NULL, 10) > 65535) {
        return false;
    }
    memcpy(ret_port, text, len + 1);
    return true;
}

bool lq_address_parse(const char *text, struct lq_address *ret_address)
{
    struct lq_address address;
    const char *colon = strrchr(text, ':');
    size_t len = colon == NULL ? 0 : (size_t)(colon - text);
    bool is_bracketed = len >= 2 && text[0] == '[' && text[len - 1] == ']';
    if (is_bracketed) {
        text++;
        len -= 2;
    }
    if (colon == NULL || len == 0 || len > LQ_HOST_MAX || !parse_port(colon + 1, address.port)) {
        return false;
    }
    if (!is_bracketed && memchr(text, ':', len) != NULL) {
        return false; /* an IPv6 host without brackets: where would its port begin? */
    }
    memcpy(address.host, text, len);
    address.host[len] = '\0';
    *ret_address = address;
    return true;
}

void lq_address_format(const struct sockaddr *address, socklen_t len,
                       char ret_text[LQ_ADDRESS_TEXT])
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    bool is_v6 = address->sa_family == AF_INET6;
    if (getnameinfo(address, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        (void)snprintf(ret_text, LQ_ADDRESS_TEXT, "unknown");
        return;
    }
    (void)snprintf(ret_text, LQ_ADDRESS_TEXT, "%s%.*s%s:%.5s", is_v6 ? "[" : "", LQ_HOST_MAX, host,
                   is_v6 ? "]" : "", port);
}
