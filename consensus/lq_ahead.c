/* Looking ahead: what the next commands need of the table's memory is fetched for all of them at
 * once. With more locks than the cache holds, each command would wait for it several times: for its
 * bucket, for the lock, for the lock's neighbours in its lists. */
#include "lq_table_impl.h"

/* A lock and its key take two to three lines of cache. */
#define LINE 64

static void fetch_lock(const struct lq_table *table, uint64_t key_hash)
{
    const struct lq_map_node *node = *lq_map_bucket(&table->locks, key_hash);
    if (node != NULL) {
        const char *lock = (const char *)LQ_CONTAINER(node, const struct lq_lock, by_key);
        __builtin_prefetch(lock);
        __builtin_prefetch(lock + LINE);
        __builtin_prefetch(lock + 2 * LINE);
    }
}

static void fetch_neighbours(const struct lq_table *table, uint64_t key_hash)
{
    const struct lq_map_node *node = *lq_map_bucket(&table->locks, key_hash);
    const struct lq_lock *lock;
    if (node == NULL) {
        return;
    }
    lock = LQ_CONTAINER(node, const struct lq_lock, by_key);
    __builtin_prefetch(node->next);
    __builtin_prefetch(lock->in_tokens.next, 1);
    __builtin_prefetch(lock->in_tokens.prev, 1);
    __builtin_prefetch(lock->lease.in_length.next, 1);
    __builtin_prefetch(lock->lease.in_length.prev, 1);
}

void lq_table_look_ahead(const struct lq_table *table, struct lq_ahead *ahead)
{
    for (size_t i = 0; i < ahead->n; i++) {
        ahead->key_hashes[i] = lq_command_hash(table, &ahead->commands[i]);
        __builtin_prefetch(lq_map_bucket(&table->locks, ahead->key_hashes[i]));
    }
    for (size_t i = 0; i < ahead->n; i++) {
        fetch_lock(table, ahead->key_hashes[i]);
    }
    for (size_t i = 0; i < ahead->n; i++) {
        fetch_neighbours(table, ahead->key_hashes[i]);
    }
}

void lq_table_apply_ahead(struct lq_table *table, const struct lq_ahead *ahead, size_t i,
                          const struct lq_stamp *stamp, struct lq_outcomes *outcomes)
{
    lq_table_apply_hashed(table, &ahead->commands[i], ahead->key_hashes[i], stamp, outcomes);
}
