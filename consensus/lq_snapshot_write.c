/* Writing a snapshot while the table goes on. The locks stand in a list by ascending token, since
 * tokens only grow: a new grant goes to the end. A cursor walks the part of the list that existed
 * at the beginning. Whoever is about to change or remove a lock which the cursor has not reached
 * calls lq_snapshot_preserve: the lock is encoded as it was and kept aside until the cursor comes
 * to its token. So the cost of a snapshot is spread over slices, and a change costs one encoding at
 * most, once per lock and snapshot. */
#include "lq_check.h"
#include "lq_mem.h"
#include "lq_planted.h"
#include "lq_snapshot_impl.h"

/* A lock as it was when the snapshot began, encoded. */
struct preserved {
    struct lq_heap_node by_token;
    uint64_t token;
    struct lq_buffer bytes;
};

struct lq_snapshot {
    struct lq_table *table;
    struct lq_list *next; /* the cursor: the next lock in the list, or its end */
    uint64_t last_token;  /* later grants are not part of the snapshot */
    uint64_t digest;
    struct lq_heap preserved; /* by token */
    bool is_complete;
};

static struct lq_writer room(struct lq_buffer *out, size_t len)
{
    return lq_writer_of(lq_buffer_extend(out, len), len);
}

static void write_header(const struct lq_table *table, struct lq_buffer *out)
{
    struct lq_writer writer = room(out, LQ_SNAPSHOT_HEADER);
    uint32_t n_origins = 0;
    for (const struct lq_list *at = table->origins.next; at != &table->origins; at = at->next) {
        n_origins++;
    }
    lq_write_u8(&writer, LQ_SNAPSHOT_VERSION);
    lq_write_bytes(&writer, (const uint8_t[7]){0}, 7);
    lq_write_u64(&writer, table->time_ms);
    lq_write_u64(&writer, table->last_token);
    lq_write_u32(&writer, n_origins);
    lq_write_u64(&writer, table->locks.count);
    LQ_CHECK(!writer.failed && writer.left == 0);
}

static void write_origin(const struct lq_origin *origin, struct lq_buffer *out)
{
    struct lq_writer writer = room(out, LQ_SNAPSHOT_ORIGIN);
    lq_write_u32(&writer, origin->id.node);
    lq_write_u64(&writer, origin->id.incarnation);
    lq_write_u8(&writer, origin->is_open ? 1 : 0);
    lq_write_u64(&writer, origin->last_seq);
    LQ_CHECK(!writer.failed && writer.left == 0);
}

static void write_waiter(const struct lq_waiter *waiter, struct lq_buffer *out)
{
    struct lq_writer writer = room(out, LQ_SNAPSHOT_WAITER);
    lq_write_u32(&writer, waiter->origin->id.node);
    lq_write_u64(&writer, waiter->seq);
    lq_write_u64(&writer, waiter->owner);
    lq_write_u8(&writer, waiter->lease_s);
    LQ_CHECK(!writer.failed && writer.left == 0);
}

static void write_lock(const struct lq_lock *lock, struct lq_buffer *out)
{
    const struct lq_list *waiter = lock->queue == NULL ? NULL : &lock->queue->waiters;
    uint64_t n_waiters = lock->queue == NULL ? 0 : lock->queue->count;
    struct lq_writer writer = room(out, LQ_SNAPSHOT_LOCK + (size_t)lock->key_len);
    lq_write_u64(&writer, lock->token);
    lq_write_u64(&writer, lock->owner);
    lq_write_u64(&writer, lock->lease.end_ms);
    lq_write_u8(&writer, lock->lease_s);
    lq_write_u32(&writer, lock->node);
    lq_write_u64(&writer, lock->incarnation);
    lq_write_u64(&writer, lock->seq);
    lq_write_u16(&writer, lock->key_len);
    lq_write_bytes(&writer, lock->key, lock->key_len);
    if (LQ_PLANTED(LQ_PLANT_SNAPSHOT_FORGETS) && n_waiters > 0) {
        n_waiters--;
    }
    lq_write_u32(&writer, (uint32_t)n_waiters);
    LQ_CHECK(!writer.failed && writer.left == 0);
    for (; n_waiters > 0; n_waiters--) {
        waiter = waiter->next;
        write_waiter(LQ_CONTAINER(waiter, const struct lq_waiter, in_queue), out);
    }
}

struct lq_snapshot *lq_snapshot_begin(struct lq_table *table, struct lq_buffer *out)
{
    struct lq_snapshot *snapshot = lq_calloc(1, sizeof *snapshot);
    LQ_CHECK(table->snapshot == NULL && !table->is_alone);
    snapshot->table = table;
    snapshot->next = table->by_token.next;
    snapshot->last_token = table->last_token;
    snapshot->digest = lq_table_digest(table);
    lq_heap_init(&snapshot->preserved);
    table->snapshot = snapshot;
    write_header(table, out);
    for (const struct lq_list *at = table->origins.next; at != &table->origins; at = at->next) {
        write_origin(LQ_CONTAINER(at, const struct lq_origin, in_table), out);
    }
    return snapshot;
}

/* The lock under the cursor, if it belongs to the snapshot; else NULL. */
static struct lq_lock *under_cursor(const struct lq_snapshot *snapshot)
{
    struct lq_lock *lock = LQ_CONTAINER(snapshot->next, struct lq_lock, in_tokens);
    if (snapshot->next == &snapshot->table->by_token || lock->token > snapshot->last_token) {
        return NULL;
    }
    return lock;
}

/* Whether the lock belongs to the snapshot and was neither written nor preserved. */
static bool is_outstanding(const struct lq_snapshot *snapshot, const struct lq_lock *lock)
{
    const struct lq_lock *next = under_cursor(snapshot);
    return next != NULL && lock->token >= next->token && lock->token <= snapshot->last_token &&
           !lock->is_preserved;
}

void lq_snapshot_preserve(struct lq_table *table, struct lq_lock *lock)
{
    struct lq_snapshot *snapshot = table->snapshot;
    struct preserved *preserved;
    if (snapshot == NULL || !is_outstanding(snapshot, lock)) {
        return;
    }
    preserved = lq_malloc(sizeof *preserved);
    *preserved = (struct preserved){.by_token.place = LQ_HEAP_OUT, .token = lock->token};
    write_lock(lock, &preserved->bytes);
    lq_heap_insert(&snapshot->preserved, &preserved->by_token, lock->token);
    lock->is_preserved = true;
}

void lq_snapshot_skip(struct lq_table *table, struct lq_lock *lock)
{
    struct lq_snapshot *snapshot = table->snapshot;
    if (snapshot != NULL && snapshot->next == &lock->in_tokens) {
        snapshot->next = snapshot->next->next;
    }
    lock->is_preserved = false;
}

static struct preserved *first_preserved(const struct lq_snapshot *snapshot)
{
    struct lq_heap_node *node = lq_heap_first(&snapshot->preserved);
    return node == NULL ? NULL : LQ_CONTAINER(node, struct preserved, by_token);
}

static void drop(struct lq_snapshot *snapshot, struct preserved *preserved)
{
    lq_heap_remove(&snapshot->preserved, &preserved->by_token);
    lq_buffer_done(&preserved->bytes);
    lq_free(preserved);
}

/* What a lock with so many waiters takes of the budget. */
static uint64_t cost_of(const struct lq_lock *lock)
{
    return 1 + (lock == NULL || lock->queue == NULL ? 0 : lock->queue->count / 8);
}

/* Writes the lock with the next token, from the list or from those kept aside. */
static void write_next(struct lq_snapshot *snapshot, struct lq_lock *lock,
                       struct preserved *preserved, struct lq_buffer *out)
{
    if (lock != NULL && lock->is_preserved) {
        lock->is_preserved = false; /* it is among those kept aside, as it was */
        snapshot->next = snapshot->next->next;
    } else if (lock != NULL && (preserved == NULL || lock->token < preserved->token)) {
        write_lock(lock, out);
        snapshot->next = snapshot->next->next;
    } else {
        lq_buffer_add(out, preserved->bytes.bytes, preserved->bytes.len);
        drop(snapshot, preserved);
    }
}

bool lq_snapshot_step(struct lq_snapshot *snapshot, uint64_t budget, struct lq_buffer *out)
{
    while (budget > 0 && !snapshot->is_complete) {
        struct lq_lock *lock = under_cursor(snapshot);
        struct preserved *preserved = first_preserved(snapshot);
        budget -= cost_of(lock) < budget ? cost_of(lock) : budget;
        if (lock != NULL || preserved != NULL) {
            write_next(snapshot, lock, preserved, out);
        } else {
            struct lq_writer writer = room(out, sizeof snapshot->digest);
            lq_write_u64(&writer, snapshot->digest);
            snapshot->is_complete = true;
        }
    }
    return snapshot->is_complete;
}

void lq_snapshot_end(struct lq_snapshot *snapshot)
{
    struct preserved *preserved;
    if (snapshot == NULL) {
        return;
    }
    while ((preserved = first_preserved(snapshot)) != NULL) {
        drop(snapshot, preserved);
    }
    for (struct lq_lock *lock; (lock = under_cursor(snapshot)) != NULL;) {
        lock->is_preserved = false;
        snapshot->next = snapshot->next->next;
    }
    lq_heap_done(&snapshot->preserved);
    snapshot->table->snapshot = NULL;
    lq_free(snapshot);
}
