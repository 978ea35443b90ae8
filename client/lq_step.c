#include "lq_step.h"

#include "lq_check.h"
#include "lq_client_limits.h"

#include <string.h>

void lq_step_start(struct lq_core *core, enum lq_op step, uint64_t by_ms)
{
    core->step = step;
    core->step_by_ms = by_ms;
    core->phase = LQ_PHASE_QUEUED;
}

void lq_step_finish(struct lq_core *core, enum loquet_result result)
{
    core->outcome.result = result;
    if (result != LOQUET_ACQUIRED && result != LOQUET_RENEWED) {
        core->outcome.ends_ms = 0;
    }
    core->phase = LQ_PHASE_DONE;
}

/* The time left, rounded up to whole seconds (duty 2). */
static uint8_t wire_wait(const struct lq_core *core, uint64_t now_ms)
{
    uint64_t left_ms = core->deadline_ms - now_ms;
    if (core->wait_ms == 0) {
        return 0;
    }
    LQ_CHECK(now_ms < core->deadline_ms && left_ms <= LOQUET_WAIT_MAX);
    return (uint8_t)((left_ms + 999) / 1000);
}

void lq_step_render(struct lq_core *core, uint64_t now_ms)
{
    struct lq_frame frame = {.op = (uint8_t)core->step, .key = core->key, .key_len = core->key_len};

    LQ_CHECK(core->phase == LQ_PHASE_QUEUED);
    core->rendered_ms = now_ms;
    if (core->step == LQ_OP_PING) {
        (void)lq_wire_ping(&core->wire, now_ms);
        return;
    }
    if (core->step == LQ_OP_ACQUIRE) {
        frame.wait_s = wire_wait(core, now_ms);
    }
    frame.lease_s = (uint8_t)core->lease_s;
    frame.owner = core->outcome.owner;
    frame.token = core->outcome.token;
    lq_wire_put(&core->wire, &frame);
}

void lq_step_undo(struct lq_core *core, uint64_t now_ms, enum lq_why why)
{
    core->why = why;
    core->redial_until_ms = 0;
    lq_step_start(core, LQ_OP_RELEASE, now_ms + LQ_UNDO_MS);
}

/* Sends K after a grant that waited long: its lease counts from a time unknown. */
static void confirm(struct lq_core *core, uint64_t now_ms)
{
    uint64_t by_ms = now_ms + LQ_ANSWER_MARGIN_MS;
    core->redial_until_ms = 0;
    lq_step_start(core, LQ_OP_RENEW, by_ms < core->deadline_ms ? by_ms : core->deadline_ms);
}

/* The step of an acquire will not be answered. */
static void fail_acquire(struct lq_core *core, uint64_t now_ms)
{
    bool sent = core->phase != LQ_PHASE_QUEUED;

    if (core->step == LQ_OP_ACQUIRE && sent) {
        lq_step_finish(core, LOQUET_INDETERMINATE);
    } else if (core->step == LQ_OP_ACQUIRE) {
        bool waited = core->wait_ms > 0 && now_ms >= core->deadline_ms;
        lq_step_finish(core, waited ? LOQUET_TIMEOUT : LOQUET_CLOSED);
    } else if (core->step == LQ_OP_RENEW && now_ms < core->outcome.ends_ms &&
               now_ms < core->deadline_ms) {
        core->phase = LQ_PHASE_GRANTED; /* with the earlier end */
    } else if (core->step == LQ_OP_RENEW) {
        lq_step_undo(core, now_ms, LQ_WHY_LATE);
    } else {
        lq_step_finish(core, LOQUET_INDETERMINATE);
    }
}

void lq_step_fail(struct lq_core *core, uint64_t now_ms)
{
    if (core->goal == LQ_GOAL_ACQUIRE) {
        fail_acquire(core, now_ms);
    } else if (core->goal == LQ_GOAL_PING) {
        lq_step_finish(core, LOQUET_CLOSED);
    } else {
        lq_step_finish(core, core->outcome.maybe_sent ? LOQUET_INDETERMINATE : LOQUET_CLOSED);
    }
}

void lq_step_cancel(struct lq_core *core, uint64_t now_ms)
{
    struct lq_frame cancel = {.op = LQ_OP_CANCEL,
                              .owner = core->outcome.owner,
                              .key = core->key,
                              .key_len = core->key_len};

    LQ_CHECK(core->phase == LQ_PHASE_SENT && core->step == LQ_OP_ACQUIRE);
    lq_wire_put(&core->wire, &cancel);
    core->why = LQ_WHY_SLOW;
    core->phase = LQ_PHASE_CANCELLING;
    core->step_by_ms = now_ms + core->margin_ms;
}

/* The end of a lease of which the caller can be sure: counted from the sending of the frame that
 * began it, and shortened for clocks that run at different rates (design, section 10). */
static uint64_t lease_end(const struct lq_core *core)
{
    uint64_t lease_ms = (uint64_t)core->lease_s * 1000;
    return core->rendered_ms + lease_ms * (100 - LQ_LEASE_MARGIN_PERCENT) / 100;
}

static void granted(struct lq_core *core, uint64_t token, uint64_t now_ms)
{
    bool late = core->phase == LQ_PHASE_CANCELLING || now_ms >= core->deadline_ms;
    uint64_t waited_ms = now_ms - core->rendered_ms;

    core->outcome.token = token;
    core->outcome.sent_ms = core->rendered_ms;
    core->outcome.ends_ms = lease_end(core);
    if (late) {
        lq_step_undo(core, now_ms, LQ_WHY_LATE);
    } else if (waited_ms > (uint64_t)core->lease_s * 500) {
        confirm(core, now_ms);
    } else {
        core->phase = LQ_PHASE_GRANTED;
    }
}

static void renewed(struct lq_core *core)
{
    core->outcome.sent_ms = core->rendered_ms;
    core->outcome.ends_ms = lease_end(core);
    if (core->goal == LQ_GOAL_ACQUIRE) {
        core->phase = LQ_PHASE_GRANTED;
    } else {
        lq_step_finish(core, LOQUET_RENEWED);
    }
}

static void released(struct lq_core *core)
{
    bool undone = core->goal == LQ_GOAL_ACQUIRE;
    lq_step_finish(core, undone ? LOQUET_INDETERMINATE : LOQUET_RELEASED);
}

static void not_held(struct lq_core *core)
{
    if (core->goal != LQ_GOAL_ACQUIRE) {
        lq_step_finish(core, LOQUET_NOT_HELD);
        return;
    }
    if (core->step == LQ_OP_RENEW) {
        core->why = LQ_WHY_LEASE_OVER;
    }
    lq_step_finish(core, LOQUET_INDETERMINATE);
}

/* Whether an answer is one to the step that was sent. */
static bool is_asked(const struct lq_core *core, const struct lq_frame *frame)
{
    bool sent = core->phase == LQ_PHASE_SENT || core->phase == LQ_PHASE_CANCELLING;

    if (!sent || frame->key_len != core->key_len ||
        memcmp(frame->key, core->key, frame->key_len) != 0) {
        return false;
    }
    switch (core->step) {
    case LQ_OP_ACQUIRE:
        return frame->owner == core->outcome.owner &&
               (frame->op == LQ_OP_ACQUIRE || frame->op == LQ_OP_TIMEOUT ||
                frame->op == LQ_OP_BUSY);
    case LQ_OP_RELEASE:
    case LQ_OP_RENEW:
        return frame->token == core->outcome.token &&
               (frame->op == (uint8_t)core->step || frame->op == LQ_OP_NOT_HELD);
    case LQ_OP_PING:
    case LQ_OP_CANCEL:
    case LQ_OP_TIMEOUT:
    case LQ_OP_BUSY:
    case LQ_OP_NOT_HELD:
    case LQ_OP_ERROR:
        return false;
    }
    return false;
}

bool lq_step_answer(struct lq_core *core, const struct lq_frame *frame, uint64_t now_ms)
{
    if (!is_asked(core, frame)) {
        return false;
    }
    switch ((enum lq_op)frame->op) {
    case LQ_OP_ACQUIRE:
        granted(core, frame->token, now_ms);
        break;
    case LQ_OP_TIMEOUT:
    case LQ_OP_BUSY:
        core->why = LQ_WHY_NOTHING;
        lq_step_finish(core, frame->op == LQ_OP_TIMEOUT ? LOQUET_TIMEOUT : LOQUET_BUSY);
        break;
    case LQ_OP_RELEASE:
        released(core);
        break;
    case LQ_OP_RENEW:
        renewed(core);
        break;
    case LQ_OP_NOT_HELD:
        not_held(core);
        break;
    case LQ_OP_CANCEL:
    case LQ_OP_PING:
    case LQ_OP_ERROR:
        return false;
    }
    return true;
}
