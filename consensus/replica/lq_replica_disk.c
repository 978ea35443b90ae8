/* The disk's answers, and what the replica tells about itself. */
#include "lq_check.h"
#include "lq_planted.h"
#include "lq_replica_impl.h"

/* ---- The journal. */

void lq_replica_allocated(struct lq_replica *replica, uint64_t salt)
{
    if (replica->store.retry_ms != 0) {
        replica->store.retry_ms = 0;
        lq_effects_note(&replica->effects, LQ_NOTE_ROOM, 0, 0);
    }
    lq_store_allocated(&replica->store, salt);
}

void lq_replica_no_room(struct lq_replica *replica)
{
    if (replica->store.retry_ms == 0) {
        lq_effects_note(&replica->effects, LQ_NOTE_FULL, 0, 0);
    }
    lq_store_no_room(&replica->store, replica->now_ms);
}

void lq_replica_segment_ready(struct lq_replica *replica)
{
    lq_store_segment_ready(&replica->store);
}

void lq_replica_deleted(struct lq_replica *replica)
{
    lq_store_deleted(&replica->store);
}

/* The boot counter is durable: this life may serve. */
static void begin_life(struct lq_replica *replica)
{
    struct lq_home *home = &replica->home;
    if (home->id.incarnation == 0 && lq_store_durable(&replica->store) >= replica->boot_position) {
        home->id = (struct lq_origin_id){.node = replica->options.node,
                                         .incarnation = replica->boot << 32 | 1};
    }
}

void lq_replica_written(struct lq_replica *replica)
{
    uint64_t index = lq_store_written(&replica->store);
    uint64_t last = lq_log_last(&replica->log).index;
    if (replica->stop != NULL) {
        return;
    }
    begin_life(replica);
    lq_peers_release(replica);
    lq_snapshots_durable(replica);
    if (index > last && LQ_PLANTED(LQ_PLANT_STALE_WRITE)) {
        index = last;
    }
    if (index > replica->log.base.index) {
        lq_engine_stored(replica->engine, index);
    }
    lq_replica_watch_role(replica);
    lq_apply(replica);
}

/* ---- Reading. */

const struct lq_members *lq_replica_members(const struct lq_replica *replica)
{
    const struct lq_members *members = lq_engine_members(replica->engine);
    return members->n > 0 ? members : &replica->options.bootstrap;
}

/* Whether nothing is here that the forming of a cluster does not make. */
static bool is_fresh(const struct lq_replica *replica)
{
    return replica->term == 1 && lq_log_last(&replica->log).index == 1 &&
           replica->snapshots.newest.name.index == 0;
}

struct lq_hello lq_replica_hello(const struct lq_replica *replica, uint32_t to)
{
    return (struct lq_hello){.is_blank = !replica->is_formed && replica->term == 0,
                             .is_fresh = is_fresh(replica),
                             .cluster = replica->options.cluster,
                             .from = replica->options.node,
                             .to = to,
                             .boot = replica->boot};
}

struct lq_backend *lq_replica_backend(struct lq_replica *replica)
{
    return &replica->backend;
}

const struct lq_table *lq_replica_table(const struct lq_replica *replica)
{
    return replica->table;
}

void lq_replica_observe(struct lq_replica *replica, lq_replica_on_applied *on_applied,
                        void *context)
{
    replica->on_applied = on_applied;
    replica->on_applied_context = context;
}

/* ---- Leaving: the origin is closed first, then leadership goes. */

void lq_replica_leave(struct lq_replica *replica)
{
    replica->is_leaving = true;
    replica->leaving_until_ms = replica->now_ms + 4 * (uint64_t)replica->options.election_ms;
    replica->home.asked_ms = 0;
}

bool lq_replica_has_left(const struct lq_replica *replica)
{
    bool has_handed_over = !replica->lead.is_leading && !replica->home.is_open;
    return replica->is_leaving && (has_handed_over || replica->now_ms >= replica->leaving_until_ms);
}
