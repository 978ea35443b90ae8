/* The state digest: a sum, modulo 2^64, of one hash per lock and one per waiter, mixed with the few
 * global values when it is asked for. A sum can be kept up with each change and does not depend on
 * the order of a hash map. A waiter's hash names its predecessor, so that the order of a queue
 * counts, yet a hand-over changes two hashes, not all. The hash is XXH3 without secret over fields
 * in big-endian order: it finds faults, not attackers. */
#include "lq_check.h"
#include "lq_cursor.h"
#include "lq_table_impl.h"

#include <xxhash.h>

/* Domain numbers keep a lock, a waiter and the globals from ever hashing alike. */
enum domain {
    DOMAIN_LOCK = 1,
    DOMAIN_WAITER = 2,
    DOMAIN_ORIGIN = 3,
    DOMAIN_TABLE = 4,
};

#define FIELDS_MAX 96

struct hasher {
    uint8_t bytes[FIELDS_MAX];
    struct lq_writer writer;
};

static void begin(struct hasher *hasher, enum domain domain)
{
    hasher->writer = lq_writer_of(hasher->bytes, sizeof hasher->bytes);
    lq_write_u8(&hasher->writer, (uint8_t)domain);
}

static uint64_t end(const struct hasher *hasher)
{
    LQ_CHECK(!hasher->writer.failed);
    return XXH3_64bits(hasher->bytes, sizeof hasher->bytes - hasher->writer.left);
}

static uint64_t hash_lock(const struct lq_lock *lock)
{
    struct hasher hasher;
    struct lq_writer *writer = &hasher.writer;
    begin(&hasher, DOMAIN_LOCK);
    lq_write_u64(writer, XXH3_64bits(lock->key, lock->key_len));
    lq_write_u64(writer, lock->token);
    lq_write_u64(writer, lock->owner);
    lq_write_u64(writer, lock->lease.end_ms);
    lq_write_u8(writer, lock->lease_s);
    lq_write_u32(writer, lock->node);
    lq_write_u64(writer, lock->incarnation);
    lq_write_u64(writer, lock->seq);
    return end(&hasher);
}

static void write_identity(struct lq_writer *writer, const struct lq_waiter *waiter)
{
    lq_write_u32(writer, waiter->origin->id.node);
    lq_write_u64(writer, waiter->origin->id.incarnation);
    lq_write_u64(writer, waiter->seq);
}

static uint64_t hash_waiter(const struct lq_waiter *waiter)
{
    struct hasher hasher;
    struct lq_writer *writer = &hasher.writer;
    const struct lq_list *before = waiter->in_queue.prev;
    begin(&hasher, DOMAIN_WAITER);
    lq_write_u64(writer, XXH3_64bits(waiter->lock->key, waiter->lock->key_len));
    write_identity(writer, waiter);
    lq_write_u64(writer, waiter->owner);
    lq_write_u8(writer, waiter->lease_s);
    if (before != &waiter->lock->queue->waiters) {
        write_identity(writer, LQ_CONTAINER(before, const struct lq_waiter, in_queue));
    }
    return end(&hasher);
}

void lq_digest_lock_enter(struct lq_table *table, const struct lq_lock *lock)
{
    if (!table->is_alone) {
        table->digest += hash_lock(lock);
    }
}

void lq_digest_lock_leave(struct lq_table *table, const struct lq_lock *lock)
{
    if (!table->is_alone) {
        table->digest -= hash_lock(lock);
    }
}

void lq_digest_waiter_enter(struct lq_table *table, const struct lq_waiter *waiter)
{
    if (!table->is_alone) {
        table->digest += hash_waiter(waiter);
    }
}

void lq_digest_waiter_leave(struct lq_table *table, const struct lq_waiter *waiter)
{
    if (!table->is_alone) {
        table->digest -= hash_waiter(waiter);
    }
}

static uint64_t hash_origin(const struct lq_origin *origin)
{
    struct hasher hasher;
    begin(&hasher, DOMAIN_ORIGIN);
    lq_write_u32(&hasher.writer, origin->id.node);
    lq_write_u64(&hasher.writer, origin->id.incarnation);
    lq_write_u8(&hasher.writer, origin->is_open ? 1 : 0);
    lq_write_u64(&hasher.writer, origin->last_seq);
    return end(&hasher);
}

/* Mixes the sum over locks and waiters with what there are only a few of. */
static uint64_t finish(const struct lq_table *table, uint64_t sum)
{
    struct hasher hasher;
    for (const struct lq_list *at = table->origins.next; at != &table->origins; at = at->next) {
        sum += hash_origin(LQ_CONTAINER(at, const struct lq_origin, in_table));
    }
    begin(&hasher, DOMAIN_TABLE);
    lq_write_u64(&hasher.writer, sum);
    lq_write_u64(&hasher.writer, table->last_token);
    lq_write_u64(&hasher.writer, table->time_ms);
    lq_write_u64(&hasher.writer, table->locks.count);
    lq_write_u64(&hasher.writer, table->waiters.count);
    lq_write_u64(&hasher.writer, table->state_bytes);
    return end(&hasher);
}

uint64_t lq_table_digest(const struct lq_table *table)
{
    return table->is_alone ? lq_table_digest_recomputed(table) : finish(table, table->digest);
}

static void add_lock(struct lq_map_node *node, void *sum)
{
    *(uint64_t *)sum += hash_lock(LQ_CONTAINER(node, struct lq_lock, by_key));
}

static void add_waiter(struct lq_map_node *node, void *sum)
{
    *(uint64_t *)sum += hash_waiter(LQ_CONTAINER(node, struct lq_waiter, by_command));
}

uint64_t lq_table_digest_recomputed(const struct lq_table *table)
{
    uint64_t sum = 0;
    lq_map_each(&table->locks, add_lock, &sum);
    lq_map_each(&table->waiters, add_waiter, &sum);
    return finish(table, sum);
}
