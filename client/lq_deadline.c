/* What a deadline, slowness, and a caller that gives up mean for a request. */
#include "lq_ask.h"
#include "lq_channels.h"
#include "lq_check.h"
#include "lq_client_limits.h"
#include "lq_client_planted.h"
#include "lq_core_impl.h"

/* ---- Giving up. */

/* The request, which was sent, is of no interest any more; its answer may still come. */
static void abandon(struct lq_core *core, struct lq_request *request, uint64_t now_ms)
{
    struct lq_channel *channel = request->channel;

    lq_channel_haunt(request);
    lq_channels_settle(core, channel, now_ms);
}

/* An acquire's deadline came, or its caller gave up, while it was sent (duty 3). */
static void cancel(struct lq_core *core, struct lq_request *request, uint64_t until_ms)
{
    struct lq_frame frame = {.op = LQ_OP_CANCEL,
                             .owner = request->outcome.owner,
                             .key = request->key,
                             .key_len = request->key_len};

    LQ_CHECK(request->phase == LQ_PHASE_SENT && request->step == LQ_OP_ACQUIRE);
    if (!LQ_PLANTED(LQ_PLANT_CLIENT_NO_CANCEL)) {
        /* No room: nothing has left for long, so no answer will come either. */
        (void)lq_channel_put(request->channel, &frame);
    }
    request->outcome.why = LQ_WHY_SLOW;
    request->phase = LQ_PHASE_CANCELLING;
    request->step_by_ms = until_ms;
    lq_ask_set_timer(core, request);
    lq_channels_note(core, request->channel);
}

static void give_up_queued(struct lq_core *core, struct lq_request *request, uint64_t now_ms)
{
    lq_channels_withdraw(core, request, now_ms);
    if (request->step == LQ_OP_ACQUIRE) {
        request->outcome.why = core->is_shut ? LQ_WHY_SHUT : LQ_WHY_GIVEN_UP;
        lq_ask_finish(core, request, LOQUET_TIMEOUT, now_ms);
    } else {
        lq_ask_late(core, request, now_ms);
    }
}

void lq_ask_give_up(struct lq_core *core, struct lq_request *request, uint64_t now_ms)
{
    uint64_t until_ms = now_ms + LQ_CANCEL_MARGIN_MS;

    if (request->goal != LQ_GOAL_ACQUIRE || request->is_given_up) {
        return;
    }
    request->is_given_up = true;
    request->deadline_ms = lq_earlier(request->deadline_ms, now_ms);
    switch (request->phase) {
    case LQ_PHASE_QUEUED:
        give_up_queued(core, request, now_ms);
        break;
    case LQ_PHASE_SENT:
        if (request->step == LQ_OP_ACQUIRE) {
            /* With wait 0, step_by_ms is the transport deadline, which stays. */
            cancel(core, request,
                   request->wait_ms == 0 ? lq_earlier(until_ms, request->step_by_ms) : until_ms);
        } else {
            abandon(core, request, now_ms);
            lq_ask_late(core, request, now_ms);
        }
        break;
    case LQ_PHASE_CANCELLING:
        request->step_by_ms = lq_earlier(request->step_by_ms, until_ms);
        lq_ask_set_timer(core, request);
        break;
    case LQ_PHASE_GRANTED: /* the gate will refuse it */
    case LQ_PHASE_DONE:
        break;
    }
}

void lq_ask_hurry(struct lq_core *core, struct lq_request *request, uint64_t by_ms)
{
    if (request->phase == LQ_PHASE_QUEUED || request->phase == LQ_PHASE_SENT) {
        request->step_by_ms = lq_earlier(request->step_by_ms, by_ms);
        lq_ask_set_timer(core, request);
    }
}

/* ---- Time. */

/* The margin for the answer to C is over. The session is closed (duty 3), unless the caller gave up
 * and others use it: they shall not suffer from that. */
static void end_margin(struct lq_core *core, struct lq_request *request, uint64_t now_ms)
{
    struct lq_channel *channel = request->channel;
    bool shared = channel->n_sent + channel->n_queued > 1;

    if (LQ_PLANTED(LQ_PLANT_CLIENT_NO_CLOSE) || (request->is_given_up && shared)) {
        lq_channel_haunt(request);
        if (!LQ_PLANTED(LQ_PLANT_CLIENT_NO_CLOSE)) {
            lq_channels_drain(core, channel, now_ms);
        }
        lq_ask_fail(core, request, now_ms);
    } else {
        lq_channels_lose(core, channel, (struct lq_fault){.why = LQ_WHY_SLOW}, now_ms);
    }
}

/* No answer to R, K or P for a while. With another address there is hope elsewhere; with one there
 * is if not a byte came since: then the connection may be dead, and a ping shows it. */
static void move(struct lq_core *core, struct lq_request *request, uint64_t now_ms)
{
    struct lq_channel *channel = request->channel;

    if (core->dial.n > 1) {
        lq_channel_haunt(request);
        request->phase = LQ_PHASE_QUEUED;
        request->outcome.why = LQ_WHY_SLOW;
        request->failures_seen = core->dial.failures;
        lq_ask_set_timer(core, request);
        lq_channels_leave(core, channel);
        lq_channels_drain(core, channel, now_ms);
        lq_channels_enqueue(core, request);
        return;
    }
    if (channel->heard_ms <= request->rendered_ms && channel->ping_open &&
        now_ms >= channel->pinged_ms + LQ_ANSWER_MIN_MS) {
        lq_channels_lose(core, channel, (struct lq_fault){.why = LQ_WHY_SILENT}, now_ms);
        return;
    }
    lq_channel_ping(core, channel, now_ms);
    request->move_ms = lq_ask_move_ms(request, now_ms);
    lq_ask_set_timer(core, request);
    lq_channels_settle(core, channel, now_ms);
}

/* The deadline of a step that was sent. */
static void end_sent(struct lq_core *core, struct lq_request *request, uint64_t now_ms)
{
    struct lq_channel *channel = request->channel;

    if (request->step == LQ_OP_ACQUIRE && LQ_PLANTED(LQ_PLANT_CLIENT_SURE_TIMEOUT)) {
        abandon(core, request, now_ms);
        lq_ask_finish(core, request, LOQUET_TIMEOUT, now_ms);
    } else if (request->step == LQ_OP_ACQUIRE && request->wait_ms > 0) {
        cancel(core, request, now_ms + LQ_ANSWER_MARGIN_MS);
    } else if (request->step == LQ_OP_ACQUIRE) { /* duty 7: this was the transport deadline */
        lq_channels_lose(core, channel, (struct lq_fault){.why = LQ_WHY_SLOW}, now_ms);
    } else {
        request->outcome.why = LQ_WHY_SLOW;
        lq_channel_haunt(request);
        lq_channels_leave(core, channel);
        lq_channels_drain(core, channel, now_ms);
        lq_ask_fail(core, request, now_ms);
    }
}

void lq_ask_tick(struct lq_core *core, struct lq_request *request, uint64_t now_ms)
{
    bool over = now_ms >= request->step_by_ms;

    switch (request->phase) {
    case LQ_PHASE_QUEUED:
        if (over) {
            lq_channels_withdraw(core, request, now_ms);
            if (request->outcome.why == LQ_WHY_NOTHING) {
                request->outcome.why = LQ_WHY_NOT_SENT;
            }
            lq_ask_fail(core, request, now_ms);
        }
        break;
    case LQ_PHASE_SENT:
        if (over) {
            end_sent(core, request, now_ms);
        } else if (request->step != LQ_OP_ACQUIRE && now_ms >= request->move_ms) {
            move(core, request, now_ms);
        }
        break;
    case LQ_PHASE_CANCELLING:
        if (over) {
            end_margin(core, request, now_ms);
        }
        break;
    case LQ_PHASE_GRANTED:
    case LQ_PHASE_DONE:
        break;
    }
}
