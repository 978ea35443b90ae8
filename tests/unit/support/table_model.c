#include "table_model.h"

#include "lq_check.h"

#include <string.h>

const char *const lq_model_keys[LQ_MODEL_KEYS] = {
    "a",         "b",   "ab",   "ba",
    "a\xC3\xA9", "key", "key2", "a key that is a good deal longer than others"};

static void tell(struct lq_model *model, uint8_t kind, struct lq_origin_id origin, uint64_t seq)
{
    LQ_CHECK(model->n_outcomes < LQ_MODEL_OUTCOMES);
    model->outcomes[model->n_outcomes++] =
        (struct lq_outcome){.kind = kind, .origin = origin, .seq = seq};
}

/* A lease that begins at `now_ms`: of a grant or a renewal. */
static void tell_lease(struct lq_model *model, struct lq_model_lock *lock, uint8_t kind,
                       struct lq_model_grant to, uint64_t now_ms)
{
    struct lq_outcome *outcome = &model->outcomes[model->n_outcomes];
    tell(model, kind, to.origin, to.seq);
    lock->deadline_ms = now_ms + 1000 * (uint64_t)to.lease_s + 1;
    outcome->token = lock->token;
    outcome->lease_s = to.lease_s;
    outcome->stamp_ms = now_ms;
}

static void grant(struct lq_model *model, struct lq_model_lock *lock, struct lq_model_grant to,
                  uint64_t now_ms)
{
    lock->is_registered = true;
    lock->token = ++model->last_token;
    tell_lease(model, lock, LQ_OUTCOME_GRANTED, to, now_ms);
}

static void remove_waiter(struct lq_model_lock *lock, size_t at)
{
    lock->n_waiters--;
    memmove(&lock->waiters[at], &lock->waiters[at + 1],
            (lock->n_waiters - at) * sizeof *lock->waiters);
}

static void pass_on(struct lq_model *model, struct lq_model_lock *lock, uint64_t now_ms)
{
    if (lock->n_waiters == 0) {
        lock->is_registered = false;
    } else {
        grant(model, lock, lock->waiters[0], now_ms);
        remove_waiter(lock, 0);
    }
}

static bool fits(struct lq_model *model, const char *cap, uint64_t used, uint64_t more,
                 uint64_t limit)
{
    if (used + more > limit) {
        model->busy = cap;
        return false;
    }
    return true;
}

static void acquire(struct lq_model *model, const struct lq_command *command, size_t key,
                    const struct lq_stamp *stamp)
{
    struct lq_model_lock *lock = &model->locks[key];
    struct lq_table_counts now = lq_model_counts(model);
    const struct lq_caps *caps = &stamp->caps;
    struct lq_model_grant who = {command->origin, command->seq, command->lease_s};
    uint8_t answer = LQ_OUTCOME_BUSY;
    if (!lock->is_registered) {
        if (fits(model, "keys", now.keys, 1, caps->keys) &&
            fits(model, "bytes of a key", now.state_bytes, LQ_LOCK_BYTES + command->key_len,
                 caps->state_bytes)) {
            grant(model, lock, who, stamp->time_ms);
            return;
        }
    } else if (command->wait_s == 0) {
        answer = LQ_OUTCOME_TIMEOUT;
    } else if (fits(model, "waiters of a key", lock->n_waiters, 1, caps->waiters_per_key) &&
               fits(model, "waiters", now.waiters, 1, caps->waiters) &&
               fits(model, "bytes of a waiter", now.state_bytes, lq_waiter_bytes(command->key_len),
                    caps->state_bytes)) {
        LQ_CHECK(lock->n_waiters < LQ_MODEL_WAITERS);
        lock->waiters[lock->n_waiters++] = who;
        answer = LQ_OUTCOME_QUEUED;
    }
    tell(model, answer, command->origin, command->seq);
}

static bool is_same(struct lq_origin_id a, struct lq_origin_id b)
{
    return a.node == b.node && a.incarnation == b.incarnation;
}

/* The waiter with this seq, or any of the origin if `seq` is NULL, leaves; false when there is
 * none. */
static bool drop_waiter(struct lq_model *model, struct lq_origin_id origin, const uint64_t *seq)
{
    for (size_t key = 0; key < LQ_MODEL_KEYS; key++) {
        struct lq_model_lock *lock = &model->locks[key];
        for (size_t i = 0; i < lock->n_waiters; i++) {
            if (is_same(lock->waiters[i].origin, origin) &&
                (seq == NULL || lock->waiters[i].seq == *seq)) {
                remove_waiter(lock, i);
                return true;
            }
        }
    }
    return false;
}

static void open_origin(struct lq_model *model, struct lq_origin_id id)
{
    struct lq_model_node *node = &model->nodes[id.node];
    bool is_higher = !node->is_known || id.incarnation > node->incarnation;
    if (is_higher) {
        while (drop_waiter(model, (struct lq_origin_id){id.node, node->incarnation}, NULL)) {
        }
        *node = (struct lq_model_node){true, true, id.incarnation, 0};
    }
    tell(model,
         is_higher || (node->is_open && id.incarnation == node->incarnation) ? LQ_OUTCOME_OPENED
                                                                             : LQ_OUTCOME_REFUSED,
         id, 0);
}

static bool is_open(const struct lq_model *model, struct lq_origin_id id)
{
    const struct lq_model_node *node = &model->nodes[id.node];
    return node->is_known && node->is_open && node->incarnation == id.incarnation;
}

static void close_origin(struct lq_model *model, struct lq_origin_id id)
{
    if (is_open(model, id)) {
        while (drop_waiter(model, id, NULL)) {
        }
        model->nodes[id.node].is_open = false;
    }
    tell(model, LQ_OUTCOME_CLOSED, id, 0);
}

static void apply_from_origin(struct lq_model *model, const struct lq_command *command, size_t key,
                              const struct lq_stamp *stamp)
{
    struct lq_model_lock *lock = &model->locks[key];
    bool is_holder = lock->is_registered && lock->token == command->token;
    uint8_t type = command->type;
    if (!is_open(model, command->origin) ||
        command->seq != model->nodes[command->origin.node].last_seq + 1) {
        tell(model, LQ_OUTCOME_SKIPPED, command->origin, command->seq);
        return;
    }
    model->nodes[command->origin.node].last_seq++;
    if (type == LQ_COMMAND_ACQUIRE) {
        acquire(model, command, key, stamp);
    } else if (type == LQ_COMMAND_CANCEL) {
        bool was_queued = drop_waiter(model, command->origin, &command->target);
        tell(model, was_queued ? LQ_OUTCOME_CANCELLED : LQ_OUTCOME_NOT_QUEUED, command->origin,
             was_queued ? command->target : command->seq);
    } else if (type == LQ_COMMAND_RENEW && is_holder && lock->deadline_ms > stamp->time_ms) {
        tell_lease(model, lock, LQ_OUTCOME_RENEWED,
                   (struct lq_model_grant){command->origin, command->seq, command->lease_s},
                   stamp->time_ms);
    } else if ((type == LQ_COMMAND_RELEASE && is_holder) ||
               (type == LQ_COMMAND_FORCE_RELEASE && lock->is_registered)) {
        tell(model, LQ_OUTCOME_RELEASED, command->origin, command->seq);
        pass_on(model, lock, stamp->time_ms);
    } else {
        tell(model, LQ_OUTCOME_NOT_HELD, command->origin, command->seq);
    }
}

static void expire(struct lq_model *model, const struct lq_command *command, size_t key,
                   uint64_t now_ms)
{
    struct lq_model_lock *lock = &model->locks[key];
    if (lock->is_registered && lock->token == command->token && lock->deadline_ms <= now_ms) {
        tell(model, LQ_OUTCOME_EXPIRED, command->origin, command->seq);
        pass_on(model, lock, now_ms);
    } else {
        tell(model, LQ_OUTCOME_STALE, command->origin, command->seq);
    }
}

void lq_model_apply(struct lq_model *model, const struct lq_command *command, size_t key,
                    const struct lq_stamp *stamp)
{
    model->n_outcomes = 0;
    model->busy = NULL;
    if (command->type == LQ_COMMAND_EXPIRE) {
        expire(model, command, key, stamp->time_ms);
    } else if (command->type == LQ_COMMAND_ORIGIN_OPEN) {
        open_origin(model, command->origin);
    } else if (command->type == LQ_COMMAND_ORIGIN_CLOSE) {
        close_origin(model, command->origin);
    } else {
        apply_from_origin(model, command, key, stamp);
    }
}

struct lq_table_counts lq_model_counts(const struct lq_model *model)
{
    struct lq_table_counts counts = {.last_token = model->last_token};
    for (size_t key = 0; key < LQ_MODEL_KEYS; key++) {
        if (model->locks[key].is_registered) {
            counts.keys++;
            counts.waiters += model->locks[key].n_waiters;
            counts.state_bytes +=
                LQ_LOCK_BYTES + strlen(lq_model_keys[key]) +
                model->locks[key].n_waiters * lq_waiter_bytes(strlen(lq_model_keys[key]));
        }
    }
    return counts;
}

uint64_t lq_model_next_deadline(const struct lq_model *model, bool only_contended)
{
    uint64_t earliest = UINT64_MAX;
    for (size_t key = 0; key < LQ_MODEL_KEYS; key++) {
        const struct lq_model_lock *lock = &model->locks[key];
        if (lock->is_registered && (lock->n_waiters > 0 || !only_contended) &&
            lock->deadline_ms < earliest) {
            earliest = lock->deadline_ms;
        }
    }
    return earliest;
}
