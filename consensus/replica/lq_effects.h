/* The effects that a node asks for, in their order, until the shell takes them. */
#ifndef LQ_EFFECTS_H
#define LQ_EFFECTS_H

#include "lq_buffer.h"
#include "lq_list.h"
#include "lq_replica.h"

struct lq_effects {
    struct lq_list queue; /* struct lq_queued_effect */
    uint64_t bytes;       /* of all in the queue */
    void *taken;          /* the one that the shell has now */
};

void lq_effects_init(struct lq_effects *effects);
void lq_effects_done(struct lq_effects *effects);

/* Queues an effect; its bytes are copied, `text` is not. */
void lq_effects_put(struct lq_effects *effects, const struct lq_effect *effect);

/* The same, taking the bytes out of `bytes`, which is empty afterwards. */
void lq_effects_move(struct lq_effects *effects, const struct lq_effect *effect,
                     struct lq_buffer *bytes);

bool lq_effects_take(struct lq_effects *effects, struct lq_effect *ret_effect);

/* Queues a note for the log. */
void lq_effects_note(struct lq_effects *effects, enum lq_note note, uint64_t a, uint64_t b);

#endif
