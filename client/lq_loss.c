/* The end of a channel: what it means for its requests, and for the address. */
#include "lq_channels.h"
#include "lq_check.h"
#include "lq_core_impl.h"

void lq_channels_give_back(struct lq_core *core, struct lq_channel *channel)
{
    struct lq_list *queue = &core->queues[channel->kind];

    for (struct lq_list *at = channel->queued.next; at != &channel->queued; at = at->next) {
        LQ_CONTAINER(at, struct lq_request, link)->channel = NULL;
    }
    if (channel->kind == LQ_CHANNEL_WAITING) {
        core->n_queued_waits += channel->n_queued;
    }
    channel->n_queued = 0;
    lq_list_splice(&channel->queued, queue);
    lq_list_splice(queue, &channel->queued);
}

/* Whether a connection that was idle turned out to be dead when it was used again: it may have been
 * so for long, and nothing is known about its server. */
static bool is_excused(const struct lq_channel *channel, enum lq_why why)
{
    return channel->phase == LQ_CHANNEL_OPEN && channel->is_reused &&
           (why == LQ_WHY_EOF || why == LQ_WHY_BROKEN);
}

/* Draws the consequences for its address. Returns whether it counts as a failure of that. */
static bool blame(struct lq_core *core, struct lq_channel *channel, enum lq_why why,
                  uint64_t now_ms)
{
    if (is_excused(channel, why)) {
        return false;
    }
    if (channel->phase == LQ_CHANNEL_OPEN && channel->has_answered) {
        lq_channels_leave(core, channel);
        return false;
    }
    if (channel->attempt != core->dial.attempt) {
        return false;
    }
    if (lq_dial_failed(&core->dial, now_ms)) {
        core->wants_lookup = true;
    }
    return true;
}

/* Takes it out of all lists but that of the closed ones. */
static void close_channel(struct lq_core *core, struct lq_channel *channel)
{
    if (channel->phase == LQ_CHANNEL_DIALLING) {
        core->n_dialling[channel->kind]--;
    }
    if (channel->is_idle) {
        channel->is_idle = false;
        core->n_idle--;
    }
    if (core->common == channel) {
        core->common = NULL;
    }
    channel->phase = LQ_CHANNEL_CLOSED;
    lq_channels_note(core, channel);
    lq_list_remove(&channel->link);
    lq_list_append(&core->closed, &channel->link);
}

/* Ends, or queues again, what was sent on a channel that is closed. */
static void lose_sent(struct lq_core *core, struct lq_channel *channel,
                      const struct lq_fault *fault, uint64_t now_ms)
{
    for (size_t i = 0; i < LQ_CHANNEL_BUCKETS; i++) {
        while (!lq_list_is_empty(&channel->sent[i])) {
            struct lq_request *request =
                LQ_CONTAINER(channel->sent[i].next, struct lq_request, link);
            lq_channel_remove(request);
            if (request->role == LQ_ROLE_GHOST) {
                lq_ask_free(core, request);
            } else {
                lq_ask_lost(core, request, now_ms, fault);
            }
        }
    }
}

/* No address was to be had: for some requests that was the last try. */
static void tell_queued(struct lq_core *core, const struct lq_fault *fault, uint64_t now_ms)
{
    for (size_t kind = 0; kind < LQ_CHANNEL_N_KINDS; kind++) {
        struct lq_list *queue = &core->queues[kind], *at = queue->next;
        while (at != queue) {
            struct lq_request *request = LQ_CONTAINER(at, struct lq_request, link);
            at = at->next;
            lq_ask_not_connected(core, request, now_ms, fault);
        }
    }
}

void lq_channels_lose(struct lq_core *core, struct lq_channel *channel, struct lq_fault fault,
                      uint64_t now_ms)
{
    if (channel->phase == LQ_CHANNEL_CLOSED) {
        return;
    }
    fault.address = channel->address;
    fault.is_counted = blame(core, channel, fault.why, now_ms);
    close_channel(core, channel);
    lq_channels_give_back(core, channel);
    lose_sent(core, channel, &fault, now_ms);
    if (fault.is_counted) {
        tell_queued(core, &fault, now_ms);
    }
    lq_channels_assign(core);
}

void lq_channels_drop(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms)
{
    struct lq_fault fault = {.why = LQ_WHY_BROKEN, .address = channel->address};

    if (channel->phase == LQ_CHANNEL_CLOSED) {
        return;
    }
    close_channel(core, channel);
    lq_channels_give_back(core, channel);
    lose_sent(core, channel, &fault, now_ms);
}

void lq_channels_drain(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms)
{
    if (channel->phase == LQ_CHANNEL_CLOSED) {
        return;
    }
    channel->is_draining = true;
    if (core->common == channel) {
        core->common = NULL;
    }
    lq_channels_give_back(core, channel);
    lq_channels_settle(core, channel, now_ms);
    lq_channels_assign(core);
}

void lq_channels_leave(struct lq_core *core, const struct lq_channel *channel)
{
    if (lq_dial_leave(&core->dial, channel->address)) {
        lq_channels_stop_dialling(core);
    }
}

void lq_channels_stop_dialling(struct lq_core *core)
{
    struct lq_list *at = core->open.next;

    while (at != &core->open) {
        struct lq_channel *other = LQ_CONTAINER(at, struct lq_channel, link);
        at = at->next;
        if (other->phase == LQ_CHANNEL_DIALLING) {
            close_channel(core, other);
        }
    }
}
