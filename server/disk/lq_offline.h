/* What can be done with a data directory while no node runs on it: look at it, and make a new
 * cluster out of it (docs/decisions/0013-rebirth.md). */
#ifndef LQ_OFFLINE_H
#define LQ_OFFLINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Prints what the directory holds, as text for people, one `key: value` per line, or as one JSON
 * object: identity, verdict of the recovery and its text, term, vote, boot counter, first and last
 * index, snapshots (index, term, size, good or not), segments (number, size), members, held keys,
 * waiters, last token and table time as of the end of the log. Changes nothing; a node may be
 * running on it (then the end of the log may look torn, and it says so). Returns the exit status:
 * 0, 1 when the directory can't be read, 2 when what it holds is damaged. */
int lq_offline_inspect(const char *path, bool as_json, FILE *out);

struct lq_offline_options {
    const char *from;    /* recover: the survivor's data directory, which stays as it is; restore:
                            a snapshot file */
    const char *to;      /* the new data directory; must not exist, or be empty */
    uint32_t node;       /* recover: the id of that directory's node; restore: any */
    const char *address; /* of the node in the new cluster, its peer address HOST:PORT */
    uint64_t segment_bytes;
};

/* Makes the data directory of a new cluster of one node, and says on `out` what was done, what was
 * lost, the new cluster id, and what to do next (the text of lq_rebirth and the steps of decision
 * 0013). Half an operation is none: it is written beside and renamed. Returns the exit status: 0,
 * or 1 with a message on `out`, nothing changed. */
int lq_offline_recover(const struct lq_offline_options *options, FILE *out);
int lq_offline_restore(const struct lq_offline_options *options, FILE *out);

#endif
