/* What an answer, or the certainty that none will come, means for a request; and the gate. */
#include "lq_ask.h"
#include "lq_channels.h"
#include "lq_check.h"
#include "lq_client_limits.h"
#include "lq_client_planted.h"
#include "lq_core_impl.h"
#include "lq_plan.h"

/* ---- Grants. */

void lq_core_give_back(struct lq_core *core, const struct lq_order *acquire, uint64_t token,
                       uint64_t now_ms)
{
    uint64_t most_ms = core->is_shut ? LQ_UNDO_MS : LQ_TRANSPORT_MS;
    uint64_t until_ms = now_ms + lq_earlier((uint64_t)acquire->lease_s * 1000, most_ms);
    struct lq_order order = {.goal = LQ_GOAL_RELEASE,
                             .key = acquire->key,
                             .key_len = acquire->key_len,
                             .token = token,
                             .deadline_ms = until_ms,
                             .redial_until_ms = until_ms};

    if (!LQ_PLANTED(LQ_PLANT_CLIENT_NO_CHORE)) {
        (void)lq_ask_begin(core, &order, LQ_ROLE_CHORE, now_ms);
    }
}

static void give_back(struct lq_core *core, const struct lq_request *request, uint64_t token,
                      uint64_t now_ms)
{
    struct lq_order acquire = {
        .key = request->key, .key_len = request->key_len, .lease_s = request->lease_s};

    lq_core_give_back(core, &acquire, token, now_ms);
}

void lq_ask_late(struct lq_core *core, struct lq_request *request, uint64_t now_ms)
{
    give_back(core, request, request->outcome.token, now_ms);
    request->outcome.why = LQ_WHY_LATE;
    lq_ask_finish(core, request, LOQUET_INDETERMINATE, now_ms);
}

/* Whether a grant may still be handed over. */
static bool is_in_time(const struct lq_request *request, uint64_t now_ms)
{
    return now_ms < request->deadline_ms && now_ms < request->outcome.ends_ms;
}

/* The end of a lease of which the caller can be sure: counted from the sending of the frame that
 * began it. */
static uint64_t lease_end(const struct lq_request *request)
{
    return request->rendered_ms + lq_plan_span_ms(request->lease_s);
}

static void granted(struct lq_core *core, struct lq_request *request, uint64_t token,
                    uint64_t now_ms)
{
    struct lq_outcome *outcome = &request->outcome;
    bool cancelling = request->phase == LQ_PHASE_CANCELLING;

    if (LQ_PLANTED(LQ_PLANT_CLIENT_LEASE_FROM_ANSWER)) {
        request->rendered_ms = now_ms;
    }
    outcome->token = token;
    outcome->sent_ms = request->rendered_ms;
    outcome->ends_ms = lease_end(request);
    if (cancelling || now_ms >= request->deadline_ms) {
        lq_ask_late(core, request, now_ms);
    } else if (now_ms - request->rendered_ms > (uint64_t)request->lease_s * 500) {
        /* It waited long, so its lease counts from a time unknown: K counts it anew. */
        request->redial_until_ms = 0;
        lq_ask_start(core, request, LQ_OP_RENEW,
                     lq_earlier(now_ms + LQ_ANSWER_MARGIN_MS, request->deadline_ms));
    } else {
        lq_ask_grant(core, request);
    }
}

/* A grant was not confirmed: it has the earlier end. */
static void unconfirmed(struct lq_core *core, struct lq_request *request, uint64_t now_ms)
{
    if (is_in_time(request, now_ms)) {
        lq_ask_grant(core, request);
    } else {
        lq_ask_late(core, request, now_ms);
    }
}

void lq_ask_take(struct lq_core *core, struct lq_request *request, uint64_t now_ms,
                 struct lq_outcome *ret_outcome)
{
    if (request->phase == LQ_PHASE_GRANTED) {
        bool in_time = is_in_time(request, now_ms) || LQ_PLANTED(LQ_PLANT_CLIENT_NO_GATE);
        request->outcome.result = in_time ? LOQUET_ACQUIRED : LOQUET_INDETERMINATE;
        request->outcome.why = in_time ? LQ_WHY_NOTHING : LQ_WHY_LATE;
        if (!in_time) { /* duty 5 */
            give_back(core, request, request->outcome.token, now_ms);
            request->outcome.ends_ms = 0;
        }
    }
    *ret_outcome = request->outcome;
    lq_ask_free(core, request);
}

/* ---- Answers. */

/* T or B: definitive, whenever it comes (duty 6). */
static void not_granted(struct lq_core *core, struct lq_request *request, uint8_t op,
                        uint64_t now_ms)
{
    enum loquet_result result = op == LQ_OP_TIMEOUT ? LOQUET_TIMEOUT : LOQUET_BUSY;

    if (LQ_PLANTED(LQ_PLANT_CLIENT_DOUBT_ALL) && request->phase == LQ_PHASE_CANCELLING) {
        result = LOQUET_INDETERMINATE;
    }
    request->outcome.why = request->is_given_up ? LQ_WHY_GIVEN_UP : LQ_WHY_NOTHING;
    lq_ask_finish(core, request, result, now_ms);
}

static void renewed(struct lq_core *core, struct lq_request *request, uint64_t now_ms)
{
    request->outcome.n_stray--;
    request->outcome.sent_ms = request->rendered_ms;
    request->outcome.ends_ms = lease_end(request);
    request->outcome.why = LQ_WHY_NOTHING;
    if (request->goal == LQ_GOAL_ACQUIRE) {
        lq_ask_grant(core, request);
    } else {
        lq_ask_finish(core, request, LOQUET_RENEWED, now_ms);
    }
}

static void not_held(struct lq_core *core, struct lq_request *request, uint64_t now_ms)
{
    bool acquire = request->goal == LQ_GOAL_ACQUIRE;
    request->outcome.why = acquire ? LQ_WHY_LEASE_OVER : LQ_WHY_NOTHING;
    lq_ask_finish(core, request, acquire ? LOQUET_INDETERMINATE : LOQUET_NOT_HELD, now_ms);
}

static void succeed(struct lq_core *core, struct lq_request *request, enum loquet_result result,
                    uint64_t now_ms)
{
    request->outcome.why = LQ_WHY_NOTHING;
    lq_ask_finish(core, request, result, now_ms);
}

void lq_ask_answer(struct lq_core *core, struct lq_request *request, const struct lq_frame *frame,
                   uint64_t now_ms)
{
    if (request->role == LQ_ROLE_GHOST) {
        if (frame->op == LQ_OP_ACQUIRE) {
            give_back(core, request, frame->token, now_ms);
        }
        lq_ask_free(core, request);
        return;
    }
    switch ((enum lq_op)frame->op) {
    case LQ_OP_ACQUIRE:
        granted(core, request, frame->token, now_ms);
        break;
    case LQ_OP_TIMEOUT:
    case LQ_OP_BUSY:
        not_granted(core, request, frame->op, now_ms);
        break;
    case LQ_OP_RELEASE:
        succeed(core, request, LOQUET_RELEASED, now_ms);
        break;
    case LQ_OP_RENEW:
        renewed(core, request, now_ms);
        break;
    case LQ_OP_NOT_HELD:
        not_held(core, request, now_ms);
        break;
    case LQ_OP_PING:
        succeed(core, request, LOQUET_ALIVE, now_ms);
        break;
    case LQ_OP_CANCEL:
    case LQ_OP_ERROR:
        LQ_BUG("is matched with no request");
    }
}

/* ---- No answer. */

/* What became of a request that was not answered, which was sent or not. */
static enum loquet_result unanswered(const struct lq_request *request, uint64_t now_ms)
{
    if (request->outcome.maybe_sent && request->goal != LQ_GOAL_PING) {
        return LOQUET_INDETERMINATE;
    }
    if (request->wait_ms > 0 && now_ms >= request->deadline_ms) {
        return LOQUET_TIMEOUT;
    }
    return LOQUET_CLOSED;
}

void lq_ask_fail(struct lq_core *core, struct lq_request *request, uint64_t now_ms)
{
    if (request->goal == LQ_GOAL_ACQUIRE && request->step == LQ_OP_RENEW) {
        unconfirmed(core, request, now_ms);
    } else {
        lq_ask_finish(core, request, unanswered(request, now_ms), now_ms);
    }
}

static void note_fault(struct lq_request *request, const struct lq_fault *fault)
{
    request->outcome.why = fault->why;
    request->outcome.error_code = fault->error_code;
    request->outcome.code = fault->code;
    request->outcome.address = fault->address;
}

void lq_ask_refused(struct lq_core *core, struct lq_request *request, uint64_t now_ms,
                    const struct lq_fault *fault)
{
    note_fault(request, fault);
    request->outcome.n_stray -= request->step == LQ_OP_RENEW;
    if (request->goal == LQ_GOAL_ACQUIRE) {
        unconfirmed(core, request, now_ms);
    } else {
        bool certain = !request->outcome.repeated;
        lq_ask_finish(core, request, certain ? LOQUET_INVALID : LOQUET_INDETERMINATE, now_ms);
    }
}

void lq_ask_lost(struct lq_core *core, struct lq_request *request, uint64_t now_ms,
                 const struct lq_fault *fault)
{
    bool again = request->step != LQ_OP_ACQUIRE ||
                 (LQ_PLANTED(LQ_PLANT_CLIENT_RESEND) && request->phase == LQ_PHASE_SENT) ||
                 (LQ_PLANTED(LQ_PLANT_CLIENT_WHOLE_FRAMES) && !request->outcome.maybe_sent);

    note_fault(request, fault);
    if (!again || now_ms >= request->step_by_ms) { /* A is never sent again (duty 4) */
        lq_ask_fail(core, request, now_ms);
        return;
    }
    request->phase = LQ_PHASE_QUEUED;
    if (!fault->is_counted) {
        request->failures_seen = core->dial.failures;
    }
    lq_ask_set_timer(core, request);
    lq_channels_enqueue(core, request);
}

void lq_ask_not_connected(struct lq_core *core, struct lq_request *request, uint64_t now_ms,
                          const struct lq_fault *fault)
{
    bool all_tried = core->dial.failures - request->failures_seen >= core->dial.n;

    note_fault(request, fault);
    if (all_tried && now_ms >= request->redial_until_ms) {
        lq_channels_withdraw(core, request, now_ms);
        lq_ask_fail(core, request, now_ms);
    }
}
