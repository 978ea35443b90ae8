/* What the files of server/disk share about the data directory. Nobody else includes this. */
#ifndef LQ_DATADIR_IMPL_H
#define LQ_DATADIR_IMPL_H

#include "lq_buffer.h"
#include "lq_datadir.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LQ_DATADIR_LOCK     "lock"
#define LQ_DATADIR_IDENTITY "identity"
#define LQ_DATADIR_TMP      ".tmp"

/* The largest snapshot file that is read: more than the caps of a table allow by far. */
#define LQ_DATADIR_SNAPSHOT_MAX (UINT64_C(64) << 30)

/* Writes the text of a failure and returns false. */
__attribute__((format(printf, 2, 3))) bool lq_datadir_fail(struct lq_datadir *dir,
                                                           const char *format, ...);

/* The same for a system call: what could not be done with which file, the error, what to do. */
bool lq_datadir_fail_file(struct lq_datadir *dir, const char *name, const char *what, int error);

/* ---- lq_datadir_files.c: what there is. */

enum lq_datadir_kind {
    LQ_DATADIR_IS_SEGMENT,
    LQ_DATADIR_IS_SNAPSHOT,
    LQ_DATADIR_IS_UNFINISHED, /* a temporary file of ours */
    LQ_DATADIR_IS_OWN,        /* lock, identity */
    LQ_DATADIR_IS_ODD,        /* begins like a file of ours, but no node gives such a name */
    LQ_DATADIR_IS_FOREIGN,
};

struct lq_datadir_file {
    enum lq_datadir_kind kind;
    uint64_t number, term; /* of a segment; index and term of a snapshot */
    uint64_t bytes;        /* size when it was listed */
    char name[LQ_DATADIR_NAME];
};

/* Sorted: segments by number, then snapshots, newest first, then the rest. */
struct lq_datadir_files {
    struct lq_datadir_file *items;
    size_t n, cap;
    size_t n_segments, n_snapshots; /* the first of all, and those behind them */
};

/* Lists the directory; foreign files too, but their names may be cut. False: see the text. Either
 * way `ret` is freed with lq_datadir_files_done. */
bool lq_datadir_list(struct lq_datadir *dir, struct lq_datadir_files *ret);
void lq_datadir_files_done(struct lq_datadir_files *files);

/* The first file of that kind, or NULL. */
const struct lq_datadir_file *lq_datadir_files_find(const struct lq_datadir_files *files,
                                                    enum lq_datadir_kind kind);

enum lq_datadir_how {
    LQ_DATADIR_LOOK,    /* changes nothing */
    LQ_DATADIR_SYNC,    /* makes the file durable first */
    LQ_DATADIR_DISTRUST /* and reads it past the page cache, which may hold what never reached the
                           disk */
};

/* Reads a file of at most `max` bytes as a whole into `bytes`, which keeps its memory from file to
 * file. False: see the text. */
bool lq_datadir_read(struct lq_datadir *dir, const char *name, uint64_t max,
                     enum lq_datadir_how how, struct lq_buffer *bytes);

/* ---- lq_datadir_identity.c. */

/* Fills the ids if there is an identity; false: it is none that this program can read. */
bool lq_datadir_read_identity(struct lq_datadir *dir);

/* ---- lq_datadir.c. */

/* Takes the lock of a directory that was opened to be read only, if it has one, without changing
 * anything; held until `ret_fd` is closed, which is -1 if there is none. False: a node runs on it.
 */
bool lq_datadir_hold(struct lq_datadir *dir, int *ret_fd);

#endif
