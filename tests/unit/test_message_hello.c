/* What stands around messages on a link: frames by their length, whatever way the bytes come in,
 * the hello and the refusal. */
#include "lq_mem.h"
#include "lq_message.h"
#include "lq_test.h"

#include <string.h>

#define HELLO_BODY   (LQ_HELLO_BYTES - LQ_MESSAGE_LEN_BYTES)
#define REFUSAL_BODY (LQ_REFUSAL_BYTES - LQ_MESSAGE_LEN_BYTES)

static uint64_t seed;

/* ---- Frames. */

/* Unframes in memory of exactly `len` bytes; what is no frame leaves the outputs as they were. */
static enum lq_framed unframe(const uint8_t *bytes, size_t len, size_t max, size_t *ret_body_len,
                              size_t *ret_used)
{
    uint8_t *copy = lq_malloc(len + (len == 0));
    const uint8_t *body = NULL;
    size_t body_len = SIZE_MAX, used = SIZE_MAX;
    enum lq_framed framed;
    memcpy(copy, bytes, len);
    framed = lq_message_unframe(copy, len, max, &body, &body_len, &used);
    if (framed == LQ_FRAMED_ONE) {
        ck_assert_ptr_eq(body, copy + LQ_MESSAGE_LEN_BYTES);
        ck_assert_uint_eq(used, LQ_MESSAGE_LEN_BYTES + body_len);
        ck_assert_uint_le(used, len);
        *ret_body_len = body_len;
        *ret_used = used;
    } else {
        ck_assert(body == NULL && body_len == SIZE_MAX && used == SIZE_MAX);
    }
    lq_free(copy);
    return framed;
}

static void add_frame(struct lq_buffer *out, uint32_t claimed, size_t len)
{
    struct lq_writer writer =
        lq_writer_of(lq_buffer_extend(out, LQ_MESSAGE_LEN_BYTES), LQ_MESSAGE_LEN_BYTES);
    lq_write_u32(&writer, claimed);
    memset(lq_buffer_extend(out, len), 'x', len);
}

/* A length is judged as soon as its four bytes are there. */
static const struct {
    size_t max;
    uint32_t claimed;
    enum lq_framed framed;
} lengths[] = {
    {100, 0, LQ_FRAMED_BAD},
    {100, 1, LQ_FRAMED_MORE},
    {100, 100, LQ_FRAMED_MORE},
    {100, 101, LQ_FRAMED_BAD},
    {100, UINT32_MAX, LQ_FRAMED_BAD},
    {0, 1, LQ_FRAMED_BAD},
    {HELLO_BODY, HELLO_BODY, LQ_FRAMED_MORE},
    {HELLO_BODY, HELLO_BODY + 1, LQ_FRAMED_BAD},
    {LQ_MESSAGE_MAX, LQ_MESSAGE_MAX, LQ_FRAMED_MORE},
    {LQ_MESSAGE_MAX, LQ_MESSAGE_MAX + 1, LQ_FRAMED_BAD},
};

START_TEST(lengths_are_judged_at_once)
{
    struct lq_buffer out;
    size_t body_len, used;
    lq_buffer_init(&out);
    add_frame(&out, lengths[_i].claimed, 0);
    for (size_t len = 0; len < LQ_MESSAGE_LEN_BYTES; len++) {
        ck_assert_int_eq(unframe(out.bytes, len, lengths[_i].max, &body_len, &used),
                         LQ_FRAMED_MORE);
    }
    ck_assert_int_eq(unframe(out.bytes, out.len, lengths[_i].max, &body_len, &used),
                     lengths[_i].framed);
    lq_buffer_done(&out);
}
END_TEST

/* A stream of frames, given one byte more at a time: each comes out with its last byte. */
START_TEST(frames_come_out_with_their_last_byte)
{
    struct lq_rand rand = lq_rand_of(seed, 1);
    struct lq_buffer out;
    size_t ends[20], begin = 0, n = 0, body_len, used;
    lq_buffer_init(&out);
    for (size_t i = 0; i < 20; i++) {
        size_t len = 1 + lq_rand_below(&rand, 50);
        add_frame(&out, (uint32_t)len, len);
        ends[i] = out.len;
    }
    for (size_t len = 0; len <= out.len; len++) {
        enum lq_framed framed = unframe(out.bytes + begin, len - begin, 50, &body_len, &used);
        ck_assert_int_eq(framed, n < 20 && len == ends[n] ? LQ_FRAMED_ONE : LQ_FRAMED_MORE);
        if (framed == LQ_FRAMED_ONE) {
            begin += used;
            n++;
        }
    }
    ck_assert_uint_eq(n, 20);
    lq_buffer_done(&out);
}
END_TEST

/* ---- The hello. */

static bool accepts(const uint8_t *body, size_t len)
{
    struct lq_hello hello = {.boot = 0}; /* no hello has that */
    uint8_t *bytes = lq_malloc(len + (len == 0));
    bool is_accepted;
    memcpy(bytes, body, len);
    is_accepted = lq_hello_decode(bytes, len, &hello);
    ck_assert(is_accepted == (hello.boot != 0));
    lq_free(bytes);
    return is_accepted;
}

static struct lq_hello draw(struct lq_rand *rand)
{
    uint64_t flags = lq_rand_below(rand, 3);
    return (struct lq_hello){.is_blank = flags == 1,
                             .is_fresh = flags == 2,
                             .cluster = lq_rand_next(rand),
                             .from = (uint32_t)lq_rand_below(rand, UINT32_MAX) + 1,
                             .to = (uint32_t)lq_rand_below(rand, UINT32_MAX) + 1,
                             .boot = 1 + lq_rand_below(rand, UINT64_MAX)};
}

START_TEST(a_hello_is_read_as_written)
{
    struct lq_rand rand = lq_rand_of(seed, 2);
    for (int round = 0; round < 1000; round++) {
        struct lq_hello wanted = draw(&rand), hello;
        struct lq_buffer out;
        const uint8_t *body;
        size_t body_len, used;
        lq_buffer_init(&out);
        lq_hello_put(&out, &wanted);
        ck_assert_uint_eq(out.len, LQ_HELLO_BYTES);
        ck_assert_int_eq(
            lq_message_unframe(out.bytes, out.len, HELLO_BODY, &body, &body_len, &used),
            LQ_FRAMED_ONE);
        ck_assert(lq_hello_decode(body, body_len, &hello));
        ck_assert_int_eq(hello.is_blank, wanted.is_blank);
        ck_assert_int_eq(hello.is_fresh, wanted.is_fresh);
        ck_assert_uint_eq(hello.cluster, wanted.cluster);
        ck_assert_uint_eq(hello.from, wanted.from);
        ck_assert_uint_eq(hello.to, wanted.to);
        ck_assert_uint_eq(hello.boot, wanted.boot);
        lq_buffer_done(&out);
    }
}
END_TEST

START_TEST(a_hello_has_its_exact_length)
{
    struct lq_rand rand = lq_rand_of(seed, 3);
    struct lq_hello hello = draw(&rand);
    struct lq_buffer out;
    lq_buffer_init(&out);
    lq_hello_put(&out, &hello);
    lq_buffer_add(&out, "", 1);
    for (size_t len = 0; len <= HELLO_BODY + 1; len++) {
        ck_assert_int_eq(accepts(out.bytes + LQ_MESSAGE_LEN_BYTES, len), len == HELLO_BODY);
    }
    lq_buffer_done(&out);
}
END_TEST

/* Every bit of magic, version, flags and reserved, but for flags that make another known hello. */
START_TEST(no_bit_of_its_first_bytes_may_differ)
{
    struct lq_rand rand = lq_rand_of(seed, 4);
    struct lq_hello hello = draw(&rand);
    struct lq_buffer out;
    lq_buffer_init(&out);
    lq_hello_put(&out, &hello);
    for (size_t bit = 0; bit < 64; bit++) {
        uint8_t *at = out.bytes + LQ_MESSAGE_LEN_BYTES + bit / 8;
        *at = (uint8_t)(*at ^ 1U << bit % 8);
        ck_assert_int_eq(accepts(out.bytes + LQ_MESSAGE_LEN_BYTES, HELLO_BODY),
                         bit / 8 == 5 && *at <= 2);
        *at = (uint8_t)(*at ^ 1U << bit % 8);
    }
    lq_buffer_done(&out);
}
END_TEST

START_TEST(nobody_is_node_0_or_boots_for_the_0th_time)
{
    static const struct {
        size_t at, len;
    } fields[] = {{16, 4}, {20, 4}, {24, 8}};
    struct lq_rand rand = lq_rand_of(seed, 5);
    for (size_t i = 0; i < 3; i++) {
        struct lq_hello hello = draw(&rand);
        struct lq_buffer out;
        uint8_t *at;
        lq_buffer_init(&out);
        lq_hello_put(&out, &hello);
        at = out.bytes + LQ_MESSAGE_LEN_BYTES + fields[i].at;
        memset(at, 0, fields[i].len);
        ck_assert(!accepts(out.bytes + LQ_MESSAGE_LEN_BYTES, HELLO_BODY));
        at[fields[i].len - 1] = 1;
        ck_assert(accepts(out.bytes + LQ_MESSAGE_LEN_BYTES, HELLO_BODY));
        lq_buffer_done(&out);
    }
}
END_TEST

/* ---- The refusal. */

/* Decodes in memory of exactly `len` bytes; what is none leaves the output as it was. */
static bool is_refusal(const uint8_t *body, size_t len, struct lq_refusal *ret_refusal)
{
    uint8_t *bytes = lq_malloc(len + (len == 0));
    bool is_taken;
    memcpy(bytes, body, len);
    *ret_refusal = (struct lq_refusal){.reason = UINT8_MAX};
    is_taken = lq_refusal_decode(bytes, len, ret_refusal);
    ck_assert(is_taken == (ret_refusal->reason != UINT8_MAX));
    lq_free(bytes);
    return is_taken;
}

START_TEST(a_refusal_is_read_as_written)
{
    struct lq_rand rand = lq_rand_of(seed, 6);
    for (unsigned reason = 1; reason <= LQ_REFUSAL_LAST; reason++) {
        struct lq_refusal wanted = {.reason = (uint8_t)reason, .cluster = lq_rand_next(&rand)},
                          refusal;
        struct lq_buffer out;
        lq_buffer_init(&out);
        lq_refusal_put(&out, &wanted);
        ck_assert_uint_eq(out.len, LQ_REFUSAL_BYTES);
        lq_buffer_add(&out, "", 1);
        for (size_t len = 0; len <= REFUSAL_BODY + 1; len++) {
            ck_assert_int_eq(is_refusal(out.bytes + LQ_MESSAGE_LEN_BYTES, len, &refusal),
                             len == REFUSAL_BODY);
            ck_assert(len != REFUSAL_BODY ||
                      (refusal.reason == reason && refusal.cluster == wanted.cluster));
        }
        lq_buffer_done(&out);
    }
}
END_TEST

/* Every bit of magic, version, reason and reserved, but for those that make another known reason.
 */
START_TEST(no_bit_of_a_refusal_may_differ)
{
    struct lq_refusal wanted = {.reason = LQ_REFUSAL_LOST_DISK, .cluster = 9}, refusal;
    struct lq_buffer out;
    lq_buffer_init(&out);
    lq_refusal_put(&out, &wanted);
    for (size_t bit = 0; bit < 64; bit++) {
        uint8_t *at = out.bytes + LQ_MESSAGE_LEN_BYTES + bit / 8;
        *at = (uint8_t)(*at ^ 1U << bit % 8);
        ck_assert_int_eq(is_refusal(out.bytes + LQ_MESSAGE_LEN_BYTES, REFUSAL_BODY, &refusal),
                         bit / 8 == 5 && *at >= 1 && *at <= LQ_REFUSAL_LAST);
        *at = (uint8_t)(*at ^ 1U << bit % 8);
    }
    lq_buffer_done(&out);
}
END_TEST

START_TEST(a_refusal_is_no_hello_and_no_message)
{
    struct lq_refusal refusal = {.reason = LQ_REFUSAL_NOT_MEMBER, .cluster = 9};
    struct lq_message message;
    struct lq_hello hello;
    struct lq_buffer out;
    lq_buffer_init(&out);
    lq_refusal_put(&out, &refusal);
    ck_assert(!lq_hello_decode(out.bytes + LQ_MESSAGE_LEN_BYTES, REFUSAL_BODY, &hello));
    ck_assert(!lq_message_decode(out.bytes + LQ_MESSAGE_LEN_BYTES, REFUSAL_BODY, &message));
    lq_buffer_done(&out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("message_hello");
    TCase *tests = tcase_create("message_hello");
    seed = lq_test_seed();
    tcase_add_loop_test(tests, lengths_are_judged_at_once, 0,
                        (int)(sizeof lengths / sizeof *lengths));
    tcase_add_test(tests, frames_come_out_with_their_last_byte);
    tcase_add_test(tests, a_hello_is_read_as_written);
    tcase_add_test(tests, a_hello_has_its_exact_length);
    tcase_add_test(tests, no_bit_of_its_first_bytes_may_differ);
    tcase_add_test(tests, nobody_is_node_0_or_boots_for_the_0th_time);
    tcase_add_test(tests, a_refusal_is_read_as_written);
    tcase_add_test(tests, no_bit_of_a_refusal_may_differ);
    tcase_add_test(tests, a_refusal_is_no_hello_and_no_message);
    suite_add_tcase(suite, tests);
    return lq_test_run(suite);
}
