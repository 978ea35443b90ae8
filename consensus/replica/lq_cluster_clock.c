/* All sums stop at the largest number and all differences at 0: table times come from peers. */
#include "lq_cluster_clock.h"

/* Own clocks of two nodes differ in rate by at most 101 / 99, which is 2.02 %: a lower bound of
 * another one's time advances by 98 % of the own clock, an upper bound by 103 %. The former rounds
 * down, so that it also leaves out the millisecond that may not have passed yet: two readings that
 * differ by n ms are more than n - 1 ms apart, and 98 % of n, rounded down, is at most n - 1. */
#define SLOWER_PERCENT (2 * LQ_CLOCK_RATE_PERCENT)
#define FASTER_PERCENT (2 * LQ_CLOCK_RATE_PERCENT + 1)

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* So many percent of a span, rounded up. */
static uint64_t percent_of(uint64_t span_ms, uint64_t percent)
{
    return span_ms / 100 * percent + (span_ms % 100 * percent + 99) / 100;
}

static uint64_t estimate_at(const struct lq_cluster_clock *clock, uint64_t own_ms)
{
    uint64_t passed_ms = minus(own_ms, clock->own_ms);
    return plus(clock->table_ms, passed_ms - percent_of(passed_ms, SLOWER_PERCENT));
}

/* What the leader's table time is at most, when this node's clock shows `own_ms`. */
static uint64_t upper_bound_at(const struct lq_cluster_clock *clock, uint64_t own_ms)
{
    uint64_t passed_ms = minus(own_ms, clock->ping_own_ms);
    return plus(clock->leader_ms, plus(passed_ms, percent_of(passed_ms, FASTER_PERCENT)));
}

void lq_cluster_clock_init(struct lq_cluster_clock *clock, uint64_t last_term,
                           uint64_t last_stamp_ms, uint64_t own_ms)
{
    *clock =
        (struct lq_cluster_clock){.term = last_term, .table_ms = last_stamp_ms, .own_ms = own_ms};
}

/* A leader in whose log another one's entry ends leads no more, told or not. */
void lq_cluster_clock_observe(struct lq_cluster_clock *clock, uint64_t term, uint64_t table_ms,
                              uint64_t own_ms)
{
    clock->is_leading = clock->is_leading && term == clock->term;
    if (term != clock->term || table_ms > estimate_at(clock, own_ms)) {
        clock->term = term;
        clock->table_ms = table_ms;
        clock->own_ms = own_ms;
    }
}

/* The millisecond in which the estimate arrived does not count: it may have come at its end. So a
 * leadership that goes round among nodes gains nothing by rounding either. */
void lq_cluster_clock_lead(struct lq_cluster_clock *clock, uint64_t term, uint64_t own_ms)
{
    lq_cluster_clock_follow(clock, own_ms); /* does nothing, unless it led an earlier term */
    clock->base_ms = estimate_at(clock, own_ms);
    clock->base_own_ms = own_ms > clock->own_ms ? own_ms : plus(clock->own_ms, 1);
    clock->term = term;
    clock->is_leading = true;
}

void lq_cluster_clock_follow(struct lq_cluster_clock *clock, uint64_t own_ms)
{
    if (clock->is_leading) {
        uint64_t table_ms = lq_cluster_clock_now(clock, own_ms);
        clock->is_leading = false;
        lq_cluster_clock_observe(clock, clock->term, table_ms, own_ms);
    }
}

uint64_t lq_cluster_clock_now(const struct lq_cluster_clock *clock, uint64_t own_ms)
{
    if (clock->is_leading) {
        return plus(clock->base_ms, minus(own_ms, clock->base_own_ms));
    }
    return estimate_at(clock, own_ms);
}

void lq_cluster_clock_forget_leader(struct lq_cluster_clock *clock)
{
    clock->knows_leader = false;
}

/* Each proof is good for itself, so the one with the lower bound is kept: a message that was long
 * under way proves less than the one before it. An echo that is older than the last one replaces
 * it, which also ends the matter of one from the future. */
void lq_cluster_clock_hear_leader(struct lq_cluster_clock *clock, uint64_t table_ms,
                                  uint64_t echo_own_ms)
{
    bool is_better = !clock->knows_leader || echo_own_ms < clock->ping_own_ms ||
                     table_ms <= upper_bound_at(clock, echo_own_ms);
    if (echo_own_ms != 0 && is_better) {
        clock->knows_leader = true;
        clock->leader_ms = table_ms;
        clock->ping_own_ms = echo_own_ms;
    }
}

uint64_t lq_cluster_clock_age(const struct lq_cluster_clock *clock, uint64_t stamp_ms,
                              uint64_t own_ms)
{
    if (clock->is_leading) {
        return minus(lq_cluster_clock_now(clock, own_ms), stamp_ms);
    }
    if (!clock->knows_leader || clock->ping_own_ms > own_ms) {
        return LQ_AGE_UNKNOWN;
    }
    return minus(upper_bound_at(clock, own_ms), stamp_ms);
}
