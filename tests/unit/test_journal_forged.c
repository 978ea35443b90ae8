/* Bytes with right checksums that no journal would write: heads, headers, seals and records made by
 * hand. Each fault has its case. */
#include "test_journal_rig.h"

#define SEGMENT ((uint64_t)16 * LQ_SECTOR)

/* Terms 1 and 3 along a log of 9 entries, term 5 with a vote for 2, a mark at 4, boot 7. */
static void build(struct rig *rig)
{
    rig_init(rig, SEGMENT, 0);
    rig_put_boot(rig, 7);
    rig_put_term(rig, 1, 0);
    for (int i = 0; i < 6; i++) {
        rig_append(rig, 10);
    }
    rig_put_term(rig, 3, 0);
    for (int i = 0; i < 3; i++) {
        rig_append(rig, 10);
    }
    rig_put_mark(rig, 4, 1);
    rig_put_term(rig, 5, 2);
    rig_flush(rig);
}

/* A batch of `len` bytes (one sector) behind the good ones, numbered `seq`. */
static uint8_t *forge(struct rig *rig, const uint8_t *records, size_t len, uint64_t seq)
{
    uint8_t *sector = rig->files.bytes[0] + rig->journal.segment.end;
    memcpy(sector + LQ_BATCH_HEAD, records, len);
    lq_batch_complete(sector, len, rig->journal.segment.salt, seq);
    return sector;
}

/* Writes checksums of a batch anew after its bytes were changed. */
static void sum_again(const struct rig *rig, uint8_t *sector)
{
    struct lq_writer writer = lq_writer_of(sector, 8);
    lq_write_u64(&writer, lq_batch_checksum(sector, LQ_SECTOR, rig->journal.segment.salt));
}

/* What the scan says to one forged record behind the good ones. */
static enum lq_journal_fault fault_of(const struct lq_journal_record *record)
{
    uint8_t bytes[LQ_RECORD_HEAD + 64];
    size_t len = lq_journal_record_write(record, bytes);
    struct reading reading;
    enum lq_journal_fault fault;
    struct rig rig;
    build(&rig);
    if (record->len > 0) {
        memcpy(bytes + len, record->bytes, record->len);
    }
    (void)forge(&rig, bytes, len + record->len, 2);
    reading_init(&reading, &rig.files);
    fault = reading.finding.fault;
    ck_assert_int_eq(reading.verdict,
                     fault == LQ_JOURNAL_OK ? LQ_JOURNAL_CLEAN : LQ_JOURNAL_CORRUPT);
    if (fault != LQ_JOURNAL_OK) {
        ck_assert_uint_eq(reading.finding.number, 1);
        ck_assert_uint_eq(reading.finding.offset, rig.journal.segment.end);
        ck_assert_uint_eq(reading.finding.seq, 2);
    }
    reading_done(&reading);
    rig_done(&rig);
    return fault;
}

static enum lq_journal_fault fault_of_entry(uint64_t index, uint64_t term)
{
    static const uint8_t bytes[] = "bytes";
    struct lq_journal_record record = entry_of(index, term, bytes, sizeof bytes);
    return fault_of(&record);
}

static enum lq_journal_fault fault_of_mark(enum lq_journal_kind kind, uint64_t index, uint64_t term)
{
    return fault_of(
        &(struct lq_journal_record){.kind = (uint8_t)kind, .index = index, .term = term});
}

static enum lq_journal_fault fault_of_term(uint64_t term, uint64_t vote)
{
    return fault_of(
        &(struct lq_journal_record){.kind = LQ_JOURNAL_TERM, .term = term, .vote = vote});
}

static enum lq_journal_fault fault_of_boot(uint64_t boot)
{
    return fault_of(&(struct lq_journal_record){.kind = LQ_JOURNAL_BOOT, .boot = boot});
}

START_TEST(entries)
{
    static const uint8_t bytes[] = "bytes";
    struct lq_journal_record record = entry_of(10, 5, bytes, sizeof bytes);
    ck_assert_int_eq(fault_of(&record), LQ_JOURNAL_OK);
    record.check++;
    ck_assert_int_eq(fault_of(&record), LQ_JOURNAL_ENTRY_CHECK);
    ck_assert_int_eq(fault_of_entry(10, 3), LQ_JOURNAL_OK);
    ck_assert_int_eq(fault_of_entry(10, 4), LQ_JOURNAL_OK);
    ck_assert_int_eq(fault_of_entry(5, 1), LQ_JOURNAL_OK); /* replaces 5 to 9 */
    ck_assert_int_eq(fault_of_entry(5, 5), LQ_JOURNAL_OK);
    ck_assert_int_eq(fault_of_entry(0, 5), LQ_JOURNAL_ENTRY_GAP);
    ck_assert_int_eq(fault_of_entry(11, 5), LQ_JOURNAL_ENTRY_GAP);
    ck_assert_int_eq(fault_of_entry(UINT64_MAX, 5), LQ_JOURNAL_ENTRY_GAP);
    ck_assert_int_eq(fault_of_entry(4, 5), LQ_JOURNAL_ENTRY_COVERED);
    ck_assert_int_eq(fault_of_entry(1, 5), LQ_JOURNAL_ENTRY_COVERED);
    ck_assert_int_eq(fault_of_entry(10, 0), LQ_JOURNAL_ENTRY_TERM);
    ck_assert_int_eq(fault_of_entry(10, 2), LQ_JOURNAL_ENTRY_TERM);
    ck_assert_int_eq(fault_of_entry(10, 6), LQ_JOURNAL_ENTRY_TERM);
    ck_assert_int_eq(fault_of_entry(8, 2), LQ_JOURNAL_ENTRY_TERM);
    ck_assert_int_eq(fault_of_entry(7, 2), LQ_JOURNAL_OK);
}
END_TEST

START_TEST(terms_votes_and_boots)
{
    ck_assert_int_eq(fault_of_term(5, 2), LQ_JOURNAL_OK);
    ck_assert_int_eq(fault_of_term(6, 0), LQ_JOURNAL_OK);
    ck_assert_int_eq(fault_of_term(6, 3), LQ_JOURNAL_OK);
    ck_assert_int_eq(fault_of_term(4, 2), LQ_JOURNAL_TERM_BACK);
    ck_assert_int_eq(fault_of_term(0, 0), LQ_JOURNAL_TERM_BACK);
    ck_assert_int_eq(fault_of_term(UINT64_MAX, 0), LQ_JOURNAL_TERM_BACK);
    ck_assert_int_eq(fault_of_term(5, 3), LQ_JOURNAL_VOTE_CHANGED);
    ck_assert_int_eq(fault_of_term(5, 0), LQ_JOURNAL_VOTE_CHANGED);
    ck_assert_int_eq(fault_of_boot(8), LQ_JOURNAL_OK);
    ck_assert_int_eq(fault_of_boot(7), LQ_JOURNAL_BOOT_BACK);
    ck_assert_int_eq(fault_of_boot(0), LQ_JOURNAL_BOOT_BACK);
}
END_TEST

START_TEST(marks)
{
    enum lq_journal_kind mark = LQ_JOURNAL_MARK, restart = LQ_JOURNAL_RESTART;
    ck_assert_int_eq(fault_of_mark(mark, 4, 1), LQ_JOURNAL_OK);
    ck_assert_int_eq(fault_of_mark(mark, 5, 1), LQ_JOURNAL_OK);
    ck_assert_int_eq(fault_of_mark(mark, 9, 3), LQ_JOURNAL_OK);
    ck_assert_int_eq(fault_of_mark(mark, 5, 3), LQ_JOURNAL_MARK_ALONE);
    ck_assert_int_eq(fault_of_mark(mark, 10, 3), LQ_JOURNAL_MARK_ALONE);
    ck_assert_int_eq(fault_of_mark(restart, 4, 1), LQ_JOURNAL_OK);
    ck_assert_int_eq(fault_of_mark(restart, 5, 3), LQ_JOURNAL_OK);
    ck_assert_int_eq(fault_of_mark(restart, 1000, 5), LQ_JOURNAL_OK);
    for (; mark <= restart; mark++) {
        ck_assert_int_eq(fault_of_mark(mark, 3, 1), LQ_JOURNAL_MARK_BACK);
        ck_assert_int_eq(fault_of_mark(mark, 4, 3), LQ_JOURNAL_MARK_BACK);
        ck_assert_int_eq(fault_of_mark(mark, 9, 0), LQ_JOURNAL_MARK_BACK);
        ck_assert_int_eq(fault_of_mark(mark, 0, 5), LQ_JOURNAL_MARK_BACK);
        ck_assert_int_eq(fault_of_mark(mark, 9, 6), LQ_JOURNAL_MARK_BACK);
        ck_assert_int_eq(fault_of_mark(mark, UINT64_MAX, 5), LQ_JOURNAL_MARK_BACK);
    }
}
END_TEST

/* Records cut short, with lengths beyond the batch, of unknown kinds. */
START_TEST(bytes_that_are_no_records)
{
    struct lq_journal_record record = {.kind = LQ_JOURNAL_TERM, .term = 9};
    uint8_t bytes[LQ_RECORD_HEAD + 8] = {0};
    struct rig rig;
    size_t len = lq_journal_record_write(&record, bytes);
    build(&rig);
    for (size_t cut = 1; cut < len; cut++) {
        (void)forge(&rig, bytes, cut, 2);
        expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_RECORD);
    }
    (void)forge(&rig, bytes, len + 1, 2); /* kind 0 behind it */
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_RECORD);
    for (unsigned kind = 0; kind < 256; kind += kind == 0 ? 6 : 1) {
        bytes[0] = (uint8_t)kind;
        (void)forge(&rig, bytes, sizeof bytes, 2);
        expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_RECORD);
    }
    record = (struct lq_journal_record){.kind = LQ_JOURNAL_ENTRY, .index = 10, .term = 5};
    for (uint32_t beyond = 9; beyond != 0; beyond = beyond < 1000 ? beyond + 1 : beyond << 1) {
        record.len = beyond;
        (void)lq_journal_record_write(&record, bytes);
        (void)forge(&rig, bytes, sizeof bytes, 2); /* 8 bytes are there */
        expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_RECORD);
    }
    rig_done(&rig);
}
END_TEST

START_TEST(heads_of_batches)
{
    const uint8_t boot[] = {LQ_JOURNAL_BOOT, 0, 0, 0, 0, 0, 0, 0, 9};
    struct lq_writer writer;
    uint8_t *sector;
    struct rig rig;
    build(&rig);
    sector = forge(&rig, boot, sizeof boot, 2);
    expect(&rig.files, LQ_JOURNAL_CLEAN, LQ_JOURNAL_OK);
    sector[LQ_SECTOR - 1] ^= 2;
    sum_again(&rig, sector);
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_STAMP);
    sector = forge(&rig, boot, sizeof boot, 2);
    sector[8] ^= 1; /* its magic */
    writer = lq_writer_of(sector + 24, 4);
    lq_write_u32(&writer, lq_batch_head_check(sector, rig.journal.segment.salt));
    sum_again(&rig, sector);
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_BATCH_HEAD);
    for (uint64_t seq = 0; seq < 5; seq++) {
        (void)forge(&rig, boot, sizeof boot, seq);
        expect(&rig.files, seq == 2 ? LQ_JOURNAL_CLEAN : LQ_JOURNAL_CORRUPT,
               seq == 2 ? LQ_JOURNAL_OK : LQ_JOURNAL_BATCH_SEQ);
    }
    (void)forge(&rig, boot, 0, 2);
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_BATCH_LENGTH);
    rig_done(&rig);
}
END_TEST

/* A head with a right check and any length: never believed beyond the segment's end. */
START_TEST(lengths_of_batches)
{
    static const uint32_t lens[] = {LQ_SECTOR_BODY * 12, LQ_SECTOR_BODY * 14, 1U << 20, 1U << 31,
                                    UINT32_MAX - 28,     UINT32_MAX};
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        uint8_t *room = calloc((size_t)2 << 20, 1);
        struct lq_writer writer;
        struct rig rig;
        build(&rig);
        lq_batch_complete(room, (size_t)1 << 20, rig.journal.segment.salt, 2);
        writer = lq_writer_of(room + 12, 4);
        lq_write_u32(&writer, lens[i]);
        writer = lq_writer_of(room + 24, 4);
        lq_write_u32(&writer, lq_batch_head_check(room, rig.journal.segment.salt));
        memcpy(rig.files.bytes[0] + rig.journal.segment.end, room, LQ_SECTOR);
        expect(&rig.files, i == 0 ? LQ_JOURNAL_TORN : LQ_JOURNAL_CORRUPT,
               i == 0 ? LQ_JOURNAL_OK : LQ_JOURNAL_BATCH_LENGTH);
        free(room);
        rig_done(&rig);
    }
}
END_TEST

/* ---- Headers and seals. */

static enum lq_journal_fault fault_of_header(const struct lq_journal_header *header)
{
    struct lq_journal_header read;
    uint8_t sector[LQ_SECTOR];
    lq_journal_header_write(header, sector);
    return lq_journal_header_read(sector, &read);
}

#define HEADER_WITH(change)                                                                        \
    do {                                                                                           \
        struct lq_journal_header header = good;                                                    \
        change;                                                                                    \
        ck_assert_int_eq(fault_of_header(&header), LQ_JOURNAL_HEADER);                             \
    } while (0)

START_TEST(headers_that_no_journal_has)
{
    const struct lq_journal_header good = {
        .segment_bytes = SEGMENT,
        .number = 2,
        .salt = 1,
        .prev_salt = 1,
        .prev_end = 512,
        .tail = {.term = 3, .vote = 1, .mark = {4, 2}, .last = {5, 3}}};
    ck_assert_int_eq(fault_of_header(&good), LQ_JOURNAL_OK);
    HEADER_WITH(header.segment_bytes = 0);
    HEADER_WITH(header.segment_bytes++);
    HEADER_WITH(header.segment_bytes = LQ_JOURNAL_SEGMENT_MIN - LQ_SECTOR);
    HEADER_WITH(header.segment_bytes = LQ_JOURNAL_SEGMENT_MAX + LQ_SECTOR);
    HEADER_WITH(header.segment_bytes = UINT64_MAX - LQ_SECTOR + 1);
    HEADER_WITH(header.number = 0);
    HEADER_WITH(header.number = 1);
    HEADER_WITH(header.number = UINT64_MAX);
    HEADER_WITH(header.salt = 0);
    HEADER_WITH(header.prev_salt = 0);
    HEADER_WITH(header.prev_end = 0);
    HEADER_WITH(header.prev_seq = UINT64_MAX);
    HEADER_WITH(header.tail.term = 2);
    HEADER_WITH(header.tail.term = UINT64_MAX);
    HEADER_WITH(header.tail.mark.index = 6);
    HEADER_WITH(header.tail.mark.index = 5);
    HEADER_WITH(header.tail.mark.index = 0);
    HEADER_WITH(header.tail.mark.term = 0);
    HEADER_WITH(header.tail.mark.term = 4);
    HEADER_WITH(header.tail.last.index = 0);
    HEADER_WITH(header.tail.last.term = 0);
    HEADER_WITH(header.tail.last.index = UINT64_MAX);
}
END_TEST

/* Every bit of a header or seal counts, reserved ones too. */
START_TEST(bits_of_headers_and_seals)
{
    const struct lq_journal_seal seal = {
        .number = 1, .salt = 2, .end = 512, .seq = 3, .successor_salt = 4};
    const struct lq_journal_header header = {.segment_bytes = SEGMENT, .number = 1, .salt = 1};
    struct lq_journal_header header_read;
    struct lq_journal_seal seal_read;
    uint8_t sectors[2][LQ_SECTOR];
    lq_journal_header_write(&header, sectors[0]);
    lq_journal_seal_write(&seal, sectors[1]);
    ck_assert_int_eq(lq_journal_header_read(sectors[0], &header_read), LQ_JOURNAL_OK);
    ck_assert(lq_journal_seal_read(sectors[1], &seal_read));
    ck_assert_uint_eq(seal_read.successor_salt, 4);
    for (size_t bit = 0; bit < (size_t)8 * LQ_SECTOR; bit++) {
        sectors[0][bit / 8] ^= (uint8_t)(1U << bit % 8);
        sectors[1][bit / 8] ^= (uint8_t)(1U << bit % 8);
        LQ_HOT_ASSERT(lq_journal_header_read(sectors[0], &header_read) == LQ_JOURNAL_HEADER);
        LQ_HOT_ASSERT(!lq_journal_seal_read(sectors[1], &seal_read));
        sectors[0][bit / 8] ^= (uint8_t)(1U << bit % 8);
        sectors[1][bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
}
END_TEST

START_TEST(a_later_version_is_told_as_such)
{
    struct rig rig;
    build(&rig);
    rig.files.bytes[0][11] = 2;
    lq_journal_sum_sector(rig.files.bytes[0]);
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_VERSION);
    rig.files.bytes[0][11] = 1;
    rig.files.bytes[0][15] = 1; /* reserved */
    lq_journal_sum_sector(rig.files.bytes[0]);
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_HEADER);
    rig.files.bytes[0][15] = 0;
    rig.files.bytes[0][400] = 1; /* reserved */
    lq_journal_sum_sector(rig.files.bytes[0]);
    expect(&rig.files, LQ_JOURNAL_CORRUPT, LQ_JOURNAL_HEADER);
    rig_done(&rig);
}
END_TEST

/* Each fault is told in words of its own. */
START_TEST(every_fault_has_a_text)
{
    for (int i = 0; i <= LQ_JOURNAL_MARK_ALONE; i++) {
        const char *text = lq_journal_fault_text((enum lq_journal_fault)i);
        ck_assert_uint_gt(strlen(text), 5);
        for (int j = 0; j < i; j++) {
            ck_assert_str_ne(text, lq_journal_fault_text((enum lq_journal_fault)j));
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_forged");
    TCase *tcase = tcase_create("forged");
    tcase_set_timeout(tcase, 60);
    (void)lq_test_seed();
    tcase_add_test(tcase, entries);
    tcase_add_test(tcase, terms_votes_and_boots);
    tcase_add_test(tcase, marks);
    tcase_add_test(tcase, bytes_that_are_no_records);
    tcase_add_test(tcase, heads_of_batches);
    tcase_add_test(tcase, lengths_of_batches);
    tcase_add_test(tcase, headers_that_no_journal_has);
    tcase_add_test(tcase, bits_of_headers_and_seals);
    tcase_add_test(tcase, a_later_version_is_told_as_such);
    tcase_add_test(tcase, every_fault_has_a_text);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
