/* What a recovery holds, for lq_replica_new, which takes it over. Nobody else includes this. */
#ifndef LQ_RECOVERY_IMPL_H
#define LQ_RECOVERY_IMPL_H

#include "lq_log.h"
#include "lq_recovery.h"
#include "lq_table.h"

struct lq_recovery {
    uint64_t cluster;
    uint32_t node;
    uint8_t secret[16];
    struct lq_journal_scan scan;
    size_t n_segments;
    bool is_refused; /* a segment was: no more are looked at */
    enum lq_recovery_verdict verdict;
    uint64_t fault_segment; /* that `text` is about; 0: none */
    char text[512];
    bool has_snapshot;
    struct lq_snapfile_head snapshot;
    uint64_t snapshot_total, snapshot_check;
    struct lq_table *table; /* as of the snapshot, or NULL */
    bool has_log;           /* `log` was begun */
    struct lq_log log;
    bool needs_restart; /* the snapshot stands instead of what the journal holds */
};

#endif
