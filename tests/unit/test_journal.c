/* The journal without any damage: what is written is read back, at all sizes around the boundaries
 * of sectors and segments; segments are begun, deleted and gone on with. */
#include "lq_mem.h"
#include "test_journal_rig.h"

#define SEGMENT ((uint64_t)16 * LQ_SECTOR)

/* Payload of an entry that fills the body of one sector together with the batch's head. */
#define ONE_SECTOR (LQ_SECTOR_BODY - LQ_BATCH_HEAD - LQ_RECORD_HEAD)

/* What was written comes back; both sides see the same state. */
static void check_all(const struct rig *rig)
{
    const struct lq_journal_tail *tail = &rig->journal.placed;
    struct reading reading;
    reading_init(&reading, &rig->files);
    LQ_HOT_ASSERT(reading.verdict == LQ_JOURNAL_CLEAN);
    LQ_HOT_ASSERT(reading_equals(&reading, &rig->written, rig->files.names[0], UINT64_MAX));
    LQ_HOT_ASSERT(lq_journal_tail_equals(&reading.scan.state.tail, tail));
    LQ_HOT_ASSERT(reading.scan.end == rig->journal.segment.end);
    LQ_HOT_ASSERT(reading.scan.seq == rig->journal.segment.seq);
    reading_done(&reading);
}

START_TEST(no_segment_is_a_blank_journal)
{
    struct files none = {0};
    expect(&none, LQ_JOURNAL_BLANK, LQ_JOURNAL_OK);
}
END_TEST

START_TEST(a_segment_without_batches_is_clean)
{
    struct rig rig;
    rig_init(&rig, SEGMENT, 0);
    rig_begin_segment(&rig);
    check_all(&rig);
    rig_begin_segment(&rig);
    check_all(&rig);
    rig_done(&rig);
}
END_TEST

/* ---- Records. */

static struct lq_journal_record seen[16];
static size_t n_seen;
static uint8_t seen_bytes[16][64];

static void see(void *context, const struct lq_journal_record *record,
                const struct lq_journal_state *state)
{
    ck_assert_ptr_eq(context, seen);
    ck_assert_uint_ge(state->tail.term, record->term);
    ck_assert_uint_lt(n_seen, 16);
    seen[n_seen] = *record;
    if (record->len > 0) {
        memcpy(seen_bytes[n_seen], record->bytes, record->len);
    }
    n_seen++;
}

START_TEST(every_field_comes_back)
{
    static const uint8_t bytes[] = "payload";
    struct lq_journal_scan scan;
    struct lq_journal_finding finding;
    struct rig rig;
    rig_init(&rig, SEGMENT, 0);
    rig_put_term(&rig, 7, 2);
    rig_put_boot(&rig, 41);
    rig_put(&rig, entry_of(1, 5, bytes, sizeof bytes));
    rig_put_mark(&rig, 1, 5);
    rig_put(&rig, entry_of(2, 7, NULL, 0));
    rig_flush(&rig);
    lq_journal_scan_init(&scan, 0, 0, see, seen);
    ck_assert(lq_journal_scan_segment(&scan, 1, rig.files.bytes[0], rig.files.lens[0]));
    ck_assert_int_eq(lq_journal_scan_end(&scan, &finding), LQ_JOURNAL_CLEAN);
    ck_assert_uint_eq(n_seen, 5);
    ck_assert_uint_eq(seen[0].kind, LQ_JOURNAL_TERM);
    ck_assert_uint_eq(seen[0].term, 7);
    ck_assert_uint_eq(seen[0].vote, 2);
    ck_assert_uint_eq(seen[1].kind, LQ_JOURNAL_BOOT);
    ck_assert_uint_eq(seen[1].boot, 41);
    ck_assert_uint_eq(seen[2].kind, LQ_JOURNAL_ENTRY);
    ck_assert_uint_eq(seen[2].index, 1);
    ck_assert_uint_eq(seen[2].term, 5);
    ck_assert_uint_eq(seen[2].type, 2);
    ck_assert_uint_eq(seen[2].len, sizeof bytes);
    ck_assert_mem_eq(seen_bytes[2], bytes, sizeof bytes);
    ck_assert_uint_eq(seen[2].check, lq_journal_entry_check(1, 5, 2, bytes, sizeof bytes));
    ck_assert_uint_eq(seen[3].kind, LQ_JOURNAL_MARK);
    ck_assert_uint_eq(seen[3].index, 1);
    ck_assert_uint_eq(seen[3].term, 5);
    ck_assert_uint_eq(seen[4].index, 2);
    ck_assert_uint_eq(seen[4].len, 0);
    ck_assert_uint_eq(scan.header.cluster, CLUSTER);
    ck_assert_uint_eq(scan.header.node, NODE);
    ck_assert_uint_eq(scan.state.first_index, 1);
    lq_journal_scan_done(&scan);
    rig_done(&rig);
}
END_TEST

START_TEST(the_check_of_an_entry_covers_every_field)
{
    static const uint8_t bytes[] = "abc", other[] = "abd";
    uint64_t check = lq_journal_entry_check(1, 2, 3, bytes, 3);
    ck_assert_uint_ne(check, lq_journal_entry_check(2, 2, 3, bytes, 3));
    ck_assert_uint_ne(check, lq_journal_entry_check(1, 3, 3, bytes, 3));
    ck_assert_uint_ne(check, lq_journal_entry_check(1, 2, 4, bytes, 3));
    ck_assert_uint_ne(check, lq_journal_entry_check(1, 2, 3, other, 3));
    ck_assert_uint_ne(check, lq_journal_entry_check(1, 2, 3, bytes, 2));
    ck_assert_uint_ne(lq_journal_entry_check(1, 2, 3, NULL, 0),
                      lq_journal_entry_check(1, 2, 4, NULL, 0));
}
END_TEST

/* The bytes of one small journal, as a number: a change of it is a change of the format. */
START_TEST(the_bytes_stay_as_they_are)
{
    static const uint8_t bytes[600] = "payload";
    struct lq_journal_write write, header, seal;
    struct lq_journal_record image = {.bytes = NULL};
    struct rig rig;
    rig_init(&rig, SEGMENT, 0);
    rig_put_term(&rig, 3, 2);
    rig_put_boot(&rig, 1);
    rig_put(&rig, entry_of(1, 3, bytes, sizeof bytes));
    rig_put_mark(&rig, 1, 3);
    lq_journal_begin_segment(&rig.journal, 1234567, &header, &seal);
    (void)files_add(&rig.files, 1, SEGMENT);
    files_write(&rig.files, &header);
    ck_assert(lq_journal_finish(&rig.journal, &write));
    files_write(&rig.files, &write);
    lq_journal_durable(&rig.journal);
    lq_journal_begin_segment(&rig.journal, 7654321, &header, &seal);
    files_write(&rig.files, &seal);
    image.bytes = rig.files.bytes[0];
    image.len = SEGMENT;
    ck_assert_uint_eq(print_of(&image), UINT64_C(1096003544904502239));
    rig_done(&rig);
}
END_TEST

/* ---- Sizes. */

/* Behind the body there are zeros, not what an earlier batch left in the buffer. */
static void check_padding(const struct lq_journal_write *write, size_t body)
{
    size_t in_last = body - (write->len / LQ_SECTOR - 1) * LQ_SECTOR_BODY;
    for (size_t at = in_last; at < LQ_SECTOR_BODY; at++) {
        LQ_HOT_ASSERT(write->bytes[write->len - LQ_SECTOR + at] == 0);
    }
}

/* Batches of one entry of every size: one sector as long as it fits, then two, then three. */
START_TEST(a_batch_takes_as_many_sectors_as_it_needs)
{
    struct rig rig;
    rig_init(&rig, LQ_JOURNAL_SEGMENT_MIN, 0);
    rig_put_term(&rig, 1, 0);
    rig_flush(&rig);
    for (size_t len = 0; len <= 2 * LQ_SECTOR_BODY + 10; len++) {
        struct lq_journal_write write;
        size_t sectors = len <= ONE_SECTOR ? 1 : len <= ONE_SECTOR + LQ_SECTOR_BODY ? 2 : 3;
        rig_append(&rig, len);
        write = rig_finish(&rig);
        ck_assert_uint_eq(write.len, sectors * LQ_SECTOR);
        check_padding(&write, LQ_BATCH_HEAD + LQ_RECORD_HEAD + len);
        files_write(&rig.files, &write);
        lq_journal_durable(&rig.journal);
        check_all(&rig);
        if (rig.files.n == 20) { /* begin again */
            rig_done(&rig);
            rig_init(&rig, LQ_JOURNAL_SEGMENT_MIN, len);
            rig_put_term(&rig, 1, 0);
            rig_flush(&rig);
        }
    }
    rig_done(&rig);
}
END_TEST

/* A segment's last batch ends around its end, with every number of sectors left and around every
 * boundary of the last one. */
START_TEST(a_batch_goes_to_the_next_segment_when_it_does_not_fit)
{
    size_t room = (LQ_JOURNAL_SEGMENT_MIN - 2 * LQ_SECTOR) / LQ_SECTOR;
    for (size_t left = 1; left <= room - 2; left++) {
        for (size_t over = 0; over < 3; over++) {
            struct rig rig;
            size_t most = left * LQ_SECTOR_BODY - LQ_BATCH_HEAD - LQ_RECORD_HEAD;
            rig_init(&rig, LQ_JOURNAL_SEGMENT_MIN, left);
            for (size_t i = 0; i < room - left; i++) {
                rig_put_term(&rig, i + 1, 0);
                rig_flush(&rig);
            }
            rig_append(&rig, most - 1 + over);
            rig_flush(&rig);
            ck_assert_uint_eq(rig.files.n, over == 2 ? 2 : 1);
            check_all(&rig);
            rig_append(&rig, 1);
            rig_flush(&rig);
            ck_assert_uint_eq(rig.files.n, 2);
            check_all(&rig);
            rig_done(&rig);
        }
    }
}
END_TEST

START_TEST(a_batch_is_at_most_a_segment)
{
    size_t most = lq_journal_entry_max(LQ_JOURNAL_SEGMENT_MIN);
    struct lq_journal_record boot = {.kind = LQ_JOURNAL_BOOT, .boot = 1};
    struct rig rig;
    rig_init(&rig, LQ_JOURNAL_SEGMENT_MIN, 0);
    rig_put_term(&rig, 1, 0);
    rig_flush(&rig);
    rig_append(&rig, most);
    ck_assert(!rig_try(&rig, boot));
    rig_flush(&rig);
    ck_assert_uint_eq(rig.files.n, 2);
    check_all(&rig);
    rig_append(&rig, most - 9); /* the record of 9 bytes goes to the last byte */
    ck_assert(rig_try(&rig, boot));
    boot.boot = 2;
    ck_assert(!rig_try(&rig, boot));
    ck_assert_uint_eq(rig.journal.state.tail.boot, 1);
    rig_flush(&rig);
    ck_assert_uint_eq(rig.files.n, 3);
    check_all(&rig);
    rig_done(&rig);
}
END_TEST

/* Entries of random sizes in batches of random sizes, a batch gathering while one is in flight. */
START_TEST(random_batches_come_back)
{
    struct rig rig;
    rig_init(&rig, SEGMENT, (uint64_t)_i);
    rig_put_term(&rig, 1, 0);
    rig_flush(&rig);
    for (int i = 0; i < 40; i++) {
        struct lq_journal_write write;
        rig_append(&rig, lq_rand_below(&rig.rand, 900));
        write = rig_finish(&rig);
        for (uint64_t n = lq_rand_below(&rig.rand, 5); n > 0; n--) {
            rig_append(&rig, lq_rand_below(&rig.rand, 60)); /* for the next batch */
        }
        files_write(&rig.files, &write);
        lq_journal_durable(&rig.journal);
        check_all(&rig);
    }
    rig_done(&rig);
}
END_TEST

START_TEST(gathering_needs_no_memory_once_warm)
{
    uint64_t allocations = 0;
    struct rig rig;
    rig_init(&rig, (uint64_t)1 << 20, 0);
    rig_put_term(&rig, 1, 0);
    rig_flush(&rig);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 100; i++) {
            rig_append(&rig, 300);
        }
        rig_flush(&rig);
        if (round == 1) { /* both buffers have been used */
            allocations = lq_mem_allocations();
        }
    }
    ck_assert_uint_eq(lq_mem_allocations(), allocations);
    rig_done(&rig);
}
END_TEST

/* ---- Segments. */

/* Six segments; marks let the oldest ones go, one by one. */
START_TEST(old_segments_go_once_a_mark_covers_them)
{
    uint64_t last[7] = {0}, number;
    struct rig rig;
    rig_init(&rig, SEGMENT, 0);
    rig_put_term(&rig, 1, 0);
    rig_put_boot(&rig, 5);
    while (rig.files.n < 6) {
        rig_append(&rig, 1000);
        rig_flush(&rig);
        last[rig.files.n] = rig.journal.placed.last.index;
    }
    ck_assert_uint_eq(lq_journal_deletable(&rig.journal, 1), 0);
    ck_assert_uint_eq(lq_journal_deletable(&rig.journal, UINT64_MAX), 0); /* no mark */
    rig_put_term(&rig, 9, 3);
    rig_put_mark(&rig, last[2], 1);
    ck_assert_uint_eq(lq_journal_deletable(&rig.journal, UINT64_MAX), 0); /* not finished */
    rig_flush(&rig);
    ck_assert_uint_eq(lq_journal_deletable(&rig.journal, last[1]), 0); /* kept for followers */
    ck_assert_uint_eq(lq_journal_deletable(&rig.journal, last[1] + 1), 1);
    while ((number = lq_journal_deletable(&rig.journal, UINT64_MAX)) != 0) {
        ck_assert_uint_eq(number, rig.files.names[0]);
        files_remove(&rig.files, 0);
        lq_journal_deleted(&rig.journal);
        check_all(&rig);
    }
    ck_assert_uint_eq(rig.files.names[0], 3);
    files_remove(&rig.files, 0); /* one too many */
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_OLDEST_MISSING);
    rig_done(&rig);
}
END_TEST

/* A mark that gathers while the batch before is in flight is not durable with that one. */
START_TEST(a_mark_counts_when_its_own_batch_is_durable)
{
    struct lq_journal_write write;
    struct rig rig;
    rig_init(&rig, SEGMENT, 0);
    rig_put_term(&rig, 1, 0);
    while (rig.files.n < 2) {
        rig_append(&rig, 1000);
        rig_flush(&rig);
    }
    rig_append(&rig, 1);
    write = rig_finish(&rig);
    rig_put_mark(&rig, rig.journal.placed.last.index, 1);
    files_write(&rig.files, &write);
    lq_journal_durable(&rig.journal);
    ck_assert_uint_eq(lq_journal_deletable(&rig.journal, UINT64_MAX), 0);
    write = rig_finish(&rig);
    ck_assert_uint_eq(lq_journal_deletable(&rig.journal, UINT64_MAX), 0);
    files_write(&rig.files, &write);
    lq_journal_durable(&rig.journal);
    ck_assert_uint_eq(lq_journal_deletable(&rig.journal, UINT64_MAX), 1);
    rig_done(&rig);
}
END_TEST

/* The newest segment alone tells term, vote, boot counter and mark. */
START_TEST(the_newest_segment_is_enough_when_the_mark_is_at_the_end)
{
    struct reading reading;
    struct rig rig;
    rig_init(&rig, SEGMENT, 0);
    rig_put_term(&rig, 12, 2);
    rig_put_boot(&rig, 77);
    for (int i = 0; i < 9; i++) {
        rig_append(&rig, 10);
    }
    rig_put_mark(&rig, 9, 12);
    rig_flush(&rig);
    rig_begin_segment(&rig);
    files_remove(&rig.files, 0);
    check_all(&rig);
    reading_init(&reading, &rig.files);
    ck_assert_uint_eq(reading.scan.state.tail.term, 12);
    ck_assert_uint_eq(reading.scan.state.tail.vote, 2);
    ck_assert_uint_eq(reading.scan.state.tail.boot, 77);
    ck_assert_uint_eq(reading.scan.state.tail.mark.index, 9);
    ck_assert_uint_eq(reading.scan.state.first_index, 10);
    reading_done(&reading);
    rig_done(&rig);
}
END_TEST

/* Goes on in the journal that the files hold, as a new process does. */
static void resume(struct rig *rig, enum lq_journal_verdict verdict)
{
    struct reading reading;
    lq_journal_done(&rig->journal);
    reading_init(&reading, &rig->files);
    ck_assert_int_eq(reading.verdict, verdict);
    lq_journal_resume(&rig->journal, &reading.scan, SEGMENT);
    reading_done(&reading);
}

START_TEST(a_clean_journal_is_gone_on_with_in_its_last_segment)
{
    struct rig rig;
    rig_init(&rig, SEGMENT, 0);
    rig_put_term(&rig, 1, 0);
    for (uint64_t boot = 1; boot < 30; boot++) {
        rig_put_boot(&rig, boot);
        rig_append(&rig, 300);
        rig_flush(&rig);
        check_all(&rig);
        resume(&rig, LQ_JOURNAL_CLEAN);
    }
    ck_assert_uint_eq(rig.files.n, 3); /* 29 batches, 14 in a segment */
    rig_done(&rig);
}
END_TEST

START_TEST(a_torn_journal_is_gone_on_with_in_a_new_segment)
{
    struct lq_journal_write write;
    struct rig rig;
    rig_init(&rig, SEGMENT, 0);
    rig_put_term(&rig, 1, 0);
    rig_append(&rig, 100);
    rig_flush(&rig);
    rig_append(&rig, 2000);
    write = rig_finish(&rig);
    write.len = (size_t)2 * LQ_SECTOR;
    files_write(&rig.files, &write);
    rig.written.n = rig.n_finished = rig.written.n - 1;
    resume(&rig, LQ_JOURNAL_TORN);
    ck_assert_uint_eq(rig.journal.state.tail.last.index, 1);
    rig_put_boot(&rig, 2);
    rig_flush(&rig);
    ck_assert_uint_eq(rig.files.n, 2);
    check_all(&rig);
    resume(&rig, LQ_JOURNAL_CLEAN);
    rig_append(&rig, 10);
    rig_flush(&rig);
    ck_assert_uint_eq(rig.files.n, 2);
    check_all(&rig);
    rig_done(&rig);
}
END_TEST

/* Dying between the rename of a segment and the seal of the one before. */
START_TEST(a_segment_without_a_sealed_predecessor_takes_no_batches)
{
    struct rig rig;
    rig_init(&rig, SEGMENT, 0);
    rig_put_term(&rig, 1, 0);
    rig_flush(&rig);
    rig_begin_segment(&rig);
    memset(rig.files.bytes[0] + SEGMENT - LQ_SECTOR, 0, LQ_SECTOR);
    resume(&rig, LQ_JOURNAL_CLEAN);
    rig_put_boot(&rig, 2);
    rig_flush(&rig);
    ck_assert_uint_eq(rig.files.n, 3);
    check_all(&rig);
    rig_done(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal");
    TCase *tcase = tcase_create("journal");
    tcase_set_timeout(tcase, 60);
    (void)lq_test_seed();
    tcase_add_test(tcase, no_segment_is_a_blank_journal);
    tcase_add_test(tcase, a_segment_without_batches_is_clean);
    tcase_add_test(tcase, every_field_comes_back);
    tcase_add_test(tcase, the_check_of_an_entry_covers_every_field);
    tcase_add_test(tcase, the_bytes_stay_as_they_are);
    tcase_add_test(tcase, a_batch_takes_as_many_sectors_as_it_needs);
    tcase_add_test(tcase, a_batch_goes_to_the_next_segment_when_it_does_not_fit);
    tcase_add_test(tcase, a_batch_is_at_most_a_segment);
    tcase_add_loop_test(tcase, random_batches_come_back, 0, 20);
    tcase_add_test(tcase, gathering_needs_no_memory_once_warm);
    tcase_add_test(tcase, old_segments_go_once_a_mark_covers_them);
    tcase_add_test(tcase, a_mark_counts_when_its_own_batch_is_durable);
    tcase_add_test(tcase, the_newest_segment_is_enough_when_the_mark_is_at_the_end);
    tcase_add_test(tcase, a_clean_journal_is_gone_on_with_in_its_last_segment);
    tcase_add_test(tcase, a_torn_journal_is_gone_on_with_in_a_new_segment);
    tcase_add_test(tcase, a_segment_without_a_sealed_predecessor_takes_no_batches);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
