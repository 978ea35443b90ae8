#include "sim_check_model.h"

#include "lq_mem.h"

#include <string.h>

void sim_model_done(struct sim_model *model)
{
    for (size_t key = 0; key < SIM_KEYS; key++) {
        lq_free(model->locks[key].waiters);
    }
    lq_free(model->outcomes);
    lq_free(model->facts);
}

static struct lq_outcome *tell(struct sim_model *model, uint8_t kind, struct lq_origin_id origin,
                               uint64_t seq)
{
    if (model->n_outcomes == model->cap_outcomes) {
        model->cap_outcomes = 2 * model->cap_outcomes + 8;
        model->outcomes = lq_realloc(model->outcomes, model->cap_outcomes, sizeof *model->outcomes);
    }
    model->outcomes[model->n_outcomes] =
        (struct lq_outcome){.kind = kind, .origin = origin, .seq = seq};
    return &model->outcomes[model->n_outcomes++];
}

static void add_fact(struct sim_model *model, struct sim_fact fact)
{
    if (model->n_facts == model->cap_facts) {
        model->cap_facts = 2 * model->cap_facts + 8;
        model->facts = lq_realloc(model->facts, model->cap_facts, sizeof *model->facts);
    }
    model->facts[model->n_facts++] = fact;
}

static uint32_t key_of(const struct sim_model *model, const struct sim_model_lock *lock)
{
    return (uint32_t)(lock - model->locks);
}

static void grant(struct sim_model *model, struct sim_model_lock *lock,
                  const struct sim_model_waiter *to)
{
    struct lq_outcome *outcome = tell(model, LQ_OUTCOME_GRANTED, to->origin, to->seq);
    lock->is_held = true;
    lock->token = ++model->last_token;
    lock->owner = to->owner;
    lock->end_ms = model->time_ms + 1000 * (uint64_t)to->lease_s + 1;
    outcome->token = lock->token;
    outcome->lease_s = to->lease_s;
    outcome->stamp_ms = model->time_ms;
    add_fact(model, (struct sim_fact){.kind = SIM_FACT_GRANTED,
                                      .lease_s = to->lease_s,
                                      .key = key_of(model, lock),
                                      .owner = to->owner,
                                      .token = lock->token});
}

static void remove_waiter(struct sim_model *model, struct sim_model_lock *lock, size_t at)
{
    lock->n_waiters--;
    memmove(&lock->waiters[at], &lock->waiters[at + 1],
            (lock->n_waiters - at) * sizeof *lock->waiters);
    model->n_waiters--;
    model->bytes -= lq_waiter_bytes(lock->key_len);
}

/* The present grant ends, in this way; the next in the queue gets the lock. */
static void end_grant(struct sim_model *model, struct sim_model_lock *lock, enum sim_fact_kind kind)
{
    add_fact(model, (struct sim_fact){.kind = kind,
                                      .key = key_of(model, lock),
                                      .owner = lock->owner,
                                      .token = lock->token});
    if (lock->n_waiters == 0) {
        lock->is_held = false;
        model->n_keys--;
        model->bytes -= LQ_LOCK_BYTES + lock->key_len;
        return;
    }
    struct sim_model_waiter head = lock->waiters[0];
    remove_waiter(model, lock, 0);
    grant(model, lock, &head);
}

static void queue(struct sim_model *model, struct sim_model_lock *lock,
                  const struct sim_model_waiter *who)
{
    if (lock->n_waiters == lock->cap_waiters) {
        lock->cap_waiters = 2 * lock->cap_waiters + 8;
        lock->waiters = lq_realloc(lock->waiters, lock->cap_waiters, sizeof *lock->waiters);
    }
    lock->waiters[lock->n_waiters++] = *who;
    model->n_waiters++;
    model->bytes += lq_waiter_bytes(lock->key_len);
}

static void acquire(struct sim_model *model, struct sim_model_lock *lock,
                    const struct lq_command *command, const struct lq_caps *caps)
{
    struct sim_model_waiter who = {command->origin, command->seq, command->owner, command->lease_s};
    uint64_t waiter_bytes = lq_waiter_bytes(command->key_len);
    uint8_t outcome = LQ_OUTCOME_BUSY;
    enum sim_fact_kind fact = SIM_FACT_BUSY;
    if (!lock->is_held) {
        if (model->n_keys < caps->keys &&
            model->bytes + LQ_LOCK_BYTES + command->key_len <= caps->state_bytes) {
            lock->key_len = command->key_len;
            model->n_keys++;
            model->bytes += LQ_LOCK_BYTES + command->key_len;
            grant(model, lock, &who);
            return;
        }
    } else if (command->wait_s == 0) {
        outcome = LQ_OUTCOME_TIMEOUT;
        fact = SIM_FACT_TIMEOUT;
    } else if (lock->n_waiters < caps->waiters_per_key && model->n_waiters < caps->waiters &&
               model->bytes + waiter_bytes <= caps->state_bytes) {
        queue(model, lock, &who);
        outcome = LQ_OUTCOME_QUEUED;
        fact = SIM_FACT_QUEUED;
    }
    tell(model, outcome, command->origin, command->seq);
    add_fact(model, (struct sim_fact){.kind = fact,
                                      .lease_s = command->lease_s,
                                      .key = key_of(model, lock),
                                      .owner = command->owner});
}

static bool is_same(struct lq_origin_id a, struct lq_origin_id b)
{
    return a.node == b.node && a.incarnation == b.incarnation;
}

/* The waiter of this origin with this seq, or any of it if `seq` is 0, leaves its queue; false when
 * there is none. */
static bool drop_waiter(struct sim_model *model, struct lq_origin_id origin, uint64_t seq)
{
    for (uint32_t key = 0; key < SIM_KEYS; key++) {
        struct sim_model_lock *lock = &model->locks[key];
        for (size_t i = 0; i < lock->n_waiters; i++) {
            struct sim_model_waiter *waiter = &lock->waiters[i];
            if (is_same(waiter->origin, origin) && (seq == 0 || waiter->seq == seq)) {
                add_fact(model,
                         (struct sim_fact){.kind = seq == 0 ? SIM_FACT_DROPPED : SIM_FACT_CANCELLED,
                                           .key = key,
                                           .owner = waiter->owner});
                remove_waiter(model, lock, i);
                return true;
            }
        }
    }
    return false;
}

static void drop_waiters(struct sim_model *model, struct lq_origin_id origin)
{
    while (drop_waiter(model, origin, 0)) {
    }
}

static void open_origin(struct sim_model *model, struct lq_origin_id id)
{
    struct sim_model_node *node = &model->nodes[id.node];
    bool is_higher = !node->is_known || id.incarnation > node->incarnation;
    if (is_higher) {
        drop_waiters(model, (struct lq_origin_id){id.node, node->incarnation});
        *node = (struct sim_model_node){true, true, id.incarnation, 0};
    }
    bool is_open = node->is_open && node->incarnation == id.incarnation;
    tell(model, is_open ? LQ_OUTCOME_OPENED : LQ_OUTCOME_REFUSED, id, 0);
}

static bool origin_is_open(const struct sim_model *model, struct lq_origin_id id)
{
    const struct sim_model_node *node = &model->nodes[id.node];
    return node->is_open && node->incarnation == id.incarnation;
}

static void close_origin(struct sim_model *model, struct lq_origin_id id)
{
    if (origin_is_open(model, id)) {
        drop_waiters(model, id);
        model->nodes[id.node].is_open = false;
    }
    tell(model, LQ_OUTCOME_CLOSED, id, 0);
}

static void cancel(struct sim_model *model, const struct lq_command *command)
{
    if (command->target != 0 && drop_waiter(model, command->origin, command->target)) {
        tell(model, LQ_OUTCOME_CANCELLED, command->origin, command->target);
    } else {
        tell(model, LQ_OUTCOME_NOT_QUEUED, command->origin, command->seq);
    }
}

static void refuse(struct sim_model *model, struct sim_model_lock *lock,
                   const struct lq_command *command)
{
    tell(model, LQ_OUTCOME_NOT_HELD, command->origin, command->seq);
    add_fact(model,
             (struct sim_fact){.kind = command->type == LQ_COMMAND_RENEW ? SIM_FACT_NOT_RENEWED
                                                                         : SIM_FACT_NOT_RELEASED,
                               .key = key_of(model, lock),
                               .token = command->token});
}

static void renew(struct sim_model *model, struct sim_model_lock *lock,
                  const struct lq_command *command)
{
    struct lq_outcome *outcome;
    if (!lock->is_held || lock->token != command->token || lock->end_ms <= model->time_ms) {
        refuse(model, lock, command);
        return;
    }
    lock->end_ms = model->time_ms + 1000 * (uint64_t)command->lease_s + 1;
    outcome = tell(model, LQ_OUTCOME_RENEWED, command->origin, command->seq);
    outcome->lease_s = command->lease_s;
    outcome->token = command->token;
    outcome->stamp_ms = model->time_ms;
    add_fact(model, (struct sim_fact){.kind = SIM_FACT_RENEWED,
                                      .lease_s = command->lease_s,
                                      .key = key_of(model, lock),
                                      .owner = lock->owner,
                                      .token = lock->token});
}

static void release(struct sim_model *model, struct sim_model_lock *lock,
                    const struct lq_command *command)
{
    bool is_forced = command->type == LQ_COMMAND_FORCE_RELEASE;
    if (!lock->is_held || (!is_forced && lock->token != command->token)) {
        refuse(model, lock, command);
        return;
    }
    tell(model, LQ_OUTCOME_RELEASED, command->origin, command->seq);
    end_grant(model, lock, is_forced ? SIM_FACT_FORCED : SIM_FACT_RELEASED);
}

static void expire(struct sim_model *model, struct sim_model_lock *lock,
                   const struct lq_command *command)
{
    if (lock->is_held && lock->token == command->token && lock->end_ms <= model->time_ms) {
        tell(model, LQ_OUTCOME_EXPIRED, command->origin, command->seq);
        end_grant(model, lock, SIM_FACT_EXPIRED);
    } else {
        tell(model, LQ_OUTCOME_STALE, command->origin, command->seq);
    }
}

static void from_origin(struct sim_model *model, struct sim_model_lock *lock,
                        const struct lq_command *command, const struct lq_caps *caps)
{
    struct sim_model_node *node = &model->nodes[command->origin.node];
    if (!origin_is_open(model, command->origin) || command->seq != node->last_seq + 1) {
        tell(model, LQ_OUTCOME_SKIPPED, command->origin, command->seq);
        return;
    }
    node->last_seq++;
    if (command->type == LQ_COMMAND_ACQUIRE) {
        acquire(model, lock, command, caps);
    } else if (command->type == LQ_COMMAND_CANCEL) {
        cancel(model, command);
    } else if (command->type == LQ_COMMAND_RENEW) {
        renew(model, lock, command);
    } else {
        release(model, lock, command);
    }
}

const char *sim_model_apply(struct sim_model *model, const struct lq_command *command,
                            const struct lq_stamp *stamp)
{
    uint32_t key = 0;
    model->n_outcomes = model->n_facts = 0;
    if (stamp->time_ms < model->time_ms) {
        return "table time went back";
    }
    model->time_ms = stamp->time_ms;
    if (command->key_len > 0) {
        key = sim_key_of(command->key, command->key_len);
    }
    if (key == SIM_KEY_UNKNOWN) {
        return "a key that no client asked for";
    }
    if (command->origin.node >= SIM_MODEL_NODES) {
        return "a node that was never there";
    }
    if (command->type == LQ_COMMAND_EXPIRE) {
        expire(model, &model->locks[key], command);
    } else if (command->type == LQ_COMMAND_ORIGIN_OPEN) {
        open_origin(model, command->origin);
    } else if (command->type == LQ_COMMAND_ORIGIN_CLOSE) {
        close_origin(model, command->origin);
    } else {
        from_origin(model, &model->locks[key], command, &stamp->caps);
    }
    return NULL;
}
