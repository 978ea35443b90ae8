/* Making a table of a snapshot. The bytes may come from a disk or from another node, so each part
 * is checked where it is read; at the end the digest of the table that came of them has to be the
 * one that they name. */
#include "lq_check.h"
#include "lq_key.h"
#include "lq_mem.h"
#include "lq_snapshot_impl.h"

#include <stdlib.h>
#include <string.h>

struct restore {
    struct lq_table *table;
    struct lq_reader reader;
    struct lq_lock **locks; /* for sorting by the beginning of their leases */
    size_t n_locks, cap_locks;
};

static bool is_zero(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static bool read_origin(struct restore *restore)
{
    struct lq_reader *reader = &restore->reader;
    struct lq_table *table = restore->table;
    struct lq_origin_id id;
    uint8_t is_open;
    uint64_t last_seq;
    id.node = lq_read_u32(reader);
    id.incarnation = lq_read_u64(reader);
    is_open = lq_read_u8(reader);
    last_seq = lq_read_u64(reader);
    return !reader->failed && is_open <= 1 && lq_origin_restore(table, id, is_open == 1, last_seq);
}

/* Reads the fields of a lock before its waiters; NULL when they cannot be. */
static struct lq_lock *read_lock(struct restore *restore)
{
    struct lq_reader *reader = &restore->reader;
    struct lq_lock fields = {0};
    const uint8_t *key;
    fields.token = lq_read_u64(reader);
    fields.owner = lq_read_u64(reader);
    fields.lease.end_ms = lq_read_u64(reader);
    fields.lease_s = lq_read_u8(reader);
    fields.node = lq_read_u32(reader);
    fields.incarnation = lq_read_u64(reader);
    fields.seq = lq_read_u64(reader);
    fields.key_len = lq_read_u16(reader);
    key = lq_read_bytes(reader, fields.key_len);
    if (key == NULL || !lq_key_is_valid(key, fields.key_len)) {
        return NULL;
    }
    return lq_lock_restore(restore->table, &fields, key);
}

static bool read_waiter(struct restore *restore, struct lq_lock *lock)
{
    struct lq_reader *reader = &restore->reader;
    struct lq_waiter fields = {.lock = lock};
    fields.origin = lq_origin_of_node(restore->table, lq_read_u32(reader));
    fields.seq = lq_read_u64(reader);
    fields.owner = lq_read_u64(reader);
    fields.lease_s = lq_read_u8(reader);
    return !reader->failed && lq_waiter_restore(restore->table, &fields);
}

static void note_lock(struct restore *restore, struct lq_lock *lock)
{
    if (restore->n_locks == restore->cap_locks) {
        restore->cap_locks = restore->cap_locks == 0 ? 64 : 2 * restore->cap_locks;
        restore->locks = lq_realloc(restore->locks, restore->cap_locks, sizeof(struct lq_lock *));
    }
    restore->locks[restore->n_locks++] = lock;
}

static bool read_lock_and_queue(struct restore *restore)
{
    struct lq_lock *lock = read_lock(restore);
    uint32_t n_waiters;
    if (lock == NULL) {
        return false;
    }
    note_lock(restore, lock);
    n_waiters = lq_read_u32(&restore->reader);
    for (uint32_t i = 0; i < n_waiters; i++) {
        if (!read_waiter(restore, lock)) {
            return false;
        }
    }
    return true;
}

static bool read_parts(struct restore *restore)
{
    struct lq_reader *reader = &restore->reader;
    uint8_t version = lq_read_u8(reader);
    const uint8_t *reserved = lq_read_bytes(reader, 7);
    uint64_t time_ms = lq_read_u64(reader);
    uint64_t last_token = lq_read_u64(reader);
    uint32_t n_origins = lq_read_u32(reader);
    uint64_t n_locks = lq_read_u64(reader);
    if (reader->failed || version != LQ_SNAPSHOT_VERSION || !is_zero(reserved, 7) ||
        time_ms > LQ_SNAPSHOT_NUMBER_MAX || last_token > LQ_SNAPSHOT_NUMBER_MAX) {
        return false;
    }
    restore->table->time_ms = time_ms;
    restore->table->last_token = last_token;
    for (uint32_t i = 0; i < n_origins; i++) {
        if (!read_origin(restore)) {
            return false;
        }
    }
    if (n_locks > reader->left / LQ_SNAPSHOT_LOCK) {
        return false; /* more than there are bytes for */
    }
    lq_map_reserve(&restore->table->locks, n_locks);
    for (uint64_t i = 0; i < n_locks; i++) {
        if (!read_lock_and_queue(restore)) {
            return false;
        }
    }
    return true;
}

static int by_lease_end(const void *a, const void *b)
{
    const struct lq_lock *first = *(struct lq_lock *const *)a;
    const struct lq_lock *second = *(struct lq_lock *const *)b;
    if (first->lease.end_ms != second->lease.end_ms) {
        return first->lease.end_ms < second->lease.end_ms ? -1 : 1;
    }
    return first->token < second->token ? -1 : first->token > second->token;
}

/* Leases of one length run in the order in which they began, which is that of their ends. */
static void start_leases(struct restore *restore)
{
    if (restore->n_locks > 1) {
        qsort(restore->locks, restore->n_locks, sizeof(struct lq_lock *), by_lease_end);
    }
    for (size_t i = 0; i < restore->n_locks; i++) {
        struct lq_lock *lock = restore->locks[i];
        lq_spans_resume(&restore->table->leases, &lock->lease, lock->lease_s);
    }
}

struct lq_table *lq_snapshot_restore(const uint8_t *bytes, size_t len, const uint8_t secret[16])
{
    struct restore restore = {.table = lq_table_new(secret, 1), .reader = lq_reader_of(bytes, len)};
    bool is_read = read_parts(&restore);
    uint64_t digest = lq_read_u64(&restore.reader);
    if (is_read) {
        start_leases(&restore);
        is_read = !restore.reader.failed && restore.reader.left == 0 &&
                  digest == lq_table_digest(restore.table);
    }
    lq_free(restore.locks);
    if (!is_read) {
        lq_table_free(restore.table);
        return NULL;
    }
    return restore.table;
}
