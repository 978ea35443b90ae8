#include "lq_datadir.h"
#include "lq_datadir_impl.h"
#include "lq_file.h"
#include "lq_mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENT  "segment-"
#define SNAPSHOT "snapshot-"
#define SPARE    "spare-"
#define DIGITS   20 /* of a number in a name */

/* ---- Names. */

void lq_datadir_segment_name(uint64_t number, char ret_name[LQ_DATADIR_NAME])
{
    (void)snprintf(ret_name, LQ_DATADIR_NAME, SEGMENT "%020" PRIu64, number);
}

void lq_datadir_snapshot_name(uint64_t index, uint64_t term, char ret_name[LQ_DATADIR_NAME])
{
    (void)snprintf(ret_name, LQ_DATADIR_NAME, SNAPSHOT "%020" PRIu64 "-%020" PRIu64, index, term);
}

static bool begins_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_temporary(const char *name)
{
    size_t len = strlen(name), tmp_len = strlen(LQ_DATADIR_TMP);
    return len > tmp_len && strcmp(name + len - tmp_len, LQ_DATADIR_TMP) == 0;
}

/* The number whose 20 digits begin there; whatever else stands there shows when the name is written
 * again. */
static uint64_t number_at(const char *name, size_t at)
{
    return strlen(name) > at ? strtoull(name + at, NULL, 10) : 0;
}

/* Whether the name is the one that its own numbers have. */
static bool is_exact(const struct lq_datadir_file *file)
{
    char name[LQ_DATADIR_NAME];
    if (file->kind == LQ_DATADIR_IS_SEGMENT) {
        lq_datadir_segment_name(file->number, name);
    } else {
        lq_datadir_snapshot_name(file->number, file->term, name);
    }
    return file->number != 0 && strcmp(name, file->name) == 0;
}

/* Sets kind and numbers by the name. */
static void classify(struct lq_datadir_file *file)
{
    const char *name = file->name;
    bool is_segment = begins_with(name, SEGMENT), is_snapshot = begins_with(name, SNAPSHOT);
    if (is_temporary(name)) {
        file->kind = is_segment || is_snapshot || begins_with(name, SPARE) ||
                             strcmp(name, LQ_DATADIR_IDENTITY LQ_DATADIR_TMP) == 0
                         ? LQ_DATADIR_IS_UNFINISHED
                         : LQ_DATADIR_IS_FOREIGN;
    } else if (is_segment || is_snapshot) {
        file->kind = is_segment ? LQ_DATADIR_IS_SEGMENT : LQ_DATADIR_IS_SNAPSHOT;
        file->number = number_at(name, is_segment ? strlen(SEGMENT) : strlen(SNAPSHOT));
        file->term = is_segment ? 0 : number_at(name, strlen(SNAPSHOT) + DIGITS + 1);
        file->kind = is_exact(file) ? file->kind : LQ_DATADIR_IS_ODD;
    } else if (strcmp(name, LQ_DATADIR_LOCK) == 0 || strcmp(name, LQ_DATADIR_IDENTITY) == 0) {
        file->kind = LQ_DATADIR_IS_OWN;
    } else {
        file->kind = LQ_DATADIR_IS_FOREIGN;
    }
}

/* ---- Listing. */

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare(const void *a, const void *b)
{
    const struct lq_datadir_file *left = a, *right = b;
    int order;
    if (left->kind != right->kind) {
        return compare_numbers(left->kind, right->kind);
    }
    if (left->kind == LQ_DATADIR_IS_SEGMENT) {
        return compare_numbers(left->number, right->number);
    }
    order = compare_numbers(right->number, left->number);
    order = order != 0 ? order : compare_numbers(right->term, left->term);
    return order != 0 ? order : strcmp(left->name, right->name);
}

/* What a file system has by itself, or every directory has. */
static bool is_nothing(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "lost+found") == 0;
}

static void add(struct lq_datadir *dir, struct lq_datadir_files *files, const char *name)
{
    struct lq_datadir_file *file;
    struct stat status;
    if (files->n == files->cap) {
        files->cap = files->cap == 0 ? 16 : 2 * files->cap;
        files->items = lq_realloc(files->items, files->cap, sizeof *files->items);
    }
    file = &files->items[files->n++];
    *file = (struct lq_datadir_file){0};
    memcpy(file->name, name, strnlen(name, sizeof file->name - 1));
    classify(file);
    files->n_segments += file->kind == LQ_DATADIR_IS_SEGMENT;
    files->n_snapshots += file->kind == LQ_DATADIR_IS_SNAPSHOT;
    if (fstatat(dir->fd, file->name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_size > 0) {
        file->bytes = (uint64_t)status.st_size;
    }
}

bool lq_datadir_list(struct lq_datadir *dir, struct lq_datadir_files *ret)
{
    const struct dirent *entry;
    DIR *stream = NULL;
    int fd = -1, error = lq_file_open(dir->fd, ".", O_RDONLY | O_DIRECTORY, &fd);
    *ret = (struct lq_datadir_files){0};
    if (error == 0) {
        stream = fdopendir(fd);
        error = stream == NULL ? errno : 0;
    }
    if (stream == NULL) {
        lq_file_close(&fd);
        return lq_datadir_fail_file(dir, "", "list", error);
    }
    errno = 0;
    while ((entry = readdir(stream)) != NULL) {
        if (!is_nothing(entry->d_name)) {
            add(dir, ret, entry->d_name);
        }
        errno = 0;
    }
    error = errno;
    (void)closedir(stream);
    if (error != 0) {
        return lq_datadir_fail_file(dir, "", "list", error);
    }
    if (ret->n > 0) {
        qsort(ret->items, ret->n, sizeof *ret->items, compare);
    }
    return true;
}

void lq_datadir_files_done(struct lq_datadir_files *files)
{
    lq_free(files->items);
    *files = (struct lq_datadir_files){0};
}

const struct lq_datadir_file *lq_datadir_files_find(const struct lq_datadir_files *files,
                                                    enum lq_datadir_kind kind)
{
    for (size_t i = 0; i < files->n; i++) {
        if (files->items[i].kind == kind) {
            return &files->items[i];
        }
    }
    return NULL;
}

/* ---- Reading one. */

/* After a sync that failed the cache shows what is not on the disk, and the next sync says nothing
 * about it. So what is clean now is dropped, and what is read is what the disk has. */
static int make_durable(int fd, enum lq_datadir_how how)
{
    int error = how == LQ_DATADIR_LOOK ? 0 : lq_file_sync(fd);
    if (error == 0 && how == LQ_DATADIR_DISTRUST) {
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    return error;
}

bool lq_datadir_read(struct lq_datadir *dir, const char *name, uint64_t max,
                     enum lq_datadir_how how, struct lq_buffer *bytes)
{
    int fd = -1;
    int error = lq_file_open(dir->fd, name, O_RDONLY, &fd);
    const char *what = "open";
    bytes->len = 0;
    if (error == 0) {
        what = "sync";
        error = make_durable(fd, how);
    }
    if (error == 0) {
        what = "read";
        error = lq_file_read_all(fd, max, bytes);
    }
    lq_file_close(&fd);
    return error == 0 || lq_datadir_fail_file(dir, name, what, error);
}
