/* A loquetd of a test's own, in simple mode, on loopback. It dies with the thread that started it.
 */
#ifndef SERVER_H
#define SERVER_H

#include <sys/types.h>

struct server {
    pid_t pid; /* 0: none */
    int log_fd;
    char endpoint[64];
};

/* Starts the program that the environment variable LOQUETD names, on a free port, or again on that
 * of the endpoint, and waits until it listens. */
void server_start(struct server *server);

/* Stops it in its tracks, and lets it go on. */
void server_freeze(struct server *server);
void server_thaw(struct server *server);

/* Ends it at once, and waits until it is gone. */
void server_kill(struct server *server);

#endif
