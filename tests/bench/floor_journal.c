#include "floor_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum {
    FILE_BYTES = 16 << 20, /* as much as 1024 connections can send in one turn */
    FILL_BYTES = 1 << 16,
};

static int write_all(int fd, const uint8_t *bytes, size_t len, off_t at)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, bytes, len, at);
        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
            at += n;
        }
    }
    return 0;
}

int lq_bench_floor_journal_make(const char *path)
{
    static const uint8_t zeros[FILL_BYTES];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    for (off_t at = 0; at < FILE_BYTES; at += FILL_BYTES) {
        if (write_all(fd, zeros, FILL_BYTES, at) != 0) {
            close(fd);
            return -1;
        }
    }
    if (fsync(fd) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int lq_bench_floor_journal_append(struct lq_bench_floor_journal *journal, const uint8_t *bytes,
                                  size_t len)
{
    if (len > FILE_BYTES) {
        errno = EFBIG;
        return -1;
    }
    if ((off_t)len > FILE_BYTES - journal->at)
        journal->at = 0;
    if (write_all(journal->fd, bytes, len, journal->at) != 0)
        return -1;
    journal->at += (off_t)len;
    return fdatasync(journal->fd);
}
