/* Contents and sizes of files. Before a write the old contents of the sectors that it touches go
 * into the book, 64 sectors a record, and the old size when the file grows. */
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHUNK ((size_t)LQ_FAULTS_PER_RECORD * LQ_FAULTS_SECTOR)

#define UNTIL_END UINT64_MAX

static off_t size_of(const struct lq_faults_place *place)
{
    struct stat st;
    if (fstat(place->reader, &st) != 0) {
        lq_faults_refuse("%s: %s", place->path, strerror(errno));
    }
    return st.st_size;
}

static bool is_zero(const uint8_t *sector)
{
    static const uint8_t zeros[LQ_FAULTS_SECTOR];
    return memcmp(sector, zeros, sizeof zeros) == 0;
}

/* Sectors from `first` on, at most a record of them. */
static void capture_some(const struct lq_faults_place *place, uint64_t first, uint64_t count)
{
    uint8_t old[CHUNK];
    size_t len = 0;
    memset(old, 0, sizeof old);
    while (len < count * LQ_FAULTS_SECTOR) {
        ssize_t n = pread(place->reader, old + len, count * LQ_FAULTS_SECTOR - len,
                          (off_t)(first * LQ_FAULTS_SECTOR + len));
        if (n < 0) {
            lq_faults_refuse("%s: reading what was there: %s", place->path, strerror(errno));
        }
        if (n == 0) {
            break;
        }
        len += (size_t)n;
    }
    uint64_t zero = 0;
    size_t kept = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint8_t *sector = old + i * LQ_FAULTS_SECTOR;
        if (is_zero(sector)) {
            zero |= UINT64_C(1) << i;
        } else {
            memmove(old + kept, sector, LQ_FAULTS_SECTOR);
            kept += LQ_FAULTS_SECTOR;
        }
    }
    struct lq_faults_record *record = lq_faults_append(LQ_FAULTS_DATA, place->ino, kept);
    memcpy(record + 1, old, kept);
    record->at = first;
    record->live = count == LQ_FAULTS_PER_RECORD ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1;
    record->zero = zero;
    lq_faults_publish(record);
}

static struct lq_faults_scope scope_of(uint64_t ino, uint64_t offset, uint64_t len)
{
    return (struct lq_faults_scope){
        .mark = lq_faults_mark(),
        .ino = ino,
        .first = offset / LQ_FAULTS_SECTOR,
        .end = len == UNTIL_END ? UNTIL_END
                                : (offset + len + LQ_FAULTS_SECTOR - 1) / LQ_FAULTS_SECTOR};
}

/* Writes into the book what a change of these bytes destroys. */
static void capture(const struct lq_faults_place *place, uint64_t offset, uint64_t len)
{
    struct lq_faults_scope scope = scope_of(place->ino, offset, len);
    lq_faults_settle(&scope, LQ_FAULTS_DIRTY);
    for (uint64_t at = scope.first; at < scope.end; at += LQ_FAULTS_PER_RECORD) {
        uint64_t left = scope.end - at;
        capture_some(place, at, left < LQ_FAULTS_PER_RECORD ? left : LQ_FAULTS_PER_RECORD);
    }
}

static void capture_size(const struct lq_faults_place *place, off_t size)
{
    struct lq_faults_scope scope = scope_of(place->ino, 0, 0);
    lq_faults_settle(&scope, LQ_FAULTS_DIRTY);
    struct lq_faults_record *record = lq_faults_append(LQ_FAULTS_SIZE, place->ino, 0);
    record->at = (uint64_t)size;
    record->live = 1;
    lq_faults_publish(record);
}

void lq_faults_record_cut(const struct lq_faults_place *place, off_t length)
{
    off_t size = size_of(place);
    if (length < size) {
        capture(place, (uint64_t)length, (uint64_t)(size - length));
    }
    if (length != size) {
        capture_size(place, size);
    }
}

/* Whether some of these bytes have no room on the disk yet: 1 or 0, or -1 where the file system
 * can't tell. */
static int has_hole(int fd, uint64_t offset, uint64_t len)
{
    union {
        struct fiemap map;
        uint8_t room[sizeof(struct fiemap) + sizeof(struct fiemap_extent)];
    } ask;
    while (len > 0) {
        memset(&ask, 0, sizeof ask);
        ask.map.fm_start = offset;
        ask.map.fm_length = len;
        ask.map.fm_extent_count = 1;
        if (ioctl(fd, FS_IOC_FIEMAP, &ask.map) != 0) {
            return -1;
        }
        const struct fiemap_extent *extent =
            (const struct fiemap_extent *)(const void *)(&ask.map + 1);
        if (ask.map.fm_mapped_extents == 0 || extent->fe_logical > offset) {
            return 1;
        }
        uint64_t end = extent->fe_logical + extent->fe_length;
        if (end >= offset + len) {
            return 0;
        }
        len -= end - offset;
        offset = end;
    }
    return 0;
}

static bool needs_room(const struct lq_faults_place *place, uint64_t offset, uint64_t len)
{
    struct stat st;
    if (len == 0 || fstat(place->reader, &st) != 0) {
        return false;
    }
    if (offset + len > (uint64_t)st.st_size) {
        return has_hole(place->reader, offset, len) != 0;
    }
    return st.st_blocks * 512 < st.st_size && has_hole(place->reader, offset, len) == 1;
}

/* Lets the rules strike, without the lock, since they may stall. */
static int strike_room(int fd, enum lq_faults_op op, off_t offset, size_t len)
{
    struct lq_faults_place place;
    if (!lq_faults_is_inside(fd, &place)) {
        return 0;
    }
    lq_faults_lock();
    lq_faults_know(fd, &place);
    bool grows = offset >= 0 && needs_room(&place, (uint64_t)offset, len);
    lq_faults_unlock();
    return lq_faults_strike(op, place.path, grows);
}

/* ---- Syncs. */

static int fail(int error)
{
    errno = error;
    return -1;
}

/* Makes a scope of the book durable by a real sync, or pretends that it failed. The mark was taken
 * before: what is written meanwhile is not covered. */
static int sync_scope(int fd, bool only_data, const char *path, const struct lq_faults_scope *scope)
{
    if (lq_faults_skips_sync()) {
        return 0;
    }
    int error = lq_faults_strike(LQ_FAULTS_ON_SYNC, path, false);
    if (error == 0 && lq_faults_raw(only_data ? SYS_fdatasync : SYS_fsync, fd) != 0) {
        error = errno;
    }
    lq_faults_lock();
    lq_faults_settle(scope, error == 0 ? LQ_FAULTS_DURABLE : LQ_FAULTS_LOST);
    lq_faults_unlock();
    return error == 0 ? 0 : fail(error);
}

int lq_faults_sync(int fd, bool only_data)
{
    struct lq_faults_place place;
    struct stat st;
    if (!lq_faults_is_inside(fd, &place)) {
        return (int)lq_faults_raw(only_data ? SYS_fdatasync : SYS_fsync, fd);
    }
    bool is_dir = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    lq_faults_lock();
    struct lq_faults_scope scope = scope_of(place.ino, 0, UNTIL_END);
    lq_faults_unlock();
    scope.dir = is_dir ? place.path : NULL;
    return sync_scope(fd, only_data, place.path, &scope);
}

void lq_faults_sync_all(void)
{
    if (lq_faults_skips_sync()) {
        return;
    }
    lq_faults_lock();
    struct lq_faults_scope scope = {.mark = lq_faults_mark(), .everything = true};
    lq_faults_unlock();
    (void)lq_faults_raw(SYS_sync);
    lq_faults_lock();
    lq_faults_settle(&scope, LQ_FAULTS_DURABLE);
    lq_faults_unlock();
}

/* ---- Writes. */

static size_t total_of(const struct lq_faults_store *store)
{
    size_t total = 0;
    for (int i = 0; i < store->count; i++) {
        total += store->parts[i].iov_len;
    }
    return total;
}

static off_t place_of(const struct lq_faults_store *store, const struct lq_faults_place *place)
{
    if ((fcntl(store->fd, F_GETFL) & O_APPEND) != 0 || (store->flags & RWF_APPEND) != 0) {
        return size_of(place); /* also for pwrite: so Linux does */
    }
    return store->offset >= 0 ? store->offset : lseek(store->fd, 0, SEEK_CUR);
}

/* Gives the first `len` bytes to the kernel, without making them durable. */
static ssize_t pass_on(const struct lq_faults_store *store, size_t len)
{
    static struct iovec cut[IOV_MAX]; /* under the lock */
    int count = 0;
    for (size_t left = len; left > 0 && count < store->count; count++) {
        cut[count] = store->parts[count];
        cut[count].iov_len = left < cut[count].iov_len ? left : cut[count].iov_len;
        left -= cut[count].iov_len;
    }
    int flags = store->flags & ~(RWF_DSYNC | RWF_SYNC);
    if (flags != 0) {
        return lq_faults_raw(SYS_pwritev2, store->fd, cut, count, store->offset, 0L, flags);
    }
    if (store->offset >= 0) {
        return lq_faults_raw(SYS_pwritev, store->fd, cut, count, store->offset, 0L);
    }
    return lq_faults_raw(SYS_writev, store->fd, cut, count);
}

/* The part of a write for which no new room is needed, when there is none: what lies before the end
 * of the file. Holes inside count as all or nothing. */
static size_t len_without_growth(const struct lq_faults_place *place, off_t at, size_t len)
{
    off_t size = size_of(place);
    size_t within = at < size ? (size_t)(size - at) : 0;
    within = within < len ? within : len;
    return needs_room(place, (uint64_t)at, within) ? 0 : within;
}

/* Under the lock. What a sync of this write covers goes to ret_scope. `is_full`: there is no room
 * for growth. */
static ssize_t write_locked(const struct lq_faults_store *store,
                            const struct lq_faults_place *place, bool is_full,
                            struct lq_faults_scope *ret_scope)
{
    size_t len = total_of(store);
    off_t at = place_of(store, place);
    if (at < 0) {
        return -1;
    }
    if (is_full && needs_room(place, (uint64_t)at, len)) {
        len = len_without_growth(place, at, len);
        if (len == 0) {
            return fail(ENOSPC);
        }
    }
    if (len > 0) {
        off_t size = size_of(place);
        capture(place, (uint64_t)at, len);
        if (at + (off_t)len > size) {
            capture_size(place, size);
        }
    }
    ssize_t n = pass_on(store, len);
    *ret_scope = scope_of(place->ino, (uint64_t)at, n > 0 ? (uint64_t)n : 0);
    return n;
}

ssize_t lq_faults_write(const struct lq_faults_store *store, struct lq_faults_place *place)
{
    struct lq_faults_scope scope = {0};
    int fl = fcntl(store->fd, F_GETFL);
    if (store->count < 0 || store->count > IOV_MAX || (fl & O_ACCMODE) == O_RDONLY) {
        return fail(store->count < 0 || store->count > IOV_MAX ? EINVAL : EBADF);
    }
    lq_faults_lock();
    lq_faults_know(store->fd, place);
    off_t at = place_of(store, place);
    bool grows = at >= 0 && needs_room(place, (uint64_t)at, total_of(store));
    lq_faults_unlock();
    int error = lq_faults_strike(LQ_FAULTS_ON_WRITE, place->path, grows); /* may stall */
    if (error != 0 && error != ENOSPC) {
        return fail(error);
    }
    lq_faults_lock();
    lq_faults_know(store->fd, place);
    ssize_t n = write_locked(store, place, error == ENOSPC, &scope);
    lq_faults_unlock();
    bool is_durable = (store->flags & (RWF_DSYNC | RWF_SYNC)) != 0 || (fl & O_DSYNC) != 0;
    if (n > 0 && is_durable && sync_scope(store->fd, true, place->path, &scope) != 0) {
        return -1;
    }
    return n;
}

/* ---- Sizes. */

int lq_faults_truncate(int fd, off_t length)
{
    struct lq_faults_place place;
    if (!lq_faults_is_inside(fd, &place)) {
        return (int)lq_faults_raw(SYS_ftruncate, fd, length);
    }
    if (length < 0 || (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
        return fail(EINVAL);
    }
    int error = strike_room(fd, LQ_FAULTS_ON_ALLOCATE, length - 1, 1);
    if (error != 0) {
        return fail(error);
    }
    lq_faults_lock();
    lq_faults_know(fd, &place);
    lq_faults_record_cut(&place, length);
    int result = (int)lq_faults_raw(SYS_ftruncate, fd, length);
    lq_faults_unlock();
    return result;
}

/* Zeroing and punching change contents; the plain mode and KEEP_SIZE do not. */
static void capture_allocation(const struct lq_faults_place *place, int mode, off_t offset,
                               off_t length)
{
    off_t size = size_of(place);
    off_t end = offset + length;
    if ((mode & (FALLOC_FL_ZERO_RANGE | FALLOC_FL_PUNCH_HOLE)) != 0 && offset < size) {
        capture(place, (uint64_t)offset, (uint64_t)((end < size ? end : size) - offset));
    }
    if ((mode & FALLOC_FL_KEEP_SIZE) == 0 && end > size) {
        capture_size(place, size);
    }
}

int lq_faults_allocate(int fd, int mode, off_t offset, off_t length)
{
    const int followed = FALLOC_FL_KEEP_SIZE | FALLOC_FL_ZERO_RANGE | FALLOC_FL_PUNCH_HOLE;
    struct lq_faults_place place;
    if (!lq_faults_is_inside(fd, &place) || offset < 0 || length <= 0) {
        return (int)lq_faults_raw(SYS_fallocate, fd, mode, offset, length);
    }
    if ((mode & ~followed) != 0) {
        lq_faults_refuse("%s: fallocate in mode %d is not followed", place.path, mode);
    }
    int error = strike_room(fd, LQ_FAULTS_ON_ALLOCATE, offset, (size_t)length);
    if (error != 0) {
        return fail(error);
    }
    lq_faults_lock();
    lq_faults_know(fd, &place);
    capture_allocation(&place, mode, offset, length);
    int result = (int)lq_faults_raw(SYS_fallocate, fd, mode, offset, length);
    lq_faults_unlock();
    return result;
}
