#include "session_asks.h"

#include "lq_check.h"

#include <stdlib.h>
#include <string.h>

void lq_asks_init(struct lq_asks *asks, const struct lq_rig_client *client)
{
    *asks = (struct lq_asks){.client = client};
}

void lq_asks_done(struct lq_asks *asks)
{
    free(asks->items);
}

const uint8_t *lq_ask_key(const struct lq_asks *asks, const struct lq_ask *ask)
{
    return asks->client->requests.at + ask->key_at;
}

/* ---- Requests. */

static bool has_key(const struct lq_asks *asks, const struct lq_ask *ask,
                    const struct lq_frame *frame)
{
    return ask->frame.key_len == frame->key_len &&
           memcmp(lq_ask_key(asks, ask), frame->key, frame->key_len) == 0;
}

static bool is_acquire_of(const struct lq_asks *asks, const struct lq_ask *ask,
                          const struct lq_frame *frame)
{
    return ask->frame.op == LQ_OP_ACQUIRE && ask->frame.owner == frame->owner &&
           has_key(asks, ask, frame);
}

static void note_cancel(struct lq_asks *asks, const struct lq_frame *frame)
{
    for (size_t i = 0; i < asks->n; i++) {
        struct lq_ask *ask = &asks->items[i];
        if (is_acquire_of(asks, ask, frame)) {
            ask->may_cancel = true;
            ask->must_cancel = !ask->has_twin;
        }
    }
}

/* Twins are known by it for as long as they are open. `ask` is not among the asks yet. */
static void find_twins(struct lq_asks *asks, struct lq_ask *ask, const uint8_t *key)
{
    struct lq_frame frame = ask->frame;
    frame.key = key;
    for (size_t i = 0; i < asks->n && frame.op == LQ_OP_ACQUIRE; i++) {
        struct lq_ask *other = &asks->items[i];
        if (is_acquire_of(asks, other, &frame)) {
            other->has_twin = ask->has_twin = true;
            other->must_cancel = false;
            ask->lease_s = other->lease_s < ask->lease_s ? other->lease_s : ask->lease_s;
        }
    }
    for (size_t i = 0; i < asks->n && ask->has_twin; i++) {
        if (is_acquire_of(asks, &asks->items[i], &frame)) {
            asks->items[i].lease_s = ask->lease_s;
        }
    }
}

static void note_request(struct lq_asks *asks, const struct lq_frame *frame, uint64_t now_ms,
                         uint64_t order)
{
    struct lq_ask ask = {.frame = *frame,
                         .key_at = (size_t)(frame->key - asks->client->requests.at),
                         .order = order,
                         .at_ms = now_ms,
                         .lease_s = frame->lease_s};
    if (frame->op == LQ_OP_CANCEL) {
        note_cancel(asks, frame);
        return;
    }
    if (asks->n == asks->cap) {
        asks->cap = 2 * asks->cap + 16;
        asks->items = reallocarray(asks->items, asks->cap, sizeof *asks->items);
        LQ_CHECK(asks->items != NULL);
    }
    find_twins(asks, &ask, frame->key);
    asks->items[asks->n++] = ask;
}

void lq_asks_read(struct lq_asks *asks, uint64_t now_ms, uint64_t *last_order)
{
    const struct lq_rig_client *client = asks->client;
    struct lq_frame frame;
    size_t used;
    while (asks->fault == 0) {
        switch (lq_request_decode(client->requests.at + asks->n_read,
                                  client->arrived - asks->n_read, &frame, &used)) {
        case LQ_DECODED_MORE:
            return;
        case LQ_DECODED_BAD:
            asks->fault = frame.code;
            return;
        case LQ_DECODED_FRAME:
            note_request(asks, &frame, now_ms, ++*last_order);
            asks->n_read += used;
        }
    }
}

/* ---- Answers. */

static bool is_answer_to(const struct lq_asks *asks, const struct lq_ask *ask,
                         const struct lq_frame *answer)
{
    uint8_t asked = ask->frame.op;
    switch ((enum lq_op)answer->op) {
    case LQ_OP_ACQUIRE:
    case LQ_OP_TIMEOUT:
    case LQ_OP_BUSY:
        return asked == LQ_OP_ACQUIRE && ask->frame.owner == answer->owner &&
               has_key(asks, ask, answer);
    case LQ_OP_RELEASE:
    case LQ_OP_RENEW:
    case LQ_OP_NOT_HELD: /* the oldest of that token must fit, see lq_asks_take */
        return (asked == LQ_OP_RELEASE || asked == LQ_OP_RENEW) &&
               ask->frame.token == answer->token && has_key(asks, ask, answer);
    case LQ_OP_PING:
        return asked == LQ_OP_PING && ask->frame.owner == answer->owner;
    case LQ_OP_CANCEL:
    case LQ_OP_ERROR:
        break;
    }
    return false;
}

uint64_t lq_ask_end_ms(const struct lq_ask *ask)
{
    return ask->at_ms + 1000 * (uint64_t)ask->frame.wait_s + 1;
}

bool lq_ask_is_quick(const struct lq_ask *ask)
{
    return ask->frame.op != LQ_OP_ACQUIRE || ask->frame.wait_s == 0;
}

static bool may_time_out(const struct lq_asks *asks, const struct lq_ask *ask, uint64_t now_ms)
{
    return ask->frame.wait_s == 0 || ask->has_twin || ask->may_cancel || asks->client->had_eof ||
           now_ms >= lq_ask_end_ms(ask);
}

bool lq_asks_take(struct lq_asks *asks, const struct lq_frame *answer, uint64_t now_ms,
                  struct lq_ask *ret_ask)
{
    for (size_t i = 0; i < asks->n; i++) {
        struct lq_ask *ask = &asks->items[i];
        if (!is_answer_to(asks, ask, answer) ||
            (answer->op == LQ_OP_TIMEOUT && !may_time_out(asks, ask, now_ms))) {
            continue;
        }
        *ret_ask = *ask;
        asks->n--;
        memmove(ask, ask + 1, (asks->n - i) * sizeof *ask);
        return true;
    }
    return false;
}
