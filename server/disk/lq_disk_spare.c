/* The files' lane: segments to come, and old ones that go.
 *
 * A file is really filled with zeros: where room was only reserved, each write would have to change
 * the file system's books as well. That takes a while, in slices so that the journal's writes do
 * not wait behind it. So that the journal never waits for a whole file, the next one is made ahead
 * of its time, when the one before was taken, at half of the disk's speed; ALLOCATE then finds it,
 * or does the rest at full speed.
 *
 * A file that is made ahead and finds no room is given up and not asked about: ALLOCATE will. */
#include "lq_check.h"
#include "lq_clock.h"
#include "lq_datadir_impl.h"
#include "lq_disk_impl.h"
#include "lq_file.h"

#include <errno.h>
#include <fcntl.h>

/* ---- Making a spare file. */

static void give_up(struct lq_disk *disk)
{
    lq_file_close(&disk->spare.fd);
    (void)lq_file_remove(disk->dir->fd, LQ_DISK_MAKING);
    disk->spare = (struct lq_disk_spare){.fd = -1};
}

static int begin(struct lq_disk *disk, uint64_t len)
{
    struct lq_disk_spare *spare = &disk->spare;
    int error;
    lq_file_close(&spare->fd);
    *spare = (struct lq_disk_spare){.fd = -1, .len = len};
    error = lq_file_open(disk->dir->fd, LQ_DISK_MAKING, O_WRONLY | O_CREAT | O_TRUNC, &spare->fd);
    return error != 0 ? error : lq_file_reserve(spare->fd, len);
}

/* Complete: durable as to its size and place, and out of the way of the next one. */
static int complete(struct lq_disk *disk)
{
    struct lq_disk_spare *spare = &disk->spare;
    int error = lq_file_sync(spare->fd);
    lq_file_close(&spare->fd);
    spare->is_ready = true;
    return error;
}

/* Writes one slice; the file is ready, or a little longer. */
static int grow(struct lq_disk *disk)
{
    struct lq_disk_spare *spare = &disk->spare;
    uint64_t left = spare->len - spare->done;
    size_t len = left < LQ_DISK_SLICE ? (size_t)left : LQ_DISK_SLICE;
    int error = lq_file_write(spare->fd, disk->zeros, len, spare->done);
    if (error == 0) {
        error = lq_file_sync_data(spare->fd);
    }
    spare->done += len;
    return error != 0 || spare->done < spare->len ? error : complete(disk);
}

/* One step on the way to a spare file of that size. */
static int step(struct lq_disk *disk, uint64_t len)
{
    const struct lq_disk_spare *spare = &disk->spare;
    return spare->fd >= 0 && spare->len == len ? grow(disk) : begin(disk, len);
}

static bool is_there(const struct lq_disk *disk, uint64_t len)
{
    return disk->spare.is_ready && disk->spare.len == len;
}

/* True: there is no room, and the file is given up. Other errors are the end. */
static bool finds_no_room(struct lq_disk *disk, int error)
{
    if (lq_file_is_no_room(error)) {
        give_up(disk);
        return true;
    }
    if (error != 0) {
        lq_disk_fail(disk, LQ_DISK_MAKING, "make a file for the journal", error);
    }
    return false;
}

uint64_t lq_disk_spare_idle(struct lq_disk *disk)
{
    uint64_t len = disk->wanted, start_us = lq_clock_us();
    int error;
    if (len == 0 || disk->has_failed || is_there(disk, len)) {
        return UINT64_MAX;
    }
    error = step(disk, len);
    if (finds_no_room(disk, error)) {
        disk->wanted = 0;
    }
    return error != 0 ? UINT64_MAX : lq_clock_us() - start_us;
}

/* ---- ALLOCATE and DELETE. */

static void allocate(struct lq_disk *disk, struct lq_disk_op *op)
{
    int error = 0;
    while (error == 0 && !is_there(disk, op->effect.len)) {
        if (disk->is_stopping) {
            return;
        }
        error = step(disk, op->effect.len);
    }
    if (error == 0) {
        disk->spare.is_ready = false;
        error = lq_file_rename(disk->dir->fd, LQ_DISK_MAKING, LQ_DISK_READY);
    }
    if (finds_no_room(disk, error)) {
        lq_disk_answer(op, LQ_DISK_NO_ROOM);
    } else if (error == 0) {
        lq_disk_answer(op, LQ_DISK_ALLOCATED);
    }
}

static void remove_segment(struct lq_disk *disk, struct lq_disk_op *op)
{
    char name[LQ_DATADIR_NAME];
    const char *what = "remove";
    int error;
    lq_datadir_segment_name(op->effect.number, name);
    error = lq_file_remove(disk->dir->fd, name);
    if (error == 0) {
        what = "sync the directory of";
        error = lq_file_sync(disk->dir->fd);
    }
    if (error != 0) {
        lq_disk_fail(disk, name, what, error);
        return;
    }
    lq_disk_answer(op, LQ_DISK_DELETED);
}

void lq_disk_files_carry_out(struct lq_disk *disk, struct lq_disk_op *op)
{
    if (op->effect.kind == LQ_EFFECT_ALLOCATE) {
        allocate(disk, op);
    } else {
        LQ_CHECK(op->effect.kind == LQ_EFFECT_DELETE);
        remove_segment(disk, op);
    }
}
