#include "lq_channel.h"

#include "lq_check.h"
#include "lq_client_planted.h"
#include "lq_core_impl.h"
#include "lq_limits.h"
#include "lq_mem.h"

#include <string.h>

struct lq_channel *lq_channel_new(enum lq_channel_kind kind, size_t address)
{
    struct lq_channel *channel = lq_malloc(sizeof *channel);

    /* Bytes before `in` alone: the buffers are 20 KiB that need no zeroing. */
    memset(channel, 0, offsetof(struct lq_channel, in));
    channel->kind = kind;
    channel->address = address;
    channel->timer.place = LQ_HEAP_OUT;
    lq_list_init(&channel->link);
    lq_list_init(&channel->ready);
    lq_list_init(&channel->roomy);
    lq_list_init(&channel->queued);
    for (size_t i = 0; i < LQ_CHANNEL_BUCKETS; i++) {
        lq_list_init(&channel->sent[i]);
    }
    return channel;
}

/* ---- Requests. */

static struct lq_list *bucket(struct lq_channel *channel, uint64_t number)
{
    uint64_t mixed = (number * UINT64_C(0x9E3779B97F4A7C15)) >> 32;
    return &channel->sent[mixed % LQ_CHANNEL_BUCKETS];
}

static bool is_sent(const struct lq_request *request)
{
    return request->phase == LQ_PHASE_SENT || request->phase == LQ_PHASE_CANCELLING;
}

/* Keeps the counts of what was sent. */
static void count(struct lq_channel *channel, const struct lq_request *request, int change)
{
    size_t *counter = request->role == LQ_ROLE_GHOST ? &channel->n_ghosts : &channel->n_sent;
    *counter += (size_t)change;
    if (request->step == LQ_OP_ACQUIRE) {
        channel->n_sent_acquires += (size_t)change;
    }
}

void lq_channel_queue(struct lq_channel *channel, struct lq_request *request)
{
    LQ_CHECK(channel->phase == LQ_CHANNEL_OPEN && request->phase == LQ_PHASE_QUEUED);
    request->channel = channel;
    lq_list_append(&channel->queued, &request->link);
    channel->n_queued++;
}

void lq_channel_remove(struct lq_request *request)
{
    struct lq_channel *channel = request->channel;

    LQ_CHECK(channel != NULL);
    if (is_sent(request)) {
        count(channel, request, -1);
    } else {
        LQ_CHECK(channel->n_queued > 0);
        channel->n_queued--;
    }
    lq_list_remove(&request->link);
    request->channel = NULL;
}

void lq_channel_haunt(struct lq_request *request)
{
    size_t size = sizeof *request + request->key_len;
    struct lq_request *ghost = lq_malloc(size);

    LQ_CHECK(is_sent(request) && request->role != LQ_ROLE_GHOST);
    memcpy(ghost, request, size);
    ghost->role = LQ_ROLE_GHOST;
    ghost->timer.place = LQ_HEAP_OUT;
    lq_list_init(&ghost->all);
    lq_list_append(&request->link, &ghost->link); /* just before it */
    count(request->channel, ghost, 1);
    lq_channel_remove(request);
}

void lq_channel_make_ghost(struct lq_request *request)
{
    count(request->channel, request, -1);
    request->role = LQ_ROLE_GHOST;
    count(request->channel, request, 1);
}

/* Whether an answer with this op may be one to this step. */
static bool fits(enum lq_op step, uint8_t op)
{
    switch (step) {
    case LQ_OP_ACQUIRE:
        return op == LQ_OP_ACQUIRE || op == LQ_OP_TIMEOUT || op == LQ_OP_BUSY;
    case LQ_OP_RELEASE:
    case LQ_OP_RENEW:
        return op == LQ_OP_RELEASE || op == LQ_OP_RENEW || op == LQ_OP_NOT_HELD;
    case LQ_OP_PING:
        return op == LQ_OP_PING;
    case LQ_OP_CANCEL:
    case LQ_OP_TIMEOUT:
    case LQ_OP_BUSY:
    case LQ_OP_NOT_HELD:
    case LQ_OP_ERROR:
        return false;
    }
    return false;
}

static bool has_key(const struct lq_request *request, const struct lq_frame *frame)
{
    return request->key_len == frame->key_len &&
           memcmp(request->key, frame->key, frame->key_len) == 0;
}

#ifdef LOQUET_PLANTED
/* LQ_PLANT_CLIENT_ANY_OWNER: some acquire of that key. */
static struct lq_request *match_key(struct lq_channel *channel, const struct lq_frame *frame)
{
    for (size_t i = 0; i < LQ_CHANNEL_BUCKETS; i++) {
        struct lq_list *list = &channel->sent[i];
        for (struct lq_list *at = list->next; at != list; at = at->next) {
            struct lq_request *request = LQ_CONTAINER(at, struct lq_request, link);
            if (request->step == LQ_OP_ACQUIRE && has_key(request, frame)) {
                return request;
            }
        }
    }
    return NULL;
}
#endif

/* The oldest request with the answer's number and key. R and K with one token are answered in the
 * order in which they were sent, so the oldest of them must be meant. */
struct lq_request *lq_channel_match(struct lq_channel *channel, const struct lq_frame *frame)
{
    bool by_token = fits(LQ_OP_RELEASE, frame->op);
    uint64_t number = by_token ? frame->token : frame->owner;
    struct lq_list *list = bucket(channel, number);

#ifdef LOQUET_PLANTED
    if (LQ_PLANTED(LQ_PLANT_CLIENT_ANY_OWNER) && fits(LQ_OP_ACQUIRE, frame->op)) {
        return match_key(channel, frame);
    }
#endif
    for (struct lq_list *at = list->next; at != list; at = at->next) {
        struct lq_request *request = LQ_CONTAINER(at, struct lq_request, link);
        if (fits(request->step, frame->op) && lq_ask_number(request) == number &&
            has_key(request, frame)) {
            bool crossed =
                by_token && frame->op != LQ_OP_NOT_HELD && frame->op != (uint8_t)request->step;
            return crossed ? NULL : request;
        }
    }
    return NULL;
}

struct lq_request *lq_channel_only(struct lq_channel *channel)
{
    if (channel->n_sent != 1 || channel->n_ghosts > 0 || channel->ping_open) {
        return NULL;
    }
    for (size_t i = 0; i < LQ_CHANNEL_BUCKETS; i++) {
        if (!lq_list_is_empty(&channel->sent[i])) {
            return LQ_CONTAINER(channel->sent[i].next, struct lq_request, link);
        }
    }
    LQ_BUG("what was sent is in a list");
}

bool lq_channel_is_busy(const struct lq_channel *channel)
{
    return channel->n_queued + channel->n_sent > 0;
}

size_t lq_channel_room(const struct lq_channel *channel)
{
    size_t used = channel->n_queued + channel->n_sent_acquires;
    size_t most = LQ_PLANTED(LQ_PLANT_CLIENT_ONE_CHANNEL) ? SIZE_MAX : LQ_CHANNEL_WAITS;

    if (channel->phase != LQ_CHANNEL_OPEN || channel->is_draining || channel->is_full) {
        return 0;
    }
    return used < most ? most - used : 0;
}

/* ---- Bytes out. */

/* Moves what is fixed and unwritten to the front, and forgets the rest. */
static void keep_fixed(struct lq_channel *channel)
{
    channel->out_fixed -= channel->out_sent;
    memmove(channel->out, channel->out + channel->out_sent, channel->out_fixed);
    channel->out_sent = 0;
    channel->out_len = channel->out_fixed;
}

bool lq_channel_put(struct lq_channel *channel, const struct lq_frame *frame)
{
    /* C leaves room for a P, and for the rest of a frame. */
    size_t spare = frame->op == LQ_OP_PING ? 0 : LQ_FRAME_MAX;
    size_t len;

    keep_fixed(channel);
    if (sizeof channel->out - channel->out_len < spare + LQ_FRAME_MAX) {
        return false;
    }
    len = lq_request_encode(frame, channel->out + channel->out_len,
                            sizeof channel->out - channel->out_len);
    LQ_CHECK(len > 0);
    channel->out_len += len;
    channel->out_fixed = channel->out_len;
    return true;
}

const uint8_t *lq_channel_output(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms,
                                 size_t *ret_len)
{
    struct lq_list *at = channel->queued.next;

    keep_fixed(channel);
    while (at != &channel->queued) {
        struct lq_request *request = LQ_CONTAINER(at, struct lq_request, link);
        struct lq_frame frame;
        at = at->next;
        if (lq_ask_render(core, request, now_ms, &frame)) {
            size_t len = lq_request_encode(&frame, channel->out + channel->out_len,
                                           sizeof channel->out - channel->out_len);
            if (len == 0) {
                break; /* no more room */
            }
            channel->out_len += len;
            request->frame_end = channel->out_len;
        }
    }
    *ret_len = channel->out_len;
    return channel->out;
}

/* The frame of the first queued request was begun. */
static void sent_first(struct lq_core *core, struct lq_channel *channel)
{
    struct lq_request *request = LQ_CONTAINER(channel->queued.next, struct lq_request, link);

    channel->out_fixed = request->frame_end;
    channel->n_queued--;
    lq_list_remove(&request->link);
    lq_ask_sent(core, request);
    if (LQ_PLANTED(LQ_PLANT_CLIENT_WHOLE_FRAMES) && channel->out_sent < channel->out_fixed) {
        request->outcome.maybe_sent = false;
    }
    if (channel->n_sent == 0) {
        channel->heard_ms = request->rendered_ms; /* silence counts from here */
    }
    lq_list_append(bucket(channel, lq_ask_number(request)), &request->link);
    count(channel, request, 1);
}

void lq_channel_wrote(struct lq_core *core, struct lq_channel *channel, size_t len)
{
    LQ_CHECK(len > 0 && len <= channel->out_len - channel->out_sent);
    channel->out_sent += len;
    while (channel->out_fixed < channel->out_sent) {
        sent_first(core, channel);
    }
}

bool lq_channel_has_output(const struct lq_channel *channel)
{
    return channel->phase == LQ_CHANNEL_OPEN &&
           (channel->n_queued > 0 || channel->out_sent < channel->out_fixed);
}

/* ---- Bytes in. */

uint8_t *lq_channel_space(struct lq_channel *channel, size_t *ret_cap)
{
    memmove(channel->in, channel->in + channel->in_used, channel->in_len - channel->in_used);
    channel->in_len -= channel->in_used;
    channel->in_used = 0;
    *ret_cap = sizeof channel->in - channel->in_len;
    return channel->in + channel->in_len;
}

void lq_channel_received(struct lq_channel *channel, size_t len, uint64_t now_ms)
{
    LQ_CHECK(len <= sizeof channel->in - channel->in_len);
    channel->in_len += len;
    channel->heard_ms = now_ms;
}

enum lq_decoded lq_channel_next(struct lq_channel *channel, struct lq_frame *ret_frame)
{
    size_t used;
    enum lq_decoded decoded = lq_answer_decode(
        channel->in + channel->in_used, channel->in_len - channel->in_used, ret_frame, &used);
    if (decoded == LQ_DECODED_FRAME) {
        channel->in_used += used;
    }
    return decoded;
}

/* ---- Silence. */

void lq_channel_ping(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms)
{
    struct lq_frame ping = {.op = LQ_OP_PING, .owner = core->nonce + 1};

    if (!channel->ping_open) {
        core->nonce++;
        channel->ping_nonce = ping.owner;
        channel->ping_open = true;
        channel->pinged_ms = now_ms;
        (void)lq_channel_put(channel, &ping); /* no room: nothing leaves, which is silence, too */
    }
}

bool lq_channel_pong(struct lq_channel *channel, uint64_t nonce)
{
    if (!channel->ping_open || nonce != channel->ping_nonce) {
        return false;
    }
    channel->ping_open = false;
    return true;
}

uint64_t lq_channel_silence_ms(const struct lq_channel *channel)
{
    if (channel->n_sent == 0) {
        return LQ_NEVER;
    }
    if (channel->ping_open) {
        uint64_t heard_ms = channel->heard_ms, pinged_ms = channel->pinged_ms;
        return (heard_ms > pinged_ms ? heard_ms : pinged_ms) + LQ_PING_PATIENCE_MS;
    }
    return channel->heard_ms + LQ_PING_AFTER_MS;
}
