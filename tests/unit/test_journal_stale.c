/* Which segments there are: missing ones, stale ones, those of others, and what a crash can leave
 * of a change of segments. */
#include "test_journal_rig.h"

#include <signal.h>

#define SEGMENT ((uint64_t)16 * LQ_SECTOR)

/* Appends batches until there are `n` segments. */
static void grow(struct rig *rig, size_t n)
{
    while (rig->files.n < n) {
        rig_append(rig, 800);
        rig_flush(rig);
    }
}

static void build(struct rig *rig, size_t n)
{
    rig_init(rig, SEGMENT, n);
    rig_put_term(rig, 1, 0);
    grow(rig, n);
    expect(&rig->files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
}

START_TEST(a_segment_missing_anywhere_is_found)
{
    static const enum lq_journal_fault faults[] = {
        LQ_JOURNAL_OLDEST_MISSING, LQ_JOURNAL_SEGMENT_MISSING, LQ_JOURNAL_SEGMENT_MISSING,
        LQ_JOURNAL_NEWEST_MISSING};
    static const uint64_t numbers[] = {1, 2, 3, 4};
    struct reading reading;
    struct rig rig;
    build(&rig, 4);
    files_remove(&rig.files, (size_t)_i);
    reading_init(&reading, &rig.files);
    ck_assert_int_eq(reading.verdict, LQ_JOURNAL_CORRUPT);
    ck_assert_int_eq(reading.finding.fault, faults[_i]);
    ck_assert_uint_eq(reading.finding.number, numbers[_i]);
    reading_done(&reading);
    rig_done(&rig);
}
END_TEST

/* A crash before the directory was durable: the segment may be gone, nothing was in it. */
START_TEST(a_newest_segment_that_nothing_names_may_be_missing)
{
    struct rig rig;
    build(&rig, 2);
    rig_begin_segment(&rig);
    memset(rig.files.bytes[1] + SEGMENT - LQ_SECTOR, 0, LQ_SECTOR);
    expect(&rig.files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
    files_remove(&rig.files, 2);
    expect(&rig.files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
    rig_done(&rig);
}
END_TEST

/* Oldest segments go one by one, so any number of them can be missing, as far as a mark covers. */
START_TEST(deleted_segments_leave_no_gap)
{
    struct rig rig;
    build(&rig, 5);
    rig_put_mark(&rig, rig.journal.placed.last.index, 1);
    rig_flush(&rig);
    files_remove(&rig.files, 1);
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_SEGMENT_MISSING);
    files_remove(&rig.files, 0);
    expect(&rig.files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
    rig_done(&rig);
}
END_TEST

START_TEST(a_segment_under_the_name_of_another_is_found)
{
    struct rig rig;
    struct files files;
    build(&rig, 3);
    for (size_t i = 0; i < 3; i++) {
        size_t from = (i + 1) % 3;
        files_copy(&files, &rig.files);
        memcpy(files.bytes[i], rig.files.bytes[from], SEGMENT);
        expect(&files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_OTHER_SEGMENT);
        files_done(&files);
    }
    rig_done(&rig);
}
END_TEST

/* An older copy of a segment, as from a backup, in place of the newer one. */
START_TEST(an_older_copy_of_a_sealed_segment_is_found)
{
    struct rig rig;
    struct files old;
    build(&rig, 2);
    files_copy(&old, &rig.files);
    grow(&rig, 3);
    memcpy(rig.files.bytes[1], old.bytes[1], SEGMENT);
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_BATCH_LOST);
    files_remove(&rig.files, 2); /* alone, it is a journal that was true once */
    expect(&rig.files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
    files_done(&old);
    rig_done(&rig);
}
END_TEST

/* Two lives that went apart in segment 2: no segment of the one fits the other. */
START_TEST(segments_of_another_life_are_found)
{
    struct rig rig;
    struct files other, mixed;
    struct reading reading;
    rig_init(&rig, SEGMENT, 9);
    rig_put_term(&rig, 1, 0);
    grow(&rig, 2);
    files_copy(&other, &rig.files);
    grow(&rig, 4);
    mixed = rig.files; /* the other life goes on in the copies */
    rig.files = other;
    other = mixed;
    lq_journal_done(&rig.journal);
    reading_init(&reading, &rig.files);
    lq_journal_resume(&rig.journal, &reading.scan, SEGMENT);
    reading_done(&reading);
    grow(&rig, 4);
    expect(&rig.files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
    expect(&other, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
    for (size_t i = 1; i < 4; i++) {
        files_copy(&mixed, &rig.files);
        memcpy(files_find(&mixed, i + 1), other.bytes[i], SEGMENT);
        expect(&mixed, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_CHAIN);
        files_done(&mixed);
    }
    files_done(&other);
    rig_done(&rig);
}
END_TEST

START_TEST(segments_of_others_are_found)
{
    struct lq_journal_header header;
    struct rig rig;
    build(&rig, 2);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(lq_journal_header_read(rig.files.bytes[i], &header), LQ_JOURNAL_OK);
        header.cluster++;
        lq_journal_header_write(&header, rig.files.bytes[i]);
        expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_OTHER_CLUSTER);
        header.cluster--;
        header.node++;
        lq_journal_header_write(&header, rig.files.bytes[i]);
        expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_OTHER_NODE);
        header.node--;
        lq_journal_header_write(&header, rig.files.bytes[i]);
    }
    expect(&rig.files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
    rig_done(&rig);
}
END_TEST

/* What the scan says when one field of the second segment's header is another one. */
#define EXPECT_WITH(fault, change)                                                                 \
    do {                                                                                           \
        struct lq_journal_header header = good;                                                    \
        change;                                                                                    \
        lq_journal_header_write(&header, rig.files.bytes[1]);                                      \
        expect(&rig.files, LQ_JOURNAL_CORRUPT, fault);                                             \
    } while (0)

START_TEST(a_header_that_does_not_go_on_where_the_segment_before_ends_is_found)
{
    struct lq_journal_header good;
    struct rig rig;
    build(&rig, 2);
    ck_assert_int_eq(lq_journal_header_read(rig.files.bytes[1], &good), LQ_JOURNAL_OK);
    EXPECT_WITH(LQ_JOURNAL_CHAIN, header.salt++);
    EXPECT_WITH(LQ_JOURNAL_CHAIN, header.prev_salt++);
    EXPECT_WITH(LQ_JOURNAL_CHAIN, header.prev_end += LQ_SECTOR);
    EXPECT_WITH(LQ_JOURNAL_CHAIN, header.prev_seq--);
    EXPECT_WITH(LQ_JOURNAL_BATCH_LOST, header.prev_seq++);
    EXPECT_WITH(LQ_JOURNAL_CHAIN, header.tail.term++);
    EXPECT_WITH(LQ_JOURNAL_CHAIN, header.tail.vote++);
    EXPECT_WITH(LQ_JOURNAL_CHAIN, header.tail.boot++);
    EXPECT_WITH(LQ_JOURNAL_CHAIN, header.tail.last.index++);
    EXPECT_WITH(LQ_JOURNAL_CHAIN, header.tail.mark = ((struct lq_journal_point){1, 1}));
    lq_journal_header_write(&good, rig.files.bytes[1]);
    expect(&rig.files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
    rig_done(&rig);
}
END_TEST

/* What the scan says when one field of the first segment's seal is another one. */
#define EXPECT_SEAL_WITH(fault, change)                                                            \
    do {                                                                                           \
        struct lq_journal_seal seal = good;                                                        \
        change;                                                                                    \
        lq_journal_seal_write(&seal, rig.files.bytes[0] + SEGMENT - LQ_SECTOR);                    \
        expect(&rig.files, LQ_JOURNAL_CORRUPT, fault);                                             \
    } while (0)

START_TEST(a_seal_of_another_segment_is_found)
{
    struct lq_journal_seal good;
    struct rig rig;
    build(&rig, 2);
    ck_assert(lq_journal_seal_read(rig.files.bytes[0] + SEGMENT - LQ_SECTOR, &good));
    EXPECT_SEAL_WITH(LQ_JOURNAL_SEAL, seal.number++);
    EXPECT_SEAL_WITH(LQ_JOURNAL_SEAL, seal.salt++);
    EXPECT_SEAL_WITH(LQ_JOURNAL_SEAL, seal.end += LQ_SECTOR);
    EXPECT_SEAL_WITH(LQ_JOURNAL_SEAL, seal.seq--);
    EXPECT_SEAL_WITH(LQ_JOURNAL_BATCH_LOST, seal.seq++);
    EXPECT_SEAL_WITH(LQ_JOURNAL_CHAIN, seal.successor_salt++);
    EXPECT_SEAL_WITH(LQ_JOURNAL_SEAL, seal.successor_salt = 0);
    lq_journal_seal_write(&good, rig.files.bytes[0] + SEGMENT - LQ_SECTOR);
    rig.files.bytes[0][SEGMENT - 100] = 1; /* reserved */
    lq_journal_sum_sector(rig.files.bytes[0] + SEGMENT - LQ_SECTOR);
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_SEAL);
    rig_done(&rig);
}
END_TEST

/* ---- A torn batch in front of a later segment. */

/* A journal with a torn batch, with which a new process went on. Returns the torn write as it would
 * have been whole. */
static struct lq_journal_write build_torn(struct rig *rig, uint8_t ret_whole[4 * LQ_SECTOR])
{
    struct lq_journal_write write;
    struct reading reading;
    rig_init(rig, SEGMENT, 1);
    rig_put_term(rig, 1, 0);
    rig_append(rig, 10);
    rig_flush(rig);
    rig_append(rig, 3 * LQ_SECTOR_BODY);
    write = rig_finish(rig);
    LQ_HOT_ASSERT(write.len == (size_t)4 * LQ_SECTOR);
    memcpy(ret_whole, write.bytes, write.len);
    write.bytes = ret_whole;
    memcpy(rig->files.bytes[0] + write.offset + LQ_SECTOR, ret_whole + LQ_SECTOR, LQ_SECTOR);
    reading_init(&reading, &rig->files);
    ck_assert_int_eq(reading.verdict, LQ_JOURNAL_TORN);
    lq_journal_done(&rig->journal);
    lq_journal_resume(&rig->journal, &reading.scan, SEGMENT);
    reading_done(&reading);
    rig_put_boot(rig, 1);
    rig_flush(rig);
    ck_assert_uint_eq(rig->files.n, 2);
    expect(&rig->files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
    return write;
}

START_TEST(a_torn_batch_that_was_dropped_does_not_come_back)
{
    uint8_t whole[4 * LQ_SECTOR];
    struct rig rig;
    struct lq_journal_write write = build_torn(&rig, whole);
    files_write(&rig.files, &write);
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_SEAL);
    memset(rig.files.bytes[0] + SEGMENT - LQ_SECTOR, 0, LQ_SECTOR);
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_CHAIN);
    rig_done(&rig);
}
END_TEST

/* What is left of it may be given back to the file system, and rot in it is found all the same. */
START_TEST(the_remains_of_a_torn_batch_are_zeros_or_what_they_were)
{
    uint8_t whole[4 * LQ_SECTOR];
    struct rig rig;
    struct lq_journal_write write = build_torn(&rig, whole);
    uint8_t *remains = rig.files.bytes[0] + write.offset + LQ_SECTOR;
    remains[LQ_SECTOR_BODY] ^= 1;
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_STRAY);
    memset(remains, 0, LQ_SECTOR);
    expect(&rig.files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
    remains[LQ_SECTOR + 17] ^= 1;
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_STRAY);
    rig_done(&rig);
}
END_TEST

/* A batch in flight when the successor is begun could tear although the successor counts it in. */
START_TEST(nothing_is_begun_while_a_batch_is_in_flight)
{
    struct lq_journal_write header, seal;
    struct rig rig;
    build(&rig, 1);
    rig_append(&rig, 1);
    (void)rig_finish(&rig);
    lq_journal_begin_segment(&rig.journal, 1, &header, &seal); /* aborts */
    rig_done(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_stale");
    TCase *tcase = tcase_create("stale");
    tcase_set_timeout(tcase, 60);
    (void)lq_test_seed();
    tcase_add_loop_test(tcase, a_segment_missing_anywhere_is_found, 0, 4);
    tcase_add_test(tcase, a_newest_segment_that_nothing_names_may_be_missing);
    tcase_add_test(tcase, deleted_segments_leave_no_gap);
    tcase_add_test(tcase, a_segment_under_the_name_of_another_is_found);
    tcase_add_test(tcase, an_older_copy_of_a_sealed_segment_is_found);
    tcase_add_test(tcase, segments_of_another_life_are_found);
    tcase_add_test(tcase, segments_of_others_are_found);
    tcase_add_test(tcase, a_header_that_does_not_go_on_where_the_segment_before_ends_is_found);
    tcase_add_test(tcase, a_seal_of_another_segment_is_found);
    tcase_add_test(tcase, a_torn_batch_that_was_dropped_does_not_come_back);
    tcase_add_test(tcase, the_remains_of_a_torn_batch_are_zeros_or_what_they_were);
    tcase_add_test_raise_signal(tcase, nothing_is_begun_while_a_batch_is_in_flight, SIGABRT);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
