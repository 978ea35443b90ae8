/* Snapshot files: written in pieces, read whole, and whatever is done to them is noticed. */
#include "lq_cursor.h"
#include "lq_mem.h"
#include "lq_snapfile.h"
#include "lq_test.h"
#include "support/hot_assert.h"

#include <lz4frame.h>
#include <string.h>
#include <xxhash.h>

#define NO_LIMIT UINT64_MAX

struct file {
    struct lq_buffer bytes;
    uint64_t total, check;
};

static struct lq_snapfile_head sample_head(void)
{
    struct lq_snapfile_head head = {.cluster = 0x1122334455667788, .index = 1000, .term = 7};
    head.members_index = 900;
    ck_assert(lq_members_add(&head.members, 1, "one:1", LQ_ROLE_VOTER));
    ck_assert(lq_members_add(&head.members, 2, "two:2", LQ_ROLE_STANDBY));
    return head;
}

/* Half noise, half repetition, so that packing does something but not all. */
static struct lq_buffer draw_state(struct lq_rand *rand, size_t len)
{
    struct lq_buffer state = {0};
    while (state.len < len) {
        size_t n = 1 + lq_rand_below(rand, 200);
        uint8_t *to = lq_buffer_extend(&state, n < len - state.len ? n : len - state.len);
        n = state.len - (size_t)(to - state.bytes);
        memset(to, (int)lq_rand_below(rand, 256), n);
        if (lq_rand_below(rand, 2) == 0) {
            lq_rand_fill(rand, to, n);
        }
    }
    return state;
}

/* Pieces of up to `piece_max` bytes, each in memory of its own. With a seed of its own, so that two
 * files can be made of the same pieces. */
static struct file write_file(const struct lq_buffer *state, size_t piece_max, uint64_t seed)
{
    struct lq_snapfile_head head = sample_head();
    struct lq_rand rand = lq_rand_of(seed, 0);
    struct file file = {0};
    struct lq_buffer out = {0};
    struct lq_snapfile_writer *writer = lq_snapfile_begin(&head, &file.bytes);
    for (size_t at = 0; at < state->len;) {
        size_t len = lq_rand_below(&rand, piece_max + 1);
        uint8_t *piece;
        len = len < state->len - at ? len : state->len - at;
        piece = lq_malloc(len);
        memcpy(piece, state->bytes + at, len);
        lq_snapfile_add(writer, piece, len, &out);
        lq_free(piece);
        lq_buffer_add(&file.bytes, out.bytes, out.len);
        out.len = 0; /* as a caller does that takes the bytes away */
        at += len;
    }
    lq_snapfile_end(writer, &file.bytes, &file.total, &file.check);
    lq_snapfile_free(writer);
    lq_buffer_done(&out);
    return file;
}

/* Reads from memory of exactly that size. */
static enum lq_snapfile_fault read_bytes(const uint8_t *bytes, size_t len, uint64_t state_max,
                                         struct lq_buffer *state)
{
    struct lq_snapfile_head head = {.index = 77};
    uint64_t check = 5;
    uint8_t *copy = lq_malloc(len);
    enum lq_snapfile_fault fault;
    memcpy(copy, bytes, len);
    fault = lq_snapfile_read(copy, len, state_max, &head, state, &check);
    lq_free(copy);
    LQ_HOT_ASSERT(fault == LQ_SNAPFILE_OK ||
                  (head.index == 77 && check == 5 && state->len == 0 && state->bytes == NULL));
    return fault;
}

static enum lq_snapfile_fault fault_of(const uint8_t *bytes, size_t len, uint64_t state_max)
{
    struct lq_buffer state = {0};
    enum lq_snapfile_fault fault = read_bytes(bytes, len, state_max, &state);
    lq_buffer_done(&state);
    return fault;
}

/* Makes the check in the last 8 bytes fit what stands before. */
static void seal(struct lq_buffer *bytes)
{
    struct lq_writer cursor = lq_writer_of(bytes->bytes + bytes->len - 8, 8);
    lq_write_u64(&cursor, XXH3_64bits(bytes->bytes, bytes->len - 8));
}

static size_t head_len(const struct file *file)
{
    struct lq_reader reader = lq_reader_of(file->bytes.bytes + 40, 4);
    return 44 + lq_read_u32(&reader) + 8;
}

START_TEST(gives_back_what_was_written)
{
    static const size_t sizes[] = {0, 1, 100, 65536, 262144, 262145, 1000000};
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    struct lq_buffer state = draw_state(&rand, sizes[_i]), back = {0};
    struct lq_snapfile_head expected = sample_head(), head;
    struct file file = write_file(&state, 5 + (size_t)lq_rand_below(&rand, 60000), 1);
    uint64_t check;
    ck_assert_uint_eq(file.total, file.bytes.len);
    ck_assert(file.total >= LQ_SNAPFILE_MIN);
    ck_assert_int_eq(
        lq_snapfile_read(file.bytes.bytes, file.bytes.len, state.len, &head, &back, &check),
        LQ_SNAPFILE_OK);
    ck_assert_uint_eq(check, file.check);
    ck_assert_uint_eq(back.len, state.len);
    ck_assert(state.len == 0 || memcmp(back.bytes, state.bytes, state.len) == 0);
    ck_assert_uint_eq(head.cluster, expected.cluster);
    ck_assert_uint_eq(head.index, expected.index);
    ck_assert_uint_eq(head.term, expected.term);
    ck_assert_uint_eq(head.members_index, expected.members_index);
    ck_assert_uint_eq(head.members.n, expected.members.n);
    ck_assert_mem_eq(head.members.items, expected.members.items, sizeof head.members.items);
    lq_buffer_done(&back);
    lq_buffer_done(&state);
    lq_buffer_done(&file.bytes);
}
END_TEST

START_TEST(equal_pieces_give_equal_bytes)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    struct lq_buffer state = draw_state(&rand, 700000 + lq_rand_below(&rand, 1000));
    uint64_t seed = lq_rand_next(&rand);
    struct file one = write_file(&state, 50000, seed);
    void *shift = lq_malloc(123457); /* other addresses */
    struct file two = write_file(&state, 50000, seed);
    ck_assert_uint_eq(one.check, two.check);
    ck_assert_uint_eq(one.bytes.len, two.bytes.len);
    ck_assert_mem_eq(one.bytes.bytes, two.bytes.bytes, one.bytes.len);
    lq_free(shift);
    lq_buffer_done(&one.bytes);
    lq_buffer_done(&two.bytes);
    lq_buffer_done(&state);
}
END_TEST

START_TEST(a_writer_can_be_given_up)
{
    struct lq_snapfile_head head = sample_head();
    struct lq_buffer out = {0};
    struct lq_snapfile_writer *writer = lq_snapfile_begin(&head, &out);
    lq_snapfile_add(writer, (const uint8_t *)"abc", 3, &out);
    lq_snapfile_free(writer);
    lq_snapfile_free(NULL);
    lq_buffer_done(&out);
}
END_TEST

START_TEST(no_part_of_a_file_is_a_file)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), 1);
    struct lq_buffer state = draw_state(&rand, 300);
    struct file file = write_file(&state, 100, 1);
    for (size_t len = 0; len < file.bytes.len; len++) {
        enum lq_snapfile_fault fault = fault_of(file.bytes.bytes, len, NO_LIMIT);
        LQ_HOT_ASSERT(len >= LQ_SNAPFILE_MIN || fault == LQ_SNAPFILE_SHORT);
        LQ_HOT_ASSERT(fault == LQ_SNAPFILE_SHORT || fault == LQ_SNAPFILE_CHECKSUM);
    }
    lq_buffer_add(&file.bytes, "\0\0\0\0\0\0\0\0", 8);
    ck_assert_int_eq(fault_of(file.bytes.bytes, file.bytes.len, NO_LIMIT), LQ_SNAPFILE_CHECKSUM);
    lq_buffer_done(&file.bytes);
    lq_buffer_done(&state);
}
END_TEST

START_TEST(every_flipped_bit_is_noticed)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), 2);
    struct lq_buffer state = draw_state(&rand, 200);
    struct file file = write_file(&state, 100, 1);
    for (size_t bit = 0; bit < 8 * file.bytes.len; bit++) {
        file.bytes.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        LQ_HOT_ASSERT(fault_of(file.bytes.bytes, file.bytes.len, NO_LIMIT) != LQ_SNAPFILE_OK);
        file.bytes.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    ck_assert_int_eq(fault_of(file.bytes.bytes, file.bytes.len, NO_LIMIT), LQ_SNAPFILE_OK);
    lq_buffer_done(&file.bytes);
    lq_buffer_done(&state);
}
END_TEST

/* Changes a byte of the header and makes both checks fit. */
static enum lq_snapfile_fault forged_head(const struct file *file, size_t at, uint8_t value)
{
    struct lq_buffer bytes = {0};
    size_t len = head_len(file);
    struct lq_writer cursor;
    enum lq_snapfile_fault fault;
    lq_buffer_add(&bytes, file->bytes.bytes, file->bytes.len);
    bytes.bytes[at] = value;
    cursor = lq_writer_of(bytes.bytes + len - 8, 8);
    lq_write_u64(&cursor, XXH3_64bits(bytes.bytes, len - 8));
    seal(&bytes);
    fault = fault_of(bytes.bytes, bytes.len, NO_LIMIT);
    lq_buffer_done(&bytes);
    return fault;
}

START_TEST(forged_headers_are_refused)
{
    struct file file = write_file(&(struct lq_buffer){0}, 1, 1);
    ck_assert_int_eq(forged_head(&file, 0, 'L'), LQ_SNAPFILE_OK);
    ck_assert_int_eq(forged_head(&file, 0, 'X'), LQ_SNAPFILE_MAGIC);
    ck_assert_int_eq(forged_head(&file, 4, 2), LQ_SNAPFILE_VERSION);
    ck_assert_int_eq(forged_head(&file, 5, 1), LQ_SNAPFILE_HEADER);
    ck_assert_int_eq(forged_head(&file, 7, 1), LQ_SNAPFILE_HEADER);
    ck_assert_int_eq(forged_head(&file, 15, 9), LQ_SNAPFILE_OK); /* another cluster */
    ck_assert_int_eq(forged_head(&file, 40, 1), LQ_SNAPFILE_HEADER);
    ck_assert_int_eq(forged_head(&file, 42, 0x0F), LQ_SNAPFILE_SHORT);
    ck_assert_int_eq(forged_head(&file, 44, 2), LQ_SNAPFILE_HEADER);   /* members: format */
    ck_assert_int_eq(forged_head(&file, 45, 3), LQ_SNAPFILE_HEADER);   /* members: number */
    ck_assert_int_eq(forged_head(&file, 61, ' '), LQ_SNAPFILE_HEADER); /* members: address */
    lq_buffer_done(&file.bytes);
}
END_TEST

/* A file around any bytes in the place of the frame. */
static enum lq_snapfile_fault fault_of_frame(const void *frame, size_t len, uint64_t state_len,
                                             uint64_t state_max)
{
    struct file file = write_file(&(struct lq_buffer){0}, 1, 1);
    struct lq_writer cursor;
    enum lq_snapfile_fault fault;
    file.bytes.len = head_len(&file);
    lq_buffer_add(&file.bytes, frame, len);
    cursor = lq_writer_of(lq_buffer_extend(&file.bytes, 16), 16);
    lq_write_u64(&cursor, state_len);
    lq_write_u64(&cursor, 0);
    seal(&file.bytes);
    fault = fault_of(file.bytes.bytes, file.bytes.len, state_max);
    lq_buffer_done(&file.bytes);
    return fault;
}

static LZ4F_preferences_t our_preferences(void)
{
    return (LZ4F_preferences_t){.frameInfo = {.blockSizeID = LZ4F_max256KB,
                                              .blockMode = LZ4F_blockIndependent,
                                              .contentChecksumFlag = LZ4F_contentChecksumEnabled}};
}

static size_t pack(const LZ4F_preferences_t *preferences, const uint8_t *state, size_t len,
                   uint8_t *ret_frame, size_t cap)
{
    size_t used = LZ4F_compressFrame(ret_frame, cap, state, len, preferences);
    ck_assert(!LZ4F_isError(used));
    return used;
}

START_TEST(frames_that_are_not_ours_are_refused)
{
    static uint8_t zeros[1000], frame[4000];
    static const uint8_t skippable[12] = {0x50, 0x2A, 0x4D, 0x18, 4};
    LZ4F_preferences_t preferences = our_preferences();
    size_t len;
    preferences.autoFlush = 1;
    len = pack(&preferences, zeros, 1000, frame, sizeof frame);
    ck_assert_int_eq(fault_of_frame(frame, 0, 0, NO_LIMIT), LQ_SNAPFILE_STATE);
    ck_assert_int_eq(fault_of_frame(frame, 3, 0, NO_LIMIT), LQ_SNAPFILE_STATE);
    ck_assert_int_eq(fault_of_frame(frame, len - 1, 1000, NO_LIMIT), LQ_SNAPFILE_STATE);
    ck_assert_int_eq(fault_of_frame(frame, len + 1, 1000, NO_LIMIT), LQ_SNAPFILE_STATE);
    ck_assert_int_eq(fault_of_frame(frame, len, 999, NO_LIMIT), LQ_SNAPFILE_STATE);
    ck_assert_int_eq(fault_of_frame(frame, len, 1001, NO_LIMIT), LQ_SNAPFILE_STATE);
    ck_assert_int_eq(fault_of_frame(frame, len, NO_LIMIT, NO_LIMIT), LQ_SNAPFILE_STATE);
    ck_assert_int_eq(fault_of_frame(frame, len, 1000, 999), LQ_SNAPFILE_STATE);
    ck_assert_int_eq(fault_of_frame(skippable, sizeof skippable, 0, NO_LIMIT), LQ_SNAPFILE_STATE);
    frame[len - 1] ^= 1; /* the content's checksum */
    ck_assert_int_eq(fault_of_frame(frame, len, 1000, NO_LIMIT), LQ_SNAPFILE_STATE);
    preferences.frameInfo.contentChecksumFlag = LZ4F_noContentChecksum;
    len = pack(&preferences, zeros, 1000, frame, sizeof frame);
    ck_assert_int_eq(fault_of_frame(frame, len, 1000, NO_LIMIT), LQ_SNAPFILE_STATE);
}
END_TEST

/* A small file that would unpack to much: memory grows only to the limit, and not at all when the
 * trailer owns up. */
START_TEST(a_bomb_stops_at_the_limit)
{
    size_t len = 64 << 20;
    uint8_t *zeros = lq_calloc(1, len);
    struct lq_buffer state = {0};
    struct lq_snapfile_writer *writer;
    struct lq_snapfile_head head = sample_head();
    uint64_t total, check;
    writer = lq_snapfile_begin(&head, &state);
    lq_snapfile_add(writer, zeros, len, &state);
    lq_snapfile_end(writer, &state, &total, &check);
    lq_snapfile_free(writer);
    ck_assert(total < len / 200);
    ck_assert_int_eq(fault_of(state.bytes, state.len, 1 << 20), LQ_SNAPFILE_STATE);
    memset(state.bytes + state.len - 16, 0, 8); /* says that it unpacks to nothing */
    seal(&state);
    ck_assert_int_eq(fault_of(state.bytes, state.len, 1 << 20), LQ_SNAPFILE_STATE);
    lq_buffer_done(&state);
    lq_free(zeros);
}
END_TEST

START_TEST(every_fault_has_words)
{
    for (int fault = LQ_SNAPFILE_OK; fault <= LQ_SNAPFILE_STATE; fault++) {
        ck_assert_str_ne(lq_snapfile_fault_text((enum lq_snapfile_fault)fault), "unknown fault");
    }
}
END_TEST

static Suite *snapfile_suite(void)
{
    Suite *suite = suite_create("snapfile");
    TCase *tcase = tcase_create("snapfile");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, gives_back_what_was_written, 0, 7);
    tcase_add_loop_test(tcase, equal_pieces_give_equal_bytes, 0, 5);
    tcase_add_test(tcase, a_writer_can_be_given_up);
    tcase_add_test(tcase, no_part_of_a_file_is_a_file);
    tcase_add_test(tcase, every_flipped_bit_is_noticed);
    tcase_add_test(tcase, forged_headers_are_refused);
    tcase_add_test(tcase, frames_that_are_not_ours_are_refused);
    tcase_add_test(tcase, a_bomb_stops_at_the_limit);
    tcase_add_test(tcase, every_fault_has_words);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(snapfile_suite());
}
