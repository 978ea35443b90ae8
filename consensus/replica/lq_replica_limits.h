/* Limits of a node's work and memory, each with its reason. What an operator may change is in
 * struct lq_replica_options. */
#ifndef LQ_REPLICA_LIMITS_H
#define LQ_REPLICA_LIMITS_H

#include "lq_entry.h"

/* Commands applied in one turn; the rest follows in the next. */
#define LQ_TURN_COMMANDS 1024

/* Entries proposed and not applied yet, beyond which commands gather. */
#define LQ_INFLIGHT_MAX 4

/* Bytes of a peer's snapshot that travel at a time. */
#define LQ_CHUNK_BYTES (UINT32_C(128) << 10)

/* Bytes of commands in one parcel of an origin: small beside an entry, so that entries fill well. A
 * segment is at most that, its header and one command more. */
#define LQ_PARCEL_BYTES (UINT32_C(16) << 10)
#define LQ_PARCEL_MAX   (LQ_PARCEL_BYTES + LQ_SEGMENT_HEADER + LQ_COMMAND_MAX)

/* A peer that was told nothing for so long gets a ping: who may be elected knows table time. */
#define LQ_PING_MS 100

/* Linked nodes that are no members: nodes about to be added. */
#define LQ_STRANGERS_MAX 3

/* Bytes of submissions that a leader keeps for entries to come; beyond it they are not taken, and
 * come again. */
#define LQ_GATHER_BYTES_MAX (UINT64_C(8) << 20)

/* Bytes that may wait for a slow disk before entries of the leader are not taken. */
#define LQ_BACKLOG_BYTES_MAX (UINT64_C(32) << 20)

/* Bytes that may wait for the leader's own disk before it proposes no more. */
#define LQ_PROPOSE_BYTES_MAX (UINT64_C(8) << 20)

/* The state at indexes that are multiples of this is compared among all voters. */
#define LQ_DIGEST_STEP  64
#define LQ_DIGESTS_KEPT 16

#endif
