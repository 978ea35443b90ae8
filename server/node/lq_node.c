/* Turns of a node, and its orderly stop. */
#include "lq_node.h"

#include "lq_clock.h"
#include "lq_node_impl.h"

/* How long a leader tries to hand over before it stops all the same. */
#define HAND_OVER_MS 500

struct lq_backend *lq_node_backend(struct lq_node *node)
{
    return lq_replica_backend(node->replica);
}

const struct lq_table *lq_node_table(const struct lq_node *node)
{
    return lq_replica_table(node->replica);
}

void lq_node_wake(struct lq_node *node)
{
    if (!node->is_awake) {
        node->is_awake = true;
        node->now_ms = lq_clock_ms();
        lq_replica_wake(node->replica, node->now_ms);
    }
}

void lq_node_begin(struct lq_node *node, uint64_t now_ms)
{
    node->is_awake = true;
    node->now_ms = now_ms;
    lq_replica_wake(node->replica, now_ms);
    lq_node_take_disk(node);
    lq_replica_turn(node->replica);
}

void lq_node_end(struct lq_node *node)
{
    lq_replica_flush(node->replica);
    lq_node_carry_out(node);
    lq_links_flush(node->links);
    if (node->has_write) { /* the others have to write too, and their answer has further to go */
        node->has_write = false;
        lq_disk_submit(node->disk, &node->write);
    }
    node->is_awake = false;
}

bool lq_node_has_failed(const struct lq_node *node)
{
    return node->has_failed;
}

/* ---- Stopping. */

void lq_node_hand_over(struct lq_node *node)
{
    lq_node_wake(node);
    node->is_handing_over = true;
    node->hand_over_until_ms = node->now_ms + HAND_OVER_MS;
    (void)lq_replica_change(node->replica, LQ_CHANGE_TRANSFER, 0, NULL);
}

bool lq_node_has_handed_over(struct lq_node *node)
{
    struct lq_replica_status status = lq_replica_status(node->replica);
    bool has_heir = status.leader != 0 && status.leader != node->id;
    return has_heir || status.role == LQ_REPLICA_WAITING || node->has_failed ||
           node->now_ms >= node->hand_over_until_ms;
}

void lq_node_leave(struct lq_node *node)
{
    lq_node_wake(node);
    node->is_leaving = true;
    lq_replica_leave(node->replica);
}

bool lq_node_has_left(struct lq_node *node)
{
    return node->has_failed || lq_replica_has_left(node->replica);
}
