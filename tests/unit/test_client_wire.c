/* The bytes of one connection, seen from the client. */
#include "lq_client_limits.h"
#include "lq_test.h"
#include "lq_wire.h"

#include <string.h>

#define PING  ((size_t)10)
#define FRAME ((size_t)11) /* R with a key of one byte; K has one byte more */

static struct lq_wire wire;

static void put(char op)
{
    struct lq_frame frame = {
        .op = (uint8_t)op, .lease_s = 1, .key = (const uint8_t *)"k", .key_len = 1};
    lq_wire_put(&wire, &frame);
}

START_TEST(frames_are_taken_back_until_a_byte_is_written)
{
    size_t len;
    lq_wire_reset(&wire, 0);
    lq_wire_mark(&wire);
    put('R');
    lq_wire_take_back(&wire);
    ck_assert(!lq_wire_is_pending(&wire));
    lq_wire_mark(&wire);
    put('R');
    (void)lq_wire_output(&wire, &len);
    ck_assert_uint_eq(len, FRAME);
    ck_assert(lq_wire_wrote(&wire, 1));
    lq_wire_take_back(&wire);
    (void)lq_wire_output(&wire, &len);
    ck_assert_uint_eq(len, FRAME - 1);
}
END_TEST

/* A ping that is half written stands before a step's frame: only the frame can be taken back, and
 * only its first byte makes it sent. */
START_TEST(what_stands_before_the_mark_stays)
{
    size_t len;
    lq_wire_reset(&wire, 0);
    (void)lq_wire_ping(&wire, 0);
    ck_assert(!lq_wire_wrote(&wire, 3));
    for (int i = 0; i < 3; i++) {
        lq_wire_take_back(&wire);
        lq_wire_mark(&wire);
        put('K');
        (void)lq_wire_output(&wire, &len);
        ck_assert_uint_eq(len, PING - 3 + FRAME + 1);
    }
    ck_assert(!lq_wire_wrote(&wire, PING - 3));
    ck_assert(wire.ping_open);
    ck_assert(lq_wire_wrote(&wire, 1));
}
END_TEST

START_TEST(a_ping_can_be_taken_back)
{
    lq_wire_reset(&wire, 0);
    lq_wire_mark(&wire);
    (void)lq_wire_ping(&wire, 0);
    lq_wire_take_back(&wire);
    ck_assert(!wire.ping_open);
    ck_assert(!lq_wire_pong(&wire, wire.nonce));
}
END_TEST

START_TEST(one_ping_at_a_time)
{
    uint64_t nonce;
    lq_wire_reset(&wire, 1000);
    ck_assert_uint_eq(lq_wire_silence_due_ms(&wire), 1000 + LQ_PING_AFTER_MS);
    nonce = lq_wire_ping(&wire, 6000);
    ck_assert_uint_eq(lq_wire_ping(&wire, 7000), nonce);
    ck_assert_uint_eq(lq_wire_silence_due_ms(&wire), 6000 + LQ_PING_PATIENCE_MS);
    ck_assert(!lq_wire_pong(&wire, nonce + 1));
    ck_assert(lq_wire_pong(&wire, nonce));
    ck_assert(!lq_wire_pong(&wire, nonce));
    ck_assert_uint_ne(lq_wire_ping(&wire, 8000), nonce);
}
END_TEST

/* Answers of the greatest size, one after the other, in pieces that do not end where they do. */
START_TEST(room_for_the_next_piece)
{
    static uint8_t stream[8 * LQ_FRAME_MAX], key[LQ_KEY_MAX];
    struct lq_frame frame = {.op = LQ_OP_ACQUIRE, .key = key, .key_len = LQ_KEY_MAX}, got;
    size_t len = 0, at = 0, frames = 0;

    memset(key, 'k', sizeof key);
    for (int i = 0; i < 8; i++) {
        len += lq_answer_encode(&frame, stream + len, sizeof stream - len);
    }
    lq_wire_reset(&wire, 0);
    while (at < len) {
        size_t cap, n;
        uint8_t *space = lq_wire_space(&wire, &cap);
        ck_assert_uint_gt(cap, 0);
        n = cap < 700 ? cap : 700;
        n = n < len - at ? n : len - at;
        memcpy(space, stream + at, n);
        at += n;
        lq_wire_received(&wire, n, 0);
        while (lq_wire_next(&wire, &got) == LQ_DECODED_FRAME) {
            ck_assert_uint_eq(got.key_len, LQ_KEY_MAX);
            frames++;
        }
    }
    ck_assert_uint_eq(frames, 8);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client wire");
    TCase *tcase = tcase_create("client wire");

    tcase_add_test(tcase, frames_are_taken_back_until_a_byte_is_written);
    tcase_add_test(tcase, what_stands_before_the_mark_stays);
    tcase_add_test(tcase, a_ping_can_be_taken_back);
    tcase_add_test(tcase, one_ping_at_a_time);
    tcase_add_test(tcase, room_for_the_next_piece);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
