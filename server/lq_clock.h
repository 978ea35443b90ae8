/* All reading of clocks in the server goes through here. */
#ifndef LQ_CLOCK_H
#define LQ_CLOCK_H

#include <stdint.h>

/* Milliseconds of CLOCK_BOOTTIME, rounded down: never goes back, and goes on while the machine is
 * suspended, as leases must. */
uint64_t lq_clock_ms(void);

/* Microseconds of the same clock, for measuring how long something took. */
uint64_t lq_clock_us(void);

#ifdef LOQUET_PLANTED
/* From now on these two run faster by `ppm` millionths, and are ahead by so much. */
void lq_clock_distort(long ppm, uint64_t offset_ms);
#endif

/* Microseconds of the wall clock since 1970; only for the first token of simple mode and for log
 * lines. */
uint64_t lq_clock_wall_us(void);

/* CPU time of the calling thread in microseconds. */
uint64_t lq_clock_cpu_us(void);

#endif
