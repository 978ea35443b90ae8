#include "lq_engine.h"

#include "lq_check.h"
#include "lq_engine_impl.h"
#include "lq_journal.h"
#include "lq_mem.h"
#include "lq_planted.h"

#include <stdio.h>
#include <string.h>

/* Entries that may be on their way to a peer, and about how many bytes. */
#define INFLIGHT_ENTRIES 512
#define INFLIGHT_BYTES   (UINT32_C(2) << 20)

/* How soon raft asks again for a snapshot to be sent that has not arrived: a running transfer is
 * not disturbed by that, and one that was given up is begun anew. (A refusal at another index than
 * that of the snapshot raft asked for first tells it nothing.) */
#define INSTALL_TIMEOUT_MS 2000

struct lq_engine *lq_engine_new(const struct lq_engine_options *options,
                                const struct lq_engine_user *user, struct lq_log *log)
{
    struct lq_engine *engine = lq_calloc(1, sizeof *engine);
    char address[16];
    engine->options = *options;
    engine->user = *user;
    engine->log = log;
    (void)snprintf(address, sizeof address, "%u", options->node);
    LQ_CHECK(raft_init(&engine->raft, NULL, NULL, options->node, address) == 0);
    engine->raft.tracer = NULL;
    raft_seed(&engine->raft, options->seed);
    raft_set_pre_vote(&engine->raft, true);
    raft_set_election_timeout(&engine->raft, options->election_ms);
    /* Heartbeats are paced by lq_engine_tick: were raft to leave one out because entries were just
     * sent, a healthy peer would not have been heard since the last tick and fall back to probing.
     */
    raft_set_heartbeat_timeout(&engine->raft, 1);
    raft_set_install_snapshot_timeout(&engine->raft, INSTALL_TIMEOUT_MS);
    raft_set_max_inflight_entries(&engine->raft, INFLIGHT_ENTRIES);
    raft_set_capacity_threshold(&engine->raft, 0);
    return engine;
}

void lq_engine_free(struct lq_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    raft_close(&engine->raft, NULL);
    raft_configuration_close(&engine->installing.configuration);
    lq_free(engine);
}

void lq_engine_fail(struct lq_engine *engine, const char *what, const char *why)
{
    if (engine->fault == NULL) {
        (void)snprintf(engine->fault_text, sizeof engine->fault_text, "%s: %s", what, why);
        engine->fault = engine->fault_text;
    }
}

void lq_engine_configuration(const struct lq_members *members,
                             struct raft_configuration *ret_configuration)
{
    raft_configuration_init(ret_configuration);
    for (size_t i = 0; i < members->n; i++) {
        const struct lq_member *member = &members->items[i];
        LQ_CHECK(raft_configuration_add(ret_configuration, member->node, member->address,
                                        member->role) == 0);
    }
}

/* ---- Members, as the engine has them. */

static void take_members(struct lq_engine *engine)
{
    const struct raft_configuration *from = &engine->raft.configuration;
    if (engine->members_from == from->servers &&
        engine->members_uncommitted == engine->raft.configuration_uncommitted_index &&
        engine->members_committed == engine->raft.configuration_committed_index) {
        return;
    }
    engine->members_from = from->servers;
    engine->members_uncommitted = engine->raft.configuration_uncommitted_index;
    engine->members_committed = engine->raft.configuration_committed_index;
    engine->members.n = 0;
    for (unsigned i = 0; i < from->n; i++) {
        LQ_CHECK(lq_members_add(&engine->members, (uint32_t)from->servers[i].id,
                                from->servers[i].address, (enum lq_role)from->servers[i].role));
    }
}

bool lq_engine_is_sole_voter(const struct lq_engine *engine)
{
    return lq_members_n_voters(&engine->members) == 1 &&
           lq_members_is_voter(&engine->members, engine->options.node);
}

void lq_engine_raise_term(struct lq_engine *engine)
{
    engine->raft.current_term++;
    engine->raft.voted_for = engine->options.node;
    engine->user.on_term(engine->user.context, engine->raft.current_term, engine->options.node);
}

/* ---- Steps. */

/* The checksum of an entry that a step keeps: as it came, or made now for one of our own. */
static uint64_t check_of(const struct lq_engine *engine, const struct raft_entry *entry,
                         uint64_t index)
{
    uintptr_t at = (uintptr_t)entry, first = (uintptr_t)engine->step_entries;
    if (engine->step_checks != NULL && at >= first &&
        at < first + engine->n_step_entries * sizeof *entry) {
        return engine->step_checks[(at - first) / sizeof *entry];
    }
    return lq_journal_entry_check(index, entry->term, (uint8_t)entry->type, entry->buf.base,
                                  entry->buf.len);
}

static void keep_entries(struct lq_engine *engine, const struct raft_update *update)
{
    uint64_t index = update->entries.index;
    void *batch = update->entries.n > 0 ? update->entries.batch[0].batch : NULL;
    LQ_CHECK(index > engine->log->base.index);
    if (index <= lq_log_last(engine->log).index) {
        lq_log_truncate(engine->log, index);
        engine->members_from = NULL; /* they may have been rolled back */
    }
    for (unsigned i = 0; i < update->entries.n; i++) {
        const struct raft_entry *entry = &update->entries.batch[i];
        if (entry->type == RAFT_CHANGE) {
            engine->members_from = NULL;
        }
        lq_log_append(engine->log, entry->term, (uint8_t)entry->type,
                      check_of(engine, entry, index + i), entry->buf.base, entry->buf.len);
    }
    if (batch != engine->borrowed) {
        raft_free(batch);
    }
    engine->user.on_entries(engine->user.context, index);
}

static void begin_install(struct lq_engine *engine, const struct raft_update *update)
{
    engine->installing = update->snapshot.metadata;
    engine->commit = update->snapshot.metadata.index;
    lq_log_restart(engine->log, (struct lq_log_point){update->snapshot.metadata.index,
                                                      update->snapshot.metadata.term});
    engine->user.on_install(engine->user.context, engine->log->base);
}

/* What raft asks for after a step, in the order that safety needs: term and vote, entries,
 * messages. */
static void carry_out(struct lq_engine *engine, const struct raft_update *update)
{
    struct lq_engine_user *user = &engine->user;
    if (update->flags & RAFT_UPDATE_STATE) {
        lq_engine_forget_sent(engine);
    }
    if (update->flags & (RAFT_UPDATE_CURRENT_TERM | RAFT_UPDATE_VOTED_FOR)) {
        user->on_term(user->context, raft_current_term(&engine->raft),
                      raft_voted_for(&engine->raft));
    }
    if (update->flags & RAFT_UPDATE_ENTRIES) {
        keep_entries(engine, update);
    }
    if (update->flags & RAFT_UPDATE_SNAPSHOT) {
        begin_install(engine, update);
    }
    take_members(engine);
    if (update->flags & RAFT_UPDATE_MESSAGES) {
        for (unsigned i = 0; i < update->messages.n; i++) {
            lq_engine_send(engine, &update->messages.batch[i]);
        }
    }
    if (raft_commit_index(&engine->raft) > engine->commit) {
        engine->commit = raft_commit_index(&engine->raft);
    }
}

int lq_engine_step(struct lq_engine *engine, struct raft_event *event, bool is_refusable)
{
    struct raft_update update = {0};
    int code;
    if (engine->fault != NULL) {
        return RAFT_SHUTDOWN;
    }
    event->time = engine->now_ms + engine->skipped_ms;
    event->capacity = 0;
    code = raft_step(&engine->raft, event, &update);
    if (code == 0) {
        carry_out(engine, &update);
    } else if (!is_refusable) {
        lq_engine_fail(engine, "raft", raft_strerror(code));
    }
    return code;
}

void lq_engine_start(struct lq_engine *engine, const struct lq_engine_start *start, uint64_t now_ms)
{
    struct lq_log *log = engine->log;
    struct raft_entry *entries = lq_calloc(log->count + 1, sizeof *entries);
    struct raft_snapshot_metadata metadata = {.index = start->snapshot.index,
                                              .term = start->snapshot.term,
                                              .configuration_index = start->members_index};
    struct raft_event event = {.type = RAFT_START};
    engine->now_ms = now_ms;
    for (size_t i = 0; i < log->count; i++) {
        const struct lq_log_entry *entry = lq_log_at(log, log->base.index + 1 + i);
        entries[i] = (struct raft_entry){.term = entry->term,
                                         .type = (enum raft_entry_type)entry->type,
                                         .buf = {.base = entry->bytes, .len = entry->len}};
    }
    if (start->snapshot.index > 0) {
        lq_engine_configuration(start->members, &metadata.configuration);
        event.start.metadata = &metadata;
        engine->commit = start->snapshot.index;
    }
    event.start.term = start->term;
    event.start.voted_for = start->vote;
    event.start.start_index = log->base.index + 1;
    event.start.entries = entries;
    event.start.n_entries = (unsigned)log->count;
    engine->is_started = true;
    (void)lq_engine_step(engine, &event, false);
    lq_free(entries);
}

void lq_engine_set_time(struct lq_engine *engine, uint64_t now_ms)
{
    LQ_CHECK(now_ms >= engine->now_ms);
    engine->now_ms = now_ms;
}

static bool is_overdue_follower(const struct lq_engine *engine)
{
    return engine->raft.state != RAFT_LEADER &&
           raft_timeout(&engine->raft) <= engine->now_ms + engine->skipped_ms;
}

/* When a follower has not heard of its leader for the least election timeout, by raft's clock. From
 * then on it gives its pre-vote to whoever asks first; raft alone would let it wait until its own
 * timeout has passed, too. */
static uint64_t silence_ms(const struct lq_engine *engine)
{
    return engine->raft.election_timer_start + engine->options.election_ms;
}

static void forget_silent_leader(struct lq_engine *engine)
{
    if (engine->raft.state == RAFT_FOLLOWER && engine->raft.follower_state.current_leader.id != 0 &&
        silence_ms(engine) <= engine->now_ms + engine->skipped_ms) {
        lq_engine_forget_leader(engine, (uint32_t)engine->raft.follower_state.current_leader.id);
    }
}

/* A candidate whose vote led to nothing asks in advance again, and has no leave to disturb a leader
 * any more. Raft alone would begin one real vote after the other: the term of a node that does not
 * hear its leader would grow, and depose that leader in the end. */
static void back_to_pre_vote(struct lq_engine *engine)
{
    if (engine->raft.state == RAFT_CANDIDATE) {
        engine->raft.candidate_state.in_pre_vote = true;
        engine->raft.candidate_state.disrupt_leader = false;
    }
}

/* Raft counts entries, not bytes: as many as the log's average allows. */
static void limit_inflight(struct lq_engine *engine)
{
    const struct lq_log *log = engine->log;
    uint64_t average = log->count > 0 ? log->bytes / log->count + 1 : 1;
    uint64_t n = INFLIGHT_BYTES / average + 1;
    raft_set_max_inflight_entries(&engine->raft,
                                  (unsigned)(n < INFLIGHT_ENTRIES ? n : INFLIGHT_ENTRIES));
}

void lq_engine_tick(struct lq_engine *engine)
{
    struct raft_event event = {.type = RAFT_TIMEOUT};
    if (!engine->is_started || engine->fault != NULL) {
        return;
    }
    forget_silent_leader(engine);
    if (engine->raft.state == RAFT_LEADER) {
        if (engine->now_ms < engine->last_beat_ms + engine->options.heartbeat_ms) {
            return;
        }
        engine->last_beat_ms = engine->now_ms;
        engine->is_beating = true;
        limit_inflight(engine);
    } else if (!is_overdue_follower(engine)) {
        return;
    } else if (lq_engine_is_sole_voter(engine) && engine->raft.state == RAFT_FOLLOWER) {
        lq_engine_raise_term(engine);
    }
    back_to_pre_vote(engine);
    (void)lq_engine_step(engine, &event, false);
    engine->is_beating = false;
}

uint64_t lq_engine_deadline(const struct lq_engine *engine)
{
    uint64_t raft_ms;
    if (!engine->is_started || engine->fault != NULL) {
        return UINT64_MAX;
    }
    if (engine->raft.state == RAFT_LEADER) {
        return engine->last_beat_ms + engine->options.heartbeat_ms;
    }
    raft_ms = raft_timeout(&engine->raft);
    if (engine->raft.state == RAFT_FOLLOWER && engine->raft.follower_state.current_leader.id != 0 &&
        silence_ms(engine) < raft_ms) {
        raft_ms = silence_ms(engine);
    }
    return raft_ms > engine->skipped_ms ? raft_ms - engine->skipped_ms : 0;
}

void lq_engine_stored(struct lq_engine *engine, uint64_t index)
{
    struct raft_event event = {.type = RAFT_PERSISTED_ENTRIES, .persisted_entries.index = index};
    if (engine->fault != NULL || engine->raft.snapshot.installing ||
        index <= engine->raft.last_stored) {
        return;
    }
    LQ_CHECK(engine->raft.state != RAFT_CANDIDATE);
    LQ_CHECK(lq_log_term_of(engine->log, index) != 0);
    (void)lq_engine_step(engine, &event, false);
}

bool lq_engine_submit(struct lq_engine *engine, enum lq_entry_type type, const uint8_t *bytes,
                      size_t len)
{
    void *base = (void *)(uintptr_t)bytes; /* read only: the log copies it */
    struct raft_entry entry = {.type = (enum raft_entry_type)type,
                               .term = raft_current_term(&engine->raft),
                               .buf = {.base = base, .len = len},
                               .batch = base};
    struct raft_event event = {.type = RAFT_SUBMIT, .submit = {.entries = &entry, .n = 1}};
    bool is_taken;
    LQ_CHECK(len > 0);
    if (engine->raft.state != RAFT_LEADER || raft_transferee(&engine->raft) != 0) {
        return false;
    }
    engine->borrowed = base;
    is_taken = lq_engine_step(engine, &event, true) == 0;
    engine->borrowed = NULL;
    if (is_taken && LQ_PLANTED(LQ_PLANT_COMMIT_ALONE)) {
        engine->commit = lq_log_last(engine->log).index;
    }
    return is_taken;
}
