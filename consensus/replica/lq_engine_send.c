/* Messages on their way out. Raft says only which entries a peer should get; here they are filled
 * in from the log, cut into messages of a bounded size, and held back where raft would flood a peer
 * that does not answer: with heartbeats of raft's own switched off it would send the whole window
 * again with every submission to a peer that it is probing. */
#include "lq_engine_impl.h"
#include "lq_mem.h"

/* What one peer is sent at a time, in bytes: the rest is found missing, and sent, a heartbeat
 * later. lq_engine_tick sees to it that raft seldom asks for more. */
#define SEND_BYTES (UINT32_C(4) << 20)

struct lq_engine_peer *lq_engine_peer(struct lq_engine *engine, uint32_t node)
{
    for (size_t i = 0; i < engine->n_peers; i++) {
        if (engine->peers[i].node == node) {
            return &engine->peers[i];
        }
    }
    if (engine->n_peers == LQ_MEMBERS_MAX) { /* ids that came and went: all are forgotten */
        engine->n_peers = 0;
    }
    engine->peers[engine->n_peers] =
        (struct lq_engine_peer){.node = node, .is_answered = true, .told_commit = UINT64_MAX};
    return &engine->peers[engine->n_peers++];
}

void lq_engine_peer_full(struct lq_engine *engine, uint32_t node, bool is_full)
{
    lq_engine_peer(engine, node)->is_full = is_full;
}

void lq_engine_forget_sent(struct lq_engine *engine)
{
    for (size_t i = 0; i < engine->n_peers; i++) {
        struct lq_engine_peer *peer = &engine->peers[i];
        peer->is_answered = true;
        peer->sent_end = 0;
        peer->told_commit = UINT64_MAX;
    }
}

void lq_engine_answered(struct lq_engine *engine, uint32_t node)
{
    lq_engine_peer(engine, node)->is_answered = true;
}

/* Whether entries from `first` on may go to the peer now: not into a full queue, and not again
 * while the last ones may still be answered. */
static bool may_send(const struct lq_engine *engine, const struct lq_engine_peer *peer,
                     uint64_t first)
{
    bool is_again = first <= peer->sent_end && !peer->is_answered;
    return !peer->is_full &&
           (!is_again || engine->now_ms >= peer->sent_ms + engine->options.heartbeat_ms);
}

/* How many entries from `first` on fit into one message, of at most `n`; at least one. Adds their
 * bytes. */
static uint32_t fitting(const struct lq_engine *engine, uint64_t first, uint32_t n, size_t *bytes)
{
    size_t sum = 0;
    uint32_t count = 0;
    for (; count < n; count++) {
        size_t one = lq_message_entry_bytes(lq_log_at(engine->log, first + count)->len);
        if (count > 0 && sum + one > engine->options.message_bytes) {
            break;
        }
        sum += one;
    }
    *bytes += sum;
    return count;
}

static void send_piece(struct lq_engine *engine, uint32_t node, struct lq_message *message)
{
    struct lq_message_entry few[16], *entries = few;
    if (message->count > sizeof few / sizeof few[0]) {
        entries = lq_calloc(message->count, sizeof *entries);
    }
    for (uint32_t i = 0; i < message->count; i++) {
        const struct lq_log_entry *entry = lq_log_at(engine->log, message->prev_index + 1 + i);
        entries[i] = (struct lq_message_entry){.term = entry->term,
                                               .check = entry->check,
                                               .type = entry->type,
                                               .len = entry->len,
                                               .bytes = entry->bytes};
    }
    engine->user.on_message(engine->user.context, node, message, entries);
    if (entries != few) {
        lq_free(entries);
    }
}

static void send_append(struct lq_engine *engine, uint32_t node,
                        const struct raft_append_entries *append)
{
    struct lq_engine_peer *peer = lq_engine_peer(engine, node);
    struct lq_message message = {.kind = LQ_MESSAGE_APPEND,
                                 .term = append->term,
                                 .prev_index = append->prev_log_index,
                                 .prev_term = append->prev_log_term,
                                 .commit = append->leader_commit};
    uint32_t left = append->n_entries;
    size_t bytes = 0;
    if (left == 0 && !engine->is_beating && peer->told_commit == append->leader_commit) {
        return; /* raft, whose own heartbeat is next to nothing, sends one with each answer */
    }
    peer->told_commit = append->leader_commit;
    if (left > 0) {
        if (!may_send(engine, peer, append->prev_log_index + 1)) {
            return;
        }
        peer->sent_ms = engine->now_ms;
        peer->is_answered = false;
    }
    do {
        message.count = left > 0 ? fitting(engine, message.prev_index + 1, left, &bytes) : 0;
        send_piece(engine, node, &message);
        left -= message.count;
        message.prev_index += message.count;
        message.prev_term = lq_log_term_of(engine->log, message.prev_index);
    } while (left > 0 && bytes < SEND_BYTES);
    peer->sent_end = append->n_entries > 0 ? message.prev_index : peer->sent_end;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When raft refuses entries because its term is higher, it leaves the last index unset: whatever
 * was on the stack would go out. In all other cases it is what is put here. */
static struct lq_message append_result(const struct lq_engine *engine,
                                       const struct raft_append_entries_result *result)
{
    uint64_t last = result->rejected > 0
                        ? smaller(lq_log_last(engine->log).index, result->rejected - 1)
                        : smaller(result->last_log_index, engine->raft.last_stored);
    return (struct lq_message){.kind = LQ_MESSAGE_APPEND_RESULT,
                               .term = result->term,
                               .rejected = result->rejected,
                               .last_index = last};
}

/* Raft repeats the candidate's term in the answer to a pre-vote, also when it refuses because its
 * own is higher. The candidate would never hear of that, and a node with the higher term but the
 * shorter log and one with the longer log would refuse each other for ever. */
static struct lq_message vote_result(const struct lq_engine *engine,
                                     const struct raft_request_vote_result *result)
{
    struct lq_message message = {.kind = LQ_MESSAGE_VOTE_RESULT,
                                 .term = result->term,
                                 .is_pre_vote = result->pre_vote,
                                 .is_granted = result->vote_granted};
    if (!result->vote_granted && message.term < raft_current_term(&engine->raft)) {
        message.term = raft_current_term(&engine->raft);
    }
    return message;
}

void lq_engine_send(struct lq_engine *engine, const struct raft_message *from)
{
    uint32_t node = (uint32_t)from->server_id;
    struct lq_engine_user *user = &engine->user;
    struct lq_message message = {0};
    switch (from->type) {
    case RAFT_APPEND_ENTRIES:
        send_append(engine, node, &from->append_entries);
        return;
    case RAFT_INSTALL_SNAPSHOT: /* its configuration and data are not filled in */
        user->on_snapshot_wanted(user->context, node,
                                 (struct lq_log_point){from->install_snapshot.last_index,
                                                       from->install_snapshot.last_term});
        return;
    case RAFT_APPEND_ENTRIES_RESULT:
        message = append_result(engine, &from->append_entries_result);
        break;
    case RAFT_REQUEST_VOTE:
        message = (struct lq_message){.kind = LQ_MESSAGE_VOTE,
                                      .term = from->request_vote.term,
                                      .last_index = from->request_vote.last_log_index,
                                      .last_term = from->request_vote.last_log_term,
                                      .is_pre_vote = from->request_vote.pre_vote,
                                      .is_disrupting = from->request_vote.disrupt_leader};
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        message = vote_result(engine, &from->request_vote_result);
        break;
    case RAFT_TIMEOUT_NOW:
        message = (struct lq_message){.kind = LQ_MESSAGE_TIMEOUT_NOW,
                                      .term = from->timeout_now.term,
                                      .last_index = from->timeout_now.last_log_index,
                                      .last_term = from->timeout_now.last_log_term};
        break;
    }
    user->on_message(user->context, node, &message, NULL);
}
