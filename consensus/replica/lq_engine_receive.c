/* Messages on their way in: what raft would take on trust is checked first. */
#include "lq_check.h"
#include "lq_engine_impl.h"
#include "lq_mem.h"

/* The versions of messages that libraft 0.22 speaks. */
#define VOTE_VERSION          2
#define VOTE_RESULT_VERSION   2
#define APPEND_RESULT_VERSION 2

/* Indexes and terms beyond this are nobody's. */
#define NUMBER_MAX (UINT64_C(1) << 62)

static char any_address[] = "peer";

static void feed(struct lq_engine *engine, struct raft_message *message, uint32_t node)
{
    struct raft_event event = {.type = RAFT_RECEIVE, .receive.message = message};
    message->server_id = node;
    message->server_address = any_address;
    (void)lq_engine_step(engine, &event, false);
}

/* ---- AppendEntries. */

/* The entries of one APPEND, as raft wants them. */
struct batch {
    struct raft_entry *entries;
    uint64_t *checks;
    uint32_t count;
};

/* Reads the entries; false when they can't be a piece of a leader's log. */
static bool read_entries(struct batch *batch, struct lq_message message)
{
    struct lq_message_entry entry;
    uint64_t term = message.prev_term;
    struct lq_members members;
    while (lq_message_next_entry(&message, &entry)) {
        if (entry.term < term || entry.term == 0 || entry.term > message.term ||
            entry.type < LQ_ENTRY_COMMANDS || entry.type > LQ_ENTRY_MEMBERS ||
            (entry.type == LQ_ENTRY_MEMBERS &&
             !lq_members_decode(&members, entry.bytes, entry.len))) {
            return false;
        }
        term = entry.term;
        batch->checks[batch->count] = entry.check;
        batch->entries[batch->count++] =
            (struct raft_entry){.term = entry.term,
                                .type = (enum raft_entry_type)entry.type,
                                .buf = {.base = (void *)(uintptr_t)entry.bytes, .len = entry.len}};
    }
    return true;
}

/* Feeds the entries [from, to) of the batch, behind the entry before them. */
static void feed_piece(struct lq_engine *engine, uint32_t node, const struct lq_message *message,
                       const struct batch *batch, uint32_t from, uint32_t to)
{
    struct raft_message piece = {.type = RAFT_APPEND_ENTRIES};
    struct raft_append_entries *append = &piece.append_entries;
    append->term = message->term;
    append->leader_commit = message->commit;
    append->prev_log_index = message->prev_index + from;
    append->prev_log_term = from == 0 ? message->prev_term : batch->entries[from - 1].term;
    append->n_entries = to - from;
    if (to > from) {
        void *owner = raft_malloc(1); /* what raft frees; the bytes stay where they are */
        LQ_CHECK(owner != NULL);
        append->entries = batch->entries + from;
        for (uint32_t i = from; i < to; i++) {
            batch->entries[i].batch = owner;
        }
    }
    engine->step_entries = batch->entries;
    engine->step_checks = batch->checks;
    engine->n_step_entries = batch->count;
    feed(engine, &piece, node);
    engine->step_checks = NULL;
}

/* Raft remembers one list of members that may be rolled back, and what to roll back to. A leader
 * changes members only when the change before is committed; so when new members follow others,
 * those are committed, whether the commit index says so yet or not, and raft is told. Otherwise it
 * would roll back to the ones before them. */
static void settle_members(struct lq_engine *engine, uint64_t index)
{
    uint64_t pending = engine->raft.configuration_uncommitted_index;
    const struct lq_log_entry *entry = lq_log_at(engine->log, pending);
    struct lq_members members;
    bool is_agreed =
        engine->raft.state == RAFT_FOLLOWER && engine->raft.follower_state.match + 1 >= index;
    if (pending != 0 && pending < index && is_agreed && entry != NULL &&
        lq_members_decode(&members, entry->bytes, entry->len)) {
        lq_engine_configured(engine, pending, &members);
    }
}

/* New members always come first in what raft is fed: of those that are not the first new entry it
 * records a wrong index. */
static void feed_entries(struct lq_engine *engine, uint32_t node, const struct lq_message *message,
                         const struct batch *batch, uint32_t from)
{
    for (uint32_t i = from; i < batch->count; i++) {
        if (batch->entries[i].type != RAFT_CHANGE) {
            continue;
        }
        feed_piece(engine, node, message, batch, from, i);
        from = i;
        if (engine->raft.state != RAFT_FOLLOWER || engine->raft.snapshot.installing) {
            return;
        }
        settle_members(engine, message->prev_index + 1 + i);
    }
    feed_piece(engine, node, message, batch, from, batch->count);
}

/* Feeds what is behind this node's snapshot. Raft does not know any more which entries it had
 * before that: it would take them for new ones and append them at the end. They are committed, so
 * the leader's are the same. */
static void feed_behind_snapshot(struct lq_engine *engine, uint32_t node,
                                 const struct lq_message *message, const struct batch *batch)
{
    uint64_t snapshot = engine->raft.trail.snapshot.index;
    uint64_t n_old = snapshot > message->prev_index ? snapshot - message->prev_index : 0;
    struct lq_message nothing_new = *message;
    if (n_old <= batch->count) {
        feed_entries(engine, node, message, batch, (uint32_t)n_old);
        return;
    }
    nothing_new.prev_index = snapshot;
    nothing_new.prev_term = engine->raft.trail.snapshot.term;
    feed_piece(engine, node, &nothing_new, batch, 0, 0);
}

static void receive_append(struct lq_engine *engine, uint32_t node,
                           const struct lq_message *message)
{
    struct batch batch = {0};
    bool is_from_start = message->prev_index == 0;
    if (message->term == 0 || is_from_start != (message->prev_term == 0) ||
        message->prev_term > message->term || message->prev_index > NUMBER_MAX ||
        (message->term == engine->raft.current_term && engine->raft.state == RAFT_LEADER)) {
        return; /* at most one leader a term: this one can't be another's */
    }
    batch.entries = lq_calloc(message->count + 1, sizeof *batch.entries);
    batch.checks = lq_calloc(message->count + 1, sizeof *batch.checks);
    if (read_entries(&batch, *message)) {
        feed_behind_snapshot(engine, node, message, &batch);
    }
    lq_free(batch.entries);
    lq_free(batch.checks);
}

static void receive_append_result(struct lq_engine *engine, uint32_t node,
                                  const struct lq_message *message)
{
    struct raft_message result = {.type = RAFT_APPEND_ENTRIES_RESULT};
    uint64_t match = lq_engine_match(engine, node);
    if (engine->raft.state != RAFT_LEADER) {
        return;
    }
    lq_engine_answered(engine, node);
    /* Older than what is known already: raft takes it that a peer never forgets what it has. */
    if (message->term == engine->raft.current_term && message->rejected > 0 &&
        (message->rejected <= match || message->last_index < match ||
         message->last_index >= message->rejected)) {
        return;
    }
    result.append_entries_result.version = APPEND_RESULT_VERSION;
    result.append_entries_result.term = message->term;
    result.append_entries_result.rejected = message->rejected;
    result.append_entries_result.last_log_index = message->last_index;
    feed(engine, &result, node);
}

/* ---- Votes. */

/* This node as raft's configuration lists it, or NULL. */
static struct raft_server *own_server(struct lq_engine *engine)
{
    struct raft_configuration *configuration = &engine->raft.configuration;
    for (unsigned i = 0; i < configuration->n; i++) {
        if (configuration->servers[i].id == engine->options.node) {
            return &configuration->servers[i];
        }
    }
    return NULL;
}

/* A standby votes, too. It may be a voter by an entry that it has not got yet, and that can't be
 * committed without it; who asks knows whose votes count. Raft would refuse, for ever: it is shown
 * a voter while it decides. */
static void receive_vote(struct lq_engine *engine, uint32_t node, const struct lq_message *message)
{
    struct raft_message vote = {.type = RAFT_REQUEST_VOTE};
    struct raft_server *own = own_server(engine);
    int role = own == NULL ? RAFT_VOTER : own->role;
    vote.request_vote.version = VOTE_VERSION;
    vote.request_vote.term = message->term;
    vote.request_vote.candidate_id = node;
    vote.request_vote.last_log_index = message->last_index;
    vote.request_vote.last_log_term = message->last_term;
    vote.request_vote.pre_vote = message->is_pre_vote;
    vote.request_vote.disrupt_leader = message->is_disrupting;
    if (own != NULL) {
        own->role = RAFT_VOTER;
    }
    feed(engine, &vote, node);
    if (own != NULL) {
        own->role = role;
        engine->members_from = NULL; /* whatever was copied meanwhile */
    }
}

/* Raft looks at a candidate's fields before it looks whether it is one: in another state they are
 * bytes of something else. A vote in advance that was given for another term than the next one does
 * not count. */
static void receive_vote_result(struct lq_engine *engine, uint32_t node,
                                const struct lq_message *message)
{
    struct raft_message result = {.type = RAFT_REQUEST_VOTE_RESULT};
    if (engine->raft.state != RAFT_CANDIDATE ||
        (engine->raft.candidate_state.in_pre_vote && message->is_granted &&
         message->term != engine->raft.current_term + 1)) {
        return;
    }
    result.request_vote_result.version = VOTE_RESULT_VERSION;
    result.request_vote_result.term = message->term;
    result.request_vote_result.vote_granted = message->is_granted;
    result.request_vote_result.pre_vote = message->is_pre_vote;
    feed(engine, &result, node);
}

static void receive_timeout_now(struct lq_engine *engine, uint32_t node,
                                const struct lq_message *message)
{
    struct raft_message now = {.type = RAFT_TIMEOUT_NOW};
    if (message->last_index == 0 || lq_log_last(engine->log).index == 0 ||
        lq_engine_is_sole_voter(engine)) {
        return; /* a sole voter leads by itself, in a term of its own */
    }
    now.timeout_now.term = message->term;
    now.timeout_now.last_log_index = message->last_index;
    now.timeout_now.last_log_term = message->last_term;
    feed(engine, &now, node);
}

void lq_engine_receive(struct lq_engine *engine, uint32_t node, const struct lq_message *message)
{
    if (!engine->is_started || engine->fault != NULL || node == engine->options.node ||
        message->term > NUMBER_MAX) {
        return;
    }
    switch ((enum lq_message_kind)message->kind) {
    case LQ_MESSAGE_APPEND:
        receive_append(engine, node, message);
        break;
    case LQ_MESSAGE_APPEND_RESULT:
        receive_append_result(engine, node, message);
        break;
    case LQ_MESSAGE_VOTE:
        receive_vote(engine, node, message);
        break;
    case LQ_MESSAGE_VOTE_RESULT:
        receive_vote_result(engine, node, message);
        break;
    case LQ_MESSAGE_TIMEOUT_NOW:
        receive_timeout_now(engine, node, message);
        break;
    case LQ_MESSAGE_OPEN:
    case LQ_MESSAGE_CLOSE:
    case LQ_MESSAGE_SUBMIT:
    case LQ_MESSAGE_RESEND:
    case LQ_MESSAGE_OUTCOMES:
    case LQ_MESSAGE_PING:
    case LQ_MESSAGE_REMOVED:
    case LQ_MESSAGE_DIGEST:
    case LQ_MESSAGE_CHUNK:
    case LQ_MESSAGE_CHUNK_RESULT:
        LQ_BUG("not a message of raft");
    }
}
