/* What the commands with one request and one answer share. */
#ifndef LQ_CALL_H
#define LQ_CALL_H

#include "lq_cli.h"
#include "lq_core.h"
#include "lq_held.h"

struct lq_call_answer {
    struct lq_outcome outcome;
    struct loquet_why why; /* with the endpoint that answered */
    uint64_t round_trip_us;
};

/* The lock that the arguments KEY TOKEN name. False after saying what is wrong. */
bool lq_call_held(const struct lq_cli *cli, struct lq_held *ret_held);

/* One request from beginning to end, to the endpoints of the options and the environment. `held` is
 * NULL for a ping. Returns LQ_EXIT_OK with the answer when it was done, else the code after saying
 * why not. */
enum lq_exit lq_call(const struct lq_cli *cli, enum lq_goal goal, const struct lq_held *held,
                     struct lq_call_answer *ret_answer);

#endif
