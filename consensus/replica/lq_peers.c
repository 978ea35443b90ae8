/* The other nodes: links, messages in both directions, and what follows from a link that broke. */
#include "lq_check.h"
#include "lq_mem.h"
#include "lq_planted.h"
#include "lq_replica_impl.h"

/* How long a link that was refused stays down before the peer's origin is closed. */
#define REFUSED_MS 100

/* ---- The list. */

struct lq_peer *lq_peer_find(struct lq_replica *replica, uint32_t node)
{
    for (size_t i = 0; i < replica->n_peers; i++) {
        if (replica->peers[i].node == node) {
            return &replica->peers[i];
        }
    }
    return NULL;
}

static void empty(struct lq_peer *peer)
{
    lq_buffer_done(&peer->ready);
    lq_buffer_done(&peer->held);
    lq_free(peer->outcomes);
    *peer = (struct lq_peer){0};
}

static bool is_member(const struct lq_replica *replica, uint32_t node)
{
    return lq_members_find(lq_replica_members(replica), node) != NULL ||
           lq_members_find(&replica->replay.members, node) != NULL;
}

/* Whether the node belongs here: it is a member, or this node does not know yet who is. */
static bool belongs(const struct lq_replica *replica, uint32_t node)
{
    return lq_replica_members(replica)->n == 0 || is_member(replica, node);
}

/* A node that is no member any more, or not yet, makes room. */
static void evict(struct lq_replica *replica, struct lq_peer *peer)
{
    if (peer->is_linked) {
        lq_effects_put(&replica->effects,
                       &(struct lq_effect){.kind = LQ_EFFECT_UNLINK,
                                           .node = peer->node,
                                           .text = "it is no member, and others are waiting"});
    }
    empty(peer);
}

/* A place for one more: an unused one, that of a stranger that is gone, or for a member that of any
 * stranger. */
static struct lq_peer *free_place(struct lq_replica *replica, bool is_for_member)
{
    const size_t max = sizeof replica->peers / sizeof replica->peers[0];
    struct lq_peer *stranger = NULL;
    size_t n_strangers = 0;
    for (size_t i = 0; i < replica->n_peers; i++) {
        struct lq_peer *peer = &replica->peers[i];
        if (!belongs(replica, peer->node)) {
            n_strangers++;
            stranger = stranger == NULL || !peer->is_linked ? peer : stranger;
        }
    }
    if (replica->n_peers < max && (is_for_member || n_strangers < LQ_STRANGERS_MAX)) {
        return &replica->peers[replica->n_peers++];
    }
    if (stranger != NULL && (is_for_member || !stranger->is_linked)) {
        evict(replica, stranger);
        return stranger;
    }
    return NULL;
}

struct lq_peer *lq_peer_get(struct lq_replica *replica, uint32_t node)
{
    struct lq_peer *peer = lq_peer_find(replica, node);
    if (peer == NULL && (peer = free_place(replica, belongs(replica, node))) != NULL) {
        *peer = (struct lq_peer){.node = node, .heard_loop = replica->loop_ms};
    }
    return peer;
}

void lq_peers_free(struct lq_replica *replica)
{
    for (size_t i = 0; i < replica->n_peers; i++) {
        empty(&replica->peers[i]);
    }
    replica->n_peers = 0;
}

/* ---- Sending. */

/* Whether what must wait for term and vote has to wait now. */
static bool must_hold(const struct lq_replica *replica)
{
    return lq_store_durable(&replica->store) < replica->hold_position &&
           !LQ_PLANTED(LQ_PLANT_EARLY_MESSAGE);
}

void lq_peer_send(struct lq_replica *replica, struct lq_peer *peer,
                  const struct lq_message *message, const struct lq_message_entry *entries,
                  const struct lq_message_outcome *outcomes, bool is_held)
{
    struct lq_message full = *message;
    bool waits = is_held && (peer->held.len > 0 || must_hold(replica));
    if (!peer->is_linked) {
        return;
    }
    full.time_ms = lq_replica_table_ms(replica);
    full.ping_ms = replica->now_ms;
    full.echo_ms = peer->ping_ms;
    peer->sent_ms = replica->now_ms;
    lq_message_put(waits ? &peer->held : &peer->ready, &full, entries, outcomes);
}

void lq_peers_release(struct lq_replica *replica)
{
    if (must_hold(replica)) {
        return;
    }
    for (size_t i = 0; i < replica->n_peers; i++) {
        struct lq_peer *peer = &replica->peers[i];
        if (peer->held.len > 0) {
            lq_buffer_add(&peer->ready, peer->held.bytes, peer->held.len);
            peer->held.len = 0;
        }
    }
}

/* ---- Links. */

/* Whether a peer that was blank when it linked may be what it is here: a node that was never here
 * before; or one that has joined since, and opened its origin in this life. One that is a voter, or
 * known, without that has lost its disk, and with it its votes. */
static bool is_joining(const struct lq_replica *replica, uint32_t node, uint64_t boot)
{
    struct lq_origin_state origin;
    if (lq_table_origin(replica->table, node, &origin)) {
        return origin.id.incarnation >> 32 == boot;
    }
    return !lq_members_is_voter(lq_engine_members(replica->engine), node);
}

/* Whether this node is too new itself to tell a peer that is new from one that lost its disk. */
static bool is_new_here(const struct lq_replica *replica)
{
    struct lq_hello mine = lq_replica_hello(replica, 0);
    return mine.is_blank || mine.is_fresh;
}

/* What the state tells of the peer's disk: a boot counter is used once. */
static enum lq_link_verdict judge_disk(const struct lq_replica *replica,
                                       const struct lq_hello *hello)
{
    struct lq_origin_state origin;
    bool is_known = lq_table_origin(replica->table, hello->from, &origin);
    bool is_in = lq_members_find(&replica->replay.members, hello->from) != NULL;
    if (is_known && !is_in) {
        return LQ_LINK_NOT_MEMBER;
    }
    if (hello->is_blank && !is_new_here(replica) &&
        !is_joining(replica, hello->from, hello->boot)) {
        return LQ_LINK_LOST_DISK;
    }
    if (is_known && origin.id.incarnation >> 32 > hello->boot) {
        return LQ_LINK_OLD_DISK;
    }
    return LQ_LINK_OK;
}

/* Whether the peer is one of those that this node forms the cluster with, or just did. */
static bool is_first_member(const struct lq_replica *replica, uint32_t node)
{
    return is_new_here(replica) && lq_members_find(&replica->options.bootstrap, node) != NULL;
}

bool lq_peer_lost_disk(const struct lq_replica *replica, const struct lq_peer *peer)
{
    return peer->was_blank && !is_new_here(replica) && !is_joining(replica, peer->node, peer->boot);
}

enum lq_link_verdict lq_replica_link_up(struct lq_replica *replica, const struct lq_hello *hello)
{
    struct lq_peer *peer = lq_peer_find(replica, hello->from);
    enum lq_link_verdict verdict;
    bool is_old_life;
    if (hello->cluster != replica->options.cluster) {
        return LQ_LINK_WRONG_CLUSTER;
    }
    if (hello->to != replica->options.node || hello->from == replica->options.node) {
        return LQ_LINK_WRONG_NODE;
    }
    /* A disk that is new counts its lives anew: that is what is to be told of it. */
    is_old_life = peer != NULL && hello->boot < peer->boot;
    verdict = is_old_life && !hello->is_blank ? LQ_LINK_OLD_LIFE : judge_disk(replica, hello);
    if (verdict == LQ_LINK_OK && is_old_life) {
        verdict = LQ_LINK_OLD_LIFE;
    }
    if (verdict != LQ_LINK_OK) {
        return verdict;
    }
    peer = lq_peer_get(replica, hello->from);
    if (peer == NULL) {
        return LQ_LINK_WRONG_NODE;
    }
    if (peer->boot != 0 && hello->boot > peer->boot && replica->leader == peer->node) {
        lq_skip_leader_died(replica); /* that life of it is over */
    }
    peer->ready.len = peer->held.len = 0;
    peer->is_linked = true;
    peer->is_full = peer->is_refused = false;
    peer->boot = hello->boot;
    peer->is_new = hello->is_blank || hello->is_fresh;
    peer->was_blank = hello->is_blank && !is_first_member(replica, hello->from);
    peer->ping_ms = 0;
    peer->heard_loop = replica->loop_ms;
    if (is_member(replica, peer->node)) {
        lq_engine_peer_full(replica->engine, peer->node, false);
    }
    if (peer->node == replica->leader) {
        replica->home.handed_to = 0; /* what was handed on while there was no link is lost */
    }
    lq_peer_send(replica, peer, &(struct lq_message){.kind = LQ_MESSAGE_PING}, NULL, NULL, false);
    lq_peers_try_to_form(replica);
    return LQ_LINK_OK;
}

void lq_replica_link_down(struct lq_replica *replica, uint32_t node, bool is_refused)
{
    struct lq_peer *peer = lq_peer_find(replica, node);
    if (peer == NULL) {
        return;
    }
    peer->is_linked = false;
    peer->ready.len = peer->held.len = 0;
    peer->sending.is_active = false;
    if (is_refused && !peer->is_refused) {
        peer->is_refused = true;
        peer->refused_loop = replica->loop_ms;
    }
    if (is_refused && replica->leader == node) {
        lq_skip_leader_died(replica);
    }
}

void lq_replica_link_full(struct lq_replica *replica, uint32_t node, bool is_full)
{
    struct lq_peer *peer = lq_peer_find(replica, node);
    if (peer != NULL) {
        peer->is_full = is_full;
        if (is_member(replica, node)) {
            lq_engine_peer_full(replica->engine, node, is_full);
        }
    }
}

void lq_peers_try_to_form(struct lq_replica *replica)
{
    const struct lq_members *members = &replica->options.bootstrap;
    struct lq_buffer bytes;
    if (replica->is_formed || members->n == 0 || replica->applied > 0) {
        return;
    }
    for (size_t i = 0; i < members->n; i++) {
        const struct lq_peer *peer = lq_peer_find(replica, members->items[i].node);
        if (members->items[i].node != replica->options.node &&
            (peer == NULL || !peer->is_linked || !peer->is_new)) {
            return;
        }
    }
    lq_buffer_init(&bytes);
    lq_members_encode(members, &bytes);
    lq_replica_put_held(replica, &(struct lq_journal_record){.kind = LQ_JOURNAL_TERM, .term = 1});
    lq_log_append(&replica->log, 1, LQ_ENTRY_MEMBERS,
                  lq_journal_entry_check(1, 1, LQ_ENTRY_MEMBERS, bytes.bytes, bytes.len),
                  bytes.bytes, bytes.len);
    lq_replica_put_held(replica,
                        &(struct lq_journal_record){.kind = LQ_JOURNAL_ENTRY,
                                                    .type = LQ_ENTRY_MEMBERS,
                                                    .len = (uint32_t)bytes.len,
                                                    .index = 1,
                                                    .term = 1,
                                                    .check = lq_log_at(&replica->log, 1)->check,
                                                    .bytes = bytes.bytes});
    lq_buffer_done(&bytes);
    lq_replica_start_engine(replica, 1, 0);
}

/* ---- Timers. */

/* The leader closes the origins of nodes that are gone, or silent for too long. */
static void watch_origins(struct lq_replica *replica)
{
    struct lq_origin_state origin = {0};
    while (lq_table_next_origin(replica->table, origin.id.node, &origin)) {
        bool is_other = origin.is_open && origin.id.node != replica->options.node;
        struct lq_peer *peer = is_other ? lq_peer_get(replica, origin.id.node) : NULL;
        if (peer != NULL &&
            (replica->loop_ms >= peer->heard_loop + replica->options.origin_timeout_ms ||
             (peer->is_refused && replica->loop_ms >= peer->refused_loop + REFUSED_MS))) {
            lq_lead_close(replica, origin.id);
        }
    }
}

/* What this node learns after a link was made may tell that the peer's disk was lost: it is known
 * by an earlier life. Or by a later one, and the link is only not closed yet. */
static void unlink_lost(struct lq_replica *replica, struct lq_peer *peer)
{
    if (peer->is_linked && lq_peer_lost_disk(replica, peer)) {
        lq_effects_put(&replica->effects,
                       &(struct lq_effect){.kind = LQ_EFFECT_UNLINK,
                                           .node = peer->node,
                                           .text = "it began blank, and is known by another life"});
        lq_replica_link_down(replica, peer->node, false);
    }
}

void lq_peers_turn(struct lq_replica *replica)
{
    for (size_t i = 0; i < replica->n_peers; i++) {
        struct lq_peer *peer = &replica->peers[i];
        unlink_lost(replica, peer);
        if (peer->is_linked && replica->now_ms >= peer->sent_ms + LQ_PING_MS) {
            lq_peer_send(replica, peer, &(struct lq_message){.kind = LQ_MESSAGE_PING}, NULL, NULL,
                         false);
        }
    }
    if (replica->lead.is_ready && replica->loop_ms >= replica->watched_loop + REFUSED_MS / 2) {
        replica->watched_loop = replica->loop_ms;
        watch_origins(replica);
    }
}

uint64_t lq_peers_deadline(const struct lq_replica *replica)
{
    uint64_t deadline = LQ_NEVER;
    for (size_t i = 0; i < replica->n_peers; i++) {
        const struct lq_peer *peer = &replica->peers[i];
        if (peer->is_linked) {
            deadline = lq_earlier(deadline, peer->sent_ms + LQ_PING_MS);
        }
    }
    return deadline;
}
