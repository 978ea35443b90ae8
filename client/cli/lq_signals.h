/* Signals as something to read. Blocked ones wait in a signalfd, so none is lost between two looks
 * and nothing happens behind the loop's back. */
#ifndef LQ_SIGNALS_H
#define LQ_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct lq_signals {
    sigset_t before; /* the mask that loquet was started with, for the command */
    sigset_t ours;
    int fd;
    bool chld_ignored; /* loquet was started with SIGCHLD ignored, and so will be the command */
};

/* Blocks the signals that end: TERM, INT, HUP, QUIT, USR1, USR2. One that was ignored when loquet
 * was started (nohup, a background job) stays ignored. False with errno set when there is no file
 * descriptor. */
bool lq_signals_init(struct lq_signals *signals);

/* From now on also TSTP and CONT, which a running command is to see. */
void lq_signals_add_job_control(struct lq_signals *signals);

/* The next signal that came, 0 when there is none. Does not block. */
int lq_signals_read(const struct lq_signals *signals);

/* In a child that is about to execute a command: signals as loquet found them. */
void lq_signals_restore(const struct lq_signals *signals);

/* "TERM" for SIGTERM; "?" for a number that is none. */
const char *lq_signals_name(int number);

#endif
