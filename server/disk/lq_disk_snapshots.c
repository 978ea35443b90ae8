/* The snapshots' lane. There are at most two files in the making, one of the node's own state and
 * one that a leader sends, each under a temporary name; and one finished file that is being read.
 *
 * Life of a file in the making: a WRITE at offset 0 begins it, WRITEs fill it, FINISH makes it
 * durable and renames it, DROP removes it. Without room: it is removed, FAILED is told once, and
 * all but a new beginning and DROP passes it by. */
#include "lq_check.h"
#include "lq_datadir_impl.h"
#include "lq_disk_impl.h"
#include "lq_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* ---- Names. */

static void part_name(const struct lq_snapshot_name *name, char ret_name[LQ_DATADIR_NAME])
{
    size_t len;
    lq_datadir_snapshot_name(name->index, name->term, ret_name);
    len = strlen(ret_name);
    (void)snprintf(ret_name + len, LQ_DATADIR_NAME - len, "%s" LQ_DATADIR_TMP,
                   name->is_incoming ? ".in" : ".own");
}

static bool is_same(const struct lq_snapshot_name *a, const struct lq_snapshot_name *b)
{
    return a->index == b->index && a->term == b->term;
}

/* ---- The file in the making. */

/* What is told of an operation that met `error`, which is not 0: no room, or the end. */
static void tell(struct lq_disk *disk, struct lq_disk_op *op, const char *what, int error)
{
    struct lq_disk_part *part = &disk->parts[op->effect.snapshot.is_incoming];
    char name[LQ_DATADIR_NAME];
    part_name(&op->effect.snapshot, name);
    if (!lq_file_is_no_room(error)) {
        lq_disk_fail(disk, name, what, error);
        return;
    }
    lq_file_close(&part->fd);
    (void)lq_file_remove(disk->dir->fd, name);
    part->has_no_room = true;
    lq_disk_answer(op, LQ_DISK_SNAPSHOT_FAILED);
}

/* Begins it anew; one of another name that was not dropped would never be finished. */
static int begin(struct lq_disk *disk, struct lq_disk_part *part,
                 const struct lq_snapshot_name *snapshot)
{
    char name[LQ_DATADIR_NAME];
    if (part->fd >= 0 && !is_same(&part->name, snapshot)) {
        part_name(&part->name, name);
        (void)lq_file_remove(disk->dir->fd, name);
    }
    lq_file_close(&part->fd);
    *part = (struct lq_disk_part){.fd = -1, .name = *snapshot};
    part_name(snapshot, name);
    return lq_file_open(disk->dir->fd, name, O_RDWR | O_CREAT | O_TRUNC, &part->fd);
}

/* Now and then what was written is made durable, so that it does not come all at once at the end
 * and keep the journal waiting. */
static int sync_often(struct lq_disk_part *part, size_t len)
{
    part->n_unsynced += len;
    if (part->n_unsynced < LQ_DISK_SLICE) {
        return 0;
    }
    part->n_unsynced = 0;
    return lq_file_sync_data(part->fd);
}

static void write_part(struct lq_disk *disk, struct lq_disk_op *op)
{
    const struct lq_effect *effect = &op->effect;
    struct lq_disk_part *part = &disk->parts[effect->snapshot.is_incoming];
    int error = effect->offset == 0 ? begin(disk, part, &effect->snapshot) : 0;
    if (part->has_no_room) {
        return;
    }
    if (error == 0) {
        LQ_CHECK(part->fd >= 0 && is_same(&part->name, &effect->snapshot));
        error = lq_file_write(part->fd, op->bytes, op->room, effect->offset);
    }
    if (error == 0) {
        error = sync_often(part, op->room);
    }
    if (error != 0) {
        tell(disk, op, "write", error);
    }
}

static void forget_reading(struct lq_disk *disk, const struct lq_snapshot_name *name)
{
    if (is_same(&disk->reading.name, name)) {
        lq_file_close(&disk->reading.fd);
    }
}

static void finish_part(struct lq_disk *disk, struct lq_disk_op *op)
{
    const struct lq_snapshot_name *snapshot = &op->effect.snapshot;
    struct lq_disk_part *part = &disk->parts[snapshot->is_incoming];
    char from[LQ_DATADIR_NAME], to[LQ_DATADIR_NAME];
    int error;
    if (part->has_no_room) {
        return;
    }
    LQ_CHECK(part->fd >= 0 && is_same(&part->name, snapshot));
    part_name(snapshot, from);
    lq_datadir_snapshot_name(snapshot->index, snapshot->term, to);
    forget_reading(disk, snapshot);
    error = lq_file_sync(part->fd);
    if (error == 0) {
        error = lq_file_rename(disk->dir->fd, from, to);
    }
    if (error == 0) {
        error = lq_file_sync(disk->dir->fd);
    }
    if (error != 0) {
        tell(disk, op, "make durable, or rename,", error);
        return;
    }
    lq_file_close(&part->fd);
    lq_disk_answer(op, LQ_DISK_SNAPSHOT_FINISHED);
}

static void remove_file(struct lq_disk *disk, const char *name)
{
    int error = lq_file_remove(disk->dir->fd, name);
    if (error != 0) {
        lq_disk_fail(disk, name, "remove", error);
    }
}

static void drop_part(struct lq_disk *disk, struct lq_disk_op *op)
{
    struct lq_disk_part *part = &disk->parts[op->effect.snapshot.is_incoming];
    char name[LQ_DATADIR_NAME];
    if (is_same(&part->name, &op->effect.snapshot)) {
        lq_file_close(&part->fd);
    }
    part_name(&op->effect.snapshot, name);
    remove_file(disk, name);
}

/* ---- Finished files. */

/* Need not be durable: what comes back after a crash is removed at the next start. */
static void delete_finished(struct lq_disk *disk, struct lq_disk_op *op)
{
    const struct lq_snapshot_name *snapshot = &op->effect.snapshot;
    char name[LQ_DATADIR_NAME];
    forget_reading(disk, snapshot);
    lq_datadir_snapshot_name(snapshot->index, snapshot->term, name);
    remove_file(disk, name);
}

static int open_finished(struct lq_disk *disk, const struct lq_snapshot_name *snapshot)
{
    char name[LQ_DATADIR_NAME];
    if (disk->reading.fd >= 0 && is_same(&disk->reading.name, snapshot)) {
        return 0;
    }
    lq_file_close(&disk->reading.fd);
    disk->reading.name = *snapshot;
    lq_datadir_snapshot_name(snapshot->index, snapshot->term, name);
    return lq_file_open(disk->dir->fd, name, O_RDONLY, &disk->reading.fd);
}

/* What can't be read is told as nothing: the peer gets another snapshot, or this one later. */
static void read_finished(struct lq_disk *disk, struct lq_disk_op *op)
{
    size_t len = 0;
    int error = open_finished(disk, &op->effect.snapshot);
    if (error == 0) {
        error = lq_file_read(disk->reading.fd, op->bytes, op->room, op->effect.offset, &len);
    }
    lq_disk_answer(op, LQ_DISK_SNAPSHOT_READ);
    op->answer.offset = op->effect.offset;
    op->answer.bytes = op->bytes;
    op->answer.len = error == 0 ? len : 0;
}

/* The same for a file in the making, which is to be verified. */
static void load_part(struct lq_disk *disk, struct lq_disk_op *op)
{
    const struct lq_disk_part *part = &disk->parts[op->effect.snapshot.is_incoming];
    size_t len = 0;
    bool is_there = part->fd >= 0 && is_same(&part->name, &op->effect.snapshot);
    int error = is_there ? lq_file_read(part->fd, op->bytes, op->room, 0, &len) : ENOENT;
    lq_disk_answer(op, LQ_DISK_SNAPSHOT_LOADED);
    op->answer.bytes = op->bytes;
    op->answer.len = error == 0 ? len : 0;
}

void lq_disk_snapshots_carry_out(struct lq_disk *disk, struct lq_disk_op *op)
{
    static void (*const actions[])(struct lq_disk *, struct lq_disk_op *) = {
        [LQ_EFFECT_SNAPSHOT_WRITE] = write_part, [LQ_EFFECT_SNAPSHOT_FINISH] = finish_part,
        [LQ_EFFECT_SNAPSHOT_DROP] = drop_part,   [LQ_EFFECT_SNAPSHOT_DELETE] = delete_finished,
        [LQ_EFFECT_SNAPSHOT_LOAD] = load_part,   [LQ_EFFECT_SNAPSHOT_READ] = read_finished,
    };
    size_t kind = (size_t)op->effect.kind;
    LQ_CHECK(kind < sizeof actions / sizeof actions[0] && actions[kind] != NULL);
    actions[kind](disk, op);
}
