/* What an answer, a failure or a deadline means for the request: the transitions of lq_core.h's
 * drawing. Used by lq_core.c alone. */
#ifndef LQ_STEP_H
#define LQ_STEP_H

#include "lq_core.h"

/* Queues a step's frame; it is to be answered by `by_ms`. */
void lq_step_start(struct lq_core *core, enum lq_op step, uint64_t by_ms);

/* Makes the frame of the queued step, as it is to be sent now. */
void lq_step_render(struct lq_core *core, uint64_t now_ms);

/* The request is over. */
void lq_step_finish(struct lq_core *core, enum loquet_result result);

/* The step will not be answered: deadline, or no connection is to be had. */
void lq_step_fail(struct lq_core *core, uint64_t now_ms);

/* An acquire's deadline came, or its caller gave up, while it was sent. */
void lq_step_cancel(struct lq_core *core, uint64_t now_ms);

/* A grant must not be handed over: give it back. */
void lq_step_undo(struct lq_core *core, uint64_t now_ms, enum lq_why why);

/* An answer other than P and E. False when it belongs to no request. */
bool lq_step_answer(struct lq_core *core, const struct lq_frame *frame, uint64_t now_ms);

#endif
