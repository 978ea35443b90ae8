/* What must hold for the client's core, whatever its servers do (test_client_random.c says it in
 * words): checks of what it sends and of what it tells its callers, against what the model of the
 * servers (client_model.h) did. */
#ifndef CLIENT_RULES_H
#define CLIENT_RULES_H

#include "client_model.h"
#include "lq_client_limits.h"

/* The driver of the test is never later than this with anything. */
#define LATE_MS 400

/* The client is being closed. */
static bool shut;

/* A byte of an acquire's frame leaves. */
static inline void check_acquire(struct conn *conn, int index, const struct lq_frame *frame)
{
    struct call *call = call_of_owner(frame->owner);
    uint64_t left_ms;

    MUST(!call->begun, "an acquire was sent twice");
    MUST(!call->done, "an acquire was sent after its outcome");
    MUST(model.now_ms < call->deadline_ms, "an acquire was sent after its deadline");
    left_ms = call->deadline_ms - model.now_ms;
    MUST(frame->wait_s == (call->order.wait_ms == 0 ? 0 : (left_ms + 999) / 1000), "a wrong wait");
    MUST(frame->lease_s == call->order.lease_s, "a wrong lease");
    call->begun = true;
    call->wire_conn = index;
    call->wire_number = conn->number;
    if (call->order.wait_ms > 0) {
        MUST(++conn->open_waits <= LQ_CHANNEL_WAITS, "too many share a connection");
    }
}

static inline void check_acquired(struct call *call, const struct lq_outcome *outcome)
{
    MUST(call->token != 0 && outcome->token == call->token, "the token of another");
    MUST(is_held(call), "handed over outside of its lease");
    MUST(outcome->ends_ms <= call->ends_ms, "the end that is told lies behind the lease");
    MUST(model.now_ms < call->deadline_ms, "handed over after its deadline");
    LQ_HOT_ASSERT(model.now_ms < outcome->ends_ms);
}

static inline bool had_fault(const struct call *call)
{
    return model.n_faults > 0 && call->submitted_ms <= model.faulty_ms + 8000;
}

static inline void check_indeterminate(struct call *call, const struct lq_outcome *outcome)
{
    bool late = call->delivered_ms != 0 &&
                (call->given_up || shut || model.now_ms >= call->deadline_ms ||
                 outcome->why == LQ_WHY_LEASE_OVER || outcome->why == LQ_WHY_LATE);

    MUST(call->begun, "nothing was sent, so it is not indeterminate");
    MUST(late || had_fault(call), "indeterminate without a fault");
    if (outcome->why == LQ_WHY_SLOW && !call->given_up && !shut) { /* duty 3 */
        MUST(model.conns[call->wire_conn].number != call->wire_number, "its session is still open");
    }
}

static inline void check_acquire_outcome(struct call *call, const struct lq_outcome *outcome)
{
    LQ_HOT_ASSERT(outcome->owner == call->order.owner);
    LQ_HOT_ASSERT(outcome->maybe_sent == call->begun);
    if (call->begun && call->order.wait_ms > 0 && outcome->why != LQ_WHY_SILENT &&
        model.now_ms > call->deadline_ms + LATE_MS && !had_fault(call)) {
        MUST(call->cancel, "no C at the deadline");
    }
    switch (outcome->result) {
    case LOQUET_ACQUIRED:
        check_acquired(call, outcome);
        break;
    case LOQUET_TIMEOUT:
    case LOQUET_BUSY:
    case LOQUET_CLOSED:
        MUST(call->token == 0, "was granted, but its caller was told otherwise");
        break;
    case LOQUET_INDETERMINATE:
        check_indeterminate(call, outcome);
        break;
    case LOQUET_INVALID:
    case LOQUET_RELEASED:
    case LOQUET_RENEWED:
    case LOQUET_NOT_HELD:
    case LOQUET_ALIVE:
        ck_abort_msg("no result of an acquire");
    }
}

static inline void check_other_outcome(const struct call *call, const struct lq_outcome *outcome)
{
    switch (outcome->result) {
    case LOQUET_RELEASED:
        LQ_HOT_ASSERT(call->of->released);
        break;
    case LOQUET_RENEWED:
        LQ_HOT_ASSERT(call->of->ends_ms >= outcome->ends_ms);
        break;
    case LOQUET_NOT_HELD:
        LQ_HOT_ASSERT(!is_held(call->of));
        break;
    case LOQUET_ALIVE:
        break;
    case LOQUET_INVALID:
        LQ_HOT_ASSERT(!outcome->repeated && outcome->why == LQ_WHY_ERROR_FRAME);
        break;
    case LOQUET_INDETERMINATE:
    case LOQUET_CLOSED:
        MUST(shut || had_fault(call), "no answer without a fault");
        break;
    case LOQUET_ACQUIRED:
    case LOQUET_TIMEOUT:
    case LOQUET_BUSY:
        ck_abort_msg("no result of this request");
    }
}

/* What reached the client and was not handed over was given back, if nothing stood in the way. */
static inline void check_given_back(void)
{
    for (size_t i = 0; i < model.n_calls; i++) {
        const struct call *call = &model.calls[i];
        bool undisturbed = model.n_faults == 0 || (call->delivered_faults == model.n_faults &&
                                                   call->delivered_ms > model.faulty_ms);
        if (call->delivered_ms != 0 && !call->told && undisturbed &&
            call->ends_ms > call->delivered_ms + LATE_MS) {
            MUST(call->release_seen, "a grant was neither handed over nor given back");
        }
    }
}

#endif
