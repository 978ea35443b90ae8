/* Snapshots of this node's own state: taken in slices while commands go on being applied, written,
 * marked in the journal, and then the log before them may go. */
#include "lq_check.h"
#include "lq_mem.h"
#include "lq_replica_impl.h"

/* Locks written in one turn: about a millisecond. */
#define SLICE_LOCKS 1000

/* How long a disk without room for a snapshot is left alone. */
#define RETRY_MS 5000

/* Bytes of effects that may wait before the next slice. */
#define EFFECT_BYTES_MAX (UINT64_C(8) << 20)

static void end_taking(struct lq_replica *replica)
{
    struct lq_taking *taking = &replica->snapshots.taking;
    lq_snapshot_end(taking->snapshot);
    lq_snapfile_free(taking->writer);
    lq_buffer_done(&taking->state);
    lq_buffer_done(&taking->file);
    *taking = (struct lq_taking){.retry_ms = taking->retry_ms};
}

void lq_snapshots_done(struct lq_replica *replica)
{
    end_taking(replica);
    lq_table_free(replica->snapshots.restored);
}

void lq_snapshots_abort(struct lq_replica *replica)
{
    struct lq_taking *taking = &replica->snapshots.taking;
    if (taking->is_finishing) {
        taking->is_dropped = true; /* it will be reported, and is of no use then */
        return;
    }
    if (taking->snapshot == NULL) {
        return;
    }
    lq_effects_put(&replica->effects,
                   &(struct lq_effect){.kind = LQ_EFFECT_SNAPSHOT_DROP, .snapshot = taking->name});
    end_taking(replica);
}

/* ---- Taking. */

/* Whether so many times the usual number of entries, or bytes, were applied since the last one. */
static bool has_grown(const struct lq_replica *replica, uint64_t times)
{
    const struct lq_snapshots *snapshots = &replica->snapshots;
    const struct lq_replica_options *options = &replica->options;
    return replica->applied - snapshots->newest.name.index >= times * options->snapshot_entries ||
           replica->applied_bytes - snapshots->bytes_at >= times * options->snapshot_bytes;
}

static bool is_due(const struct lq_replica *replica)
{
    return replica->applied > replica->snapshots.newest.name.index && has_grown(replica, 1) &&
           (has_grown(replica, 4) || !lq_transfer_is_pinned(replica));
}

bool lq_snapshots_are_overdue(const struct lq_replica *replica)
{
    return has_grown(replica, 2) && replica->snapshots.taking.snapshot == NULL &&
           !replica->snapshots.taking.is_finishing && !replica->snapshots.is_marking;
}

static bool may_begin(const struct lq_replica *replica)
{
    const struct lq_snapshots *snapshots = &replica->snapshots;
    return snapshots->taking.snapshot == NULL && !snapshots->taking.is_finishing &&
           !snapshots->is_marking && replica->now_ms >= snapshots->taking.retry_ms &&
           !snapshots->receiving.is_finishing && !snapshots->receiving.is_loading &&
           !lq_engine_is_installing(replica->engine) &&
           replica->applied <= lq_engine_last_stored(replica->engine) &&
           replica->store.retry_ms == 0;
}

static void begin(struct lq_replica *replica)
{
    struct lq_taking *taking = &replica->snapshots.taking;
    struct lq_snapfile_head head = {.cluster = replica->options.cluster,
                                    .index = replica->applied,
                                    .term = lq_log_term_of(&replica->log, replica->applied),
                                    .members_index = replica->replay.members_index,
                                    .members = replica->replay.members};
    LQ_CHECK(head.term != 0);
    lq_buffer_init(&taking->state);
    lq_buffer_init(&taking->file);
    taking->name = (struct lq_snapshot_name){.index = head.index, .term = head.term};
    taking->members = replica->replay.members;
    taking->members_index = replica->replay.members_index;
    taking->offset = 0;
    taking->writer = lq_snapfile_begin(&head, &taking->file);
    taking->snapshot = lq_snapshot_begin(replica->table, &taking->state);
    replica->snapshots.bytes_at = replica->applied_bytes;
}

static void write_out(struct lq_replica *replica)
{
    struct lq_taking *taking = &replica->snapshots.taking;
    struct lq_effect effect = {
        .kind = LQ_EFFECT_SNAPSHOT_WRITE, .snapshot = taking->name, .offset = taking->offset};
    if (taking->file.len > 0) {
        taking->offset += taking->file.len;
        lq_effects_move(&replica->effects, &effect, &taking->file);
    }
}

static void step(struct lq_replica *replica)
{
    struct lq_taking *taking = &replica->snapshots.taking;
    bool is_complete = lq_snapshot_step(taking->snapshot, SLICE_LOCKS, &taking->state);
    lq_snapfile_add(taking->writer, taking->state.bytes, taking->state.len, &taking->file);
    taking->state.len = 0;
    if (is_complete) {
        lq_snapfile_end(taking->writer, &taking->file, &taking->total, &taking->check);
        lq_snapshot_end(taking->snapshot);
        taking->snapshot = NULL;
        taking->is_finishing = true;
    }
    write_out(replica);
    if (is_complete) {
        lq_effects_put(&replica->effects, &(struct lq_effect){.kind = LQ_EFFECT_SNAPSHOT_FINISH,
                                                              .snapshot = taking->name});
    }
}

bool lq_snapshots_are_busy(const struct lq_replica *replica)
{
    const struct lq_snapshots *snapshots = &replica->snapshots;
    return snapshots->taking.snapshot != NULL && replica->effects.bytes < EFFECT_BYTES_MAX;
}

void lq_snapshots_turn(struct lq_replica *replica)
{
    if (may_begin(replica) && is_due(replica)) {
        begin(replica);
    }
    if (lq_snapshots_are_busy(replica)) {
        step(replica);
    }
    replica->snapshots.is_compacting = lq_engine_compact(replica->engine);
    lq_store_trim(&replica->store, replica->log.base.index + 1);
}

/* ---- Durable. */

/* The log is kept from here on: some entries for followers that lag, as far as memory allows, and
 * all behind a snapshot that a follower is being sent. */
static uint64_t keep_from(const struct lq_replica *replica, uint64_t index)
{
    const struct lq_replica_options *options = &replica->options;
    uint64_t from = index, bytes = 0;
    while (from > replica->log.base.index && index - from < options->trailing_entries &&
           bytes < options->snapshot_bytes) {
        bytes += lq_log_at(&replica->log, from)->len + sizeof(struct lq_log_entry);
        from--;
    }
    for (size_t i = 0; i < replica->n_peers; i++) {
        const struct lq_sending *sending = &replica->peers[i].sending;
        if (sending->is_active && sending->name.index < from) {
            from = sending->name.index;
        }
    }
    return from > replica->log.base.index ? from : replica->log.base.index;
}

static void remove_file(struct lq_replica *replica, const struct lq_snapshot_name *name)
{
    lq_effects_put(&replica->effects,
                   &(struct lq_effect){.kind = LQ_EFFECT_SNAPSHOT_DELETE, .snapshot = *name});
}

void lq_snapshots_use(struct lq_replica *replica, const struct lq_finished *finished,
                      enum lq_journal_kind mark)
{
    struct lq_snapshots *snapshots = &replica->snapshots;
    snapshots->retired = snapshots->before;
    snapshots->before = snapshots->newest.name;
    snapshots->newest = *finished;
    snapshots->newest.name.is_incoming = false;
    snapshots->is_marking = true;
    snapshots->mark_position =
        lq_store_put(&replica->store, &(struct lq_journal_record){.kind = (uint8_t)mark,
                                                                  .index = finished->name.index,
                                                                  .term = finished->name.term});
}

static void finished_own(struct lq_replica *replica)
{
    struct lq_snapshots *snapshots = &replica->snapshots;
    struct lq_taking *taking = &snapshots->taking;
    struct lq_finished finished = {.name = taking->name,
                                   .total = taking->total,
                                   .check = taking->check,
                                   .members_index = taking->members_index,
                                   .members = taking->members};
    bool is_of_use = !taking->is_dropped && !snapshots->is_marking &&
                     finished.name.index > snapshots->newest.name.index;
    end_taking(replica);
    if (is_of_use) {
        lq_snapshots_use(replica, &finished, LQ_JOURNAL_MARK);
    } else if (finished.name.index != snapshots->newest.name.index &&
               finished.name.index != snapshots->before.index) {
        remove_file(replica, &finished.name);
    }
}

void lq_replica_snapshot_finished(struct lq_replica *replica, bool is_incoming)
{
    if (replica->stop != NULL) {
        return;
    }
    if (is_incoming) {
        lq_transfer_finished(replica);
    } else {
        LQ_CHECK(replica->snapshots.taking.is_finishing);
        finished_own(replica);
    }
}

void lq_replica_snapshot_failed(struct lq_replica *replica, bool is_incoming)
{
    struct lq_taking *taking = &replica->snapshots.taking;
    if (replica->stop != NULL) {
        return;
    }
    if (is_incoming) {
        lq_transfer_failed(replica);
    } else if (taking->snapshot != NULL || taking->is_finishing) {
        taking->retry_ms = replica->now_ms + RETRY_MS;
        lq_effects_put(&replica->effects, &(struct lq_effect){.kind = LQ_EFFECT_SNAPSHOT_DROP,
                                                              .snapshot = taking->name});
        end_taking(replica);
    }
}

void lq_snapshots_durable(struct lq_replica *replica)
{
    struct lq_snapshots *snapshots = &replica->snapshots;
    const struct lq_finished *newest = &snapshots->newest;
    struct lq_log_point point = {newest->name.index, newest->name.term};
    if (!snapshots->is_marking || lq_store_durable(&replica->store) < snapshots->mark_position) {
        return;
    }
    snapshots->is_marking = false;
    if (snapshots->retired.index != 0) {
        remove_file(replica, &snapshots->retired);
        snapshots->retired = (struct lq_snapshot_name){0};
    }
    if (snapshots->is_installing) {
        snapshots->is_installing = false;
        lq_engine_installed(replica->engine);
        lq_effects_note(&replica->effects, LQ_NOTE_INSTALLED, point.index, 0);
        return;
    }
    lq_engine_snapshot_taken(replica->engine, point, keep_from(replica, point.index),
                             &newest->members, newest->members_index);
    lq_effects_note(&replica->effects, LQ_NOTE_SNAPSHOT, point.index, 0);
}
