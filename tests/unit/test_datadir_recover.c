/* Reading a data directory at a start: what is found, what is refused with which words, what is
 * made durable, and what is removed. */
#include "test_datadir_rig.h"
#include "test_rebirth_rig.h"

static struct rig rig;

static void set_up(void)
{
    root_init();
    make_home();
    old_disk_init(&rig);
}

static void tear_down(void)
{
    lq_datadir_close(&dir);
    rig_done(&rig);
    root_done();
}

static void write_snapshot(uint64_t index)
{
    struct lq_buffer file = snapshot_at(index, CLUSTER);
    write_file(snapshot_of(index, term_of(index)), file.bytes, file.len);
    lq_buffer_done(&file);
}

static struct lq_recovery_facts facts_of(enum lq_recovery_verdict verdict)
{
    struct lq_recovery *recovery = recover_home(verdict);
    struct lq_recovery_facts facts = lq_recovery_facts(recovery);
    lq_recovery_free(recovery);
    return facts;
}

static void cannot_be_read(const char *words)
{
    enum lq_recovery_verdict verdict;
    ck_assert_ptr_null(lq_datadir_recover(&dir, hash_secret, &verdict));
    says(dir.text, words);
    says(dir.text, home);
}

START_TEST(an_empty_directory_is_blank)
{
    ck_assert_uint_eq(facts_of(LQ_RECOVERY_BLANK).last_index, 0);
    ck_assert_str_eq(dir.text, "");
}
END_TEST

START_TEST(all_is_found)
{
    struct lq_recovery_facts facts;
    write_segments(&rig.files);
    write_snapshot(3);
    facts = facts_of(LQ_RECOVERY_GOOD);
    ck_assert_uint_eq(facts.term, SEEN_TERM);
    ck_assert_uint_eq(facts.vote, 2);
    ck_assert_uint_eq(facts.boot, BOOT);
    ck_assert_uint_eq(facts.last_index, LAST_INDEX);
    ck_assert_uint_eq(facts.snapshot_index, 3);
    ck_assert_str_eq(dir.text, "");
}
END_TEST

START_TEST(segments_are_read_in_the_order_of_their_numbers)
{
    rig_begin_segment(&rig);
    for (uint64_t index = LAST_INDEX + 1; rig.journal.segment.number < 12; index++) {
        rig_put_entry(&rig, index, 4000);
        rig_flush(&rig);
    }
    write_segments(&rig.files);
    ck_assert(exists(segment_of(11)));
    /* type 2 to 3 by turns: not all of it is a replica's, so only the journal counts here */
    lq_datadir_close(&dir);
    ck_assert(lq_datadir_open_read_only(&dir, home));
    {
        enum lq_recovery_verdict verdict;
        struct lq_recovery *recovery = lq_datadir_recover(&dir, hash_secret, &verdict);
        ck_assert_uint_eq(lq_recovery_facts(recovery).last_index,
                          rig.journal.state.tail.last.index);
        lq_recovery_free(recovery);
    }
}
END_TEST

/* ---- Damage. */

START_TEST(a_torn_end_is_told_and_left_out)
{
    struct lq_journal_write last;
    static const uint8_t zeros[LQ_SECTOR];
    rig_put_entry(&rig, LAST_INDEX + 1, 2000);
    last = rig_finish(&rig);
    files_write(&rig.files, &last);
    write_segments(&rig.files);
    patch(segment_of(1), last.offset + LQ_SECTOR, zeros, sizeof zeros);
    ck_assert_uint_eq(facts_of(LQ_RECOVERY_TORN).last_index, LAST_INDEX);
    says(dir.text, "torn");
    says(dir.text, home);
}
END_TEST

/* In the middle, and in the last batch: never left out silently. */
START_TEST(a_flipped_bit_is_refused)
{
    struct lq_journal_write last;
    rig_put_term(&rig, SEEN_TERM + 1, 1);
    last = rig_finish(&rig);
    files_write(&rig.files, &last);
    write_segments(&rig.files);
    write_file("spare-ready.tmp", "x", 1);
    flip(segment_of(1), _i == 0 ? 2 * LQ_SECTOR + 9 : last.offset + 40);
    lq_recovery_free(recover_home(LQ_RECOVERY_CORRUPT));
    says(dir.text, "/segment-00000000000000000001: journal segment 1, offset");
    says(dir.text, "new id");
    says(dir.text, home);
    ck_assert(exists("spare-ready.tmp")); /* nothing was changed */
}
END_TEST

START_TEST(a_missing_segment_is_refused)
{
    rig_begin_segment(&rig);
    rig_put_term(&rig, SEEN_TERM + 1, 1);
    rig_flush(&rig);
    rig_begin_segment(&rig);
    write_segments(&rig.files);
    ck_assert_int_eq(unlink(path_of(segment_of(1 + (uint64_t)_i))), 0);
    lq_recovery_free(recover_home(LQ_RECOVERY_CORRUPT));
    says(dir.text, _i == 1 ? "missing" : "segment");
}
END_TEST

START_TEST(an_odd_size_is_refused)
{
    static const off_t sizes[] = {0, 100, SEGMENT_BYTES - 1, SEGMENT_BYTES + LQ_SECTOR};
    write_segments(&rig.files);
    ck_assert_int_eq(truncate(path_of(segment_of(1)), sizes[_i]), 0);
    lq_recovery_free(recover_home(LQ_RECOVERY_CORRUPT));
    says(dir.text, "size");
}
END_TEST

/* Sparse: nothing of that length is ever read. */
START_TEST(a_giant_file_is_not_read)
{
    write_segments(&rig.files);
    write_snapshot(3);
    ck_assert_int_eq(truncate(path_of(_i == 0 ? segment_of(1) : snapshot_of(3, 1)),
                              (off_t)1 << (_i == 0 ? 31 : 37)),
                     0);
    cannot_be_read("File too large");
}
END_TEST

START_TEST(what_is_no_file_is_not_read)
{
    ck_assert_int_eq(_i == 0 ? mkdir(path_of(segment_of(1)), 0700)
                             : symlink("/dev/zero", path_of(segment_of(1))),
                     0);
    cannot_be_read("segment-00000000000000000001");
}
END_TEST

START_TEST(names_that_no_node_gives_are_told)
{
    static const char *const names[] = {
        "segment-1",
        "segment-00000000000000000000",
        "segment-00000000000000000002.bak",
        "segment-99999999999999999999",
        "segment- 0000000000000000002",
        "snapshot-00000000000000000005",
        "snapshot-00000000000000000005-00000000000000000001 (copy)",
        "snapshot-00000000000000000005-00000000000000000001-and-a-very-long-name",
    };
    write_segments(&rig.files);
    write_file(names[_i], "x", 1);
    cannot_be_read("no node gives a file this name");
    says(dir.text, "/s");
}
END_TEST

START_TEST(other_files_are_left_alone)
{
    write_segments(&rig.files);
    write_file("README", "x", 1);
    write_file("mine.tmp", "x", 1);
    (void)facts_of(LQ_RECOVERY_GOOD);
    ck_assert(exists("README") && exists("mine.tmp"));
}
END_TEST

/* ---- Snapshots, and what is removed. */

START_TEST(unfinished_files_and_old_snapshots_go)
{
    write_segments(&rig.files);
    for (uint64_t index = 3; index <= 6; index++) {
        write_snapshot(index);
    }
    write_file("spare-making.tmp", "x", 1);
    write_file("spare-ready.tmp", "x", 1);
    write_file("snapshot-00000000000000000007-00000000000000000001.in.tmp", "x", 1);
    write_file("snapshot-00000000000000000007-00000000000000000001.own.tmp", "x", 1);
    write_file("identity.tmp", "x", 1);
    flip(snapshot_of(6, LAST_TERM), 100);
    ck_assert_uint_eq(facts_of(LQ_RECOVERY_GOOD).snapshot_index, 5);
    says(dir.text, snapshot_of(6, LAST_TERM));
    says(dir.text, "passed over");
    ck_assert_str_eq(dir.passed_over, snapshot_of(6, LAST_TERM));
    ck_assert(exists(snapshot_of(6, LAST_TERM)) && exists(snapshot_of(5, 1)));
    ck_assert(exists(snapshot_of(4, 1)) && !exists(snapshot_of(3, 1)));
    ck_assert(!exists("spare-making.tmp") && !exists("spare-ready.tmp"));
    ck_assert(!exists("snapshot-00000000000000000007-00000000000000000001.in.tmp"));
    ck_assert(!exists("snapshot-00000000000000000007-00000000000000000001.own.tmp"));
    ck_assert(!exists("identity.tmp") && exists("identity") && exists(segment_of(1)));
}
END_TEST

START_TEST(looking_removes_and_syncs_nothing)
{
    write_segments(&rig.files);
    for (uint64_t index = 3; index <= 6; index++) {
        write_snapshot(index);
    }
    write_file("spare-ready.tmp", "x", 1);
    lq_datadir_close(&dir);
    lq_file_calls.fsync = NULL; /* whoever calls it dies */
    ck_assert(lq_datadir_open_read_only(&dir, home));
    ck_assert_uint_eq(facts_of(LQ_RECOVERY_GOOD).snapshot_index, 6);
    ck_assert(exists("spare-ready.tmp") && exists(snapshot_of(3, 1)));
}
END_TEST

START_TEST(a_snapshot_under_the_name_of_another_is_told)
{
    struct lq_buffer file = snapshot_at(4, CLUSTER);
    write_segments(&rig.files);
    write_file(snapshot_of(5, 1), file.bytes, file.len);
    lq_buffer_done(&file);
    cannot_be_read("holds the snapshot of index 4, term 1");
}
END_TEST

START_TEST(segments_of_another_cluster_are_refused)
{
    write_segments(&rig.files);
    lq_datadir_close(&dir);
    ck_assert_int_eq(unlink(path_of("identity")), 0);
    write_file("identity", "loquet-data 1\ncluster 00000000000000c2\nnode 3\n", 46);
    open_home();
    lq_recovery_free(recover_home(LQ_RECOVERY_CORRUPT));
    says(dir.text, "cluster");
}
END_TEST

/* ---- A disk that fails. */

static int n_calls, fail_at, fail_with;

static bool fails(void)
{
    errno = fail_with;
    return ++n_calls == fail_at;
}

static int sync_or_fail(int fd)
{
    return fails() ? -1 : fsync(fd);
}

static ssize_t read_or_fail(int fd, void *bytes, size_t len, off_t offset)
{
    return fails() ? -1 : pread(fd, bytes, len > 1000 ? 1000 : len, offset);
}

static int remove_or_fail(int fd, const char *name, int flags)
{
    return fails() ? -1 : unlinkat(fd, name, flags);
}

START_TEST(every_failure_is_told)
{
    static const char *const words[] = {"can't sync: Input/output error",
                                        "can't read: Input/output error",
                                        "can't remove: Input/output error"};
    write_segments(&rig.files);
    write_snapshot(3);
    write_file("spare-ready.tmp", "x", 1);
    fail_with = EIO;
    lq_file_calls.fsync = _i == 0 ? sync_or_fail : fsync;
    lq_file_calls.pread = _i == 1 ? read_or_fail : pread;
    lq_file_calls.unlinkat = _i == 2 ? remove_or_fail : unlinkat;
    for (fail_at = 1;; fail_at++) {
        enum lq_recovery_verdict verdict;
        struct lq_recovery *recovery;
        n_calls = 0;
        recovery = lq_datadir_recover(&dir, hash_secret, &verdict);
        lq_recovery_free(recovery);
        if (n_calls < fail_at) {
            ck_assert_ptr_nonnull(recovery);
            break;
        }
        ck_assert_ptr_null(recovery);
        says(dir.text, words[_i]);
    }
    ck_assert_int_gt(fail_at, _i == 2 ? 1 : 3); /* directory and two files at least */
}
END_TEST

START_TEST(an_interruption_is_no_failure)
{
    write_segments(&rig.files);
    fail_with = EINTR;
    fail_at = 1;
    lq_file_calls.fsync = sync_or_fail;
    (void)facts_of(LQ_RECOVERY_GOOD);
    ck_assert_int_gt(n_calls, 2);
    n_calls = 0;
    fail_at = 3;
    lq_file_calls.pread = read_or_fail; /* short, too */
    ck_assert_uint_eq(facts_of(LQ_RECOVERY_GOOD).last_index, LAST_INDEX);
    ck_assert_int_gt(n_calls, SEGMENT_BYTES / 1000);
}
END_TEST

static Suite *recover_suite(void)
{
    Suite *suite = suite_create("datadir_recover");
    TCase *tcase = tcase_create("datadir_recover");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, an_empty_directory_is_blank);
    tcase_add_test(tcase, all_is_found);
    tcase_add_test(tcase, segments_are_read_in_the_order_of_their_numbers);
    tcase_add_test(tcase, a_torn_end_is_told_and_left_out);
    tcase_add_loop_test(tcase, a_flipped_bit_is_refused, 0, 2);
    tcase_add_loop_test(tcase, a_missing_segment_is_refused, 0, 3);
    tcase_add_loop_test(tcase, an_odd_size_is_refused, 0, 4);
    tcase_add_loop_test(tcase, a_giant_file_is_not_read, 0, 2);
    tcase_add_loop_test(tcase, what_is_no_file_is_not_read, 0, 2);
    tcase_add_loop_test(tcase, names_that_no_node_gives_are_told, 0, 8);
    tcase_add_test(tcase, other_files_are_left_alone);
    tcase_add_test(tcase, unfinished_files_and_old_snapshots_go);
    tcase_add_test(tcase, looking_removes_and_syncs_nothing);
    tcase_add_test(tcase, a_snapshot_under_the_name_of_another_is_told);
    tcase_add_test(tcase, segments_of_another_cluster_are_refused);
    tcase_add_loop_test(tcase, every_failure_is_told, 0, 3);
    tcase_add_test(tcase, an_interruption_is_no_failure);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(recover_suite());
}
