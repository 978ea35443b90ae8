#include "lq_channels.h"

#include "lq_check.h"
#include "lq_core_impl.h"
#include "lq_mem.h"

/* ---- Lists and timers. */

static void set_timer(struct lq_core *core, struct lq_channel *channel, uint64_t at_ms)
{
    bool is_set = lq_heap_holds(&channel->timer);

    if (at_ms == LQ_NEVER && is_set) {
        lq_heap_remove(&core->channels, &channel->timer);
    } else if (at_ms != LQ_NEVER && is_set) {
        lq_heap_move(&core->channels, &channel->timer, at_ms);
    } else if (at_ms != LQ_NEVER) {
        lq_heap_insert(&core->channels, &channel->timer, at_ms);
    }
}

static uint64_t due_ms(const struct lq_channel *channel)
{
    switch (channel->phase) {
    case LQ_CHANNEL_DIALLING:
        return channel->due_ms;
    case LQ_CHANNEL_OPEN:
        return channel->is_idle ? channel->due_ms : lq_channel_silence_ms(channel);
    case LQ_CHANNEL_CLOSED:
        return LQ_NEVER;
    }
    return LQ_NEVER;
}

/* Puts `link` before `list`, which is the end of a list or one of its members, or takes it out. */
static void list_if(struct lq_list *list, struct lq_list *link, bool belongs)
{
    if (!belongs) {
        lq_list_remove(link);
    } else if (lq_list_is_empty(link)) {
        lq_list_append(list, link);
    }
}

void lq_channels_note(struct lq_core *core, struct lq_channel *channel)
{
    bool roomy = channel->kind == LQ_CHANNEL_WAITING && lq_channel_room(channel) > 0;
    bool ready = lq_channel_has_output(channel) && !channel->is_full;

    list_if(&core->ready, &channel->ready, ready);
    /* Those in use are filled first, so that idle ones may end. */
    list_if(channel->is_idle ? &core->roomy : core->roomy.next, &channel->roomy, roomy);
    set_timer(core, channel, due_ms(channel));
}

/* Channels for waiting acquires on which none waits are kept for a while, few of them. */
static void note_idleness(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms)
{
    bool idle = channel->kind == LQ_CHANNEL_WAITING && channel->phase == LQ_CHANNEL_OPEN &&
                !lq_channel_is_busy(channel);

    if (idle == channel->is_idle) {
        return;
    }
    channel->is_idle = idle;
    core->n_idle += idle ? 1 : (size_t)-1;
    if (idle) {
        channel->due_ms = now_ms + LQ_CHANNEL_IDLE_MS;
        lq_list_remove(&channel->roomy); /* to the end, see lq_channels_note */
    }
}

void lq_channels_settle(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms)
{
    if (channel->phase == LQ_CHANNEL_CLOSED) {
        return;
    }
    if (channel->phase == LQ_CHANNEL_OPEN && channel->n_sent == 0 && channel->has_answered) {
        channel->is_reused = true;
    }
    note_idleness(core, channel, now_ms);
    if ((channel->is_draining && !lq_channel_is_busy(channel)) ||
        (channel->is_idle && core->n_idle > LQ_CHANNEL_IDLE_MAX)) {
        lq_channels_drop(core, channel, now_ms);
        return;
    }
    lq_channels_note(core, channel);
}

/* ---- Which request goes over which channel. */

static enum lq_channel_kind kind_of(const struct lq_request *request)
{
    bool waits = request->step == LQ_OP_ACQUIRE && request->wait_ms > 0;
    return waits ? LQ_CHANNEL_WAITING : LQ_CHANNEL_COMMON;
}

static void give(struct lq_core *core, struct lq_channel *channel, struct lq_list *queue)
{
    struct lq_request *request = LQ_CONTAINER(queue->next, struct lq_request, link);

    lq_list_remove(&request->link);
    core->n_queued_waits -= channel->kind == LQ_CHANNEL_WAITING;
    lq_channel_queue(channel, request);
}

static void assign_common(struct lq_core *core)
{
    struct lq_list *queue = &core->queues[LQ_CHANNEL_COMMON];
    struct lq_channel *channel = core->common;

    if (channel == NULL || channel->phase != LQ_CHANNEL_OPEN || lq_list_is_empty(queue)) {
        return;
    }
    while (!lq_list_is_empty(queue)) {
        give(core, channel, queue);
    }
    lq_channels_note(core, channel);
}

/* A channel with room, to the address in use. Those to an address that was left take no more. */
static struct lq_channel *roomy_channel(struct lq_core *core)
{
    while (!lq_list_is_empty(&core->roomy)) {
        struct lq_channel *channel = LQ_CONTAINER(core->roomy.next, struct lq_channel, roomy);
        if (channel->address == core->dial.at) {
            return channel;
        }
        channel->is_draining = true;
        channel->due_ms =
            1; /* long ago, if it is idle; 0 would say that there is something to drain */
        lq_channels_note(core, channel);
    }
    return NULL;
}

void lq_channels_assign(struct lq_core *core)
{
    struct lq_list *queue = &core->queues[LQ_CHANNEL_WAITING];
    struct lq_channel *channel;

    assign_common(core);
    while (!lq_list_is_empty(queue) && (channel = roomy_channel(core)) != NULL) {
        give(core, channel, queue);
        if (channel->is_idle) {
            channel->is_idle = false;
            core->n_idle--;
        }
        lq_channels_note(core, channel);
    }
}

void lq_channels_enqueue(struct lq_core *core, struct lq_request *request)
{
    enum lq_channel_kind kind = kind_of(request);

    LQ_CHECK(request->phase == LQ_PHASE_QUEUED && request->channel == NULL);
    lq_list_append(&core->queues[kind], &request->link);
    core->n_queued_waits += kind == LQ_CHANNEL_WAITING;
    lq_channels_assign(core);
}

void lq_channels_withdraw(struct lq_core *core, struct lq_request *request, uint64_t now_ms)
{
    struct lq_channel *channel = request->channel;

    if (channel != NULL) {
        lq_channel_remove(request);
        lq_channels_settle(core, channel, now_ms);
    } else if (!lq_list_is_empty(&request->link)) {
        lq_list_remove(&request->link);
        core->n_queued_waits -= kind_of(request) == LQ_CHANNEL_WAITING;
    }
}

/* ---- Events. */

void lq_channels_block(struct lq_core *core, struct lq_channel *channel)
{
    channel->is_full = true;
    if (channel->kind == LQ_CHANNEL_WAITING) {
        lq_channels_give_back(core, channel);
    }
    lq_channels_note(core, channel);
    lq_channels_assign(core);
}

void lq_channels_unblock(struct lq_core *core, struct lq_channel *channel)
{
    if (channel->phase != LQ_CHANNEL_CLOSED && channel->is_full) {
        channel->is_full = false;
        lq_channels_note(core, channel);
        lq_channels_assign(core);
    }
}

void lq_channels_connected(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms)
{
    if (channel->phase != LQ_CHANNEL_DIALLING) {
        return;
    }
    core->n_dialling[channel->kind]--;
    channel->phase = LQ_CHANNEL_OPEN;
    channel->heard_ms = now_ms;
    if (channel->attempt == core->dial.attempt) {
        lq_dial_connected(&core->dial);
    }
    lq_channels_settle(core, channel, now_ms);
    lq_channels_assign(core);
}

void lq_channels_note_answer(struct lq_core *core, struct lq_channel *channel)
{
    channel->has_answered = true;
    channel->is_reused = false;
    if (channel->address == core->dial.at) {
        lq_dial_succeeded(&core->dial);
    }
}

/* ---- Dialling. */

static bool wants(const struct lq_core *core, enum lq_channel_kind kind)
{
    switch (kind) {
    case LQ_CHANNEL_COMMON:
        return core->common == NULL && !lq_list_is_empty(&core->queues[LQ_CHANNEL_COMMON]);
    case LQ_CHANNEL_WAITING:
        return core->n_queued_waits > core->n_dialling[LQ_CHANNEL_WAITING] * LQ_CHANNEL_WAITS;
    }
    return false;
}

bool lq_channels_want_dial(const struct lq_core *core)
{
    size_t most = core->dial.is_proven ? LQ_CHANNEL_DIALS : 1;
    size_t n = core->n_dialling[LQ_CHANNEL_COMMON] + core->n_dialling[LQ_CHANNEL_WAITING];

    return n < most && (wants(core, LQ_CHANNEL_COMMON) || wants(core, LQ_CHANNEL_WAITING));
}

struct lq_channel *lq_channels_dial(struct lq_core *core, uint64_t now_ms)
{
    bool common = wants(core, LQ_CHANNEL_COMMON);
    struct lq_channel *channel =
        lq_channel_new(common ? LQ_CHANNEL_COMMON : LQ_CHANNEL_WAITING, core->dial.at);

    channel->attempt = core->dial.attempt;
    channel->due_ms = now_ms + LQ_DIAL_MS;
    lq_list_append(&core->open, &channel->link);
    core->n_dialling[channel->kind]++;
    set_timer(core, channel, channel->due_ms);
    if (common) {
        core->common = channel;
    }
    return channel;
}

/* ---- Time. */

static void tick_silence(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms)
{
    if (now_ms >= lq_channel_silence_ms(channel)) {
        if (channel->ping_open) {
            lq_channels_lose(core, channel, (struct lq_fault){.why = LQ_WHY_SILENT}, now_ms);
            return;
        }
        lq_channel_ping(core, channel, now_ms);
    }
    lq_channels_settle(core, channel, now_ms);
}

void lq_channels_tick(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms)
{
    if (channel->phase == LQ_CHANNEL_DIALLING) {
        lq_channels_lose(core, channel, (struct lq_fault){.why = LQ_WHY_DIAL}, now_ms);
    } else if (channel->is_idle) {
        lq_channels_drop(core, channel, now_ms);
    } else {
        tick_silence(core, channel, now_ms);
    }
}
