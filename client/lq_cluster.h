/* The servers that a client talks to, and the core that talks to them: what the drivers have in
 * common besides sockets. */
#ifndef LQ_CLUSTER_H
#define LQ_CLUSTER_H

#include "lq_core.h"
#include "lq_endpoints.h"

struct lq_cluster {
    struct lq_core *core; /* NULL until there are endpoints */
    struct lq_endpoints endpoints;
    uint64_t owner; /* of the last attempt: random at first, so that no two clients share any */
};

/* No endpoints, no core. */
void lq_cluster_init(struct lq_cluster *cluster);

/* Frees the core; its channels must be closed. */
void lq_cluster_done(struct lq_cluster *cluster);

/* Takes endpoints that were looked up; the core begins, or from now on uses their addresses. */
void lq_cluster_set(struct lq_cluster *cluster, const struct lq_endpoints *endpoints);

/* Checks what a caller gave, gives an acquire its fresh owner, and begins. NULL when an argument is
 * invalid: nothing was begun, and `ret_why` says what is wrong. */
struct lq_request *lq_cluster_submit(struct lq_cluster *cluster, struct lq_order *order,
                                     uint64_t now_ms, struct loquet_why *ret_why);

/* What became of a request, in words ("" for a success), and the endpoint concerned. */
void lq_cluster_explain(const struct lq_cluster *cluster, const struct lq_outcome *outcome,
                        struct loquet_why *ret_why);

#endif
