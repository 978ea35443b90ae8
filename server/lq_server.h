/* The server: one libuv loop around the pure hub. In each turn of the loop it reads all connections
 * that are ready, lets the hub act once, and writes once to each connection that has answers. */
#ifndef LQ_SERVER_H
#define LQ_SERVER_H

#include "lq_config.h"

/* Runs a server until a signal stops it. Returns the exit status of the process: 0 after SIGTERM or
 * SIGINT, 1 when it could not start (which was logged). */
int lq_server_run(const struct lq_config *config);

#endif
