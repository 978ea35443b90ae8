/* The bytes of one connection, seen from the client's core. */
#include "client_rig.h"

#define RELEASE ((size_t)13) /* R, token, "key", line feed */

static struct lq_channel *channel_with(size_t n_releases, uint64_t now_ms)
{
    for (size_t i = 0; i < n_releases; i++) {
        struct lq_order order = order_of(LQ_GOAL_RELEASE, now_ms);
        order.token = TOKEN + i;
        (void)lq_core_submit(core, &order, now_ms);
    }
    return connect_now(now_ms);
}

START_TEST(nothing_is_sent_until_a_byte_is_written)
{
    struct lq_channel *channel = channel_with(3, 1000);
    size_t len;
    for (int i = 0; i < 3; i++) {
        (void)lq_core_output(core, channel, 1000, &len);
        ck_assert_uint_eq(len, 3 * RELEASE);
        ck_assert_uint_eq(channel->n_sent, 0);
    }
    lq_core_wrote(core, channel, RELEASE + 1); /* the first, and a byte of the second */
    ck_assert_uint_eq(channel->n_sent, 2);
    ck_assert_uint_eq(channel->n_queued, 1);
    (void)lq_core_output(core, channel, 1000, &len);
    ck_assert_uint_eq(len, 2 * RELEASE - 1);
    lq_core_wrote(core, channel, RELEASE - 1); /* the rest of the second, exactly */
    ck_assert_uint_eq(channel->n_sent, 2);
    ck_assert_ptr_eq(lq_core_next_output(core), channel);
    lq_core_wrote(core, channel, RELEASE);
    ck_assert_uint_eq(channel->n_sent, 3);
    ck_assert_ptr_null(lq_core_next_output(core));
}
END_TEST

/* C and P stand behind what was begun, and before what was not. */
START_TEST(cancel_stands_between_begun_and_not_begun)
{
    struct lq_request *first = acquire(60000, 30, 1000);
    struct lq_channel *channel = connect_now(1000);
    (void)acquire(60000, 30, 1000);
    write_some(channel, 1000, 5);
    lq_core_give_up(core, first, 1001);
    write_some(channel, 1001, 11 + 4 - 5);
    ck_assert_int_eq(written(channel, 1001).op, 'C');
    ck_assert_int_eq(written(channel, 1001).op, 'A');
    expect_silence(channel, 1001);
}
END_TEST

START_TEST(writes_are_bounded)
{
    static uint8_t key[LQ_KEY_MAX];
    struct lq_order order = order_of(LQ_GOAL_RELEASE, 1000);
    struct lq_channel *channel;
    size_t len, n = 0;

    memset(key, 'k', sizeof key);
    order.key = key;
    order.key_len = sizeof key;
    for (int i = 0; i < 100; i++) {
        (void)lq_core_submit(core, &order, 1000);
    }
    channel = connect_now(1000);
    while (lq_core_next_output(core) != NULL) {
        (void)lq_core_output(core, channel, 1000, &len);
        ck_assert_uint_gt(len, 0);
        ck_assert_uint_le(len, LQ_CHANNEL_OUT_MAX);
        len = len < 5000 ? len : 5000;
        lq_core_wrote(core, channel, len);
        n += len;
    }
    ck_assert_uint_eq(n, 100 * (9 + sizeof key + 1));
    ck_assert_uint_eq(channel->n_sent, 100);
}
END_TEST

/* A server that does not read: whatever is given up, the output stays bounded. */
START_TEST(nobody_reads)
{
    struct lq_request *requests[40];
    struct lq_channel *channel;
    for (int i = 0; i < 40; i++) {
        static uint8_t key[LQ_KEY_MAX];
        struct lq_order order = order_of(LQ_GOAL_ACQUIRE, 1000);
        memset(key, 'k', sizeof key);
        order.key = key;
        order.key_len = sizeof key;
        order.owner = ++last_owner;
        requests[i] = lq_core_submit(core, &order, 1000);
    }
    channel = connect_now(1000);
    while (channel->n_queued > 0) {
        size_t len;
        (void)lq_core_output(core, channel, 1000, &len);
        lq_core_wrote(core, channel, len);
    }
    lq_core_full(core, channel);
    for (int i = 0; i < 40; i++) {
        lq_core_give_up(core, requests[i], 1001);
    }
    lq_core_tick(core, 1001 + LQ_CANCEL_MARGIN_MS);
    for (int i = 0; i < 40; i++) {
        expect(LOQUET_INDETERMINATE, 1501);
    }
    ck_assert(!lq_core_is_open(channel));
}
END_TEST

/* Answers of the greatest size, one after the other, in pieces that do not end where they do. */
START_TEST(room_for_the_next_piece)
{
    static uint8_t stream[8 * LQ_FRAME_MAX], key[LQ_KEY_MAX];
    struct lq_order order = order_of(LQ_GOAL_ACQUIRE, 1000);
    struct lq_frame frame = {
        .op = LQ_OP_ACQUIRE, .token = TOKEN, .key = key, .key_len = LQ_KEY_MAX};
    struct lq_channel *channel;
    size_t len = 0, at = 0;

    memset(key, 'k', sizeof key);
    order.key = key;
    order.key_len = sizeof key;
    for (uint64_t i = 0; i < 8; i++) {
        frame.owner = order.owner = OWNER + i;
        (void)lq_core_submit(core, &order, 1000);
        len += lq_answer_encode(&frame, stream + len, sizeof stream - len);
    }
    channel = connect_now(1000);
    for (int i = 0; i < 8; i++) {
        (void)written(channel, 1000);
    }
    while (at < len) {
        size_t cap, n;
        uint8_t *space = lq_core_space(core, channel, &cap);
        ck_assert_uint_gt(cap, 0);
        n = cap < 700 ? cap : 700;
        n = n < len - at ? n : len - at;
        memcpy(space, stream + at, n);
        at += n;
        lq_core_received(core, channel, n, 1001);
    }
    for (uint64_t i = 0; i < 8; i++) {
        expect(LOQUET_ACQUIRED, 1001);
        ck_assert_uint_eq(outcome.owner, OWNER + i);
    }
}
END_TEST

START_TEST(many_are_answered_in_any_order)
{
    enum { N = 5000 };
    struct lq_channel *channel = channel_with(N, 1000);
    struct lq_rand rand = lq_rand_of(lq_test_seed(), 1);
    static uint64_t order[N];

    while (channel->n_queued > 0) {
        size_t len;
        (void)lq_core_output(core, channel, 1000, &len);
        lq_core_wrote(core, channel, len);
    }
    for (uint64_t i = 0; i < N; i++) {
        uint64_t other = lq_rand_below(&rand, i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    for (uint64_t i = 0; i < N; i++) {
        struct lq_frame frame = {.op = LQ_OP_RELEASE,
                                 .token = TOKEN + order[i],
                                 .key = (const uint8_t *)"key",
                                 .key_len = 3};
        answer_frame(channel, &frame, 1001);
        expect(LOQUET_RELEASED, 1001);
        ck_assert_uint_eq(outcome.token, frame.token);
    }
    ck_assert(lq_core_is_idle(core) && lq_core_is_open(channel));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client wire");
    TCase *tcase = tcase_create("client wire");

    (void)lq_test_seed();
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, nothing_is_sent_until_a_byte_is_written);
    tcase_add_test(tcase, cancel_stands_between_begun_and_not_begun);
    tcase_add_test(tcase, writes_are_bounded);
    tcase_add_test(tcase, nobody_reads);
    tcase_add_test(tcase, room_for_the_next_piece);
    tcase_add_test(tcase, many_are_answered_in_any_order);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
