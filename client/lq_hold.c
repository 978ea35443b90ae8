#include "lq_hold.h"

#include "lq_client_limits.h"
#include "lq_mem.h"

#include <string.h>

void lq_hold_init(struct lq_hold *hold, const char *key, size_t key_len, uint64_t token)
{
    memset(hold, 0, sizeof *hold);
    hold->token = token;
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
                             .deadline_ms = deadline_ms};
}

void lq_hold_granted(struct lq_hold *hold, uint32_t lease_s, const struct lq_outcome *outcome)
{
    hold->token = outcome->token;
    hold->owner = outcome->owner;
    hold->lease_s = lease_s;
    hold->sent_ms = outcome->sent_ms;
    hold->ends_ms = outcome->ends_ms;
}

/* ---- Automatic renewal. */

static void keep(struct lq_hold *hold, struct lq_core *core)
{
    struct lq_order lock = lq_hold_order(hold, LQ_GOAL_RENEW, 0);

    hold->kept = true;
    lq_core_keep(core, &hold->lease, &lock, hold->sent_ms, hold->ends_ms);
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
        hold->ends_ms = hold->lease.plan.ends_ms;
        lq_core_unkeep(core, &hold->lease);
    }
}

void lq_hold_lose(struct lq_hold *hold)
{
    hold->kept = false;
    hold->lost = true;
}

/* ---- Requests. */

static void change_lease(struct lq_hold *hold, struct lq_core *core, uint64_t sent_ms,
                         uint64_t ends_ms)
{
    bool kept = hold->kept;

    lq_hold_unkeep(hold, core);
    hold->sent_ms = sent_ms;
    hold->ends_ms = ends_ms;
    if (kept) {
        keep(hold, core);
    }
}

void lq_hold_renewed(struct lq_hold *hold, struct lq_core *core, uint32_t lease_s,
                     uint64_t began_ms, const struct lq_outcome *outcome)
{
    uint64_t shortest_ms = began_ms + (uint64_t)lease_s * 10 * (100 - LQ_LEASE_MARGIN_PERCENT);

    if (outcome->result == LOQUET_RENEWED) {
        hold->lost = false; /* whatever was feared */
        hold->lease_s = lease_s;
        change_lease(hold, core, outcome->sent_ms, outcome->ends_ms);
    } else if (outcome->result == LOQUET_NOT_HELD) {
        lq_hold_unkeep(hold, core);
        hold->lost = true;
    } else if (outcome->result == LOQUET_INDETERMINATE && shortest_ms < lq_hold_ends_ms(hold)) {
        change_lease(hold, core, hold->sent_ms, shortest_ms); /* it may have taken effect */
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
    return hold->kept ? hold->lease.plan.ends_ms : hold->ends_ms;
}

bool lq_hold_is_certain(const struct lq_hold *hold, uint64_t now_ms)
{
    return hold->n_releasing == 0 && now_ms < lq_hold_ends_ms(hold);
}
