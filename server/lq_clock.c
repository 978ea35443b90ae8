#include "lq_clock.h"

#include "lq_check.h"

#include <time.h>

static uint64_t read_clock(clockid_t clock, uint64_t units_per_s)
{
    struct timespec now;
    LQ_CHECK(clock_gettime(clock, &now) == 0);
    return (uint64_t)now.tv_sec * units_per_s +
           (uint64_t)now.tv_nsec / (UINT64_C(1000000000) / units_per_s);
}

#ifdef LOQUET_PLANTED
static struct {
    uint64_t from_us;
    uint64_t per_million;
    uint64_t offset_us;
} distortion = {.per_million = 1000000};

void lq_clock_distort(long ppm, uint64_t offset_ms)
{
    distortion.from_us = read_clock(CLOCK_BOOTTIME, 1000000);
    distortion.per_million = (uint64_t)(1000000 + ppm);
    distortion.offset_us = offset_ms * 1000;
}

uint64_t lq_clock_us(void)
{
    uint64_t since_us = read_clock(CLOCK_BOOTTIME, 1000000) - distortion.from_us;
    return distortion.from_us + distortion.offset_us + since_us * distortion.per_million / 1000000;
}

uint64_t lq_clock_ms(void)
{
    return lq_clock_us() / 1000;
}
#else
uint64_t lq_clock_ms(void)
{
    return read_clock(CLOCK_BOOTTIME, 1000);
}

uint64_t lq_clock_us(void)
{
    return read_clock(CLOCK_BOOTTIME, 1000000);
}
#endif

uint64_t lq_clock_wall_us(void)
{
    return read_clock(CLOCK_REALTIME, 1000000);
}

uint64_t lq_clock_cpu_us(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID, 1000000);
}
