/* What a disk holds, put together at a start: good, torn, refused. */
#include "lq_engine.h"
#include "lq_mem.h"
#include "lq_recovery.h"
#include "lq_recovery_impl.h"
#include "lq_snapshot.h"
#include "lq_test.h"

#include <string.h>

#define SEGMENT_BYTES LQ_JOURNAL_SEGMENT_MIN
#define FILES_MAX     40

static const uint8_t secret[16] = "hashed like this";
static struct lq_journal journal;
static uint8_t *files[FILES_MAX]; /* segments, by number */
static struct lq_journal_write last_write;
static struct lq_recovery *recovery;

static void set_up(void)
{
    lq_journal_init(&journal, 7, 1, SEGMENT_BYTES);
    recovery = lq_recovery_new(7, 1, secret);
}

static void tear_down(void)
{
    lq_journal_done(&journal);
    lq_recovery_free(recovery);
    for (size_t i = 0; i < FILES_MAX; i++) {
        lq_free(files[i]);
        files[i] = NULL;
    }
}

/* ---- Writing. */

static void write_out(const struct lq_journal_write *write)
{
    if (write->len > 0) {
        memcpy(files[write->number] + write->offset, write->bytes, write->len);
    }
}

static void flush(void)
{
    if (!lq_journal_finish(&journal, &last_write)) {
        struct lq_journal_write header, seal;
        lq_journal_begin_segment(&journal, 5 + journal.segment.number, &header, &seal);
        ck_assert_uint_lt(header.number, FILES_MAX);
        files[header.number] = lq_calloc(1, SEGMENT_BYTES);
        write_out(&header);
        write_out(&seal);
        ck_assert(lq_journal_finish(&journal, &last_write));
    }
    write_out(&last_write);
    lq_journal_durable(&journal);
}

static void put(const struct lq_journal_record *record)
{
    if (!lq_journal_put(&journal, record)) {
        flush();
        ck_assert(lq_journal_put(&journal, record));
    }
}

static void put_entry_of(uint64_t index, uint64_t term, uint8_t type, const void *bytes,
                         uint32_t len)
{
    put(&(struct lq_journal_record){.kind = LQ_JOURNAL_ENTRY,
                                    .type = type,
                                    .len = len,
                                    .index = index,
                                    .term = term,
                                    .check = lq_journal_entry_check(index, term, type, bytes, len),
                                    .bytes = bytes});
}

static void put_entry(uint64_t index, uint64_t term)
{
    static const uint8_t bytes[300] = "an entry";
    put_entry_of(index, term, LQ_ENTRY_COMMANDS, bytes, sizeof bytes);
}

static struct lq_members members_of(uint32_t n)
{
    static const char *const addresses[] = {"a:1", "b:1", "c:1", "d:1"};
    struct lq_members members = {0};
    for (uint32_t i = 0; i < n; i++) {
        ck_assert(lq_members_add(&members, i + 1, addresses[i], LQ_ROLE_VOTER));
    }
    return members;
}

static void put_members(uint64_t index, uint64_t term, uint32_t n)
{
    struct lq_members members = members_of(n);
    struct lq_buffer bytes = {0};
    lq_members_encode(&members, &bytes);
    put_entry_of(index, term, LQ_ENTRY_MEMBERS, bytes.bytes, (uint32_t)bytes.len);
    lq_buffer_done(&bytes);
}

static void put_mark(uint64_t index, uint64_t term)
{
    put(&(struct lq_journal_record){.kind = LQ_JOURNAL_MARK, .index = index, .term = term});
}

/* Boot 3, term 4 with a vote for 2, entries 1 to `last`: the members, then commands of term 4. */
static void write_log(uint64_t last)
{
    put(&(struct lq_journal_record){.kind = LQ_JOURNAL_BOOT, .boot = 3});
    put(&(struct lq_journal_record){.kind = LQ_JOURNAL_TERM, .term = 4, .vote = 2});
    put_members(1, 1, 3);
    for (uint64_t index = 2; index <= last; index++) {
        put_entry(index, 4);
    }
    flush();
}

static struct lq_buffer snapshot_at(uint64_t index, uint64_t term, uint64_t cluster)
{
    struct lq_table *table = lq_table_new(secret, 1);
    struct lq_snapfile_head head = {.cluster = cluster,
                                    .index = index,
                                    .term = term,
                                    .members_index = 1,
                                    .members = members_of(3)};
    struct lq_buffer file = {0}, state = {0};
    struct lq_snapfile_writer *writer = lq_snapfile_begin(&head, &file);
    struct lq_snapshot *snapshot = lq_snapshot_begin(table, &state);
    uint64_t total, check;
    while (!lq_snapshot_step(snapshot, 100, &state)) {
    }
    lq_snapfile_add(writer, state.bytes, state.len, &file);
    lq_snapfile_end(writer, &file, &total, &check);
    lq_snapfile_free(writer);
    lq_snapshot_end(snapshot);
    lq_buffer_done(&state);
    lq_table_free(table);
    return file;
}

/* ---- Reading. */

static bool offer_snapshot(uint64_t index, uint64_t term)
{
    struct lq_buffer file = snapshot_at(index, term, 7);
    bool is_good = lq_recovery_snapshot(recovery, file.bytes, file.len);
    lq_buffer_done(&file);
    return is_good;
}

static enum lq_recovery_verdict offer_journal(void)
{
    for (uint64_t number = 1; number < FILES_MAX; number++) {
        if (files[number] != NULL) {
            lq_recovery_segment(recovery, number, files[number], SEGMENT_BYTES);
        }
    }
    return lq_recovery_end(recovery);
}

static void refuses_with(const char *words)
{
    ck_assert_int_eq(offer_journal(), LQ_RECOVERY_CORRUPT);
    ck_assert_msg(strstr(lq_recovery_text(recovery), words) != NULL, "%s",
                  lq_recovery_text(recovery));
    ck_assert_ptr_nonnull(strstr(lq_recovery_text(recovery), "new id")); /* how to rejoin */
}

START_TEST(nothing_is_blank)
{
    ck_assert_int_eq(offer_journal(), LQ_RECOVERY_BLANK);
    ck_assert_str_eq(lq_recovery_text(recovery), "");
    ck_assert_uint_eq(lq_recovery_facts(recovery).term, 0);
}
END_TEST

START_TEST(a_clean_journal_is_all_there)
{
    struct lq_recovery_facts facts;
    write_log(40);
    ck_assert_uint_gt(journal.segment.number, 2);
    ck_assert_int_eq(offer_journal(), LQ_RECOVERY_GOOD);
    facts = lq_recovery_facts(recovery);
    ck_assert_uint_eq(facts.term, 4);
    ck_assert_uint_eq(facts.vote, 2);
    ck_assert_uint_eq(facts.boot, 3);
    ck_assert_uint_eq(facts.first_index, 1);
    ck_assert_uint_eq(facts.last_index, 40);
    ck_assert_uint_eq(facts.last_term, 4);
    ck_assert_uint_eq(facts.snapshot_index, 0);
    ck_assert_uint_eq(facts.members.n, 3);
}
END_TEST

START_TEST(the_newest_members_count_and_replaced_ones_do_not)
{
    write_log(10);
    put_members(11, 4, 4);
    put_entry(12, 4);
    put(&(struct lq_journal_record){.kind = LQ_JOURNAL_TERM, .term = 5});
    put_members(13, 5, 2);
    put_entry(13, 5);
    flush();
    ck_assert_int_eq(offer_journal(), LQ_RECOVERY_GOOD);
    ck_assert_uint_eq(lq_recovery_facts(recovery).members.n, 4);
    ck_assert_uint_eq(lq_recovery_facts(recovery).last_index, 13);
    ck_assert_uint_eq(lq_recovery_facts(recovery).last_term, 5);
}
END_TEST

START_TEST(a_torn_last_batch_is_left_out)
{
    write_log(4);
    put_entry(5, 4);
    put_entry(6, 4);
    put_entry(7, 4);
    flush();
    ck_assert_uint_gt(last_write.len, LQ_SECTOR);
    memset(files[last_write.number] + last_write.offset + last_write.len - LQ_SECTOR, 0, LQ_SECTOR);
    ck_assert_int_eq(offer_journal(), LQ_RECOVERY_TORN);
    ck_assert_uint_eq(lq_recovery_facts(recovery).last_index, 4);
    ck_assert_uint_eq(lq_recovery_facts(recovery).vote, 2);
    ck_assert_ptr_nonnull(strstr(lq_recovery_text(recovery), "torn"));
}
END_TEST

START_TEST(a_rotten_batch_is_refused)
{
    write_log(4);
    put_entry(5, 4);
    flush();
    files[last_write.number][last_write.offset + 100] ^= 1; /* all sectors are written */
    refuses_with("segment");
}
END_TEST

START_TEST(a_rotten_batch_before_good_ones_is_refused)
{
    struct lq_journal_write first;
    write_log(4);
    first = last_write;
    put_entry(5, 4);
    flush();
    memset(files[first.number] + first.offset, 0, LQ_SECTOR);
    refuses_with("segment 1");
}
END_TEST

START_TEST(a_missing_segment_is_refused)
{
    write_log(40);
    lq_free(files[2]);
    files[2] = NULL;
    refuses_with("segment");
}
END_TEST

START_TEST(the_disk_of_another_is_refused)
{
    write_log(4);
    lq_recovery_free(recovery);
    recovery = lq_recovery_new(_i == 0 ? 8 : 7, _i == 0 ? 1 : 2, secret);
    ck_assert_int_eq(offer_journal(), LQ_RECOVERY_CORRUPT);
}
END_TEST

START_TEST(the_snapshot_of_another_cluster_is_not_taken)
{
    struct lq_buffer file = snapshot_at(5, 4, 8);
    ck_assert(!lq_recovery_snapshot(recovery, file.bytes, file.len));
    lq_buffer_done(&file);
}
END_TEST

START_TEST(a_damaged_snapshot_is_not_taken)
{
    struct lq_buffer file = snapshot_at(5, 4, 7);
    for (size_t i = 0; i < file.len; i++) {
        file.bytes[i] ^= 0x10;
        ck_assert(!lq_recovery_snapshot(recovery, file.bytes, file.len));
        file.bytes[i] ^= 0x10;
    }
    for (size_t len = 0; len < file.len; len++) {
        ck_assert(!lq_recovery_snapshot(recovery, file.bytes, len));
    }
    ck_assert(lq_recovery_snapshot(recovery, file.bytes, file.len));
    lq_buffer_done(&file);
}
END_TEST

/* ---- Snapshot and journal. */

START_TEST(a_snapshot_within_the_log_keeps_the_log)
{
    write_log(40);
    put_mark(20, 4);
    flush();
    ck_assert(offer_snapshot(20, 4));
    ck_assert_int_eq(offer_journal(), LQ_RECOVERY_GOOD);
    ck_assert_uint_eq(lq_recovery_facts(recovery).snapshot_index, 20);
    ck_assert_uint_eq(lq_recovery_facts(recovery).first_index, 1);
    ck_assert_uint_eq(lq_recovery_facts(recovery).last_index, 40);
    ck_assert(!recovery->needs_restart);
}
END_TEST

/* It was renamed, but its mark is not there yet. */
START_TEST(a_snapshot_without_its_mark_keeps_the_log)
{
    write_log(40);
    ck_assert(offer_snapshot(20, 4));
    ck_assert_int_eq(offer_journal(), LQ_RECOVERY_GOOD);
    ck_assert_uint_eq(lq_recovery_facts(recovery).last_index, 40);
    ck_assert(!recovery->needs_restart);
}
END_TEST

START_TEST(a_snapshot_that_is_ahead_of_the_journal_stands_instead_of_it)
{
    write_log(10);
    ck_assert(offer_snapshot(20, 4));
    ck_assert_int_eq(offer_journal(), LQ_RECOVERY_GOOD);
    ck_assert(recovery->needs_restart);
    ck_assert_uint_eq(lq_recovery_facts(recovery).first_index, 21);
    ck_assert_uint_eq(lq_recovery_facts(recovery).last_index, 20);
    ck_assert_uint_eq(lq_recovery_facts(recovery).last_term, 4);
    ck_assert_uint_eq(lq_recovery_facts(recovery).vote, 2);
}
END_TEST

/* Its last entry was another one: what this node had was never committed. */
START_TEST(a_snapshot_that_contradicts_the_log_stands_instead_of_it)
{
    write_log(40);
    ck_assert(offer_snapshot(20, 5));
    ck_assert_int_eq(offer_journal(), LQ_RECOVERY_GOOD);
    ck_assert(recovery->needs_restart);
    ck_assert_uint_eq(lq_recovery_facts(recovery).last_index, 20);
    ck_assert_uint_eq(lq_recovery_facts(recovery).last_term, 5);
}
END_TEST

START_TEST(an_installed_snapshot_goes_on_where_the_journal_says_so)
{
    write_log(10);
    put(&(struct lq_journal_record){.kind = LQ_JOURNAL_RESTART, .index = 30, .term = 4});
    put_entry(31, 4);
    flush();
    ck_assert(offer_snapshot(30, 4));
    ck_assert_int_eq(offer_journal(), LQ_RECOVERY_GOOD);
    ck_assert(!recovery->needs_restart);
    ck_assert_uint_eq(lq_recovery_facts(recovery).first_index, 31);
    ck_assert_uint_eq(lq_recovery_facts(recovery).last_index, 31);
}
END_TEST

START_TEST(a_missing_snapshot_is_refused)
{
    write_log(10);
    put(&(struct lq_journal_record){.kind = LQ_JOURNAL_RESTART, .index = 30, .term = 4});
    put_entry(31, 4);
    flush();
    refuses_with("snapshot");
}
END_TEST

START_TEST(a_missing_snapshot_that_was_marked_is_refused)
{
    write_log(40);
    put_mark(20, 4);
    flush();
    refuses_with("snapshot");
}
END_TEST

START_TEST(an_older_snapshot_is_enough_if_the_log_goes_on_behind_it)
{
    write_log(40);
    put_mark(10, 4);
    put_mark(20, 4);
    flush();
    ck_assert(offer_snapshot(10, 4)); /* the newer one was no good */
    ck_assert_int_eq(offer_journal(), LQ_RECOVERY_GOOD);
    ck_assert_uint_eq(lq_recovery_facts(recovery).snapshot_index, 10);
    ck_assert_uint_eq(lq_recovery_facts(recovery).last_index, 40);
    ck_assert(!recovery->needs_restart);
}
END_TEST

START_TEST(an_older_snapshot_is_refused_if_the_log_begins_behind_it)
{
    write_log(10);
    put_mark(5, 4);
    put(&(struct lq_journal_record){.kind = LQ_JOURNAL_RESTART, .index = 30, .term = 4});
    flush();
    ck_assert(offer_snapshot(5, 4));
    refuses_with("snapshot");
}
END_TEST

START_TEST(old_segments_that_were_deleted_are_not_missed)
{
    write_log(40);
    put_mark(30, 4);
    flush();
    while (lq_journal_deletable(&journal, 21) > 0) {
        uint64_t number = lq_journal_deletable(&journal, 21);
        lq_free(files[number]);
        files[number] = NULL;
        lq_journal_deleted(&journal);
    }
    ck_assert_ptr_null(files[1]);
    ck_assert(offer_snapshot(30, 4));
    ck_assert_int_eq(offer_journal(), LQ_RECOVERY_GOOD);
    ck_assert_uint_gt(lq_recovery_facts(recovery).first_index, 1);
    ck_assert_uint_le(lq_recovery_facts(recovery).first_index, 31);
    ck_assert_uint_eq(lq_recovery_facts(recovery).last_index, 40);
    ck_assert_uint_eq(lq_recovery_facts(recovery).term, 4);
    ck_assert_uint_eq(lq_recovery_facts(recovery).vote, 2);
    ck_assert_uint_eq(lq_recovery_facts(recovery).boot, 3);
    ck_assert_uint_ne(recovery->log.base.term, 0); /* else the clock begins at no term */
}
END_TEST

START_TEST(a_snapshot_without_a_journal_is_refused)
{
    ck_assert(offer_snapshot(20, 4));
    refuses_with("no journal");
}
END_TEST

/* ---- Entries. */

START_TEST(entries_that_no_node_writes_are_refused)
{
    static const uint8_t nonsense[] = "no members";
    put(&(struct lq_journal_record){.kind = LQ_JOURNAL_BOOT, .boot = 1});
    put(&(struct lq_journal_record){.kind = LQ_JOURNAL_TERM, .term = 1});
    switch (_i) {
    case 0:
        put_entry(1, 1); /* the first one makes the members */
        break;
    case 1:
        put_members(1, 1, 3);
        put_entry_of(2, 1, 0, nonsense, sizeof nonsense);
        break;
    case 2:
        put_members(1, 1, 3);
        put_entry_of(2, 1, 77, nonsense, sizeof nonsense);
        break;
    default:
        put_members(1, 1, 3);
        put_entry_of(2, 1, LQ_ENTRY_MEMBERS, nonsense, sizeof nonsense);
        break;
    }
    flush();
    refuses_with("no node writes");
}
END_TEST

static Suite *recovery_suite(void)
{
    Suite *suite = suite_create("recovery");
    TCase *tcase = tcase_create("recovery");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, nothing_is_blank);
    tcase_add_test(tcase, a_clean_journal_is_all_there);
    tcase_add_test(tcase, the_newest_members_count_and_replaced_ones_do_not);
    tcase_add_test(tcase, a_torn_last_batch_is_left_out);
    tcase_add_test(tcase, a_rotten_batch_is_refused);
    tcase_add_test(tcase, a_rotten_batch_before_good_ones_is_refused);
    tcase_add_test(tcase, a_missing_segment_is_refused);
    tcase_add_loop_test(tcase, the_disk_of_another_is_refused, 0, 2);
    tcase_add_test(tcase, the_snapshot_of_another_cluster_is_not_taken);
    tcase_add_test(tcase, a_damaged_snapshot_is_not_taken);
    tcase_add_test(tcase, a_snapshot_within_the_log_keeps_the_log);
    tcase_add_test(tcase, a_snapshot_without_its_mark_keeps_the_log);
    tcase_add_test(tcase, a_snapshot_that_is_ahead_of_the_journal_stands_instead_of_it);
    tcase_add_test(tcase, a_snapshot_that_contradicts_the_log_stands_instead_of_it);
    tcase_add_test(tcase, an_installed_snapshot_goes_on_where_the_journal_says_so);
    tcase_add_test(tcase, a_missing_snapshot_is_refused);
    tcase_add_test(tcase, a_missing_snapshot_that_was_marked_is_refused);
    tcase_add_test(tcase, an_older_snapshot_is_enough_if_the_log_goes_on_behind_it);
    tcase_add_test(tcase, an_older_snapshot_is_refused_if_the_log_begins_behind_it);
    tcase_add_test(tcase, old_segments_that_were_deleted_are_not_missed);
    tcase_add_test(tcase, a_snapshot_without_a_journal_is_refused);
    tcase_add_loop_test(tcase, entries_that_no_node_writes_are_refused, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(recovery_suite());
}
