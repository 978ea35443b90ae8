/* Acquiring a lock, with an ear for signals. */
#ifndef LQ_WAIT_H
#define LQ_WAIT_H

#include "lq_cli.h"
#include "lq_driver.h"
#include "lq_signals.h"

/* Sets the driver's endpoints from the options and the environment; names are looked up, which may
 * block. Returns LQ_EXIT_OK, or the code after saying what is wrong. */
enum lq_exit lq_wait_set_endpoints(const struct lq_cli *cli, struct lq_driver *driver);

/* Acquires the key of the first argument as the options say. Returns LQ_EXIT_OK with the ticket, or
 * the code after saying why not; a signal is LQ_EXIT_SIGNAL plus its number, and leaves neither
 * lock nor place in the queue behind. `ret_sent_ms`: when the lease began, at the earliest. */
enum lq_exit lq_wait_acquire(const struct lq_cli *cli, struct lq_driver *driver,
                             const struct lq_signals *signals, struct loquet_ticket *ret_ticket,
                             uint64_t *ret_sent_ms);

/* Releases a lock, within `limit_ms`. */
struct lq_outcome lq_wait_release(struct lq_driver *driver, const struct loquet_ticket *ticket,
                                  uint64_t limit_ms);

#endif
