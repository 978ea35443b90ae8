/* What the tests of the data directory share: a directory of their own below TMPDIR, gone
 * afterwards, and its files as bytes. */
#ifndef TEST_DATADIR_RIG_H
#define TEST_DATADIR_RIG_H

#include "lq_datadir.h"
#include "lq_file.h"
#include "test_journal_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_LEN 200

static char root[PATH_LEN - 100]; /* of this test */
static char home[PATH_LEN];       /* the data directory in it, not made yet */
static struct lq_datadir dir;
static const uint8_t hash_secret[16] = {4, 5, 6};

static inline void root_init(void)
{
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(root, sizeof root, "%s/loquet-XXXXXX", tmp == NULL ? "/tmp" : tmp);
    ck_assert_ptr_nonnull(mkdtemp(root));
    (void)snprintf(home, sizeof home, "%s/data", root);
}

/* Removes a directory with its files, and with those in directories of it. */
static inline void remove_tree(const char *path)
{
    char below[2 * PATH_LEN];
    DIR *stream = opendir(path);
    const struct dirent *entry;
    while (stream != NULL && (entry = readdir(stream)) != NULL) {
        (void)snprintf(below, sizeof below, "%.150s/%.200s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlink(below) != 0) {
            remove_tree(below);
        }
    }
    if (stream != NULL) {
        (void)closedir(stream);
    }
    (void)rmdir(path);
}

static inline void root_done(void)
{
    remove_tree(root);
}

/* ---- Files of the data directory. */

static inline const char *path_of(const char *name)
{
    static char path[2 * PATH_LEN];
    (void)snprintf(path, sizeof path, "%s/%.150s", home, name);
    return path;
}

static inline bool exists(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

static inline void write_file(const char *name, const void *bytes, size_t len)
{
    FILE *file = fopen(path_of(name), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, len, file), len);
    ck_assert_int_eq(fclose(file), 0);
}

static inline struct lq_buffer read_file(const char *name)
{
    struct lq_buffer bytes = {0};
    int fd = open(path_of(name), O_RDONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(lq_file_read_all(fd, 1 << 30, &bytes), 0);
    (void)close(fd);
    return bytes;
}

static inline const char *segment_of(uint64_t number)
{
    static char name[LQ_DATADIR_NAME];
    lq_datadir_segment_name(number, name);
    return name;
}

static inline const char *snapshot_of(uint64_t index, uint64_t term)
{
    static char name[LQ_DATADIR_NAME];
    lq_datadir_snapshot_name(index, term, name);
    return name;
}

/* Writes `len` bytes over those at `offset`. */
static inline void patch(const char *name, uint64_t offset, const void *bytes, size_t len)
{
    int fd = open(path_of(name), O_WRONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, bytes, len, (off_t)offset), (ssize_t)len);
    (void)close(fd);
}

static inline void flip(const char *name, uint64_t offset)
{
    struct lq_buffer bytes = read_file(name);
    ck_assert_uint_lt(offset, bytes.len);
    bytes.bytes[offset] ^= 4;
    patch(name, offset, bytes.bytes + offset, 1);
    lq_buffer_done(&bytes);
}

/* ---- The directory. */

static inline void open_home(void)
{
    if (!lq_datadir_open(&dir, home)) {
        ck_abort_msg("%s", dir.text);
    }
}

static inline void make_home(void)
{
    open_home();
    ck_assert(lq_datadir_identify(&dir, CLUSTER, NODE));
}

/* Writes the segments of a journal in memory. */
static inline void write_segments(const struct files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        write_file(segment_of(files->names[i]), files->bytes[i], files->lens[i]);
    }
}

static inline struct lq_recovery *recover_home(enum lq_recovery_verdict verdict)
{
    enum lq_recovery_verdict found;
    struct lq_recovery *recovery = lq_datadir_recover(&dir, hash_secret, &found);
    if (recovery == NULL || found != verdict) {
        ck_abort_msg("verdict %d, not %d: %s", recovery == NULL ? -1 : (int)found, (int)verdict,
                     dir.text);
    }
    return recovery;
}

static inline void says(const char *text, const char *words)
{
    if (strstr(text, words) == NULL) {
        ck_abort_msg("no \"%s\" in: %s", words, text);
    }
}

#endif
