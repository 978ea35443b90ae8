#include "lq_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct lq_file_calls lq_file_calls = {
    .pread = pread,
    .pwrite = pwrite,
    .pwritev2 = pwritev2,
    .fallocate = fallocate,
    .fsync = fsync,
    .fdatasync = fdatasync,
    .renameat = renameat,
    .unlinkat = unlinkat,
};

bool lq_file_is_no_room(int error)
{
    return error == ENOSPC || error == EDQUOT;
}

int lq_file_open(int dir_fd, const char *name, int flags, int *ret_fd)
{
    int fd;
    do {
        fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        return errno;
    }
    *ret_fd = fd;
    return 0;
}

int lq_file_read(int fd, uint8_t *bytes, size_t len, uint64_t offset, size_t *ret_len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = lq_file_calls.pread(fd, bytes + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno != EINTR) {
            return errno;
        }
        if (n == 0) {
            break;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    *ret_len = done;
    return 0;
}

int lq_file_read_all(int fd, uint64_t max, struct lq_buffer *bytes)
{
    struct stat status;
    size_t len;
    int error;
    bytes->len = 0;
    if (fstat(fd, &status) != 0) {
        return errno;
    }
    if (!S_ISREG(status.st_mode)) {
        return EINVAL;
    }
    if ((uint64_t)status.st_size > max) {
        return EFBIG;
    }
    len = (size_t)status.st_size;
    error = lq_file_read(fd, lq_buffer_extend(bytes, len), len, 0, &len);
    bytes->len = error == 0 ? len : 0;
    return error;
}

int lq_file_write(int fd, const uint8_t *bytes, size_t len, uint64_t offset)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = lq_file_calls.pwrite(fd, bytes + done, len - done, (off_t)(offset + done));
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return n == 0 ? EIO : errno;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int write_and_sync(int fd, const uint8_t *bytes, size_t len, uint64_t offset)
{
    int error = lq_file_write(fd, bytes, len, offset);
    return error != 0 ? error : lq_file_sync_data(fd);
}

int lq_file_write_durable(int fd, const uint8_t *bytes, size_t len, uint64_t offset, bool *is_plain)
{
    size_t done = 0;
    while (done < len && !*is_plain) {
        /* iovec has no room for const; nothing is written through it */
        struct iovec piece = {.iov_base = (void *)(uintptr_t)(bytes + done), .iov_len = len - done};
        ssize_t n = lq_file_calls.pwritev2(fd, &piece, 1, (off_t)(offset + done), RWF_DSYNC);
        if (n < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
            *is_plain = true;
        } else if (n == 0 || (n < 0 && errno != EINTR)) {
            return n == 0 ? EIO : errno;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return done == len ? 0 : write_and_sync(fd, bytes + done, len - done, offset + done);
}

int lq_file_reserve(int fd, uint64_t len)
{
    int result;
    do {
        result = lq_file_calls.fallocate(fd, 0, 0, (off_t)len);
    } while (result < 0 && errno == EINTR);
    return result == 0 || errno == EOPNOTSUPP || errno == ENOSYS ? 0 : errno;
}

/* A sync that was interrupted has not failed: what it has not done, the next one does. */
int lq_file_sync(int fd)
{
    int result;
    do {
        result = lq_file_calls.fsync(fd);
    } while (result < 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

int lq_file_sync_data(int fd)
{
    int result;
    do {
        result = lq_file_calls.fdatasync(fd);
    } while (result < 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

int lq_file_rename(int dir_fd, const char *from, const char *to)
{
    return lq_file_calls.renameat(dir_fd, from, dir_fd, to) == 0 ? 0 : errno;
}

int lq_file_remove(int dir_fd, const char *name)
{
    return lq_file_calls.unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT ? 0 : errno;
}

void lq_file_close(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}
