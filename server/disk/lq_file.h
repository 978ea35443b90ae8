/* Files, done whole: short transfers and interruptions end here. Private to server/disk.
 *
 * Each function that can fail returns 0 or the errno value; what it means for the node is for the
 * caller to say. */
#ifndef LQ_FILE_H
#define LQ_FILE_H

#include "lq_buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The system calls that a disk can fail. Tests put others in their place, before any thread
 * runs. */
struct lq_file_calls {
    ssize_t (*pread)(int fd, void *bytes, size_t len, off_t offset);
    ssize_t (*pwrite)(int fd, const void *bytes, size_t len, off_t offset);
    ssize_t (*pwritev2)(int fd, const struct iovec *pieces, int n, off_t offset, int flags);
    int (*fallocate)(int fd, int mode, off_t offset, off_t len);
    int (*fsync)(int fd);
    int (*fdatasync)(int fd);
    int (*renameat)(int from_fd, const char *from, int to_fd, const char *to);
    int (*unlinkat)(int fd, const char *name, int flags);
};
extern struct lq_file_calls lq_file_calls;

/* Whether the error says that there is no room left, which is the one that can pass. */
bool lq_file_is_no_room(int error);

/* Opens `name` in the directory `dir_fd`; `ret_fd` is the caller's. `flags` as for open(2); never
 * follows a link, never becomes a child's. Made with mode 0600. */
int lq_file_open(int dir_fd, const char *name, int flags, int *ret_fd);

/* Reads up to `len` bytes; `ret_len` is less only where the file ends. */
int lq_file_read(int fd, uint8_t *bytes, size_t len, uint64_t offset, size_t *ret_len);

/* Reads the whole of a regular file into `bytes`, which is emptied first and keeps its memory;
 * EFBIG above `max` bytes, EINVAL for what is no file. */
int lq_file_read_all(int fd, uint64_t max, struct lq_buffer *bytes);

/* Writes all of it. */
int lq_file_write(int fd, const uint8_t *bytes, size_t len, uint64_t offset);

/* The same, and it is durable, as is whatever is needed to read it back. `*is_plain`: the kernel or
 * file system can't do both in one call; found out by the first call, which begins with false. */
int lq_file_write_durable(int fd, const uint8_t *bytes, size_t len, uint64_t offset,
                          bool *is_plain);

/* Reserves `len` bytes from the beginning, where the file system can do that. */
int lq_file_reserve(int fd, uint64_t len);

/* Content and all else of a file or directory; content and size only. */
int lq_file_sync(int fd);
int lq_file_sync_data(int fd);

/* Within one directory, which is not made durable. */
int lq_file_rename(int dir_fd, const char *from, const char *to);

/* 0 also when it was not there. */
int lq_file_remove(int dir_fd, const char *name);

/* Closes a descriptor unless it is -1, and makes it -1. What had to be durable was synced before,
 * so the result does not matter. */
void lq_file_close(int *fd);

#endif
