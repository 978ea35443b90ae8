#include "lq_effects.h"

#include "lq_mem.h"

struct lq_queued_effect {
    struct lq_list in_queue;
    struct lq_effect effect;
    struct lq_buffer bytes;
};

void lq_effects_init(struct lq_effects *effects)
{
    *effects = (struct lq_effects){0};
    lq_list_init(&effects->queue);
}

static void free_one(struct lq_queued_effect *queued)
{
    if (queued != NULL) {
        lq_buffer_done(&queued->bytes);
        lq_free(queued);
    }
}

void lq_effects_done(struct lq_effects *effects)
{
    struct lq_list *member;
    while ((member = lq_list_take(&effects->queue)) != NULL) {
        free_one(LQ_CONTAINER(member, struct lq_queued_effect, in_queue));
    }
    free_one(effects->taken);
    effects->taken = NULL;
}

void lq_effects_move(struct lq_effects *effects, const struct lq_effect *effect,
                     struct lq_buffer *bytes)
{
    struct lq_queued_effect *queued = lq_calloc(1, sizeof *queued);
    queued->effect = *effect;
    queued->bytes = *bytes;
    lq_buffer_init(bytes);
    effects->bytes += queued->bytes.len;
    lq_list_append(&effects->queue, &queued->in_queue);
}

void lq_effects_put(struct lq_effects *effects, const struct lq_effect *effect)
{
    struct lq_buffer copy;
    lq_buffer_init(&copy);
    if (effect->bytes != NULL) {
        lq_buffer_add(&copy, effect->bytes, effect->len);
    }
    lq_effects_move(effects, effect, &copy);
}

bool lq_effects_take(struct lq_effects *effects, struct lq_effect *ret_effect)
{
    struct lq_list *member = lq_list_take(&effects->queue);
    struct lq_queued_effect *queued;
    free_one(effects->taken);
    effects->taken = NULL;
    if (member == NULL) {
        return false;
    }
    queued = LQ_CONTAINER(member, struct lq_queued_effect, in_queue);
    effects->taken = queued;
    effects->bytes -= queued->bytes.len;
    *ret_effect = queued->effect;
    if (queued->bytes.len > 0) {
        ret_effect->bytes = queued->bytes.bytes;
        ret_effect->len = queued->bytes.len;
    }
    return true;
}

void lq_effects_note(struct lq_effects *effects, enum lq_note note, uint64_t a, uint64_t b)
{
    lq_effects_put(effects,
                   &(struct lq_effect){.kind = LQ_EFFECT_NOTE, .note = note, .a = a, .b = b});
}
