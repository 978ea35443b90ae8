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

uint64_t lq_clock_ms(void)
{
    return read_clock(CLOCK_BOOTTIME, 1000);
}

uint64_t lq_clock_us(void)
{
    return read_clock(CLOCK_BOOTTIME, 1000000);
}

uint64_t lq_clock_wall_us(void)
{
    return read_clock(CLOCK_REALTIME, 1000000);
}

uint64_t lq_clock_cpu_us(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID, 1000000);
}
