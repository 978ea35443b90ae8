/* Inside of the lock table: the records and the steps that lq_table.c, lq_lock.c, lq_origin.c and
 * lq_digest.c share. Nobody else includes this. */
#ifndef LQ_TABLE_IMPL_H
#define LQ_TABLE_IMPL_H

#include "lq_heap.h"
#include "lq_list.h"
#include "lq_map.h"
#include "lq_spans.h"
#include "lq_table.h"

/* The waiters of one key, in the order in which they came. Exists only while there are some. */
struct lq_queue {
    struct lq_list waiters;
    uint64_t count;
    struct lq_lock *lock;
    struct lq_heap_node by_deadline; /* the lock's, among the contended ones */
};

/* A registered key. Its fields are ordered for size: a million of these are held. */
struct lq_lock {
    struct lq_map_node by_key;
    struct lq_list in_tokens; /* by ascending token */
    struct lq_span lease;     /* has ended when table time is at or past its end */
    struct lq_queue *queue;   /* NULL: nobody waits */
    uint64_t token;
    uint64_t owner;       /* of the acquire that was granted */
    uint64_t incarnation; /* of the acquire's origin */
    uint64_t seq;         /* of the acquire */
    uint32_t node;        /* of the acquire's origin */
    uint16_t key_len;
    uint8_t lease_s;
    bool is_preserved; /* by the snapshot that is being written */
    uint8_t key[];
};

/* A queued acquire. */
struct lq_waiter {
    struct lq_map_node by_command; /* by (origin, seq) */
    struct lq_list in_queue;
    struct lq_list in_origin;
    struct lq_lock *lock;
    struct lq_origin *origin; /* open: closing it removes its waiters */
    uint64_t seq;
    uint64_t owner;
    uint8_t lease_s;
};

/* What the table knows of a node that ever served clients: kept for ever, so that an incarnation is
 * never used twice. */
struct lq_origin {
    struct lq_list in_table;
    struct lq_origin_id id; /* the highest incarnation of its node */
    bool is_open;
    uint64_t last_seq;      /* of the last command applied */
    struct lq_list waiters; /* struct lq_waiter, of this incarnation */
    uint64_t n_waiters;
};

struct lq_table {
    uint8_t secret[16];
    struct lq_map locks;      /* struct lq_lock */
    struct lq_map waiters;    /* struct lq_waiter */
    struct lq_spans leases;   /* struct lq_lock, all */
    struct lq_heap contended; /* struct lq_queue, by the deadline of their locks */
    struct lq_list by_token;  /* struct lq_lock, all, by ascending token */
    struct lq_list origins;   /* struct lq_origin, by ascending node */
    uint64_t last_token;
    uint64_t time_ms;
    uint64_t state_bytes;
    bool is_alone;                /* see lq_table_new_alone */
    struct lq_snapshot *snapshot; /* being written, or NULL */
    uint64_t digest;              /* sum over locks and waiters, see lq_digest.c */
};

/* The command being applied, as its steps hand it on. */
struct lq_apply {
    struct lq_table *table;
    const struct lq_command *command;
    const struct lq_stamp *stamp;
    struct lq_outcomes *outcomes;
    uint64_t key_hash; /* of the command's key, if it has one */
};

/* ---- lq_table.c */

/* lq_table_apply, with the hash of the command's key as lq_command_hash gives it. */
void lq_table_apply_hashed(struct lq_table *table, const struct lq_command *command,
                           uint64_t key_hash, const struct lq_stamp *stamp,
                           struct lq_outcomes *outcomes);

/* Appends an outcome for the command (origin, seq). */
void lq_outcomes_add(struct lq_outcomes *outcomes, struct lq_outcome outcome);

/* ---- lq_lock.c: locks and queues; each keeps maps, heaps, sizes and digest in step. */

uint64_t lq_lock_hash(const struct lq_map_node *node, const void *table);
uint64_t lq_waiter_hash(const struct lq_map_node *node, const void *table);

uint64_t lq_key_hash(const struct lq_table *table, const uint8_t *key, size_t key_len);

/* The hash of the command's key; 0 when it has none. */
static inline uint64_t lq_command_hash(const struct lq_table *table,
                                       const struct lq_command *command)
{
    return command->key_len > 0 ? lq_key_hash(table, command->key, command->key_len) : 0;
}

struct lq_lock *lq_lock_find(const struct lq_table *table, const uint8_t *key, size_t key_len,
                             uint64_t key_hash);
struct lq_waiter *lq_waiter_find(const struct lq_table *table, const struct lq_origin *origin,
                                 uint64_t seq);

/* Registers the key of an ACQUIRE and grants it to the command; GRANTED. */
void lq_lock_register(struct lq_apply *apply);

/* Puts an ACQUIRE at the end of the queue; QUEUED. */
void lq_lock_enqueue(struct lq_apply *apply, struct lq_lock *lock, struct lq_origin *origin);

/* Ends the present grant: the head of the queue is granted (GRANTED), or the key is deleted. */
void lq_lock_pass_on(struct lq_apply *apply, struct lq_lock *lock);

/* The grant goes on, its lease counts from now. */
void lq_lock_renew(struct lq_apply *apply, struct lq_lock *lock);

/* Takes a waiter out of its queue and frees it. */
void lq_waiter_remove(struct lq_table *table, struct lq_waiter *waiter);

/* The same for a waiter and those of the same origin that stand right behind it: cheaper than one
 * by one. */
void lq_waiter_remove_run(struct lq_table *table, struct lq_waiter *first);

/* Registers a lock as a snapshot has it, and returns it; its lease does not run yet. NULL when the
 * fields or the key cannot stand in a valid table after those restored before. */
struct lq_lock *lq_lock_restore(struct lq_table *table, const struct lq_lock *fields,
                                const uint8_t *key);

/* Puts a waiter at the end of the queue of `fields->lock`; false when it cannot be. */
bool lq_waiter_restore(struct lq_table *table, const struct lq_waiter *fields);

/* ---- lq_snapshot_write.c */

/* To be called before a lock, or anything of its queue, is changed. */
void lq_snapshot_preserve(struct lq_table *table, struct lq_lock *lock);

/* To be called, after that, before a lock leaves its place in the list of tokens. */
void lq_snapshot_skip(struct lq_table *table, struct lq_lock *lock);

/* ---- lq_origin.c */

/* Adds an origin as a snapshot has it; false when its node is not above all others. */
bool lq_origin_restore(struct lq_table *table, struct lq_origin_id id, bool is_open,
                       uint64_t last_seq);

/* The origin of that node, open or not; NULL when it has none. */
struct lq_origin *lq_origin_of_node(const struct lq_table *table, uint32_t node);

/* The origin with exactly this node and incarnation, if it is open; else NULL. */
struct lq_origin *lq_origin_find_open(const struct lq_table *table, struct lq_origin_id id);

void lq_origin_open(struct lq_apply *apply);
void lq_origin_close(struct lq_apply *apply);

/* ---- lq_digest.c */

/* Adds what a lock, or a waiter at its place in the queue, contributes to the digest; or takes it
 * away again. Around each change: leave with the old values, enter with the new ones. */
void lq_digest_lock_enter(struct lq_table *table, const struct lq_lock *lock);
void lq_digest_lock_leave(struct lq_table *table, const struct lq_lock *lock);
void lq_digest_waiter_enter(struct lq_table *table, const struct lq_waiter *waiter);
void lq_digest_waiter_leave(struct lq_table *table, const struct lq_waiter *waiter);

#endif
