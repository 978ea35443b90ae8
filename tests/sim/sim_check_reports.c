/* What a node reports as durable, against what it knows itself: entries that were written and then
 * replaced are not, before what replaced them is. The one check that looks inside of a replica:
 * from outside such a report can't be told from a true one until several nodes have failed. */
#include "lq_replica_impl.h"
#include "sim_checks_impl.h"

#include <inttypes.h>

void sim_nodes_check_reports(const struct sim_observed *node)
{
    const struct lq_store *store = &node->replica->store;
    uint64_t reported = lq_replica_status(node->replica).durable_index;
    for (size_t i = 0; i < store->n_replaced; i++) {
        const struct lq_replaced *replaced = &store->replaced[i];
        if (replaced->position > store->n_durable && replaced->index <= reported) {
            sim_fail(node->checks->sim,
                     "reports: node %u says that entry %" PRIu64
                     " is durable, but entries from %" PRIu64
                     " on were replaced since they were written",
                     node->node, reported, replaced->index);
            return;
        }
    }
}
