/* What can be asked for: GET only, nothing changes. docs/operations.md lists every field. */
#include "lq_admin_impl.h"
#include "lq_limits.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t since(const struct lq_node_view *view, uint64_t then_ms)
{
    return view->now_ms > then_ms ? view->now_ms - then_ms : 0;
}

/* ---- Probes. */

struct lq_admin_answer lq_admin_livez(const struct lq_admin_request *request)
{
    (void)request;
    return (struct lq_admin_answer){.status = MHD_HTTP_OK, .text = "ok"};
}

struct lq_admin_answer lq_admin_readyz(const struct lq_admin_request *request)
{
    const struct lq_node_view *view = request->view;
    if (view->is_stopping) {
        return (struct lq_admin_answer){.status = MHD_HTTP_SERVICE_UNAVAILABLE, .text = "stopping"};
    }
    if (!view->is_ready) {
        return (struct lq_admin_answer){.status = MHD_HTTP_SERVICE_UNAVAILABLE,
                                        .text = view->not_ready == NULL ? "not ready"
                                                                        : view->not_ready};
    }
    return (struct lq_admin_answer){.status = MHD_HTTP_OK, .text = "ready"};
}

/* ---- Members. */

static const char *name_of_role(uint8_t role)
{
    switch ((enum lq_role)role) {
    case LQ_ROLE_STANDBY:
        return "standby";
    case LQ_ROLE_VOTER:
        return "voter";
    case LQ_ROLE_SPARE:
        return "spare";
    }
    return "unknown";
}

static json_t *members_of(const struct lq_node_view *view)
{
    json_t *list = json_array();
    for (size_t i = 0; i < view->members->n; i++) {
        const struct lq_member *member = &view->members->items[i];
        json_t *object = json_object();
        lq_admin_set_node(object, "node", member->node);
        lq_admin_set_text(object, "address", member->address);
        lq_admin_set_text(object, "role", name_of_role(member->role));
        lq_admin_set_bool(object, "leader", member->node == view->replica.leader);
        (void)json_array_append_new(list, object);
    }
    return list;
}

static void set_cluster(json_t *object, const struct lq_node_view *view)
{
    lq_admin_set(object, "cluster_id", json_sprintf("%016" PRIx64, view->cluster));
}

struct lq_admin_answer lq_admin_members(const struct lq_admin_request *request)
{
    const struct lq_node_view *view = request->view;
    json_t *object = json_object();
    set_cluster(object, view);
    lq_admin_set_node(object, "node", view->node);
    lq_admin_set_node(object, "leader", view->replica.leader);
    lq_admin_set_number(object, "term", view->replica.term);
    lq_admin_set(object, "members", members_of(view));
    return (struct lq_admin_answer){.status = MHD_HTTP_OK, .json = object};
}

/* ---- Status. */

static const char *name_of_part(enum lq_replica_role role)
{
    switch (role) {
    case LQ_REPLICA_WAITING:
        return "waiting";
    case LQ_REPLICA_FOLLOWER:
        return "follower";
    case LQ_REPLICA_CANDIDATE:
        return "candidate";
    case LQ_REPLICA_LEADER:
        return "leader";
    }
    return "unknown";
}

static json_t *peer_of(const struct lq_node_view *view, const struct lq_node_peer *peer)
{
    json_t *object = json_object();
    lq_admin_set_node(object, "node", peer->node);
    lq_admin_set_bool(object, "up", peer->link.is_up);
    lq_admin_set_number(object, "changed_ago_ms", since(view, peer->link.since_ms));
    lq_admin_set_text(object, "reason", peer->link.text);
    lq_admin_set_number(object, "heard_ago_ms", peer->heard_ms);
    lq_admin_set_number(object, "match_index", peer->match_index);
    lq_admin_set_bool(object, "full", peer->link.is_full);
    lq_admin_set_number(object, "queued_bytes", peer->link.queued_bytes);
    lq_admin_set_number(object, "sent_bytes", peer->link.sent_bytes);
    lq_admin_set_number(object, "received_bytes", peer->link.received_bytes);
    return object;
}

static json_t *peers_of(const struct lq_node_view *view)
{
    json_t *list = json_array();
    for (size_t i = 0; i < view->n_peers; i++) {
        (void)json_array_append_new(list, peer_of(view, &view->peers[i]));
    }
    return list;
}

static json_t *log_of(const struct lq_node_view *view)
{
    const struct lq_replica_status *replica = &view->replica;
    json_t *object = json_object();
    lq_admin_set_number(object, "first_index", replica->first_index);
    lq_admin_set_number(object, "last_index", replica->last_index);
    lq_admin_set_number(object, "durable_index", replica->durable_index);
    lq_admin_set_number(object, "commit_index", replica->commit_index);
    lq_admin_set_number(object, "applied_index", replica->applied_index);
    lq_admin_set_number(object, "snapshot_index", replica->snapshot_index);
    lq_admin_set_number(object, "bytes", replica->log_bytes);
    return object;
}

static json_t *queues_of(const struct lq_node_view *view)
{
    json_t *object = json_object();
    lq_admin_set_number(object, "outbox_bytes", view->replica.outbox_bytes);
    lq_admin_set_number(object, "held_requests", view->replica.held_requests);
    lq_admin_set_number(object, "effect_bytes", view->replica.queued_bytes);
    return object;
}

static json_t *table_of(const struct lq_node_view *view)
{
    json_t *object = json_object();
    lq_admin_set_number(object, "keys", view->table.keys);
    lq_admin_set_number(object, "waiters", view->table.waiters);
    lq_admin_set_number(object, "state_bytes", view->table.state_bytes);
    lq_admin_set_wide(object, "last_token", view->table.last_token);
    lq_admin_set_number(object, "time_ms", view->table.time_ms);
    lq_admin_set_number(object, "clock_ms", view->replica.table_ms);
    return object;
}

static json_t *requests_of(const struct lq_node_view *view)
{
    json_t *object = json_object();
    lq_admin_set_number(object, "all", view->hub.requests);
    lq_admin_set_number(object, "granted", view->hub.granted);
    lq_admin_set_number(object, "timeouts", view->hub.timeouts);
    lq_admin_set_number(object, "busy", view->hub.busy);
    lq_admin_set_number(object, "errors", view->hub.errors);
    lq_admin_set_number(object, "taken_back", view->hub.taken_back);
    return object;
}

static json_t *disk_of(const struct lq_node_view *view)
{
    json_t *object = json_object();
    lq_admin_set_bool(object, "full", view->replica.is_full);
    lq_admin_set_number(object, "free_bytes", view->disk.free_bytes);
    lq_admin_set_number(object, "writes", view->disk.writes);
    lq_admin_set_number(object, "written_bytes", view->disk.bytes);
    lq_admin_set_number(object, "last_write_us", view->disk.last_us);
    lq_admin_set_number(object, "longest_write_us", view->disk.longest_us);
    return object;
}

static void set_node(json_t *object, const struct lq_node_view *view)
{
    lq_admin_set_text(object, "version", LOQUET_VERSION);
    lq_admin_set_node(object, "node", view->node);
    lq_admin_set_text(object, "name", view->name == NULL ? "" : view->name);
    set_cluster(object, view);
    lq_admin_set_number(object, "uptime_ms", since(view, view->started_ms));
}

static void set_part(json_t *object, const struct lq_node_view *view)
{
    bool is_ready = view->is_ready && !view->is_stopping;
    lq_admin_set_text(object, "role", name_of_part(view->replica.role));
    lq_admin_set_number(object, "term", view->replica.term);
    lq_admin_set_node(object, "leader", view->replica.leader);
    lq_admin_set_bool(object, "ready", is_ready);
    lq_admin_set_text(object, "not_ready",
                      is_ready || view->not_ready == NULL ? "" : view->not_ready);
    lq_admin_set_bool(object, "stopping", view->is_stopping);
    lq_admin_set_bool(object, "serving", view->replica.is_serving);
    lq_admin_set_number(object, "boot", view->replica.boot);
    lq_admin_set_wide(object, "incarnation", view->replica.incarnation);
}

struct lq_admin_answer lq_admin_status(const struct lq_admin_request *request)
{
    const struct lq_node_view *view = request->view;
    json_t *object = json_object();
    set_node(object, view);
    set_part(object, view);
    lq_admin_set_number(object, "connections", view->connections);
    lq_admin_set_number(object, "longest_turn_us", view->longest_turn_us);
    lq_admin_set(object, "members", members_of(view));
    lq_admin_set(object, "peers", peers_of(view));
    lq_admin_set(object, "log", log_of(view));
    lq_admin_set(object, "table", table_of(view));
    lq_admin_set(object, "requests", requests_of(view));
    lq_admin_set(object, "queues", queues_of(view));
    lq_admin_set(object, "disk", disk_of(view));
    return (struct lq_admin_answer){.status = MHD_HTTP_OK, .json = object};
}
