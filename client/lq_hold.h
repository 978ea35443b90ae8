/* What a client knows of one lock that it holds, or tries to release or renew: the inside of a
 * ticket, whatever drives it. Pure. */
#ifndef LQ_HOLD_H
#define LQ_HOLD_H

#include "lq_core.h"
#include "lq_lease.h"

struct lq_hold {
    uint64_t token, owner; /* owner 0: unknown */
    struct lq_known known; /* ends_ms 0: nothing. While it is kept, the lease knows better */
    uint32_t lease_s;
    bool kept;
    bool lost, released;
    bool gone;            /* the server said so: whatever it said before and comes later is past */
    unsigned n_releasing; /* releases under way */
    unsigned n_renewing; /* renewals by the caller under way, at least the shortest of them being */
    uint32_t renewing_s; /* for so long, and so the lease may end then */
    uint64_t cap_ms;     /* LQ_NEVER: there are none */
    struct lq_lease lease;
    size_t key_len;
    char *key; /* zero-terminated */
};

/* Nothing is known of its lease. The key is copied. */
void lq_hold_init(struct lq_hold *hold, const char *key, size_t key_len, uint64_t token);

/* It must not be kept any more. */
void lq_hold_done(struct lq_hold *hold);

/* The order to do something about it, given up at `deadline_ms`. */
struct lq_order lq_hold_order(const struct lq_hold *hold, enum lq_goal goal, uint64_t deadline_ms);

/* It was acquired. */
void lq_hold_granted(struct lq_hold *hold, uint32_t lease_s, const struct lq_outcome *outcome);

/* Renews it from now on, by itself; false when it is kept, being released, or not held. */
bool lq_hold_keep(struct lq_hold *hold, struct lq_core *core, uint64_t now_ms);

/* No longer. Nothing when it is not kept. */
void lq_hold_unkeep(struct lq_hold *hold, struct lq_core *core);

/* It was kept, and is lost. */
void lq_hold_lose(struct lq_hold *hold, enum loquet_loss loss);

/* A renewal by the caller begins; it may take effect at any time from `now_ms` on. Meanwhile it is
 * not renewed by itself. */
void lq_hold_begin_renewal(struct lq_hold *hold, struct lq_core *core, uint32_t lease_s,
                           uint64_t now_ms);

/* One that began at `began_ms` is over. */
void lq_hold_end_renewal(struct lq_hold *hold, struct lq_core *core, uint32_t lease_s,
                         uint64_t began_ms, const struct lq_outcome *outcome);

/* A release begins, and ends. */
void lq_hold_begin_release(struct lq_hold *hold, struct lq_core *core);
void lq_hold_end_release(struct lq_hold *hold, enum loquet_result result);

/* The conservative end of the lease; 0: unknown, lost or released. */
uint64_t lq_hold_ends_ms(const struct lq_hold *hold);

/* Whether it is certainly held now. */
bool lq_hold_is_certain(const struct lq_hold *hold, uint64_t now_ms);

#endif
