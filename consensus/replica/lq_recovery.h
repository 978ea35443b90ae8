/* What a node's disk holds, put together before the node starts: the newest good snapshot, then the
 * segments of the journal, oldest first. Pure: the caller reads the files. Everything that was read
 * must have been made durable by the caller (a write can be seen without being on the disk). */
#ifndef LQ_RECOVERY_H
#define LQ_RECOVERY_H

#include "lq_journal.h"
#include "lq_snapfile.h"
#include "lq_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_recovery;

enum lq_recovery_verdict {
    LQ_RECOVERY_BLANK, /* nothing was ever stored here */
    LQ_RECOVERY_GOOD,
    LQ_RECOVERY_TORN,    /* good, but for a last batch that was never acknowledged */
    LQ_RECOVERY_CORRUPT, /* refuse to start: lq_recovery_text says what, where and how to rejoin */
};

/* For the node of that cluster; 0, 0: whatever the files say. `secret` keys the table's hashes. */
struct lq_recovery *lq_recovery_new(uint64_t cluster, uint32_t node, const uint8_t secret[16]);

/* NULL is fine. */
void lq_recovery_free(struct lq_recovery *recovery);

/* Offers a snapshot file, newest first, before any segment. False: it is not good, the next older
 * one may be. Once one was accepted no other is offered. */
bool lq_recovery_snapshot(struct lq_recovery *recovery, const uint8_t *bytes, size_t len);

/* The next segment: the whole file of that number. */
void lq_recovery_segment(struct lq_recovery *recovery, uint64_t number, const uint8_t *bytes,
                         size_t len);

/* The verdict, after the last segment. */
enum lq_recovery_verdict lq_recovery_end(struct lq_recovery *recovery);

/* What is wrong, or was torn, in words for the operator; "" if nothing. */
const char *lq_recovery_text(const struct lq_recovery *recovery);

/* The number of the journal segment that the text is about; 0: it is not about one. */
uint64_t lq_recovery_fault_segment(const struct lq_recovery *recovery);

/* What there is, after the verdict, for people and tools. */
struct lq_recovery_facts {
    uint64_t term, vote, boot;
    uint64_t first_index, last_index, last_term; /* of the log; last 0: empty */
    uint64_t snapshot_index, snapshot_term;      /* 0, 0: none */
    struct lq_members members;                   /* the newest in snapshot or log */
};
struct lq_recovery_facts lq_recovery_facts(const struct lq_recovery *recovery);

/* Puts all of the log into the state of the snapshot, after a verdict that is no refusal, for those
 * who look at a disk or make a new cluster out of it: no node is started from it any more. Fills
 * the members and what the state comes to. False: lq_recovery_text says which entry makes no sense.
 */
bool lq_recovery_replay(struct lq_recovery *recovery, struct lq_members *ret_members,
                        struct lq_table_counts *ret_counts);

#endif
