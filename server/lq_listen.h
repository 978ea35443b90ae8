/* Listening sockets: what the ports for clients, for peers and for the admin interface have in
 * common. */
#ifndef LQ_LISTEN_H
#define LQ_LISTEN_H

#include <stdbool.h>

/* Resolves HOST:PORT, which must be of that form, and listens on the first of its addresses that
 * works, with a queue of `backlog` connections that were not accepted yet. Returns the descriptor,
 * not blocking and the caller's; or -1 when none works, which was logged with `setting`, the name
 * of what the operator would have to change. */
int lq_listen_open(const char *address, const char *setting, int backlog);

/* Binds in advance, where that needs a right that is given up afterwards: lq_listen_open with the
 * same address then goes on with it. False: it can't, which was logged as there. */
bool lq_listen_bind(const char *address, const char *setting);

/* Logs `msg` with the address that the socket is bound to. */
void lq_listen_log(int fd, const char *msg);

/* Whether accept failed with `error` because something has run out, so that it would fail again at
 * once. All else concerns a connection that died while it waited. */
bool lq_listen_has_run_out(int error);

#endif
