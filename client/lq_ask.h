/* One request: the steps of lq_core.h's drawing, and what an answer, a failure or a deadline means
 * for it. Pure.
 *
 * A request waits in a queue of the core, then in that of a channel; once a byte of its frame was
 * written it is among what was sent there, until it is answered or its channel is lost. What can be
 * repeated (R, K, P) then queues again. When a request is given up, or moved to another channel,
 * while its frame is unanswered, a ghost stays in its place: the late answer is matched, and
 * ignored, but for a grant, which is given back. */
#ifndef LQ_ASK_H
#define LQ_ASK_H

#include "lq_core.h"
#include "lq_frame.h"
#include "lq_heap.h"
#include "lq_list.h"

struct lq_channel;

/* Who is told the outcome. */
enum lq_role {
    LQ_ROLE_CALLER,
    LQ_ROLE_LEASE, /* the lease that it renews */
    LQ_ROLE_CHORE, /* nobody: a grant is given back */
    LQ_ROLE_GHOST, /* nobody, and nothing is done for it */
};

enum lq_phase {
    LQ_PHASE_QUEUED,     /* this step was certainly not sent on a channel that lives */
    LQ_PHASE_SENT,       /* at least one byte of it may have left */
    LQ_PHASE_CANCELLING, /* step A: C went after it */
    LQ_PHASE_GRANTED,    /* A matched, not yet handed over */
    LQ_PHASE_DONE,       /* the outcome waits to be taken */
};

struct lq_request {
    struct lq_list link;        /* in a queue, among what was sent, or in `done` */
    struct lq_list all;         /* in the core's list of all */
    struct lq_heap_node timer;  /* in the core's heap while there is a deadline */
    struct lq_channel *channel; /* where it is queued or was sent; NULL: nowhere */
    struct lq_lease *lease;     /* LQ_ROLE_LEASE */
    enum lq_role role;
    enum lq_goal goal;
    enum lq_op step;
    enum lq_phase phase;
    bool is_given_up;
    uint64_t deadline_ms; /* of the request */
    uint64_t redial_until_ms;
    uint64_t step_by_ms;    /* of this step, or of CANCELLING's margin */
    uint64_t move_ms;       /* step R, K, P: when to look for another channel */
    uint64_t rendered_ms;   /* when the step's frame was made */
    uint64_t nonce;         /* step P */
    uint64_t failures_seen; /* of addresses, when it began to look for one (lq_dial.h) */
    size_t frame_end;       /* of its frame in its channel's output */
    uint32_t wait_ms, lease_s;
    struct lq_outcome outcome;
    uint16_t key_len;
    uint8_t key[];
};

/* Why a channel is lost. */
struct lq_fault {
    enum lq_why why;
    uint8_t error_code; /* LQ_WHY_ERROR_FRAME */
    int code;           /* errno or 0 */
    size_t address;
    bool
        is_counted; /* as a failure of its address: requests go on looking, they don't begin anew */
};

/* Begins a request; `lease` is for LQ_ROLE_LEASE. It is the core's. */
struct lq_request *lq_ask_begin(struct lq_core *core, const struct lq_order *order,
                                enum lq_role role, uint64_t now_ms);

/* Frees a request that is in no list of a channel or queue. */
void lq_ask_free(struct lq_core *core, struct lq_request *request);

/* ---- Moves, for the files that decide them: lq_answer.c, lq_deadline.c. */

/* Sets the timer by its phase and times. */
void lq_ask_set_timer(struct lq_core *core, struct lq_request *request);

/* Queues a step's frame; it is to be answered by `by_ms`. The request is nowhere. */
void lq_ask_start(struct lq_core *core, struct lq_request *request, enum lq_op step,
                  uint64_t by_ms);

/* The request, which is nowhere, is over. It is freed, unless its caller is to be told. */
void lq_ask_finish(struct lq_core *core, struct lq_request *request, enum loquet_result result,
                   uint64_t now_ms);

/* An acquire may be handed over. */
void lq_ask_grant(struct lq_core *core, struct lq_request *request);

/* A grant must not be handed over: a chore gives it back. Finishes the acquire, which is nowhere.
 */
void lq_ask_late(struct lq_core *core, struct lq_request *request, uint64_t now_ms);

/* The step will not be answered: deadline, or no connection is to be had. Finishes the request,
 * which is nowhere; its phase is still that of the step. */
void lq_ask_fail(struct lq_core *core, struct lq_request *request, uint64_t now_ms);

/* When R, K or P looks for another channel, if no answer comes. */
uint64_t lq_ask_move_ms(const struct lq_request *request, uint64_t now_ms);

/* ---- For channels. */

/* The number by which its answers are matched: owner, token or nonce. */
uint64_t lq_ask_number(const struct lq_request *request);

/* Makes the frame of a queued step, as it is to be sent now. False when it must not be sent any
 * more: its deadline is over. */
bool lq_ask_render(struct lq_core *core, struct lq_request *request, uint64_t now_ms,
                   struct lq_frame *ret_frame);

/* The first byte of its frame was written, on its channel. */
void lq_ask_sent(struct lq_core *core, struct lq_request *request);

/* An answer, which was matched; the request is not among its channel's any more. */
void lq_ask_answer(struct lq_core *core, struct lq_request *request, const struct lq_frame *frame,
                   uint64_t now_ms);

/* The server said that the request, which was sent, is invalid, and was not executed. */
void lq_ask_refused(struct lq_core *core, struct lq_request *request, uint64_t now_ms,
                    const struct lq_fault *fault);

/* The channel on which it was sent is gone. */
void lq_ask_lost(struct lq_core *core, struct lq_request *request, uint64_t now_ms,
                 const struct lq_fault *fault);

/* A connection for this queued request could not be made. */
void lq_ask_not_connected(struct lq_core *core, struct lq_request *request, uint64_t now_ms,
                          const struct lq_fault *fault);

/* ---- For the core. */

/* See lq_core_give_up. */
void lq_ask_give_up(struct lq_core *core, struct lq_request *request, uint64_t now_ms);

/* The client is being closed: what is no acquire has until `by_ms`. */
void lq_ask_hurry(struct lq_core *core, struct lq_request *request, uint64_t by_ms);

/* Its timer went off. */
void lq_ask_tick(struct lq_core *core, struct lq_request *request, uint64_t now_ms);

/* The gate, for a request that is over: its outcome. Frees it. */
void lq_ask_take(struct lq_core *core, struct lq_request *request, uint64_t now_ms,
                 struct lq_outcome *ret_outcome);

/* A lease is not interested in its renewal any more. */
void lq_ask_disown(struct lq_core *core, struct lq_request *request);

#endif
