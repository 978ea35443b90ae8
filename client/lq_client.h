/* The blocking client: one driver, and the threads that share it.
 *
 * Whoever calls takes the mutex, submits, and writes by itself. Then it waits for its outcome. If
 * nobody polls the sockets, it does (and gives the others the outcomes that come in); else it
 * sleeps until it is given its own. So a single thread is served by no other, and a thousand need
 * one poll.
 *
 *                 nobody polls                      outcome came
 *     submit ----------------------> polls ---------------------------> leaves: if others wait, the
 *        |                             | others' outcomes: wakes them    ^  worker polls from now
 * on | somebody polls              v                                 |
 *        '----------------------> sleeps --------------------------------'
 *
 * The worker is the client's own thread (lq_worker.c). It rests while nobody waits, or a caller
 * polls; polls for callers that sleep and for what happens by itself (renewals, releases of late
 * grants); runs callbacks, without the mutex. While it is busy with those, a caller polls in its
 * place. Names are looked up again in a thread of their own (lq_lookup.h), which may take its time.
 *
 * The alarm is one for all: it is set to the earliest time at which something is due, but not moved
 * to a later one before it rings; so requests that are answered in time cost no system call here.
 */
#ifndef LQ_CLIENT_H
#define LQ_CLIENT_H

#include "lq_driver.h"
#include "lq_list.h"

#include <pthread.h>

struct lq_lookup;

struct loquet_client {
    pthread_mutex_t mutex; /* guards all of this, and the client's tickets and cancels */
    struct lq_driver driver;
    int alarm_fd, wake_fd, nudge_fd; /* the last two: eventfds, for who polls and for the worker */
    uint64_t alarm_ms;               /* what the alarm is set to */

    bool polling;            /* somebody polls the sockets */
    bool woken;              /* and was told to look again */
    uint64_t polled_changes; /* what it polls for, see lq_driver.changes */

    struct lq_list callers; /* threads whose outcome has not come */
    size_t n_inside;        /* threads in a call */
    struct lq_list tickets;

    pthread_t worker;
    bool resting;                   /* it waits to be nudged */
    bool busy;                      /* it won't poll for now: runs a callback, or has ended */
    struct lq_list lost;            /* tickets whose callback it has to run */
    struct loquet_ticket *informed; /* whose callback runs now */

    struct lq_lookup *lookup; /* of names, under way; NULL: none */

    bool closing;
    uint64_t close_by_ms;   /* what is left to do may take until then; LQ_NEVER before */
    pthread_cond_t changed; /* a call or a callback is over, or the worker has ended */
};

/* Gives up acquires; guarded by the client's mutex. */
struct loquet_cancel {
    struct loquet_client *client;
    struct lq_list callers; /* with it, under way */
    bool fired;
};

/* What else a call is about. NULL: nothing. */
struct lq_tie {
    struct loquet_cancel *cancel;
    struct lq_hold *hold; /* is released or renewed: learns the outcome in the turn that has it */
};

/* Takes the mutex, and gives it back after seeing to it that somebody polls if anybody waits. */
void lq_client_lock(struct loquet_client *client);
void lq_client_unlock(struct loquet_client *client);

/* Does what can be done without blocking: a turn of the driver, outcomes to their callers, lost
 * leases to their tickets. */
void lq_client_turn(struct loquet_client *client);

/* Polls once, without the mutex meanwhile, and does a turn. Nobody else may be polling. */
void lq_client_poll(struct loquet_client *client);

/* Submits and waits for the outcome, without the mutex for most of the time. Returns the outcome's
 * result, or INVALID without outcome; fills `ret_why` (or NULL). */
enum loquet_result lq_client_run(struct loquet_client *client, struct lq_order *order,
                                 const struct lq_tie *tie, struct lq_outcome *ret_outcome,
                                 struct loquet_why *ret_why);

/* Between these two the client is not freed by a loquet_close in another thread. */
void lq_client_enter(struct loquet_client *client);
void lq_client_leave(struct loquet_client *client);

/* Whether anybody waits for bytes. */
bool lq_client_has_to_poll(const struct loquet_client *client);

/* Makes the worker look for work. */
void lq_client_nudge(struct loquet_client *client);

/* Starts a thread with all signals blocked: they are for the program's own threads. Returns what
 * pthread_create does. */
int lq_client_start_thread(pthread_t *ret_thread, void *(*run)(void *), void *argument);

/* The worker (lq_worker.c), a thread's function; `argument` is the client. */
void *lq_worker_main(void *argument);

#endif
