/* One node of the durable floor (floor.h). */
#ifndef LQ_BENCH_FLOOR_NODE_H
#define LQ_BENCH_FLOOR_NODE_H

#include "floor.h"

/* What a node is given: open descriptors, which it never closes. The links are connected stream
 * sockets, one to each follower, or to the leader at [0]. */
struct lq_bench_floor_seat {
    int listener;
    int journal;
    int logs[LQ_BENCH_FLOOR_FOLLOWERS]; /* operations to append one way, counts of durable ones the
                                           other */
    int relays[LQ_BENCH_FLOOR_FOLLOWERS]; /* operations of a follower's clients one way, answers the
                                             other */
};

/* Serves until a link or the journal fails, and returns. `number` 0 leads. */
void lq_bench_floor_node_run(unsigned number, const struct lq_bench_floor_seat *seat);

#endif
