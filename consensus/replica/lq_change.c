/* Changes of membership and of leadership, one at a time, each safe to repeat. */
#include "lq_check.h"
#include "lq_replica_impl.h"

/* How long a transfer is tried before the leader goes on. */
#define TRANSFER_ELECTIONS 4

/* A disk that does not answer for so many election timeouts is a bad one for a leader. */
#define DISK_ELECTIONS 2

/* A removed node lives on for so long, so that a leader among them tells the others. */
#define REMOVED_MS 500

static bool submit(struct lq_replica *replica, const struct lq_members *members)
{
    struct lq_buffer bytes;
    bool is_taken;
    lq_buffer_init(&bytes);
    lq_members_encode(members, &bytes);
    is_taken = lq_engine_submit(replica->engine, LQ_ENTRY_MEMBERS, bytes.bytes, bytes.len);
    lq_buffer_done(&bytes);
    return is_taken;
}

/* A change of the list, if raft can take one now. Two voters at least are left, or this one alone:
 * another one, left alone, would lead without an election in a term that had a leader. */
static enum lq_change_result change_list(struct lq_replica *replica,
                                         const struct lq_members *members)
{
    size_t n_voters = lq_members_n_voters(members);
    if (n_voters == 0 || (n_voters == 1 && !lq_members_is_voter(members, replica->options.node))) {
        return LQ_CHANGE_INVALID;
    }
    if (!lq_engine_can_change(replica->engine) || replica->promoting != 0 ||
        replica->transfer_to != 0) {
        return LQ_CHANGE_BUSY;
    }
    return submit(replica, members) ? LQ_CHANGE_STARTED : LQ_CHANGE_BUSY;
}

/* Puts a node into a list where it may be; false when it may not: among others if its id is that of
 * a node that was here before. */
static bool list_new(struct lq_replica *replica, struct lq_members *members, uint32_t node,
                     const char *address)
{
    struct lq_origin_state origin;
    return !lq_table_origin(replica->table, node, &origin) &&
           lq_members_add(members, node, address, LQ_ROLE_STANDBY);
}

static enum lq_change_result add(struct lq_replica *replica, uint32_t node, const char *address)
{
    struct lq_members members = *lq_engine_members(replica->engine);
    const struct lq_member *present = lq_members_find(&members, node);
    if (present != NULL) {
        return address != NULL && strcmp(present->address, address) == 0 ? LQ_CHANGE_DONE
                                                                         : LQ_CHANGE_INVALID;
    }
    if (address == NULL || !list_new(replica, &members, node, address)) {
        return LQ_CHANGE_INVALID;
    }
    return change_list(replica, &members);
}

/* Whether the node's present life has opened its origin: it is here, and its disk is known. */
static bool has_origin(struct lq_replica *replica, uint32_t node)
{
    const struct lq_peer *peer = lq_peer_find(replica, node);
    struct lq_origin_state origin;
    return peer != NULL && lq_table_origin(replica->table, node, &origin) && origin.is_open &&
           origin.id.incarnation >> 32 == peer->boot;
}

static enum lq_change_result promote(struct lq_replica *replica, uint32_t node)
{
    const struct lq_member *member = lq_members_find(lq_engine_members(replica->engine), node);
    if (member == NULL) {
        return LQ_CHANGE_INVALID;
    }
    if (member->role == LQ_ROLE_VOTER) {
        return LQ_CHANGE_DONE;
    }
    if (replica->promoting == node) {
        return LQ_CHANGE_STARTED;
    }
    if (replica->promoting != 0 || replica->transfer_to != 0 ||
        !lq_engine_can_change(replica->engine)) {
        return LQ_CHANGE_BUSY;
    }
    if (!has_origin(replica, node)) {
        return LQ_CHANGE_BUSY; /* it is not that far */
    }
    replica->promoting = node;
    replica->is_catching_up = false;
    return LQ_CHANGE_STARTED;
}

static enum lq_change_result demote(struct lq_replica *replica, uint32_t node)
{
    struct lq_members members = *lq_engine_members(replica->engine);
    if (!lq_members_is_voter(&members, node)) {
        return lq_members_find(&members, node) != NULL ? LQ_CHANGE_DONE : LQ_CHANGE_INVALID;
    }
    (void)lq_members_set_role(&members, node, LQ_ROLE_STANDBY);
    return change_list(replica, &members);
}

static enum lq_change_result remove_member(struct lq_replica *replica, uint32_t node)
{
    struct lq_members members = *lq_engine_members(replica->engine);
    if (replica->replacing.new_node == node) {
        replica->replacing.new_node = 0; /* it is given up by that */
    }
    if (!lq_members_remove(&members, node)) {
        return LQ_CHANGE_DONE;
    }
    if (replica->promoting == node) {
        return LQ_CHANGE_BUSY;
    }
    return change_list(replica, &members);
}

/* The linked voter that has the most of the log. */
static uint32_t furthest(const struct lq_replica *replica)
{
    uint32_t node = 0;
    uint64_t match = 0;
    for (size_t i = 0; i < replica->n_peers; i++) {
        const struct lq_peer *peer = &replica->peers[i];
        uint64_t theirs = lq_engine_match(replica->engine, peer->node);
        if (peer->is_linked && theirs > match &&
            lq_members_is_voter(lq_engine_members(replica->engine), peer->node)) {
            node = peer->node;
            match = theirs;
        }
    }
    return node;
}

static enum lq_change_result transfer(struct lq_replica *replica, uint32_t node)
{
    if (node == replica->options.node) {
        return LQ_CHANGE_DONE;
    }
    node = node == 0 ? furthest(replica) : node;
    if (!lq_members_is_voter(lq_engine_members(replica->engine), node)) {
        return LQ_CHANGE_INVALID;
    }
    if (replica->transfer_to != 0 && replica->transfer_to != node) {
        return LQ_CHANGE_BUSY;
    }
    replica->transfer_to = node;
    replica->transfer_until_ms =
        replica->now_ms + TRANSFER_ELECTIONS * (uint64_t)replica->options.election_ms;
    return LQ_CHANGE_STARTED;
}

enum lq_change_result lq_replica_change(struct lq_replica *replica, enum lq_change_kind kind,
                                        uint32_t node, const char *address)
{
    if (!replica->lead.is_leading || replica->stop != NULL) {
        return LQ_CHANGE_NOT_LEADER;
    }
    if (!replica->lead.is_ready) {
        return LQ_CHANGE_BUSY; /* an entry of this term must be committed first */
    }
    switch (kind) {
    case LQ_CHANGE_ADD:
        return add(replica, node, address);
    case LQ_CHANGE_PROMOTE:
        return promote(replica, node);
    case LQ_CHANGE_DEMOTE:
        return demote(replica, node);
    case LQ_CHANGE_REMOVE:
        return remove_member(replica, node);
    case LQ_CHANGE_TRANSFER:
        return transfer(replica, node);
    }
    return LQ_CHANGE_INVALID;
}

/* Whether it could be added if `old_node`, whose address it may have, were gone. */
static bool can_come(struct lq_replica *replica, uint32_t old_node, uint32_t node,
                     const char *address)
{
    struct lq_members members = *lq_engine_members(replica->engine);
    (void)lq_members_remove(&members, old_node);
    return list_new(replica, &members, node, address);
}

static bool is_replaced(const struct lq_replica *replica, uint32_t old_node, uint32_t new_node)
{
    const struct lq_members *members = lq_engine_members(replica->engine);
    return lq_members_find(members, old_node) == NULL &&
           (lq_members_is_voter(members, new_node) ||
            (replica->replacing.done_old == old_node && replica->replacing.done_new == new_node));
}

enum lq_change_result lq_replica_replace(struct lq_replica *replica, uint32_t old_node,
                                         uint32_t new_node, const char *address)
{
    const struct lq_members *members = lq_engine_members(replica->engine);
    const struct lq_member *present = lq_members_find(members, new_node);
    const struct lq_member *old = lq_members_find(members, old_node);
    struct lq_origin_state origin;
    if (!replica->lead.is_leading || replica->stop != NULL) {
        return LQ_CHANGE_NOT_LEADER;
    }
    if (old_node == new_node || address == NULL || strlen(address) > LQ_ADDRESS_MAX ||
        (present != NULL && strcmp(present->address, address) != 0)) {
        return LQ_CHANGE_INVALID;
    }
    if (is_replaced(replica, old_node, new_node)) {
        return LQ_CHANGE_DONE;
    }
    if ((old == NULL && !lq_table_origin(replica->table, old_node, &origin)) ||
        (present == NULL && !can_come(replica, old_node, new_node, address))) {
        return LQ_CHANGE_INVALID;
    }
    if (replica->replacing.new_node != 0) {
        bool is_same =
            replica->replacing.old_node == old_node && replica->replacing.new_node == new_node;
        return is_same ? LQ_CHANGE_STARTED : LQ_CHANGE_BUSY;
    }
    replica->replacing.old_node = old_node;
    replica->replacing.new_node = new_node;
    replica->replacing.votes = old == NULL || old->role == LQ_ROLE_VOTER;
    memcpy(replica->replacing.address, address, strlen(address) + 1);
    return LQ_CHANGE_STARTED;
}

/* ---- In each turn. */

static void fail(struct lq_replica *replica, uint32_t node, enum lq_change_kind kind)
{
    lq_effects_note(&replica->effects, LQ_NOTE_CHANGE_FAILED, node, (uint64_t)kind);
}

static void finish_replacing(struct lq_replica *replica)
{
    replica->replacing.done_old = replica->replacing.old_node;
    replica->replacing.done_new = replica->replacing.new_node;
    replica->replacing.new_node = 0;
}

/* The next step of a replacement. The old one goes last, so that the cluster is never weaker;
 * unless the new one has its address, for then it is gone already, and no two members may share
 * one. */
static enum lq_change_result replacing_step(struct lq_replica *replica)
{
    const struct lq_members *members = lq_engine_members(replica->engine);
    uint32_t old_node = replica->replacing.old_node, new_node = replica->replacing.new_node;
    const struct lq_member *old = lq_members_find(members, old_node);
    enum lq_change_result result;
    if (lq_members_find(members, new_node) == NULL) {
        bool in_the_way = old != NULL && strcmp(old->address, replica->replacing.address) == 0;
        return in_the_way ? remove_member(replica, old_node)
                          : add(replica, new_node, replica->replacing.address);
    }
    if (replica->replacing.votes && !lq_members_is_voter(members, new_node)) {
        return promote(replica, new_node);
    }
    result = remove_member(replica, old_node);
    if (result == LQ_CHANGE_STARTED || result == LQ_CHANGE_DONE) {
        finish_replacing(replica);
    }
    return result;
}

static void go_on_replacing(struct lq_replica *replica)
{
    uint32_t new_node = replica->replacing.new_node;
    if (replacing_step(replica) == LQ_CHANGE_INVALID) {
        replica->replacing.new_node = 0;
        fail(replica, new_node, LQ_CHANGE_ADD);
    }
}

static void go_on_promoting(struct lq_replica *replica)
{
    struct lq_members members = *lq_engine_members(replica->engine);
    uint32_t node = replica->promoting;
    if (!replica->is_catching_up) {
        if (lq_engine_can_change(replica->engine)) {
            replica->is_catching_up = true;
            lq_engine_catch_up(replica->engine, node);
            /* Raft looks at its progress only when an entry of ours is acknowledged. */
            lq_lead_propose_empty(replica);
        }
        return;
    }
    switch (lq_engine_catch_up_state(replica->engine, node)) {
    case LQ_CATCH_UP_RUNNING:
        return;
    case LQ_CATCH_UP_FINISHED:
        replica->promoting = 0;
        if (!lq_members_set_role(&members, node, LQ_ROLE_VOTER) ||
            change_list(replica, &members) != LQ_CHANGE_STARTED) {
            fail(replica, node, LQ_CHANGE_PROMOTE);
        }
        return;
    case LQ_CATCH_UP_ABORTED:
    case LQ_CATCH_UP_NONE:
        replica->promoting = 0;
        fail(replica, node, LQ_CHANGE_PROMOTE);
        return;
    }
}

static void go_on_transferring(struct lq_replica *replica)
{
    if (replica->now_ms >= replica->transfer_until_ms) {
        fail(replica, replica->transfer_to, LQ_CHANGE_TRANSFER);
        replica->transfer_to = 0;
    } else {
        (void)lq_engine_transfer(replica->engine, replica->transfer_to);
    }
}

/* Whether this node's disk takes no more, or has not answered for long: others lead better. */
static bool is_disk_bad(const struct lq_replica *replica)
{
    uint64_t since_ms = lq_store_waiting_since(&replica->store);
    uint64_t long_ms = DISK_ELECTIONS * (uint64_t)replica->options.election_ms;
    return replica->store.retry_ms != 0 ||
           (since_ms != LQ_NEVER && replica->now_ms >= since_ms + long_ms);
}

void lq_change_turn(struct lq_replica *replica)
{
    if (replica->removed_ms != 0 && replica->now_ms >= replica->removed_ms + REMOVED_MS) {
        lq_replica_stop(replica,
                        "this node was removed from the cluster (log index %llu); to come "
                        "back it must be added under a new id, with an empty data "
                        "directory",
                        (unsigned long long)replica->replay.members_index);
    }
    if (!replica->lead.is_ready) {
        return;
    }
    if (replica->replacing.new_node != 0) {
        go_on_replacing(replica);
    }
    if (replica->promoting != 0) {
        go_on_promoting(replica);
    }
    if ((is_disk_bad(replica) || (replica->is_leaving && !replica->home.is_open)) &&
        replica->transfer_to == 0) {
        (void)transfer(replica, 0);
    }
    if (replica->transfer_to != 0) {
        go_on_transferring(replica);
    }
    lq_replica_watch_role(replica);
}

bool lq_change_stops_proposals(const struct lq_replica *replica)
{
    return replica->transfer_to != 0 || lq_engine_is_transferring(replica->engine) ||
           is_disk_bad(replica) || lq_store_backlog(&replica->store) > LQ_PROPOSE_BYTES_MAX;
}

uint64_t lq_change_deadline(const struct lq_replica *replica)
{
    uint64_t deadline = replica->removed_ms != 0 ? replica->removed_ms + REMOVED_MS : LQ_NEVER;
    if (replica->transfer_to != 0) {
        deadline = lq_earlier(deadline, replica->transfer_until_ms);
    }
    if (replica->is_leaving && replica->now_ms < replica->leaving_until_ms) {
        deadline = lq_earlier(deadline, replica->leaving_until_ms);
    }
    return deadline;
}
