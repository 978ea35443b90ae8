/* Locks and their queues. A lock lives from its registration until a release or an expiry finds
 * nobody waiting. A waiter lives from its queueing until it is granted, cancelled, or its origin is
 * closed. Maps, heaps, the size and the digest are changed here together, so that they can't part.
 */
#include "lq_check.h"
#include "lq_mem.h"
#include "lq_planted.h"
#include "lq_table_impl.h"

#include <sodium/crypto_shorthash.h>
#include <string.h>

_Static_assert(crypto_shorthash_KEYBYTES == 16 && crypto_shorthash_BYTES == 8,
               "SipHash-2-4 as libsodium has it");

uint64_t lq_key_hash(const struct lq_table *table, const uint8_t *key, size_t key_len)
{
    uint64_t hash;
    (void)crypto_shorthash((unsigned char *)&hash, key, key_len, table->secret);
    return hash;
}

uint64_t lq_lock_hash(const struct lq_map_node *node, const void *table)
{
    const struct lq_lock *lock = LQ_CONTAINER(node, const struct lq_lock, by_key);
    return lq_key_hash(table, lock->key, lock->key_len);
}

/* Sequence numbers are given by servers, not chosen by clients: spreading them is enough (Fibonacci
 * hashing). */
static uint64_t hash_command(const struct lq_origin *origin, uint64_t seq)
{
    return lq_map_spread(seq ^ ((uint64_t)origin->id.node << 40));
}

uint64_t lq_waiter_hash(const struct lq_map_node *node, const void *table)
{
    const struct lq_waiter *waiter = LQ_CONTAINER(node, const struct lq_waiter, by_command);
    (void)table;
    return hash_command(waiter->origin, waiter->seq);
}

struct lq_lock *lq_lock_find(const struct lq_table *table, const uint8_t *key, size_t key_len,
                             uint64_t key_hash)
{
    struct lq_map_node *node = lq_map_chain(&table->locks, key_hash);
    for (; node != NULL; node = node->next) {
        struct lq_lock *lock = LQ_CONTAINER(node, struct lq_lock, by_key);
        if (lock->key_len == key_len && memcmp(lock->key, key, key_len) == 0) {
            return lock;
        }
    }
    return NULL;
}

struct lq_waiter *lq_waiter_find(const struct lq_table *table, const struct lq_origin *origin,
                                 uint64_t seq)
{
    struct lq_map_node *node = lq_map_chain(&table->waiters, hash_command(origin, seq));
    for (; node != NULL; node = node->next) {
        struct lq_waiter *waiter = LQ_CONTAINER(node, struct lq_waiter, by_command);
        if (waiter->origin == origin && waiter->seq == seq) {
            return waiter;
        }
    }
    return NULL;
}

static uint64_t lock_bytes(const struct lq_lock *lock)
{
    return LQ_LOCK_BYTES + (uint64_t)lock->key_len;
}

/* The acquire to whom a lock is granted. */
struct grantee {
    struct lq_origin_id origin;
    uint64_t seq;
    uint64_t owner;
    uint8_t lease_s;
};

/* Writes a new grant into a lock whose lease is not running and which is in no list of tokens:
 * begins the lease, and answers. */
static void grant(struct lq_apply *apply, struct lq_lock *lock, const struct grantee *grantee)
{
    uint64_t now_ms = apply->stamp->time_ms;
    LQ_CHECK(apply->table->last_token < UINT64_MAX); /* tokens only grow */
    if (!LQ_PLANTED(LQ_PLANT_TOKEN_AGAIN) || apply->command->type != LQ_COMMAND_EXPIRE) {
        apply->table->last_token++;
    }
    lock->token = apply->table->last_token;
    if (!apply->table->is_alone) {
        lq_list_append(&apply->table->by_token, &lock->in_tokens);
    }
    lock->owner = grantee->owner;
    lock->node = grantee->origin.node;
    lock->incarnation = grantee->origin.incarnation;
    lock->seq = grantee->seq;
    lock->lease_s = grantee->lease_s;
    lq_spans_begin(&apply->table->leases, &lock->lease, now_ms, grantee->lease_s);
    lq_outcomes_add(apply->outcomes, (struct lq_outcome){.kind = LQ_OUTCOME_GRANTED,
                                                         .lease_s = grantee->lease_s,
                                                         .origin = grantee->origin,
                                                         .seq = grantee->seq,
                                                         .token = lock->token,
                                                         .stamp_ms = now_ms});
}

/* At least the whole structure, whose padding may reach beyond the bytes of a short key. */
static size_t lock_size(size_t key_len)
{
    size_t size = offsetof(struct lq_lock, key) + key_len;
    return size < sizeof(struct lq_lock) ? sizeof(struct lq_lock) : size;
}

static struct lq_lock *new_lock(const uint8_t *key, uint16_t key_len)
{
    struct lq_lock *lock = lq_malloc(lock_size(key_len));
    *lock = (struct lq_lock){.key_len = key_len};
    lq_span_init(&lock->lease);
    lq_list_init(&lock->in_tokens);
    memcpy(lock->key, key, key_len);
    return lock;
}

/* A new lock, complete but for map, size and digest, enters those. */
static void enter(struct lq_table *table, struct lq_lock *lock, uint64_t key_hash)
{
    lq_map_insert(&table->locks, &lock->by_key, key_hash);
    table->state_bytes += lock_bytes(lock);
    lq_digest_lock_enter(table, lock);
}

void lq_lock_register(struct lq_apply *apply)
{
    struct lq_table *table = apply->table;
    const struct lq_command *command = apply->command;
    struct lq_lock *lock = new_lock(command->key, command->key_len);
    grant(apply, lock,
          &(struct grantee){.origin = command->origin,
                            .seq = command->seq,
                            .owner = command->owner,
                            .lease_s = command->lease_s});
    enter(table, lock, apply->key_hash);
}

static void leave_tokens(struct lq_table *table, struct lq_lock *lock)
{
    lq_snapshot_skip(table, lock);
    lq_list_remove(&lock->in_tokens);
}

static void delete_lock(struct lq_table *table, struct lq_lock *lock)
{
    LQ_CHECK(lock->queue == NULL);
    lq_snapshot_preserve(table, lock);
    leave_tokens(table, lock);
    lq_digest_lock_leave(table, lock);
    table->state_bytes -= lock_bytes(lock);
    lq_spans_remove(&table->leases, &lock->lease, lock->lease_s);
    lq_map_remove(&table->locks, &lock->by_key);
    lq_free(lock);
}

/* The first waiter comes: from now on the lock's deadline matters to somebody. */
static void make_queue(struct lq_table *table, struct lq_lock *lock)
{
    struct lq_queue *queue = lq_malloc(sizeof *queue);
    *queue = (struct lq_queue){.lock = lock, .by_deadline.place = LQ_HEAP_OUT};
    lq_list_init(&queue->waiters);
    lq_heap_insert(&table->contended, &queue->by_deadline, lock->lease.end_ms);
    lock->queue = queue;
}

static void drop_queue(struct lq_table *table, struct lq_lock *lock)
{
    lq_heap_remove(&table->contended, &lock->queue->by_deadline);
    lq_free(lock->queue);
    lock->queue = NULL;
}

/* Puts a waiter, whose own fields are set, at the end of its lock's queue. */
static void enqueue(struct lq_table *table, struct lq_waiter *waiter)
{
    struct lq_lock *lock = waiter->lock;
    if (lock->queue == NULL) {
        make_queue(table, lock);
    }
    lq_list_append(&lock->queue->waiters, &waiter->in_queue);
    lock->queue->count++;
    lq_list_append(&waiter->origin->waiters, &waiter->in_origin);
    waiter->origin->n_waiters++;
    lq_map_insert(&table->waiters, &waiter->by_command, hash_command(waiter->origin, waiter->seq));
    table->state_bytes += lq_waiter_bytes(lock->key_len);
    lq_digest_waiter_enter(table, waiter);
}

void lq_lock_enqueue(struct lq_apply *apply, struct lq_lock *lock, struct lq_origin *origin)
{
    struct lq_table *table = apply->table;
    const struct lq_command *command = apply->command;
    struct lq_waiter *waiter = lq_malloc(sizeof *waiter);
    *waiter = (struct lq_waiter){.lock = lock,
                                 .origin = origin,
                                 .seq = command->seq,
                                 .owner = command->owner,
                                 .lease_s = command->lease_s};
    lq_snapshot_preserve(table, lock);
    enqueue(table, waiter);
    lq_outcomes_add(apply->outcomes, (struct lq_outcome){.kind = LQ_OUTCOME_QUEUED,
                                                         .origin = command->origin,
                                                         .seq = command->seq});
}

/* The waiter behind this one, or NULL. Its predecessor is part of what it adds to the digest. */
static struct lq_waiter *successor(const struct lq_waiter *waiter)
{
    const struct lq_list *next = waiter->in_queue.next;
    return next == &waiter->lock->queue->waiters ? NULL
                                                 : LQ_CONTAINER(next, struct lq_waiter, in_queue);
}

/* Frees a waiter that left its queue and the digest. */
static void forget_waiter(struct lq_table *table, struct lq_waiter *waiter)
{
    lq_list_remove(&waiter->in_origin);
    waiter->origin->n_waiters--;
    lq_map_remove(&table->waiters, &waiter->by_command);
    table->state_bytes -= lq_waiter_bytes(waiter->lock->key_len);
    waiter->lock->queue->count--;
    lq_free(waiter);
}

/* Takes neighbours, from `first` to `last`, out of their queue and frees them. From the back, so
 * that each still has its predecessor when it leaves the digest; only the one behind them all gets
 * another. */
static void remove_neighbours(struct lq_table *table, struct lq_waiter *first,
                              struct lq_waiter *last)
{
    struct lq_lock *lock = first->lock;
    struct lq_list *before = first->in_queue.prev, *at = &last->in_queue;
    struct lq_waiter *next = successor(last);
    lq_snapshot_preserve(table, lock);
    if (next != NULL) {
        lq_digest_waiter_leave(table, next);
    }
    before->next = last->in_queue.next;
    before->next->prev = before;
    if (next != NULL) {
        lq_digest_waiter_enter(table, next);
    }
    while (at != before) {
        struct lq_waiter *waiter = LQ_CONTAINER(at, struct lq_waiter, in_queue);
        at = at->prev;
        lq_digest_waiter_leave(table, waiter);
        forget_waiter(table, waiter);
    }
    if (lock->queue->count == 0) {
        drop_queue(table, lock);
    }
}

void lq_waiter_remove(struct lq_table *table, struct lq_waiter *waiter)
{
    remove_neighbours(table, waiter, waiter);
}

void lq_waiter_remove_run(struct lq_table *table, struct lq_waiter *first)
{
    struct lq_waiter *last = first, *next;
    while ((next = successor(last)) != NULL && next->origin == first->origin) {
        last = next;
    }
    remove_neighbours(table, first, last);
}

/* The lock is about to get a new grant or lease. */
static void before_change(struct lq_table *table, struct lq_lock *lock)
{
    lq_snapshot_preserve(table, lock);
    lq_digest_lock_leave(table, lock);
    lq_spans_remove(&table->leases, &lock->lease, lock->lease_s);
}

static void after_change(struct lq_table *table, struct lq_lock *lock)
{
    if (lock->queue != NULL) {
        lq_heap_move(&table->contended, &lock->queue->by_deadline, lock->lease.end_ms);
    }
    lq_digest_lock_enter(table, lock);
}

void lq_lock_pass_on(struct lq_apply *apply, struct lq_lock *lock)
{
    struct lq_table *table = apply->table;
    struct lq_waiter *head;
    struct grantee grantee;
    if (lock->queue == NULL) {
        delete_lock(table, lock);
        return;
    }
    head = LQ_CONTAINER(lock->queue->waiters.next, struct lq_waiter, in_queue);
    grantee = (struct grantee){.origin = head->origin->id,
                               .seq = head->seq,
                               .owner = head->owner,
                               .lease_s = head->lease_s};
    lq_waiter_remove(table, head);
    before_change(table, lock);
    leave_tokens(table, lock);
    grant(apply, lock, &grantee);
    after_change(table, lock);
}

void lq_lock_renew(struct lq_apply *apply, struct lq_lock *lock)
{
    struct lq_table *table = apply->table;
    before_change(table, lock);
    lock->lease_s = apply->command->lease_s;
    lq_spans_begin(&table->leases, &lock->lease, apply->stamp->time_ms, lock->lease_s);
    after_change(table, lock);
}

/* ---- Restoring. */

/* Whether a lock with these fields can come next, its key aside. */
static bool is_restorable(const struct lq_table *table, const struct lq_lock *fields)
{
    const struct lq_list *last = table->by_token.prev;
    uint64_t above =
        last == &table->by_token ? 0 : LQ_CONTAINER(last, struct lq_lock, in_tokens)->token;
    return fields->token > above && fields->token <= table->last_token && fields->lease_s >= 1 &&
           fields->lease.end_ms >= lq_span_end(0, fields->lease_s) &&
           fields->lease.end_ms <= lq_span_end(table->time_ms, fields->lease_s);
}

struct lq_lock *lq_lock_restore(struct lq_table *table, const struct lq_lock *fields,
                                const uint8_t *key)
{
    uint64_t key_hash = lq_key_hash(table, key, fields->key_len);
    struct lq_lock *lock;
    if (!is_restorable(table, fields) ||
        lq_lock_find(table, key, fields->key_len, key_hash) != NULL) {
        return NULL;
    }
    lock = new_lock(key, fields->key_len);
    lock->token = fields->token;
    lock->owner = fields->owner;
    lock->node = fields->node;
    lock->incarnation = fields->incarnation;
    lock->seq = fields->seq;
    lock->lease_s = fields->lease_s;
    lock->lease.end_ms = fields->lease.end_ms;
    lq_list_append(&table->by_token, &lock->in_tokens);
    enter(table, lock, key_hash);
    return lock;
}

bool lq_waiter_restore(struct lq_table *table, const struct lq_waiter *fields)
{
    const struct lq_origin *origin = fields->origin;
    struct lq_waiter *waiter;
    if (origin == NULL || !origin->is_open || fields->seq == 0 || fields->seq > origin->last_seq ||
        fields->lease_s == 0 || lq_waiter_find(table, origin, fields->seq) != NULL) {
        return false;
    }
    waiter = lq_malloc(sizeof *waiter);
    *waiter = *fields;
    enqueue(table, waiter);
    return true;
}
