/* What the files of the core share. Nobody else includes this.
 *
 *   lq_core.c      the driver's calls
 *   lq_ask.c       the steps of one request: what an answer, a failure or a deadline means for it
 *   lq_channels.c  all connections: which request goes over which, dialling, what a loss means
 *   lq_channel.c   one connection: its bytes, and what was sent on it
 *   lq_dial.c      addresses
 *   lq_lease.c     leases that are renewed
 */
#ifndef LQ_CORE_IMPL_H
#define LQ_CORE_IMPL_H

#include "lq_ask.h"
#include "lq_channel.h"
#include "lq_core.h"
#include "lq_dial.h"
#include "lq_heap.h"
#include "lq_list.h"

struct lq_core {
    struct lq_heap asks;     /* requests, by when they need attention */
    struct lq_heap channels; /* the same of channels */
    struct lq_heap leases;   /* and of leases */

    struct lq_list all;                        /* requests, but for ghosts */
    struct lq_list queues[LQ_CHANNEL_N_KINDS]; /* requests without a channel */
    struct lq_list done;                       /* over, not taken yet */
    struct lq_list lost;                       /* leases, not taken yet */
    size_t n_requests;                         /* in `all` */
    size_t n_done;                             /* in `done` */
    size_t n_queued_waits;                     /* in the queue of LQ_CHANNEL_WAITING */

    struct lq_list open;          /* channels, open or being dialled */
    struct lq_list ready;         /* of these: with bytes to write */
    struct lq_list roomy;         /* of these: with room for an acquire that waits */
    struct lq_list closed;        /* channels that wait for lq_core_next_closed */
    struct lq_channel *common;    /* takes R, K, P and wait 0; NULL: none */
    struct lq_channel *forgotten; /* told by lq_core_next_closed last */
    size_t n_dialling[LQ_CHANNEL_N_KINDS];
    size_t n_idle; /* channels of LQ_CHANNEL_WAITING without a request */

    struct lq_dial dial;
    uint64_t nonce; /* of the last ping */
    bool wants_lookup;
    bool is_shut;
};

#endif
