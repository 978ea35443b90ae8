/* Recover and restore: the old state is read, lq_rebirth makes the bytes of the new one, and they
 * are written into a directory beside the wanted one, durable, which gets its name last. Whatever
 * fails on the way, that directory is removed again, and nothing was done. */
#include "lq_offline.h"

#include "lq_address.h"
#include "lq_check.h"
#include "lq_datadir.h"
#include "lq_datadir_impl.h"
#include "lq_file.h"
#include "lq_offline_impl.h"
#include "lq_random.h"
#include "lq_rebirth.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* The longest lease and 1 % for clocks that differ, in s (docs/decisions/0013-rebirth.md). */
#define WAIT_S 258

static bool is_valid(const struct lq_offline_options *options, FILE *out)
{
    struct lq_address address;
    if (options->node == 0) {
        (void)fputs("the node needs an id that is not 0\n", out);
        return false;
    }
    if (options->address == NULL || !lq_address_parse(options->address, &address)) {
        (void)fputs("the node needs an address of the form HOST:PORT, where the other nodes of the "
                    "new cluster will reach it\n",
                    out);
        return false;
    }
    if (options->segment_bytes < LQ_JOURNAL_SEGMENT_MIN ||
        options->segment_bytes > LQ_JOURNAL_SEGMENT_MAX ||
        options->segment_bytes % LQ_SECTOR != 0) {
        (void)fputs("a journal segment must be a multiple of 512 bytes, from 4 KiB to 1 GiB\n",
                    out);
        return false;
    }
    return true;
}

static struct lq_rebirth_options rebirth_options(const struct lq_offline_options *options)
{
    struct lq_rebirth_options ret = {.cluster = lq_random_id(),
                                     .node = options->node,
                                     .address = options->address,
                                     .segment_bytes = options->segment_bytes,
                                     .salt = lq_random_id()};
    lq_random_fill(ret.secret, sizeof ret.secret);
    return ret;
}

/* ---- What is said. */

static void say_start(const struct lq_offline_options *options, uint64_t cluster, FILE *out)
{
    (void)fprintf(out,
                  "%d. Only then start node %" PRIu32 " with the data directory %s, which belongs "
                  "to the user it runs as, with the peer address %s and without initial members: "
                  "the directory says who it is. The id of the new cluster is %016" PRIx64 ".\n"
                  "%d. Empty the data directories of the other nodes, and add each of them to the "
                  "new cluster under an id that was never used.\n",
                  3, options->node, options->to, options->address, cluster, 4);
}

static void say_stop(FILE *out)
{
    (void)fprintf(out,
                  "What to do next:\n"
                  "1. Stop all nodes of the old cluster, and see that none of them starts again: "
                  "the two clusters would give out the same locks.\n"
                  "2. From the moment when the last one stopped, wait %d s, the longest lease: "
                  "until then a client may hold a lock that the new cluster does not know of.\n",
                  WAIT_S);
}

static void say_recovered(const struct lq_offline_options *options,
                          const struct lq_rebirth *rebirth, uint64_t cluster, FILE *out)
{
    (void)fprintf(out, "made %s out of %s: %s\n", options->to, options->from, rebirth->text);
    (void)fprintf(out,
                  "Is it the right survivor? Of all whose disks can be read, take the one whose "
                  "last entry has the highest term, of equal ones the highest index: here term "
                  "%" PRIu64 ", index %" PRIu64 "; loquetd --inspect tells it of the others. If "
                  "another is ahead, remove %s and recover from that one. Never start two.\n",
                  rebirth->last_term, rebirth->last_index, options->to);
    say_stop(out);
    say_start(options, cluster, out);
}

static void say_restored(const struct lq_offline_options *options, const struct lq_rebirth *rebirth,
                         uint64_t cluster, FILE *out)
{
    (void)fprintf(out, "made %s out of %s: %s\n", options->to, options->from, rebirth->text);
    say_stop(out);
    say_start(options, cluster, out);
}

/* ---- Recover. */

/* The old directory is held while it is read: no node runs on it now. */
static struct lq_recovery *read_survivor(const char *path, FILE *out)
{
    struct lq_recovery *recovery = NULL;
    struct lq_datadir dir;
    enum lq_recovery_verdict verdict;
    uint8_t secret[16];
    int hold_fd = -1;
    lq_random_fill(secret, sizeof secret);
    if (lq_datadir_open_read_only(&dir, path)) {
        if (lq_datadir_hold(&dir, &hold_fd)) {
            recovery = lq_datadir_recover(&dir, secret, &verdict);
        }
        lq_file_close(&hold_fd);
        lq_datadir_close(&dir);
    }
    if (recovery == NULL) {
        (void)fprintf(out, "%s\n", dir.text);
    }
    return recovery;
}

int lq_offline_recover(const struct lq_offline_options *options, FILE *out)
{
    struct lq_rebirth_options wanted = rebirth_options(options);
    struct lq_rebirth rebirth = {0};
    struct lq_recovery *recovery;
    bool is_done;
    if (!is_valid(options, out)) {
        return 1;
    }
    recovery = read_survivor(options->from, out);
    if (recovery == NULL) {
        return 1;
    }
    is_done = lq_rebirth_recover(recovery, &wanted, &rebirth);
    if (!is_done) {
        (void)fprintf(out, "%s: %s\n", options->from, rebirth.text);
    }
    is_done = is_done && lq_offline_write(options->to, &wanted, &rebirth, out);
    if (is_done) {
        say_recovered(options, &rebirth, wanted.cluster, out);
    }
    lq_rebirth_done(&rebirth);
    lq_recovery_free(recovery);
    return is_done ? 0 : 1;
}

/* ---- Restore. */

static bool read_backup(const char *path, struct lq_buffer *bytes, FILE *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int error = fd < 0 ? errno : lq_file_read_all(fd, LQ_DATADIR_SNAPSHOT_MAX, bytes);
    lq_file_close(&fd);
    if (error != 0) {
        (void)fprintf(out, "%s: can't read the snapshot file: %s\n", path, strerror(error));
    }
    return error == 0;
}

int lq_offline_restore(const struct lq_offline_options *options, FILE *out)
{
    struct lq_rebirth_options wanted = rebirth_options(options);
    struct lq_rebirth rebirth = {0};
    struct lq_buffer bytes = {0};
    bool is_done = is_valid(options, out) && read_backup(options->from, &bytes, out);
    if (is_done && !lq_rebirth_restore(bytes.bytes, bytes.len, &wanted, &rebirth)) {
        (void)fprintf(out, "%s: %s\n", options->from, rebirth.text);
        is_done = false;
    }
    lq_buffer_done(&bytes);
    is_done = is_done && lq_offline_write(options->to, &wanted, &rebirth, out);
    if (is_done) {
        say_restored(options, &rebirth, wanted.cluster, out);
    }
    lq_rebirth_done(&rebirth);
    return is_done ? 0 : 1;
}
