/* What the engine tells about raft's state, and elections that need not wait. */
#include "lq_engine.h"
#include "lq_engine_impl.h"

enum lq_engine_role lq_engine_role(const struct lq_engine *engine)
{
    switch (engine->raft.state) {
    case RAFT_LEADER:
        return LQ_ENGINE_LEADER;
    case RAFT_CANDIDATE:
        return LQ_ENGINE_CANDIDATE;
    default:
        return LQ_ENGINE_FOLLOWER;
    }
}

uint64_t lq_engine_term(const struct lq_engine *engine)
{
    return raft_current_term(&engine->raft);
}

uint32_t lq_engine_leader(const struct lq_engine *engine)
{
    switch (engine->raft.state) {
    case RAFT_LEADER:
        return engine->options.node;
    case RAFT_FOLLOWER:
        return (uint32_t)engine->raft.follower_state.current_leader.id;
    default:
        return 0;
    }
}

uint64_t lq_engine_commit(const struct lq_engine *engine)
{
    return engine->commit;
}

uint64_t lq_engine_match(const struct lq_engine *engine, uint32_t node)
{
    raft_index index = 0;
    return raft_match_index(&engine->raft, node, &index) == 0 ? index : 0;
}

uint64_t lq_engine_last_stored(const struct lq_engine *engine)
{
    return engine->raft.last_stored;
}

bool lq_engine_is_installing(const struct lq_engine *engine)
{
    return engine->raft.snapshot.installing;
}

bool lq_engine_can_change(const struct lq_engine *engine)
{
    return engine->raft.state == RAFT_LEADER && engine->raft.configuration_uncommitted_index == 0 &&
           engine->raft.leader_state.promotee_id == 0 && raft_transferee(&engine->raft) == 0;
}

bool lq_engine_is_transferring(const struct lq_engine *engine)
{
    return raft_transferee(&engine->raft) != 0;
}

enum lq_catch_up lq_engine_catch_up_state(const struct lq_engine *engine, uint32_t node)
{
    int state = RAFT_CATCH_UP_NONE;
    if (raft_catch_up(&engine->raft, node, &state) != 0) {
        return LQ_CATCH_UP_NONE;
    }
    switch (state) {
    case RAFT_CATCH_UP_RUNNING:
        return LQ_CATCH_UP_RUNNING;
    case RAFT_CATCH_UP_ABORTED:
        return LQ_CATCH_UP_ABORTED;
    case RAFT_CATCH_UP_FINISHED:
        return LQ_CATCH_UP_FINISHED;
    default:
        return LQ_CATCH_UP_NONE;
    }
}

const struct lq_members *lq_engine_members(const struct lq_engine *engine)
{
    return &engine->members;
}

const char *lq_engine_fault(const struct lq_engine *engine)
{
    return engine->fault;
}

/* ---- Leaders whose process is gone. */

void lq_engine_forget_leader(struct lq_engine *engine, uint32_t dead_leader)
{
    struct raft *raft = &engine->raft;
    if (raft->state == RAFT_FOLLOWER && raft->follower_state.current_leader.id == dead_leader) {
        raft_free(raft->follower_state.current_leader.address);
        raft->follower_state.current_leader.address = NULL;
        raft->follower_state.current_leader.id = 0;
    }
}

bool lq_engine_may_skip(const struct lq_engine *engine, uint32_t dead_leader)
{
    const struct raft *raft = &engine->raft;
    if (engine->fault != NULL || !lq_members_is_voter(&engine->members, engine->options.node)) {
        return false;
    }
    if (raft->state == RAFT_CANDIDATE) {
        return raft->candidate_state.in_pre_vote;
    }
    if (raft->state == RAFT_LEADER) {
        return false;
    }
    /* A vote for another than the dead one belongs to an election that is under way. */
    return (raft->follower_state.current_leader.id == 0 ||
            raft->follower_state.current_leader.id == dead_leader) &&
           (raft->voted_for == 0 || raft->voted_for == dead_leader ||
            raft->voted_for == engine->options.node);
}

bool lq_engine_skip_timeout(struct lq_engine *engine)
{
    uint64_t raft_now = engine->now_ms + engine->skipped_ms;
    struct raft_event event = {.type = RAFT_TIMEOUT};
    if (engine->fault != NULL || engine->raft.state == RAFT_LEADER ||
        engine->raft.snapshot.installing ||
        engine->raft.last_stored < lq_log_last(engine->log).index) {
        return false;
    }
    if (lq_engine_is_sole_voter(engine) && engine->raft.state == RAFT_FOLLOWER) {
        lq_engine_raise_term(engine);
    }
    if (raft_timeout(&engine->raft) > raft_now) {
        engine->skipped_ms += raft_timeout(&engine->raft) - raft_now;
    }
    (void)lq_engine_step(engine, &event, false);
    return true;
}
