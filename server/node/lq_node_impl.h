/* Inside of a node: what lq_node*.c share. Nobody else includes this. */
#ifndef LQ_NODE_IMPL_H
#define LQ_NODE_IMPL_H

#include "lq_admin.h"
#include "lq_contest.h"
#include "lq_datadir.h"
#include "lq_disk.h"
#include "lq_links.h"
#include "lq_node.h"
#include "lq_replica.h"

struct lq_node {
    struct lq_node_user user;
    char name[LQ_CONFIG_TEXT];
    uint32_t id;
    uint64_t cluster;
    struct lq_datadir dir;
    bool is_open; /* `dir` is */
    struct lq_replica *replica;
    struct lq_disk *disk;
    struct lq_links *links;
    struct lq_admin *admin;      /* NULL: not wanted */
    uint64_t started_ms, now_ms; /* now: of the present turn */
    struct lq_limiter skips;     /* elections without waiting that were logged */
    struct lq_effect write;      /* a batch that waits for what goes to the peers */
    bool has_write;
    bool is_awake; /* the present turn's clock was read */
    bool has_failed;
    bool is_handing_over, is_leaving;
    uint64_t hand_over_until_ms;
    /* A peer refused this node, which says why it does not become ready. */
    enum lq_link_verdict refused;
    uint32_t refused_by;
    struct lq_node_view view; /* the latest */
    char not_ready[256];
};

/* ---- lq_node_effects.c */

/* Feeds the replica with what the disk has done. */
void lq_node_take_disk(struct lq_node *node);

/* Carries out all effects of the replica. */
void lq_node_carry_out(struct lq_node *node);

/* ---- lq_node_view.c */

/* For the admin interface; `context` is the node. */
const struct lq_node_view *lq_node_look(void *context);

#endif
