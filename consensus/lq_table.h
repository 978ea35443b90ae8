/* The lock table: the deterministic heart. Commands and their time go in, outcomes come out; there
 * is no clock, no configuration, no failure. Simple mode feeds it directly, cluster mode from the
 * committed log, so that equal commands at equal times lead to equal states wherever they are
 * applied.
 *
 * State: the registered keys, each with its holder's grant and a FIFO of waiters; the last token;
 * the table's time; for each node the highest origin it opened. Everything else (hash maps, heaps)
 * is derived and not compared.
 *
 * Rules: docs/protocol.md, sections Acquire, Release, Expiry, Renew, Cancel. Times are ms of table
 * time. */
#ifndef LQ_TABLE_H
#define LQ_TABLE_H

#include "lq_command.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- What a unit of state weighs against the cap in bytes: what it takes at most, with its share
 * of maps and heaps and, for a waiter, with the request that waits at its origin and has a copy of
 * the key. Part of the state machine: replicas must agree on it. */
#define LQ_LOCK_BYTES   160 /* and the bytes of its key */
#define LQ_WAITER_BYTES 480 /* and twice the bytes of its key */

static inline uint64_t lq_waiter_bytes(size_t key_len)
{
    return LQ_WAITER_BYTES + 2 * (uint64_t)key_len;
}

enum lq_outcome_kind {
    LQ_OUTCOME_GRANTED = 1,   /* ACQUIRE, now or after having been queued: `token` */
    LQ_OUTCOME_QUEUED = 2,    /* ACQUIRE: GRANTED follows, or CANCELLED, or its origin is closed */
    LQ_OUTCOME_TIMEOUT = 3,   /* ACQUIRE with wait 0: held by another */
    LQ_OUTCOME_BUSY = 4,      /* ACQUIRE: a cap */
    LQ_OUTCOME_RELEASED = 5,  /* RELEASE, FORCE_RELEASE */
    LQ_OUTCOME_NOT_HELD = 6,  /* RELEASE, RENEW, FORCE_RELEASE */
    LQ_OUTCOME_RENEWED = 7,   /* RENEW */
    LQ_OUTCOME_CANCELLED = 8, /* for the cancelled ACQUIRE: it left the queue */
    LQ_OUTCOME_NOT_QUEUED =
        9, /* CANCEL: nothing to take back; the acquire had its outcome before */
    LQ_OUTCOME_SKIPPED =
        10, /* a seq that is not last + 1, or an origin that is not open: no effect */
    LQ_OUTCOME_OPENED = 11,  /* ORIGIN_OPEN: it is open now */
    LQ_OUTCOME_REFUSED = 12, /* ORIGIN_OPEN of a closed or lower incarnation */
    LQ_OUTCOME_CLOSED = 13,  /* ORIGIN_CLOSE: it is not open (any more) */
    LQ_OUTCOME_EXPIRED = 14, /* EXPIRE: that grant ended */
    LQ_OUTCOME_STALE = 15,   /* EXPIRE: another token, or renewed in between: no effect */
};

/* What a command did, to itself and to others: addressed to the command (origin, seq) that it
 * answers. */
struct lq_outcome {
    uint8_t kind; /* enum lq_outcome_kind */
    uint8_t lease_s;
    struct lq_origin_id origin;
    uint64_t seq;
    uint64_t token;    /* GRANTED, RENEWED */
    uint64_t stamp_ms; /* GRANTED, RENEWED: table time from which the lease counts */
};

/* A list of outcomes that grows as needed; the caller empties it by setting `count` to 0. */
struct lq_outcomes {
    struct lq_outcome *items;
    size_t count, cap;
};

void lq_outcomes_init(struct lq_outcomes *outcomes);
void lq_outcomes_done(struct lq_outcomes *outcomes);

struct lq_table;

/* Makes an empty table. `secret` keys the hash of client-chosen keys; it is not part of the state
 * and may differ from replica to replica. `first_token` is the first one that will be given; at
 * least 1. */
struct lq_table *lq_table_new(const uint8_t secret[16], uint64_t first_token);

/* The same for simple mode, where nobody compares or copies the state: the digest is not kept up
 * but computed when it is asked for, and no snapshot can be taken. Everything else is alike, at
 * less cost. */
struct lq_table *lq_table_new_alone(const uint8_t secret[16], uint64_t first_token);

/* NULL is fine. */
void lq_table_free(struct lq_table *table);

/* Applies one command and appends its outcomes, those of others (GRANTED to a waiter) after its
 * own, except that a CANCEL that took effect has only the CANCELLED of its target. The command must
 * be well formed: that is checked when it is decoded, and is a bug here. */
void lq_table_apply(struct lq_table *table, const struct lq_command *command,
                    const struct lq_stamp *stamp, struct lq_outcomes *outcomes);

/* ---- Many commands, one after the other: an entry of the log. With a large table each of them
 * waits for memory some times; known ahead, they wait together. */

/* Commands that are looked ahead at a time. */
#define LQ_AHEAD_MAX 32

struct lq_ahead {
    struct lq_command commands[LQ_AHEAD_MAX]; /* the caller's */
    uint64_t key_hashes[LQ_AHEAD_MAX];
    size_t n; /* the caller's */
};

/* Fetches what the commands, which are well formed, will need; changes nothing. */
void lq_table_look_ahead(const struct lq_table *table, struct lq_ahead *ahead);

/* Applies the command at `i`, as lq_table_apply does. */
void lq_table_apply_ahead(struct lq_table *table, const struct lq_ahead *ahead, size_t i,
                          const struct lq_stamp *stamp, struct lq_outcomes *outcomes);

/* ---- Reading. */

/* Which deadlines: those of all locks, or only of those that somebody waits for. Simple mode hands
 * the latter on in time and sweeps the others; cluster mode expires all in time. */
enum lq_which {
    LQ_WHICH_ALL,
    LQ_WHICH_CONTENDED,
};

/* The earliest deadline among those, or LQ_NEVER. */
uint64_t lq_table_next_deadline(const struct lq_table *table, enum lq_which which);

/* Fills `ret_expire` with the EXPIRE of the lock among those whose lease ends first, if it has
 * ended at `time_ms`; else returns false. Its key stays valid until the next apply. */
bool lq_table_due(const struct lq_table *table, enum lq_which which, uint64_t time_ms,
                  struct lq_command *ret_expire);

/* The same for one key. */
bool lq_table_key_due(const struct lq_table *table, const uint8_t *key, size_t key_len,
                      uint64_t time_ms, struct lq_command *ret_expire);

/* Calls `visit` with the EXPIREs of locks whose lease has ended at `time_ms`, at most `max` of
 * them, and returns for how many; changes nothing. The order is a function of the state; when there
 * are more than `max`, leases of every length have their share. A key stays valid until the next
 * apply, which `visit` must not call. */
size_t lq_table_due_all(const struct lq_table *table, uint64_t time_ms, size_t max,
                        void (*visit)(void *context, const struct lq_command *expire),
                        void *context);

/* Sizes. */
struct lq_table_counts {
    uint64_t keys;
    uint64_t waiters;
    uint64_t state_bytes;
    uint64_t last_token;
    uint64_t time_ms;
};
struct lq_table_counts lq_table_counts(const struct lq_table *table);

/* The origin that a node has: the highest incarnation it ever opened. */
struct lq_origin_state {
    struct lq_origin_id id;
    bool is_open;
    uint64_t last_seq; /* of the last command applied */
    uint64_t n_waiters;
};

/* Fills the origin of a node, or returns false when it never opened one. */
bool lq_table_origin(const struct lq_table *table, uint32_t node, struct lq_origin_state *ret);

/* The origin of the lowest node above `after`, or false: goes through all of them. */
bool lq_table_next_origin(const struct lq_table *table, uint32_t after,
                          struct lq_origin_state *ret);

/* Fills the origins, by ascending node, of the first `max` nodes at most; returns how many. */
size_t lq_table_origins(const struct lq_table *table, struct lq_origin_state *ret, size_t max);

/* What an ACQUIRE came to whose outcomes were not seen, since a snapshot has them behind it. */
enum lq_fate {
    LQ_FATE_WAITING, /* it is queued */
    LQ_FATE_HOLDING, /* the key is held by its grant */
    LQ_FATE_GONE,    /* neither: not applied, or refused, cancelled, or its grant ended */
};

/* The fate of the acquire (origin, seq) of a key. HOLDING: also fills the outcome GRANTED that it
 * has now, whose stamp is that of its latest renewal, if it was renewed. */
enum lq_fate lq_table_fate(const struct lq_table *table, struct lq_origin_id origin, uint64_t seq,
                           const uint8_t *key, size_t key_len, struct lq_outcome *ret);

/* ---- Another life, for forced recovery and restored backups. */

/* Closes all origins, whose waiters leave the queues, and raises the last token by `token_raise`,
 * so that no token is given again that the life before may have given after this state. Locks stay
 * held and their leases run on. Not a command: to be done to the same state on all replicas, or to
 * the one that others copy. */
void lq_table_reborn(struct lq_table *table, uint64_t token_raise);

/* ---- Comparing. */

/* A 64-bit digest of the state: equal states have equal digests on all machines. Kept up with each
 * change; this call is cheap. */
uint64_t lq_table_digest(const struct lq_table *table);

/* The same, computed from the whole state: slow, to be compared with lq_table_digest. */
uint64_t lq_table_digest_recomputed(const struct lq_table *table);

#endif
