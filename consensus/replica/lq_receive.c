/* Messages of the other nodes, each to whom it concerns. */
#include "lq_check.h"
#include "lq_planted.h"
#include "lq_replica_impl.h"

/* Terms that a peer can be ahead. */
#define TERM_STEP_MAX (UINT64_C(1) << 32)

/* How often a removed node is told that it is. */
#define TELL_REMOVED_MS 50

/* Whether the message was sent by the present leader while it led this term. (What says no term may
 * be older.) */
static bool is_of_leader(const struct lq_replica *replica, const struct lq_peer *peer,
                         const struct lq_message *message)
{
    return replica->leader == peer->node && message->term == replica->term &&
           (message->kind == LQ_MESSAGE_APPEND || message->kind == LQ_MESSAGE_OUTCOMES);
}

/* The sender is alive, and if it is the leader its table time counts. */
static void hear(struct lq_replica *replica, struct lq_peer *peer, const struct lq_message *message)
{
    peer->heard_loop = replica->loop_ms;
    if (message->ping_ms > peer->ping_ms) {
        peer->ping_ms = message->ping_ms;
    }
    if (message->echo_ms > peer->echoed_ms && message->echo_ms <= replica->now_ms) {
        peer->echoed_ms = message->echo_ms;
    }
    if (!is_of_leader(replica, peer, message)) {
        return;
    }
    lq_cluster_clock_hear_leader(&replica->clock, message->time_ms, message->echo_ms);
    if (lq_log_last(&replica->log).term == replica->term) {
        lq_cluster_clock_observe(&replica->clock, replica->term, message->time_ms, replica->now_ms);
    }
}

/* Every entry's checksum, made by its leader, is verified here. */
static bool entries_are_whole(struct lq_message message)
{
    struct lq_message_entry entry;
    uint64_t index = message.prev_index;
    while (lq_message_next_entry(&message, &entry)) {
        index++;
        if (entry.check !=
                lq_journal_entry_check(index, entry.term, entry.type, entry.bytes, entry.len) &&
            !LQ_PLANTED(LQ_PLANT_BAD_CHECKSUM)) {
            return false;
        }
    }
    return true;
}

static bool receive_raft(struct lq_replica *replica, uint32_t node,
                         const struct lq_message *message)
{
    if (message->term > replica->term + TERM_STEP_MAX) {
        return false; /* no cluster gets there: it would leave none for the others */
    }
    if (message->kind == LQ_MESSAGE_APPEND && message->count > 0) {
        if (!entries_are_whole(*message)) {
            return false; /* damaged on its way: another link will bring it whole */
        }
        if (lq_store_backlog(&replica->store) > LQ_BACKLOG_BYTES_MAX) {
            return true; /* the disk is behind: the leader will send it again */
        }
    }
    lq_engine_receive(replica->engine, node, message);
    return true;
}

static void receive_outcomes(struct lq_replica *replica, uint32_t node, struct lq_message *message)
{
    const struct lq_home *home = &replica->home;
    struct lq_message_outcome item;
    if (message->incarnation != home->id.incarnation || node != replica->leader ||
        message->term != replica->term) {
        return;
    }
    while (lq_message_next_outcome(message, &item)) {
        lq_home_outcome(replica, &(struct lq_outcome){.kind = item.kind,
                                                      .lease_s = item.lease_s,
                                                      .origin = home->id,
                                                      .seq = item.seq,
                                                      .token = item.token,
                                                      .stamp_ms = item.stamp_ms});
    }
    lq_home_applied(replica, message->through);
}

/* Whether the peer was removed, as far as this node has applied the log. It may not know: raft
 * tells nothing to those that are no members. */
static bool is_removed(const struct lq_replica *replica, const struct lq_peer *peer)
{
    struct lq_origin_state origin;
    return replica->replay.members.n > 0 &&
           lq_members_find(&replica->replay.members, peer->node) == NULL &&
           (peer->was_member || lq_table_origin(replica->table, peer->node, &origin));
}

/* The others say that this node is no member: they are ahead, or it would know. */
static void receive_removed(struct lq_replica *replica, uint64_t index)
{
    if (index > replica->applied) {
        lq_replica_stop(replica,
                        "this node was removed from the cluster (as of log index %llu); to come "
                        "back it must be added under a new id, with an empty data directory",
                        (unsigned long long)index);
    }
}

static void tell_removed(struct lq_replica *replica, struct lq_peer *peer)
{
    if (replica->now_ms >= peer->told_removed_ms + TELL_REMOVED_MS) {
        peer->told_removed_ms = replica->now_ms;
        lq_peer_send(replica, peer,
                     &(struct lq_message){.kind = LQ_MESSAGE_REMOVED, .index = replica->applied},
                     NULL, NULL, false);
    }
}

static bool receive_for_leader(struct lq_replica *replica, uint32_t node,
                               const struct lq_message *message)
{
    struct lq_origin_id id = {.node = node, .incarnation = message->incarnation};
    switch (message->kind) {
    case LQ_MESSAGE_OPEN:
        lq_lead_open(replica, id);
        return true;
    case LQ_MESSAGE_CLOSE:
        lq_lead_close(replica, id);
        return true;
    default:
        return message->term != replica->term ||
               lq_lead_submit(replica, node, message->bytes, message->len);
    }
}

static bool dispatch(struct lq_replica *replica, uint32_t node, struct lq_message *message)
{
    switch ((enum lq_message_kind)message->kind) {
    case LQ_MESSAGE_VOTE:
    case LQ_MESSAGE_VOTE_RESULT:
    case LQ_MESSAGE_APPEND:
    case LQ_MESSAGE_APPEND_RESULT:
    case LQ_MESSAGE_TIMEOUT_NOW:
        return receive_raft(replica, node, message);
    case LQ_MESSAGE_OPEN:
    case LQ_MESSAGE_CLOSE:
    case LQ_MESSAGE_SUBMIT:
        return receive_for_leader(replica, node, message);
    case LQ_MESSAGE_RESEND:
        if (node == replica->leader && message->term == replica->term &&
            message->incarnation == replica->home.id.incarnation) {
            lq_home_resend(replica, message->next_seq);
        }
        return true;
    case LQ_MESSAGE_OUTCOMES:
        receive_outcomes(replica, node, message);
        return true;
    case LQ_MESSAGE_PING:
        return true;
    case LQ_MESSAGE_REMOVED:
        receive_removed(replica, message->index);
        return true;
    case LQ_MESSAGE_DIGEST:
        lq_apply_digest(replica, node, message->index, message->digest);
        return true;
    case LQ_MESSAGE_CHUNK:
        lq_transfer_chunk(replica, node, message);
        return true;
    case LQ_MESSAGE_CHUNK_RESULT:
        lq_transfer_result(replica, node, message);
        return true;
    }
    return false;
}

bool lq_replica_receive(struct lq_replica *replica, uint32_t node, const uint8_t *body, size_t len)
{
    struct lq_message message;
    struct lq_peer *peer = lq_peer_find(replica, node);
    bool is_good;
    if (replica->stop != NULL || peer == NULL || !peer->is_linked) {
        return true;
    }
    if (!lq_message_decode(body, len, &message)) {
        return false;
    }
    if (is_removed(replica, peer)) {
        tell_removed(replica, peer);
        return true;
    }
    if (lq_peer_lost_disk(replica, peer)) {
        return true; /* nothing it says counts; its link is closed when the turn comes to that */
    }
    is_good = dispatch(replica, node, &message);
    lq_replica_watch_role(replica);
    hear(replica, peer, &message);
    lq_apply(replica);
    return is_good;
}
