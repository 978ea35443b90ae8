/* The bounded cursors: big-endian numbers, exact ends, sticky failure, hostile lengths. */
#include "lq_cursor.h"
#include "lq_test.h"

#include <string.h>

static const uint8_t counting[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
                                   0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F};

START_TEST(reads_big_endian_to_the_last_byte)
{
    struct lq_reader reader = lq_reader_of(counting, sizeof counting);

    ck_assert_uint_eq(lq_read_u8(&reader), 0x01);
    ck_assert_uint_eq(lq_read_u16(&reader), 0x0203);
    ck_assert_uint_eq(lq_read_u32(&reader), 0x04050607);
    ck_assert_uint_eq(lq_read_u64(&reader), UINT64_C(0x08090A0B0C0D0E0F));
    ck_assert_uint_eq(reader.left, 0);
    ck_assert(!reader.failed);
    ck_assert_ptr_eq(reader.at, counting + sizeof counting);
}
END_TEST

START_TEST(reads_bytes_in_place)
{
    struct lq_reader reader = lq_reader_of(counting, sizeof counting);

    ck_assert_ptr_eq(lq_read_bytes(&reader, 3), counting);
    ck_assert_ptr_eq(lq_read_bytes(&reader, 0), counting + 3);
    ck_assert_ptr_eq(lq_read_bytes(&reader, sizeof counting - 3), counting + 3);
    ck_assert_ptr_eq(lq_read_bytes(&reader, 0), counting + sizeof counting);
    ck_assert(!reader.failed);
}
END_TEST

/* Asks for width `width` from `left` bytes. */
static uint64_t read_width(struct lq_reader *reader, int width)
{
    switch (width) {
    case 1:
        return lq_read_u8(reader);
    case 2:
        return lq_read_u16(reader);
    case 4:
        return lq_read_u32(reader);
    default:
        return lq_read_u64(reader);
    }
}

static const int widths[] = {1, 2, 4, 8};

/* One byte too few, for each width: 0 comes back, nothing is consumed, and nothing is ever read
 * again, not even what would fit. */
START_TEST(a_read_beyond_the_end_is_sticky)
{
    int width = widths[_i];
    struct lq_reader reader = lq_reader_of(counting, (size_t)width - 1);

    ck_assert_uint_eq(read_width(&reader, width), 0);
    ck_assert(reader.failed);
    ck_assert_uint_eq(reader.left, (size_t)width - 1);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        ck_assert_uint_eq(read_width(&reader, widths[i]), 0);
    }
    ck_assert_ptr_null(lq_read_bytes(&reader, 1));
    ck_assert_ptr_null(lq_read_bytes(&reader, 0));
    ck_assert(reader.failed);
    ck_assert_ptr_eq(reader.at, counting);
}
END_TEST

START_TEST(hostile_lengths_do_not_wrap)
{
    static const size_t lengths[] = {sizeof counting + 1, SIZE_MAX / 2, SIZE_MAX - 1, SIZE_MAX};

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct lq_reader reader = lq_reader_of(counting, sizeof counting);
        uint8_t out[4] = {0};
        struct lq_writer writer = lq_writer_of(out, sizeof out);

        ck_assert_uint_eq(lq_read_u8(&reader), 1);
        ck_assert_ptr_null(lq_read_bytes(&reader, lengths[i]));
        ck_assert(reader.failed);
        lq_write_u8(&writer, 7);
        lq_write_bytes(&writer, counting, lengths[i]);
        ck_assert(writer.failed);
        ck_assert_uint_eq(out[0], 7);
        ck_assert_uint_eq(out[1], 0);
    }
}
END_TEST

START_TEST(an_empty_reader_fails_only_when_asked)
{
    struct lq_reader reader = lq_reader_of(NULL, 0);

    (void)lq_read_bytes(&reader, 0);
    ck_assert(!reader.failed);
    ck_assert_uint_eq(lq_read_u8(&reader), 0);
    ck_assert(reader.failed);
}
END_TEST

START_TEST(writes_big_endian_to_the_last_byte)
{
    uint8_t bytes[sizeof counting + 1] = {0};
    struct lq_writer writer = lq_writer_of(bytes, sizeof counting);

    lq_write_u8(&writer, 0x01);
    lq_write_u16(&writer, 0x0203);
    lq_write_u32(&writer, 0x04050607);
    lq_write_bytes(&writer, NULL, 0);
    lq_write_u64(&writer, UINT64_C(0x08090A0B0C0D0E0F));
    ck_assert(!writer.failed);
    ck_assert_uint_eq(writer.left, 0);
    ck_assert_mem_eq(bytes, counting, sizeof counting);
    lq_write_u8(&writer, 0xFF);
    ck_assert(writer.failed);
    ck_assert_uint_eq(bytes[sizeof counting], 0);
}
END_TEST

static void write_width(struct lq_writer *writer, int width)
{
    switch (width) {
    case 1:
        lq_write_u8(writer, UINT8_MAX);
        break;
    case 2:
        lq_write_u16(writer, UINT16_MAX);
        break;
    case 4:
        lq_write_u32(writer, UINT32_MAX);
        break;
    default:
        lq_write_u64(writer, UINT64_MAX);
        break;
    }
}

/* One byte too little room, for each width: not even a part of the number is written, and nothing
 * after it either, though it would fit. */
START_TEST(a_write_beyond_the_end_is_sticky)
{
    int width = widths[_i];
    uint8_t bytes[8] = {0};
    const uint8_t zero[8] = {0};
    struct lq_writer writer = lq_writer_of(bytes, (size_t)width - 1);

    write_width(&writer, width);
    ck_assert(writer.failed);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        write_width(&writer, widths[i]);
    }
    lq_write_bytes(&writer, counting, 1);
    lq_write_bytes(&writer, NULL, 0);
    ck_assert(writer.failed);
    ck_assert_mem_eq(bytes, zero, sizeof bytes);
}
END_TEST

START_TEST(what_is_written_is_read_back)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), 1);

    for (int round = 0; round < 1000; round++) {
        uint8_t bytes[15];
        uint64_t value = lq_rand_next(&rand);
        struct lq_writer writer = lq_writer_of(bytes, sizeof bytes);
        struct lq_reader reader = lq_reader_of(bytes, sizeof bytes);

        lq_write_u64(&writer, value);
        lq_write_u8(&writer, (uint8_t)value);
        lq_write_u32(&writer, (uint32_t)value);
        lq_write_u16(&writer, (uint16_t)value);
        ck_assert_uint_eq(lq_read_u64(&reader), value);
        ck_assert_uint_eq(lq_read_u8(&reader), (uint8_t)value);
        ck_assert_uint_eq(lq_read_u32(&reader), (uint32_t)value);
        ck_assert_uint_eq(lq_read_u16(&reader), (uint16_t)value);
        ck_assert(!writer.failed && !reader.failed);
    }
}
END_TEST

static Suite *cursor_suite(void)
{
    Suite *suite = suite_create("cursor");
    TCase *reader = tcase_create("reader");
    TCase *writer = tcase_create("writer");
    int n_widths = sizeof widths / sizeof *widths;

    tcase_add_test(reader, reads_big_endian_to_the_last_byte);
    tcase_add_test(reader, reads_bytes_in_place);
    tcase_add_loop_test(reader, a_read_beyond_the_end_is_sticky, 0, n_widths);
    tcase_add_test(reader, hostile_lengths_do_not_wrap);
    tcase_add_test(reader, an_empty_reader_fails_only_when_asked);
    tcase_add_test(writer, writes_big_endian_to_the_last_byte);
    tcase_add_loop_test(writer, a_write_beyond_the_end_is_sticky, 0, n_widths);
    tcase_add_test(writer, what_is_written_is_read_back);
    suite_add_tcase(suite, reader);
    suite_add_tcase(suite, writer);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(cursor_suite());
}
