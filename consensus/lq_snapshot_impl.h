/* Inside of snapshots and of the table that they are taken of: what lq_snapshot_write.c and
 * lq_snapshot_read.c share. Nobody else includes this. */
#ifndef LQ_SNAPSHOT_IMPL_H
#define LQ_SNAPSHOT_IMPL_H

#include "lq_cursor.h"
#include "lq_snapshot.h"
#include "lq_table_impl.h"

#define LQ_SNAPSHOT_VERSION 1

/* No table comes near these in earnest; nothing computed from smaller ones runs over. */
#define LQ_SNAPSHOT_NUMBER_MAX (UINT64_MAX / 2)

/* Sizes in bytes of the parts, see lq_snapshot.h; a lock's without its key and waiters. */
#define LQ_SNAPSHOT_HEADER 36
#define LQ_SNAPSHOT_ORIGIN 21
#define LQ_SNAPSHOT_LOCK   51
#define LQ_SNAPSHOT_WAITER 21

#endif
