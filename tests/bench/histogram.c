#include "histogram.h"

#include <math.h>
#include <string.h>

/* A value of b bits beyond STEP_BITS + 1 loses its lowest `shift` bits. The cell is the remaining
 * number, between 2^STEP_BITS and 2^(STEP_BITS + 1), plus the 2^STEP_BITS cells of each smaller
 * shift: cells are contiguous. */
static uint32_t cell_of(uint64_t value)
{
    uint32_t bits, shift;
    if (value >> (LQ_BENCH_HISTOGRAM_STEP_BITS + 1) == 0)
        return (uint32_t)value;
    if (value >> LQ_BENCH_HISTOGRAM_MAX_BITS != 0)
        return LQ_BENCH_HISTOGRAM_CELLS - 1;
    bits = 64 - (uint32_t)__builtin_clzll(value);
    shift = bits - LQ_BENCH_HISTOGRAM_STEP_BITS - 1;
    return (shift << LQ_BENCH_HISTOGRAM_STEP_BITS) + (uint32_t)(value >> shift);
}

/* The largest value of a cell: the inverse of cell_of(). */
static uint64_t end_of(uint32_t cell)
{
    uint32_t shift;
    if (cell >> (LQ_BENCH_HISTOGRAM_STEP_BITS + 1) == 0)
        return cell;
    shift = (cell >> LQ_BENCH_HISTOGRAM_STEP_BITS) - 1;
    return (((uint64_t)cell - ((uint64_t)shift << LQ_BENCH_HISTOGRAM_STEP_BITS) + 1) << shift) - 1;
}

void lq_bench_histogram_init(struct lq_bench_histogram *h)
{
    memset(h, 0, sizeof *h);
}

void lq_bench_histogram_record(struct lq_bench_histogram *h, uint64_t value_ns)
{
    h->count++;
    h->cells[cell_of(value_ns)]++;
    if (value_ns > h->max_ns)
        h->max_ns = value_ns;
}

uint64_t lq_bench_histogram_percentile(const struct lq_bench_histogram *h, double percent)
{
    uint64_t seen = 0, wanted = (uint64_t)ceil((double)h->count * percent / 100);
    if (wanted == 0)
        wanted = 1;
    for (uint32_t cell = 0; cell < LQ_BENCH_HISTOGRAM_CELLS; cell++) {
        seen += h->cells[cell];
        if (seen >= wanted && seen > 0)
            return end_of(cell) < h->max_ns && cell < LQ_BENCH_HISTOGRAM_CELLS - 1 ? end_of(cell)
                                                                                   : h->max_ns;
    }
    return 0;
}
