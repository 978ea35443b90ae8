#include "lq_contest.h"

#include <stdio.h>
#include <string.h>

enum lq_contest lq_contest_judge(const struct lq_contest_state *state)
{
    bool waited = state->waited_ms >= LQ_CONTEST_HOLD_MS;
    if (state->is_linked && state->boot == state->link_boot) {
        if (state->is_link_alive) {
            return LQ_CONTEST_DROP;
        }
        return waited ? LQ_CONTEST_TAKE : LQ_CONTEST_WAIT;
    }
    if (!state->is_linked && state->is_greeting && state->node < state->peer) {
        return waited ? LQ_CONTEST_TAKE : LQ_CONTEST_WAIT;
    }
    return LQ_CONTEST_TAKE;
}

uint64_t lq_backoff_next(uint64_t delay_ms, uint64_t min_ms, uint64_t max_ms)
{
    if (delay_ms < min_ms) {
        return min_ms;
    }
    return delay_ms <= max_ms / 2 ? 2 * delay_ms : max_ms;
}

uint64_t lq_backoff_draw(uint64_t delay_ms, uint64_t random)
{
    return delay_ms - random % (delay_ms / 2 + 1);
}

bool lq_limiter_allows(struct lq_limiter *limiter, const char *key, uint64_t now_ms,
                       uint64_t period_ms)
{
    int free_item = -1;
    for (int i = 0; i < LQ_LIMITER_ITEMS; i++) {
        if (limiter->items[i].until_ms <= now_ms) {
            free_item = i;
        } else if (strncmp(limiter->items[i].key, key, LQ_LIMITER_KEY - 1) == 0) {
            return false;
        }
    }
    if (free_item < 0) {
        return false;
    }
    (void)snprintf(limiter->items[free_item].key, LQ_LIMITER_KEY, "%s", key);
    limiter->items[free_item].until_ms = now_ms + period_ms;
    return true;
}
