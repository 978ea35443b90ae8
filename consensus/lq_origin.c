/* Origins: which life of which node may send commands. For each node the table keeps its highest
 * incarnation for ever, open or closed; a lower one, or a closed one, never comes back (design,
 * section 6). */
#include "lq_check.h"
#include "lq_mem.h"
#include "lq_table_impl.h"

/* The entry of a node, or the one before which it would have to be inserted (the end: the list
 * itself). */
static struct lq_list *place_of(const struct lq_table *table, uint32_t node)
{
    struct lq_list *at = table->origins.next;
    while (at != &table->origins && LQ_CONTAINER(at, struct lq_origin, in_table)->id.node < node) {
        at = at->next;
    }
    return at;
}

struct lq_origin *lq_origin_of_node(const struct lq_table *table, uint32_t node)
{
    struct lq_list *at = place_of(table, node);
    struct lq_origin *origin;
    if (at == &table->origins) {
        return NULL;
    }
    origin = LQ_CONTAINER(at, struct lq_origin, in_table);
    return origin->id.node == node ? origin : NULL;
}

struct lq_origin *lq_origin_find_open(const struct lq_table *table, struct lq_origin_id id)
{
    struct lq_origin *origin = lq_origin_of_node(table, id.node);
    if (origin == NULL || !origin->is_open || origin->id.incarnation != id.incarnation) {
        return NULL;
    }
    return origin;
}

static void answer(struct lq_apply *apply, enum lq_outcome_kind kind)
{
    lq_outcomes_add(apply->outcomes,
                    (struct lq_outcome){.kind = (uint8_t)kind, .origin = apply->command->origin});
}

/* Its waiters leave the queues: nothing is handed to the dead. */
static void close_origin(struct lq_table *table, struct lq_origin *origin)
{
    while (!lq_list_is_empty(&origin->waiters)) {
        lq_waiter_remove_run(table,
                             LQ_CONTAINER(origin->waiters.next, struct lq_waiter, in_origin));
    }
    origin->is_open = false;
}

static struct lq_origin *new_origin(void)
{
    struct lq_origin *origin = lq_calloc(1, sizeof *origin);
    lq_list_init(&origin->waiters);
    return origin;
}

static struct lq_origin *add_origin(struct lq_table *table, uint32_t node)
{
    struct lq_origin *origin = new_origin();
    lq_list_append(place_of(table, node), &origin->in_table); /* before that place */
    return origin;
}

void lq_origin_open(struct lq_apply *apply)
{
    struct lq_origin_id id = apply->command->origin;
    struct lq_origin *origin = lq_origin_of_node(apply->table, id.node);
    if (origin != NULL && (id.incarnation < origin->id.incarnation ||
                           (id.incarnation == origin->id.incarnation && !origin->is_open))) {
        answer(apply, LQ_OUTCOME_REFUSED);
        return;
    }
    if (origin == NULL) {
        origin = add_origin(apply->table, id.node);
    } else if (id.incarnation > origin->id.incarnation) {
        close_origin(apply->table, origin);
        origin->last_seq = 0;
    }
    origin->id = id;
    origin->is_open = true;
    answer(apply, LQ_OUTCOME_OPENED);
}

void lq_origin_close(struct lq_apply *apply)
{
    struct lq_origin *origin = lq_origin_find_open(apply->table, apply->command->origin);
    if (origin != NULL) {
        close_origin(apply->table, origin);
    }
    answer(apply, LQ_OUTCOME_CLOSED);
}

/* ---- Reading. */

static struct lq_origin_state state_of(const struct lq_origin *origin)
{
    return (struct lq_origin_state){.id = origin->id,
                                    .is_open = origin->is_open,
                                    .last_seq = origin->last_seq,
                                    .n_waiters = origin->n_waiters};
}

bool lq_table_origin(const struct lq_table *table, uint32_t node, struct lq_origin_state *ret)
{
    const struct lq_origin *origin = lq_origin_of_node(table, node);
    if (origin == NULL) {
        return false;
    }
    *ret = state_of(origin);
    return true;
}

bool lq_table_next_origin(const struct lq_table *table, uint32_t after, struct lq_origin_state *ret)
{
    const struct lq_list *at = table->origins.next;
    for (; at != &table->origins; at = at->next) {
        const struct lq_origin *origin = LQ_CONTAINER(at, const struct lq_origin, in_table);
        if (origin->id.node > after) {
            *ret = state_of(origin);
            return true;
        }
    }
    return false;
}

size_t lq_table_origins(const struct lq_table *table, struct lq_origin_state *ret, size_t max)
{
    const struct lq_list *at = table->origins.next;
    size_t n = 0;
    for (; n < max && at != &table->origins; at = at->next) {
        ret[n++] = state_of(LQ_CONTAINER(at, const struct lq_origin, in_table));
    }
    return n;
}

/* Whether a lock is held by the grant of this command. */
static bool is_grant_of(const struct lq_lock *lock, struct lq_origin_id id, uint64_t seq)
{
    return lock->node == id.node && lock->incarnation == id.incarnation && lock->seq == seq;
}

enum lq_fate lq_table_fate(const struct lq_table *table, struct lq_origin_id origin, uint64_t seq,
                           const uint8_t *key, size_t key_len, struct lq_outcome *ret)
{
    const struct lq_origin *open = lq_origin_find_open(table, origin);
    const struct lq_lock *lock =
        lq_lock_find(table, key, key_len, lq_key_hash(table, key, key_len));
    if (open != NULL && lq_waiter_find(table, open, seq) != NULL) {
        return LQ_FATE_WAITING;
    }
    if (lock == NULL || !is_grant_of(lock, origin, seq)) {
        return LQ_FATE_GONE;
    }
    *ret = (struct lq_outcome){.kind = LQ_OUTCOME_GRANTED,
                               .lease_s = lock->lease_s,
                               .origin = origin,
                               .seq = seq,
                               .token = lock->token,
                               .stamp_ms = lq_span_beginning(lock->lease.end_ms, lock->lease_s)};
    return LQ_FATE_HOLDING;
}

/* ---- From outside of the log. */

void lq_table_reborn(struct lq_table *table, uint64_t token_raise)
{
    LQ_CHECK(token_raise <= UINT64_MAX - table->last_token);
    for (struct lq_list *at = table->origins.next; at != &table->origins; at = at->next) {
        close_origin(table, LQ_CONTAINER(at, struct lq_origin, in_table));
    }
    table->last_token += token_raise;
}

bool lq_origin_restore(struct lq_table *table, struct lq_origin_id id, bool is_open,
                       uint64_t last_seq)
{
    const struct lq_list *last = table->origins.prev;
    struct lq_origin *origin;
    if (last != &table->origins &&
        LQ_CONTAINER(last, struct lq_origin, in_table)->id.node >= id.node) {
        return false;
    }
    origin = new_origin();
    lq_list_append(&table->origins, &origin->in_table);
    origin->id = id;
    origin->is_open = is_open;
    origin->last_seq = last_seq;
    return true;
}
