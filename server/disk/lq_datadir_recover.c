/* Reading the directory at a start. Directory and files are made durable, read, and judged; only
 * when the verdict is no refusal, and the directory was not opened to be read only, what is of no
 * use is removed. A refused directory stays as it is, as evidence. */
#include "lq_datadir.h"
#include "lq_datadir_impl.h"
#include "lq_file.h"

#include <inttypes.h>
#include <stdio.h>

/* How many segments from the newest on are read past the page cache: what is in older ones was
 * durable before their successors were begun. */
#define N_UNSURE 2

struct reading {
    struct lq_datadir *dir;
    struct lq_datadir_files files;
    struct lq_recovery *recovery;
    struct lq_buffer bytes; /* one file at a time */
    bool is_writable;
    size_t accepted; /* place in `files` of the snapshot that was taken; n: none */
};

static bool names_are_exact(struct reading *reading)
{
    const struct lq_datadir_file *odd = lq_datadir_files_find(&reading->files, LQ_DATADIR_IS_ODD);
    return odd == NULL ||
           lq_datadir_fail(reading->dir,
                           "%s/%s: no node gives a file this name. If it is a copy, move it out "
                           "of the data directory; if a file was renamed, give it its name back",
                           reading->dir->path, odd->name);
}

static bool sync_directory(struct reading *reading)
{
    int error = reading->is_writable ? lq_file_sync(reading->dir->fd) : 0;
    return error == 0 || lq_datadir_fail_file(reading->dir, "", "sync", error);
}

static enum lq_datadir_how how_to_read(const struct reading *reading, bool is_unsure)
{
    if (!reading->is_writable) {
        return LQ_DATADIR_LOOK;
    }
    return is_unsure ? LQ_DATADIR_DISTRUST : LQ_DATADIR_SYNC;
}

/* It got its name after it was durable, so it is damaged. If an older one and the log do, the node
 * can go on. */
static void pass_over(struct reading *reading, const struct lq_datadir_file *file)
{
    (void)lq_datadir_fail(reading->dir,
                          "%s/%s: this snapshot is damaged and was passed over; an older one and "
                          "the log have to do. See to the disk, and remove the file",
                          reading->dir->path, file->name);
    if (reading->dir->passed_over[0] == '\0') {
        (void)snprintf(reading->dir->passed_over, LQ_DATADIR_NAME, "%s", file->name);
    }
}

/* Its name is what the running node knows it by. */
static bool is_named_right(struct reading *reading, const struct lq_datadir_file *file)
{
    struct lq_recovery_facts facts = lq_recovery_facts(reading->recovery);
    return (facts.snapshot_index == file->number && facts.snapshot_term == file->term) ||
           lq_datadir_fail(reading->dir,
                           "%s/%s: holds the snapshot of index %" PRIu64 ", term %" PRIu64
                           ": give the file its name back",
                           reading->dir->path, file->name, facts.snapshot_index,
                           facts.snapshot_term);
}

static bool read_snapshots(struct reading *reading)
{
    size_t first = reading->files.n_segments, n = reading->files.n_snapshots;
    for (size_t i = first; i < first + n && reading->accepted == reading->files.n; i++) {
        const struct lq_datadir_file *file = &reading->files.items[i];
        if (!lq_datadir_read(reading->dir, file->name, LQ_DATADIR_SNAPSHOT_MAX,
                             how_to_read(reading, false), &reading->bytes)) {
            return false;
        }
        if (lq_recovery_snapshot(reading->recovery, reading->bytes.bytes, reading->bytes.len)) {
            reading->accepted = i;
        } else {
            pass_over(reading, file);
        }
    }
    lq_buffer_done(&reading->bytes); /* it can be much larger than a segment */
    return reading->accepted == reading->files.n ||
           is_named_right(reading, &reading->files.items[reading->accepted]);
}

static bool read_segments(struct reading *reading)
{
    size_t n = reading->files.n_segments;
    for (size_t i = 0; i < n; i++) {
        const struct lq_datadir_file *file = &reading->files.items[i];
        if (!lq_datadir_read(reading->dir, file->name, LQ_JOURNAL_SEGMENT_MAX,
                             how_to_read(reading, i + N_UNSURE >= n), &reading->bytes)) {
            return false;
        }
        lq_recovery_segment(reading->recovery, file->number, reading->bytes.bytes,
                            reading->bytes.len);
    }
    return true;
}

static bool is_useless(const struct reading *reading, size_t i)
{
    bool is_old = i > reading->accepted + 1; /* they stand newest first */
    const struct lq_datadir_file *file = &reading->files.items[i];
    return file->kind == LQ_DATADIR_IS_UNFINISHED ||
           (file->kind == LQ_DATADIR_IS_SNAPSHOT && is_old);
}

static bool clean_up(struct reading *reading)
{
    size_t n_removed = 0;
    for (size_t i = 0; i < reading->files.n; i++) {
        const char *name = reading->files.items[i].name;
        int error = is_useless(reading, i) ? lq_file_remove(reading->dir->fd, name) : 0;
        if (error != 0) {
            return lq_datadir_fail_file(reading->dir, name, "remove", error);
        }
        n_removed += is_useless(reading, i);
    }
    return n_removed == 0 || sync_directory(reading);
}

/* What the recovery found, with the file that it is about. */
static void say_fault(struct lq_datadir *dir, const struct lq_recovery *recovery)
{
    uint64_t number = lq_recovery_fault_segment(recovery);
    char name[LQ_DATADIR_NAME];
    if (number == 0) {
        (void)lq_datadir_fail(dir, "%s: %s", dir->path, lq_recovery_text(recovery));
        return;
    }
    lq_datadir_segment_name(number, name);
    (void)lq_datadir_fail(dir, "%s/%s: %s", dir->path, name, lq_recovery_text(recovery));
}

static bool read_all(struct reading *reading, enum lq_recovery_verdict *ret_verdict)
{
    struct lq_datadir *dir = reading->dir;
    if (!lq_datadir_list(dir, &reading->files)) {
        return false;
    }
    reading->accepted = reading->files.n;
    if (!names_are_exact(reading) || !sync_directory(reading) || !read_snapshots(reading) ||
        !read_segments(reading)) {
        return false;
    }
    *ret_verdict = lq_recovery_end(reading->recovery);
    if (*ret_verdict == LQ_RECOVERY_CORRUPT || *ret_verdict == LQ_RECOVERY_TORN) {
        say_fault(dir, reading->recovery);
    }
    return *ret_verdict == LQ_RECOVERY_CORRUPT || !reading->is_writable || clean_up(reading);
}

struct lq_recovery *lq_datadir_recover(struct lq_datadir *dir, const uint8_t secret[16],
                                       enum lq_recovery_verdict *ret_verdict)
{
    enum lq_recovery_verdict verdict;
    struct reading reading = {.dir = dir, .is_writable = dir->lock_fd >= 0};
    reading.recovery = lq_recovery_new(dir->cluster, dir->node, secret);
    if (read_all(&reading, &verdict)) {
        *ret_verdict = verdict;
    } else {
        lq_recovery_free(reading.recovery);
        reading.recovery = NULL;
    }
    lq_datadir_files_done(&reading.files);
    lq_buffer_done(&reading.bytes);
    return reading.recovery;
}
