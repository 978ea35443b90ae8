/* Sockets under the pure core: one non-blocking connection, driven by whoever owns the loop
 * (loquet.c blocks in poll(2), `loquet run` has a loop of its own).
 *
 *     lq_driver_acquire(driver, ...);
 *     while (!lq_driver_step(driver, &outcome)) {
 *         poll lq_driver_pollfd(driver) and an alarm at lq_driver_due_ms(driver);
 *     }
 */
#ifndef LQ_DRIVER_H
#define LQ_DRIVER_H

#include "lq_core.h"
#include "lq_endpoints.h"

#include <poll.h>

struct lq_driver {
    struct lq_core core;
    struct lq_endpoints endpoints;
    bool has_endpoints;
    int fd;          /* -1: none */
    int last_errno;  /* of the last failed call on a socket; 0: it took too long */
    size_t address;  /* connected to, or tried last */
    uint64_t owner;  /* of the last attempt */
    char error[256]; /* about the last request, "" when all went well */
    char endpoint[LQ_ENDPOINT_TEXT_MAX]; /* of `address` */
};

/* No connection, no endpoints. Draws random numbers from the system. */
void lq_driver_init(struct lq_driver *driver);

/* Closes the connection. Idempotent; a later request opens another. In a child after fork, or in
 * its parent: gives up this process's hold on the connection, and the other one goes on with it. */
void lq_driver_close(struct lq_driver *driver);

/* See loquet_set_endpoints. The driver must be idle. */
enum loquet_result lq_driver_set_endpoints(struct lq_driver *driver, const char *text);

/* Begin a request. They return false, with `error` set, when an argument is invalid or no endpoint
 * is set: nothing was begun then. `deadline_ms` is absolute. */
bool lq_driver_acquire(struct lq_driver *driver, const char *key, size_t key_len, uint32_t wait_ms,
                       uint32_t lease_s);
bool lq_driver_release(struct lq_driver *driver, const struct loquet_ticket *ticket,
                       uint64_t deadline_ms, uint64_t redial_until_ms);
bool lq_driver_renew(struct lq_driver *driver, const struct loquet_ticket *ticket, uint32_t lease_s,
                     uint64_t deadline_ms, uint64_t redial_until_ms);
bool lq_driver_ping(struct lq_driver *driver, uint64_t deadline_ms);

/* The caller gives up its acquire; go on with lq_driver_step, the outcome comes soon. */
void lq_driver_cancel(struct lq_driver *driver);

/* Forgets the request. */
void lq_driver_abandon(struct lq_driver *driver);

/* Whether a request is under way. */
bool lq_driver_is_busy(const struct lq_driver *driver);

/* What to poll for; its fd is -1 when there is no connection. */
struct pollfd lq_driver_pollfd(const struct lq_driver *driver);

/* When to call lq_driver_step even if nothing was polled, or LQ_NEVER. */
uint64_t lq_driver_due_ms(const struct lq_driver *driver);

/* Does all that can be done without blocking. True when the request is over. Also to be called
 * while idle, when polled: it notices a connection that ended. */
bool lq_driver_step(struct lq_driver *driver, struct lq_outcome *ret_outcome);

#endif
