/* How long something took, many times over: a histogram whose classes are at most 1/32 wide. */
#ifndef LQ_LATENCY_H
#define LQ_LATENCY_H

#include <stdint.h>

#define LQ_LATENCY_CLASSES 896

struct lq_latency {
    uint64_t counts[LQ_LATENCY_CLASSES]; /* zero at first */
    uint64_t n;
};

/* Adds one; more than 2^32 - 1 microseconds count as that. */
void lq_latency_add(struct lq_latency *latency, uint64_t took_us);

/* Adds all of another one. */
void lq_latency_join(struct lq_latency *latency, const struct lq_latency *other);

/* What `percent` (1 to 100) of them did not exceed, in microseconds, rounded up to the end of its
 * class; 0 when there are none. */
uint64_t lq_latency_percentile(const struct lq_latency *latency, unsigned percent);

#endif
