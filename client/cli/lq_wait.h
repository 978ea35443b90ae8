/* Requests, waited for: acquiring a lock, with an ear for signals, and those with one answer. */
#ifndef LQ_WAIT_H
#define LQ_WAIT_H

#include "lq_cli.h"
#include "lq_driver.h"
#include "lq_held.h"
#include "lq_signals.h"

/* Sets the driver's endpoints from the options and the environment; names are looked up, which may
 * block. Returns LQ_EXIT_OK, or the code after saying what is wrong. */
enum lq_exit lq_wait_set_endpoints(const struct lq_cli *cli, struct lq_driver *driver);

/* Acquires the key of the first argument as the options say. Returns LQ_EXIT_OK with the lock, or
 * the code after saying why not; a signal is LQ_EXIT_SIGNAL plus its number, and leaves neither
 * lock nor place in the queue behind. */
enum lq_exit lq_wait_acquire(const struct lq_cli *cli, struct lq_driver *driver,
                             const struct lq_signals *signals, struct lq_held *ret_held);

/* The order to release or renew a lock, or to ping (`held` is NULL); given up at `by_ms`. */
struct lq_order lq_wait_order(enum lq_goal goal, const struct lq_held *held, uint64_t by_ms);

/* Submits the order and waits for its outcome; nothing else may be under way. False when no file
 * descriptor is left. */
bool lq_wait_run(struct lq_driver *driver, struct lq_order *order, struct lq_outcome *ret_outcome);

/* Releases a lock, within `limit_ms`. */
struct lq_outcome lq_wait_release(struct lq_driver *driver, const struct lq_held *held,
                                  uint64_t limit_ms);

#endif
