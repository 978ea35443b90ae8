/* The file identity: three lines of text, of exactly one form.
 *
 *   loquet-data 1
 *   cluster 0123456789abcdef
 *   node 1
 */
#include "lq_check.h"
#include "lq_datadir.h"
#include "lq_datadir_impl.h"
#include "lq_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDENTITY_TEXT 128 /* above the longest identity, with its NUL */
#define MAGIC         "loquet-data "

static void format(char ret_text[IDENTITY_TEXT], uint64_t cluster, uint32_t node)
{
    (void)snprintf(ret_text, IDENTITY_TEXT, MAGIC "%d\ncluster %016" PRIx64 "\nnode %" PRIu32 "\n",
                   LQ_DATADIR_VERSION, cluster, node);
}

/* ---- Reading. */

/* The version in the first line, or 0. */
static unsigned long version_of(const char *text)
{
    char *end;
    unsigned long version;
    if (strncmp(text, MAGIC, strlen(MAGIC)) != 0 || text[strlen(MAGIC)] < '1' ||
        text[strlen(MAGIC)] > '9') {
        return 0;
    }
    version = strtoul(text + strlen(MAGIC), &end, 10);
    return *end == '\n' ? version : 0;
}

static bool parse(struct lq_datadir *dir, const char *text)
{
    char again[IDENTITY_TEXT];
    const char *cluster = strstr(text, "\ncluster "), *node = strstr(text, "\nnode ");
    unsigned long version = version_of(text), long_node;
    if (version > LQ_DATADIR_VERSION) {
        return lq_datadir_fail(dir,
                               "%s: is of layout version %lu, this program knows none above %d: "
                               "start a newer version of Loquet on it",
                               dir->path, version, LQ_DATADIR_VERSION);
    }
    dir->cluster = cluster == NULL ? 0 : strtoull(cluster + strlen("\ncluster "), NULL, 16);
    long_node = node == NULL ? 0 : strtoul(node + strlen("\nnode "), NULL, 10);
    dir->node = long_node > UINT32_MAX ? 0 : (uint32_t)long_node;
    /* What was understood, written again, must be what stands there. */
    format(again, dir->cluster, dir->node);
    dir->has_identity = dir->cluster != 0 && dir->node != 0 && strcmp(text, again) == 0;
    return dir->has_identity ||
           lq_datadir_fail(dir,
                           "%s/" LQ_DATADIR_IDENTITY ": is damaged. Put back the right one, three "
                           "lines: " MAGIC "%d, cluster and 16 hexadecimal digits, node and its "
                           "id; or empty the directory and add the node again under a new id",
                           dir->path, LQ_DATADIR_VERSION);
}

bool lq_datadir_read_identity(struct lq_datadir *dir)
{
    char text[IDENTITY_TEXT] = "";
    size_t len = 0;
    int fd = -1;
    int error = lq_file_open(dir->fd, LQ_DATADIR_IDENTITY, O_RDONLY, &fd);
    if (error == ENOENT) {
        return true;
    }
    if (error == 0) {
        error = lq_file_read(fd, (uint8_t *)text, sizeof text - 1, 0, &len);
        lq_file_close(&fd);
    }
    if (error != 0) {
        return lq_datadir_fail_file(dir, LQ_DATADIR_IDENTITY, "read", error);
    }
    if (strlen(text) != len) {
        text[0] = '\0'; /* a NUL: no text of ours */
    }
    return parse(dir, text);
}

/* ---- Writing. */

static int write_text(const struct lq_datadir *dir, const char *text)
{
    int fd = -1;
    int error = lq_file_open(dir->fd, LQ_DATADIR_IDENTITY LQ_DATADIR_TMP,
                             O_WRONLY | O_CREAT | O_TRUNC, &fd);
    if (error != 0) {
        return error;
    }
    error = lq_file_write(fd, (const uint8_t *)text, strlen(text), 0);
    if (error == 0) {
        error = lq_file_sync(fd);
    }
    lq_file_close(&fd);
    return error;
}

bool lq_datadir_identify(struct lq_datadir *dir, uint64_t cluster, uint32_t node)
{
    char text[IDENTITY_TEXT];
    int error;
    LQ_CHECK(!dir->has_identity && cluster != 0 && node != 0);
    format(text, cluster, node);
    error = write_text(dir, text);
    if (error == 0) {
        error = lq_file_rename(dir->fd, LQ_DATADIR_IDENTITY LQ_DATADIR_TMP, LQ_DATADIR_IDENTITY);
    }
    if (error == 0) {
        error = lq_file_sync(dir->fd);
    }
    if (error != 0) {
        return lq_datadir_fail_file(dir, LQ_DATADIR_IDENTITY, "write", error);
    }
    dir->has_identity = true;
    dir->cluster = cluster;
    dir->node = node;
    return true;
}
