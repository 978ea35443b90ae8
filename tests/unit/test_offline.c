/* What is done with a data directory while no node runs: looking at it, and a new cluster out of
 * it. */
#include "lq_offline.h"
#include "test_datadir_rig.h"
#include "test_rebirth_rig.h"

#include <jansson.h>
#include <sys/file.h>

static struct rig rig;
static char *said; /* what the last operation printed */
static size_t said_len;
static char new_home[PATH_LEN], backup_path[PATH_LEN];

static void write_snapshot(const char *name, uint64_t index)
{
    struct lq_buffer file = snapshot_at(index, CLUSTER);
    write_file(name, file.bytes, file.len);
    lq_buffer_done(&file);
}

/* The old node's directory, closed, with a snapshot inside the log. */
static void set_up(void)
{
    root_init();
    (void)snprintf(new_home, sizeof new_home, "%s/new", root);
    (void)snprintf(backup_path, sizeof backup_path, "%s/data/backup", root);
    make_home();
    old_disk_init(&rig);
    write_segments(&rig.files);
    write_snapshot(snapshot_of(3, 1), 3);
    lq_datadir_close(&dir);
}

static void tear_down(void)
{
    rig_done(&rig);
    free(said);
    said = NULL;
    root_done();
}

static FILE *begin_saying(void)
{
    FILE *out;
    free(said);
    out = open_memstream(&said, &said_len);
    ck_assert_ptr_nonnull(out);
    return out;
}

static int inspect(bool as_json)
{
    FILE *out = begin_saying();
    int status = lq_offline_inspect(home, as_json, out);
    ck_assert_int_eq(fclose(out), 0);
    return status;
}

static struct lq_offline_options options_of(const char *from)
{
    return (struct lq_offline_options){.from = from,
                                       .to = new_home,
                                       .node = NODE,
                                       .address = "three.example:7000",
                                       .segment_bytes = SEGMENT_BYTES};
}

static int do_it(int (*operation)(const struct lq_offline_options *, FILE *),
                 struct lq_offline_options options)
{
    FILE *out = begin_saying();
    int status = operation(&options, out);
    ck_assert_int_eq(fclose(out), 0);
    return status;
}

/* How many entries the directory above both has: nothing half-made is left in it. */
static int n_directories(void)
{
    DIR *stream = opendir(root);
    const struct dirent *entry;
    int n = 0;
    while ((entry = readdir(stream)) != NULL) {
        n += entry->d_name[0] != '.';
    }
    (void)closedir(stream);
    return n;
}

/* ---- Looking. */

START_TEST(all_is_told_as_text)
{
    static const char *const lines[] = {
        "cluster: 00000000000000c1\n",
        "node: 3\n",
        "verdict: good\n",
        "text: \n",
        "term: 4\n",
        "vote: 2\n",
        "boot: 5\n",
        "first_index: 1\n",
        "last_index: 6\n",
        "last_term: 2\n",
        "snapshot: index 3, term 1, bytes ",
        "segment: number 1, bytes 65536\n",
        "member: node 1, address one:1, role voter\n",
        "member: node 3, address three:1, role voter\n",
        "held_keys: 2\n",
        "waiters: 2\n",
        "last_token: 2\n",
        "table_ms: 5000\n",
    };
    ck_assert_int_eq(inspect(false), 0);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        says(said, lines[i]);
    }
    says(said, ", state good\n");
}
END_TEST

START_TEST(all_is_told_as_json)
{
    json_t *object, *member;
    ck_assert_int_eq(inspect(true), 0);
    object = json_loads(said, 0, NULL);
    ck_assert_ptr_nonnull(object);
    ck_assert_str_eq(json_string_value(json_object_get(object, "cluster")), "00000000000000c1");
    ck_assert_int_eq(json_integer_value(json_object_get(object, "term")), SEEN_TERM);
    ck_assert_int_eq(json_integer_value(json_object_get(object, "held_keys")), 2);
    ck_assert_uint_eq(json_array_size(json_object_get(object, "members")), 2);
    member = json_array_get(json_object_get(object, "snapshots"), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(member, "index")), 3);
    ck_assert_str_eq(json_string_value(json_object_get(member, "state")), "good");
    json_decref(object);
}
END_TEST

START_TEST(a_blank_directory_is_looked_at)
{
    remove_tree(home);
    ck_assert_int_eq(mkdir(home, 0700), 0);
    ck_assert_int_eq(inspect(false), 0);
    says(said, "verdict: blank\n");
    says(said, "held_keys: 0\n");
    ck_assert(!exists("lock"));
}
END_TEST

START_TEST(what_can_not_be_looked_at_is_1)
{
    remove_tree(home);
    ck_assert_int_eq(inspect(_i == 1), 1);
    says(said, "error");
    says(said, "No such file");
}
END_TEST

START_TEST(damage_is_2)
{
    static const char *const words[] = {"verdict: corrupt\n", "state a checksum is wrong",
                                        "it is another snapshot than its name says"};
    if (_i == 0) {
        flip(segment_of(1), 2 * LQ_SECTOR + 9);
    } else if (_i == 1) {
        write_snapshot(snapshot_of(4, 1), 4);
        flip(snapshot_of(4, 1), 200);
    } else {
        write_snapshot(snapshot_of(2, 1), 3); /* older: nobody has read it so far */
    }
    ck_assert_int_eq(inspect(false), 2);
    says(said, words[_i]);
    ck_assert_int_eq(strstr(said, "last_index") == NULL, _i == 0); /* void, once it is corrupt */
}
END_TEST

START_TEST(a_torn_end_may_be_a_running_node)
{
    static const uint8_t zeros[LQ_SECTOR];
    struct lq_journal_write last;
    rig_put_entry(&rig, LAST_INDEX + 1, 2000);
    last = rig_finish(&rig);
    files_write(&rig.files, &last);
    write_segments(&rig.files);
    patch(segment_of(1), last.offset + LQ_SECTOR, zeros, sizeof zeros);
    ck_assert_int_eq(inspect(false), 0);
    says(said, "verdict: torn\n");
    says(said, "if a node runs on this directory");
}
END_TEST

/* ---- A new cluster. */

static void check_new_home(uint32_t node)
{
    struct lq_datadir fresh;
    struct lq_recovery *recovery;
    enum lq_recovery_verdict verdict;
    struct lq_recovery_facts facts;
    if (!lq_datadir_open(&fresh, new_home)) {
        ck_abort_msg("%s", fresh.text);
    }
    ck_assert_uint_eq(fresh.node, node);
    ck_assert_uint_ne(fresh.cluster, CLUSTER);
    recovery = lq_datadir_recover(&fresh, hash_secret, &verdict);
    ck_assert_ptr_nonnull(recovery);
    ck_assert_int_eq(verdict, LQ_RECOVERY_GOOD);
    facts = lq_recovery_facts(recovery);
    ck_assert_uint_eq(facts.members.n, 1);
    ck_assert_uint_eq(facts.members.items[0].node, node);
    ck_assert_str_eq(facts.members.items[0].address, "three.example:7000");
    lq_recovery_free(recovery);
    lq_datadir_close(&fresh);
    ck_assert_int_eq(n_directories(), 2);
}

START_TEST(a_survivor_is_recovered)
{
    struct lq_buffer before = read_file(segment_of(1)), after;
    if (_i == 1) { /* an empty directory, and a slash too many */
        ck_assert_int_eq(mkdir(new_home, 0700), 0);
        (void)snprintf(new_home, sizeof new_home, "%s/new/", root);
    }
    if (do_it(lq_offline_recover, options_of(home)) != 0) {
        ck_abort_msg("%s", said);
    }
    says(said, "up to log index 6 of term 2");
    says(said, "wait 258 s");
    says(said, "here term 2, index 6");
    says(said, "Empty the data directories of the other nodes");
    check_new_home(NODE);
    after = read_file(segment_of(1));
    ck_assert_uint_eq(after.len, before.len);
    ck_assert_mem_eq(after.bytes, before.bytes, after.len);
    lq_buffer_done(&before);
    lq_buffer_done(&after);
}
END_TEST

START_TEST(a_backup_is_restored)
{
    struct lq_offline_options options = options_of(backup_path);
    write_snapshot("backup", 5);
    options.node = 9;
    if (do_it(lq_offline_restore, options) != 0) {
        ck_abort_msg("%s", said);
    }
    says(said, "up to log index 5 of term 1");
    says(said, "wait 258 s");
    check_new_home(9);
}
END_TEST

START_TEST(the_new_cluster_can_be_looked_at)
{
    ck_assert_int_eq(do_it(lq_offline_recover, options_of(home)), 0);
    (void)snprintf(home, sizeof home, "%s", new_home);
    ck_assert_int_eq(inspect(false), 0);
    says(said, "held_keys: 2\n");
    says(said, "waiters: 0\n");
    says(said, "member: node 3, address three.example:7000, role voter\n");
}
END_TEST

static void refuses(int status, const char *words)
{
    ck_assert_int_eq(status, 1);
    says(said, words);
    ck_assert_int_eq(n_directories(), access(new_home, F_OK) == 0 ? 2 : 1);
}

START_TEST(bad_options_are_refused)
{
    struct lq_offline_options options = options_of(home);
    static const char *const words[] = {"id that is not 0", "HOST:PORT", "HOST:PORT",
                                        "multiple of 512", "not of node 2"};
    options.node = _i == 0 ? 0 : _i == 4 ? 2 : NODE;
    options.address = _i == 1 ? "nowhere" : _i == 2 ? NULL : options.address;
    options.segment_bytes = _i == 3 ? 5000 : SEGMENT_BYTES;
    refuses(do_it(lq_offline_recover, options), words[_i]);
    if (_i < 4) {
        write_snapshot("backup", 5);
        options.from = backup_path;
        refuses(do_it(lq_offline_restore, options), words[_i]);
    }
}
END_TEST

START_TEST(a_target_that_is_in_use_is_refused)
{
    char path[PATH_LEN + 8];
    (void)snprintf(path, sizeof path, "%s", new_home);
    if (_i == 1) {
        ck_assert_int_eq(mkdir(new_home, 0700), 0);
        (void)snprintf(path, sizeof path, "%s/x", new_home);
    }
    ck_assert_int_eq(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    refuses(do_it(lq_offline_recover, options_of(home)), "is there already");
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

START_TEST(a_target_that_can_not_be_made_is_refused)
{
    static char long_path[400];
    struct lq_offline_options options = options_of(home);
    memset(long_path, 'x', sizeof long_path - 1);
    options.to = _i == 0 ? "" : _i == 1 ? long_path : "/no/such/place";
    refuses(do_it(lq_offline_recover, options), _i < 2 ? "1 to 248 bytes" : "No such file");
}
END_TEST

START_TEST(a_running_node_is_not_recovered)
{
    int fd = open(path_of("lock"), O_RDONLY);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    refuses(do_it(lq_offline_recover, options_of(home)), "is used by");
    (void)close(fd);
    ck_assert_int_eq(unlink(path_of("lock")), 0); /* a copy may lack it */
    ck_assert_int_eq(do_it(lq_offline_recover, options_of(home)), 0);
    ck_assert(!exists("lock"));
}
END_TEST

START_TEST(damage_is_not_recovered)
{
    flip(segment_of(1), 2 * LQ_SECTOR + 9);
    refuses(do_it(lq_offline_recover, options_of(home)), "Take another survivor");
    write_snapshot("backup", 5);
    flip("backup", 100);
    refuses(do_it(lq_offline_restore, options_of(backup_path)), "the snapshot is not good");
    ck_assert_int_eq(unlink(path_of("backup")), 0);
    refuses(do_it(lq_offline_restore, options_of(backup_path)), "No such file");
    refuses(do_it(lq_offline_restore, options_of(home)), "Invalid argument");
}
END_TEST

/* ---- A disk that fails while the new directory is written. */

static int n_left;

static int sync_or_fail(int fd)
{
    errno = EIO;
    return n_left-- > 0 ? fsync(fd) : -1;
}

START_TEST(half_an_operation_is_none)
{
    int n = 0;
    lq_file_calls.fsync = sync_or_fail;
    for (;; n++) {
        n_left = n;
        if (do_it(lq_offline_recover, options_of(home)) == 0) {
            break;
        }
        says(said, "Input/output error");
        ck_assert_int_le(n, 7);
        ck_assert_int_eq(n_directories(), 1);
    }
    ck_assert_int_eq(
        n, 7); /* the one above; identity, directory; snapshot, segment, directory; the one above */
    lq_file_calls.fsync = fsync;
    check_new_home(NODE);
}
END_TEST

static Suite *offline_suite(void)
{
    Suite *suite = suite_create("offline");
    TCase *tcase = tcase_create("offline");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, all_is_told_as_text);
    tcase_add_test(tcase, all_is_told_as_json);
    tcase_add_test(tcase, a_blank_directory_is_looked_at);
    tcase_add_loop_test(tcase, what_can_not_be_looked_at_is_1, 0, 2);
    tcase_add_loop_test(tcase, damage_is_2, 0, 3);
    tcase_add_test(tcase, a_torn_end_may_be_a_running_node);
    tcase_add_loop_test(tcase, a_survivor_is_recovered, 0, 2);
    tcase_add_test(tcase, a_backup_is_restored);
    tcase_add_test(tcase, the_new_cluster_can_be_looked_at);
    tcase_add_loop_test(tcase, bad_options_are_refused, 0, 5);
    tcase_add_loop_test(tcase, a_target_that_is_in_use_is_refused, 0, 2);
    tcase_add_loop_test(tcase, a_target_that_can_not_be_made_is_refused, 0, 3);
    tcase_add_test(tcase, a_running_node_is_not_recovered);
    tcase_add_test(tcase, damage_is_not_recovered);
    tcase_add_test(tcase, half_an_operation_is_none);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(offline_suite());
}
