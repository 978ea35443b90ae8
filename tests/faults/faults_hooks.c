/* The functions of libc that are replaced and followed. Each finds out whether its file is inside
 * the directory, and else does what it always did. */
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The names of parameters are ours, not those of the system's headers. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

/* What the compiler's checked variants of open call. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int at, const char *path, int flags);
int __openat64_2(int at, const char *path, int flags);

/* ---- Opening. */

static bool takes_mode(int flags)
{
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    if (takes_mode(flags)) {
        va_list list;
        va_start(list, flags);
        mode = va_arg(list, mode_t);
        va_end(list);
    }
    return lq_faults_open(AT_FDCWD, path, flags, mode);
}

int openat(int at, const char *path, int flags, ...)
{
    mode_t mode = 0;
    if (takes_mode(flags)) {
        va_list list;
        va_start(list, flags);
        mode = va_arg(list, mode_t);
        va_end(list);
    }
    return lq_faults_open(at, path, flags, mode);
}

int __open_2(const char *path, int flags)
{
    return lq_faults_open(AT_FDCWD, path, flags, 0);
}

int __openat_2(int at, const char *path, int flags)
{
    return lq_faults_open(at, path, flags, 0);
}

int creat(const char *path, mode_t mode)
{
    return lq_faults_open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

__attribute__((alias("open"))) int open64(const char *path, int flags, ...);
__attribute__((alias("openat"))) int openat64(int at, const char *path, int flags, ...);
__attribute__((alias("__open_2"))) int __open64_2(const char *path, int flags);
__attribute__((alias("__openat_2"))) int __openat64_2(int at, const char *path, int flags);
__attribute__((alias("creat"))) int creat64(const char *path, mode_t mode);

/* ---- Writing. */

static struct iovec one_part(const void *data, size_t len)
{
    union {
        const void *from;
        void *to;
    } cast = {.from = data}; /* an iovec serves both ways */
    return (struct iovec){.iov_base = cast.to, .iov_len = len};
}

ssize_t write(int fd, const void *data, size_t len)
{
    struct lq_faults_place place;
    if (!lq_faults_is_inside(fd, &place)) {
        return lq_faults_raw(SYS_write, fd, data, len);
    }
    struct iovec part = one_part(data, len);
    struct lq_faults_store store = {.fd = fd, .parts = &part, .count = 1, .offset = -1};
    return lq_faults_write(&store, &place);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    struct lq_faults_place place;
    if (!lq_faults_is_inside(fd, &place)) {
        return lq_faults_raw(SYS_writev, fd, parts, count);
    }
    struct lq_faults_store store = {.fd = fd, .parts = parts, .count = count, .offset = -1};
    return lq_faults_write(&store, &place);
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
    struct lq_faults_place place;
    if (!lq_faults_is_inside(fd, &place)) {
        return lq_faults_raw(SYS_pwritev2, fd, parts, count, offset, 0L, flags);
    }
    struct lq_faults_store store = {fd, parts, count, offset, flags};
    return lq_faults_write(&store, &place);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    if (offset < 0) {
        errno = EINVAL; /* only pwritev2 takes -1 as the descriptor's own place */
        return -1;
    }
    return pwritev2(fd, parts, count, offset, 0);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    struct lq_faults_place place;
    if (offset < 0 || !lq_faults_is_inside(fd, &place)) {
        return lq_faults_raw(SYS_pwrite64, fd, data, len, offset);
    }
    struct iovec part = one_part(data, len);
    struct lq_faults_store store = {.fd = fd, .parts = &part, .count = 1, .offset = offset};
    return lq_faults_write(&store, &place);
}

__attribute__((alias("pwrite"))) ssize_t pwrite64(int fd, const void *data, size_t len,
                                                  off64_t offset);
__attribute__((alias("pwritev"))) ssize_t pwritev64(int fd, const struct iovec *parts, int count,
                                                    off64_t offset);
__attribute__((alias("pwritev2"))) ssize_t pwritev64v2(int fd, const struct iovec *parts, int count,
                                                       off64_t offset, int flags);

/* ---- Sizes. */

int ftruncate(int fd, off_t length)
{
    return lq_faults_truncate(fd, length);
}

int truncate(const char *path, off_t length)
{
    struct lq_faults_place place;
    if (!lq_faults_resolve(AT_FDCWD, path, true, &place)) {
        return (int)lq_faults_raw(SYS_truncate, path, length);
    }
    int fd = lq_faults_open(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    int result = lq_faults_truncate(fd, length);
    int saved = errno;
    (void)lq_faults_raw(SYS_close, fd);
    errno = saved;
    return result;
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    return lq_faults_allocate(fd, mode, offset, length);
}

/* Where the file system can't do it, the caller is told so: the detour of libc, many small writes,
 * would go unseen. */
int posix_fallocate(int fd, off_t offset, off_t length)
{
    int saved = errno;
    int result = lq_faults_allocate(fd, 0, offset, length) == 0 ? 0 : errno;
    errno = saved;
    return result;
}

__attribute__((alias("ftruncate"))) int ftruncate64(int fd, off64_t length);
__attribute__((alias("truncate"))) int truncate64(const char *path, off64_t length);
__attribute__((alias("fallocate"))) int fallocate64(int fd, int mode, off64_t offset,
                                                    off64_t length);
__attribute__((alias("posix_fallocate"))) int posix_fallocate64(int fd, off64_t offset,
                                                                off64_t length);

/* ---- Syncs. sync_file_range is none: it promises nothing, so it makes nothing durable here. */

int fsync(int fd)
{
    return lq_faults_sync(fd, false);
}

int fdatasync(int fd)
{
    return lq_faults_sync(fd, true);
}

void sync(void)
{
    if (lq_faults_active()) {
        lq_faults_sync_all();
    } else {
        (void)lq_faults_raw(SYS_sync);
    }
}

int syncfs(int fd)
{
    struct lq_faults_place place;
    if (!lq_faults_is_inside(fd, &place)) {
        return (int)lq_faults_raw(SYS_syncfs, fd);
    }
    lq_faults_sync_all();
    return 0;
}

/* ---- Names. */

int unlinkat(int at, const char *path, int flags)
{
    return lq_faults_unlink(at, path, flags);
}

int unlink(const char *path)
{
    return lq_faults_unlink(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return lq_faults_unlink(AT_FDCWD, path, AT_REMOVEDIR);
}

int remove(const char *path)
{
    int result = lq_faults_unlink(AT_FDCWD, path, 0);
    return result != 0 && errno == EISDIR ? rmdir(path) : result;
}

int mkdirat(int at, const char *path, mode_t mode)
{
    return lq_faults_mkdir(at, path, mode);
}

int mkdir(const char *path, mode_t mode)
{
    return lq_faults_mkdir(AT_FDCWD, path, mode);
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags)
{
    struct lq_faults_move move = {from_at, from, to_at, to, flags};
    return lq_faults_rename(&move);
}

int renameat(int from_at, const char *from, int to_at, const char *to)
{
    return renameat2(from_at, from, to_at, to, 0);
}

int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int linkat(int from_at, const char *from, int to_at, const char *to, int flags)
{
    struct lq_faults_move move = {from_at, from, to_at, to, (unsigned)flags};
    return lq_faults_link(&move);
}

int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
