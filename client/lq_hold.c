#include "lq_hold.h"

#include "lq_mem.h"

#include <string.h>

void lq_hold_init(struct lq_hold *hold, const char *key, size_t key_len, uint64_t token)
{
    memset(hold, 0, sizeof *hold);
    hold->token = token;
    hold->known.stray_s = UINT32_MAX;
    hold->cap_ms = LQ_NEVER;
    hold->key_len = key_len;
    hold->key = lq_malloc(key_len + 1);
    memcpy(hold->key, key, key_len);
    hold->key[key_len] = '\0';
}

void lq_hold_done(struct lq_hold *hold)
{
    lq_free(hold->key);
    hold->key = NULL;
}

struct lq_order lq_hold_order(const struct lq_hold *hold, enum lq_goal goal, uint64_t deadline_ms)
{
    return (struct lq_order){.goal = goal,
                             .key = hold->key,
                             .key_len = hold->key_len,
                             .token = hold->token,
                             .lease_s = hold->lease_s,
                             .deadline_ms = deadline_ms,
                             .redial_until_ms = deadline_ms};
}

/* A renewal for so long may be executed at any time yet. */
static void note_stray(struct lq_hold *hold, uint32_t lease_s)
{
    hold->known.stray_s = lq_plan_shorter(hold->known.stray_s, lease_s);
}

void lq_hold_granted(struct lq_hold *hold, uint32_t lease_s, const struct lq_outcome *outcome)
{
    hold->token = outcome->token;
    hold->owner = outcome->owner;
    hold->lease_s = lease_s;
    hold->known.sent_ms = outcome->sent_ms;
    hold->known.ends_ms = outcome->ends_ms;
    if (outcome->n_stray > 0) {
        note_stray(hold, lease_s);
    }
}

/* ---- Automatic renewal. */

static void keep(struct lq_hold *hold, struct lq_core *core)
{
    struct lq_order lock = lq_hold_order(hold, LQ_GOAL_RENEW, 0);

    hold->kept = true;
    lq_core_keep(core, &hold->lease, &lock, &hold->known);
    lq_core_cap(core, &hold->lease, lq_plan_kill_ms(hold->renewing_s, hold->cap_ms));
}

bool lq_hold_keep(struct lq_hold *hold, struct lq_core *core, uint64_t now_ms)
{
    if (hold->kept || !lq_hold_is_certain(hold, now_ms)) {
        return false;
    }
    keep(hold, core);
    return true;
}

void lq_hold_unkeep(struct lq_hold *hold, struct lq_core *core)
{
    if (hold->kept) {
        hold->kept = false;
        hold->known.ends_ms = hold->lease.plan.ends_ms;
        lq_core_unkeep(core, &hold->lease);
        note_stray(hold, hold->lease.stray_s);
    }
}

void lq_hold_lose(struct lq_hold *hold, enum loquet_loss loss)
{
    hold->kept = false;
    hold->lost = true;
    hold->gone |= loss == LOQUET_LOSS_CERTAIN;
    note_stray(hold, hold->lease.stray_s);
}

/* ---- Requests. */

void lq_hold_begin_renewal(struct lq_hold *hold, struct lq_core *core, uint32_t lease_s,
                           uint64_t now_ms)
{
    if (hold->n_renewing > 0) { /* nobody knows which will be executed last */
        note_stray(hold, lq_plan_shorter(lease_s, hold->renewing_s));
    }
    hold->renewing_s = hold->n_renewing > 0 ? lq_plan_shorter(lease_s, hold->renewing_s) : lease_s;
    hold->n_renewing++;
    hold->cap_ms = lq_earlier(hold->cap_ms, now_ms + lq_plan_span_ms(lease_s));
    lq_core_cap(core, &hold->lease, lq_plan_kill_ms(hold->renewing_s, hold->cap_ms));
}

static void renewed(struct lq_hold *hold, uint32_t lease_s, const struct lq_outcome *outcome)
{
    if (outcome->n_stray > 0) {
        note_stray(hold, lease_s);
    }
    hold->lost = hold->gone; /* whatever else was feared */
    hold->lease_s = lease_s;
    if (outcome->sent_ms > hold->known.sent_ms) { /* another one may have been answered before */
        hold->known.sent_ms = outcome->sent_ms;
    }
    hold->known.ends_ms =
        hold->known.sent_ms + lq_plan_span_ms(lq_plan_shorter(lease_s, hold->known.stray_s));
}

/* A renewal may have taken effect, or may do so. */
static void doubted(struct lq_hold *hold, uint32_t lease_s, uint64_t began_ms)
{
    note_stray(hold, lease_s);
    hold->known.ends_ms = lq_earlier(hold->known.ends_ms, began_ms + lq_plan_span_ms(lease_s));
}

void lq_hold_end_renewal(struct lq_hold *hold, struct lq_core *core, uint32_t lease_s,
                         uint64_t began_ms, const struct lq_outcome *outcome)
{
    bool kept = hold->kept;

    if (--hold->n_renewing == 0) {
        hold->cap_ms = LQ_NEVER;
        lq_core_cap(core, &hold->lease, LQ_NEVER);
    }
    if (outcome->result == LOQUET_CLOSED || outcome->result == LOQUET_INVALID) {
        return; /* it changed nothing */
    }
    lq_hold_unkeep(hold, core); /* a renewal of its own, not answered, becomes a stray */
    if (outcome->result == LOQUET_RENEWED) {
        renewed(hold, lease_s, outcome);
    } else if (outcome->result == LOQUET_NOT_HELD) {
        hold->lost = hold->gone = true;
    } else {
        doubted(hold, lease_s, began_ms);
    }
    if (kept && !hold->gone) {
        keep(hold, core);
    }
}

void lq_hold_begin_release(struct lq_hold *hold, struct lq_core *core)
{
    lq_hold_unkeep(hold, core);
    hold->n_releasing++;
}

void lq_hold_end_release(struct lq_hold *hold, enum loquet_result result)
{
    hold->n_releasing--;
    if (result != LOQUET_CLOSED && result != LOQUET_INVALID) {
        hold->released = true; /* or may be */
    }
}

/* ---- What is known. */

uint64_t lq_hold_ends_ms(const struct lq_hold *hold)
{
    if (hold->lost || hold->released) {
        return 0;
    }
    return lq_earlier(hold->cap_ms, hold->kept ? hold->lease.plan.ends_ms : hold->known.ends_ms);
}

bool lq_hold_is_certain(const struct lq_hold *hold, uint64_t now_ms)
{
    return hold->n_releasing == 0 && now_ms < lq_hold_ends_ms(hold);
}
