#include "lq_engine.h"

#include "lq_check.h"
#include "lq_engine_impl.h"
#include "lq_journal.h"
#include "lq_mem.h"
#include "lq_planted.h"

#include <stdio.h>
#include <string.h>

/* Entries that may be on their way to a peer; what bounds their bytes is the queue of its link. */
#define INFLIGHT_ENTRIES 512

/* A snapshot on its way has no time limit of raft's: chunks travel outside of it. */
#define INSTALL_TIMEOUT_MS 600000

/* libraft names peers by address; nobody looks at it here. */
static const char any_address[] = "peer";

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
    }
    for (unsigned i = 0; i < update->entries.n; i++) {
        const struct raft_entry *entry = &update->entries.batch[i];
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

void lq_engine_tick(struct lq_engine *engine)
{
    struct raft_event event = {.type = RAFT_TIMEOUT};
    if (!engine->is_started || engine->fault != NULL) {
        return;
    }
    if (engine->raft.state == RAFT_LEADER) {
        if (engine->now_ms < engine->last_beat_ms + engine->options.heartbeat_ms) {
            return;
        }
        engine->last_beat_ms = engine->now_ms;
    } else if (!is_overdue_follower(engine)) {
        return;
    } else if (lq_engine_is_sole_voter(engine) && engine->raft.state == RAFT_FOLLOWER) {
        lq_engine_raise_term(engine);
    }
    (void)lq_engine_step(engine, &event, false);
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

/* ---- Members, snapshots, leadership. */

void lq_engine_configured(struct lq_engine *engine, uint64_t index,
                          const struct lq_members *members)
{
    struct raft_event event = {.type = RAFT_CONFIGURATION, .configuration.index = index};
    if (engine->fault == NULL) {
        lq_engine_configuration(members, &event.configuration.conf);
        (void)lq_engine_step(engine, &event, false);
    }
}

void lq_engine_snapshot_taken(struct lq_engine *engine, struct lq_log_point point,
                              uint64_t keep_from, const struct lq_members *members,
                              uint64_t members_index)
{
    struct raft_event event = {.type = RAFT_SNAPSHOT};
    if (engine->fault != NULL || engine->raft.snapshot.installing ||
        point.index <= engine->raft.trail.snapshot.index) {
        return;
    }
    LQ_CHECK(keep_from <= point.index && lq_log_term_of(engine->log, point.index) == point.term);
    event.snapshot.metadata = (struct raft_snapshot_metadata){
        .index = point.index, .term = point.term, .configuration_index = members_index};
    lq_engine_configuration(members, &event.snapshot.metadata.configuration);
    event.snapshot.trailing = (unsigned)(point.index - keep_from);
    (void)lq_engine_step(engine, &event, false);
    if (keep_from > engine->log->base.index) {
        lq_log_compact(engine->log, keep_from);
    }
}

bool lq_engine_install(struct lq_engine *engine, uint32_t from, struct lq_log_point point,
                       const struct lq_members *members, uint64_t members_index)
{
    struct raft_message message = {
        .type = RAFT_INSTALL_SNAPSHOT, .server_id = from, .server_address = any_address};
    struct raft_event event = {.type = RAFT_RECEIVE, .receive.message = &message};
    if (engine->fault != NULL || engine->raft.state != RAFT_FOLLOWER ||
        engine->raft.follower_state.current_leader.id != from || engine->raft.snapshot.installing ||
        point.index <= engine->commit) {
        return false;
    }
    message.install_snapshot.term = raft_current_term(&engine->raft);
    message.install_snapshot.last_index = point.index;
    message.install_snapshot.last_term = point.term;
    message.install_snapshot.conf_index = members_index;
    lq_engine_configuration(members, &message.install_snapshot.conf);
    message.install_snapshot.data.base = raft_malloc(1);
    (void)lq_engine_step(engine, &event, false);
    if (!engine->raft.snapshot.installing) {
        return false; /* raft has freed what it was given */
    }
    raft_free(message.install_snapshot.data.base);
    return true;
}

void lq_engine_installed(struct lq_engine *engine)
{
    struct raft_event event = {.type = RAFT_PERSISTED_SNAPSHOT};
    LQ_CHECK(engine->raft.snapshot.installing);
    event.persisted_snapshot.metadata = engine->installing;
    event.persisted_snapshot.last = true;
    engine->installing = (struct raft_snapshot_metadata){0};
    (void)lq_engine_step(engine, &event, false);
}

void lq_engine_catch_up(struct lq_engine *engine, uint32_t node)
{
    struct raft_event event = {.type = RAFT_CATCH_UP, .catch_up.server_id = node};
    const struct lq_member *member = lq_members_find(&engine->members, node);
    if (engine->raft.state == RAFT_LEADER && member != NULL && member->role != LQ_ROLE_VOTER &&
        engine->raft.leader_state.promotee_id == 0 &&
        lq_engine_catch_up_state(engine, node) != LQ_CATCH_UP_RUNNING) {
        (void)lq_engine_step(engine, &event, false);
    }
}

bool lq_engine_transfer(struct lq_engine *engine, uint32_t node)
{
    struct raft_event event = {.type = RAFT_TRANSFER, .transfer.server_id = node};
    if (engine->raft.state != RAFT_LEADER || !lq_members_is_voter(&engine->members, node) ||
        node == engine->options.node || raft_transferee(&engine->raft) != 0 ||
        lq_engine_match(engine, node) != lq_log_last(engine->log).index) {
        return false;
    }
    return lq_engine_step(engine, &event, true) == 0;
}
