/* A histogram of durations: exact below 256 ns, then 128 steps per power of two, so that a
 * percentile is at most 0.8 % above the true value. Recording is an increment; nothing is
 * allocated.
 *
 * (HdrHistogram does the same; its C library is not packaged for Debian 12.) */
#ifndef LQ_BENCH_HISTOGRAM_H
#define LQ_BENCH_HISTOGRAM_H

#include <stdint.h>

enum {
    LQ_BENCH_HISTOGRAM_STEP_BITS = 7,
    LQ_BENCH_HISTOGRAM_MAX_BITS =
        40, /* 2^40 ns are 18 minutes: longer than any wait; beyond it, all count as that */
    LQ_BENCH_HISTOGRAM_CELLS = (LQ_BENCH_HISTOGRAM_MAX_BITS - LQ_BENCH_HISTOGRAM_STEP_BITS + 1)
                               << LQ_BENCH_HISTOGRAM_STEP_BITS,
};

struct lq_bench_histogram {
    uint64_t count;
    uint64_t max_ns; /* exact */
    uint64_t cells[LQ_BENCH_HISTOGRAM_CELLS];
};

void lq_bench_histogram_init(struct lq_bench_histogram *h);

void lq_bench_histogram_record(struct lq_bench_histogram *h, uint64_t value_ns);

/* The smallest value that `percent` (0 to 100) of the recorded ones do not exceed, rounded up to
 * the end of its step but never above the maximum; 0 if nothing was recorded. */
uint64_t lq_bench_histogram_percentile(const struct lq_bench_histogram *h, double percent);

#endif
