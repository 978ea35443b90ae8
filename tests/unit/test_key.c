/* Which bytes may be a key. The UTF-8 check is compared with a second one written straight from the
 * table of RFC 3629, over every short sequence that can tell them apart. */
#include "lq_key.h"
#include "lq_limits.h"
#include "lq_test.h"

#include <string.h>

/* Rows of the table "Syntax of UTF-8 Byte Sequences": a range for each byte of a character. */
struct row {
    size_t len;
    uint8_t lowest[4], highest[4];
};

static const struct row rows[] = {
    {1, {0x00}, {0x7F}},
    {2, {0xC2, 0x80}, {0xDF, 0xBF}},
    {3, {0xE0, 0xA0, 0x80}, {0xE0, 0xBF, 0xBF}},
    {3, {0xE1, 0x80, 0x80}, {0xEC, 0xBF, 0xBF}},
    {3, {0xED, 0x80, 0x80}, {0xED, 0x9F, 0xBF}},
    {3, {0xEE, 0x80, 0x80}, {0xEF, 0xBF, 0xBF}},
    {4, {0xF0, 0x90, 0x80, 0x80}, {0xF0, 0xBF, 0xBF, 0xBF}},
    {4, {0xF1, 0x80, 0x80, 0x80}, {0xF3, 0xBF, 0xBF, 0xBF}},
    {4, {0xF4, 0x80, 0x80, 0x80}, {0xF4, 0x8F, 0xBF, 0xBF}},
};

static bool fits(const struct row *row, const uint8_t *bytes, size_t len)
{
    if (len < row->len) {
        return false;
    }
    for (size_t i = 0; i < row->len; i++) {
        if (bytes[i] < row->lowest[i] || bytes[i] > row->highest[i]) {
            return false;
        }
    }
    return true;
}

static bool naive_is_utf8(const uint8_t *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t row = 0;
        while (row < sizeof rows / sizeof *rows && !fits(&rows[row], bytes + at, len - at)) {
            row++;
        }
        if (row == sizeof rows / sizeof *rows) {
            return false;
        }
        at += rows[row].len;
    }
    return true;
}

static void compare(const uint8_t *bytes, size_t len)
{
    uint8_t first[4] = {0};

    if (lq_key_is_utf8(bytes, len) != naive_is_utf8(bytes, len)) {
        memcpy(first, bytes, len < sizeof first ? len : sizeof first);
        ck_abort_msg("%zu bytes %02x %02x %02x %02x...: expected %d", len, first[0], first[1],
                     first[2], first[3], naive_is_utf8(bytes, len));
    }
}

/* Bytes at which some row of the table begins or ends, and their neighbours. */
static const uint8_t edges[] = {0x00, 0x0A, 0x41, 0x7F, 0x80, 0x81, 0x8F, 0x90, 0x91,
                                0x9F, 0xA0, 0xA1, 0xBE, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF,
                                0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3,
                                0xF4, 0xF5, 0xF7, 0xF8, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF};
#define N_EDGES (sizeof edges)

START_TEST(every_pair_of_bytes)
{
    for (unsigned int first = 0; first < 256; first++) {
        uint8_t bytes[2] = {(uint8_t)first, 0};
        compare(bytes, 1);
        for (unsigned int second = 0; second < 256; second++) {
            bytes[1] = (uint8_t)second;
            compare(bytes, 2);
        }
    }
}
END_TEST

START_TEST(edges_of_three_and_four_bytes)
{
    size_t n = N_EDGES;

    for (size_t i = 0; i < n * n * n; i++) {
        uint8_t bytes[4] = {edges[i / (n * n)], edges[i / n % n], edges[i % n], 0};
        compare(bytes, 3);
        for (size_t last = 0; last < N_EDGES; last += 5) {
            bytes[3] = edges[last];
            compare(bytes, 4);
        }
    }
}
END_TEST

/* The check takes ASCII in steps of eight bytes: a character, whole or broken, at each place. */
START_TEST(a_character_at_every_place)
{
    static const char *const inserts[] = {"\x80",
                                          "\xC3\xA9",
                                          "\xC3",
                                          "\xE2\x82\xAC",
                                          "\xED\xA0\x80",
                                          "\xE2\x82",
                                          "\xF0\x9F\x94\x92",
                                          "\xF4\x90\x80\x80"};

    for (size_t i = 0; i < sizeof inserts / sizeof *inserts; i++) {
        size_t insert_len = strlen(inserts[i]);
        for (size_t len = insert_len; len <= 33; len++) {
            for (size_t at = 0; at + insert_len <= len; at++) {
                uint8_t bytes[33];
                memset(bytes, 'k', sizeof bytes);
                memcpy(bytes + at, inserts[i], insert_len);
                compare(bytes, len);
            }
        }
    }
}
END_TEST

START_TEST(random_bytes)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), 1);
    uint64_t rounds = lq_test_number("LQ_OPS", 20000);

    for (uint64_t round = 0; round < rounds; round++) {
        uint8_t bytes[24];
        size_t len = 1 + lq_rand_below(&rand, sizeof bytes);
        for (size_t at = 0; at < len; at++) {
            bytes[at] = lq_rand_below(&rand, 3) == 0 ? edges[lq_rand_below(&rand, N_EDGES)] : 'a';
        }
        compare(bytes, len);
    }
}
END_TEST

START_TEST(length_decides)
{
    uint8_t bytes[LQ_KEY_MAX + 1];

    memset(bytes, 'a', sizeof bytes);
    ck_assert(!lq_key_is_valid(bytes, 0));
    ck_assert(lq_key_is_valid(bytes, 1));
    ck_assert(lq_key_is_valid(bytes, LQ_KEY_MAX - 1));
    ck_assert(lq_key_is_valid(bytes, LQ_KEY_MAX));
    ck_assert(!lq_key_is_valid(bytes, LQ_KEY_MAX + 1));
    ck_assert(!lq_key_is_valid(bytes, SIZE_MAX));
    ck_assert(lq_key_is_utf8(bytes, 0));
}
END_TEST

START_TEST(a_line_feed_anywhere_is_no_key)
{
    for (size_t len = 1; len <= 20; len++) {
        for (size_t at = 0; at < len; at++) {
            uint8_t bytes[20];
            memset(bytes, 'a', sizeof bytes);
            bytes[at] = '\n';
            ck_assert(!lq_key_is_valid(bytes, len));
            ck_assert(lq_key_is_utf8(bytes, len));
        }
    }
}
END_TEST

/* Only the line feed is special: control characters and NUL are not. */
START_TEST(every_other_ascii_byte_is_a_key)
{
    for (unsigned int c = 0; c < 128; c++) {
        uint8_t byte = (uint8_t)c;
        ck_assert(lq_key_is_valid(&byte, 1) == (byte != '\n'));
    }
}
END_TEST

START_TEST(longest_key_of_wide_characters)
{
    uint8_t bytes[LQ_KEY_MAX];

    for (size_t at = 0; at < sizeof bytes; at += 4) {
        memcpy(bytes + at, "\xF0\x9F\x94\x92", 4);
    }
    ck_assert(lq_key_is_valid(bytes, sizeof bytes));
    ck_assert(!lq_key_is_valid(bytes, sizeof bytes - 1));
    ck_assert(!lq_key_is_valid(bytes + 1, sizeof bytes - 1));
}
END_TEST

static Suite *key_suite(void)
{
    Suite *suite = suite_create("key");
    TCase *utf8 = tcase_create("utf8");
    TCase *valid = tcase_create("valid");

    tcase_set_timeout(utf8, 60);
    tcase_add_test(utf8, every_pair_of_bytes);
    tcase_add_test(utf8, edges_of_three_and_four_bytes);
    tcase_add_test(utf8, a_character_at_every_place);
    tcase_add_test(utf8, random_bytes);
    tcase_add_test(valid, length_decides);
    tcase_add_test(valid, a_line_feed_anywhere_is_no_key);
    tcase_add_test(valid, every_other_ascii_byte_is_a_key);
    tcase_add_test(valid, longest_key_of_wide_characters);
    suite_add_tcase(suite, utf8);
    suite_add_tcase(suite, valid);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(key_suite());
}
