#include "lq_ask.h"

#include "lq_channels.h"
#include "lq_check.h"
#include "lq_client_limits.h"
#include "lq_client_planted.h"
#include "lq_core_impl.h"
#include "lq_lease.h"
#include "lq_limits.h"
#include "lq_mem.h"

#include <string.h>

/* ---- Timers. */

/* When lq_ask_tick has something to do. */
static uint64_t due_ms(const struct lq_request *request)
{
    switch (request->phase) {
    case LQ_PHASE_QUEUED:
    case LQ_PHASE_CANCELLING:
        return request->step_by_ms;
    case LQ_PHASE_SENT:
        return request->step == LQ_OP_ACQUIRE ? request->step_by_ms
                                              : lq_earlier(request->step_by_ms, request->move_ms);
    case LQ_PHASE_GRANTED:
    case LQ_PHASE_DONE:
        return LQ_NEVER;
    }
    return LQ_NEVER;
}

void lq_ask_set_timer(struct lq_core *core, struct lq_request *request)
{
    uint64_t at_ms = due_ms(request);
    bool is_set = lq_heap_holds(&request->timer);

    if (at_ms == LQ_NEVER && is_set) {
        lq_heap_remove(&core->asks, &request->timer);
    } else if (at_ms != LQ_NEVER && is_set) {
        lq_heap_move(&core->asks, &request->timer, at_ms);
    } else if (at_ms != LQ_NEVER) {
        lq_heap_insert(&core->asks, &request->timer, at_ms);
    }
}

/* ---- Beginning and end. */

static enum lq_op first_step(enum lq_goal goal)
{
    switch (goal) {
    case LQ_GOAL_ACQUIRE:
        return LQ_OP_ACQUIRE;
    case LQ_GOAL_RELEASE:
        return LQ_OP_RELEASE;
    case LQ_GOAL_RENEW:
        return LQ_OP_RENEW;
    case LQ_GOAL_PING:
        return LQ_OP_PING;
    }
    LQ_BUG("an order has a goal");
}

void lq_ask_start(struct lq_core *core, struct lq_request *request, enum lq_op step, uint64_t by_ms)
{
    request->step = step;
    request->step_by_ms = by_ms;
    request->phase = LQ_PHASE_QUEUED;
    request->failures_seen = core->dial.failures;
    lq_ask_set_timer(core, request);
    lq_channels_enqueue(core, request);
}

static void append_done(struct lq_core *core, struct lq_request *request, enum lq_phase phase)
{
    LQ_CHECK(request->channel == NULL && request->role == LQ_ROLE_CALLER);
    request->phase = phase;
    lq_ask_set_timer(core, request);
    lq_list_append(&core->done, &request->link);
    core->n_done++;
}

void lq_ask_finish(struct lq_core *core, struct lq_request *request, enum loquet_result result,
                   uint64_t now_ms)
{
    request->outcome.result = result;
    if (result != LOQUET_ACQUIRED && result != LOQUET_RENEWED) {
        request->outcome.ends_ms = 0;
    }
    switch (request->role) {
    case LQ_ROLE_CALLER:
        append_done(core, request, LQ_PHASE_DONE);
        return;
    case LQ_ROLE_LEASE:
        lq_lease_over(core, request->lease, &request->outcome, now_ms);
        break;
    case LQ_ROLE_CHORE:
        break;
    case LQ_ROLE_GHOST:
        LQ_BUG("nobody waits for a ghost");
    }
    lq_ask_free(core, request);
}

void lq_ask_grant(struct lq_core *core, struct lq_request *request)
{
    append_done(core, request, LQ_PHASE_GRANTED);
}

struct lq_request *lq_ask_begin(struct lq_core *core, const struct lq_order *order,
                                enum lq_role role, uint64_t now_ms)
{
    bool acquire = order->goal == LQ_GOAL_ACQUIRE;
    uint32_t limit_ms = order->wait_ms == 0 ? LQ_TRANSPORT_MS : order->wait_ms;
    struct lq_request *request = lq_malloc(sizeof *request + order->key_len);

    LQ_CHECK(order->key_len <= LQ_KEY_MAX && order->wait_ms <= LOQUET_WAIT_MAX);
    LQ_CHECK(order->lease_s <= LOQUET_LEASE_MAX);
    if (acquire && order->wait_ms == 0 && LQ_PLANTED(LQ_PLANT_CLIENT_ZERO_FOREVER)) {
        limit_ms = LOQUET_WAIT_MAX;
    }
    *request = (struct lq_request){
        .timer.place = LQ_HEAP_OUT,
        .role = role,
        .goal = order->goal,
        .deadline_ms = acquire ? now_ms + limit_ms : order->deadline_ms,
        .redial_until_ms = order->redial_until_ms,
        .wait_ms = acquire ? order->wait_ms : 0,
        .lease_s = order->lease_s,
        .key_len = (uint16_t)order->key_len,
        .outcome = {.user = order->user,
                    .token = order->token,
                    .owner = order->owner,
                    .address = SIZE_MAX},
    };
    if (order->key_len > 0) {
        memcpy(request->key, order->key, order->key_len);
    }
    lq_list_init(&request->link);
    lq_list_append(&core->all, &request->all);
    core->n_requests++;
    if (order->goal == LQ_GOAL_PING) {
        request->nonce = ++core->nonce;
    }
    if (core->is_shut && role == LQ_ROLE_CALLER) {
        request->outcome.why = LQ_WHY_SHUT;
        lq_ask_finish(core, request, LOQUET_CLOSED, now_ms);
    } else {
        lq_ask_start(core, request, first_step(order->goal), request->deadline_ms);
    }
    return request;
}

void lq_ask_free(struct lq_core *core, struct lq_request *request)
{
    LQ_CHECK(request->channel == NULL);
    if (lq_heap_holds(&request->timer)) {
        lq_heap_remove(&core->asks, &request->timer);
    }
    if (request->role != LQ_ROLE_GHOST) {
        lq_list_remove(&request->all);
        core->n_requests--;
    }
    lq_list_remove(&request->link);
    lq_free(request);
}

void lq_ask_disown(struct lq_core *core, struct lq_request *request)
{
    request->lease = NULL;
    if (request->phase == LQ_PHASE_SENT) {
        lq_list_remove(&request->all);
        core->n_requests--;
        lq_heap_remove(&core->asks, &request->timer);
        lq_channel_make_ghost(request);
        lq_channels_settle(core, request->channel, request->rendered_ms);
        return;
    }
    if (request->channel != NULL) {
        lq_channel_remove(request);
    }
    lq_ask_free(core, request);
}

/* ---- Sending. */

uint64_t lq_ask_number(const struct lq_request *request)
{
    switch (request->goal) {
    case LQ_GOAL_ACQUIRE:
        return request->step == LQ_OP_ACQUIRE ? request->outcome.owner : request->outcome.token;
    case LQ_GOAL_RELEASE:
    case LQ_GOAL_RENEW:
        return request->outcome.token;
    case LQ_GOAL_PING:
        return request->nonce;
    }
    LQ_BUG("a request has a goal");
}

/* The time left, rounded up to whole seconds (duty 2). */
static uint8_t wire_wait(const struct lq_request *request, uint64_t now_ms)
{
    uint64_t left_ms = request->deadline_ms - now_ms;

    if (request->wait_ms == 0) {
        return LQ_PLANTED(LQ_PLANT_CLIENT_WAIT_ONE) ? 1 : 0;
    }
    if (LQ_PLANTED(LQ_PLANT_CLIENT_FRESH_WAIT)) {
        left_ms = request->wait_ms;
    }
    if (LQ_PLANTED(LQ_PLANT_CLIENT_SEND_LATE) && now_ms >= request->deadline_ms) {
        left_ms = 1;
    }
    if (LQ_PLANTED(LQ_PLANT_CLIENT_ROUND_DOWN)) {
        return (uint8_t)(left_ms / 1000);
    }
    LQ_CHECK(left_ms > 0 && left_ms <= LOQUET_WAIT_MAX);
    return (uint8_t)((left_ms + 999) / 1000);
}

bool lq_ask_render(struct lq_core *core, struct lq_request *request, uint64_t now_ms,
                   struct lq_frame *ret_frame)
{
    LQ_CHECK(request->phase == LQ_PHASE_QUEUED);
    if (LQ_PLANTED(LQ_PLANT_CLIENT_FRESH_DEADLINE) && request->step == LQ_OP_ACQUIRE &&
        request->wait_ms > 0) {
        request->step_by_ms = request->deadline_ms = now_ms + request->wait_ms;
        lq_ask_set_timer(core, request);
    }
    if (now_ms >= request->step_by_ms && !LQ_PLANTED(LQ_PLANT_CLIENT_SEND_LATE)) {
        lq_ask_tick(core, request, now_ms); /* queued here at its deadline: not sent (duty 3) */
        return false;
    }
    if (LQ_PLANTED(LQ_PLANT_CLIENT_FRESH_OWNER) && request->step == LQ_OP_ACQUIRE) {
        request->outcome.owner++;
    }
    request->rendered_ms = now_ms;
    *ret_frame = (struct lq_frame){
        .op = (uint8_t)request->step,
        .wait_s = request->step == LQ_OP_ACQUIRE ? wire_wait(request, now_ms) : 0,
        .lease_s = (uint8_t)request->lease_s,
        .owner = request->step == LQ_OP_PING ? request->nonce : request->outcome.owner,
        .token = request->outcome.token,
        .key = request->key,
        .key_len = request->key_len,
    };
    return true;
}

uint64_t lq_ask_move_ms(const struct lq_request *request, uint64_t now_ms)
{
    uint64_t third_ms = (request->step_by_ms - now_ms) / 3;
    return now_ms + (third_ms < LQ_ANSWER_MIN_MS ? LQ_ANSWER_MIN_MS : third_ms);
}

void lq_ask_sent(struct lq_core *core, struct lq_request *request)
{
    struct lq_outcome *outcome = &request->outcome;

    outcome->repeated = outcome->maybe_sent && request->goal != LQ_GOAL_ACQUIRE;
    outcome->maybe_sent = true;
    outcome->n_stray += request->step == LQ_OP_RENEW;
    outcome->address = request->channel->address;
    request->phase = LQ_PHASE_SENT;
    request->move_ms = lq_ask_move_ms(request, request->rendered_ms);
    lq_ask_set_timer(core, request);
}
