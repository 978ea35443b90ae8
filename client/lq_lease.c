#include "lq_lease.h"

#include "lq_ask.h"
#include "lq_check.h"
#include "lq_client_limits.h"
#include "lq_core_impl.h"
#include "lq_mem.h"

#include <string.h>

static bool may_renew(const struct lq_lease *lease)
{
    return lease->renewal == NULL && lease->lost_ms == LQ_NEVER;
}

static uint64_t kill_ms(const struct lq_lease *lease)
{
    return lq_earlier(lease->plan.lease_kill_ms, lease->lost_ms);
}

/* When there is something to do. */
static uint64_t due_ms(const struct lq_lease *lease)
{
    return lq_earlier(may_renew(lease) ? lease->plan.renew_ms : LQ_NEVER, kill_ms(lease));
}

/* Renewals of its own were sent and not answered. */
static void note_stray(struct lq_lease *lease, const struct lq_outcome *outcome)
{
    if (outcome->n_stray > 0) {
        lease->stray_s = lq_plan_shorter(lease->stray_s, lease->lease_s);
    }
}

/* The lease that it has for certain. */
static uint32_t certain_s(const struct lq_lease *lease)
{
    return lq_plan_shorter(lease->lease_s, lease->stray_s);
}

/* Takes it from the core's hands, but for the list of lost ones. */
static void stop(struct lq_core *core, struct lq_lease *lease)
{
    LQ_CHECK(lease->state == LQ_LEASE_KEPT);
    lq_heap_remove(&core->leases, &lease->timer);
    if (lease->renewal != NULL) {
        note_stray(lease, &lease->renewal->outcome);
        lq_ask_disown(core, lease->renewal);
        lease->renewal = NULL;
    }
    lq_free(lease->key);
    lease->key = NULL;
    lease->state = LQ_LEASE_FREE;
}

static void lose(struct lq_core *core, struct lq_lease *lease, enum loquet_loss loss)
{
    stop(core, lease);
    lease->state = LQ_LEASE_LOST;
    lease->loss = loss;
    lq_list_append(&core->lost, &lease->link);
}

void lq_core_keep(struct lq_core *core, struct lq_lease *lease, const struct lq_order *lock,
                  const struct lq_known *known)
{
    LQ_CHECK(lease->state == LQ_LEASE_FREE && lock->lease_s >= 1);
    if (core->is_shut) {
        return;
    }
    *lease = (struct lq_lease){.timer.place = LQ_HEAP_OUT,
                               .key = lq_malloc(lock->key_len),
                               .key_len = lock->key_len,
                               .token = lock->token,
                               .lease_s = lock->lease_s,
                               .stray_s = known->stray_s,
                               .lost_ms = LQ_NEVER,
                               .state = LQ_LEASE_KEPT};
    memcpy(lease->key, lock->key, lock->key_len);
    lq_list_init(&lease->link);
    lq_plan_init(&lease->plan, certain_s(lease), known->sent_ms, known->ends_ms);
    lq_heap_insert(&core->leases, &lease->timer, due_ms(lease));
}

void lq_core_cap(struct lq_core *core, struct lq_lease *lease, uint64_t lost_ms)
{
    if (lease->state == LQ_LEASE_KEPT) {
        lease->lost_ms = lost_ms;
        lq_heap_move(&core->leases, &lease->timer, due_ms(lease));
    }
}

void lq_lease_end(struct lq_core *core, struct lq_lease *lease)
{
    switch (lease->state) {
    case LQ_LEASE_FREE:
        break;
    case LQ_LEASE_KEPT:
        stop(core, lease);
        break;
    case LQ_LEASE_LOST:
        lq_list_remove(&lease->link);
        lease->state = LQ_LEASE_FREE;
        break;
    }
}

void lq_core_unkeep(struct lq_core *core, struct lq_lease *lease)
{
    lq_lease_end(core, lease);
}

static void renew(struct lq_core *core, struct lq_lease *lease, uint64_t now_ms)
{
    uint64_t until_ms = lq_earlier(now_ms + LQ_TRANSPORT_MS, kill_ms(lease));
    struct lq_order order = {.goal = LQ_GOAL_RENEW,
                             .key = lease->key,
                             .key_len = lease->key_len,
                             .token = lease->token,
                             .lease_s = lease->lease_s,
                             .deadline_ms = until_ms,
                             .redial_until_ms = until_ms};

    lease->renewal = lq_ask_begin(core, &order, LQ_ROLE_LEASE, now_ms);
    lease->renewal->lease = lease;
    lq_heap_move(&core->leases, &lease->timer, due_ms(lease));
}

void lq_lease_tick(struct lq_core *core, struct lq_lease *lease, uint64_t now_ms)
{
    if (now_ms >= kill_ms(lease)) {
        lose(core, lease, LOQUET_LOSS_POSSIBLE);
    } else if (may_renew(lease) && now_ms >= lease->plan.renew_ms) {
        renew(core, lease, now_ms);
    }
}

void lq_lease_over(struct lq_core *core, struct lq_lease *lease, const struct lq_outcome *outcome,
                   uint64_t now_ms)
{
    lease->renewal = NULL;
    if (outcome->result == LOQUET_NOT_HELD) {
        lose(core, lease, LOQUET_LOSS_CERTAIN);
        return;
    }
    note_stray(lease, outcome);
    if (outcome->result == LOQUET_RENEWED) {
        uint32_t span_s = certain_s(lease);
        lq_plan_renewed(&lease->plan, span_s, outcome->sent_ms,
                        outcome->sent_ms + lq_plan_span_ms(span_s));
    } else {
        lq_plan_retry(&lease->plan, lease->lease_s, now_ms);
    }
    lq_heap_move(&core->leases, &lease->timer, due_ms(lease));
}

struct lq_lease *lq_core_take_lost(struct lq_core *core, uint64_t now_ms,
                                   enum loquet_loss *ret_loss)
{
    struct lq_lease *lease;

    while (lq_heap_first_ms(&core->leases) <= now_ms) { /* by the clock, even without a tick */
        lq_lease_tick(core, LQ_CONTAINER(lq_heap_first(&core->leases), struct lq_lease, timer),
                      now_ms);
    }
    if (lq_list_is_empty(&core->lost)) {
        return NULL;
    }
    lease = LQ_CONTAINER(lq_list_take(&core->lost), struct lq_lease, link);
    lease->state = LQ_LEASE_FREE;
    *ret_loss = lease->loss;
    return lease;
}
