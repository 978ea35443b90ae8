#include "lq_plan.h"

#include "lq_client_limits.h"

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
    if (value < least) {
        return least;
    }
    return value > most ? most : value;
}

uint64_t lq_plan_span_ms(uint32_t lease_s)
{
    return (uint64_t)lease_s * 10 * (100 - LQ_LEASE_MARGIN_PERCENT);
}

uint64_t lq_plan_kill_ms(uint32_t lease_s, uint64_t ends_ms)
{
    uint64_t margin_ms =
        clamp((uint64_t)lease_s * 100, LQ_KILL_MARGIN_MIN_MS, LQ_KILL_MARGIN_MAX_MS);

    if (ends_ms == LQ_NEVER) {
        return LQ_NEVER;
    }
    return ends_ms > margin_ms ? ends_ms - margin_ms : 0;
}

void lq_plan_renewed(struct lq_plan *plan, uint32_t lease_s, uint64_t sent_ms, uint64_t ends_ms)
{
    uint64_t lease_ms = (uint64_t)lease_s * 1000;
    uint64_t grace_ms = clamp(lease_ms / 5, LQ_GRACE_MIN_MS, LQ_GRACE_MAX_MS);

    plan->ends_ms = ends_ms;
    plan->renew_ms = sent_ms + lease_ms / 3;
    plan->lease_kill_ms = lq_plan_kill_ms(lease_s, ends_ms);
    plan->lease_term_ms = plan->lease_kill_ms > grace_ms ? plan->lease_kill_ms - grace_ms : 0;
}

void lq_plan_init(struct lq_plan *plan, uint32_t lease_s, uint64_t sent_ms, uint64_t ends_ms)
{
    *plan = (struct lq_plan){.term_ms = LQ_NEVER, .kill_ms = LQ_NEVER};
    lq_plan_renewed(plan, lease_s, sent_ms, ends_ms);
}

void lq_plan_retry(struct lq_plan *plan, uint32_t lease_s, uint64_t now_ms)
{
    plan->renew_ms = now_ms + (uint64_t)lease_s * 1000 / 10;
}

void lq_plan_end(struct lq_plan *plan, uint64_t now_ms, uint64_t patience_ms, uint64_t grace_ms)
{
    plan->term_ms = lq_earlier(plan->term_ms, now_ms + patience_ms);
    plan->kill_ms = lq_earlier(plan->kill_ms, now_ms + patience_ms + grace_ms);
}

void lq_plan_forget_lease(struct lq_plan *plan)
{
    plan->renew_ms = plan->lease_term_ms = plan->lease_kill_ms = LQ_NEVER;
}

bool lq_plan_is_lease_over(const struct lq_plan *plan, uint64_t now_ms)
{
    return now_ms >= plan->lease_term_ms;
}

enum lq_plan_act lq_plan_next(struct lq_plan *plan, uint64_t now_ms)
{
    if (now_ms >= lq_earlier(plan->kill_ms, plan->lease_kill_ms)) {
        plan->termed = true;
        return LQ_PLAN_KILL;
    }
    if (plan->termed || now_ms < lq_earlier(plan->term_ms, plan->lease_term_ms)) {
        return LQ_PLAN_GO_ON;
    }
    plan->termed = true;
    if (lq_plan_is_lease_over(plan, now_ms)) {
        /* What was asked to end must end, even if a renewal succeeds after all. */
        lq_plan_end(plan, now_ms, 0, plan->lease_kill_ms - plan->lease_term_ms);
    }
    return LQ_PLAN_TERM;
}

uint64_t lq_plan_due_ms(const struct lq_plan *plan)
{
    uint64_t kill_ms = lq_earlier(plan->kill_ms, plan->lease_kill_ms);
    if (plan->termed) {
        return kill_ms;
    }
    return lq_earlier(kill_ms, lq_earlier(plan->term_ms, plan->lease_term_ms));
}
