/* Damage to stored journals: torn last batches are told apart from rot, and rot is found wherever
 * it is. */
#include "test_journal_rig.h"

#define SEGMENT ((uint64_t)16 * LQ_SECTOR)

/* Three segments, all kinds of records, batches of one to seven sectors, and room behind the last
 * batch, which takes three sectors. */
static void build(struct rig *rig, uint64_t stream)
{
    rig_init(rig, SEGMENT, stream);
    rig_put_term(rig, 1, 0);
    rig_put_boot(rig, 1);
    for (uint64_t i = 1; rig->files.n < 3 || rig->journal.segment.end < 6 * (uint64_t)LQ_SECTOR;
         i++) {
        for (uint64_t n = lq_rand_below(&rig->rand, 4); n > 0; n--) {
            rig_append(rig, lq_rand_below(&rig->rand, 700));
        }
        rig_append(rig, 10);
        if (i % 4 == 0) {
            rig_put_term(rig, i, i % 3);
            rig_put_entry(rig, rig->journal.state.tail.last.index, 300); /* replaces one */
        }
        if (i == 6) {
            rig_put_mark(rig, 1, 1);
        }
        rig_flush(rig);
    }
    rig_append(rig, 2 * LQ_SECTOR_BODY);
    rig_flush(rig);
    LQ_HOT_ASSERT(rig->files.n == 3);
    expect(&rig->files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
}

static uint8_t *newest(const struct rig *rig)
{
    return rig->files.bytes[rig->files.n - 1];
}

/* ---- Torn batches. */

/* The last batch has `n` sectors. All subsets of them reached the disk: none is a clean end, all a
 * whole batch, and anything else is torn. */
static void tear_in_all_ways(size_t n, bool is_payload_zero)
{
    static const uint8_t zeros[4096];
    struct lq_journal_write write;
    struct rig rig;
    uint64_t before;
    rig_init(&rig, SEGMENT, n);
    rig_put_term(&rig, 1, 0);
    rig_append(&rig, 700);
    rig_flush(&rig);
    before = rig.journal.segment.seq;
    if (is_payload_zero) {
        rig_put(&rig, entry_of(2, 1, zeros, n * LQ_SECTOR_BODY - 60));
    } else {
        rig_append(&rig, n * LQ_SECTOR_BODY - 60);
    }
    write = rig_finish(&rig);
    LQ_HOT_ASSERT(write.len == n * LQ_SECTOR);
    for (uint32_t subset = 0; subset < UINT32_C(1) << n; subset++) {
        bool is_whole = subset == (UINT32_C(1) << n) - 1;
        struct reading reading;
        memset(newest(&rig) + write.offset, 0, write.len);
        for (size_t i = 0; i < n; i++) {
            if ((subset >> i & 1) != 0) {
                memcpy(newest(&rig) + write.offset + i * LQ_SECTOR, write.bytes + i * LQ_SECTOR,
                       LQ_SECTOR);
            }
        }
        reading_init(&reading, &rig.files);
        LQ_HOT_ASSERT(reading.verdict ==
                      (subset == 0 || is_whole ? LQ_JOURNAL_CLEAN : LQ_JOURNAL_TORN));
        LQ_HOT_ASSERT(reading_equals(&reading, &rig.written, 1, before + is_whole));
        if (reading.verdict == LQ_JOURNAL_TORN) {
            LQ_HOT_ASSERT(reading.finding.fault == LQ_JOURNAL_OK);
            LQ_HOT_ASSERT(reading.finding.number == 1 && reading.finding.seq == before + 1);
            LQ_HOT_ASSERT(reading.finding.offset == write.offset);
        }
        reading_done(&reading);
    }
    rig_done(&rig);
}

START_TEST(any_subset_of_the_sectors_of_the_last_batch)
{
    tear_in_all_ways((size_t)_i, false);
    tear_in_all_ways((size_t)_i, true);
}
END_TEST

/* A torn batch tells its length in its head. A sector behind it is none of its own, even with the
 * stamp of one. */
START_TEST(nothing_stands_behind_a_torn_batch)
{
    struct lq_writer writer;
    struct rig rig;
    uint64_t end;
    build(&rig, 7);
    end = rig.journal.segment.end;
    memset(newest(&rig) + end - LQ_SECTOR, 0, LQ_SECTOR);
    expect(&rig.files, LQ_JOURNAL_TORN, LQ_JOURNAL_OK);
    writer = lq_writer_of(newest(&rig) + end + LQ_SECTOR_BODY, LQ_SECTOR_STAMP);
    lq_write_u32(&writer, lq_batch_stamp(rig.journal.segment.salt, rig.journal.segment.seq, 3));
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_STRAY);
    memset(newest(&rig) + end - (size_t)3 * LQ_SECTOR, 0, LQ_SECTOR); /* its head is lost, too */
    expect(&rig.files, LQ_JOURNAL_TORN, LQ_JOURNAL_OK);
    rig_done(&rig);
}
END_TEST

/* A sector is written as a whole or not at all, so a part of one is rot. */
START_TEST(a_part_of_a_sector_is_not_torn)
{
    struct rig rig;
    uint64_t end, begin;
    build(&rig, 1);
    end = rig.journal.segment.end;
    begin = end - (uint64_t)3 * LQ_SECTOR;
    for (uint64_t cut = begin + 4; cut < end; cut += 4) {
        memset(newest(&rig) + cut, 0, (size_t)(end - cut));
        expect(&rig.files, cut % LQ_SECTOR == 0 ? LQ_JOURNAL_TORN : LQ_JOURNAL_CORRUPT,
               cut % LQ_SECTOR == 0          ? LQ_JOURNAL_OK
               : cut < begin + LQ_BATCH_HEAD ? LQ_JOURNAL_BATCH_HEAD
                                             : LQ_JOURNAL_STAMP);
        memcpy(newest(&rig) + begin, rig.journal.flying.sectors, (size_t)3 * LQ_SECTOR);
    }
    expect(&rig.files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
    rig_done(&rig);
}
END_TEST

/* ---- Rot. */

/* One flipped bit of each byte, zeros too; from LQ_OPS=100000 on each bit of each byte. */
START_TEST(every_flipped_bit_is_found)
{
    uint64_t tries = lq_test_number("LQ_OPS", 1) < 100000 ? 1 : 8;
    struct rig rig;
    build(&rig, 2);
    for (size_t i = 0; i < rig.files.n; i++) {
        for (size_t at = 0; at < rig.files.lens[i]; at++) {
            for (uint64_t try = 0; try < tries; try++) {
                uint64_t bit = tries < 8 ? lq_rand_below(&rig.rand, 8) : try % 8;
                struct reading reading;
                rig.files.bytes[i][at] ^= (uint8_t)(1U << bit);
                reading_init(&reading, &rig.files);
                if (reading.verdict != LQ_JOURNAL_CORRUPT) {
                    ck_abort_msg("segment %zu, byte %zu, bit %u", i, at, (unsigned)bit);
                }
                reading_done(&reading);
                rig.files.bytes[i][at] ^= (uint8_t)(1U << bit);
            }
        }
    }
    expect(&rig.files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
    rig_done(&rig);
}
END_TEST

/* The same with a torn last batch: what is left of it may rot unseen, since it is dropped anyway,
 * but it never comes back, and nothing else goes. */
START_TEST(a_flipped_bit_beside_a_torn_batch_changes_no_record)
{
    struct rig rig;
    uint64_t torn;
    size_t n_unseen = 0;
    build(&rig, 3);
    torn = rig.journal.segment.end - (uint64_t)2 * LQ_SECTOR;
    memset(newest(&rig) + torn, 0, LQ_SECTOR);
    for (size_t at = 0; at < SEGMENT; at++) {
        struct reading reading;
        uint8_t byte = newest(&rig)[at];
        newest(&rig)[at] ^= (uint8_t)(1U << lq_rand_below(&rig.rand, 8));
        reading_init(&reading, &rig.files);
        if (reading.verdict == LQ_JOURNAL_TORN) {
            LQ_HOT_ASSERT(at >= torn - LQ_SECTOR && at < torn + (size_t)2 * LQ_SECTOR);
            LQ_HOT_ASSERT(reading_equals(&reading, &rig.written, 1, rig.journal.segment.seq - 1));
            n_unseen++;
        } else {
            LQ_HOT_ASSERT(reading.verdict == LQ_JOURNAL_CORRUPT);
        }
        reading_done(&reading);
        newest(&rig)[at] = byte;
    }
    LQ_HOT_ASSERT(n_unseen == 2 * LQ_SECTOR_BODY - LQ_BATCH_HEAD + 8);
    expect(&rig.files, LQ_JOURNAL_TORN, LQ_JOURNAL_OK);
    rig_done(&rig);
}
END_TEST

/* Whole sectors: zeroed, filled with noise, with another sector, exchanged. Only a zeroed sector of
 * the last batch can't be told from a torn one; everything else that changes a byte is found. */
START_TEST(rotten_sectors_are_found)
{
    size_t n = SEGMENT / LQ_SECTOR;
    struct rig rig;
    build(&rig, (uint64_t)_i);
    for (uint64_t try = 0; try < 2000; try++) {
        uint64_t how = lq_rand_below(&rig.rand, 4);
        struct files files;
        struct reading reading;
        size_t i = lq_rand_below(&rig.rand, 3), j = lq_rand_below(&rig.rand, 3);
        uint64_t a = lq_rand_below(&rig.rand, n) * LQ_SECTOR;
        uint64_t b = lq_rand_below(&rig.rand, n) * LQ_SECTOR;
        bool is_last = i == 2 && a < rig.journal.segment.end &&
                       a >= rig.journal.segment.end - (uint64_t)3 * LQ_SECTOR;
        files_copy(&files, &rig.files);
        if (how == 0) {
            memset(files.bytes[i] + a, 0, LQ_SECTOR);
        } else if (how == 1) {
            lq_rand_fill(&rig.rand, files.bytes[i] + a, LQ_SECTOR);
        } else {
            memcpy(files.bytes[i] + a, rig.files.bytes[j] + b, LQ_SECTOR);
            if (how == 3) {
                memcpy(files.bytes[j] + b, rig.files.bytes[i] + a, LQ_SECTOR);
            }
        }
        reading_init(&reading, &files);
        if (memcmp(files.bytes[i] + a, rig.files.bytes[i] + a, LQ_SECTOR) == 0) {
            LQ_HOT_ASSERT(reading.verdict == LQ_JOURNAL_CLEAN);
        } else if (lq_journal_is_zero(files.bytes[i] + a, LQ_SECTOR) && is_last && how < 3) {
            LQ_HOT_ASSERT(reading.verdict == LQ_JOURNAL_TORN);
            LQ_HOT_ASSERT(reading_equals(&reading, &rig.written, 1, rig.journal.segment.seq - 1));
        } else {
            LQ_HOT_ASSERT(reading.verdict == LQ_JOURNAL_CORRUPT);
        }
        reading_done(&reading);
        files_done(&files);
    }
    rig_done(&rig);
}
END_TEST

START_TEST(a_file_of_another_size_is_found)
{
    struct rig rig;
    build(&rig, 4);
    for (size_t i = 0; i < rig.files.n; i++) {
        for (size_t len = 0; len < SEGMENT; len += len < 1100 ? 1 : 171) {
            struct files files;
            uint8_t *shorter = malloc(len + 1); /* + 1: not an empty one */
            files_copy(&files, &rig.files);
            memcpy(shorter, files.bytes[i], len);
            free(files.bytes[i]);
            files.bytes[i] = shorter;
            files.lens[i] = len;
            expect(&files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_SIZE);
            files_done(&files);
        }
    }
    rig_done(&rig);
}
END_TEST

/* ---- Seals: the end of a segment that has a successor is known, so nothing of it can be torn. */

START_TEST(a_lost_batch_before_a_seal_is_found)
{
    struct rig rig;
    struct files files;
    uint8_t *second;
    uint64_t end;
    build(&rig, 5);
    files_copy(&files, &rig.files);
    second = files_find(&files, 2);
    for (end = SEGMENT - LQ_SECTOR; lq_journal_is_zero(second + end - LQ_SECTOR, LQ_SECTOR);
         end -= LQ_SECTOR) {
    }
    memset(second + end - LQ_SECTOR, 0, LQ_SECTOR);
    expect(&files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_BATCH_LOST);
    files_remove(&files, 2);
    expect(&files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_BATCH_LOST);
    memset(second + LQ_SECTOR, 0, SEGMENT - (size_t)2 * LQ_SECTOR);
    expect(&files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_BATCH_LOST);
    files_done(&files);
    rig_done(&rig);
}
END_TEST

/* Without the seal the successor's header still tells the end. */
START_TEST(a_lost_batch_before_an_empty_successor_is_found)
{
    struct rig rig;
    rig_init(&rig, SEGMENT, 0);
    rig_put_term(&rig, 1, 0);
    rig_flush(&rig);
    rig_append(&rig, 1000);
    rig_flush(&rig);
    rig_begin_segment(&rig);
    memset(rig.files.bytes[0] + SEGMENT - LQ_SECTOR, 0, LQ_SECTOR);
    expect(&rig.files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
    memset(rig.files.bytes[0] + (size_t)3 * LQ_SECTOR, 0, LQ_SECTOR);
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_BATCH_LOST);
    rig_done(&rig);
}
END_TEST

START_TEST(a_lost_seal_is_found_once_the_successor_was_written_to)
{
    struct rig rig;
    build(&rig, 6);
    memset(rig.files.bytes[1] + SEGMENT - LQ_SECTOR, 0, LQ_SECTOR);
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_SEAL_MISSING);
    memset(newest(&rig) + LQ_SECTOR, 0, LQ_SECTOR);
    memset(newest(&rig) + (size_t)2 * LQ_SECTOR, 0, SEGMENT - (size_t)2 * LQ_SECTOR);
    expect(&rig.files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
    rig_done(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_damage");
    TCase *tcase = tcase_create("damage");
    (void)lq_test_seed();
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, any_subset_of_the_sectors_of_the_last_batch, 1, 9);
    tcase_add_test(tcase, nothing_stands_behind_a_torn_batch);
    tcase_add_test(tcase, a_part_of_a_sector_is_not_torn);
    tcase_add_test(tcase, every_flipped_bit_is_found);
    tcase_add_test(tcase, a_flipped_bit_beside_a_torn_batch_changes_no_record);
    tcase_add_loop_test(tcase, rotten_sectors_are_found, 10, 15);
    tcase_add_test(tcase, a_file_of_another_size_is_found);
    tcase_add_test(tcase, a_lost_batch_before_a_seal_is_found);
    tcase_add_test(tcase, a_lost_batch_before_an_empty_successor_is_found);
    tcase_add_test(tcase, a_lost_seal_is_found_once_the_successor_was_written_to);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
