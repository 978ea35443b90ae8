/* A node of a cluster in this process: the replica (lq_replica.h) with its body, which is disk,
 * links and admin interface. The server (lq_server.c) serves clients over it as over simple mode's
 * table; this is its backend.
 *
 *   start: data directory, recovery, replica, links ---- turns ---- stop asked ----+
 *                    |                                     |                       |
 *                    +-- can't: told, no node              +-- STOP of the replica |
 *                                                          |   or a failed disk    |
 *                                                          v                       v
 *                                                     has_failed: exit         leaving -> has left
 *
 * In each turn of the loop: lq_node_wake at the first event, then lq_node_begin, the hub's turn,
 * and lq_node_end. */
#ifndef LQ_NODE_H
#define LQ_NODE_H

#include "lq_config.h"
#include "lq_hub.h"
#include "lq_table.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct lq_node;

/* What the node asks of the server, for its status. */
struct lq_node_user {
    void *context;
    const struct lq_hub *(*hub)(void *context);
    uint64_t (*connections)(void *context);
    uint64_t (*longest_turn_us)(void *context);
};

/* Starts a node. Never NULL; when it can't start, which was logged, lq_node_has_failed says so. */
struct lq_node *lq_node_start(uv_loop_t *loop, const struct lq_config *config,
                              const struct lq_node_user *user);

struct lq_backend *lq_node_backend(struct lq_node *node);

const struct lq_table *lq_node_table(const struct lq_node *node);

/* Something happened: the node's clock is read, once per turn. */
void lq_node_wake(struct lq_node *node);

/* The turn begins at `now_ms`: what the disk has done, and what is due. */
void lq_node_begin(struct lq_node *node, uint64_t now_ms);

/* The turn ends: what was gathered goes to disk and peers. */
void lq_node_end(struct lq_node *node);

/* The node could not start, or stopped itself; the log says why. Nothing works any more but
 * lq_node_close. */
bool lq_node_has_failed(const struct lq_node *node);

/* An orderly stop, step by step: leadership is handed over while clients are still served; then,
 * when those are gone, the origin is closed. Each `has` becomes true in any case, in about a second
 * at most. */
void lq_node_hand_over(struct lq_node *node);
bool lq_node_has_handed_over(struct lq_node *node);
void lq_node_leave(struct lq_node *node);
bool lq_node_has_left(struct lq_node *node);

/* Closes disk, links and admin interface; the loop has to run until they are. */
void lq_node_close(struct lq_node *node);

/* After the loop has ended. NULL is fine. */
void lq_node_free(struct lq_node *node);

#endif
