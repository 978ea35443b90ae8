/* The frames of the client protocol, both directions: each op byte by byte, faults and which of
 * several is reported. The vectors in tests/golden hold more of the plain cases, in a form that
 * clients in other languages use too; streams are in test_frame_stream.c. */
#include "lq_props.h"

#include <signal.h>
#include <string.h>

#define LEN(literal)   (sizeof(literal) - 1)
#define BYTES(literal) (const uint8_t *)(literal), LEN(literal)
#define KEY(literal)   .key = (const uint8_t *)(literal), .key_len = LEN(literal)

static const struct lq_direction *const directions[] = {&lq_requests, &lq_answers};
#define N_DIRECTIONS 2

/* ---- Each op. */

struct example {
    const struct lq_direction *direction;
    const uint8_t *bytes;
    size_t len;
    struct lq_frame frame;
};

#define NUMBER UINT64_C(0x0102030405060708)
#define FEEDS  UINT64_C(0x0A0A0A0A0A0A0A0A)

static const struct example examples[] = {
    {&lq_requests,
     BYTES("A\x05\x1E\1\2\3\4\5\6\7\10key\n"),
     {.op = 'A', .wait_s = 5, .lease_s = 30, .owner = NUMBER, KEY("key")}},
    {&lq_requests, BYTES("R\1\2\3\4\5\6\7\10key\n"), {.op = 'R', .token = NUMBER, KEY("key")}},
    {&lq_requests,
     BYTES("K\xFF\1\2\3\4\5\6\7\10key\n"),
     {.op = 'K', .lease_s = 255, .token = NUMBER, KEY("key")}},
    {&lq_requests, BYTES("C\1\2\3\4\5\6\7\10key\n"), {.op = 'C', .owner = NUMBER, KEY("key")}},
    {&lq_requests, BYTES("P\1\2\3\4\5\6\7\10\n"), {.op = 'P', .owner = NUMBER, KEY("")}},
    {&lq_answers,
     BYTES("A\1\2\3\4\5\6\7\10\x11\x12\x13\x14\x15\x16\x17\x18key\n"),
     {.op = 'A', .token = NUMBER, .owner = UINT64_C(0x1112131415161718), KEY("key")}},
    {&lq_answers, BYTES("T\1\2\3\4\5\6\7\10key\n"), {.op = 'T', .owner = NUMBER, KEY("key")}},
    {&lq_answers, BYTES("B\1\2\3\4\5\6\7\10key\n"), {.op = 'B', .owner = NUMBER, KEY("key")}},
    {&lq_answers, BYTES("R\1\2\3\4\5\6\7\10key\n"), {.op = 'R', .token = NUMBER, KEY("key")}},
    {&lq_answers, BYTES("N\1\2\3\4\5\6\7\10key\n"), {.op = 'N', .token = NUMBER, KEY("key")}},
    {&lq_answers, BYTES("K\1\2\3\4\5\6\7\10key\n"), {.op = 'K', .token = NUMBER, KEY("key")}},
    {&lq_answers, BYTES("P\1\2\3\4\5\6\7\10\n"), {.op = 'P', .owner = NUMBER, KEY("")}},
    {&lq_answers, BYTES("E\6bye\n"), {.op = 'E', .code = 6, KEY("bye")}},
    {&lq_answers, BYTES("E\6\n"), {.op = 'E', .code = 6, KEY("")}},
    /* Every header byte that may be one is a line feed. */
    {&lq_requests,
     BYTES("A\n\n\n\n\n\n\n\n\n\nk\n"),
     {.op = 'A', .wait_s = 10, .lease_s = 10, .owner = FEEDS, KEY("k")}},
    {&lq_requests, BYTES("R\n\n\n\n\n\n\n\nk\n"), {.op = 'R', .token = FEEDS, KEY("k")}},
    {&lq_requests,
     BYTES("K\n\n\n\n\n\n\n\n\nk\n"),
     {.op = 'K', .lease_s = 10, .token = FEEDS, KEY("k")}},
    {&lq_requests, BYTES("C\n\n\n\n\n\n\n\nk\n"), {.op = 'C', .owner = FEEDS, KEY("k")}},
    {&lq_requests, BYTES("P\n\n\n\n\n\n\n\n\n"), {.op = 'P', .owner = FEEDS, KEY("")}},
    {&lq_answers,
     BYTES("A\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\nk\n"),
     {.op = 'A', .token = FEEDS, .owner = FEEDS, KEY("k")}},
    {&lq_answers, BYTES("T\n\n\n\n\n\n\n\nk\n"), {.op = 'T', .owner = FEEDS, KEY("k")}},
    {&lq_answers, BYTES("P\n\n\n\n\n\n\n\n\n"), {.op = 'P', .owner = FEEDS, KEY("")}},
    {&lq_answers, BYTES("E\n\n"), {.op = 'E', .code = 10, KEY("")}},
    /* A key of every kind of byte that is not a line feed; NUL and carriage return are nothing
       special. */
    {&lq_requests,
     BYTES("R\1\2\3\4\5\6\7\10\0\r\x7F\xC3\xA9\xF0\x9F\x94\x92\n"),
     {.op = 'R', .token = NUMBER, KEY("\0\r\x7F\xC3\xA9\xF0\x9F\x94\x92")}},
    /* wait 0 is one attempt, and an error code need not be known. */
    {&lq_requests, BYTES("A\0\1\0\0\0\0\0\0\0\0k\n"), {.op = 'A', .lease_s = 1, KEY("k")}},
    {&lq_answers, BYTES("E\xFFsome\n"), {.op = 'E', .code = 255, KEY("some")}},
};
#define N_EXAMPLES (int)(sizeof examples / sizeof *examples)

/* Every room from none to one byte more than needed; nothing is written beyond the frame. */
static void encode_into_any_room(const struct example *example)
{
    uint8_t bytes[64];

    for (size_t cap = 0; cap <= example->len + 1; cap++) {
        size_t expected = cap < example->len ? 0 : example->len;
        memset(bytes, 0xA5, sizeof bytes);
        ck_assert_uint_eq(example->direction->encode(&example->frame, bytes, cap), expected);
        for (size_t i = cap < example->len ? cap : example->len; i < sizeof bytes; i++) {
            ck_assert_uint_eq(bytes[i], 0xA5);
        }
    }
    ck_assert_mem_eq(bytes, example->bytes, example->len);
}

START_TEST(decodes_and_encodes_example)
{
    const struct example *example = &examples[_i];
    struct lq_frame frame = {0};
    size_t used = 0;

    ck_assert_int_eq(example->direction->decode(example->bytes, example->len, &frame, &used),
                     LQ_DECODED_FRAME);
    ck_assert_uint_eq(used, example->len);
    ck_assert(lq_props_equal(&frame, &example->frame));
    ck_assert_ptr_eq(frame.key, example->bytes + example->len - 1 - frame.key_len);
    ck_assert_ptr_null(lq_props_fault(example->direction, example->bytes, example->len));
    encode_into_any_room(example);
}
END_TEST

START_TEST(every_op_has_an_example)
{
    for (int w = 0; w < N_DIRECTIONS; w++) {
        for (const char *op = directions[w]->ops; *op != '\0'; op++) {
            int found = 0;
            for (int i = 0; i < N_EXAMPLES; i++) {
                found +=
                    examples[i].direction == directions[w] && examples[i].frame.op == (uint8_t)*op;
            }
            ck_assert_msg(found > 0, "%s %c", directions[w]->name, *op);
        }
    }
}
END_TEST

/* ---- Faults. */

struct fault {
    const struct lq_direction *direction;
    const uint8_t *bytes;
    size_t len; /* the first length at which the fault is known */
    uint8_t code;
};

#define ZEROS "\0\0\0\0\0\0\0\0"

static const struct fault faults[] = {
    {&lq_requests, BYTES("R" ZEROS "\n"), LQ_WIRE_EMPTY_KEY},
    {&lq_requests, BYTES("C" ZEROS "\n"), LQ_WIRE_EMPTY_KEY},
    {&lq_requests, BYTES("A\0\1" ZEROS "\n"), LQ_WIRE_EMPTY_KEY},
    {&lq_requests, BYTES("K\1" ZEROS "\n"), LQ_WIRE_EMPTY_KEY},
    {&lq_answers, BYTES("A" ZEROS ZEROS "\n"), LQ_WIRE_EMPTY_KEY},
    {&lq_answers, BYTES("T" ZEROS "\n"), LQ_WIRE_EMPTY_KEY},
    {&lq_requests, BYTES("A\0\0"), LQ_WIRE_LEASE_ZERO},
    {&lq_requests, BYTES("A\xFF\0"), LQ_WIRE_LEASE_ZERO},
    {&lq_requests, BYTES("A\n\0"), LQ_WIRE_LEASE_ZERO},
    {&lq_requests, BYTES("K\0"), LQ_WIRE_LEASE_ZERO},
    {&lq_requests, BYTES("P" ZEROS "k"), LQ_WIRE_KEY_TOO_LONG},
    {&lq_answers, BYTES("P" ZEROS "\0"), LQ_WIRE_KEY_TOO_LONG},
    {&lq_requests, BYTES("R" ZEROS "\x80\n"), LQ_WIRE_KEY_NOT_UTF8},
    {&lq_requests, BYTES("C" ZEROS "k\xC3\n"), LQ_WIRE_KEY_NOT_UTF8},
    {&lq_requests, BYTES("A\0\1" ZEROS "\xED\xA0\x80\n"), LQ_WIRE_KEY_NOT_UTF8},
    {&lq_requests, BYTES("K\1" ZEROS "\xC0\x80\n"), LQ_WIRE_KEY_NOT_UTF8},
    {&lq_answers, BYTES("B" ZEROS "\xF4\x90\x80\x80\n"), LQ_WIRE_KEY_NOT_UTF8},
};
#define N_FAULTS (int)(sizeof faults / sizeof *faults)

static void expect_bad(const struct lq_direction *direction, const uint8_t *bytes, size_t len,
                       uint8_t code)
{
    struct lq_frame frame = {.owner = 1, .token = 1, .key_len = 1};
    const struct lq_frame expected = {.op = bytes[0], .code = code};
    size_t used = 77;

    ck_assert_int_eq(direction->decode(bytes, len, &frame, &used), LQ_DECODED_BAD);
    ck_assert_uint_eq(frame.code, code);
    ck_assert(lq_props_equal(&frame, &expected));
    ck_assert_uint_eq(used, 77);
}

static void expect_more(const struct lq_direction *direction, const uint8_t *bytes, size_t len)
{
    struct lq_frame frame;
    size_t used;

    ck_assert_int_eq(direction->decode(bytes, len, &frame, &used), LQ_DECODED_MORE);
}

START_TEST(reports_fault_with_its_byte)
{
    const struct fault *fault = &faults[_i];

    expect_bad(fault->direction, fault->bytes, fault->len, fault->code);
    expect_more(fault->direction, fault->bytes, fault->len - 1);
    ck_assert_ptr_null(lq_props_fault(fault->direction, fault->bytes, fault->len));
}
END_TEST

START_TEST(every_other_op_is_unknown_at_once)
{
    for (int w = 0; w < N_DIRECTIONS; w++) {
        for (unsigned int op = 0; op < 256; op++) {
            uint8_t byte = (uint8_t)op;
            if (op != 0 && strchr(directions[w]->ops, (int)op) != NULL) {
                expect_more(directions[w], &byte, 1);
            } else {
                expect_bad(directions[w], &byte, 1, LQ_WIRE_UNKNOWN_OP);
            }
        }
        expect_more(directions[w], NULL, 0);
    }
}
END_TEST

/* The longest key is taken; one byte more is a fault as soon as it came, line feed or not. */
START_TEST(key_length_is_bounded_for_every_op)
{
    uint8_t bytes[LQ_FRAME_MAX + 1];

    for (int i = 0; i < N_EXAMPLES; i++) {
        const struct example *example = &examples[i];
        size_t header = example->len - 1 - example->frame.key_len;
        struct lq_frame frame;
        size_t used;

        if (example->frame.op == 'P') {
            continue;
        }
        memcpy(bytes, example->bytes, header);
        memset(bytes + header, 'k', LQ_KEY_MAX + 1);
        expect_more(example->direction, bytes, header + LQ_KEY_MAX);
        expect_bad(example->direction, bytes, header + LQ_KEY_MAX + 1, LQ_WIRE_KEY_TOO_LONG);
        bytes[header + LQ_KEY_MAX] = '\n';
        ck_assert_int_eq(example->direction->decode(bytes, header + LQ_KEY_MAX + 1, &frame, &used),
                         LQ_DECODED_FRAME);
        ck_assert_uint_eq(frame.key_len, LQ_KEY_MAX);
        ck_assert_uint_eq(used, header + LQ_KEY_MAX + 1);
        ck_assert(used <= LQ_FRAME_MAX);
    }
}
END_TEST

/* Several faults in one frame: that of the earlier byte is told. */
START_TEST(the_earlier_fault_wins)
{
    uint8_t bytes[LQ_FRAME_MAX + 1];

    expect_bad(&lq_requests, BYTES("A\0\0" ZEROS "\n"), LQ_WIRE_LEASE_ZERO);
    expect_bad(&lq_requests, BYTES("A\0\0" ZEROS "\x80\n"), LQ_WIRE_LEASE_ZERO);
    expect_bad(&lq_requests, BYTES("K\0" ZEROS "\n"), LQ_WIRE_LEASE_ZERO);
    expect_bad(&lq_requests, BYTES("T\0\0" ZEROS "\n"), LQ_WIRE_UNKNOWN_OP);
    expect_bad(&lq_answers, BYTES("C" ZEROS "\n"), LQ_WIRE_UNKNOWN_OP);
    memset(bytes, 0xFF, sizeof bytes);
    memcpy(bytes, "A\0\0", 3);
    expect_bad(&lq_requests, bytes, sizeof bytes, LQ_WIRE_LEASE_ZERO);
    memcpy(bytes, "A\0\1", 3);
    expect_bad(&lq_requests, bytes, sizeof bytes, LQ_WIRE_KEY_TOO_LONG);
    bytes[sizeof bytes - 1] = '\n';
    expect_bad(&lq_requests, bytes, sizeof bytes, LQ_WIRE_KEY_TOO_LONG);
    /* A zero where another op has its lease is nothing. */
    expect_more(&lq_requests, BYTES("R\0\0"));
    expect_more(&lq_answers, BYTES("K\0"));
    expect_more(&lq_answers, BYTES("A\0\0"));
}
END_TEST

START_TEST(every_code_has_its_text)
{
    for (unsigned int code = 0; code < 256; code++) {
        const char *text = lq_wire_error_text((uint8_t)code);
        ck_assert_ptr_nonnull(text);
        ck_assert(strlen(text) > 0 && strlen(text) <= LQ_KEY_MAX);
        ck_assert_ptr_null(strchr(text, '\n'));
        for (unsigned int other = 0; other < code && other <= LQ_WIRE_SHUTTING_DOWN; other++) {
            ck_assert_str_ne(text, lq_wire_error_text((uint8_t)other));
        }
    }
}
END_TEST

/* ---- Our own misuse stops the process. */

START_TEST(encoding_an_answer_as_a_request_aborts)
{
    const struct lq_frame frame = {.op = LQ_OP_TIMEOUT, KEY("k")};
    uint8_t bytes[32];
    (void)lq_request_encode(&frame, bytes, sizeof bytes);
}
END_TEST

START_TEST(encoding_a_ping_with_a_key_aborts)
{
    const struct lq_frame frame = {.op = LQ_OP_PING, KEY("k")};
    uint8_t bytes[32];
    (void)lq_request_encode(&frame, bytes, sizeof bytes);
}
END_TEST

START_TEST(encoding_a_key_too_long_aborts)
{
    static const uint8_t key[LQ_KEY_MAX + 1];
    const struct lq_frame frame = {.op = LQ_OP_RELEASE, .key = key, .key_len = sizeof key};
    uint8_t bytes[LQ_FRAME_MAX + 1];
    (void)lq_request_encode(&frame, bytes, sizeof bytes);
}
END_TEST

static Suite *frame_suite(void)
{
    Suite *suite = suite_create("frame");
    TCase *ops = tcase_create("ops");
    TCase *bad = tcase_create("bad");

    tcase_add_loop_test(ops, decodes_and_encodes_example, 0, N_EXAMPLES);
    tcase_add_test(ops, every_op_has_an_example);
    tcase_add_loop_test(bad, reports_fault_with_its_byte, 0, N_FAULTS);
    tcase_add_test(bad, every_other_op_is_unknown_at_once);
    tcase_add_test(bad, key_length_is_bounded_for_every_op);
    tcase_add_test(bad, the_earlier_fault_wins);
    tcase_add_test(bad, every_code_has_its_text);
    tcase_add_test_raise_signal(bad, encoding_an_answer_as_a_request_aborts, SIGABRT);
    tcase_add_test_raise_signal(bad, encoding_a_ping_with_a_key_aborts, SIGABRT);
    tcase_add_test_raise_signal(bad, encoding_a_key_too_long_aborts, SIGABRT);
    suite_add_tcase(suite, ops);
    suite_add_tcase(suite, bad);
    return suite;
}

int main(void)
{
    return lq_test_run(frame_suite());
}
