/* What a node tells of itself: its state, the others as it sees them, whether it is of use. */
#include "lq_check.h"
#include "lq_replica_impl.h"

struct lq_replica_status lq_replica_status(const struct lq_replica *replica)
{
    struct lq_replica_status status = {
        .role = LQ_REPLICA_WAITING,
        .is_serving = lq_home_is_serving(replica),
        .is_full = replica->store.retry_ms != 0,
        .leader = replica->leader,
        .term = replica->term,
        .boot = replica->home.id.incarnation == 0 ? 0 : replica->boot,
        .incarnation = replica->home.id.incarnation,
        .first_index = replica->log.base.index + 1,
        .last_index = lq_log_last(&replica->log).index,
        .durable_index = lq_engine_last_stored(replica->engine),
        .commit_index = lq_engine_commit(replica->engine),
        .applied_index = replica->applied,
        .snapshot_index = replica->snapshots.newest.name.index,
        .table_ms = lq_replica_table_ms(replica),
        .outbox_bytes = replica->home.outbox_bytes,
        .held_requests = replica->home.n_held,
        .log_bytes = replica->log.bytes,
        .queued_bytes = replica->effects.bytes + lq_store_backlog(&replica->store),
    };
    if (replica->is_formed || replica->applied > 0) {
        status.role = replica->role == LQ_ENGINE_LEADER      ? LQ_REPLICA_LEADER
                      : replica->role == LQ_ENGINE_CANDIDATE ? LQ_REPLICA_CANDIDATE
                                                             : LQ_REPLICA_FOLLOWER;
    }
    return status;
}

/* ---- Readiness. */

/* Commands that wait for so many election timeouts are not merely slow. */
#define HELD_UP_ELECTIONS UINT64_C(4)

/* A ping comes back within this of a peer that is well. */
static bool is_near(const struct lq_replica *replica, const struct lq_peer *peer)
{
    return peer != NULL && peer->is_linked && peer->echoed_ms != 0 &&
           replica->now_ms < peer->echoed_ms + replica->options.election_ms + LQ_PING_MS;
}

static bool has_majority(struct lq_replica *replica)
{
    const struct lq_members *members = lq_replica_members(replica);
    size_t n_near = 0;
    for (size_t i = 0; i < members->n; i++) {
        uint32_t node = members->items[i].node;
        n_near += members->items[i].role == LQ_ROLE_VOTER &&
                  (node == replica->options.node || is_near(replica, lq_peer_find(replica, node)));
    }
    return n_near > lq_members_n_voters(members) / 2;
}

/* Whether the oldest command of this node's clients has waited for longer than an election takes:
 * all contacts may be well and the disks of a majority full or stuck all the same. */
static bool is_held_up(const struct lq_replica *replica)
{
    const struct lq_home *home = &replica->home;
    return !lq_list_is_empty(&home->outbox) &&
           replica->now_ms >= home->grown_ms + HELD_UP_ELECTIONS * replica->options.election_ms;
}

static const char *not_formed(const struct lq_replica *replica)
{
    return replica->options.bootstrap.n > 0 ? "the first members have not all met yet"
                                            : "it waits to be added to the cluster";
}

const char *lq_replica_not_ready(struct lq_replica *replica)
{
    if (replica->stop != NULL || replica->is_leaving) {
        return "it stops";
    }
    if (!replica->is_formed && replica->applied == 0) {
        return not_formed(replica);
    }
    if (replica->store.retry_ms != 0) {
        return "its disk is full";
    }
    if (replica->leader == 0) {
        return "no leader is known";
    }
    if (!lq_home_is_serving(replica)) {
        return "its origin is not open yet";
    }
    if (is_held_up(replica)) {
        return "what its clients asked for is not committed";
    }
    if (replica->leader != replica->options.node) {
        return is_near(replica, lq_peer_find(replica, replica->leader))
                   ? NULL
                   : "it has no contact with the leader";
    }
    if (!replica->lead.is_ready) {
        return "it has just been elected";
    }
    return has_majority(replica) ? NULL : "it leads, but has no contact with a majority";
}

bool lq_replica_peer(struct lq_replica *replica, uint32_t node, struct lq_replica_peer *ret_peer)
{
    const struct lq_peer *peer = lq_peer_find(replica, node);
    if (peer == NULL) {
        return false;
    }
    *ret_peer = (struct lq_replica_peer){
        .is_linked = peer->is_linked,
        .boot = peer->boot,
        .echo_age_ms = peer->echoed_ms == 0 ? LQ_NEVER : replica->now_ms - peer->echoed_ms,
        .match_index =
            replica->lead.is_leading && lq_members_find(lq_replica_members(replica), node)
                ? lq_engine_match(replica->engine, node)
                : 0,
    };
    return true;
}
