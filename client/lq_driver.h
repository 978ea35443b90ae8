/* Sockets under the pure core, with poll(2): driven by whoever owns the loop (the blocking client's
 * threads, or the command line). No thread, no callback; not thread-safe.
 *
 *     lq_driver_submit(&driver, &order, &why);
 *     while (lq_driver_step(&driver), !lq_driver_take(&driver, &outcome)) {
 *         struct pollfd alarm = {.fd = alarm_fd, .events = POLLIN};
 *         lq_alarm_set(alarm_fd, lq_driver_due_ms(&driver));
 *         lq_driver_poll(&driver, &alarm, 1);
 *     }
 */
#ifndef LQ_DRIVER_H
#define LQ_DRIVER_H

#include "lq_cluster.h"

#include <poll.h>

struct lq_link; /* one socket */

/* How sockets are watched, where that is not by lq_driver_pollfds. */
struct lq_watch {
    void *context;
    /* A socket is there; returns a watcher. */
    void *(*begin)(void *context, struct lq_link *link, int fd);
    /* What is to be watched for, POLLIN and POLLOUT: told when it changes. Then lq_driver_ready. */
    void (*want)(void *watcher, short events);
    /* The socket is done with: the watcher closes it when it watches it no more. */
    void (*end)(void *watcher, int fd);
};

struct lq_driver {
    struct lq_cluster cluster;
    struct lq_link **links;
    size_t n_links, cap_links;
    const struct lq_watch *watch; /* NULL: lq_driver_pollfds */
    struct pollfd *pollfds;       /* what was asked for last */
    size_t cap_pollfds;
    uint64_t turn;    /* counts them */
    uint64_t changes; /* grows with each change of what is to be polled for */
};

void lq_driver_init(struct lq_driver *driver);

/* Closes all sockets and frees the core with all requests under way. Leases must not be kept any
 * more. */
void lq_driver_done(struct lq_driver *driver);

/* Closes all sockets; what was sent on them ends as if they had broken. In a child after fork, or
 * in its parent: gives up this process's hold on the connections, and the other one goes on with
 * them. The driver can be used further, with connections of its own. */
void lq_driver_drop(struct lq_driver *driver);

/* Parses and looks up, which may block. ALIVE, or INVALID or CLOSED with `ret_why` set. */
enum loquet_result lq_driver_set_endpoints(struct lq_driver *driver, const char *text,
                                           struct loquet_why *ret_why);

/* Takes endpoints that were looked up, now or again. Until then an address may be one without
 * length: what is dialled there waits for this call. */
void lq_driver_resolved(struct lq_driver *driver, const struct lq_endpoints *endpoints);

/* See lq_cluster_submit. */
struct lq_request *lq_driver_submit(struct lq_driver *driver, struct lq_order *order,
                                    struct loquet_why *ret_why);

/* Does all that can be done without blocking. A turn reads only what was polled to be readable, a
 * step tries all sockets. */
void lq_driver_turn(struct lq_driver *driver);
void lq_driver_step(struct lq_driver *driver);

/* The next request that is over, see lq_core_take; false when there is none. */
bool lq_driver_take(struct lq_driver *driver, struct lq_outcome *ret_outcome);

/* When a turn is due even if nothing was polled, or LQ_NEVER. */
uint64_t lq_driver_due_ms(const struct lq_driver *driver);

/* A link's socket may be readable or writable; the next turn looks. */
void lq_driver_ready(struct lq_link *link);

/* All that is to be polled for: the caller's own `n_own` descriptors first, then the sockets. The
 * array is the driver's, and stays until the next call. */
struct pollfd *lq_driver_pollfds(struct lq_driver *driver, const struct pollfd *own, size_t n_own,
                                 nfds_t *ret_n);

/* They were polled. Sockets that came or went meanwhile do no harm. */
void lq_driver_polled(struct lq_driver *driver, size_t n_own, nfds_t n);

/* Blocks until one of the sockets or of the caller's descriptors has something. */
void lq_driver_poll(struct lq_driver *driver, const struct pollfd *own, size_t n_own);

#endif
