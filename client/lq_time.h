/* The client's one clock, CLOCK_BOOTTIME, and alarms on it. poll(2) counts no suspended time, so
 * deadlines are alarms: a machine that wakes up finds them due at once. */
#ifndef LQ_TIME_H
#define LQ_TIME_H

#include "lq_client_limits.h"

#include <stdint.h>

uint64_t lq_time_now_ms(void);
uint64_t lq_time_now_us(void);

/* A new alarm: a descriptor (closed on exec) that is readable from its time on. Returns -1 with
 * errno set when there are no more descriptors. The caller closes it. */
int lq_alarm_open(void);

/* Sets the alarm to `due_ms`, a time of lq_time_now_ms; one that has passed is due at once,
 * LQ_NEVER switches it off. */
void lq_alarm_set(int alarm_fd, uint64_t due_ms);

#endif
