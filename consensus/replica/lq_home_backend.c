/* The sessions' backend in cluster mode: requests come in and are numbered or held, waits are
 * cancelled, patience ends, answers go out. */
#include "lq_check.h"
#include "lq_frame.h"
#include "lq_home_impl.h"

/* Requests numbered, or given up, in one turn; the rest follows in the next. */
#define TURN_REQUESTS 2048

static struct lq_replica *replica_of(struct lq_backend *backend)
{
    return LQ_CONTAINER(backend, struct lq_replica, backend);
}

static bool can_number(const struct lq_replica *replica)
{
    return lq_home_is_serving(replica) &&
           replica->home.outbox_bytes < replica->options.outbox_bytes;
}

static void hold(struct lq_replica *replica, struct lq_request *request)
{
    bool is_acquire = request->op == LQ_OP_ACQUIRE;
    request->backend_state = LQ_HOME_HELD;
    lq_list_append(&replica->home.held, &request->in_held);
    replica->home.n_held++;
    lq_home_set_timer(replica, request,
                      !is_acquire            ? LQ_HOME_TIMER_CHANGE
                      : request->wait_s == 0 ? LQ_HOME_TIMER_BUSY
                                             : LQ_HOME_NO_TIMER);
}

static void unhold(struct lq_replica *replica, struct lq_request *request)
{
    lq_list_remove(&request->in_held);
    replica->home.n_held--;
    lq_home_set_timer(replica, request, LQ_HOME_NO_TIMER);
}

static void home_submit(struct lq_backend *backend, struct lq_request *request)
{
    struct lq_replica *replica = replica_of(backend);
    lq_list_init(&request->in_held);
    lq_list_init(&request->in_timer);
    request->is_overdue = request->is_followed = false;
    if (request->op == LQ_OP_ACQUIRE && request->wait_s > 0) {
        lq_home_answer(replica, request, LQ_ANSWER_OPEN, 0); /* its wait runs from now */
    }
    if (lq_list_is_empty(&replica->home.held) && can_number(replica)) {
        lq_home_number_request(replica, request);
    } else {
        hold(replica, request);
    }
}

static void home_cancel(struct lq_backend *backend, struct lq_request *request)
{
    struct lq_replica *replica = replica_of(backend);
    struct lq_command cancel = {.type = LQ_COMMAND_CANCEL, .target = request->seq};
    if (request->backend_state == LQ_HOME_HELD) {
        unhold(replica, request);
        lq_home_answer(replica, request, LQ_ANSWER_CANCELLED, 0);
        return;
    }
    if (request->by_seq.link == NULL || request->backend_state == LQ_HOME_CONFIRMING) {
        return; /* its answer is on its way */
    }
    (void)lq_home_number(replica, &cancel);
    lq_home_set_timer(replica, request, LQ_HOME_TIMER_ACQUIRE);
}

/* What was held back for want of a leader or of room. */
static void let_go(struct lq_replica *replica)
{
    struct lq_home *home = &replica->home;
    for (int i = 0; i < TURN_REQUESTS && !lq_list_is_empty(&home->held) && can_number(replica);
         i++) {
        struct lq_request *request = LQ_CONTAINER(home->held.next, struct lq_request, in_held);
        unhold(replica, request);
        lq_home_number_request(replica, request);
    }
}

static void lose_patience(struct lq_replica *replica, struct lq_request *request)
{
    if (request->backend_state == LQ_HOME_HELD) {
        bool is_acquire = request->op == LQ_OP_ACQUIRE;
        unhold(replica, request);
        lq_home_answer(replica, request, is_acquire ? LQ_ANSWER_BUSY : LQ_ANSWER_LOST, 0);
    } else {
        lq_home_set_timer(replica, request, LQ_HOME_NO_TIMER);
        request->is_overdue = true;
        lq_home_answer(replica, request, LQ_ANSWER_OVERDUE, 0);
    }
}

static void home_begin(struct lq_backend *backend, uint64_t now_ms)
{
    struct lq_replica *replica = replica_of(backend);
    struct lq_home *home = &replica->home;
    LQ_CHECK(now_ms == replica->now_ms);
    let_go(replica);
    for (int i = 0; i < LQ_HOME_TIMERS; i++) {
        for (int n = 0; n < TURN_REQUESTS && !lq_list_is_empty(&home->timers[i]); n++) {
            struct lq_request *first =
                LQ_CONTAINER(home->timers[i].next, struct lq_request, in_timer);
            if (first->patience_ms > now_ms) {
                break;
            }
            lose_patience(replica, first);
        }
    }
}

static void home_end(struct lq_backend *backend)
{
    (void)backend; /* lq_replica_flush does it, after the hub's turn */
}

static bool home_take(struct lq_backend *backend, struct lq_answer *ret_answer)
{
    struct lq_home *home = &replica_of(backend)->home;
    if (home->n_taken == home->n_answers) {
        home->n_taken = home->n_answers = 0;
        return false;
    }
    *ret_answer = home->answers[home->n_taken++];
    return true;
}

static uint64_t home_deadline(const struct lq_backend *backend)
{
    return lq_replica_deadline(LQ_CONTAINER(backend, const struct lq_replica, backend));
}

const struct lq_backend_ops lq_home_ops = {
    .begin = home_begin,
    .submit = home_submit,
    .cancel = home_cancel,
    .end = home_end,
    .take = home_take,
    .deadline = home_deadline,
};

uint64_t lq_home_patience(const struct lq_replica *replica)
{
    const struct lq_home *home = &replica->home;
    uint64_t deadline = LQ_NEVER;
    for (int i = 0; i < LQ_HOME_TIMERS; i++) {
        if (!lq_list_is_empty(&home->timers[i])) {
            deadline = lq_earlier(
                deadline,
                LQ_CONTAINER(home->timers[i].next, const struct lq_request, in_timer)->patience_ms);
        }
    }
    if (!lq_list_is_empty(&home->held) && can_number(replica)) {
        return 0;
    }
    return deadline;
}
