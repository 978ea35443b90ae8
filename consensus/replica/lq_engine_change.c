/* Members, snapshots and leadership: what the replica tells raft besides messages and entries. */
#include "lq_check.h"
#include "lq_engine_impl.h"

/* Entries freed in one turn. */
#define COMPACT_ENTRIES 4096

/* libraft names peers by address; nobody looks at it here. */
static const char any_address[] = "peer";

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
    engine->keep_from = keep_from > engine->keep_from ? keep_from : engine->keep_from;
}

bool lq_engine_compact(struct lq_engine *engine)
{
    uint64_t base = engine->log->base.index;
    if (base < engine->keep_from && engine->keep_from <= lq_log_last(engine->log).index) {
        uint64_t left = engine->keep_from - base;
        lq_log_compact(engine->log, base + (left < COMPACT_ENTRIES ? left : COMPACT_ENTRIES));
    }
    return engine->log->base.index < engine->keep_from &&
           engine->keep_from <= lq_log_last(engine->log).index;
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
