/* The disk of a node in memory (replica_rig.h): its journal segments and snapshot files. */
#ifndef LQ_REPLICA_DISK_H
#define LQ_REPLICA_DISK_H

#include "replica_rig.h"

/* Notes what an effect asks of the disk. */
void lq_nodes_ask_disk(struct lq_nodes_node *node, const struct lq_effect *effect);

/* Does it, in order, and tells the replica. */
void lq_nodes_run_disk(struct lq_nodes *nodes, struct lq_nodes_node *node);

/* What the disk holds, for a start. It must not be damaged. */
struct lq_recovery *lq_nodes_recover(const struct lq_nodes_node *node, uint64_t cluster,
                                     const uint8_t secret[16]);

/* Everything on it is gone. */
void lq_nodes_wipe(struct lq_nodes_node *node);

#endif
