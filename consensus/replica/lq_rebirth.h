/* Offline operations on stored state: a new cluster of one node, made of what one disk still holds.
 *
 *   recover   a cluster has lost its quorum for good: from the snapshot and log of one survivor
 *   restore   from a snapshot file alone, which an operator put aside as a backup
 *
 * Both end with the bytes of two files for an empty data directory, a snapshot and the first
 * segment of a journal, from which lq_recovery and lq_replica_new start a node that is the only
 * member and voter. Others are added to it as to any cluster. The files that were read are not
 * changed. Nobody but an operator decides to do this: docs/decisions/0013-rebirth.md says when, and
 * what is lost.
 *
 * What there is, is taken. A disk does not know for sure which of its last entries were committed:
 * the commit index is not stored, and behind the last one that was heard of there are entries which
 * may have been committed, and answered to clients, or not. Recovery applies all of them. To leave
 * one out could undo what a client was told; to apply one that nobody confirmed does what the
 * client asked for at that time, and its outcome was unknown to it anyway. What other disks had
 * behind the last entry here is lost, confirmed or not.
 *
 * So that the old cluster and the new one can never be taken for each other, and no old promise is
 * given away twice:
 *   - the cluster id is new: hellos, journals and snapshots of the old one are refused;
 *   - the snapshot stands one index behind the last entry, in a term above all that was seen;
 *   - the last token is raised by LQ_REBIRTH_TOKENS: none is given again that the old cluster may
 *     have given behind the last entry;
 *   - all origins are closed, so waiters leave the queues, and the boot counter is not below that
 *     of any life that this node id had, so the next life is a new origin;
 *   - locks stay held and leases go on from the last entry's time: time without a cluster does not
 *     count, so they end late rather than early. */
#ifndef LQ_REBIRTH_H
#define LQ_REBIRTH_H

#include "lq_buffer.h"
#include "lq_recovery.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More grants than a cluster makes in 10 days at a million per second. */
#define LQ_REBIRTH_TOKENS (UINT64_C(1) << 40)

struct lq_rebirth_options {
    uint64_t cluster; /* the new id: random, not 0, not the old one */
    /* recover: the id of the disk's node, which keeps it. restore: any but 0; other nodes that the
     * old cluster had must not use theirs again in the new one, unless they never served. */
    uint32_t node;
    const char *address;    /* of this node, "HOST:PORT" */
    uint64_t segment_bytes; /* of journal files, as in lq_replica_options */
    uint64_t salt;          /* random, not 0 */
    uint8_t secret[16];     /* restore: keys hash maps; random */
};

/* The new files, or why there are none. */
struct lq_rebirth {
    struct lq_buffer snapshot; /* a snapshot file; its name is made of the next two */
    uint64_t index, term;
    struct lq_buffer segment; /* segment 1, the whole file */
    uint64_t old_cluster;
    uint64_t last_index, last_term; /* where the old cluster's log ends here */
    uint64_t keys;                  /* locks that stay held */
    uint64_t dropped;               /* waiters that left the queues */
    uint64_t last_token;            /* the next one is greater */
    char text[512];                 /* what was done, or why it was refused, for the operator */
};

/* Makes the files of a new cluster out of what `recovery` found, after its verdict; it takes the
 * table over and is good for lq_recovery_free only afterwards. Returns false, with no bytes and a
 * text, when the disk or the options do not allow it. Either way `ret` is freed with
 * lq_rebirth_done. */
bool lq_rebirth_recover(struct lq_recovery *recovery, const struct lq_rebirth_options *options,
                        struct lq_rebirth *ret);

/* The same out of the bytes of a snapshot file, which nobody has checked. */
bool lq_rebirth_restore(const uint8_t *bytes, size_t len, const struct lq_rebirth_options *options,
                        struct lq_rebirth *ret);

void lq_rebirth_done(struct lq_rebirth *rebirth);

#endif
