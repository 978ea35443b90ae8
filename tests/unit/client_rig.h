/* A rig for tests of the client's core: a core, and short words for what a driver and a server do
 * to it. Times are small numbers of ms. */
#ifndef CLIENT_RIG_H
#define CLIENT_RIG_H

#include "lq_channel.h"
#include "lq_client_limits.h"
#include "lq_core.h"
#include "lq_core_impl.h"
#include "lq_limits.h"
#include "lq_test.h"

#include <string.h>

#define OWNER UINT64_C(0x1122334455667788)
#define TOKEN UINT64_C(0x0A0B0C0D0E0F1011)

static struct lq_core *core;
static struct lq_outcome outcome; /* the last one taken */
static uint64_t last_owner;       /* of the last acquire that was begun */

static inline void use_addresses(size_t n)
{
    if (core != NULL) {
        lq_core_shut(core, 0);
        lq_core_drop_all(core, 0);
        lq_core_free(core);
    }
    core = lq_core_new(n, 7);
    last_owner = OWNER;
}

static inline void setup(void)
{
    use_addresses(1);
}

static inline void teardown(void)
{
    lq_core_shut(core, 0);
    lq_core_drop_all(core, 0);
    lq_core_free(core);
    core = NULL;
}

/* ---- The caller. Redialling goes on to the deadline, but for wait 0. */

static inline struct lq_order order_of(enum lq_goal goal, uint64_t now_ms)
{
    return (struct lq_order){.goal = goal,
                             .key = "key",
                             .key_len = goal == LQ_GOAL_PING ? 0 : 3,
                             .token = TOKEN,
                             .lease_s = 30,
                             .deadline_ms = now_ms + 3000,
                             .redial_until_ms = now_ms + 3000};
}

static inline struct lq_request *acquire(uint32_t wait_ms, uint32_t lease_s, uint64_t now_ms)
{
    struct lq_order order = order_of(LQ_GOAL_ACQUIRE, now_ms);
    order.owner = ++last_owner;
    order.wait_ms = wait_ms;
    order.lease_s = lease_s;
    order.redial_until_ms = wait_ms == 0 ? 0 : now_ms + wait_ms;
    return lq_core_submit(core, &order, now_ms);
}

static inline struct lq_request *submit(enum lq_goal goal, uint64_t now_ms)
{
    struct lq_order order = order_of(goal, now_ms);
    return lq_core_submit(core, &order, now_ms);
}

static inline void expect(enum loquet_result result, uint64_t now_ms)
{
    ck_assert(lq_core_take(core, now_ms, &outcome));
    ck_assert_int_eq(outcome.result, result);
}

static inline void expect_nothing(uint64_t now_ms)
{
    ck_assert(!lq_core_take(core, now_ms, &outcome));
}

/* ---- The driver. */

static inline struct lq_channel *dial(uint64_t now_ms)
{
    size_t address = SIZE_MAX;
    struct lq_channel *channel = lq_core_next_dial(core, now_ms, &address);
    ck_assert_ptr_nonnull(channel);
    ck_assert_uint_ne(address, SIZE_MAX);
    return channel;
}

static inline void expect_no_dial(uint64_t now_ms)
{
    size_t address;
    ck_assert_ptr_null(lq_core_next_dial(core, now_ms, &address));
}

static inline struct lq_channel *connect_now(uint64_t now_ms)
{
    struct lq_channel *channel = dial(now_ms);
    lq_core_connected(core, channel, now_ms);
    return channel;
}

/* Writes `len` bytes of what the channel wants to write. */
static inline void write_some(struct lq_channel *channel, uint64_t now_ms, size_t len)
{
    size_t n;
    (void)lq_core_output(core, channel, now_ms, &n);
    ck_assert_uint_le(len, n);
    lq_core_wrote(core, channel, len);
}

/* The first frame that the channel wants to write, written or not. Its key is good for the next 63
 * calls.
 */
static inline struct lq_frame first_frame(struct lq_channel *channel, uint64_t now_ms,
                                          size_t *ret_len)
{
    static uint8_t bytes[64][LQ_FRAME_MAX];
    static size_t turn;
    uint8_t *copy = bytes[turn++ % 64];
    struct lq_frame frame;
    size_t n;
    const uint8_t *output = lq_core_output(core, channel, now_ms, &n);

    ck_assert_uint_gt(n, 0);
    n = n < LQ_FRAME_MAX ? n : LQ_FRAME_MAX;
    memcpy(copy, output, n);
    ck_assert_int_eq(lq_request_decode(copy, n, &frame, ret_len), LQ_DECODED_FRAME);
    return frame;
}

static inline struct lq_frame shown(struct lq_channel *channel, uint64_t now_ms)
{
    size_t len;
    return first_frame(channel, now_ms, &len);
}

static inline struct lq_frame written(struct lq_channel *channel, uint64_t now_ms)
{
    size_t len;
    struct lq_frame frame = first_frame(channel, now_ms, &len);
    lq_core_wrote(core, channel, len);
    return frame;
}

static inline void expect_silence(struct lq_channel *channel, uint64_t now_ms)
{
    size_t n;
    (void)lq_core_output(core, channel, now_ms, &n);
    ck_assert_uint_eq(n, 0);
}

/* The channels that the core closes from here on, counted. */
static inline size_t closed(void)
{
    size_t n = 0;
    void *io;
    while (lq_core_next_closed(core, &io) != NULL) {
        n++;
    }
    return n;
}

/* ---- The server. */

static inline void receive_bytes(struct lq_channel *channel, const uint8_t *bytes, size_t len,
                                 uint64_t now_ms)
{
    for (size_t i = 0; i < len && lq_core_is_open(channel); i++) { /* one at a time */
        size_t cap;
        uint8_t *space = lq_core_space(core, channel, &cap);
        ck_assert_uint_gt(cap, 0);
        *space = bytes[i];
        lq_core_received(core, channel, 1, now_ms);
    }
}

static inline void answer_frame(struct lq_channel *channel, const struct lq_frame *frame,
                                uint64_t now_ms)
{
    uint8_t bytes[LQ_FRAME_MAX];
    receive_bytes(channel, bytes, lq_answer_encode(frame, bytes, sizeof bytes), now_ms);
}

/* Answers a request with `op`; a grant has TOKEN, an error the code of an unknown op. */
static inline void answer(struct lq_channel *channel, struct lq_frame request, char op,
                          uint64_t now_ms)
{
    struct lq_frame frame = {.op = (uint8_t)op,
                             .owner = request.owner,
                             .token = op == 'A' ? TOKEN : request.token,
                             .code = op == 'E' ? LQ_WIRE_UNKNOWN_OP : 0,
                             .key = request.key,
                             .key_len = request.key_len};
    answer_frame(channel, &frame, now_ms);
}

/* ---- Common beginnings and ends. */

/* An acquire that was sent at `now_ms`, over a connection of its own. */
static inline struct lq_channel *acquire_sent(uint32_t wait_ms, uint32_t lease_s, uint64_t now_ms,
                                              struct lq_frame *ret_frame)
{
    struct lq_channel *channel;
    (void)acquire(wait_ms, lease_s, now_ms);
    channel = connect_now(now_ms);
    *ret_frame = written(channel, now_ms);
    ck_assert_int_eq(ret_frame->op, 'A');
    return channel;
}

/* A chore gives TOKEN back, over a channel of its own or the common one. */
static inline void expect_chore(struct lq_channel *channel, uint64_t now_ms)
{
    struct lq_frame frame;
    channel = channel == NULL ? connect_now(now_ms) : channel;
    frame = written(channel, now_ms);
    ck_assert_int_eq(frame.op, 'R');
    ck_assert_uint_eq(frame.token, TOKEN);
    answer(channel, frame, 'R', now_ms);
    ck_assert(lq_core_is_idle(core));
}

/* Ends a grant that was not handed over: INDETERMINATE, and a chore. */
static inline void expect_late(uint64_t now_ms)
{
    expect(LOQUET_INDETERMINATE, now_ms);
    ck_assert_int_eq(outcome.why, LQ_WHY_LATE);
    ck_assert_uint_eq(outcome.ends_ms, 0);
    expect_chore(NULL, now_ms);
}

#endif
