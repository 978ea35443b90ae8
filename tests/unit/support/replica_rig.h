/* Whole nodes in memory: replica, hub and sessions with a shell around them that carries out
 * effects at once, or when it is told to. Clients speak as in session_text.h. Own clocks differ by
 * an offset. Nothing here judges, but that links stand and nodes do not stop. */
#ifndef LQ_REPLICA_RIG_H
#define LQ_REPLICA_RIG_H

#include "lq_hub.h"
#include "lq_list.h"
#include "lq_replica.h"
#include "session_text.h"

#define LQ_NODES_MAX      5
#define LQ_NODES_CLIENTS  64
#define LQ_NODES_SEGMENTS 512
#define LQ_NODES_PENDING  64
#define LQ_NODES_NOTES    16

/* What becomes of a message. */
enum lq_nodes_fate {
    LQ_NODES_PASS,
    LQ_NODES_DROP,
    LQ_NODES_TWICE,
    LQ_NODES_LATE, /* 5 ms later, behind what was sent after it */
};

/* Called for each message as it is sent; NULL: all pass. */
typedef enum lq_nodes_fate lq_nodes_filter(uint32_t from, uint32_t to,
                                           const struct lq_message *message);

struct lq_nodes_file {
    struct lq_snapshot_name name;
    bool is_finished;
    uint8_t *bytes;
    size_t len;
};

struct lq_nodes_node {
    uint32_t id;
    struct lq_replica *replica; /* NULL: down */
    struct lq_hub *hub;
    bool is_paused;  /* takes no turns */
    bool holds_disk; /* what the disk is asked stays undone */
    bool is_full;    /* the disk has no room for another segment */
    bool may_stop;
    char stop_text[256]; /* why it stopped; "" if it did not */
    uint64_t notes[LQ_NODES_NOTES];
    uint8_t *segments[LQ_NODES_SEGMENTS]; /* by number */
    struct lq_nodes_file files[8];
    struct lq_effect pending[LQ_NODES_PENDING]; /* for the disk */
    size_t n_pending;
    bool is_linked[LQ_NODES_MAX + 1];
    struct lq_list inbox;
};

struct lq_nodes {
    struct lq_nodes_node nodes[LQ_NODES_MAX + 1]; /* by id */
    struct lq_replica_options options;            /* of the nodes that are started */
    uint64_t now_ms, latency_ms, salt;
    bool is_cut[LQ_NODES_MAX + 1][LQ_NODES_MAX + 1]; /* from, to: what is sent is lost */
    lq_nodes_filter *filter;
    struct lq_rig_client *clients[LQ_NODES_CLIENTS];
    uint32_t client_of[LQ_NODES_CLIENTS];
    size_t n_clients;
};

/* Voters 1 to `n`, blank, not started; at most LQ_NODES_MAX. Change `options` before a start. */
void lq_nodes_init(struct lq_nodes *nodes, unsigned n);
void lq_nodes_done(struct lq_nodes *nodes);

void lq_nodes_start(struct lq_nodes *nodes, uint32_t id);

/* The process is gone at once; the links of others break and are refused. */
void lq_nodes_kill(struct lq_nodes *nodes, uint32_t id);

/* Lets time pass, with turns whenever there is something to do. */
void lq_nodes_advance(struct lq_nodes *nodes, uint64_t ms);

/* Starts all and advances until one leads and every node serves; returns the leader. */
uint32_t lq_nodes_form(struct lq_nodes *nodes, unsigned n);
uint32_t lq_nodes_leader(const struct lq_nodes *nodes); /* the one of the highest term, or 0 */

/* Makes `id` the leader by a transfer. */
void lq_nodes_lead(struct lq_nodes *nodes, uint32_t id);

/* Nothing passes between that node and the others any more, or again. Links stand. */
void lq_nodes_cut(struct lq_nodes *nodes, uint32_t id, bool is_cut);

struct lq_rig_client *lq_nodes_connect(struct lq_nodes *nodes, uint32_t id);
void lq_nodes_break(struct lq_nodes *nodes, struct lq_rig_client *client);

struct lq_replica_status lq_nodes_status(const struct lq_nodes *nodes, uint32_t id);

/* The token that holds a key in that node's table, 0 if none. */
uint64_t lq_nodes_holder(const struct lq_nodes *nodes, uint32_t id, const char *key);
uint64_t lq_nodes_waiters(const struct lq_nodes *nodes, uint32_t id);

#endif
