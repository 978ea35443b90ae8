/* Inside of the origin: what its files share. Nobody else includes this. */
#ifndef LQ_HOME_IMPL_H
#define LQ_HOME_IMPL_H

#include "lq_replica_impl.h"

enum lq_home_state {
    LQ_HOME_HELD,
    LQ_HOME_SENT,
    LQ_HOME_CONFIRMING, /* its grant or renewal is too old to be told: another renewal is under way
                         */
};

/* How long each kind of request is waited for; one list each. */
enum lq_home_timer {
    LQ_HOME_TIMER_BUSY,    /* wait 0 that no leader could be asked for: B */
    LQ_HOME_TIMER_ACQUIRE, /* an acquire whose wait is over */
    LQ_HOME_TIMER_CHANGE,  /* a release or renewal */
    LQ_HOME_NO_TIMER,
};

/* The request's patience begins anew, or ends. */
void lq_home_set_timer(struct lq_replica *replica, struct lq_request *request,
                       enum lq_home_timer timer);

/* Gives a request its number and puts its command into the outbox. */
void lq_home_number_request(struct lq_replica *replica, struct lq_request *request);

#endif
