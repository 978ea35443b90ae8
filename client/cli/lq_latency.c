#include "lq_latency.h"

/* Each power of two from 32 on is cut into so many classes; below, a class is one microsecond. */
#define PER_POWER 32U

static unsigned class_of(uint32_t took_us)
{
    unsigned power;
    if (took_us < PER_POWER) {
        return took_us;
    }
    power = 31U - (unsigned)__builtin_clz(took_us);
    return (power - 4) * PER_POWER + ((took_us >> (power - 5)) & (PER_POWER - 1));
}

/* The longest time of a class. */
static uint64_t end_of(unsigned class)
{
    unsigned shift;
    if (class < PER_POWER) {
        return class;
    }
    shift = class / PER_POWER - 1;
    return ((uint64_t)(PER_POWER + class % PER_POWER + 1) << shift) - 1;
}

void lq_latency_add(struct lq_latency *latency, uint64_t took_us)
{
    latency->counts[class_of(took_us < UINT32_MAX ? (uint32_t)took_us : UINT32_MAX)]++;
    latency->n++;
}

void lq_latency_join(struct lq_latency *latency, const struct lq_latency *other)
{
    for (unsigned i = 0; i < LQ_LATENCY_CLASSES; i++) {
        latency->counts[i] += other->counts[i];
    }
    latency->n += other->n;
}

uint64_t lq_latency_percentile(const struct lq_latency *latency, unsigned percent)
{
    uint64_t wanted = (latency->n * percent + 99) / 100, seen = 0;
    for (unsigned i = 0; i < LQ_LATENCY_CLASSES && wanted > 0; i++) {
        seen += latency->counts[i];
        if (seen >= wanted) {
            return end_of(i);
        }
    }
    return 0;
}
