/* Snapshots from arbitrary bytes: nothing is read beyond the end or believed without a check, and
 * whatever is accepted gives the same bytes again. The digest at the end refuses nearly all inputs,
 * but only after they were read. */
#include "lq_check.h"
#include "lq_snapshot.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const uint8_t secret[16] = {3};
    struct lq_table *table = lq_snapshot_restore(bytes, len, secret);
    struct lq_buffer out = {0};
    struct lq_snapshot *snapshot;
    if (table == NULL) {
        return 0;
    }
    LQ_CHECK(lq_table_digest(table) == lq_table_digest_recomputed(table));
    snapshot = lq_snapshot_begin(table, &out);
    LQ_CHECK(lq_snapshot_step(snapshot, UINT64_MAX, &out));
    lq_snapshot_end(snapshot);
    LQ_CHECK(out.len == len && memcmp(out.bytes, bytes, len) == 0);
    lq_buffer_done(&out);
    lq_table_free(table);
    return 0;
}
