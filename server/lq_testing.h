/* What builds with LOQUET_PLANTED, which are for tests alone, read from their environment: a fault
 * to be planted (LQ_PLANT), and a clock that runs at another rate (LQ_CLOCK_PPM) and is ahead
 * (LQ_CLOCK_OFFSET_MS). In all other builds there is nothing of it. */
#ifndef LQ_TESTING_H
#define LQ_TESTING_H

#include <stdbool.h>

#ifdef LOQUET_PLANTED
#define LQ_TESTING_WORDS " (test build)" /* behind the version */

/* Before the first look at a clock. False with a message when a value is wrong. */
bool lq_testing_start(void);
#else
#define LQ_TESTING_WORDS ""

static inline bool lq_testing_start(void)
{
    return true;
}
#endif

#endif
