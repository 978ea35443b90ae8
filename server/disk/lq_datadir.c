/* Life of an open directory: path, descriptor, lock, identity. It stays locked until it is closed;
 * the kernel gives the lock back when the process ends, however it ends, so what stands in the lock
 * file is a hint for people and nothing else. */
#include "lq_datadir.h"

#include "lq_datadir_impl.h"
#include "lq_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PID_TEXT 16 /* digits of a process id, line feed, NUL */

bool lq_datadir_fail(struct lq_datadir *dir, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(dir->text, sizeof dir->text, format, arguments);
    va_end(arguments);
    return false;
}

/* What an operator can do about it. */
static const char *advice_for(int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
        return "give the directory and its files to the user that the node runs as";
    case EROFS:
        return "the file system is mounted read-only: see why, and mount it writable";
    case ENOSPC:
    case EDQUOT:
        return "make room on the file system";
    case EIO:
        return "the disk has failed: see the kernel's log. If the other nodes still form a "
               "majority, remove this node, and add it again under a new id with an empty data "
               "directory on another disk";
    case ENOENT:
        return "see that the path is right, and that the directory above it is there";
    case EFBIG:
    case EINVAL:
    case ELOOP:
        return "this is no file that a node made: if it is a copy or a link, move it out of the "
               "data "
               "directory";
    default:
        return "see that the path is right, and the kernel's log";
    }
}

bool lq_datadir_fail_file(struct lq_datadir *dir, const char *name, const char *what, int error)
{
    return lq_datadir_fail(dir, "%s%s%s: can't %s: %s; %s", dir->path, *name == '\0' ? "" : "/",
                           name, what, strerror(error), advice_for(error));
}

/* ---- The lock. */

/* The process that the lock file names, as text; "another process" when it names none. */
static const char *holder(const struct lq_datadir *dir, char ret_text[32])
{
    char digits[PID_TEXT] = "";
    size_t len = 0;
    int fd = -1;
    (void)snprintf(ret_text, 32, "another process");
    if (lq_file_open(dir->fd, LQ_DATADIR_LOCK, O_RDONLY, &fd) != 0) {
        return ret_text;
    }
    if (lq_file_read(fd, (uint8_t *)digits, sizeof digits - 1, 0, &len) == 0 && len > 1 &&
        digits[len - 1] == '\n' && strspn(digits, "0123456789") == len - 1) {
        (void)snprintf(ret_text, 32, "process %.*s", (int)len - 1, digits);
    }
    lq_file_close(&fd);
    return ret_text;
}

static bool lock(struct lq_datadir *dir, int fd)
{
    char text[32];
    int error = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (error == EWOULDBLOCK) {
        return lq_datadir_fail(dir,
                               "%s: is used by %s; a data directory belongs to one process: stop "
                               "that one, or give this node a directory of its own",
                               dir->path, holder(dir, text));
    }
    return error == 0 || lq_datadir_fail_file(dir, LQ_DATADIR_LOCK, "lock", error);
}

/* For whoever comes next; nothing depends on it. */
static void sign(const struct lq_datadir *dir)
{
    char text[PID_TEXT];
    int len = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(dir->lock_fd, 0) == 0) {
        (void)lq_file_write(dir->lock_fd, (const uint8_t *)text, (size_t)len, 0);
    }
}

static bool make_lock(struct lq_datadir *dir)
{
    int error = lq_file_open(dir->fd, LQ_DATADIR_LOCK, O_RDWR | O_CREAT, &dir->lock_fd);
    if (error != 0) {
        return lq_datadir_fail_file(dir, LQ_DATADIR_LOCK, "make", error);
    }
    if (!lock(dir, dir->lock_fd)) {
        return false;
    }
    sign(dir);
    return true;
}

bool lq_datadir_hold(struct lq_datadir *dir, int *ret_fd)
{
    int fd = -1;
    int error = lq_file_open(dir->fd, LQ_DATADIR_LOCK, O_RDONLY, &fd);
    if (error != 0 && error != ENOENT) { /* a copy of a directory may lack it */
        return lq_datadir_fail_file(dir, LQ_DATADIR_LOCK, "open", error);
    }
    if (fd >= 0 && !lock(dir, fd)) {
        lq_file_close(&fd);
        return false;
    }
    *ret_fd = fd;
    return true;
}

/* ---- Opening. */

/* A new directory is durable when the one above it is. It is new until it has an identity: a start
 * may have made it and ended right there. Whoever made it for us may keep the one above closed. */
static bool sync_parent(struct lq_datadir *dir, bool is_made_here)
{
    int fd = -1;
    int error = lq_file_open(dir->fd, "..", O_RDONLY | O_DIRECTORY, &fd);
    if (error == EACCES && !is_made_here) {
        return true;
    }
    if (error == 0) {
        error = lq_file_sync(fd);
        lq_file_close(&fd);
    }
    return error == 0 || lq_datadir_fail_file(dir, "..", "sync", error);
}

static bool set_path(struct lq_datadir *dir, const char *path)
{
    size_t len = strlen(path);
    *dir = (struct lq_datadir){.fd = -1, .lock_fd = -1};
    if (len == 0 || len >= sizeof dir->path) {
        return lq_datadir_fail(dir, "the path of the data directory must have 1 to %zu bytes",
                               sizeof dir->path - 1);
    }
    memcpy(dir->path, path, len + 1);
    return true;
}

static bool open_directory(struct lq_datadir *dir)
{
    /* A link to a directory is fine here, unlike for the files in it. */
    dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir->fd >= 0 || lq_datadir_fail_file(dir, "", "open", errno);
}

/* Without an identity there may be nothing but what a start leaves that did not come to write
 * one. */
static bool is_ours(struct lq_datadir *dir)
{
    struct lq_datadir_files files;
    bool is_listed = lq_datadir_list(dir, &files), is_good = is_listed;
    for (size_t i = 0; i < files.n && is_good && !dir->has_identity; i++) {
        const struct lq_datadir_file *file = &files.items[i];
        if (file->kind == LQ_DATADIR_IS_FOREIGN) {
            is_good = lq_datadir_fail(dir,
                                      "%s: holds files that are no node's (%s) and no identity: is "
                                      "it the right path? Give the node a directory of its own",
                                      dir->path, file->name);
        } else if (file->kind != LQ_DATADIR_IS_UNFINISHED && file->kind != LQ_DATADIR_IS_OWN) {
            is_good = lq_datadir_fail(dir,
                                      "%s: holds %s, but its file identity is missing: the "
                                      "directory is not complete. Put the whole of it back; or "
                                      "empty it and add the node again under a new id",
                                      dir->path, file->name);
        }
    }
    lq_datadir_files_done(&files);
    return is_good;
}

static bool done_opening(struct lq_datadir *dir, bool is_open)
{
    if (!is_open) {
        lq_datadir_close(dir);
    }
    return is_open;
}

bool lq_datadir_open(struct lq_datadir *dir, const char *path)
{
    bool is_new;
    if (!set_path(dir, path)) {
        return false;
    }
    is_new = mkdir(path, 0700) == 0;
    if (!is_new && errno != EEXIST) {
        return lq_datadir_fail_file(dir, "", "make the data directory", errno);
    }
    /* The identity is read once more under the lock: whoever held it before may have written it. */
    return done_opening(dir, open_directory(dir) && lq_datadir_read_identity(dir) && is_ours(dir) &&
                                 (dir->has_identity || sync_parent(dir, is_new)) &&
                                 make_lock(dir) && lq_datadir_read_identity(dir));
}

bool lq_datadir_open_read_only(struct lq_datadir *dir, const char *path)
{
    return set_path(dir, path) &&
           done_opening(dir, open_directory(dir) && lq_datadir_read_identity(dir) && is_ours(dir));
}

void lq_datadir_close(struct lq_datadir *dir)
{
    lq_file_close(&dir->lock_fd);
    lq_file_close(&dir->fd);
}
