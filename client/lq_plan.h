/* When a lease is renewed, and when the work under it is ended: decided by the clock, so that a
 * server that says nothing cannot keep anybody in the critical section. Pure.
 *
 *     sent            renew                term          kill     end
 *      |----------------|--------------------|-------------|--------|
 *      0           a third of it      ask it to end   make it end   conservative end of the lease
 *
 * A renewal moves all of it on. Other reasons to end the work have times of their own; the earliest
 * counts. */
#ifndef LQ_PLAN_H
#define LQ_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum lq_plan_act {
    LQ_PLAN_GO_ON,
    LQ_PLAN_TERM, /* ask the work to end; said once */
    LQ_PLAN_KILL, /* make it end; said until it is gone */
};

struct lq_plan {
    uint64_t ends_ms;       /* conservative end of the lease */
    uint64_t renew_ms;      /* send the next renewal */
    uint64_t lease_term_ms; /* end the work because the lease will end */
    uint64_t lease_kill_ms;
    uint64_t term_ms; /* end it for another reason; LQ_NEVER without one */
    uint64_t kill_ms;
    bool termed; /* TERM was said */
};

/* The shorter of two leases. */
static inline uint32_t lq_plan_shorter(uint32_t a_s, uint32_t b_s)
{
    return a_s < b_s ? a_s : b_s;
}

/* How much of a lease its holder can be sure of: shortened for clocks that run at different rates
 * (design, section 10). */
uint64_t lq_plan_span_ms(uint32_t lease_s);

/* When the work is made to end under a lease that ends, conservatively, at `ends_ms`; that may be
 * LQ_NEVER. */
uint64_t lq_plan_kill_ms(uint32_t lease_s, uint64_t ends_ms);

/* A lease of `lease_s` seconds that began with a frame sent at `sent_ms` and ends, conservatively,
 * at `ends_ms`. Nothing else ends the work yet. */
void lq_plan_init(struct lq_plan *plan, uint32_t lease_s, uint64_t sent_ms, uint64_t ends_ms);

/* It was renewed. */
void lq_plan_renewed(struct lq_plan *plan, uint32_t lease_s, uint64_t sent_ms, uint64_t ends_ms);

/* A renewal failed before its time was up: when to try again. */
void lq_plan_retry(struct lq_plan *plan, uint32_t lease_s, uint64_t now_ms);

/* End the work: TERM `patience_ms` from now, KILL `grace_ms` later. Of several calls, the earliest
 * times count. */
void lq_plan_end(struct lq_plan *plan, uint64_t now_ms, uint64_t patience_ms, uint64_t grace_ms);

/* The end of the lease does not end the work any more: it was lost, and the work may go on without.
 */
void lq_plan_forget_lease(struct lq_plan *plan);

/* What is to be done now. */
enum lq_plan_act lq_plan_next(struct lq_plan *plan, uint64_t now_ms);

/* Whether the lease leaves no more time to work. */
bool lq_plan_is_lease_over(const struct lq_plan *plan, uint64_t now_ms);

/* When lq_plan_next has something new to say. */
uint64_t lq_plan_due_ms(const struct lq_plan *plan);

#endif
