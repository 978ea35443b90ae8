#include "lq_replica.h"

#include "lq_check.h"
#include "lq_replica_impl.h"

#include <stdarg.h>
#include <stdio.h>

/* Time in which the loop did not run, beyond this, does not count as silence of others. */
#define LOOP_STEP_MS 200

/* The largest idle buffer for messages that is kept. */
#define KEEP_BYTES (UINT32_C(1) << 20)

uint64_t lq_replica_random(struct lq_replica *replica, uint64_t low, uint64_t high)
{
    uint64_t mixed = replica->random += UINT64_C(0x9E3779B97F4A7C15); /* splitmix64 */
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94D049BB133111EB);
    return low + (mixed ^ (mixed >> 31)) % (high - low + 1);
}

void lq_replica_stop(struct lq_replica *replica, const char *format, ...)
{
    va_list arguments;
    if (replica->stop != NULL) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(replica->stop_text, sizeof replica->stop_text, format, arguments);
    va_end(arguments);
    replica->stop = replica->stop_text;
}

uint64_t lq_replica_table_ms(const struct lq_replica *replica)
{
    return lq_cluster_clock_now(&replica->clock, replica->now_ms);
}

/* ---- Roles. */

static void tell_role(struct lq_replica *replica)
{
    switch (replica->role) {
    case LQ_ENGINE_LEADER:
        lq_effects_note(&replica->effects, LQ_NOTE_LEADER, replica->term, 0);
        break;
    case LQ_ENGINE_CANDIDATE:
        lq_effects_note(&replica->effects, LQ_NOTE_CANDIDATE, replica->term, 0);
        break;
    case LQ_ENGINE_FOLLOWER:
        lq_effects_note(&replica->effects, LQ_NOTE_FOLLOWER, replica->term, replica->leader);
        break;
    }
}

void lq_replica_watch_role(struct lq_replica *replica)
{
    enum lq_engine_role role = lq_engine_role(replica->engine);
    uint64_t term = lq_engine_term(replica->engine);
    uint32_t leader = lq_engine_leader(replica->engine);
    const char *fault = lq_engine_fault(replica->engine);
    if (fault != NULL) {
        lq_replica_stop(replica, "%s", fault);
        return;
    }
    if (role == replica->role && term == replica->term && leader == replica->leader) {
        return;
    }
    if (leader != replica->leader || term != replica->term) {
        lq_cluster_clock_forget_leader(&replica->clock);
    }
    if (replica->lead.is_leading && (role != LQ_ENGINE_LEADER || term != replica->term)) {
        lq_lead_end(replica);
    }
    replica->role = role;
    replica->term = term;
    replica->leader = leader;
    if (leader != 0) {
        lq_skip_end(replica); /* a new one, or a new life of it */
    }
    tell_role(replica);
    if (role == LQ_ENGINE_LEADER && !replica->lead.is_leading) {
        lq_lead_begin(replica);
    }
}

/* ---- Turns. */

void lq_replica_wake(struct lq_replica *replica, uint64_t now_ms)
{
    uint64_t passed = now_ms - replica->now_ms;
    LQ_CHECK(now_ms >= replica->now_ms);
    replica->now_ms = now_ms; /* goes on after a stop, too: the hub's turn still comes */
    if (replica->stop != NULL) {
        return;
    }
    replica->loop_ms += passed < LOOP_STEP_MS ? passed : LOOP_STEP_MS;
    lq_engine_set_time(replica->engine, now_ms);
}

void lq_replica_turn(struct lq_replica *replica)
{
    if (replica->stop != NULL) {
        return;
    }
    lq_engine_tick(replica->engine);
    lq_replica_watch_role(replica);
    lq_skip_turn(replica);
    lq_peers_turn(replica);
    lq_apply(replica);
    lq_change_turn(replica);
    lq_lead_turn(replica);
    lq_home_turn(replica);
    lq_snapshots_turn(replica);
    lq_transfer_turn(replica);
}

void lq_replica_flush(struct lq_replica *replica)
{
    if (replica->stop != NULL) {
        return;
    }
    lq_apply_renew(replica); /* events of the next turn apply, too */
    lq_home_flush(replica);
    lq_lead_flush(replica);
    lq_store_run(&replica->store, replica->now_ms);
    lq_peers_release(replica);
    lq_replica_watch_role(replica);
}

/* The messages of one peer that may leave, as one effect. Two buffers take turns, so that none is
 * made anew. */
static bool take_messages(struct lq_replica *replica, struct lq_effect *ret_effect)
{
    for (size_t i = 0; i < replica->n_peers; i++) {
        struct lq_peer *peer = &replica->peers[i];
        struct lq_buffer spare = replica->leaving;
        if (peer->ready.len == 0) {
            continue;
        }
        if (spare.cap > KEEP_BYTES) {
            lq_buffer_done(&spare);
        }
        replica->leaving = peer->ready;
        peer->ready = spare;
        peer->ready.len = 0;
        *ret_effect = (struct lq_effect){.kind = LQ_EFFECT_SEND,
                                         .node = peer->node,
                                         .bytes = replica->leaving.bytes,
                                         .len = replica->leaving.len};
        return true;
    }
    return false;
}

bool lq_replica_take(struct lq_replica *replica, struct lq_effect *ret_effect)
{
    if (replica->stop != NULL && !replica->is_stop_told) {
        replica->is_stop_told = true;
        *ret_effect = (struct lq_effect){.kind = LQ_EFFECT_STOP, .text = replica->stop};
        return true;
    }
    if (replica->stop != NULL) {
        return false;
    }
    return lq_effects_take(&replica->effects, ret_effect) || take_messages(replica, ret_effect);
}

uint64_t lq_replica_deadline(const struct lq_replica *replica)
{
    uint64_t deadline = lq_engine_deadline(replica->engine);
    if (replica->stop != NULL) {
        return LQ_NEVER;
    }
    if (lq_apply_can(replica) || lq_snapshots_are_busy(replica) ||
        replica->snapshots.is_compacting) {
        return 0;
    }
    deadline = lq_earlier(deadline, lq_skip_deadline(replica));
    deadline = lq_earlier(deadline, lq_peers_deadline(replica));
    deadline = lq_earlier(deadline, lq_lead_deadline(replica));
    deadline = lq_earlier(deadline, lq_home_deadline(replica));
    deadline = lq_earlier(deadline, lq_transfer_deadline(replica));
    deadline = lq_earlier(deadline, lq_change_deadline(replica));
    return lq_earlier(deadline, lq_store_deadline(&replica->store));
}
