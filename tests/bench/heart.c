#include "heart.h"

#include "lq_mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLUSTER 4711

/* Sweeps, of a millisecond each, within which the three must serve, and settle. */
#define PATIENCE 20000

void heart_fail(const char *what)
{
    (void)fprintf(stderr, "bench_replica: %s\n", what);
    exit(EXIT_FAILURE);
}

/* ---- Shares: the time since the last lap goes to a part. */

static uint64_t clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void lap(struct heart_node *node, enum heart_part part)
{
    struct heart *heart = node->heart;
    if (heart->is_profiling) {
        uint64_t now_ns = clock_ns();
        heart->part_ns[node->is_leader][part] += now_ns - heart->lap_ns;
        heart->lap_ns = now_ns;
    }
}

/* ---- Snapshots. */

static struct heart_file *unfinished(struct heart_node *node, const struct lq_effect *effect)
{
    return effect->snapshot.is_incoming ? &node->incoming : &node->own;
}

static void write_snapshot(struct heart_node *node, const struct lq_effect *effect)
{
    struct heart_file *file = unfinished(node, effect);
    if (effect->offset == 0) {
        file->name = effect->snapshot;
        file->bytes.len = 0;
    }
    heart_must(effect->offset == file->bytes.len, "a snapshot is written with a gap");
    lq_buffer_add(&file->bytes, effect->bytes, effect->len);
}

static void finish_snapshot(struct heart_node *node, const struct lq_effect *effect)
{
    struct heart_file *file = unfinished(node, effect);
    lq_buffer_done(&node->second.bytes);
    node->second = node->newest;
    node->newest = *file;
    *file = (struct heart_file){0};
    node->heart->n_snapshots++;
    lq_replica_snapshot_finished(node->replica, effect->snapshot.is_incoming);
}

static const struct heart_file *finished(const struct heart_node *node,
                                         const struct lq_snapshot_name *name)
{
    const struct heart_file *files[] = {&node->newest, &node->second};
    for (int i = 0; i < 2; i++) {
        if (files[i]->name.index == name->index && files[i]->name.term == name->term) {
            return files[i];
        }
    }
    return NULL;
}

static void read_snapshot(struct heart_node *node, const struct lq_effect *effect)
{
    const struct heart_file *file = effect->kind == LQ_EFFECT_SNAPSHOT_LOAD
                                        ? unfinished(node, effect)
                                        : finished(node, &effect->snapshot);
    if (effect->kind == LQ_EFFECT_SNAPSHOT_LOAD) {
        if (file == NULL) {
            heart_fail("a snapshot is not there");
        }
        lq_replica_snapshot_loaded(node->replica, file->bytes.bytes, file->bytes.len);
    } else if (file == NULL || effect->offset >= file->bytes.len) {
        lq_replica_snapshot_read(node->replica, effect->offset, NULL, 0);
    } else {
        size_t left = file->bytes.len - effect->offset;
        lq_replica_snapshot_read(node->replica, effect->offset, file->bytes.bytes + effect->offset,
                                 effect->len < left ? effect->len : left);
    }
}

/* ---- Effects. */

static void send(struct heart_node *node, const struct lq_effect *effect)
{
    struct heart_node *to = &node->heart->nodes[effect->node - 1];
    lq_buffer_add(&to->inbox[node->id - 1], effect->bytes, effect->len);
    node->heart->n_sent++;
    node->heart->sent_bytes += effect->len;
}

static void carry_out(struct heart_node *node, const struct lq_effect *effect)
{
    struct heart *heart = node->heart;
    switch (effect->kind) {
    case LQ_EFFECT_ALLOCATE:
        lq_replica_allocated(node->replica, ++heart->salt);
        break;
    case LQ_EFFECT_SEGMENT:
        lq_replica_segment_ready(node->replica);
        break;
    case LQ_EFFECT_WRITE:
        heart->n_written++;
        heart->written_bytes += effect->write.len;
        lap(node, HEART_CARRY);
        lq_replica_written(node->replica);
        lap(node, HEART_WRITTEN);
        break;
    case LQ_EFFECT_DELETE:
        lq_replica_deleted(node->replica);
        break;
    case LQ_EFFECT_SEND:
        send(node, effect);
        break;
    case LQ_EFFECT_SNAPSHOT_WRITE:
        write_snapshot(node, effect);
        break;
    case LQ_EFFECT_SNAPSHOT_FINISH:
        finish_snapshot(node, effect);
        break;
    case LQ_EFFECT_SNAPSHOT_DROP:
        lq_buffer_done(&unfinished(node, effect)->bytes);
        break;
    case LQ_EFFECT_SNAPSHOT_DELETE:
        break; /* two are kept here, whatever comes */
    case LQ_EFFECT_SNAPSHOT_LOAD:
    case LQ_EFFECT_SNAPSHOT_READ:
        read_snapshot(node, effect);
        break;
    case LQ_EFFECT_NOTE:
        break;
    case LQ_EFFECT_UNLINK:
    case LQ_EFFECT_STOP:
        heart_fail(effect->text);
    }
}

/* ---- Turns. */

static void receive_from(struct heart_node *node, uint32_t from)
{
    struct lq_buffer *inbox = &node->inbox[from - 1];
    size_t at = 0;
    while (at < inbox->len) {
        const uint8_t *body;
        size_t body_len, used;
        heart_must(lq_message_unframe(inbox->bytes + at, inbox->len - at, LQ_MESSAGE_MAX, &body,
                                      &body_len, &used) == LQ_FRAMED_ONE,
                   "a message is cut off");
        heart_must(lq_replica_receive(node->replica, from, body, body_len), "a message is none");
        at += used;
    }
    inbox->len = 0;
}

static void turn(struct heart_node *node)
{
    struct heart *heart = node->heart;
    struct lq_effect effect;
    node->has_more = false;
    lq_replica_wake(node->replica, heart->now_ms);
    for (uint32_t from = 1; from <= HEART_NODES; from++) {
        receive_from(node, from);
    }
    lap(node, HEART_RECEIVE);
    lq_replica_turn(node->replica);
    lap(node, HEART_BEGIN);
    if (heart->clients_turn != NULL) {
        heart->clients_turn(heart->clients, node);
    } else if (node->hub != NULL) {
        lq_hub_turn(node->hub, heart->now_ms);
    }
    lap(node, HEART_CLIENTS);
    lq_replica_flush(node->replica);
    lap(node, HEART_FLUSH);
    while (lq_replica_take(node->replica, &effect)) {
        carry_out(node, &effect);
    }
    lq_mem_settle(); /* as the server does in each turn */
    lap(node, HEART_CARRY);
}

struct heart_node *heart_leader(struct heart *heart)
{
    for (int i = 0; i < HEART_NODES; i++) {
        if (heart->nodes[i].is_leader) {
            return &heart->nodes[i];
        }
    }
    return &heart->nodes[0];
}

void heart_sweep(struct heart *heart)
{
    uint32_t first = heart_leader(heart)->id;
    heart->now_ms++;
    heart->lap_ns = heart->is_profiling ? clock_ns() : 0;
    for (uint32_t i = 0; i < HEART_NODES; i++) {
        struct heart_node *node = &heart->nodes[(first - 1 + i) % HEART_NODES];
        do {
            turn(node);
        } while (node->has_more);
    }
}

/* ---- Beginning and end. */

static void start_node(struct heart *heart, uint32_t id, const struct heart_options *options)
{
    struct heart_node *node = &heart->nodes[id - 1];
    struct lq_hub_options hub = {.requests_max = options->requests_max,
                                 .unread_max = UINT64_C(1) << 26,
                                 .unread_total_max = UINT64_C(1) << 30,
                                 .unread_timeout_ms = 30000};
    struct lq_replica_options replica;
    struct lq_recovery *recovery;
    lq_replica_defaults(&replica);
    replica.cluster = CLUSTER;
    replica.node = id;
    replica.seed = options->seed + id;
    memset(replica.secret, (int)id, sizeof replica.secret);
    replica.snapshot_entries = replica.snapshot_bytes = UINT64_MAX / 8;
    if (options->snapshot_entries > 0) {
        replica.snapshot_entries = replica.trailing_entries = options->snapshot_entries;
    }
    for (uint32_t i = 1; i <= HEART_NODES; i++) {
        char address[] = {'n', (char)('0' + i), ':', '1', '\0'};
        (void)lq_members_add(&replica.bootstrap, i, address, LQ_ROLE_VOTER);
    }
    recovery = lq_recovery_new(CLUSTER, id, replica.secret);
    heart_must(lq_recovery_end(recovery) == LQ_RECOVERY_BLANK, "an empty disk is not blank");
    *node = (struct heart_node){.heart = heart, .id = id};
    node->replica = lq_replica_new(&replica, recovery, heart->now_ms);
    lq_recovery_free(recovery);
    node->hub = options->with_hubs ? lq_hub_new(&hub, lq_replica_backend(node->replica)) : NULL;
}

static void link_all(struct heart *heart)
{
    for (uint32_t from = 1; from <= HEART_NODES; from++) {
        for (uint32_t to = 1; to <= HEART_NODES; to++) {
            struct lq_hello hello = lq_replica_hello(heart->nodes[from - 1].replica, to);
            if (from != to) {
                heart_must(lq_replica_link_up(heart->nodes[to - 1].replica, &hello) == LQ_LINK_OK,
                           "a link is refused");
            }
        }
    }
}

static bool is_serving(struct heart *heart)
{
    bool is_all = true;
    for (int i = 0; i < HEART_NODES; i++) {
        struct lq_replica_status status = lq_replica_status(heart->nodes[i].replica);
        heart->nodes[i].is_leader = status.role == LQ_REPLICA_LEADER;
        is_all = is_all && status.is_serving;
    }
    return is_all;
}

void heart_start(struct heart *heart, const struct heart_options *options)
{
    *heart = (struct heart){.now_ms = 1000};
    for (uint32_t id = 1; id <= HEART_NODES; id++) {
        start_node(heart, id, options);
    }
    heart_sweep(heart); /* makes the boot counters durable */
    link_all(heart);
    for (int i = 0; i < PATIENCE && !is_serving(heart); i++) {
        heart_sweep(heart);
    }
    heart_must(is_serving(heart), "the three do not serve");
}

static bool is_settled(const struct heart *heart)
{
    struct lq_replica_status first = lq_replica_status(heart->nodes[0].replica);
    bool is_all = true;
    for (int i = 0; i < HEART_NODES; i++) {
        struct lq_replica_status status = lq_replica_status(heart->nodes[i].replica);
        is_all = is_all && status.applied_index == first.last_index && status.outbox_bytes == 0;
    }
    return is_all;
}

void heart_settle(struct heart *heart)
{
    heart->clients_turn = NULL;
    for (int i = 0; i < PATIENCE && !is_settled(heart); i++) {
        heart_sweep(heart);
    }
    heart_must(is_settled(heart), "the three do not come to rest");
    for (int i = 1; i < HEART_NODES; i++) {
        heart_must(lq_table_digest(lq_replica_table(heart->nodes[i].replica)) ==
                       lq_table_digest(lq_replica_table(heart->nodes[0].replica)),
                   "the three hold different locks");
    }
}

void heart_end(struct heart *heart)
{
    for (int i = 0; i < HEART_NODES; i++) {
        struct heart_node *node = &heart->nodes[i];
        struct heart_file *files[] = {&node->own, &node->incoming, &node->newest, &node->second};
        lq_hub_free(node->hub);
        lq_replica_free(node->replica);
        for (int k = 0; k < HEART_NODES; k++) {
            lq_buffer_done(&node->inbox[k]);
        }
        for (int k = 0; k < 4; k++) {
            lq_buffer_done(&files[k]->bytes);
        }
    }
}
