/* What the admin interface sees of a node. */
#include "lq_clock.h"
#include "lq_node_impl.h"

#include <inttypes.h>
#include <stdio.h>

static void add_peer(struct lq_node *node, uint32_t id)
{
    struct lq_node_view *view = &node->view;
    struct lq_node_peer *peer = &view->peers[view->n_peers];
    struct lq_replica_peer seen = {.echo_age_ms = LQ_NEVER};
    if (id == node->id || view->n_peers == sizeof view->peers / sizeof *view->peers) {
        return;
    }
    view->n_peers++;
    (void)lq_replica_peer(node->replica, id, &seen);
    *peer = (struct lq_node_peer){.node = id,
                                  .link = lq_links_status(node->links, id),
                                  .heard_ms = seen.echo_age_ms,
                                  .match_index = seen.match_index};
}

/* A node that others refuse says so, rather than that it waits. */
static const char *why_not_ready(struct lq_node *node)
{
    static const char *const reasons[] = {
        [LQ_LINK_OK] = NULL,
        [LQ_LINK_WRONG_CLUSTER] = "this node is of another cluster, or its initial-cluster differs",
        [LQ_LINK_WRONG_NODE] = "this node is not the one that is expected at its address",
        [LQ_LINK_NOT_MEMBER] = "this node was removed from the cluster",
        [LQ_LINK_LOST_DISK] =
            "its disk was lost or emptied: it must join under a new id, see the log",
        [LQ_LINK_OLD_DISK] = "the data directory of this node is an old copy",
        [LQ_LINK_OLD_LIFE] = NULL,
    };
    const char *text = lq_replica_not_ready(node->replica);
    if (text == NULL || node->refused_by == 0 || reasons[node->refused] == NULL) {
        return text;
    }
    (void)snprintf(node->not_ready, sizeof node->not_ready, "node %" PRIu32 " refuses it: %s",
                   node->refused_by, reasons[node->refused]);
    return node->not_ready;
}

const struct lq_node_view *lq_node_look(void *context)
{
    struct lq_node *node = context;
    struct lq_node_view *view = &node->view;
    const struct lq_members *members = lq_replica_members(node->replica);
    lq_node_wake(node);
    *view = (struct lq_node_view){
        .node = node->id,
        .name = node->name,
        .cluster = node->cluster,
        .now_ms = node->now_ms,
        .started_ms = node->started_ms,
        .replica = lq_replica_status(node->replica),
        .not_ready = node->is_handing_over ? "it stops" : why_not_ready(node),
        .is_stopping = node->is_handing_over,
        .members = members,
        .table = lq_table_counts(lq_replica_table(node->replica)),
        .hub = lq_hub_counters(node->user.hub(node->user.context)),
        .connections = node->user.connections(node->user.context),
        .disk = lq_disk_counters(node->disk),
        .longest_turn_us = node->user.longest_turn_us(node->user.context),
    };
    view->is_ready = view->not_ready == NULL;
    for (size_t i = 0; i < members->n; i++) {
        add_peer(node, members->items[i].node);
    }
    return view;
}
