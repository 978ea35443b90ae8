/* Life of a disk: start makes three threads, one per lane; effects go in and answers come out until
 * stop, which joins the threads; the memory is freed when the loop has closed the handle.
 *
 * Failure: the first lane whose write or sync fails sets has_failed and appends FAILED to the
 * finished operations. What was finished before is still answered, what comes after is not. */
#include "lq_disk.h"

#include "lq_check.h"
#include "lq_disk_impl.h"
#include "lq_file.h"
#include "lq_mem.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

/* ---- Operations. */

static void free_all(struct lq_list *ops)
{
    struct lq_list *link;
    while ((link = lq_list_take(ops)) != NULL) {
        struct lq_disk_op *op = LQ_CONTAINER(link, struct lq_disk_op, in_queue);
        lq_free(op->bytes);
        lq_free(op);
    }
}

/* Journal writes need no memory of their own, so their operations go round. */
static struct lq_disk_op *new_op(struct lq_disk *disk, const struct lq_effect *effect)
{
    struct lq_list *link = lq_list_take(&disk->free);
    struct lq_disk_op *op =
        link == NULL ? lq_malloc(sizeof *op) : LQ_CONTAINER(link, struct lq_disk_op, in_queue);
    *op = (struct lq_disk_op){.effect = *effect};
    lq_list_init(&op->in_queue);
    return op;
}

static void recycle(struct lq_disk *disk, struct lq_disk_op *op)
{
    lq_free(op->bytes);
    op->bytes = NULL;
    lq_list_append(&disk->free, &op->in_queue);
}

void lq_disk_answer(struct lq_disk_op *op, enum lq_disk_answer_kind kind)
{
    op->has_answer = true;
    op->answer.kind = kind;
    op->answer.is_incoming = op->effect.snapshot.is_incoming;
}

void lq_disk_finish(struct lq_disk *disk, struct lq_disk_op *op)
{
    LQ_CHECK(pthread_mutex_lock(&disk->mutex) == 0);
    lq_list_append(&disk->finished, &op->in_queue);
    LQ_CHECK(pthread_mutex_unlock(&disk->mutex) == 0);
    LQ_CHECK(uv_async_send(&disk->async) == 0);
}

void lq_disk_fail(struct lq_disk *disk, const char *name, const char *what, int error)
{
    bool is_first;
    LQ_CHECK(pthread_mutex_lock(&disk->mutex) == 0);
    is_first = !disk->has_failed;
    if (is_first) {
        disk->has_failed = true;
        (void)snprintf(disk->text, sizeof disk->text,
                       "%s/%s: can't %s: %s; this node must stop, since nothing tells what of this "
                       "reached the disk, and what is read back can't be trusted either. See to "
                       "the disk and the kernel's log, then start the node again",
                       disk->dir->path, name, what, strerror(error));
        lq_disk_answer(&disk->failure, LQ_DISK_FAILED);
        disk->failure.answer.text = disk->text;
    }
    LQ_CHECK(pthread_mutex_unlock(&disk->mutex) == 0);
    if (is_first) {
        lq_disk_finish(disk, &disk->failure);
    }
}

/* ---- Submitting. */

static struct lq_disk_lane *lane_of(struct lq_disk *disk, enum lq_effect_kind kind)
{
    switch (kind) {
    case LQ_EFFECT_SEGMENT:
    case LQ_EFFECT_WRITE:
        return &disk->journal_lane;
    case LQ_EFFECT_ALLOCATE:
    case LQ_EFFECT_DELETE:
        return &disk->files_lane;
    case LQ_EFFECT_SNAPSHOT_WRITE:
    case LQ_EFFECT_SNAPSHOT_FINISH:
    case LQ_EFFECT_SNAPSHOT_DROP:
    case LQ_EFFECT_SNAPSHOT_DELETE:
    case LQ_EFFECT_SNAPSHOT_LOAD:
    case LQ_EFFECT_SNAPSHOT_READ:
        return &disk->snapshots_lane;
    case LQ_EFFECT_SEND:
    case LQ_EFFECT_UNLINK:
    case LQ_EFFECT_NOTE:
    case LQ_EFFECT_STOP:
        break;
    }
    LQ_BUG("not an effect of the disk");
}

/* How long the incoming snapshot's file will be, for the room that a LOAD of it needs. */
static void follow_incoming(struct lq_disk *disk, const struct lq_effect *effect)
{
    uint64_t end = effect->offset + effect->len;
    if (effect->snapshot.is_incoming && (effect->offset == 0 || end > disk->incoming_len)) {
        disk->incoming_len = end;
    }
}

void lq_disk_submit(struct lq_disk *disk, const struct lq_effect *effect)
{
    struct lq_disk_op *op = new_op(disk, effect);
    op->effect.bytes = NULL;
    if (effect->kind == LQ_EFFECT_SNAPSHOT_WRITE) {
        follow_incoming(disk, effect);
        op->room = effect->len;
    } else if (effect->kind == LQ_EFFECT_SNAPSHOT_LOAD) {
        op->room = (size_t)disk->incoming_len;
    } else if (effect->kind == LQ_EFFECT_SNAPSHOT_READ) {
        op->room = effect->len;
    }
    if (op->room > 0) {
        op->bytes = lq_malloc(op->room);
    }
    if (effect->kind == LQ_EFFECT_SNAPSHOT_WRITE && op->room > 0) {
        memcpy(op->bytes, effect->bytes, effect->len);
    }
    lq_disk_lane_add(lane_of(disk, effect->kind), op);
}

/* ---- Taking. */

static void count(struct lq_disk *disk, const struct lq_disk_op *op)
{
    struct lq_disk_counters *counters = &disk->counters;
    if (op->answer.kind == LQ_DISK_WRITTEN) {
        counters->writes++;
        counters->bytes += op->effect.write.len;
        counters->last_us = op->took_us;
        if (op->took_us > counters->longest_us) {
            counters->longest_us = op->took_us;
        }
    }
}

static struct lq_disk_op *next_finished(struct lq_disk *disk)
{
    struct lq_list *link;
    LQ_CHECK(pthread_mutex_lock(&disk->mutex) == 0);
    link = lq_list_take(&disk->finished);
    LQ_CHECK(pthread_mutex_unlock(&disk->mutex) == 0);
    return link == NULL ? NULL : LQ_CONTAINER(link, struct lq_disk_op, in_queue);
}

bool lq_disk_take(struct lq_disk *disk, struct lq_disk_answer *ret_answer)
{
    struct lq_disk_op *op;
    if (disk->taken != NULL) {
        recycle(disk, disk->taken);
        disk->taken = NULL;
    }
    while (!disk->is_over && (op = next_finished(disk)) != NULL) {
        if (op == &disk->failure) {
            disk->is_over = true;
        } else if (op->has_answer) {
            disk->taken = op;
            count(disk, op);
        } else {
            recycle(disk, op);
            continue;
        }
        *ret_answer = op->answer;
        return true;
    }
    return false;
}

struct lq_disk_counters lq_disk_counters(struct lq_disk *disk)
{
    struct lq_disk_counters counters = disk->counters;
    struct statvfs status;
    if (fstatvfs(disk->dir->fd, &status) == 0) {
        counters.free_bytes = (uint64_t)status.f_bavail * status.f_frsize;
    }
    return counters;
}

/* ---- Start and stop. */

/* The loop only has to turn: whoever runs it takes the answers then. */
static void on_wake(uv_async_t *async)
{
    (void)async;
}

struct lq_disk *lq_disk_start(uv_loop_t *loop, const struct lq_datadir *dir)
{
    struct lq_disk *disk = lq_calloc(1, sizeof *disk);
    disk->dir = dir;
    disk->journal.fd = disk->spare.fd = disk->reading.fd = -1;
    disk->parts[0].fd = disk->parts[1].fd = -1;
    disk->zeros = lq_calloc(1, LQ_DISK_SLICE);
    lq_list_init(&disk->finished);
    lq_list_init(&disk->free);
    lq_list_init(&disk->failure.in_queue);
    LQ_CHECK(pthread_mutex_init(&disk->mutex, NULL) == 0);
    LQ_CHECK(uv_async_init(loop, &disk->async, on_wake) == 0);
    disk->async.data = disk;
    disk->journal_lane = (struct lq_disk_lane){
        .disk = disk, .name = "lq-journal", .carry_out = lq_disk_journal_carry_out};
    disk->files_lane = (struct lq_disk_lane){.disk = disk,
                                             .name = "lq-files",
                                             .carry_out = lq_disk_files_carry_out,
                                             .idle = lq_disk_spare_idle};
    disk->snapshots_lane = (struct lq_disk_lane){
        .disk = disk, .name = "lq-snapshots", .carry_out = lq_disk_snapshots_carry_out};
    lq_disk_lane_start(&disk->files_lane);
    lq_disk_lane_start(&disk->snapshots_lane);
    lq_disk_lane_start(&disk->journal_lane);
    return disk;
}

static void on_closed(uv_handle_t *handle)
{
    struct lq_disk *disk = handle->data;
    lq_list_remove(&disk->failure.in_queue); /* part of the disk itself */
    free_all(&disk->journal_lane.queue);
    free_all(&disk->files_lane.queue);
    free_all(&disk->snapshots_lane.queue);
    free_all(&disk->finished);
    free_all(&disk->free);
    if (disk->taken != NULL) {
        lq_free(disk->taken->bytes);
        lq_free(disk->taken);
    }
    LQ_CHECK(pthread_mutex_destroy(&disk->mutex) == 0);
    lq_free(disk->zeros);
    lq_free(disk);
}

void lq_disk_stop(struct lq_disk *disk)
{
    disk->is_stopping = true;
    lq_disk_lane_join(&disk->journal_lane);
    lq_disk_lane_join(&disk->files_lane);
    lq_disk_lane_join(&disk->snapshots_lane);
    lq_file_close(&disk->journal.fd);
    lq_file_close(&disk->spare.fd);
    lq_file_close(&disk->reading.fd);
    lq_file_close(&disk->parts[0].fd);
    lq_file_close(&disk->parts[1].fd);
    uv_close((uv_handle_t *)&disk->async, on_closed);
}
