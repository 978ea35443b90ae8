/* Elections that need not wait for the timeout of a silent leader, since there is none:
 *
 *   - its process is gone: the link broke and a new connection was refused, or a new life answered;
 *   - this node has just started, is linked with a majority, and no leader has shown itself for two
 *     heartbeats: all of them were down.
 *
 * Raft's clock is moved forward, again and again, until there is a leader or a real vote is under
 * way. When elections begin is all that this touches: it is a pre-vote first, which those who hear
 * a leader refuse. */
#include "lq_replica_impl.h"

/* Tries of an election that need not wait: the voters one after the other, each again and again, so
 * that they do not split their votes. */
#define SKIP_RANK_MS   20
#define SKIP_AGAIN_MS  20
#define SKIP_SPREAD_MS 6

/* How many voters come before this one in an election without the dead leader. */
static uint64_t rank(const struct lq_replica *replica)
{
    const struct lq_members *members = lq_replica_members(replica);
    uint64_t n = 0;
    for (size_t i = 0; i < members->n; i++) {
        const struct lq_member *member = &members->items[i];
        n += member->role == LQ_ROLE_VOTER && member->node != replica->skip.dead_leader &&
             member->node < replica->options.node;
    }
    return n;
}

static void begin(struct lq_replica *replica, uint32_t dead_leader, uint64_t after_ms)
{
    replica->skip.is_on = true;
    replica->skip.has_started = replica->skip.is_waking;
    replica->skip.is_waking = false;
    replica->skip.dead_leader = dead_leader;
    replica->skip.at_ms = replica->now_ms + after_ms + rank(replica) * SKIP_RANK_MS +
                          lq_replica_random(replica, 0, SKIP_SPREAD_MS);
}

void lq_skip_leader_died(struct lq_replica *replica)
{
    uint32_t dead_leader = replica->leader;
    replica->skip.is_waking = false;
    lq_engine_forget_leader(replica->engine, dead_leader);
    lq_replica_watch_role(replica);
    begin(replica, dead_leader, 0);
}

void lq_skip_start(struct lq_replica *replica, uint64_t vote)
{
    replica->skip.is_waking = true;
    replica->skip.last_vote = (uint32_t)vote;
}

void lq_skip_end(struct lq_replica *replica)
{
    replica->skip.is_on = replica->skip.is_waking = false;
    replica->skip.dead_leader = 0;
}

static bool is_with_majority(const struct lq_replica *replica)
{
    const struct lq_members *members = lq_replica_members(replica);
    size_t n_linked = lq_members_is_voter(members, replica->options.node) ? 1 : 0;
    for (size_t i = 0; i < replica->n_peers; i++) {
        n_linked +=
            replica->peers[i].is_linked && lq_members_is_voter(members, replica->peers[i].node);
    }
    return n_linked > lq_members_n_voters(members) / 2;
}

void lq_skip_turn(struct lq_replica *replica)
{
    struct lq_skip *skip = &replica->skip;
    if (skip->is_waking && is_with_majority(replica)) {
        /* The vote that was stored may be that of the election before: its winner is down, too. */
        begin(replica, skip->last_vote, 2 * (uint64_t)replica->options.heartbeat_ms);
    }
    if (!skip->is_on || replica->now_ms < skip->at_ms) {
        return;
    }
    if (lq_engine_may_skip(replica->engine, skip->dead_leader) &&
        lq_engine_skip_timeout(replica->engine)) {
        lq_effects_note(&replica->effects, LQ_NOTE_SKIP, skip->has_started ? 0 : skip->dead_leader,
                        0);
        lq_replica_watch_role(replica);
    }
    skip->at_ms = replica->now_ms + SKIP_AGAIN_MS + rank(replica) * SKIP_RANK_MS / 2 +
                  lq_replica_random(replica, 0, SKIP_SPREAD_MS);
}

uint64_t lq_skip_deadline(const struct lq_replica *replica)
{
    return replica->skip.is_on ? replica->skip.at_ms : LQ_NEVER;
}
