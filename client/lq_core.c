#include "lq_core.h"

#include "lq_check.h"
#include "lq_client_limits.h"
#include "lq_step.h"

#include <string.h>

void lq_core_init(struct lq_core *core, size_t n_addresses, uint64_t random)
{
    memset(core, 0, sizeof *core);
    core->wire.nonce = random;
    lq_dial_init(&core->dial, n_addresses, random);
}

static void drop_connection(struct lq_core *core, uint64_t now_ms)
{
    core->conn = LQ_CONN_NONE;
    lq_wire_reset(&core->wire, now_ms);
}

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
    case LQ_GOAL_NONE:
        break;
    }
    lq_check_failed(__FILE__, __LINE__, "an order has a goal");
}

void lq_core_begin(struct lq_core *core, const struct lq_order *order, uint64_t now_ms)
{
    bool acquire = order->goal == LQ_GOAL_ACQUIRE;
    uint64_t limit_ms = order->wait_ms == 0 ? LQ_TRANSPORT_MS : order->wait_ms;

    LQ_CHECK(core->phase == LQ_PHASE_IDLE);
    LQ_CHECK(order->key_len <= LQ_KEY_MAX && order->wait_ms <= LOQUET_WAIT_MAX);
    LQ_CHECK(order->lease_s <= LOQUET_LEASE_MAX);
    core->goal = order->goal;
    core->deadline_ms = acquire ? now_ms + limit_ms : order->deadline_ms;
    core->redial_until_ms = order->redial_until_ms;
    core->margin_ms = LQ_ANSWER_MARGIN_MS;
    core->wait_ms = order->wait_ms;
    core->lease_s = order->lease_s;
    core->key_len = (uint16_t)order->key_len;
    if (order->key_len > 0) {
        memcpy(core->key, order->key, order->key_len);
    }
    core->why = LQ_WHY_NOTHING;
    core->outcome = (struct lq_outcome){.owner = order->owner, .token = order->token};
    if (core->conn == LQ_CONN_OPEN && (lq_wire_is_pending(&core->wire) || core->wire.ping_open)) {
        drop_connection(core, now_ms); /* it owes something to the last request */
    }
    core->conn_reused = core->conn == LQ_CONN_OPEN;
    lq_dial_restart(&core->dial);
    lq_step_start(core, first_step(order->goal), core->deadline_ms);
}

void lq_core_cancel(struct lq_core *core, uint64_t now_ms)
{
    if (core->goal != LQ_GOAL_ACQUIRE || core->phase == LQ_PHASE_DONE) {
        return;
    }
    core->deadline_ms = core->deadline_ms < now_ms ? core->deadline_ms : now_ms;
    core->margin_ms = LQ_CANCEL_MARGIN_MS;
    if (core->step != LQ_OP_ACQUIRE) {
        return; /* being confirmed: the gate will refuse it; or being undone */
    }
    if (core->phase == LQ_PHASE_QUEUED) {
        lq_step_finish(core, LOQUET_CLOSED);
    } else if (core->phase == LQ_PHASE_SENT) {
        lq_step_cancel(core, now_ms);
    }
}

void lq_core_abandon(struct lq_core *core, uint64_t now_ms)
{
    if (core->phase == LQ_PHASE_SENT || core->phase == LQ_PHASE_CANCELLING) {
        drop_connection(core, now_ms);
    }
    if (core->phase == LQ_PHASE_QUEUED) {
        lq_wire_take_back(&core->wire);
    }
    core->goal = LQ_GOAL_NONE;
    core->phase = LQ_PHASE_IDLE;
}

bool lq_core_dial(struct lq_core *core, uint64_t now_ms, size_t *ret_address)
{
    if (core->conn != LQ_CONN_NONE || core->phase != LQ_PHASE_QUEUED ||
        now_ms < core->dial.not_before_ms) {
        return false;
    }
    core->conn = LQ_CONN_DIALLING;
    core->dial_by_ms = now_ms + LQ_DIAL_MS;
    lq_wire_reset(&core->wire, now_ms);
    *ret_address = core->dial.at;
    return true;
}

void lq_core_connected(struct lq_core *core, uint64_t now_ms)
{
    LQ_CHECK(core->conn == LQ_CONN_DIALLING);
    core->conn = LQ_CONN_OPEN;
    lq_wire_reset(&core->wire, now_ms);
}

/* After a lost connection: the address is left, and a request that may go on looks for another. */
void lq_core_lost(struct lq_core *core, uint64_t now_ms, enum lq_why why)
{
    bool excused = core->conn == LQ_CONN_OPEN && core->conn_reused;
    bool round_over = false;

    LQ_CHECK(core->conn != LQ_CONN_NONE);
    drop_connection(core, now_ms);
    core->conn_reused = false;
    if (!excused) {
        round_over = lq_dial_failed(&core->dial, now_ms);
    }
    if (core->phase == LQ_PHASE_QUEUED || core->phase == LQ_PHASE_SENT ||
        core->phase == LQ_PHASE_CANCELLING) {
        core->why = why;
        if (core->step == LQ_OP_ACQUIRE && core->phase != LQ_PHASE_QUEUED) {
            lq_step_fail(core, now_ms); /* never sent again (duty 4) */
            return;
        }
        core->phase = LQ_PHASE_QUEUED;
        if (round_over && now_ms >= core->redial_until_ms) {
            lq_step_fail(core, now_ms);
        }
    }
}

const uint8_t *lq_core_output(struct lq_core *core, uint64_t now_ms, size_t *ret_len)
{
    if (core->conn != LQ_CONN_OPEN) {
        *ret_len = 0;
        return NULL;
    }
    if (core->phase == LQ_PHASE_QUEUED) {
        lq_wire_take_back(&core->wire);
        if (now_ms >= core->step_by_ms) {
            core->why = LQ_WHY_NOT_SENT;
            lq_step_fail(core, now_ms); /* queued here at its deadline: not sent (duty 3) */
        } else {
            lq_wire_mark(&core->wire);
            lq_step_render(core, now_ms);
        }
    }
    return lq_wire_output(&core->wire, ret_len);
}

/* How long a repeatable step waits for its answer before it tries another connection. */
static uint64_t answer_by(const struct lq_core *core)
{
    uint64_t third = (core->step_by_ms - core->rendered_ms) / 3;
    return core->rendered_ms + (third < LQ_ANSWER_MIN_MS ? LQ_ANSWER_MIN_MS : third);
}

void lq_core_wrote(struct lq_core *core, size_t len)
{
    LQ_CHECK(len > 0 && core->conn == LQ_CONN_OPEN);
    if (lq_wire_wrote(&core->wire, len) && core->phase == LQ_PHASE_QUEUED) {
        core->outcome.repeated = core->outcome.maybe_sent && core->goal != LQ_GOAL_ACQUIRE;
        core->outcome.maybe_sent = true;
        core->answer_by_ms = answer_by(core);
        core->wire.heard_ms = core->rendered_ms; /* silence counts from here */
        core->phase = LQ_PHASE_SENT;
    }
}

uint8_t *lq_core_space(struct lq_core *core, size_t *ret_cap)
{
    return lq_wire_space(&core->wire, ret_cap);
}

/* E: the server closes. If our frame was at fault it was not executed, and never will be. */
static void error_frame(struct lq_core *core, const struct lq_frame *frame, uint64_t now_ms)
{
    bool ours = frame->code != LQ_WIRE_SHUTTING_DOWN && core->phase == LQ_PHASE_SENT &&
                !core->wire.ping_open && core->goal != LQ_GOAL_PING;
    size_t max = sizeof core->error_text - 1;
    size_t len = frame->key_len < max ? frame->key_len : max;

    core->error_code = frame->code;
    for (size_t i = 0; i < len; i++) { /* for a terminal: nothing but printable ASCII */
        uint8_t c = frame->key[i];
        core->error_text[i] = (char)(c >= 0x20 && c < 0x7f ? c : '?');
    }
    core->error_text[len] = '\0';
    core->why = LQ_WHY_ERROR_FRAME;
    if (ours && core->goal != LQ_GOAL_ACQUIRE) {
        lq_step_finish(core, core->outcome.repeated ? LOQUET_INDETERMINATE : LOQUET_INVALID);
    }
    lq_core_lost(core, now_ms, LQ_WHY_ERROR_FRAME);
}

/* One answer. False when it broke the rules. */
static bool take_frame(struct lq_core *core, const struct lq_frame *frame, uint64_t now_ms)
{
    if (frame->op != LQ_OP_PING) {
        return lq_step_answer(core, frame, now_ms);
    }
    if (!lq_wire_pong(&core->wire, frame->owner)) {
        return false;
    }
    if (core->step == LQ_OP_PING && core->phase == LQ_PHASE_SENT) {
        lq_step_finish(core, LOQUET_ALIVE);
    }
    return true;
}

void lq_core_received(struct lq_core *core, size_t len, uint64_t now_ms)
{
    struct lq_frame frame;
    enum lq_decoded decoded;

    lq_wire_received(&core->wire, len, now_ms);
    while ((decoded = lq_wire_next(&core->wire, &frame)) == LQ_DECODED_FRAME) {
        if (frame.op == LQ_OP_ERROR) {
            error_frame(core, &frame, now_ms);
            return;
        }
        if (!take_frame(core, &frame, now_ms)) {
            lq_core_lost(core, now_ms, LQ_WHY_UNASKED);
            return;
        }
        lq_dial_succeeded(&core->dial);
        core->conn_reused = false;
    }
    if (decoded == LQ_DECODED_BAD) {
        lq_core_lost(core, now_ms, LQ_WHY_GARBAGE);
    }
}

/* The time of a sent acquire: its deadline, and the silence of a server that it waits for. */
static void tick_waiting(struct lq_core *core, uint64_t now_ms)
{
    if (now_ms >= core->deadline_ms && core->wait_ms > 0) {
        lq_step_cancel(core, now_ms);
    } else if (now_ms >= core->deadline_ms) {
        core->why = LQ_WHY_SLOW;
        drop_connection(core, now_ms);
        lq_step_fail(core, now_ms);
    } else if (now_ms >= lq_wire_silence_due_ms(&core->wire)) {
        if (core->wire.ping_open) {
            lq_core_lost(core, now_ms, LQ_WHY_SILENT);
        } else {
            (void)lq_wire_ping(&core->wire, now_ms);
        }
    }
}

/* The time of a step that can be repeated. */
static void tick_repeatable(struct lq_core *core, uint64_t now_ms)
{
    if (now_ms >= core->step_by_ms) {
        core->why = LQ_WHY_SLOW;
        drop_connection(core, now_ms);
        lq_step_fail(core, now_ms);
    } else if (now_ms >= core->answer_by_ms) {
        lq_core_lost(core, now_ms, LQ_WHY_SLOW);
    }
}

void lq_core_tick(struct lq_core *core, uint64_t now_ms)
{
    if (core->conn == LQ_CONN_DIALLING && now_ms >= core->dial_by_ms) {
        lq_core_lost(core, now_ms, LQ_WHY_DIAL);
    }
    switch (core->phase) {
    case LQ_PHASE_QUEUED:
        if (now_ms >= core->step_by_ms) {
            if (core->why == LQ_WHY_NOTHING) {
                core->why = LQ_WHY_NOT_SENT;
            }
            if (core->conn == LQ_CONN_DIALLING) {
                drop_connection(core, now_ms);
            }
            lq_step_fail(core, now_ms);
        }
        break;
    case LQ_PHASE_SENT:
        if (core->step == LQ_OP_ACQUIRE) {
            tick_waiting(core, now_ms);
        } else {
            tick_repeatable(core, now_ms);
        }
        break;
    case LQ_PHASE_CANCELLING:
        if (now_ms >= core->step_by_ms) {
            drop_connection(core, now_ms);
            lq_step_fail(core, now_ms);
        }
        break;
    case LQ_PHASE_IDLE:
    case LQ_PHASE_GRANTED:
    case LQ_PHASE_DONE:
        break;
    }
}

uint64_t lq_core_due_ms(const struct lq_core *core)
{
    switch (core->phase) {
    case LQ_PHASE_IDLE:
        return LQ_NEVER;
    case LQ_PHASE_QUEUED:
        if (core->conn == LQ_CONN_DIALLING) {
            return lq_earlier(core->step_by_ms, core->dial_by_ms);
        }
        if (core->conn == LQ_CONN_NONE) {
            return lq_earlier(core->step_by_ms, core->dial.not_before_ms);
        }
        return core->step_by_ms;
    case LQ_PHASE_SENT:
        if (core->step == LQ_OP_ACQUIRE) {
            return lq_earlier(core->deadline_ms, lq_wire_silence_due_ms(&core->wire));
        }
        return lq_earlier(core->step_by_ms, core->answer_by_ms);
    case LQ_PHASE_CANCELLING:
        return core->step_by_ms;
    case LQ_PHASE_GRANTED:
    case LQ_PHASE_DONE:
        return 0;
    }
    return LQ_NEVER;
}

bool lq_core_take(struct lq_core *core, uint64_t now_ms, struct lq_outcome *ret_outcome)
{
    if (core->phase == LQ_PHASE_GRANTED) {
        if (now_ms >= core->deadline_ms || now_ms >= core->outcome.ends_ms) {
            lq_step_undo(core, now_ms, LQ_WHY_LATE);
            return false;
        }
        lq_step_finish(core, LOQUET_ACQUIRED);
    }
    if (core->phase != LQ_PHASE_DONE) {
        return false;
    }
    *ret_outcome = core->outcome;
    core->goal = LQ_GOAL_NONE;
    core->phase = LQ_PHASE_IDLE;
    return true;
}
