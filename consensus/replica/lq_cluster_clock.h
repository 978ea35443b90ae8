/* Table time: a lower bound of the real time since the cluster began, in ms, which leases are
 * measured by. Only the leader makes it; the others keep an estimate that is never above it, so
 * that whoever becomes leader next goes on with it (docs/decisions/0011-table-time.md).
 *
 * Own clocks may differ in rate by LQ_CLOCK_RATE_PERCENT from real time, so two of them by a little
 * more than twice that: an estimate ages at 98 hundredths of the own clock. Then it stays below
 * what the leader's table time would be by now, however long nothing was heard.
 *
 * A new leader may know less than the one before did, and another node more. So the estimate always
 * continues the time of the leader that made the last entry of this node's log, even if another one
 * was ahead: that leader's time is what the leases in the log began by, and so no lease is cut
 * short by a change of leaders. */
#ifndef LQ_CLUSTER_CLOCK_H
#define LQ_CLUSTER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define LQ_CLOCK_RATE_PERCENT 1

/* "So long ago, or so little known, that nothing can be said." */
#define LQ_AGE_UNKNOWN UINT64_MAX

/* All own times are ms of this node's clock, which never goes back and goes on while the machine
 * sleeps. */
struct lq_cluster_clock {
    /* The estimate: the table time of the leader of `term` was at least `table_ms` at `own_ms`. */
    uint64_t term, table_ms, own_ms;
    /* While leading: table time is base_ms + what passed since base_own_ms. */
    bool is_leading;
    uint64_t base_ms, base_own_ms;
    /* What the latest messages of the leader prove: at `ping_own_ms` or later, its table time was
     * `leader_ms`. */
    bool knows_leader;
    uint64_t leader_ms, ping_own_ms;
};

/* At the start: the term and stamp of the last entry in the log, 0 if none. */
void lq_cluster_clock_init(struct lq_cluster_clock *clock, uint64_t last_term,
                           uint64_t last_stamp_ms, uint64_t own_ms);

/* The last entry of this node's log is of `term`, and the table time of that term's leader was at
 * least `table_ms`: it stamped an entry with it, or said so in a message. (A leader's messages
 * count from the first one on after which the log ends with an entry of its term; not before.) If
 * the estimate is of another term, this replaces it; else it raises it, or does nothing. */
void lq_cluster_clock_observe(struct lq_cluster_clock *clock, uint64_t term, uint64_t table_ms,
                              uint64_t own_ms);

/* This node was elected in `term`: the estimate becomes the base, once for the whole term. The last
 * entry of the log that has a stamp was observed right before, with the term of the very last one;
 * then table time is not below any stamp in the log. */
void lq_cluster_clock_lead(struct lq_cluster_clock *clock, uint64_t term, uint64_t own_ms);

/* This node leads no more: its table time becomes its estimate. Does nothing when it did not lead.
 */
void lq_cluster_clock_follow(struct lq_cluster_clock *clock, uint64_t own_ms);

/* Table time as this node has it at `own_ms`: the leader's own, or the estimate. */
uint64_t lq_cluster_clock_now(const struct lq_cluster_clock *clock, uint64_t own_ms);

/* The leader is another one now, or none: what was proven about the last one's time is forgotten.
 */
void lq_cluster_clock_forget_leader(struct lq_cluster_clock *clock);

/* A message of the present leader arrived with its table time, and with the echo of a ping that
 * this node sent at `echo_own_ms` (0: no echo, proves nothing). */
void lq_cluster_clock_hear_leader(struct lq_cluster_clock *clock, uint64_t table_ms,
                                  uint64_t echo_own_ms);

/* How long ago, at most, the leader's table time was `stamp_ms`: a bound in ms of real time up to
 * the rates of clocks. For a leader, by its own table time. LQ_AGE_UNKNOWN when nothing is proven
 * about the present leader. */
uint64_t lq_cluster_clock_age(const struct lq_cluster_clock *clock, uint64_t stamp_ms,
                              uint64_t own_ms);

#endif
