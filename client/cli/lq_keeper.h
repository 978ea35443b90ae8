#ifndef LQ_KEEPER_H
#define LQ_KEEPER_H

#include "lq_run.h"

/* Runs the command under the lock, in the process forked for it; see lq_keeper.c. `link_fd` is its
 * end of the socket to the front. Ends the process. */
__attribute__((noreturn)) void lq_keeper_main(struct lq_run *run, int link_fd);

#endif
