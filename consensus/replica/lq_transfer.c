/* Snapshots on their way from the leader to a follower whose next entry the log has no more. Raft
 * knows nothing of pieces: they travel beside it, and it is told when the whole file is on the
 * follower's disk, verified. */
#include "lq_check.h"
#include "lq_mem.h"
#include "lq_replica_impl.h"

/* A transfer in which nothing moves for so long is given up; raft will ask for another. */
#define GIVE_UP_MS 30000

/* A peer that refuses a snapshot, since its disk is full or spoils it, is left alone for so long.
 */
#define REFUSED_MS 2000

/* A transfer keeps newer snapshots from being taken as long as it moves. */
#define PIN_MS 10000

/* The largest snapshot that is taken from a peer: what the caps allow, several times. */
static uint64_t total_max(const struct lq_replica *replica)
{
    return 4 * replica->options.caps.state_bytes + (UINT64_C(64) << 20);
}

/* ---- The leader's side. */

static uint64_t again_ms(const struct lq_replica *replica)
{
    return 5 * (uint64_t)replica->options.heartbeat_ms;
}

void lq_transfer_want(struct lq_replica *replica, uint32_t node, struct lq_log_point point)
{
    const struct lq_finished *newest = &replica->snapshots.newest;
    struct lq_peer *peer = lq_peer_find(replica, node);
    if (peer == NULL || !peer->is_linked || peer->sending.is_active ||
        replica->now_ms < peer->refused_until_ms || newest->name.index < point.index) {
        return;
    }
    peer->sending = (struct lq_sending){.is_active = true,
                                        .name = newest->name,
                                        .total = newest->total,
                                        .check = newest->check,
                                        .moved_ms = replica->now_ms};
}

bool lq_transfer_is_pinned(const struct lq_replica *replica)
{
    for (size_t i = 0; i < replica->n_peers; i++) {
        const struct lq_sending *sending = &replica->peers[i].sending;
        if (sending->is_active && replica->now_ms < sending->moved_ms + PIN_MS) {
            return true;
        }
    }
    return false;
}

static void read_piece(struct lq_replica *replica, struct lq_peer *peer)
{
    struct lq_sending *sending = &peer->sending;
    uint64_t left = sending->total - sending->wanted;
    sending->is_reading = true;
    replica->snapshots.is_reading = true;
    replica->snapshots.reading_for = peer->node;
    lq_effects_put(&replica->effects,
                   &(struct lq_effect){.kind = LQ_EFFECT_SNAPSHOT_READ,
                                       .snapshot = sending->name,
                                       .offset = sending->wanted,
                                       .len = left < LQ_CHUNK_BYTES ? left : LQ_CHUNK_BYTES});
}

/* When the peer gets its next piece. */
static uint64_t due_ms(const struct lq_replica *replica, const struct lq_peer *peer)
{
    const struct lq_sending *sending = &peer->sending;
    if (replica->snapshots.is_reading || !sending->is_active || sending->is_reading ||
        peer->is_full || !peer->is_linked) {
        return LQ_NEVER;
    }
    return sending->sent_ms == 0 ? replica->now_ms : sending->sent_ms + again_ms(replica);
}

void lq_transfer_turn(struct lq_replica *replica)
{
    for (size_t i = 0; i < replica->n_peers; i++) {
        struct lq_peer *peer = &replica->peers[i];
        struct lq_sending *sending = &peer->sending;
        if (sending->is_active && !sending->is_reading &&
            replica->now_ms >= sending->moved_ms + GIVE_UP_MS) {
            sending->is_active = false;
        }
        if (replica->now_ms >= due_ms(replica, peer)) {
            read_piece(replica, peer);
        }
    }
}

uint64_t lq_transfer_deadline(const struct lq_replica *replica)
{
    uint64_t deadline = LQ_NEVER;
    for (size_t i = 0; i < replica->n_peers; i++) {
        deadline = lq_earlier(deadline, due_ms(replica, &replica->peers[i]));
    }
    return deadline;
}

void lq_replica_snapshot_read(struct lq_replica *replica, uint64_t offset, const uint8_t *bytes,
                              size_t len)
{
    struct lq_peer *peer = lq_peer_find(replica, replica->snapshots.reading_for);
    struct lq_sending *sending = peer == NULL ? NULL : &peer->sending;
    replica->snapshots.is_reading = false;
    if (replica->stop != NULL || sending == NULL || !sending->is_reading) {
        return;
    }
    sending->is_reading = false;
    if (len == 0) {
        sending->is_active = false; /* a newer one took its place */
    }
    if (!sending->is_active || offset != sending->wanted) {
        return;
    }
    sending->sent_ms = replica->now_ms;
    lq_peer_send(replica, peer,
                 &(struct lq_message){.kind = LQ_MESSAGE_CHUNK,
                                      .term = replica->term,
                                      .index = sending->name.index,
                                      .index_term = sending->name.term,
                                      .total = sending->total,
                                      .check = sending->check,
                                      .offset = offset,
                                      .bytes = bytes,
                                      .len = len},
                 NULL, NULL, false);
}

void lq_transfer_result(struct lq_replica *replica, uint32_t node, const struct lq_message *message)
{
    struct lq_peer *peer = lq_peer_find(replica, node);
    struct lq_sending *sending = &peer->sending;
    if (!sending->is_active || message->index != sending->name.index ||
        message->check != sending->check || message->offset > sending->total) {
        return;
    }
    if (message->is_refused) {
        sending->is_active = false;
        peer->refused_until_ms = replica->now_ms + REFUSED_MS;
    } else if (message->offset == sending->total) {
        sending->is_active = false;
    } else if (message->offset != sending->wanted) {
        sending->wanted = message->offset;
        sending->moved_ms = replica->now_ms;
        sending->sent_ms = 0;
    }
}

/* ---- The follower's side. */

static void answer_chunk(struct lq_replica *replica, uint32_t node, const struct lq_message *chunk,
                         uint64_t next)
{
    struct lq_peer *peer = lq_peer_find(replica, node);
    lq_peer_send(replica, peer,
                 &(struct lq_message){.kind = LQ_MESSAGE_CHUNK_RESULT,
                                      .term = replica->term,
                                      .index = chunk->index,
                                      .check = chunk->check,
                                      .offset = next},
                 NULL, NULL, false);
}

static bool is_present(const struct lq_receiving *receiving, const struct lq_message *chunk)
{
    return receiving->is_active && receiving->name.index == chunk->index &&
           receiving->name.term == chunk->index_term && receiving->check == chunk->check &&
           receiving->total == chunk->total;
}

/* What is complete is read back and verified before it gets the name of a snapshot. */
static void load(struct lq_replica *replica)
{
    struct lq_receiving *receiving = &replica->snapshots.receiving;
    if (receiving->have == receiving->total) {
        receiving->is_loading = true;
        lq_effects_put(&replica->effects, &(struct lq_effect){.kind = LQ_EFFECT_SNAPSHOT_LOAD,
                                                              .snapshot = receiving->name});
    }
}

static void drop(struct lq_replica *replica)
{
    struct lq_receiving *receiving = &replica->snapshots.receiving;
    lq_effects_put(&replica->effects, &(struct lq_effect){.kind = LQ_EFFECT_SNAPSHOT_DROP,
                                                          .snapshot = receiving->name});
    *receiving = (struct lq_receiving){0};
}

void lq_transfer_chunk(struct lq_replica *replica, uint32_t node, const struct lq_message *chunk)
{
    struct lq_receiving *receiving = &replica->snapshots.receiving;
    if (chunk->term != replica->term || node != replica->leader || node == replica->options.node ||
        receiving->is_finishing || receiving->is_loading ||
        lq_engine_is_installing(replica->engine) || chunk->total > total_max(replica) ||
        chunk->index_term == 0 || chunk->index_term > replica->term ||
        chunk->offset > chunk->total || chunk->len > chunk->total - chunk->offset) {
        return;
    }
    if (chunk->index <= replica->applied) {
        answer_chunk(replica, node, chunk, chunk->total); /* no use for it any more */
        return;
    }
    if (!is_present(receiving, chunk) && chunk->offset == 0) {
        if (receiving->is_active) {
            drop(replica);
        }
        *receiving = (struct lq_receiving){
            .is_active = true,
            .name = {.index = chunk->index, .term = chunk->index_term, .is_incoming = true},
            .total = chunk->total,
            .check = chunk->check};
    }
    if (!is_present(receiving, chunk)) {
        answer_chunk(replica, node, chunk, 0);
        return;
    }
    if (chunk->offset == receiving->have && chunk->len > 0) {
        lq_effects_put(&replica->effects, &(struct lq_effect){.kind = LQ_EFFECT_SNAPSHOT_WRITE,
                                                              .snapshot = receiving->name,
                                                              .offset = chunk->offset,
                                                              .bytes = chunk->bytes,
                                                              .len = chunk->len});
        receiving->have += chunk->len;
    }
    answer_chunk(replica, node, chunk, receiving->have);
    load(replica);
}

/* Reads the whole file: only what is good in every byte will be installed. */
static bool verify(struct lq_replica *replica, const uint8_t *bytes, size_t len)
{
    struct lq_snapshots *snapshots = &replica->snapshots;
    const struct lq_receiving *receiving = &snapshots->receiving;
    struct lq_snapfile_head head;
    struct lq_buffer state;
    uint64_t check = 0;
    bool is_good;
    lq_buffer_init(&state);
    is_good =
        lq_snapfile_read(bytes, len, total_max(replica), &head, &state, &check) == LQ_SNAPFILE_OK &&
        check == receiving->check && head.cluster == replica->options.cluster &&
        head.index == receiving->name.index && head.term == receiving->name.term &&
        head.members_index >= 1 && head.members_index <= head.index;
    if (is_good) {
        snapshots->restored = lq_snapshot_restore(state.bytes, state.len, replica->options.secret);
        snapshots->incoming = (struct lq_finished){.name = receiving->name,
                                                   .total = receiving->total,
                                                   .check = check,
                                                   .members_index = head.members_index,
                                                   .members = head.members};
    }
    lq_buffer_done(&state);
    return snapshots->restored != NULL;
}

void lq_replica_snapshot_loaded(struct lq_replica *replica, const uint8_t *bytes, size_t len)
{
    struct lq_receiving *receiving = &replica->snapshots.receiving;
    if (replica->stop != NULL || !receiving->is_loading) {
        return; /* it was given up meanwhile */
    }
    receiving->is_loading = false;
    if (!verify(replica, bytes, len)) {
        lq_transfer_failed(replica);
        return;
    }
    receiving->is_finishing = true;
    lq_effects_put(&replica->effects, &(struct lq_effect){.kind = LQ_EFFECT_SNAPSHOT_FINISH,
                                                          .snapshot = receiving->name});
}

void lq_transfer_finished(struct lq_replica *replica)
{
    struct lq_snapshots *snapshots = &replica->snapshots;
    const struct lq_finished *incoming = &snapshots->incoming;
    struct lq_log_point point = {incoming->name.index, incoming->name.term};
    struct lq_snapshot_name name = {.index = point.index, .term = point.term};
    if (!snapshots->receiving.is_finishing) {
        return; /* it was given up meanwhile */
    }
    snapshots->receiving = (struct lq_receiving){0};
    if (!snapshots->is_marking && lq_engine_install(replica->engine, replica->leader, point,
                                                    &incoming->members, incoming->members_index)) {
        lq_home_reinstalled(replica);
    } else if (point.index != snapshots->newest.name.index &&
               point.index != snapshots->before.index) {
        lq_effects_put(&replica->effects,
                       &(struct lq_effect){.kind = LQ_EFFECT_SNAPSHOT_DELETE, .snapshot = name});
    }
    lq_table_free(snapshots->restored); /* what was not installed */
    snapshots->restored = NULL;
    lq_replica_watch_role(replica);
}

void lq_transfer_failed(struct lq_replica *replica)
{
    struct lq_snapshots *snapshots = &replica->snapshots;
    struct lq_peer *peer = lq_peer_find(replica, replica->leader);
    if (!snapshots->receiving.is_active) {
        return;
    }
    if (peer != NULL) {
        lq_peer_send(replica, peer,
                     &(struct lq_message){.kind = LQ_MESSAGE_CHUNK_RESULT,
                                          .term = replica->term,
                                          .index = snapshots->receiving.name.index,
                                          .check = snapshots->receiving.check,
                                          .is_refused = true},
                     NULL, NULL, false);
    }
    drop(replica);
    lq_table_free(snapshots->restored);
    snapshots->restored = NULL;
}

/* Raft takes it: from now on this is the state. */
void lq_transfer_install(struct lq_replica *replica, struct lq_log_point point)
{
    struct lq_snapshots *snapshots = &replica->snapshots;
    lq_snapshots_abort(replica);
    lq_table_free(replica->table);
    replica->table = snapshots->restored;
    snapshots->restored = NULL;
    snapshots->newest = snapshots->incoming;
    snapshots->is_marking = snapshots->is_installing = true;
    snapshots->mark_position = lq_store_put(
        &replica->store, &(struct lq_journal_record){
                             .kind = LQ_JOURNAL_RESTART, .index = point.index, .term = point.term});
    snapshots->bytes_at = replica->applied_bytes;
    replica->applied = point.index;
    lq_apply_install(replica);
    lq_cluster_clock_observe(&replica->clock, point.term, lq_table_counts(replica->table).time_ms,
                             replica->now_ms);
}
