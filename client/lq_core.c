#include "lq_core.h"

#include "lq_channels.h"
#include "lq_check.h"
#include "lq_client_limits.h"
#include "lq_core_impl.h"
#include "lq_lease.h"
#include "lq_mem.h"

struct lq_core *lq_core_new(size_t n_addresses, uint64_t random)
{
    struct lq_core *core = lq_calloc(1, sizeof *core);
    struct lq_list *lists[] = {&core->all,   &core->done,  &core->lost,  &core->open,
                               &core->ready, &core->roomy, &core->closed};

    lq_heap_init(&core->asks);
    lq_heap_init(&core->channels);
    lq_heap_init(&core->leases);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        lq_list_init(lists[i]);
    }
    for (size_t i = 0; i < LQ_CHANNEL_N_KINDS; i++) {
        lq_list_init(&core->queues[i]);
    }
    lq_dial_init(&core->dial, n_addresses, random);
    core->nonce = random;
    return core;
}

void lq_core_free(struct lq_core *core)
{
    void *io;

    if (core == NULL) {
        return;
    }
    LQ_CHECK(lq_list_is_empty(&core->open) && core->leases.count == 0);
    while (lq_core_next_closed(core, &io) != NULL) {
    }
    while (!lq_list_is_empty(&core->all)) {
        lq_ask_free(core, LQ_CONTAINER(core->all.next, struct lq_request, all));
    }
    lq_heap_done(&core->asks);
    lq_heap_done(&core->channels);
    lq_heap_done(&core->leases);
    lq_free(core->forgotten);
    lq_free(core);
}

static struct lq_channel *channel_at(struct lq_list *link)
{
    return LQ_CONTAINER(link, struct lq_channel, link);
}

void lq_core_set_addresses(struct lq_core *core, size_t n_addresses)
{
    lq_dial_set(&core->dial, n_addresses);
    lq_channels_stop_dialling(core);
    for (struct lq_list *at = core->open.next; at != &core->open; at = at->next) {
        channel_at(at)->address = SIZE_MAX;
    }
    for (struct lq_list *at = core->all.next; at != &core->all; at = at->next) {
        LQ_CONTAINER(at, struct lq_request, all)->outcome.address = SIZE_MAX;
    }
}

bool lq_core_wants_lookup(struct lq_core *core)
{
    bool wants = core->wants_lookup;
    core->wants_lookup = false;
    return wants;
}

/* ---- Requests. */

static bool has_queued(const struct lq_core *core)
{
    return !lq_list_is_empty(&core->queues[LQ_CHANNEL_COMMON]) || core->n_queued_waits > 0;
}

struct lq_request *lq_core_submit(struct lq_core *core, const struct lq_order *order,
                                  uint64_t now_ms)
{
    if (!has_queued(core)) { /* its first round starts now */
        lq_dial_restart(&core->dial);
    }
    return lq_ask_begin(core, order, LQ_ROLE_CALLER, now_ms);
}

void lq_core_give_up(struct lq_core *core, struct lq_request *request, uint64_t now_ms)
{
    lq_ask_give_up(core, request, now_ms);
}

void lq_core_trouble(const struct lq_request *request, struct lq_outcome *ret_outcome)
{
    ret_outcome->why = request->outcome.why;
    ret_outcome->error_code = request->outcome.error_code;
    ret_outcome->code = request->outcome.code;
    ret_outcome->address = request->outcome.address;
}

bool lq_core_take(struct lq_core *core, uint64_t now_ms, struct lq_outcome *ret_outcome)
{
    struct lq_list *first = lq_list_take(&core->done);

    if (first == NULL) {
        return false;
    }
    core->n_done--;
    lq_ask_take(core, LQ_CONTAINER(first, struct lq_request, link), now_ms, ret_outcome);
    return true;
}

void lq_core_shut(struct lq_core *core, uint64_t now_ms)
{
    struct lq_list *at;

    if (core->is_shut) {
        return;
    }
    core->is_shut = true;
    while (core->leases.count > 0) {
        lq_lease_end(core, LQ_CONTAINER(lq_heap_first(&core->leases), struct lq_lease, timer));
    }
    at = core->all.next;
    while (at != &core->all) { /* at each step, at most the request that is looked at is freed */
        struct lq_request *request = LQ_CONTAINER(at, struct lq_request, all);
        bool chore = request->role == LQ_ROLE_CHORE;
        at = at->next;
        if (request->goal == LQ_GOAL_ACQUIRE) {
            lq_ask_give_up(core, request, now_ms);
        } else {
            lq_ask_hurry(core, request, now_ms + (chore ? LQ_UNDO_MS : LQ_CANCEL_MARGIN_MS));
        }
    }
}

bool lq_core_is_idle(const struct lq_core *core)
{
    return core->n_requests == 0 && core->leases.count == 0 && lq_list_is_empty(&core->lost);
}

bool lq_core_is_waiting(const struct lq_core *core)
{
    return core->n_requests > core->n_done || core->n_dialling[LQ_CHANNEL_COMMON] > 0 ||
           core->n_dialling[LQ_CHANNEL_WAITING] > 0;
}

/* ---- Channels. */

struct lq_channel *lq_core_next_dial(struct lq_core *core, uint64_t now_ms, size_t *ret_address)
{
    struct lq_channel *channel;

    if (now_ms < core->dial.not_before_ms || !lq_channels_want_dial(core)) {
        return NULL;
    }
    channel = lq_channels_dial(core, now_ms);
    *ret_address = channel->address;
    return channel;
}

void lq_core_connected(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms)
{
    lq_channels_connected(core, channel, now_ms);
}

void lq_core_lost(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms,
                  enum lq_why why, int code)
{
    lq_channels_lose(core, channel, (struct lq_fault){.why = why, .code = code}, now_ms);
}

struct lq_channel *lq_core_next_output(struct lq_core *core)
{
    if (lq_list_is_empty(&core->ready)) {
        return NULL;
    }
    return LQ_CONTAINER(core->ready.next, struct lq_channel, ready);
}

const uint8_t *lq_core_output(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms,
                              size_t *ret_len)
{
    const uint8_t *bytes;

    *ret_len = 0;
    if (channel->phase != LQ_CHANNEL_OPEN) {
        return NULL;
    }
    bytes = lq_channel_output(core, channel, now_ms, ret_len);
    lq_channels_note(core, channel);
    return bytes;
}

void lq_core_wrote(struct lq_core *core, struct lq_channel *channel, size_t len)
{
    lq_channel_wrote(core, channel, len);
    lq_channels_note(core, channel);
}

void lq_core_full(struct lq_core *core, struct lq_channel *channel)
{
    lq_channels_block(core, channel);
}

void lq_core_writable(struct lq_core *core, struct lq_channel *channel)
{
    lq_channels_unblock(core, channel);
}

bool lq_core_is_full(const struct lq_channel *channel)
{
    return channel->phase == LQ_CHANNEL_OPEN && channel->is_full;
}

uint8_t *lq_core_space(struct lq_core *core, struct lq_channel *channel, size_t *ret_cap)
{
    (void)core;
    return lq_channel_space(channel, ret_cap);
}

/* E: the server closes. If the frame of a release or renewal was at fault, which is certain only
 * when it was alone, it was not executed, and never will be. */
static void take_error(struct lq_core *core, struct lq_channel *channel,
                       const struct lq_frame *frame, uint64_t now_ms)
{
    struct lq_request *only = lq_channel_only(channel);
    struct lq_fault fault = {
        .why = LQ_WHY_ERROR_FRAME, .error_code = frame->code, .address = channel->address};

    if (only != NULL && frame->code != LQ_WIRE_SHUTTING_DOWN &&
        (only->step == LQ_OP_RELEASE || only->step == LQ_OP_RENEW)) {
        lq_channel_remove(only);
        lq_ask_refused(core, only, now_ms, &fault);
    }
    lq_channels_lose(core, channel, fault, now_ms);
}

/* One answer but E. False when nobody asked for it. */
static bool take_answer(struct lq_core *core, struct lq_channel *channel,
                        const struct lq_frame *frame, uint64_t now_ms)
{
    struct lq_request *request;

    if (frame->op == LQ_OP_PING && lq_channel_pong(channel, frame->owner)) {
        return true;
    }
    request = lq_channel_match(channel, frame);
    if (request == NULL) {
        return false;
    }
    lq_channel_remove(request);
    lq_ask_answer(core, request, frame, now_ms);
    return true;
}

void lq_core_received(struct lq_core *core, struct lq_channel *channel, size_t len, uint64_t now_ms)
{
    enum lq_decoded decoded = LQ_DECODED_MORE;
    struct lq_frame frame;

    lq_channel_received(channel, len, now_ms);
    while (channel->phase == LQ_CHANNEL_OPEN &&
           (decoded = lq_channel_next(channel, &frame)) == LQ_DECODED_FRAME) {
        if (frame.op == LQ_OP_ERROR) {
            take_error(core, channel, &frame, now_ms);
        } else if (!take_answer(core, channel, &frame, now_ms)) {
            lq_channels_lose(core, channel, (struct lq_fault){.why = LQ_WHY_UNASKED}, now_ms);
        } else {
            lq_channels_note_answer(core, channel);
        }
    }
    if (decoded == LQ_DECODED_BAD) {
        lq_channels_lose(core, channel, (struct lq_fault){.why = LQ_WHY_GARBAGE}, now_ms);
    }
    lq_channels_settle(core, channel, now_ms);
    lq_channels_assign(core);
}

bool lq_core_is_open(const struct lq_channel *channel)
{
    return channel->phase == LQ_CHANNEL_OPEN;
}

/* Once a client that is being closed has nothing left to do, its channels are closed. */
static void close_idle(struct lq_core *core)
{
    while (core->is_shut && lq_core_is_idle(core) && !lq_list_is_empty(&core->open)) {
        lq_channels_drop(core, channel_at(core->open.next), 0);
    }
}

struct lq_channel *lq_core_next_closed(struct lq_core *core, void **ret_io)
{
    close_idle(core);
    lq_free(core->forgotten); /* now nobody looks at it any more */
    core->forgotten = NULL;
    if (lq_list_is_empty(&core->closed)) {
        return NULL;
    }
    core->forgotten = channel_at(lq_list_take(&core->closed));
    *ret_io = core->forgotten->io;
    return core->forgotten;
}

void lq_core_drop_all(struct lq_core *core, uint64_t now_ms)
{
    while (!lq_list_is_empty(&core->open)) {
        lq_channels_drop(core, channel_at(core->open.next), now_ms);
    }
}

void lq_core_set_io(struct lq_channel *channel, void *io)
{
    channel->io = io;
}

void *lq_core_io(const struct lq_channel *channel)
{
    return channel->io;
}

/* ---- Time. */

void lq_core_tick(struct lq_core *core, uint64_t now_ms)
{
    while (lq_heap_first_ms(&core->asks) <= now_ms) {
        lq_ask_tick(core, LQ_CONTAINER(lq_heap_first(&core->asks), struct lq_request, timer),
                    now_ms);
    }
    while (lq_heap_first_ms(&core->channels) <= now_ms) {
        lq_channels_tick(
            core, LQ_CONTAINER(lq_heap_first(&core->channels), struct lq_channel, timer), now_ms);
    }
    while (lq_heap_first_ms(&core->leases) <= now_ms) {
        lq_lease_tick(core, LQ_CONTAINER(lq_heap_first(&core->leases), struct lq_lease, timer),
                      now_ms);
    }
}

uint64_t lq_core_due_ms(const struct lq_core *core)
{
    bool must_close = core->is_shut && lq_core_is_idle(core) && !lq_list_is_empty(&core->open);
    uint64_t due_ms =
        lq_earlier(lq_heap_first_ms(&core->asks),
                   lq_earlier(lq_heap_first_ms(&core->channels), lq_heap_first_ms(&core->leases)));

    if (must_close || !lq_list_is_empty(&core->done) || !lq_list_is_empty(&core->lost) ||
        !lq_list_is_empty(&core->ready) || !lq_list_is_empty(&core->closed)) {
        return 0;
    }
    return lq_channels_want_dial(core) ? lq_earlier(due_ms, core->dial.not_before_ms) : due_ms;
}
