/* Names in the directory: files made, renamed, removed. A name is durable when its directory was
 * synced after it changed, and not before. What an unlink or a rename takes away gets a second name
 * in the state folder first (a grave), so that its contents can come back. Directories can be made,
 * but not moved or removed: nobody needs it, and paths in the book stay true. */
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GRAVE_NAME 64

static int fail(int error)
{
    errno = error;
    return -1;
}

static void grave_name(uint64_t grave, char ret_name[GRAVE_NAME])
{
    (void)snprintf(ret_name, GRAVE_NAME, "graves/%" PRIu64, grave);
}

void lq_faults_bury(uint64_t grave)
{
    char name[GRAVE_NAME];
    struct stat st;
    grave_name(grave, name);
    bool is_there = fstatat(lq_faults_state_fd(), name, &st, 0) == 0;
    (void)lq_faults_raw(SYS_unlinkat, lq_faults_state_fd(), name, 0);
    if (is_there && st.st_nlink == 1) { /* no other name: nothing of it matters any more */
        lq_faults_drop_file(st.st_ino);
        lq_faults_gone(st.st_ino);
    }
}

/* Gives a file its second name. The number of a record is used, which no other has. */
static uint64_t dig(const char *path)
{
    char name[GRAVE_NAME];
    uint64_t grave = lq_faults_mark();
    grave_name(grave, name);
    (void)lq_faults_raw(SYS_unlinkat, lq_faults_state_fd(), name,
                        0); /* of a kill just after the link */
    if (lq_faults_raw(SYS_linkat, lq_faults_dir_fd(), path, lq_faults_state_fd(), name, 0) != 0) {
        lq_faults_refuse("%s: keeping it for a power loss: %s", path, strerror(errno));
    }
    return grave;
}

/* Reports all of a directory that was lost as dirty again: a change in it writes it once more. */
static void dirty_parent(const char *path)
{
    char dir[LQ_FAULTS_PATH];
    const char *slash = strrchr(path, '/');
    (void)snprintf(dir, sizeof dir, "%.*s", slash == NULL ? 1 : (int)(slash - path),
                   slash == NULL ? "." : path);
    struct lq_faults_scope scope = {.mark = lq_faults_mark(), .dir = dir};
    lq_faults_settle(&scope, LQ_FAULTS_DIRTY);
}

static struct lq_faults_record *record_names(enum lq_faults_kind kind, uint64_t ino, const char *a,
                                             const char *b)
{
    size_t a_len = strlen(a) + 1;
    size_t b_len = b == NULL ? 0 : strlen(b) + 1;
    dirty_parent(a);
    if (b != NULL) {
        dirty_parent(b);
    }
    struct lq_faults_record *record = lq_faults_append(kind, ino, a_len + b_len);
    memcpy(record + 1, a, a_len);
    if (b != NULL) {
        memcpy((char *)(record + 1) + a_len, b, b_len);
    }
    record->live = b == NULL ? 1 : 3;
    return record;
}

/* The operation did not happen. */
static void take_back(struct lq_faults_record *record)
{
    int saved = errno;
    record->live = 0;
    if (record->grave != 0) {
        lq_faults_bury(record->grave);
    }
    errno = saved;
}

static bool is_root(const struct lq_faults_place *place)
{
    return strcmp(place->path, ".") == 0;
}

/* ---- Opening. */

static int open_new(int at, const char *path, int flags, mode_t mode)
{
    struct lq_faults_place place;
    struct stat st;
    (void)lq_faults_resolve(at, path, true, &place);
    struct lq_faults_record *record = record_names(LQ_FAULTS_CREATE, 0, place.path, NULL);
    lq_faults_publish(record);
    int fd = (int)lq_faults_raw(SYS_openat, at, path, flags, mode);
    if (fd < 0 || fstat(fd, &st) != 0) {
        take_back(record);
        return fd;
    }
    lq_faults_drop_file(st.st_ino); /* of an older file that had this number */
    record->ino = st.st_ino;
    return fd;
}

/* O_TRUNC on a file with contents. It is cut by us, so that what is lost is in the book first. */
static int open_cut(int at, const char *path, int flags)
{
    int fd = (int)lq_faults_raw(SYS_openat, at, path, flags & ~O_TRUNC, 0);
    if (fd >= 0 && (flags & O_ACCMODE) != O_RDONLY && lq_faults_truncate(fd, 0) != 0) {
        int saved = errno;
        (void)lq_faults_raw(SYS_close, fd);
        return fail(saved);
    }
    return fd;
}

int lq_faults_open(int at, const char *path, int flags, mode_t mode)
{
    struct lq_faults_place place;
    if ((flags & O_PATH) != 0 || !lq_faults_resolve(at, path, true, &place)) {
        return (int)lq_faults_raw(SYS_openat, at, path, flags, mode);
    }
    if ((flags & O_TMPFILE) == O_TMPFILE) {
        lq_faults_refuse("%s: O_TMPFILE is not followed", path);
    }
    bool is_new = place.ino == 0 && (flags & O_CREAT) != 0;
    int error =
        lq_faults_strike(is_new ? LQ_FAULTS_ON_CREATE : LQ_FAULTS_ON_OPEN, place.path, is_new);
    if (error != 0) {
        return fail(error);
    }
    if (place.ino != 0 && (flags & O_TRUNC) != 0 && (flags & O_EXCL) == 0) {
        return open_cut(at, path, flags);
    }
    if ((flags & O_CREAT) == 0) {
        return (int)lq_faults_raw(SYS_openat, at, path, flags, mode);
    }
    lq_faults_lock();
    (void)lq_faults_resolve(at, path, true, &place); /* another thread may have made it */
    int fd = place.ino == 0 ? open_new(at, path, flags, mode)
                            : (int)lq_faults_raw(SYS_openat, at, path, flags, mode);
    lq_faults_unlock();
    return fd;
}

/* ---- Removing. */

static bool is_directory(const struct lq_faults_place *place)
{
    struct stat st;
    return place->ino != 0 &&
           fstatat(lq_faults_dir_fd(), place->path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(st.st_mode);
}

int lq_faults_unlink(int at, const char *path, int flags)
{
    struct lq_faults_place place;
    if (!lq_faults_resolve(at, path, false, &place)) {
        return (int)lq_faults_raw(SYS_unlinkat, at, path, flags);
    }
    if ((flags & AT_REMOVEDIR) != 0) {
        lq_faults_refuse("%s: removing directories is not followed", path);
    }
    int error = lq_faults_strike(LQ_FAULTS_ON_UNLINK, place.path, false);
    if (error != 0) {
        return fail(error);
    }
    lq_faults_lock();
    (void)lq_faults_resolve(at, path, false, &place);
    if (place.ino == 0 || is_directory(&place)) {
        lq_faults_unlock();
        return fail(place.ino == 0 ? ENOENT : EISDIR);
    }
    uint64_t grave = dig(place.path);
    struct lq_faults_record *record = record_names(LQ_FAULTS_UNLINK, place.ino, place.path, NULL);
    record->grave = grave;
    lq_faults_publish(record);
    int result = (int)lq_faults_raw(SYS_unlinkat, at, path, flags);
    if (result != 0) {
        take_back(record);
    }
    lq_faults_unlock();
    return result;
}

/* ---- Making directories, moving, linking. */

int lq_faults_mkdir(int at, const char *path, mode_t mode)
{
    struct lq_faults_place place;
    /* The directory itself is no name in itself. */
    if (!lq_faults_resolve(at, path, false, &place) || is_root(&place)) {
        return (int)lq_faults_raw(SYS_mkdirat, at, path, mode);
    }
    int error = place.ino != 0 ? EEXIST : lq_faults_strike(LQ_FAULTS_ON_CREATE, place.path, true);
    if (error != 0) {
        return fail(error);
    }
    lq_faults_lock();
    struct lq_faults_record *record = record_names(LQ_FAULTS_MKDIR, 0, place.path, NULL);
    lq_faults_publish(record);
    int result = (int)lq_faults_raw(SYS_mkdirat, at, path, mode);
    if (result != 0) {
        take_back(record);
    }
    lq_faults_unlock();
    return result;
}

/* Finds both names; false when none is inside. One in and one out is not followed. */
static bool resolve_both(const struct lq_faults_move *move, struct lq_faults_place *ret_from,
                         struct lq_faults_place *ret_to)
{
    bool is_from = lq_faults_resolve(move->from_at, move->from, false, ret_from);
    bool is_to = lq_faults_resolve(move->to_at, move->to, false, ret_to);
    if (is_from != is_to || (is_from && (is_root(ret_from) || is_root(ret_to)))) {
        lq_faults_refuse("from %s to %s: across the border of the directory", move->from, move->to);
    }
    return is_from;
}

static int rename_locked(const struct lq_faults_move *move)
{
    struct lq_faults_place from;
    struct lq_faults_place to;
    (void)resolve_both(move, &from, &to);
    if (from.ino == 0) {
        return fail(ENOENT);
    }
    if (to.ino != 0 && (move->flags & RENAME_NOREPLACE) != 0) {
        return fail(EEXIST);
    }
    if (is_directory(&from) || is_directory(&to)) {
        lq_faults_refuse("%s: renaming directories is not followed", move->from);
    }
    if (to.ino == from.ino) { /* two names of one file: nothing happens */
        return 0;
    }
    uint64_t grave = to.ino == 0 ? 0 : dig(to.path);
    struct lq_faults_record *record = record_names(LQ_FAULTS_RENAME, from.ino, from.path, to.path);
    record->grave = grave;
    lq_faults_publish(record);
    int result = (int)lq_faults_raw(SYS_renameat2, move->from_at, move->from, move->to_at, move->to,
                                    move->flags);
    if (result != 0) {
        take_back(record);
    }
    return result;
}

int lq_faults_rename(const struct lq_faults_move *move)
{
    struct lq_faults_place from;
    struct lq_faults_place to;
    if (!lq_faults_active() || !resolve_both(move, &from, &to)) {
        return (int)lq_faults_raw(SYS_renameat2, move->from_at, move->from, move->to_at, move->to,
                                  move->flags);
    }
    if ((move->flags & ~(unsigned)RENAME_NOREPLACE) != 0) {
        lq_faults_refuse("%s: renameat2 with flags %u is not followed", move->from, move->flags);
    }
    int error = lq_faults_strike(LQ_FAULTS_ON_RENAME, to.path, false);
    if (error != 0) {
        return fail(error);
    }
    lq_faults_lock();
    int result = rename_locked(move);
    lq_faults_unlock();
    return result;
}

int lq_faults_link(const struct lq_faults_move *move)
{
    struct lq_faults_place from;
    struct lq_faults_place to;
    if (!lq_faults_active() || !resolve_both(move, &from, &to)) {
        return (int)lq_faults_raw(SYS_linkat, move->from_at, move->from, move->to_at, move->to,
                                  move->flags);
    }
    if (move->flags != 0) {
        lq_faults_refuse("%s: linkat with flags %u is not followed", move->from, move->flags);
    }
    int error = lq_faults_strike(LQ_FAULTS_ON_CREATE, to.path, true);
    if (error != 0) {
        return fail(error);
    }
    lq_faults_lock();
    (void)resolve_both(move, &from, &to);
    int result = fail(to.ino != 0 ? EEXIST : ENOENT);
    if (from.ino != 0 && to.ino == 0) {
        struct lq_faults_record *record = record_names(LQ_FAULTS_LINK, from.ino, to.path, NULL);
        lq_faults_publish(record);
        result =
            (int)lq_faults_raw(SYS_linkat, move->from_at, move->from, move->to_at, move->to, 0);
        if (result != 0) {
            take_back(record);
        }
    }
    lq_faults_unlock();
    return result;
}
