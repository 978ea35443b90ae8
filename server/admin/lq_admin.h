/* The admin interface: HTTP/1.1 with JSON on a port of its own, for people, scripts, monitors and
 * `loquet status` / `loquet member`. Driven from the loop of the node; every answer is small and
 * made at once.
 *
 *   GET  /livez                    200 "ok": the loop runs
 *   GET  /readyz                   200 "ready", or 503 and the reason: whether this node can have a
 *                                  request of a client committed now
 *   GET  /v1/status                the node, its role, indexes, peers, members, table, counters
 *   GET  /v1/members               members: id, address, role, leader
 *   POST /v1/members               {"node": 4, "address": "HOST:PORT"}: add as a standby
 *   POST /v1/members/N/promote     N becomes a voter
 *   POST /v1/members/N/demote      N becomes a standby
 *   POST /v1/members/N/replace     {"node": 5, "address": "HOST:PORT"}: 5 takes the place of N
 *   POST /v1/members/N/remove      N leaves (DELETE /v1/members/N does the same)
 *   POST /v1/leader/transfer       {"node": N}, or {} for the voter that is furthest
 *
 * Changes: 200 {"result": "done"}, 202 {"result": "started"}: ask again, or watch the members; 409
 * {"error": "busy" | "not_leader", "leader": N, "message": ...}; 400, 404, 405, 413 with "error"
 * and "message" for what is wrong. Changes are only made by the leader: ask it. */
#ifndef LQ_ADMIN_H
#define LQ_ADMIN_H

#include "lq_disk.h"
#include "lq_hub.h"
#include "lq_links.h"
#include "lq_replica.h"
#include "lq_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* One other member, or a linked node that is none, as this node sees it. */
struct lq_node_peer {
    uint32_t node;
    struct lq_link_status link;
    uint64_t heard_ms;    /* since it was heard, UINT64_MAX: never */
    uint64_t match_index; /* on the leader: what it is known to have; else 0 */
};

/* All that the admin interface tells; texts live until the next call. */
struct lq_node_view {
    uint32_t node;
    const char *name; /* of the node, from its configuration */
    uint64_t cluster;
    uint64_t now_ms, started_ms;
    struct lq_replica_status replica;
    bool is_ready;
    const char *not_ready; /* why not */
    bool is_stopping;
    const struct lq_members *members;
    struct lq_node_peer peers[LQ_MEMBERS_MAX + LQ_MEMBERS_MAX];
    size_t n_peers;
    struct lq_table_counts table;
    struct lq_hub_counters hub;
    uint64_t connections;
    struct lq_disk_counters disk;
    uint64_t longest_turn_us; /* CPU of the longest turn so far; 0 unless it is measured */
};

struct lq_admin_user {
    void *context;
    const struct lq_node_view *(*view)(void *context);
    enum lq_change_result (*change)(void *context, enum lq_change_kind kind, uint32_t node,
                                    const char *address);
    enum lq_change_result (*replace)(void *context, uint32_t old_node, uint32_t new_node,
                                     const char *address);
};

struct lq_admin;

/* Listens on HOST:PORT (port 0: a free one) and logs "listening for admin" with the address. NULL
 * when that fails, which was logged. */
struct lq_admin *lq_admin_start(uv_loop_t *loop, const char *address,
                                const struct lq_admin_user *user);

/* NULL is fine. Closes; the loop has to run once more, and the memory is freed from there. */
void lq_admin_stop(struct lq_admin *admin);

#endif
