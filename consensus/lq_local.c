/* The life of a request here: submit applies its command at once, the outcomes become answers, and
 * the hub takes them. Only a queued acquire stays, found again by its seq when a release, an expiry
 * or a cancel decides about it.
 *
 * Quarantine: after a restart the locks of the run before are forgotten, but their holders may go
 * on. Until the longest lease in use has passed, every key counts as held by somebody unknown: an
 * acquire that may wait is held back in arrival order, without a number, and is applied when the
 * quarantine ends. */
#include "lq_local.h"

#include "lq_check.h"
#include "lq_frame.h"
#include "lq_limits.h"
#include "lq_mem.h"

/* This process is its own and only origin. */
static const struct lq_origin_id self = {.node = 1, .incarnation = 1};

enum request_state {
    NUMBERED, /* its command was applied */
    HELD,     /* in quarantine */
};

struct lq_local {
    struct lq_backend backend;
    struct lq_table *table;
    struct lq_stamp stamp;
    struct lq_outcomes outcomes; /* of one command */
    uint64_t last_seq;
    struct lq_map by_seq; /* queued acquires */

    struct lq_answer
        *answers; /* taken from the front, `n_taken` so far; emptied when all are taken */
    size_t n_answers, cap_answers, n_taken;

    uint64_t start_ms;
    uint64_t sweep_ms;
    uint64_t next_sweep_ms;
    bool is_sweeping; /* a sweep has more to do than fitted into the turn */

    uint64_t quarantine_end_ms; /* 0: none, or over */
    struct lq_list held;
    uint64_t n_held;
};

static struct lq_local *local_of(struct lq_backend *backend)
{
    return LQ_CONTAINER(backend, struct lq_local, backend);
}

static void answer(struct lq_local *local, struct lq_request *request, enum lq_answer_kind kind,
                   uint64_t token)
{
    if (local->n_answers == local->cap_answers) {
        local->cap_answers = local->cap_answers == 0 ? 64 : 2 * local->cap_answers;
        local->answers = lq_realloc(local->answers, local->cap_answers, sizeof *local->answers);
    }
    local->answers[local->n_answers++] =
        (struct lq_answer){.request = request, .kind = kind, .token = token};
}

/* ---- Queued acquires by seq. */

static uint64_t hash_request(const struct lq_map_node *node, const void *context)
{
    (void)context;
    return lq_map_spread(LQ_CONTAINER(node, const struct lq_request, by_seq)->seq);
}

static struct lq_request *find_queued(struct lq_local *local, uint64_t seq)
{
    struct lq_map_node *node = lq_map_chain(&local->by_seq, lq_map_spread(seq));
    for (; node != NULL; node = node->next) {
        struct lq_request *request = LQ_CONTAINER(node, struct lq_request, by_seq);
        if (request->seq == seq) {
            return request;
        }
    }
    return NULL;
}

/* The request that an outcome is for: the one being submitted, or a queued one, which it then
 * leaves. */
static struct lq_request *addressee(struct lq_local *local, const struct lq_outcome *outcome,
                                    struct lq_request *submitted)
{
    struct lq_request *queued;
    if (submitted != NULL && outcome->seq == submitted->seq) {
        return submitted;
    }
    queued = find_queued(local, outcome->seq);
    LQ_CHECK(queued != NULL);
    lq_map_remove(&local->by_seq, &queued->by_seq);
    return queued;
}

/* ---- Applying. */

static void on_outcome(struct lq_local *local, const struct lq_outcome *outcome,
                       struct lq_request *submitted)
{
    switch ((enum lq_outcome_kind)outcome->kind) {
    case LQ_OUTCOME_GRANTED:
        answer(local, addressee(local, outcome, submitted), LQ_ANSWER_GRANTED, outcome->token);
        break;
    case LQ_OUTCOME_QUEUED:
        LQ_CHECK(submitted != NULL);
        lq_map_insert(&local->by_seq, &submitted->by_seq, lq_map_spread(submitted->seq));
        answer(local, submitted, LQ_ANSWER_OPEN, 0);
        break;
    case LQ_OUTCOME_TIMEOUT:
        answer(local, submitted, LQ_ANSWER_TIMEOUT, 0);
        break;
    case LQ_OUTCOME_BUSY:
        answer(local, submitted, LQ_ANSWER_BUSY, 0);
        break;
    case LQ_OUTCOME_RELEASED:
        answer(local, submitted, LQ_ANSWER_RELEASED, 0);
        break;
    case LQ_OUTCOME_NOT_HELD:
        answer(local, submitted, LQ_ANSWER_NOT_HELD, 0);
        break;
    case LQ_OUTCOME_RENEWED:
        answer(local, submitted, LQ_ANSWER_RENEWED, 0);
        break;
    case LQ_OUTCOME_CANCELLED:
        answer(local, addressee(local, outcome, NULL), LQ_ANSWER_CANCELLED, 0);
        break;
    case LQ_OUTCOME_NOT_QUEUED: /* granted in this turn: that answer is on its way */
    case LQ_OUTCOME_EXPIRED:
    case LQ_OUTCOME_STALE:
    case LQ_OUTCOME_OPENED:
        break;
    case LQ_OUTCOME_SKIPPED:
    case LQ_OUTCOME_REFUSED:
    case LQ_OUTCOME_CLOSED:
        LQ_BUG("an outcome that a lone origin can't have");
    }
}

/* Applies a command of which `submitted` (may be NULL) is the request. */
static void apply(struct lq_local *local, const struct lq_command *command,
                  struct lq_request *submitted)
{
    lq_table_apply(local->table, command, &local->stamp, &local->outcomes);
    for (size_t i = 0; i < local->outcomes.count; i++) {
        on_outcome(local, &local->outcomes.items[i], submitted);
    }
    local->outcomes.count = 0;
}

static enum lq_command_type command_type(const struct lq_request *request)
{
    switch ((enum lq_op)request->op) {
    case LQ_OP_ACQUIRE:
        return LQ_COMMAND_ACQUIRE;
    case LQ_OP_RELEASE:
        return LQ_COMMAND_RELEASE;
    case LQ_OP_RENEW:
        return LQ_COMMAND_RENEW;
    case LQ_OP_CANCEL:
    case LQ_OP_PING:
    case LQ_OP_TIMEOUT:
    case LQ_OP_BUSY:
    case LQ_OP_NOT_HELD:
    case LQ_OP_ERROR:
        break;
    }
    LQ_BUG("not a request for a backend");
    return LQ_COMMAND_ACQUIRE;
}

/* An acquire never meets an expired holder: its Expire goes ahead. */
static void expire_key(struct lq_local *local, const struct lq_request *request)
{
    struct lq_command expire;
    if (lq_table_key_due(local->table, request->key, request->key_len, local->stamp.time_ms,
                         &expire)) {
        apply(local, &expire, NULL);
    }
}

static void execute(struct lq_local *local, struct lq_request *request)
{
    struct lq_command command = {.type = (uint8_t)command_type(request),
                                 .wait_s = request->wait_s,
                                 .lease_s = request->lease_s,
                                 .key_len = request->key_len,
                                 .origin = self,
                                 .owner = request->owner,
                                 .token = request->token,
                                 .key = request->key};
    if (request->op == LQ_OP_ACQUIRE) {
        expire_key(local, request);
    }
    request->backend_state = NUMBERED;
    request->seq = command.seq = ++local->last_seq;
    apply(local, &command, request);
}

/* ---- Quarantine. */

static bool in_quarantine(const struct lq_local *local)
{
    return local->quarantine_end_ms != 0;
}

static void hold_back(struct lq_local *local, struct lq_request *request)
{
    if (request->wait_s == 0) {
        answer(local, request, LQ_ANSWER_TIMEOUT, 0);
    } else if (local->n_held >= local->stamp.caps.waiters) {
        answer(local, request, LQ_ANSWER_BUSY, 0);
    } else {
        request->backend_state = HELD;
        lq_list_append(&local->held, &request->in_held);
        local->n_held++;
        answer(local, request, LQ_ANSWER_OPEN, 0);
    }
}

static struct lq_request *let_go(struct lq_local *local, struct lq_list *member)
{
    lq_list_remove(member);
    local->n_held--;
    return LQ_CONTAINER(member, struct lq_request, in_held);
}

/* Once its time has passed, the acquires held back are applied in their order, a slice a turn; the
 * quarantine is over when none is left, so that nobody overtakes them. */
static void end_quarantine(struct lq_local *local)
{
    if (!in_quarantine(local) || local->stamp.time_ms < local->quarantine_end_ms) {
        return;
    }
    for (int i = 0; i < LQ_TURN_EXPIRES && !lq_list_is_empty(&local->held); i++) {
        execute(local, let_go(local, local->held.next));
    }
    if (lq_list_is_empty(&local->held)) {
        local->quarantine_end_ms = 0;
    }
}

/* ---- Expiry. */

/* Ends due grants, at most a slice of them; tells whether more are due. */
static bool expire_due(struct lq_local *local, enum lq_which which)
{
    struct lq_command expire;
    for (int i = 0; i < LQ_TURN_EXPIRES; i++) {
        if (!lq_table_due(local->table, which, local->stamp.time_ms, &expire)) {
            return false;
        }
        apply(local, &expire, NULL);
    }
    return true;
}

static void sweep(struct lq_local *local)
{
    uint64_t now_ms = local->stamp.time_ms;
    if (!local->is_sweeping && now_ms < local->next_sweep_ms) {
        return;
    }
    if (!local->is_sweeping) {
        local->next_sweep_ms =
            now_ms + local->sweep_ms - (now_ms - local->start_ms) % local->sweep_ms;
    }
    local->is_sweeping = expire_due(local, LQ_WHICH_ALL);
}

/* ---- The backend's operations. */

static void local_begin(struct lq_backend *backend, uint64_t now_ms)
{
    struct lq_local *local = local_of(backend);
    local->stamp.time_ms = now_ms;
    (void)expire_due(local, LQ_WHICH_CONTENDED); /* the rest: `deadline` asks for another turn */
    end_quarantine(local);
}

static void local_submit(struct lq_backend *backend, struct lq_request *request)
{
    struct lq_local *local = local_of(backend);
    if (request->op == LQ_OP_ACQUIRE && in_quarantine(local)) {
        hold_back(local, request);
    } else {
        execute(local, request);
    }
}

static void local_cancel(struct lq_backend *backend, struct lq_request *request)
{
    struct lq_local *local = local_of(backend);
    if (request->backend_state == HELD) {
        answer(local, let_go(local, &request->in_held), LQ_ANSWER_CANCELLED, 0);
        return;
    }
    apply(local,
          &(struct lq_command){.type = LQ_COMMAND_CANCEL,
                               .origin = self,
                               .seq = ++local->last_seq,
                               .target = request->seq},
          NULL);
}

static void local_end(struct lq_backend *backend)
{
    sweep(local_of(backend));
}

static bool local_take(struct lq_backend *backend, struct lq_answer *ret_answer)
{
    struct lq_local *local = local_of(backend);
    if (local->n_taken == local->n_answers) {
        local->n_taken = local->n_answers = 0;
        return false;
    }
    *ret_answer = local->answers[local->n_taken++];
    return true;
}

static uint64_t local_deadline(const struct lq_backend *backend)
{
    const struct lq_local *local = LQ_CONTAINER(backend, const struct lq_local, backend);
    uint64_t deadline = lq_table_next_deadline(local->table, LQ_WHICH_CONTENDED);
    if (local->is_sweeping) {
        return 0;
    }
    if (lq_table_next_deadline(local->table, LQ_WHICH_ALL) != LQ_NEVER) {
        deadline = lq_earlier(deadline, local->next_sweep_ms);
    }
    if (!lq_list_is_empty(&local->held)) {
        deadline = lq_earlier(deadline, local->quarantine_end_ms);
    }
    return deadline;
}

static const struct lq_backend_ops local_ops = {
    .begin = local_begin,
    .submit = local_submit,
    .cancel = local_cancel,
    .end = local_end,
    .take = local_take,
    .deadline = local_deadline,
};

struct lq_backend *lq_local_new(const struct lq_local_options *options, uint64_t now_ms)
{
    struct lq_local *local = lq_calloc(1, sizeof *local);
    LQ_CHECK(options->sweep_ms >= 1);
    local->backend.ops = &local_ops;
    local->table = lq_table_new_alone(options->secret, options->first_token);
    local->stamp = (struct lq_stamp){.time_ms = now_ms, .caps = options->caps};
    lq_outcomes_init(&local->outcomes);
    lq_map_init(&local->by_seq, hash_request, NULL);
    lq_list_init(&local->held);
    local->start_ms = now_ms;
    local->sweep_ms = options->sweep_ms;
    local->next_sweep_ms = now_ms + options->sweep_ms;
    if (options->quarantine_s > 0) {
        local->quarantine_end_ms = now_ms + options->quarantine_s * 1000 + 1;
    }
    apply(local, &(struct lq_command){.type = LQ_COMMAND_ORIGIN_OPEN, .origin = self}, NULL);
    return &local->backend;
}

void lq_local_free(struct lq_backend *backend)
{
    struct lq_local *local;
    if (backend == NULL) {
        return;
    }
    local = local_of(backend);
    lq_table_free(local->table);
    lq_outcomes_done(&local->outcomes);
    lq_map_done(&local->by_seq);
    lq_free(local->answers);
    lq_free(local);
}

const struct lq_table *lq_local_table(const struct lq_backend *backend)
{
    return LQ_CONTAINER(backend, const struct lq_local, backend)->table;
}
