/* What can't begin a new cluster is refused with a text that says why, and without any bytes. */
#include "lq_mem.h"
#include "test_rebirth_rig.h"

/* ---- Options. */

START_TEST(bad_options)
{
    static char long_address[LQ_ADDRESS_MAX + 2];
    const struct {
        uint64_t cluster;
        uint32_t node;
        const char *address, *why;
    } bad[] = {
        {0, NODE, "three:9", "an id that is not 0"},
        {CLUSTER, NODE, "three:9", "an id of its own: 00000000000000c1"},
        {NEW_CLUSTER, 0, "three:9", "an id that is not 0"},
        {NEW_CLUSTER, NODE, "", "an address"},
        {NEW_CLUSTER, NODE, "three 9", "an address"},
        {NEW_CLUSTER, NODE, long_address, "an address"},
    };
    memset(long_address, 'a', sizeof long_address - 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lq_rebirth_options options = usual_options();
        struct lq_rebirth rebirth;
        bool is_done;
        options.cluster = bad[i].cluster;
        options.node = bad[i].node;
        options.address = bad[i].address;
        check_not_recovered(&old.files, NULL, LQ_RECOVERY_GOOD, &options, bad[i].why);
        is_done = lq_rebirth_restore(backup.bytes, backup.len, &options, &rebirth);
        check_refused(is_done, &rebirth, bad[i].why);
    }
}
END_TEST

/* ---- Disks. */

START_TEST(blank_disks)
{
    struct lq_rebirth_options options = usual_options();
    struct files none = {0};
    struct rig fresh; /* started, but never part of a cluster */
    check_not_recovered(&none, NULL, LQ_RECOVERY_BLANK, &options, "blank");
    rig_init(&fresh, SEGMENT_BYTES, 1);
    rig_put_boot(&fresh, 1);
    rig_flush(&fresh);
    check_not_recovered(&fresh.files, NULL, LQ_RECOVERY_GOOD, &options, "never part of a cluster");
    rig_done(&fresh);
}
END_TEST

START_TEST(damaged_disks)
{
    struct lq_rebirth_options options = usual_options();
    struct files none = {0};
    check_not_recovered(&none, &backup, LQ_RECOVERY_CORRUPT, &options,
                        "damaged (there is a snapshot but no journal");
    old.files.bytes[0][3 * LQ_SECTOR + 40] ^= 1;
    check_not_recovered(&old.files, &backup, LQ_RECOVERY_CORRUPT, &options,
                        "damaged (journal segment 1, offset 1536");
}
END_TEST

START_TEST(other_disks)
{
    struct lq_rebirth_options options = usual_options();
    struct lq_buffer foreign = snapshot_at(4, 0xCC);
    check_not_recovered(&old.files, &foreign, LQ_RECOVERY_GOOD, &options, "another cluster");
    options.node = 1;
    check_not_recovered(&old.files, NULL, LQ_RECOVERY_GOOD, &options,
                        "this is the disk of node 3, not of node 1");
    lq_buffer_done(&foreign);
}
END_TEST

/* Checksums are right, yet no leader makes such an entry. */
START_TEST(senseless_entries)
{
    struct lq_rebirth_options options = usual_options();
    struct lq_buffer bytes;
    if (_i == 0) {
        begin_entry(&bytes, 4999); /* time goes back */
        add_opening(&bytes, (struct lq_origin_id){2, 1});
    } else {
        (void)make_entry(5, &bytes);
        bytes.len--;
    }
    put_bytes(&old, LAST_INDEX + 1, LQ_ENTRY_COMMANDS, &bytes);
    rig_flush(&old);
    check_not_recovered(&old.files, &backup, LQ_RECOVERY_GOOD, &options,
                        "log entry 7 makes no sense");
    lq_buffer_done(&bytes);
}
END_TEST

START_TEST(worn_counters)
{
    struct lq_rebirth_options options = usual_options();
    rig_put_boot(&old, UINT64_C(1) << 31);
    rig_flush(&old);
    check_not_recovered(&old.files, NULL, LQ_RECOVERY_GOOD, &options, "the boot counter of node 3");
    rig_put_boot(&old, UINT64_C(1) << 40);
    rig_put_term(&old, (UINT64_C(1) << 61) + 1, 0);
    rig_flush(&old);
    check_not_recovered(&old.files, NULL, LQ_RECOVERY_GOOD, &options, "index or term");
}
END_TEST

/* A node that does not vote may be behind all others: it is taken, and said. */
START_TEST(a_standby_is_pointed_out)
{
    struct lq_rebirth_options options = usual_options();
    struct lq_members members = {0};
    struct lq_buffer bytes = {0};
    struct lq_recovery *recovery;
    struct lq_rebirth rebirth;
    ck_assert(lq_members_add(&members, 1, "one:1", LQ_ROLE_VOTER));
    ck_assert(_i == 0 || lq_members_add(&members, NODE, "three:1", LQ_ROLE_STANDBY));
    lq_members_encode(&members, &bytes);
    put_bytes(&old, LAST_INDEX + 1, LQ_ENTRY_MEMBERS, &bytes);
    rig_flush(&old);
    recovery = read_disk(CLUSTER, &old.files, NULL, LQ_RECOVERY_GOOD);
    ck_assert(lq_rebirth_recover(recovery, &options, &rebirth));
    ck_assert_ptr_nonnull(strstr(rebirth.text, "no voter"));
    ck_assert_uint_eq(rebirth.dropped, _i == 0 ? 1 : 2); /* those of a removed node were gone */
    lq_recovery_free(recovery);
    lq_rebirth_done(&rebirth);
    lq_buffer_done(&bytes);
}
END_TEST

/* ---- Backups. */

static void check_not_restored(const uint8_t *bytes, size_t len, const char *why)
{
    struct lq_rebirth_options options = usual_options();
    struct lq_rebirth rebirth;
    uint8_t *copy = lq_malloc(len);
    bool is_done;
    memcpy(copy, bytes, len);
    is_done = lq_rebirth_restore(copy, len, &options, &rebirth);
    check_refused(is_done, &rebirth, why);
    lq_free(copy);
}

START_TEST(damaged_backups)
{
    check_not_restored(backup.bytes, 0, "the snapshot is not good");
    for (size_t len = 1; len < backup.len; len += 13) {
        check_not_restored(backup.bytes, len, "the snapshot is not good");
    }
    for (size_t at = 0; at < backup.len; at++) {
        backup.bytes[at] ^= 0x10;
        check_not_restored(backup.bytes, backup.len, "the snapshot is not good");
        backup.bytes[at] ^= 0x10;
    }
    check_not_restored(old.files.bytes[0], SEGMENT_BYTES, "no snapshot file");
}
END_TEST

/* A sound file around a state that is none. */
START_TEST(senseless_state)
{
    struct lq_snapfile_head head = {.cluster = CLUSTER, .index = 4, .term = 1};
    struct lq_buffer file = {0};
    struct lq_snapfile_writer *writer;
    uint64_t total, check;
    ck_assert(lq_members_add(&head.members, 1, "one:1", LQ_ROLE_VOTER));
    writer = lq_snapfile_begin(&head, &file);
    lq_snapfile_add(writer, (const uint8_t *)"nonsense", 8, &file);
    lq_snapfile_end(writer, &file, &total, &check);
    lq_snapfile_free(writer);
    check_not_restored(file.bytes, file.len, "its state makes no sense");
    lq_buffer_done(&file);
}
END_TEST

/* Sound files that no cluster writes: where they stand in the log, how far tokens may have come. */
static const struct {
    uint64_t index, term, token_raise;
    const char *why;
} impossible[] = {
    {0, 1, 0, "no state"},
    {1, 0, 0, "no state"},
    {UINT64_MAX, 1, 0, "index or term"},
    {1, UINT64_MAX, 0, "index or term"},
    {1, 1, UINT64_MAX / 2 - 1, "the last token"},
};

START_TEST(impossible_backups)
{
    struct lq_table *table = table_at(4);
    struct lq_snapfile_head head = {.cluster = CLUSTER,
                                    .index = impossible[_i].index,
                                    .term = impossible[_i].term,
                                    .members_index = 1};
    struct lq_buffer file;
    lq_table_reborn(table, impossible[_i].token_raise);
    file = file_of(head, table);
    check_not_restored(file.bytes, file.len, impossible[_i].why);
    lq_buffer_done(&file);
    lq_table_free(table);
}
END_TEST

/* ---- Replaying by itself. */

static size_t n_told;

static void on_command(void *context, const struct lq_stamp *stamp,
                       const struct lq_command *command, const struct lq_outcomes *outcomes)
{
    ck_assert_ptr_eq(context, &n_told);
    ck_assert_uint_eq(stamp->time_ms, 2000);
    ck_assert_uint_eq(command->type, LQ_COMMAND_ACQUIRE);
    ck_assert_uint_eq(outcomes->count, 1);
    ck_assert_uint_eq(outcomes->items[0].kind,
                      n_told == 0 ? LQ_OUTCOME_GRANTED : LQ_OUTCOME_QUEUED);
    n_told++;
}

START_TEST(entries_one_by_one)
{
    struct lq_table *table = table_at(3);
    struct lq_members none = {0};
    struct lq_replay replay;
    struct lq_buffer bytes;
    struct lq_log_entry entry = {.term = 1, .type = make_entry(4, &bytes)};
    lq_replay_init(&replay, table, &none, 0);
    replay.on_command = on_command;
    replay.context = &n_told;
    entry.bytes = bytes.bytes;
    entry.len = (uint32_t)bytes.len;
    entry.check = lq_journal_entry_check(4, 1, entry.type, bytes.bytes, bytes.len);
    ck_assert_int_eq(lq_replay_entry(&replay, 5, &entry), LQ_REPLAY_CHECKSUM);
    ck_assert_int_eq(lq_replay_entry(&replay, 4, &entry), LQ_REPLAY_OK);
    ck_assert_uint_eq(n_told, 2);
    entry.type = LQ_ENTRY_MEMBERS;
    entry.check = lq_journal_entry_check(5, 1, entry.type, bytes.bytes, bytes.len);
    ck_assert_int_eq(lq_replay_entry(&replay, 5, &entry), LQ_REPLAY_MEMBERS);
    entry.type = 4;
    entry.check = lq_journal_entry_check(5, 1, entry.type, bytes.bytes, bytes.len);
    ck_assert_int_eq(lq_replay_entry(&replay, 5, &entry), LQ_REPLAY_TYPE);
    for (int fault = LQ_REPLAY_OK; fault <= LQ_REPLAY_MEMBERS; fault++) {
        ck_assert_uint_gt(strlen(lq_replay_fault_text((enum lq_replay_fault)fault)), 5);
    }
    lq_replay_done(&replay);
    lq_table_free(table);
    lq_buffer_done(&bytes);
}
END_TEST

static Suite *rebirth_refused_suite(void)
{
    Suite *suite = suite_create("rebirth_refused");
    TCase *tcase = tcase_create("refused");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, bad_options);
    tcase_add_test(tcase, blank_disks);
    tcase_add_test(tcase, damaged_disks);
    tcase_add_test(tcase, other_disks);
    tcase_add_loop_test(tcase, senseless_entries, 0, 2);
    tcase_add_test(tcase, worn_counters);
    tcase_add_loop_test(tcase, a_standby_is_pointed_out, 0, 2);
    tcase_add_test(tcase, damaged_backups);
    tcase_add_test(tcase, senseless_state);
    tcase_add_loop_test(tcase, impossible_backups, 0,
                        (int)(sizeof impossible / sizeof *impossible));
    tcase_add_test(tcase, entries_one_by_one);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(rebirth_refused_suite());
}
