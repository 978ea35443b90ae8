/* Commands of the lock table, one small function each. The matrices of docs/protocol.md can be read
 * off here. */
#include "lq_table.h"

#include "lq_check.h"
#include "lq_limits.h"
#include "lq_mem.h"
#include "lq_planted.h"
#include "lq_table_impl.h"

#include <string.h>

void lq_outcomes_init(struct lq_outcomes *outcomes)
{
    *outcomes = (struct lq_outcomes){0};
}

void lq_outcomes_done(struct lq_outcomes *outcomes)
{
    lq_free(outcomes->items);
    lq_outcomes_init(outcomes);
}

void lq_outcomes_add(struct lq_outcomes *outcomes, struct lq_outcome outcome)
{
    if (outcomes->count == outcomes->cap) {
        outcomes->cap = outcomes->cap == 0 ? 64 : 2 * outcomes->cap;
        outcomes->items = lq_realloc(outcomes->items, outcomes->cap, sizeof *outcomes->items);
    }
    outcomes->items[outcomes->count++] = outcome;
}

struct lq_table *lq_table_new(const uint8_t secret[16], uint64_t first_token)
{
    struct lq_table *table = lq_calloc(1, sizeof *table);
    LQ_CHECK(first_token >= 1);
    memcpy(table->secret, secret, sizeof table->secret);
    lq_map_init(&table->locks, lq_lock_hash, table);
    lq_map_init(&table->waiters, lq_waiter_hash, table);
    lq_spans_init(&table->leases);
    lq_heap_init(&table->contended);
    lq_list_init(&table->by_token);
    lq_list_init(&table->origins);
    table->last_token = first_token - 1;
    return table;
}

struct lq_table *lq_table_new_alone(const uint8_t secret[16], uint64_t first_token)
{
    struct lq_table *table = lq_table_new(secret, first_token);
    table->is_alone = true;
    return table;
}

static void free_lock(struct lq_map_node *node, void *argument)
{
    struct lq_lock *lock = LQ_CONTAINER(node, struct lq_lock, by_key);
    (void)argument;
    lq_free(lock->queue);
    lq_free(lock);
}

static void free_waiter(struct lq_map_node *node, void *argument)
{
    (void)argument;
    lq_free(LQ_CONTAINER(node, struct lq_waiter, by_command));
}

void lq_table_free(struct lq_table *table)
{
    struct lq_list *member;
    if (table == NULL) {
        return;
    }
    LQ_CHECK(table->snapshot == NULL);
    lq_map_each(&table->waiters, free_waiter, NULL);
    lq_map_each(&table->locks, free_lock, NULL);
    while ((member = lq_list_take(&table->origins)) != NULL) {
        lq_free(LQ_CONTAINER(member, struct lq_origin, in_table));
    }
    lq_map_done(&table->waiters);
    lq_map_done(&table->locks);
    lq_spans_done(&table->leases);
    lq_heap_done(&table->contended);
    lq_free(table);
}

/* Answers the command being applied. */
static void answer(struct lq_apply *apply, enum lq_outcome_kind kind)
{
    lq_outcomes_add(apply->outcomes, (struct lq_outcome){.kind = (uint8_t)kind,
                                                         .origin = apply->command->origin,
                                                         .seq = apply->command->seq});
}

/* The lock of the command's key, or NULL. */
static struct lq_lock *find_lock(const struct lq_apply *apply)
{
    const struct lq_command *command = apply->command;
    return lq_lock_find(apply->table, command->key, command->key_len, apply->key_hash);
}

static bool room_for_key(const struct lq_apply *apply)
{
    const struct lq_table *table = apply->table;
    const struct lq_caps *caps = &apply->stamp->caps;
    return table->locks.count < caps->keys &&
           table->state_bytes + LQ_LOCK_BYTES + apply->command->key_len <= caps->state_bytes;
}

static bool room_for_waiter(const struct lq_apply *apply, const struct lq_lock *lock)
{
    const struct lq_table *table = apply->table;
    const struct lq_caps *caps = &apply->stamp->caps;
    uint64_t here = lock->queue == NULL ? 0 : lock->queue->count;
    return here < caps->waiters_per_key && table->waiters.count < caps->waiters &&
           table->state_bytes + lq_waiter_bytes(lock->key_len) <= caps->state_bytes;
}

static void acquire(struct lq_apply *apply, struct lq_origin *origin)
{
    const struct lq_command *command = apply->command;
    struct lq_lock *lock = find_lock(apply);
    if (lock == NULL && room_for_key(apply)) {
        lq_lock_register(apply);
    } else if (lock == NULL) {
        answer(apply, LQ_OUTCOME_BUSY);
    } else if (command->wait_s == 0) {
        answer(apply, LQ_OUTCOME_TIMEOUT);
    } else if (room_for_waiter(apply, lock)) {
        lq_lock_enqueue(apply, lock, origin);
    } else {
        answer(apply, LQ_OUTCOME_BUSY);
    }
}

static void end_grant(struct lq_apply *apply, struct lq_lock *lock, enum lq_outcome_kind kind)
{
    answer(apply, kind);
    lq_lock_pass_on(apply, lock);
}

static void release(struct lq_apply *apply)
{
    const struct lq_command *command = apply->command;
    struct lq_lock *lock = find_lock(apply);
    bool forced = command->type == LQ_COMMAND_FORCE_RELEASE;
    if (lock != NULL && (forced || lock->token == command->token)) {
        end_grant(apply, lock, LQ_OUTCOME_RELEASED);
    } else {
        answer(apply, LQ_OUTCOME_NOT_HELD);
    }
}

static void renew(struct lq_apply *apply)
{
    const struct lq_command *command = apply->command;
    struct lq_lock *lock = find_lock(apply);
    if (lock != NULL && lock->token == command->token &&
        lock->lease.end_ms > apply->stamp->time_ms) {
        lq_lock_renew(apply, lock);
        lq_outcomes_add(apply->outcomes, (struct lq_outcome){.kind = LQ_OUTCOME_RENEWED,
                                                             .lease_s = command->lease_s,
                                                             .origin = command->origin,
                                                             .seq = command->seq,
                                                             .token = command->token,
                                                             .stamp_ms = apply->stamp->time_ms});
    } else {
        answer(apply, LQ_OUTCOME_NOT_HELD);
    }
}

static void cancel(struct lq_apply *apply, const struct lq_origin *origin)
{
    struct lq_waiter *waiter = lq_waiter_find(apply->table, origin, apply->command->target);
    if (waiter == NULL) {
        answer(apply, LQ_OUTCOME_NOT_QUEUED);
        return;
    }
    lq_outcomes_add(apply->outcomes, (struct lq_outcome){.kind = LQ_OUTCOME_CANCELLED,
                                                         .origin = origin->id,
                                                         .seq = waiter->seq});
    if (!LQ_PLANTED(LQ_PLANT_GRANT_CANCELLED)) {
        lq_waiter_remove(apply->table, waiter);
    }
}

/* Whether an EXPIRE ends this grant: it names the token, and the lease was not renewed meanwhile.
 */
static bool is_expired(const struct lq_apply *apply, const struct lq_lock *lock)
{
    bool is_named = lock->token == apply->command->token;
    bool is_over = lock->lease.end_ms <= apply->stamp->time_ms;
    if (LQ_PLANTED(LQ_PLANT_EXPIRE_ANY_TOKEN)) {
        return is_over || !is_named;
    }
    return is_named && (is_over || LQ_PLANTED(LQ_PLANT_EXPIRE_EARLY));
}

static void expire(struct lq_apply *apply)
{
    struct lq_lock *lock = find_lock(apply);
    if (lock != NULL && is_expired(apply, lock)) {
        end_grant(apply, lock, LQ_OUTCOME_EXPIRED);
    } else {
        answer(apply, LQ_OUTCOME_STALE);
    }
}

/* Commands of clients take effect exactly once, in the order of their origin. */
static void apply_from_origin(struct lq_apply *apply)
{
    const struct lq_command *command = apply->command;
    struct lq_origin *origin = lq_origin_find_open(apply->table, command->origin);
    bool is_again =
        LQ_PLANTED(LQ_PLANT_NO_DEDUPLICATION) && origin != NULL && command->seq <= origin->last_seq;
    if (origin == NULL || (command->seq != origin->last_seq + 1 && !is_again)) {
        answer(apply, LQ_OUTCOME_SKIPPED);
        return;
    }
    origin->last_seq = is_again ? origin->last_seq : command->seq;
    switch ((enum lq_command_type)command->type) {
    case LQ_COMMAND_ACQUIRE:
        acquire(apply, origin);
        break;
    case LQ_COMMAND_RELEASE:
    case LQ_COMMAND_FORCE_RELEASE:
        release(apply);
        break;
    case LQ_COMMAND_RENEW:
        renew(apply);
        break;
    case LQ_COMMAND_CANCEL:
        cancel(apply, origin);
        break;
    case LQ_COMMAND_EXPIRE:
    case LQ_COMMAND_ORIGIN_OPEN:
    case LQ_COMMAND_ORIGIN_CLOSE:
        LQ_BUG("a command of the leader");
    }
}

static bool is_well_formed(const struct lq_command *command)
{
    switch ((enum lq_command_type)command->type) {
    case LQ_COMMAND_ACQUIRE:
    case LQ_COMMAND_RENEW:
        return command->lease_s >= 1 && command->key_len >= 1 && command->key_len <= LQ_KEY_MAX;
    case LQ_COMMAND_RELEASE:
    case LQ_COMMAND_FORCE_RELEASE:
    case LQ_COMMAND_EXPIRE:
        return command->key_len >= 1 && command->key_len <= LQ_KEY_MAX;
    case LQ_COMMAND_CANCEL:
    case LQ_COMMAND_ORIGIN_OPEN:
    case LQ_COMMAND_ORIGIN_CLOSE:
        return true;
    }
    return false;
}

void lq_table_apply_hashed(struct lq_table *table, const struct lq_command *command,
                           uint64_t key_hash, const struct lq_stamp *stamp,
                           struct lq_outcomes *outcomes)
{
    struct lq_apply apply = {.table = table,
                             .command = command,
                             .stamp = stamp,
                             .outcomes = outcomes,
                             .key_hash = key_hash};
    LQ_CHECK(is_well_formed(command));
    LQ_CHECK(stamp->time_ms >= table->time_ms);
    table->time_ms = stamp->time_ms;
    switch ((enum lq_command_type)command->type) {
    case LQ_COMMAND_ACQUIRE:
    case LQ_COMMAND_RELEASE:
    case LQ_COMMAND_RENEW:
    case LQ_COMMAND_CANCEL:
    case LQ_COMMAND_FORCE_RELEASE:
        apply_from_origin(&apply);
        break;
    case LQ_COMMAND_EXPIRE:
        expire(&apply);
        break;
    case LQ_COMMAND_ORIGIN_OPEN:
        lq_origin_open(&apply);
        break;
    case LQ_COMMAND_ORIGIN_CLOSE:
        lq_origin_close(&apply);
        break;
    }
}

void lq_table_apply(struct lq_table *table, const struct lq_command *command,
                    const struct lq_stamp *stamp, struct lq_outcomes *outcomes)
{
    lq_table_apply_hashed(table, command, lq_command_hash(table, command), stamp, outcomes);
}

uint64_t lq_table_next_deadline(const struct lq_table *table, enum lq_which which)
{
    return which == LQ_WHICH_ALL ? lq_spans_first_ms(&table->leases)
                                 : lq_heap_first_ms(&table->contended);
}

/* The lock among those whose lease ends first, or NULL. */
static const struct lq_lock *first_lock(const struct lq_table *table, enum lq_which which)
{
    struct lq_span *lease = lq_spans_first(&table->leases);
    struct lq_heap_node *node = lq_heap_first(&table->contended);
    if (which == LQ_WHICH_ALL) {
        return lease == NULL ? NULL : LQ_CONTAINER(lease, struct lq_lock, lease);
    }
    return node == NULL ? NULL : LQ_CONTAINER(node, struct lq_queue, by_deadline)->lock;
}

static struct lq_command expire_of(const struct lq_lock *lock)
{
    return (struct lq_command){.type = LQ_COMMAND_EXPIRE,
                               .token = lock->token,
                               .key_len = lock->key_len,
                               .key = lock->key};
}

/* The EXPIRE of this lock, if its lease has ended. */
static bool due(const struct lq_lock *lock, uint64_t time_ms, struct lq_command *ret_expire)
{
    if (lock->lease.end_ms > time_ms) {
        return false;
    }
    *ret_expire = expire_of(lock);
    return true;
}

bool lq_table_due(const struct lq_table *table, enum lq_which which, uint64_t time_ms,
                  struct lq_command *ret_expire)
{
    const struct lq_lock *lock = first_lock(table, which);
    return lock != NULL && due(lock, time_ms, ret_expire);
}

bool lq_table_key_due(const struct lq_table *table, const uint8_t *key, size_t key_len,
                      uint64_t time_ms, struct lq_command *ret_expire)
{
    const struct lq_lock *lock;
    if (lq_table_next_deadline(table, LQ_WHICH_ALL) > time_ms) {
        return false; /* nothing at all is due: the usual case, without a look-up */
    }
    lock = lq_lock_find(table, key, key_len, lq_key_hash(table, key, key_len));
    return lock != NULL && due(lock, time_ms, ret_expire);
}

/* What lq_table_due_all hands through. */
struct due_visit {
    void (*visit)(void *context, const struct lq_command *expire);
    void *context;
};

static void visit_due(const struct lq_span *lease, void *argument)
{
    const struct due_visit *visit = argument;
    struct lq_command expire = expire_of(LQ_CONTAINER(lease, const struct lq_lock, lease));
    visit->visit(visit->context, &expire);
}

size_t lq_table_due_all(const struct lq_table *table, uint64_t time_ms, size_t max,
                        void (*visit)(void *context, const struct lq_command *expire),
                        void *context)
{
    struct due_visit all = {.visit = visit, .context = context};
    return lq_spans_each_ended(&table->leases, time_ms, max, visit_due, &all);
}

struct lq_table_counts lq_table_counts(const struct lq_table *table)
{
    return (struct lq_table_counts){.keys = table->locks.count,
                                    .waiters = table->waiters.count,
                                    .state_bytes = table->state_bytes,
                                    .last_token = table->last_token,
                                    .time_ms = table->time_ms};
}
