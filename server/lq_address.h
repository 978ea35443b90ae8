/* Addresses as people write them: HOST:PORT, with an IPv6 host in brackets. */
#ifndef LQ_ADDRESS_H
#define LQ_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#define LQ_HOST_MAX 255

struct lq_address {
    char host[LQ_HOST_MAX + 1]; /* without brackets */
    char port[6];               /* 0 to 65535, decimal */
};

/* Room for the text of any address: brackets, host, colon, port. */
#define LQ_ADDRESS_TEXT (LQ_HOST_MAX + 9)

/* Takes HOST:PORT apart; false when it is not of that form. */
bool lq_address_parse(const char *text, struct lq_address *ret_address);

/* Writes a socket address as HOST:PORT, numerically. */
void lq_address_format(const struct sockaddr *address, socklen_t len,
                       char ret_text[LQ_ADDRESS_TEXT]);

#endif
