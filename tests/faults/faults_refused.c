/* Ways to change a file that the layer does not follow. Where one of them meets a file inside the
 * directory, the process ends with a message, so that nothing is ever changed unseen. What reads
 * only, or concerns other files, passes. syscall() is sorted by number: what is followed goes to
 * its hook. */
#include "faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The names of parameters are ours, not those of the system's headers. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

static void refuse_fd(int fd, const char *what)
{
    struct lq_faults_place place;
    if (lq_faults_is_inside(fd, &place)) {
        lq_faults_refuse("%s: %s is not followed", place.path, what);
    }
}

static void refuse_path(int at, const char *path, const char *what)
{
    struct lq_faults_place place;
    if (lq_faults_resolve(at, path, false, &place)) {
        lq_faults_refuse("%s: %s is not followed", path, what);
    }
}

/* The function that a hook hides. Its address is copied, since C knows no way from data to code. */
static void hidden(const char *name, void *ret_function)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        lq_faults_refuse("libc has no %s", name);
    }
    memcpy(ret_function, &found, sizeof found);
}

/* ---- Mapped memory: stores into it are seen by nobody. */

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    bool is_shared = (flags & MAP_TYPE) == MAP_SHARED || (flags & MAP_TYPE) == MAP_SHARED_VALIDATE;
    if (is_shared && (flags & MAP_ANONYMOUS) == 0) {
        refuse_fd(fd, "a shared mapping");
    }
    return (void *)lq_faults_raw(SYS_mmap, at, len, protection, flags, fd, offset);
}

__attribute__((alias("mmap"))) void *mmap64(void *at, size_t len, int protection, int flags, int fd,
                                            off64_t offset);

/* ---- Streams: they write from within libc. Reading is welcome. */

static void refuse_stream(const char *path, const char *mode)
{
    if (strpbrk(mode, "wa+") != NULL) {
        refuse_path(AT_FDCWD, path, "a stream that writes");
    }
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*function)(const char *, const char *);
    refuse_stream(path, mode);
    hidden("fopen", (void *)&function);
    return function(path, mode);
}

FILE *freopen(const char *path, const char *mode, FILE *stream)
{
    FILE *(*function)(const char *, const char *, FILE *);
    if (path != NULL) {
        refuse_stream(path, mode);
    }
    hidden("freopen", (void *)&function);
    return function(path, mode, stream);
}

FILE *fdopen(int fd, const char *mode)
{
    FILE *(*function)(int, const char *);
    if (strpbrk(mode, "wa+") != NULL) {
        refuse_fd(fd, "a stream that writes");
    }
    hidden("fdopen", (void *)&function);
    return function(fd, mode);
}

int vdprintf(int fd, const char *format, va_list list)
{
    int (*function)(int, const char *, va_list);
    refuse_fd(fd, "dprintf");
    hidden("vdprintf", (void *)&function);
    return function(fd, format, list);
}

int dprintf(int fd, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int result = vdprintf(fd, format, list);
    va_end(list);
    return result;
}

__attribute__((alias("fopen"))) FILE *fopen64(const char *path, const char *mode);
__attribute__((alias("freopen"))) FILE *freopen64(const char *path, const char *mode, FILE *stream);

/* ---- Copies inside the kernel. */

ssize_t sendfile(int to, int from, off_t *offset, size_t count)
{
    refuse_fd(to, "sendfile");
    return lq_faults_raw(SYS_sendfile, to, from, offset, count);
}

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t len,
                        unsigned flags)
{
    refuse_fd(to, "copy_file_range");
    return lq_faults_raw(SYS_copy_file_range, from, from_at, to, to_at, len, flags);
}

ssize_t splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t len, unsigned flags)
{
    refuse_fd(to, "splice");
    return lq_faults_raw(SYS_splice, from, from_at, to, to_at, len, flags);
}

__attribute__((alias("sendfile"))) ssize_t sendfile64(int to, int from, off64_t *offset,
                                                      size_t count);

/* ---- Names that are no files, and files with invented names. */

int symlinkat(const char *target, int at, const char *path)
{
    refuse_path(at, path, "symlink");
    return (int)lq_faults_raw(SYS_symlinkat, target, at, path);
}

int symlink(const char *target, const char *path)
{
    return symlinkat(target, AT_FDCWD, path);
}

int mkostemps(char *template, int suffix_len, int flags)
{
    int (*function)(char *, int, int);
    refuse_path(AT_FDCWD, template, "mkstemp");
    hidden("mkostemps", (void *)&function);
    return function(template, suffix_len, flags);
}

int mkstemps(char *template, int suffix_len)
{
    return mkostemps(template, suffix_len, 0);
}

int mkostemp(char *template, int flags)
{
    return mkostemps(template, 0, flags);
}

int mkstemp(char *template)
{
    return mkostemps(template, 0, 0);
}

__attribute__((alias("mkostemps"))) int mkostemps64(char *template, int suffix_len, int flags);
__attribute__((alias("mkstemps"))) int mkstemps64(char *template, int suffix_len);
__attribute__((alias("mkostemp"))) int mkostemp64(char *template, int flags);
__attribute__((alias("mkstemp"))) int mkstemp64(char *template);

/* ---- syscall(). */

#define PATH(value)  ((const char *)(value))
#define PARTS(value) ((const struct iovec *)(value))

/* Calls on descriptors; false: another call. */
static bool sort_by_fd(long number, const long a[6], long *ret_result)
{
    int fd = (int)a[0];
    switch (number) {
    case SYS_write:
        *ret_result = write(fd, (const void *)a[1], (size_t)a[2]);
        return true;
    case SYS_pwrite64:
        *ret_result = pwrite(fd, (const void *)a[1], (size_t)a[2], a[3]);
        return true;
    case SYS_writev:
        *ret_result = writev(fd, PARTS(a[1]), (int)a[2]);
        return true;
    case SYS_pwritev:
        *ret_result = pwritev(fd, PARTS(a[1]), (int)a[2], a[3]);
        return true;
    case SYS_pwritev2:
        *ret_result = pwritev2(fd, PARTS(a[1]), (int)a[2], a[3], (int)a[5]);
        return true;
    case SYS_ftruncate:
        *ret_result = lq_faults_truncate(fd, a[1]);
        return true;
    case SYS_fallocate:
        *ret_result = lq_faults_allocate(fd, (int)a[1], a[2], a[3]);
        return true;
    case SYS_fsync:
        *ret_result = lq_faults_sync(fd, false);
        return true;
    case SYS_fdatasync:
        *ret_result = lq_faults_sync(fd, true);
        return true;
    default:
        return false;
    }
}

/* Calls on names; false: another call. */
static bool sort_by_name(long number, const long a[6], long *ret_result)
{
    switch (number) {
    case SYS_openat:
        *ret_result = lq_faults_open((int)a[0], PATH(a[1]), (int)a[2], (mode_t)a[3]);
        return true;
    case SYS_unlinkat:
        *ret_result = lq_faults_unlink((int)a[0], PATH(a[1]), (int)a[2]);
        return true;
    case SYS_mkdirat:
        *ret_result = lq_faults_mkdir((int)a[0], PATH(a[1]), (mode_t)a[2]);
        return true;
    case SYS_renameat2:
        *ret_result = renameat2((int)a[0], PATH(a[1]), (int)a[2], PATH(a[3]), (unsigned)a[4]);
        return true;
    case SYS_linkat:
        *ret_result = linkat((int)a[0], PATH(a[1]), (int)a[2], PATH(a[3]), (int)a[4]);
        return true;
    default:
        return false;
    }
}

/* Queues of work for the kernel can hide any write. */
static void refuse_call(long number)
{
    bool is_queue = number == SYS_io_uring_setup || number == SYS_io_setup || number == SYS_openat2;
    if (is_queue && lq_faults_active()) {
        lq_faults_refuse("system call %ld is not followed", number);
    }
}

long syscall(long number, ...)
{
    long a[6];
    long result = 0;
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(list, long);
    }
    va_end(list);
    if (sort_by_fd(number, a, &result) || sort_by_name(number, a, &result)) {
        return result;
    }
    refuse_call(number);
    return lq_faults_raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
