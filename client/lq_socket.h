/* The core's channels as TCP sockets, non-blocking and closed on exec: what the drivers do alike,
 * whatever they wait for events with. Whatever fails here is told to the core (lq_core_lost). */
#ifndef LQ_SOCKET_H
#define LQ_SOCKET_H

#include "lq_core.h"
#include "lq_endpoints.h"

/* Begins to connect a channel that lq_core_next_dial gave. Returns the socket, which is the
 * caller's to close when lq_core_next_closed gives the channel back, or -1 when it failed at once.
 */
int lq_socket_dial(struct lq_core *core, struct lq_channel *channel,
                   const struct lq_address *address);

/* Looks whether a connection being dialled is there. Returns false while nothing is known; else the
 * channel is open, or lost. Does not block. */
bool lq_socket_finish_dial(struct lq_core *core, struct lq_channel *channel, int fd);

/* Takes in what has come on an open channel, a bounded number of bytes. */
void lq_socket_receive(struct lq_core *core, struct lq_channel *channel, int fd);

/* Writes what an open channel has to write, until it is done, or the kernel takes no more. */
void lq_socket_transmit(struct lq_core *core, struct lq_channel *channel, int fd);

#endif
