#ifndef LQ_FRONT_H
#define LQ_FRONT_H

#include "lq_run.h"

/* Forks the keeper and stays with it until the run is over; see lq_front.c. Returns false with
 * errno set when no process can be had: nothing was started, and the driver's connections are
 * still ours. Else `ret_report` says how the run ended. */
bool lq_front_run(struct lq_run *run, struct lq_run_report *ret_report);

#endif
