/* A disk that fails, is full, or hangs: what is answered, and what is not. System calls are
 * replaced by ones that fail, or wait, as a test wants. */
#include "test_disk_rig.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- Calls that fail. The table is set before the threads start, these numbers at any time. */

static atomic_int fail_with; /* an errno value; 0: nothing fails */
static atomic_int n_left;    /* calls that succeed before that */
static atomic_int n_writes, n_syncs;
static atomic_ulong n_durable; /* journal writes that were made durable */

static bool fails(void)
{
    if (fail_with == EINTR && n_left-- % 2 == 0) {
        return false; /* every other call is interrupted */
    }
    if (fail_with == 0 || (fail_with != EINTR && n_left-- > 0)) {
        return false;
    }
    errno = fail_with;
    return true;
}

/* ---- Calls that wait: a gate in the journal's write. */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static bool is_shut, is_waiting;

static void pass_gate(void)
{
    (void)pthread_mutex_lock(&mutex);
    is_waiting = is_shut;
    (void)pthread_cond_broadcast(&moved);
    while (is_shut) {
        (void)pthread_cond_wait(&moved, &mutex);
    }
    is_waiting = false;
    (void)pthread_mutex_unlock(&mutex);
}

static void set_gate(bool shut)
{
    (void)pthread_mutex_lock(&mutex);
    is_shut = shut;
    (void)pthread_cond_broadcast(&moved);
    (void)pthread_mutex_unlock(&mutex);
}

static void await_waiting(void)
{
    (void)pthread_mutex_lock(&mutex);
    while (!is_waiting) {
        (void)pthread_cond_wait(&moved, &mutex);
    }
    (void)pthread_mutex_unlock(&mutex);
}

static bool fail_writes, fail_syncs, fail_dir_syncs, fail_durable, fail_renames, fail_removals,
    fail_reserving, fail_reads;

static ssize_t my_pwritev2(int fd, const struct iovec *pieces, int n, off_t offset, int flags)
{
    ssize_t result;
    pass_gate();
    if (fail_durable && fails()) {
        return -1;
    }
    ck_assert_int_eq(flags, RWF_DSYNC);
    result = pwritev2(fd, pieces, n, offset, flags);
    n_durable += result > 0;
    return result;
}

static ssize_t my_pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
    n_writes++;
    return fail_writes && fails() ? -1 : pwrite(fd, bytes, len, offset);
}

static ssize_t my_pread(int fd, void *bytes, size_t len, off_t offset)
{
    return fail_reads && fails() ? -1 : pread(fd, bytes, len, offset);
}

static int my_fsync(int fd)
{
    struct stat status;
    bool is_dir = fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
    n_syncs++;
    return (is_dir ? fail_dir_syncs : fail_syncs) && fails() ? -1 : fsync(fd);
}

static int my_fdatasync(int fd)
{
    n_syncs++;
    return fail_syncs && fails() ? -1 : fdatasync(fd);
}

static int my_fallocate(int fd, int mode, off_t offset, off_t len)
{
    return fail_reserving && fails() ? -1 : fallocate(fd, mode, offset, len);
}

static int my_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return fail_renames && fails() ? -1 : renameat(from_fd, from, to_fd, to);
}

static int my_unlinkat(int fd, const char *name, int flags)
{
    return fail_removals && fails() ? -1 : unlinkat(fd, name, flags);
}

static void set_up(void)
{
    lq_file_calls = (struct lq_file_calls){.pread = my_pread,
                                           .pwrite = my_pwrite,
                                           .pwritev2 = my_pwritev2,
                                           .fallocate = my_fallocate,
                                           .fsync = my_fsync,
                                           .fdatasync = my_fdatasync,
                                           .renameat = my_renameat,
                                           .unlinkat = my_unlinkat};
    disk_set_up();
}

/* From the `n`th call on, `which` fails with `error`. */
static void break_disk(bool *which, int n, int error)
{
    *which = true;
    n_left = n - 1;
    fail_with = error;
}

/* ---- The journal: any failure is the end. */

/* The disk with one segment in use and the next file ready, idle. */
static void write_one_and_wait(void)
{
    write_term(1);
    allocate();
    expect_answer(LQ_DISK_ALLOCATED);
}

START_TEST(a_journal_write_that_fails_is_the_end)
{
    static const int errors[] = {EIO, ENOSPC, EDQUOT, EFBIG};
    write_one_and_wait();
    break_disk(&fail_durable, 1, errors[_i]);
    put_term(2);
    ck_assert(lq_journal_finish(&journal, &last_write));
    submit_write();
    submit_write(); /* is not tried */
    expect_failure(strerror(errors[_i]));
    ck_assert_uint_eq(n_durable, 2); /* a header and a batch, before */
}
END_TEST

/* Header, rename, directory, seal. */
START_TEST(a_segment_that_fails_is_the_end)
{
    static const struct {
        bool *which;
        int n;
        const char *words;
    } steps[] = {{&fail_durable, 1, "spare-ready.tmp: can't write the header"},
                 {&fail_renames, 1, "segment-00000000000000000002: can't rename"},
                 {&fail_dir_syncs, 1, "segment-00000000000000000002: can't sync the directory"},
                 {&fail_durable, 2, "segment-00000000000000000001: can't seal"}};
    write_one_and_wait();
    break_disk(steps[_i].which, steps[_i].n, EIO);
    submit_segment();
    expect_failure(steps[_i].words);
}
END_TEST

START_TEST(a_removal_that_fails_is_the_end)
{
    write_one_and_wait();
    break_disk(_i == 0 ? &fail_removals : &fail_dir_syncs, 1, EIO);
    submit((struct lq_effect){.kind = LQ_EFFECT_DELETE, .number = 1});
    expect_failure("segment-00000000000000000001: can't");
}
END_TEST

START_TEST(a_missing_segment_is_the_end)
{
    put_term(1);
    last_write = (struct lq_journal_write){
        .number = 9, .offset = 512, .bytes = journal.header, .len = LQ_SECTOR};
    submit_write();
    expect_failure("No such file");
}
END_TEST

/* A kernel or file system that can't write and sync in one call. */
START_TEST(without_one_call_there_are_two)
{
    int before;
    write_one_and_wait();
    break_disk(&fail_durable, 1, _i == 0 ? EOPNOTSUPP : ENOSYS);
    before = n_syncs;
    write_term(2);
    ck_assert_int_gt(n_syncs, before);
    write_term(3);
    stop_disk();
    fail_with = 0;
    lq_recovery_free(recover_home(LQ_RECOVERY_GOOD));
}
END_TEST

START_TEST(an_interruption_is_no_failure)
{
    fail_writes = fail_syncs = fail_dir_syncs = fail_durable = fail_reserving = true;
    fail_with = EINTR;
    for (uint64_t term = 1; term <= 200; term++) {
        write_term(term);
    }
    ck_assert_uint_gt(journal.segment.number, 1);
    ck_assert_int_lt(n_left, -200);
}
END_TEST

/* ---- No room. */

START_TEST(no_room_for_a_segment_can_pass)
{
    static bool *const which[] = {&fail_reserving, &fail_writes, &fail_syncs, &fail_syncs};
    break_disk(which[_i], 1 + _i / 3, _i == 1 ? EDQUOT : ENOSPC);
    allocate();
    expect_answer(LQ_DISK_NO_ROOM);
    ck_assert(!exists("spare-making.tmp") && !exists("spare-ready.tmp"));
    allocate();
    expect_answer(LQ_DISK_NO_ROOM);
    fail_with = 0;
    write_term(1);
}
END_TEST

START_TEST(another_failure_to_allocate_is_the_end)
{
    static bool *const which[] = {&fail_reserving, &fail_writes, &fail_syncs, &fail_renames};
    break_disk(which[_i], 1, EIO);
    allocate();
    expect_failure("spare-making.tmp: can't make a file for the journal");
}
END_TEST

/* Made ahead, nobody waits for it: want of room is not told, but a failed sync is. */
START_TEST(a_file_that_is_made_ahead_may_find_no_room)
{
    allocate();
    expect_answer(LQ_DISK_ALLOCATED);
    break_disk(&fail_reserving, 1, _i == 0 ? ENOSPC : EIO);
    submit_segment();
    await();
    if (_i == 1) { /* the one lane or the other is first */
        if (answer.kind == LQ_DISK_SEGMENT_READY) {
            await();
        }
        is_failure("can't make a file");
        return;
    }
    ck_assert_int_eq(answer.kind, LQ_DISK_SEGMENT_READY);
    while (n_left >= 0) { /* until it was tried */
        (void)usleep(1000);
    }
    allocate();
    expect_answer(LQ_DISK_NO_ROOM);
    fail_with = 0;
    write_term(1);
}
END_TEST

START_TEST(no_room_for_a_snapshot_is_told_once)
{
    bool is_incoming = _i == 1;
    break_disk(&fail_writes, 2, ENOSPC);
    write_snapshot_at(5, is_incoming, 0, "one");
    write_snapshot_at(5, is_incoming, 3, "two");
    write_snapshot_at(5, is_incoming, 6, "three");
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_FINISH, 5, is_incoming));
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_LOAD, 5, is_incoming));
    expect_answer(LQ_DISK_SNAPSHOT_FAILED);
    ck_assert_int_eq(answer.is_incoming, is_incoming);
    expect_answer(LQ_DISK_SNAPSHOT_LOADED);
    ck_assert_uint_eq(answer.len, 0);
    ck_assert(!exists("snapshot-00000000000000000005-00000000000000000001.own.tmp"));
    ck_assert(!exists("snapshot-00000000000000000005-00000000000000000001.in.tmp"));
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_DROP, 5, is_incoming));
    fail_with = 0;
    write_snapshot_at(5, is_incoming, 0, "again");
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_FINISH, 5, is_incoming));
    expect_answer(LQ_DISK_SNAPSHOT_FINISHED);
    holds(snapshot_of(5, 1), "again");
}
END_TEST

/* Some file systems tell of it only when they sync, or need room for the name. */
START_TEST(no_room_to_finish_a_snapshot)
{
    write_snapshot_at(5, false, 0, "one");
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_LOAD, 5, false));
    expect_answer(LQ_DISK_SNAPSHOT_LOADED);
    break_disk(_i == 0 ? &fail_syncs : &fail_renames, 1, EDQUOT);
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_FINISH, 5, false));
    expect_answer(LQ_DISK_SNAPSHOT_FAILED);
    ck_assert(!exists(snapshot_of(5, 1)));
    ck_assert(!exists("snapshot-00000000000000000005-00000000000000000001.own.tmp"));
}
END_TEST

START_TEST(another_failure_of_a_snapshot_is_the_end)
{
    static bool *const which[] = {&fail_writes, &fail_syncs, &fail_renames, &fail_dir_syncs,
                                  &fail_removals};
    break_disk(which[_i], 1, EIO);
    write_snapshot_at(5, true, 0, "one");
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_FINISH, 5, true));
    if (_i == 4) {
        expect_answer(LQ_DISK_SNAPSHOT_FINISHED);
        submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_DELETE, 5, false));
    }
    expect_failure("snapshot-00000000000000000005-00000000000000000001");
}
END_TEST

START_TEST(what_can_not_be_read_is_told_as_nothing)
{
    struct lq_effect effect = snapshot_effect(LQ_EFFECT_SNAPSHOT_READ, 5, false);
    write_snapshot_at(5, false, 0, "one");
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_FINISH, 5, false));
    expect_answer(LQ_DISK_SNAPSHOT_FINISHED);
    break_disk(&fail_reads, 1, EIO);
    effect.len = 3;
    submit(effect);
    expect_answer(LQ_DISK_SNAPSHOT_READ);
    ck_assert_uint_eq(answer.len, 0);
}
END_TEST

/* ---- Lanes, and the end. */

START_TEST(lanes_do_not_wait_for_each_other)
{
    write_one_and_wait();
    set_gate(true);
    put_term(2);
    ck_assert(lq_journal_finish(&journal, &last_write));
    submit_write();
    await_waiting();
    write_snapshot_at(5, false, 0, "meanwhile");
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_FINISH, 5, false));
    expect_answer(LQ_DISK_SNAPSHOT_FINISHED);
    submit((struct lq_effect){.kind = LQ_EFFECT_DELETE, .number = 99});
    expect_answer(LQ_DISK_DELETED);
    allocate();
    expect_answer(LQ_DISK_ALLOCATED);
    ck_assert(!lq_disk_take(disk, &answer));
    set_gate(false);
    expect_answer(LQ_DISK_WRITTEN);
}
END_TEST

static void *open_gate(void *argument)
{
    (void)argument;
    await_waiting();
    (void)usleep(20000); /* lets stop come first, mostly; right either way */
    set_gate(false);
    return NULL;
}

/* What is in progress is waited for, what is behind it is dropped. */
START_TEST(stopping_waits_for_what_is_in_progress)
{
    pthread_t opener;
    struct lq_recovery *recovery;
    write_one_and_wait();
    set_gate(true);
    put_term(2);
    ck_assert(lq_journal_finish(&journal, &last_write));
    submit_write();
    for (int i = 0; i < 100; i++) {
        write_snapshot_at(5, false, 0, "a piece of a snapshot");
        submit((struct lq_effect){.kind = LQ_EFFECT_ALLOCATE, .len = 64 * SIZE});
    }
    await_waiting();
    ck_assert_int_eq(pthread_create(&opener, NULL, open_gate, NULL), 0);
    stop_disk();
    ck_assert_int_eq(pthread_join(opener, NULL), 0);
    recovery = recover_home(LQ_RECOVERY_GOOD);
    ck_assert_uint_eq(lq_recovery_facts(recovery).term, 2);
    lq_recovery_free(recovery);
}
END_TEST

/* What was done before the failure is still told, in its order. */
START_TEST(what_was_done_before_is_answered)
{
    write_one_and_wait();
    break_disk(&fail_removals, 1, EIO);
    put_term(2);
    ck_assert(lq_journal_finish(&journal, &last_write));
    submit_write();
    while (n_durable < 3) {
        (void)usleep(1000);
    }
    submit(snapshot_effect(LQ_EFFECT_SNAPSHOT_DELETE, 9, false));
    expect_answer(LQ_DISK_WRITTEN);
    expect_failure("can't remove");
}
END_TEST

static Suite *faults_suite(void)
{
    Suite *suite = suite_create("disk_faults");
    TCase *tcase = tcase_create("disk_faults");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, set_up, disk_tear_down);
    tcase_add_loop_test(tcase, a_journal_write_that_fails_is_the_end, 0, 4);
    tcase_add_loop_test(tcase, a_segment_that_fails_is_the_end, 0, 4);
    tcase_add_loop_test(tcase, a_removal_that_fails_is_the_end, 0, 2);
    tcase_add_test(tcase, a_missing_segment_is_the_end);
    tcase_add_loop_test(tcase, without_one_call_there_are_two, 0, 2);
    tcase_add_test(tcase, an_interruption_is_no_failure);
    tcase_add_loop_test(tcase, no_room_for_a_segment_can_pass, 0, 4);
    tcase_add_loop_test(tcase, another_failure_to_allocate_is_the_end, 0, 4);
    tcase_add_loop_test(tcase, a_file_that_is_made_ahead_may_find_no_room, 0, 2);
    tcase_add_loop_test(tcase, no_room_for_a_snapshot_is_told_once, 0, 2);
    tcase_add_loop_test(tcase, no_room_to_finish_a_snapshot, 0, 2);
    tcase_add_loop_test(tcase, another_failure_of_a_snapshot_is_the_end, 0, 5);
    tcase_add_test(tcase, what_can_not_be_read_is_told_as_nothing);
    tcase_add_test(tcase, lanes_do_not_wait_for_each_other);
    tcase_add_test(tcase, stopping_waits_for_what_is_in_progress);
    tcase_add_test(tcase, what_was_done_before_is_answered);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(faults_suite());
}
