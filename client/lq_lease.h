/* One lock that is renewed by itself, and what is known of its lease. Pure.
 *
 * Its plan is that of lq_plan.h: it is renewed at a third of its lease, again and again. A renewal
 * that is answered moves the plan on, one that fails is tried again, one that is refused means that
 * the lock is lost for certain. When no renewal was confirmed by the time at which lq_plan.h would
 * have work under it killed, it counts as lost, possibly. Once lost it is not renewed any more. */
#ifndef LQ_LEASE_H
#define LQ_LEASE_H

#include "lq_core.h"
#include "lq_heap.h"
#include "lq_list.h"
#include "lq_plan.h"

enum lq_lease_state {
    LQ_LEASE_FREE, /* not the core's */
    LQ_LEASE_KEPT,
    LQ_LEASE_LOST, /* waits for lq_core_take_lost */
};

/* Zeroed before its first lq_core_keep, and not moved while it is kept. `plan.ends_ms`, the
 * conservative end of the lease, and `lease_s` may be read. */
struct lq_lease {
    struct lq_heap_node timer;
    struct lq_list link; /* in the core's list `lost` */
    struct lq_plan plan;
    struct lq_request *renewal; /* under way; NULL: none */
    uint8_t *key;               /* owned while KEPT */
    size_t key_len;
    uint64_t token;
    uint32_t lease_s;
    uint32_t stray_s; /* see struct lq_known */
    uint64_t lost_ms; /* see lq_core_cap */
    enum lq_lease_state state;
    enum loquet_loss loss; /* LOST */
};

/* Its timer went off: renews it, or gives it up. */
void lq_lease_tick(struct lq_core *core, struct lq_lease *lease, uint64_t now_ms);

/* Its renewal is over. */
void lq_lease_over(struct lq_core *core, struct lq_lease *lease, const struct lq_outcome *outcome,
                   uint64_t now_ms);

/* It is kept no longer, nor lost. */
void lq_lease_end(struct lq_core *core, struct lq_lease *lease);

#endif
