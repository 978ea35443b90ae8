/* All limits, each with its reason. Caps that an operator may change are defaults here and options
 * of loquetd. */
#ifndef LQ_LIMITS_H
#define LQ_LIMITS_H

/* ---- The wire (docs/protocol.md); part of the protocol, not configurable. */

/* Longest key in bytes: room for any path or URL people name locks by, small enough to copy without
 * a thought. */
#define LQ_KEY_MAX 1024

/* Largest header of any frame: the answer A (op, token, owner). */
#define LQ_HEADER_MAX 17

/* Largest frame of either direction: header, key, line feed. */
#define LQ_FRAME_MAX (LQ_HEADER_MAX + LQ_KEY_MAX + 1)

/* `wait` and `lease` are one byte on the wire, in seconds. */
#define LQ_SECONDS_MAX 255

/* ---- Caps of the lock table (docs/protocol.md, "Caps"). */

/* Keys registered at once. */
#define LQ_KEYS_DEFAULT 4000000

/* Waiters on one key: beyond it, waiting longer than 255 s is near certain anyway. */
#define LQ_WAITERS_PER_KEY_DEFAULT 10000

/* Waiters on all keys. */
#define LQ_WAITERS_DEFAULT 1000000

/* Bytes of table state, counted as lq_table.h says. */
#define LQ_STATE_BYTES_DEFAULT (UINT64_C(2) << 30)

/* ---- Caps of connections. */

/* Open requests of one connection. */
#define LQ_REQUESTS_DEFAULT 65536

/* Unread answers of one connection before its reading is paused. */
#define LQ_UNREAD_BYTES_DEFAULT (UINT64_C(64) << 20)

/* Unread answers of all connections before those that do not read are not read from either: the sum
 * of many stalled clients must not exhaust the machine although none of them reaches its own cap.
 */
#define LQ_UNREAD_TOTAL_DEFAULT (UINT64_C(1) << 30)

/* How long the reading of a connection may stay paused before it is closed. */
#define LQ_UNREAD_TIMEOUT_S_DEFAULT 30

/* ---- Work in one turn of the loop (bound: 10 ms of CPU). Its unit is about a microsecond. */

/* What is taken in before the turn acts. A frame counts 1: most cost less, a queued acquire up
 * to 4. */
#define LQ_TURN_WORK 1024

/* What a system call (reading, writing, accepting or closing a connection) counts. */
#define LQ_TURN_CALL_COST 8

/* Bytes read from one connection at a time: at most 819 requests, by which a turn may exceed its
 * measure. */
#define LQ_READ_BYTES 8192

/* Expired locks removed or handed on in one turn; the rest follows in the next turn, before new
 * requests. */
#define LQ_TURN_EXPIRES 512

/* Waits that end in one turn; the rest follows in the next. */
#define LQ_TURN_TIMEOUTS 512

/* Requests cancelled, and unsent answers looked at, for sessions that end, in one turn. */
#define LQ_TURN_ENDINGS 512

/* Hash buckets moved in each operation on a map that is being resized: a doubling is over after
 * half as many insertions as lead to the next. A bucket costs two cache misses, about 0.3 us. */
#define LQ_MAP_STEP 2

/* ---- Time. */

/* Period of simple mode's sweep of expired keys (protocol, "Expiry"). */
#define LQ_SWEEP_MS_DEFAULT 5000

/* A connection that was told E, or whose input ended, is closed after its answers left, or after
 * this long. */
#define LQ_LINGER_MS 1000

/* Vanished hosts are noticed within this time (docs/protocol.md, "End of a connection"). */
#define LQ_VANISHED_MS 15000

#endif
