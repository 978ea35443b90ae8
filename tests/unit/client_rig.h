/* A rig for tests of the client's core: a core, and short words for what a driver and a server do
 * to it. Times are small numbers of ms. */
#ifndef CLIENT_RIG_H
#define CLIENT_RIG_H

#include "lq_client_limits.h"
#include "lq_core.h"
#include "lq_test.h"

#include <string.h>

#define OWNER UINT64_C(0x1122334455667788)
#define TOKEN UINT64_C(0x0A0B0C0D0E0F1011)

static struct lq_core core;
static struct lq_outcome outcome;

static inline void setup(void)
{
    lq_core_init(&core, 1, 7);
}

static inline void begin(enum lq_goal goal, uint32_t wait_ms, uint32_t lease_s, uint64_t now_ms)
{
    struct lq_order order = {.goal = goal,
                             .key = "key",
                             .key_len = goal == LQ_GOAL_PING ? 0 : 3,
                             .owner = OWNER,
                             .token = TOKEN,
                             .wait_ms = wait_ms,
                             .lease_s = lease_s,
                             .deadline_ms = now_ms + 3000,
                             .redial_until_ms = wait_ms == 0 ? 0 : now_ms + wait_ms};
    lq_core_begin(&core, &order, now_ms);
}

static inline void dial(uint64_t now_ms)
{
    size_t address;
    ck_assert(lq_core_dial(&core, now_ms, &address));
}

static inline void connect_now(uint64_t now_ms)
{
    dial(now_ms);
    lq_core_connected(&core, now_ms);
}

/* Takes what the core wants to write, as one frame, and writes `len` bytes of it (0: none, -1:
 * all).
 */
static inline struct lq_frame written(uint64_t now_ms, int len)
{
    static uint8_t bytes[LQ_FRAME_MAX];
    struct lq_frame frame;
    size_t n, used;
    const uint8_t *output = lq_core_output(&core, now_ms, &n);

    ck_assert_uint_gt(n, 0);
    memcpy(bytes, output, n);
    ck_assert_int_eq(lq_request_decode(bytes, n, &frame, &used), LQ_DECODED_FRAME);
    ck_assert_uint_eq(used, n);
    if (len != 0) {
        lq_core_wrote(&core, len < 0 ? n : (size_t)len);
    }
    return frame;
}

static inline void expect_silence(uint64_t now_ms)
{
    size_t n;
    (void)lq_core_output(&core, now_ms, &n);
    ck_assert_uint_eq(n, 0);
}

static inline void receive_bytes(const uint8_t *bytes, size_t len, uint64_t now_ms)
{
    for (size_t i = 0; i < len && core.conn == LQ_CONN_OPEN; i++) { /* one at a time */
        size_t cap;
        uint8_t *space = lq_core_space(&core, &cap);
        ck_assert_uint_gt(cap, 0);
        *space = bytes[i];
        lq_core_received(&core, 1, now_ms);
    }
}

static inline void answer_as(char op, uint64_t owner, uint64_t token, const char *key,
                             uint64_t now_ms)
{
    struct lq_frame frame = {.op = (uint8_t)op,
                             .owner = owner,
                             .token = token,
                             .code = LQ_WIRE_UNKNOWN_OP,
                             .key = (const uint8_t *)key,
                             .key_len = (uint16_t)strlen(key)};
    uint8_t bytes[LQ_FRAME_MAX];
    receive_bytes(bytes, lq_answer_encode(&frame, bytes, sizeof bytes), now_ms);
}

static inline void answer(char op, uint64_t now_ms)
{
    answer_as(op, OWNER, TOKEN, "key", now_ms);
}

static inline void expect(enum loquet_result result, uint64_t now_ms)
{
    ck_assert(lq_core_take(&core, now_ms, &outcome));
    ck_assert_str_eq(loquet_result_text(outcome.result), loquet_result_text(result));
    ck_assert_int_eq(core.phase, LQ_PHASE_IDLE);
}

static inline void expect_nothing(uint64_t now_ms)
{
    ck_assert(!lq_core_take(&core, now_ms, &outcome));
}

/* An acquire that was sent at `now_ms`. */
static inline void begin_sent(uint32_t wait_ms, uint32_t lease_s, uint64_t now_ms)
{
    begin(LQ_GOAL_ACQUIRE, wait_ms, lease_s, now_ms);
    connect_now(now_ms);
    ck_assert_int_eq(written(now_ms, -1).op, 'A');
}

/* The core undoes a grant; whatever comes of that, the result is INDETERMINATE. */
static inline void expect_undo(uint64_t now_ms)
{
    struct lq_frame frame;
    expect_nothing(now_ms);
    frame = written(now_ms, -1);
    ck_assert_int_eq(frame.op, 'R');
    ck_assert_uint_eq(frame.token, TOKEN);
    answer('R', now_ms + 1);
    expect(LOQUET_INDETERMINATE, now_ms + 1);
}

#endif
