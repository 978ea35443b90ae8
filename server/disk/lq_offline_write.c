/* The new directory is made beside the wanted one, as PATH.XXXXXX, and takes its name when all of
 * it is durable. The rename fails, and so does nothing, when there is something in the way. */
#include "lq_datadir.h"
#include "lq_datadir_impl.h"
#include "lq_file.h"
#include "lq_offline_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool write_file(struct lq_datadir *dir, const char *name, const struct lq_buffer *bytes)
{
    int fd = -1;
    int error = lq_file_open(dir->fd, name, O_WRONLY | O_CREAT | O_EXCL, &fd);
    if (error == 0) {
        error = lq_file_write(fd, bytes->bytes, bytes->len, 0);
    }
    if (error == 0) {
        error = lq_file_sync(fd);
    }
    lq_file_close(&fd);
    return error == 0 || lq_datadir_fail_file(dir, name, "write", error);
}

static bool fill(struct lq_datadir *dir, const struct lq_rebirth_options *options,
                 const struct lq_rebirth *rebirth)
{
    char snapshot[LQ_DATADIR_NAME], segment[LQ_DATADIR_NAME];
    int error;
    lq_datadir_snapshot_name(rebirth->index, rebirth->term, snapshot);
    lq_datadir_segment_name(1, segment);
    if (!lq_datadir_identify(dir, options->cluster, options->node) ||
        !write_file(dir, snapshot, &rebirth->snapshot) ||
        !write_file(dir, segment, &rebirth->segment)) {
        return false;
    }
    error = lq_file_sync(dir->fd);
    return error == 0 || lq_datadir_fail_file(dir, "", "sync", error);
}

/* The directory gets its name, and the one above it is durable. */
static bool give_name(struct lq_datadir *dir, const char *to)
{
    int fd = -1;
    int error = rename(dir->path, to) == 0 ? 0 : errno;
    if (error == ENOTEMPTY || error == EEXIST || error == ENOTDIR) {
        return lq_datadir_fail(dir,
                               "%s: is there already, and not an empty directory; give a path "
                               "that does not exist",
                               to);
    }
    if (error == EBUSY || error == EXDEV) {
        return lq_datadir_fail(dir, "%s: a file system is mounted there; give a path inside of it",
                               to);
    }
    if (error == 0) {
        (void)snprintf(dir->path, sizeof dir->path, "%s", to); /* shorter than the one before */
        error = lq_file_open(dir->fd, "..", O_RDONLY | O_DIRECTORY, &fd);
    }
    if (error == 0) {
        error = lq_file_sync(fd);
        lq_file_close(&fd);
    }
    return error == 0 || lq_datadir_fail(dir, "%s: can't give the new directory its name: %s", to,
                                         strerror(error));
}

static void remove_all(struct lq_datadir *dir)
{
    struct lq_datadir_files files;
    char text[LQ_DATADIR_TEXT]; /* what failed before is what counts */
    memcpy(text, dir->text, sizeof text);
    if (lq_datadir_list(dir, &files)) {
        for (size_t i = 0; i < files.n; i++) {
            (void)lq_file_remove(dir->fd, files.items[i].name);
        }
    }
    lq_datadir_files_done(&files);
    (void)rmdir(dir->path);
    memcpy(dir->text, text, sizeof text);
}

/* `to` without slashes at its end, and room for a suffix. */
static bool beside(const char *to, size_t room, char *ret_path)
{
    size_t len = strlen(to);
    while (len > 1 && to[len - 1] == '/') {
        len--;
    }
    if (len == 0 || len + sizeof ".XXXXXX" > room) {
        return false;
    }
    memcpy(ret_path, to, len);
    memcpy(ret_path + len, ".XXXXXX", sizeof ".XXXXXX");
    return true;
}

bool lq_offline_write(const char *to, const struct lq_rebirth_options *options,
                      const struct lq_rebirth *rebirth, FILE *out)
{
    struct lq_datadir dir;
    char path[sizeof dir.path];
    bool is_done;
    if (!beside(to, sizeof path, path)) {
        (void)fprintf(out, "the path of the new directory must have 1 to %zu bytes\n",
                      sizeof path - sizeof ".XXXXXX");
        return false;
    }
    if (mkdtemp(path) == NULL) {
        (void)fprintf(out, "%s: can't make a directory beside it: %s\n", to, strerror(errno));
        return false;
    }
    is_done = lq_datadir_open(&dir, path);
    if (is_done) {
        is_done = fill(&dir, options, rebirth) && give_name(&dir, to);
        if (!is_done) {
            remove_all(&dir);
        }
        lq_datadir_close(&dir);
    } else {
        (void)rmdir(path);
    }
    if (!is_done) {
        (void)fprintf(out, "%s\n", dir.text);
    }
    return is_done;
}
