/* The journal's lane. The file that is written stays open from one batch to the next, until its
 * successor was begun and it was sealed. */
#include "lq_check.h"
#include "lq_clock.h"
#include "lq_datadir_impl.h"
#include "lq_disk_impl.h"
#include "lq_file.h"

#include <fcntl.h>
#include <sys/stat.h>

/* The segment after the open one will be wanted, as large as this one. */
static void want_spare(struct lq_disk *disk)
{
    disk->journal.is_spare_due = false;
    if (disk->journal.bytes > 0) {
        disk->wanted = disk->journal.bytes;
        lq_disk_lane_poke(&disk->files_lane);
    }
}

/* A node that has just started has more urgent things to do with the disk than to fill a file with
 * zeros, unless the one that it has is nearly full. */
static void want_spare_in_time(struct lq_disk *disk, uint64_t end)
{
    struct lq_disk_journal *journal = &disk->journal;
    journal->n_writes++;
    if (journal->is_spare_due &&
        (journal->n_writes >= LQ_DISK_CALM_WRITES || end >= journal->bytes / 4 * 3)) {
        want_spare(disk);
    }
}

static uint64_t size_of(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_size > 0 ? (uint64_t)status.st_size : 0;
}

static int write_durable(struct lq_disk *disk, int fd, const struct lq_journal_write *write)
{
    return lq_file_write_durable(fd, write->bytes, write->len, write->offset,
                                 &disk->journal.is_plain);
}

/* ---- WRITE. */

static int open_segment(struct lq_disk *disk, uint64_t number, const char *name)
{
    struct lq_disk_journal *journal = &disk->journal;
    int error;
    if (journal->fd >= 0 && journal->number == number) {
        return 0;
    }
    lq_file_close(&journal->fd);
    error = lq_file_open(disk->dir->fd, name, O_RDWR, &journal->fd);
    if (error == 0) {
        journal->number = number;
        journal->bytes = size_of(journal->fd);
        journal->is_spare_due = true;
        journal->n_writes = 0;
    }
    return error;
}

static void write_batch(struct lq_disk *disk, struct lq_disk_op *op)
{
    const struct lq_journal_write *write = &op->effect.write;
    char name[LQ_DATADIR_NAME];
    uint64_t start_us = lq_clock_us();
    int error;
    lq_datadir_segment_name(write->number, name);
    error = open_segment(disk, write->number, name);
    if (error == 0) {
        error = write_durable(disk, disk->journal.fd, write);
    }
    if (error != 0) {
        lq_disk_fail(disk, name, "write to the journal", error);
        return;
    }
    want_spare_in_time(disk, write->offset + write->len);
    op->took_us = lq_clock_us() - start_us;
    lq_disk_answer(op, LQ_DISK_WRITTEN);
}

/* ---- SEGMENT. */

/* The header, durable, then the name, durable. */
static bool begin_segment(struct lq_disk *disk, const struct lq_journal_write *header, int *ret_fd)
{
    char name[LQ_DATADIR_NAME];
    const char *what = "open";
    int error = lq_file_open(disk->dir->fd, LQ_DISK_READY, O_RDWR, ret_fd);
    lq_datadir_segment_name(header->number, name);
    if (error == 0) {
        what = "write the header of the next segment to";
        error = write_durable(disk, *ret_fd, header);
    }
    if (error != 0) {
        lq_disk_fail(disk, LQ_DISK_READY, what, error);
        return false;
    }
    what = "rename the new file to";
    error = lq_file_rename(disk->dir->fd, LQ_DISK_READY, name);
    if (error == 0) {
        what = "sync the directory of";
        error = lq_file_sync(disk->dir->fd);
    }
    if (error != 0) {
        lq_disk_fail(disk, name, what, error);
    }
    return error == 0;
}

/* The last sector of the segment before, which is usually the open one. */
static bool seal_segment(struct lq_disk *disk, const struct lq_journal_write *seal)
{
    bool is_open = disk->journal.fd >= 0 && disk->journal.number == seal->number;
    char name[LQ_DATADIR_NAME];
    int fd = -1, error = 0;
    if (seal->len == 0) {
        return true;
    }
    lq_datadir_segment_name(seal->number, name);
    if (!is_open) {
        error = lq_file_open(disk->dir->fd, name, O_RDWR, &fd);
    }
    if (error == 0) {
        error = write_durable(disk, is_open ? disk->journal.fd : fd, seal);
    }
    lq_file_close(&fd);
    if (error != 0) {
        lq_disk_fail(disk, name, "seal", error);
    }
    return error == 0;
}

static void next_segment(struct lq_disk *disk, struct lq_disk_op *op)
{
    int fd = -1;
    if (!begin_segment(disk, &op->effect.write, &fd) || !seal_segment(disk, &op->effect.seal)) {
        lq_file_close(&fd);
        return;
    }
    lq_file_close(&disk->journal.fd);
    disk->journal.fd = fd;
    disk->journal.number = op->effect.write.number;
    disk->journal.bytes = size_of(fd);
    want_spare(disk);
    lq_disk_answer(op, LQ_DISK_SEGMENT_READY);
}

void lq_disk_journal_carry_out(struct lq_disk *disk, struct lq_disk_op *op)
{
    if (op->effect.kind == LQ_EFFECT_WRITE) {
        write_batch(disk, op);
    } else {
        LQ_CHECK(op->effect.kind == LQ_EFFECT_SEGMENT);
        next_segment(disk, op);
    }
}
