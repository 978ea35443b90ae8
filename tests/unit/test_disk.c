/* What a replica asks of its disk, and what stands there when it is answered. */
#include "test_disk_rig.h"

static void is_zero(const char *name, uint64_t from, uint64_t to)
{
    struct lq_buffer bytes = read_file(name);
    ck_assert_uint_ge(bytes.len, to);
    ck_assert(lq_journal_is_zero(bytes.bytes + from, to - from));
    lq_buffer_done(&bytes);
}

/* ---- Segments. */

START_TEST(an_allocated_file_is_filled_with_zeros)
{
    struct stat status;
    allocate();
    expect_answer(LQ_DISK_ALLOCATED);
    is_zero("spare-ready.tmp", 0, SIZE);
    ck_assert_int_eq(stat(path_of("spare-ready.tmp"), &status), 0);
    ck_assert_int_ge(status.st_blocks * 512, (long)SIZE); /* not sparse */
    ck_assert_uint_eq(status.st_mode & 0777, 0600);
}
END_TEST

START_TEST(it_becomes_a_segment_with_its_header)
{
    struct lq_buffer bytes;
    next_segment();
    bytes = read_file(segment_of(1));
    ck_assert_uint_eq(bytes.len, SIZE);
    ck_assert_mem_eq(bytes.bytes, journal.header, LQ_SECTOR);
    lq_buffer_done(&bytes);
    is_zero(segment_of(1), LQ_SECTOR, SIZE);
    ck_assert(!exists("spare-ready.tmp"));
}
END_TEST

START_TEST(the_one_before_is_sealed)
{
    struct lq_buffer bytes;
    next_segment();
    next_segment();
    bytes = read_file(segment_of(1));
    ck_assert_mem_eq(bytes.bytes + SIZE - LQ_SECTOR, journal.seal, LQ_SECTOR);
    lq_buffer_done(&bytes);
    is_zero(segment_of(2), LQ_SECTOR, SIZE);
}
END_TEST

START_TEST(a_batch_is_written_where_it_belongs)
{
    struct lq_buffer bytes;
    struct lq_disk_counters counters;
    write_term(1);
    bytes = read_file(segment_of(1));
    ck_assert_mem_eq(bytes.bytes + last_write.offset, last_write.bytes, last_write.len);
    lq_buffer_done(&bytes);
    counters = lq_disk_counters(disk);
    ck_assert_uint_eq(counters.writes, 1);
    ck_assert_uint_eq(counters.bytes, last_write.len);
    ck_assert_uint_ge(counters.longest_us, counters.last_us);
    ck_assert_uint_gt(counters.free_bytes, 0);
}
END_TEST

START_TEST(an_old_segment_is_removed)
{
    next_segment();
    next_segment();
    submit((struct lq_effect){.kind = LQ_EFFECT_DELETE, .number = 1});
    expect_answer(LQ_DISK_DELETED);
    ck_assert(!exists(segment_of(1)) && exists(segment_of(2)));
}
END_TEST

/* Another size is asked for than was made ahead: after a change of the configuration. */
START_TEST(a_file_of_another_size_is_made_anew)
{
    struct stat status;
    next_segment();
    submit((struct lq_effect){.kind = LQ_EFFECT_ALLOCATE, .len = 3 * SIZE});
    expect_answer(LQ_DISK_ALLOCATED);
    ck_assert_int_eq(stat(path_of("spare-ready.tmp"), &status), 0);
    ck_assert_int_eq(status.st_size, 3 * SIZE);
    is_zero("spare-ready.tmp", 0, 3 * SIZE);
}
END_TEST

/* A full round: what went through the disk is what the next start finds. */
START_TEST(a_thousand_batches_are_found_again)
{
    uint64_t term = 0;
    struct lq_recovery *recovery;
    while (term < 1000) {
        write_term(++term);
    }
    ck_assert_uint_gt(journal.segment.number, 5);
    stop_disk();
    recovery = recover_home(LQ_RECOVERY_GOOD);
    ck_assert_uint_eq(lq_recovery_facts(recovery).term, 1000);
    lq_recovery_free(recovery);
    ck_assert(!exists("spare-making.tmp") && !exists("spare-ready.tmp"));
}
END_TEST

START_TEST(a_resumed_journal_is_written_on)
{
    struct lq_recovery *recovery;
    write_term(1);
    stop_disk();
    start_disk();
    write_term(2); /* the segment is opened anew */
    stop_disk();
    recovery = recover_home(LQ_RECOVERY_GOOD);
    ck_assert_uint_eq(lq_recovery_facts(recovery).term, 2);
    lq_recovery_free(recovery);
}
END_TEST

/* The segment before is not the open one: nothing was written since the start. */
START_TEST(a_segment_of_an_earlier_life_is_sealed)
{
    struct lq_recovery *recovery;
    write_term(1);
    stop_disk();
    start_disk();
    next_segment();
    write_term(2);
    stop_disk();
    recovery = recover_home(LQ_RECOVERY_GOOD);
    ck_assert_uint_eq(lq_recovery_facts(recovery).term, 2);
    lq_recovery_free(recovery);
}
END_TEST

/* ---- Snapshots. */

START_TEST(a_snapshot_is_written_in_pieces)
{
    bool is_incoming = _i == 1;
    write_snapshot_at(5, is_incoming, 0, "first, ");
    write_snapshot_at(5, is_incoming, 7, "second");
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_FINISH, 5, is_incoming));
    expect_answer(LQ_DISK_SNAPSHOT_FINISHED);
    ck_assert_int_eq(answer.is_incoming, is_incoming);
    holds(snapshot_of(5, 1), "first, second");
    ck_assert(!exists("snapshot-00000000000000000005-00000000000000000001.own.tmp"));
    ck_assert(!exists("snapshot-00000000000000000005-00000000000000000001.in.tmp"));
}
END_TEST

START_TEST(offset_0_begins_it_anew)
{
    write_snapshot_at(5, false, 0, "a longer beginning");
    write_snapshot_at(5, false, 0, "short");
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_FINISH, 5, false));
    expect_answer(LQ_DISK_SNAPSHOT_FINISHED);
    holds(snapshot_of(5, 1), "short");
}
END_TEST

START_TEST(own_and_incoming_do_not_mix)
{
    write_snapshot_at(5, false, 0, "own");
    write_snapshot_at(5, true, 0, "incoming");
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_LOAD, 5, true));
    expect_answer(LQ_DISK_SNAPSHOT_LOADED);
    ck_assert_uint_eq(answer.len, 8);
    ck_assert_mem_eq(answer.bytes, "incoming", 8);
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_FINISH, 5, false));
    expect_answer(LQ_DISK_SNAPSHOT_FINISHED);
    holds(snapshot_of(5, 1), "own");
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_FINISH, 5, true));
    expect_answer(LQ_DISK_SNAPSHOT_FINISHED);
    holds(snapshot_of(5, 1), "incoming");
}
END_TEST

START_TEST(a_dropped_one_is_gone)
{
    write_snapshot_at(5, true, 0, "of no use");
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_DROP, 5, true));
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_LOAD, 5, true));
    expect_answer(LQ_DISK_SNAPSHOT_LOADED);
    ck_assert_uint_eq(answer.len, 0);
    ck_assert(!exists("snapshot-00000000000000000005-00000000000000000001.in.tmp"));
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_DROP, 6, true)); /* never begun */
    write_snapshot_at(7, true, 0, "next");
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_LOAD, 7, true));
    expect_answer(LQ_DISK_SNAPSHOT_LOADED);
    ck_assert_uint_eq(answer.len, 4);
}
END_TEST

START_TEST(one_that_another_took_the_place_of_is_removed)
{
    write_snapshot_at(5, true, 0, "left behind");
    write_snapshot_at(6, true, 0, "newer");
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_LOAD, 6, true));
    expect_answer(LQ_DISK_SNAPSHOT_LOADED);
    ck_assert(!exists("snapshot-00000000000000000005-00000000000000000001.in.tmp"));
}
END_TEST

static void expect_read(uint64_t index, uint64_t offset, size_t len, const char *text)
{
    struct lq_effect effect = snapshot_effect(LQ_EFFECT_SNAPSHOT_READ, index, false);
    effect.offset = offset;
    effect.len = len;
    submit(effect);
    expect_answer(LQ_DISK_SNAPSHOT_READ);
    ck_assert_uint_eq(answer.offset, offset);
    ck_assert_uint_eq(answer.len, strlen(text));
    ck_assert_mem_eq(answer.bytes, text, answer.len);
}

START_TEST(finished_ones_are_read_in_pieces)
{
    for (uint64_t index = 5; index <= 6; index++) {
        write_snapshot_at(index, false, 0, index == 5 ? "the fifth" : "the sixth");
        submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_FINISH, index, false));
        expect_answer(LQ_DISK_SNAPSHOT_FINISHED);
    }
    expect_read(5, 0, 3, "the");
    expect_read(6, 4, 100, "sixth");
    expect_read(5, 4, 100, "fifth");
    expect_read(5, 9, 100, "");
    expect_read(5, 1000, 100, "");
    expect_read(7, 0, 100, ""); /* there is none */
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_DELETE, 5, false));
    expect_read(5, 0, 100, "");
    ck_assert(!exists(snapshot_of(5, 1)) && exists(snapshot_of(6, 1)));
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_DELETE, 5, false)); /* twice does no harm */
    expect_read(6, 0, 3, "the");
}
END_TEST

/* A file that is replaced while it is read is not read on. */
START_TEST(a_replaced_one_is_read_anew)
{
    write_snapshot_at(5, false, 0, "old");
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_FINISH, 5, false));
    expect_answer(LQ_DISK_SNAPSHOT_FINISHED);
    expect_read(5, 0, 3, "old");
    write_snapshot_at(5, true, 0, "new");
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_FINISH, 5, true));
    expect_answer(LQ_DISK_SNAPSHOT_FINISHED);
    expect_read(5, 0, 3, "new");
}
END_TEST

static Suite *disk_suite(void)
{
    Suite *suite = suite_create("disk");
    TCase *tcase = tcase_create("disk");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, disk_set_up, disk_tear_down);
    tcase_add_test(tcase, an_allocated_file_is_filled_with_zeros);
    tcase_add_test(tcase, it_becomes_a_segment_with_its_header);
    tcase_add_test(tcase, the_one_before_is_sealed);
    tcase_add_test(tcase, a_batch_is_written_where_it_belongs);
    tcase_add_test(tcase, an_old_segment_is_removed);
    tcase_add_test(tcase, a_file_of_another_size_is_made_anew);
    tcase_add_test(tcase, a_thousand_batches_are_found_again);
    tcase_add_test(tcase, a_resumed_journal_is_written_on);
    tcase_add_test(tcase, a_segment_of_an_earlier_life_is_sealed);
    tcase_add_loop_test(tcase, a_snapshot_is_written_in_pieces, 0, 2);
    tcase_add_test(tcase, offset_0_begins_it_anew);
    tcase_add_test(tcase, own_and_incoming_do_not_mix);
    tcase_add_test(tcase, a_dropped_one_is_gone);
    tcase_add_test(tcase, one_that_another_took_the_place_of_is_removed);
    tcase_add_test(tcase, finished_ones_are_read_in_pieces);
    tcase_add_test(tcase, a_replaced_one_is_read_anew);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(disk_suite());
}
