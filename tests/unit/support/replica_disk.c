#include "replica_disk.h"

#include "lq_check.h"
#include "lq_mem.h"

#include <check.h>
#include <string.h>

static struct lq_nodes_file *find_file(struct lq_nodes_node *node,
                                       const struct lq_snapshot_name *name, bool is_finished)
{
    for (size_t i = 0; i < sizeof node->files / sizeof node->files[0]; i++) {
        struct lq_nodes_file *file = &node->files[i];
        if (file->bytes != NULL && file->name.index == name->index &&
            file->name.term == name->term && file->is_finished == is_finished &&
            (is_finished || file->name.is_incoming == name->is_incoming)) {
            return file;
        }
    }
    return NULL;
}

static void drop_file(struct lq_nodes_file *file)
{
    if (file != NULL) {
        lq_free(file->bytes);
        *file = (struct lq_nodes_file){0};
    }
}

static struct lq_nodes_file *new_file(struct lq_nodes_node *node,
                                      const struct lq_snapshot_name *name)
{
    for (size_t i = 0; i < sizeof node->files / sizeof node->files[0]; i++) {
        struct lq_nodes_file *file = &node->files[i];
        if (file->bytes == NULL) {
            *file = (struct lq_nodes_file){.name = *name, .bytes = lq_malloc(1)};
            return file;
        }
    }
    LQ_CHECK(false && "too many files");
    return NULL;
}

static void write_snapshot(struct lq_nodes_node *node, const struct lq_effect *effect)
{
    struct lq_nodes_file *file = find_file(node, &effect->snapshot, false);
    if (effect->offset == 0) {
        drop_file(file);
        file = new_file(node, &effect->snapshot);
    }
    LQ_CHECK(file != NULL && file->len == effect->offset);
    file->bytes = lq_realloc(file->bytes, file->len + effect->len, 1);
    memcpy(file->bytes + file->len, effect->bytes, effect->len);
    file->len += effect->len;
}

void lq_nodes_ask_disk(struct lq_nodes_node *node, const struct lq_effect *effect)
{
    if (effect->kind == LQ_EFFECT_SNAPSHOT_WRITE) {
        write_snapshot(node, effect);
    } else if (effect->kind == LQ_EFFECT_SNAPSHOT_DROP) {
        drop_file(find_file(node, &effect->snapshot, false));
    } else if (effect->kind == LQ_EFFECT_SNAPSHOT_DELETE) {
        drop_file(find_file(node, &effect->snapshot, true));
    } else {
        LQ_CHECK(node->n_pending < LQ_NODES_PENDING);
        node->pending[node->n_pending++] = *effect;
    }
}

static void write_journal(struct lq_nodes_node *node, const struct lq_journal_write *write)
{
    if (write->len > 0) {
        LQ_CHECK(write->number < LQ_NODES_SEGMENTS && node->segments[write->number] != NULL);
        memcpy(node->segments[write->number] + write->offset, write->bytes, write->len);
    }
}

static void load(struct lq_nodes_node *node, const struct lq_effect *effect)
{
    bool is_finished = effect->kind != LQ_EFFECT_SNAPSHOT_LOAD;
    const struct lq_nodes_file *file = find_file(node, &effect->snapshot, is_finished);
    if (effect->kind == LQ_EFFECT_SNAPSHOT_LOAD) {
        LQ_CHECK(file != NULL);
        lq_replica_snapshot_loaded(node->replica, file->bytes, file->len);
    } else if (file == NULL || effect->offset + effect->len > file->len) {
        lq_replica_snapshot_read(node->replica, effect->offset, NULL, 0);
    } else {
        lq_replica_snapshot_read(node->replica, effect->offset, file->bytes + effect->offset,
                                 effect->len);
    }
}

static void finish_snapshot(struct lq_nodes_node *node, const struct lq_effect *effect)
{
    struct lq_nodes_file *file = find_file(node, &effect->snapshot, false);
    LQ_CHECK(file != NULL);
    drop_file(find_file(node, &effect->snapshot, true));
    file->is_finished = true;
    lq_replica_snapshot_finished(node->replica, effect->snapshot.is_incoming);
}

static void act(struct lq_nodes *nodes, struct lq_nodes_node *node, const struct lq_effect *effect)
{
    struct lq_replica *replica = node->replica;
    if (effect->kind == LQ_EFFECT_ALLOCATE && node->is_full) {
        lq_replica_no_room(replica);
    } else if (effect->kind == LQ_EFFECT_ALLOCATE) {
        lq_replica_allocated(replica, ++nodes->salt);
    } else if (effect->kind == LQ_EFFECT_SEGMENT) {
        LQ_CHECK(effect->write.number < LQ_NODES_SEGMENTS);
        node->segments[effect->write.number] = lq_calloc(1, nodes->options.segment_bytes);
        write_journal(node, &effect->write);
        write_journal(node, &effect->seal);
        lq_replica_segment_ready(replica);
    } else if (effect->kind == LQ_EFFECT_WRITE) {
        write_journal(node, &effect->write);
        lq_replica_written(replica);
    } else if (effect->kind == LQ_EFFECT_DELETE) {
        lq_free(node->segments[effect->number]);
        node->segments[effect->number] = NULL;
        lq_replica_deleted(replica);
    } else if (effect->kind == LQ_EFFECT_SNAPSHOT_FINISH) {
        finish_snapshot(node, effect);
    } else {
        load(node, effect);
    }
}

void lq_nodes_run_disk(struct lq_nodes *nodes, struct lq_nodes_node *node)
{
    struct lq_effect todo[LQ_NODES_PENDING];
    size_t n = node->n_pending;
    memcpy(todo, node->pending, n * sizeof todo[0]);
    node->n_pending = 0;
    for (size_t i = 0; i < n; i++) {
        act(nodes, node, &todo[i]);
    }
}

struct lq_recovery *lq_nodes_recover(const struct lq_nodes_node *node, uint64_t cluster,
                                     const uint8_t secret[16])
{
    struct lq_recovery *recovery = lq_recovery_new(cluster, node->id, secret);
    const struct lq_nodes_file *newest = NULL;
    for (size_t i = 0; i < sizeof node->files / sizeof node->files[0]; i++) {
        const struct lq_nodes_file *file = &node->files[i];
        if (file->is_finished && (newest == NULL || file->name.index > newest->name.index)) {
            newest = file;
        }
    }
    if (newest != NULL) {
        ck_assert(lq_recovery_snapshot(recovery, newest->bytes, newest->len));
    }
    for (uint64_t number = 1; number < LQ_NODES_SEGMENTS; number++) {
        if (node->segments[number] != NULL) {
            lq_recovery_segment(recovery, number, node->segments[number], 64 * LQ_SECTOR);
        }
    }
    ck_assert_msg(lq_recovery_end(recovery) != LQ_RECOVERY_CORRUPT, "%s",
                  lq_recovery_text(recovery));
    return recovery;
}

void lq_nodes_wipe(struct lq_nodes_node *node)
{
    for (size_t i = 0; i < LQ_NODES_SEGMENTS; i++) {
        lq_free(node->segments[i]);
        node->segments[i] = NULL;
    }
    for (size_t i = 0; i < sizeof node->files / sizeof node->files[0]; i++) {
        drop_file(&node->files[i]);
    }
}
