/* The table's state as bytes, in one canonical form: equal states give equal bytes on every
 * replica. Written in slices while commands go on being applied; the bytes are the state at the
 * moment of lq_snapshot_begin. Numbers are big-endian. */
/* clang-format off */
/*   header    version u8 = 1 | reserved u8[7] = 0 | time_ms u64 | last_token u64
 *             | origins u32 | locks u64
 *   origin    node u32 | incarnation u64 | open u8 | last_seq u64     by ascending node
 *   lock      token u64 | owner u64 | end_ms u64 | lease u8           by ascending token
 *             | node u32 | incarnation u64 | seq u64
 *             | key: len u16, bytes | waiters u32
 *   waiter    node u32 | seq u64 | owner u64 | lease u8               in the order of the queue
 *   trailer   digest u64
 *
 * A waiter's incarnation is that of its node's origin, which is open. */
/* clang-format on */
#ifndef LQ_SNAPSHOT_H
#define LQ_SNAPSHOT_H

#include "lq_buffer.h"
#include "lq_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_snapshot;

/* Begins a snapshot of the table as it is now, and appends its header and origins to `out`. At most
 * one at a time. End it with lq_snapshot_end, at the latest before the table is freed. */
struct lq_snapshot *lq_snapshot_begin(struct lq_table *table, struct lq_buffer *out);

/* Appends at most `budget` more locks (8 waiters count as one) to `out`, whose earlier bytes the
 * caller may have taken away; with the last one, the trailer. Returns whether the snapshot is
 * complete. */
bool lq_snapshot_step(struct lq_snapshot *snapshot, uint64_t budget, struct lq_buffer *out);

/* Frees the snapshot, complete or not; NULL is fine. */
void lq_snapshot_end(struct lq_snapshot *snapshot);

/* Makes a table from a whole snapshot. `secret` as in lq_table_new. Returns NULL when the bytes are
 * not one: nothing is believed without a check, down to the digest. */
struct lq_table *lq_snapshot_restore(const uint8_t *bytes, size_t len, const uint8_t secret[16]);

#endif
