/* Opening a data directory: who may, what is refused, and what the operator is told. */
#include "test_datadir_rig.h"

#include <signal.h>
#include <sys/wait.h>

static void set_up(void)
{
    root_init();
}

static void tear_down(void)
{
    root_done();
}

static void refuses(const char *words)
{
    ck_assert(!lq_datadir_open(&dir, home));
    says(dir.text, words);
    ck_assert_int_eq(dir.fd, -1);
    ck_assert_int_eq(dir.lock_fd, -1);
}

START_TEST(a_new_directory_is_made_for_its_owner_alone)
{
    struct stat status;
    open_home();
    ck_assert(!dir.has_identity);
    ck_assert_str_eq(dir.text, "");
    ck_assert_int_eq(stat(home, &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0700);
    lq_datadir_close(&dir);
}
END_TEST

START_TEST(an_identity_stays)
{
    struct lq_buffer text;
    make_home();
    ck_assert(dir.has_identity);
    lq_datadir_close(&dir);
    open_home();
    ck_assert(dir.has_identity);
    ck_assert_uint_eq(dir.cluster, CLUSTER);
    ck_assert_uint_eq(dir.node, NODE);
    ck_assert(!exists("identity.tmp"));
    text = read_file("identity");
    lq_buffer_add(&text, "", 1);
    ck_assert_str_eq((const char *)text.bytes, "loquet-data 1\ncluster 00000000000000c1\nnode 3\n");
    lq_buffer_done(&text);
    lq_datadir_close(&dir);
}
END_TEST

static const char *const bad_identities[] = {
    "",
    "loquet-data 1\n",
    "loquet-data 1\ncluster 00000000000000c1\nnode 3",
    "loquet-data 1\ncluster 00000000000000c1\nnode 3\n\n",
    "loquet-data 1\ncluster 00000000000000C1\nnode 3\n",
    "loquet-data 1\ncluster c1\nnode 3\n",
    "loquet-data 1\ncluster 0000000000000000\nnode 3\n",
    "loquet-data 1\ncluster 00000000000000c1\nnode 0\n",
    "loquet-data 1\ncluster 00000000000000c1\nnode +3\n",
    "loquet-data 1\ncluster 00000000000000c1\nnode 4294967299\n",
    "loquet-data 1\ncluster 00000000000000c1\nnode -3\n",
    "loquet-data 01\ncluster 00000000000000c1\nnode 3\n",
    "loquet-data 0\ncluster 00000000000000c1\nnode 3\n",
    "loquet-data -1\ncluster 00000000000000c1\nnode 3\n",
    "loquet-data 1\nnode 3\ncluster 00000000000000c1\n",
    "loquet-data 1\r\ncluster 00000000000000c1\r\nnode 3\r\n",
    "something else\n",
};

START_TEST(a_damaged_identity_is_refused)
{
    ck_assert_int_eq(mkdir(home, 0700), 0);
    write_file("identity", bad_identities[_i], strlen(bad_identities[_i]));
    refuses("identity: is damaged");
    write_file("identity", "loquet-data 1\ncluster 00000000000000c1\nnode 3\n\0", 47);
    refuses("identity: is damaged");
    ck_assert(!exists("lock"));
}
END_TEST

START_TEST(a_newer_layout_is_refused)
{
    static const char text[] = "loquet-data 2\nwhatever it says\n";
    ck_assert_int_eq(mkdir(home, 0700), 0);
    write_file("identity", text, sizeof text - 1);
    refuses("layout version 2");
    ck_assert(!lq_datadir_open_read_only(&dir, home));
    says(dir.text, "newer version of Loquet");
}
END_TEST

START_TEST(what_a_start_left_is_no_obstacle)
{
    ck_assert_int_eq(mkdir(home, 0700), 0);
    write_file("lock", "", 0);
    write_file("identity.tmp", "loquet", 6);
    ck_assert_int_eq(mkdir(path_of("lost+found"), 0700), 0);
    open_home();
    ck_assert(!dir.has_identity);
    lq_datadir_close(&dir);
}
END_TEST

START_TEST(a_directory_of_something_else_is_refused)
{
    static const char *const names[] = {"passwd", "notes.tmp", "identity.old", "lock2"};
    ck_assert_int_eq(mkdir(home, 0700), 0);
    write_file(names[_i], "x", 1);
    refuses("is it the right path");
    says(dir.text, names[_i]);
    ck_assert(!exists("lock"));
}
END_TEST

START_TEST(files_of_a_node_without_identity_are_refused)
{
    ck_assert_int_eq(mkdir(home, 0700), 0);
    write_file(_i == 0 ? segment_of(1) : snapshot_of(5, 1), "x", 1);
    refuses("identity is missing");
}
END_TEST

START_TEST(a_path_that_is_none_is_refused)
{
    char path[400];
    ck_assert(!lq_datadir_open(&dir, ""));
    says(dir.text, "1 to 255 bytes");
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    ck_assert(!lq_datadir_open(&dir, path));
    says(dir.text, "1 to 255 bytes");
    (void)snprintf(path, sizeof path, "%s/no/such", root);
    ck_assert(!lq_datadir_open(&dir, path));
    says(dir.text, "no/such: can't make the data directory");
    says(dir.text, "directory above it");
    (void)snprintf(path, sizeof path, "%s/file", root);
    ck_assert_int_eq(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    ck_assert(!lq_datadir_open(&dir, path));
    says(dir.text, "Not a directory");
}
END_TEST

START_TEST(looking_changes_nothing)
{
    ck_assert(!lq_datadir_open_read_only(&dir, home));
    says(dir.text, "can't open");
    ck_assert_int_ne(access(home, F_OK), 0);
    ck_assert_int_eq(mkdir(home, 0700), 0);
    ck_assert(lq_datadir_open_read_only(&dir, home));
    ck_assert(!exists("lock"));
    ck_assert_int_eq(dir.lock_fd, -1);
    lq_datadir_close(&dir);
}
END_TEST

/* ---- Two processes. */

/* A child that holds the directory; `ret_fd` ends it when closed. */
static pid_t hold(int *ret_fd)
{
    int up[2], down[2];
    char byte;
    pid_t pid;
    ck_assert_int_eq(pipe(up), 0);
    ck_assert_int_eq(pipe(down), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)close(down[1]);
        byte = lq_datadir_open(&dir, home) ? 'y' : 'n';
        _exit(write(up[1], &byte, 1) == 1 && read(down[0], &byte, 1) == 0 ? 0 : 1);
    }
    (void)close(up[1]);
    (void)close(down[0]);
    ck_assert_int_eq(read(up[0], &byte, 1), 1);
    ck_assert_int_eq(byte, 'y');
    (void)close(up[0]);
    *ret_fd = down[1];
    return pid;
}

START_TEST(a_directory_belongs_to_one_process)
{
    char words[64];
    int fd;
    pid_t pid = hold(&fd);
    (void)snprintf(words, sizeof words, "is used by process %ld;", (long)pid);
    refuses(words);
    ck_assert(lq_datadir_open_read_only(&dir, home));
    lq_datadir_close(&dir);
    write_file("lock", "nonsense", 8);
    refuses("is used by another process;");
    (void)close(fd);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    open_home();
    lq_datadir_close(&dir);
}
END_TEST

START_TEST(a_process_that_was_killed_holds_nothing)
{
    int fd;
    pid_t pid = hold(&fd);
    refuses("is used by");
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    open_home();
    lq_datadir_close(&dir);
    (void)close(fd);
}
END_TEST

/* ---- A disk that fails. */

static int failing_sync(int fd)
{
    (void)fd;
    errno = EIO;
    return -1;
}

START_TEST(an_identity_that_is_not_durable_is_none)
{
    open_home();
    lq_file_calls.fsync = failing_sync;
    ck_assert(!lq_datadir_identify(&dir, CLUSTER, NODE));
    says(dir.text, "identity: can't write: Input/output error");
    ck_assert(!dir.has_identity);
    ck_assert(!exists("identity"));
    lq_datadir_close(&dir);
}
END_TEST

/* A start may have made the directory and ended before it was durable: the next one sees to that,
 * as long as there is no identity. */
START_TEST(a_directory_is_durable_before_it_has_an_identity)
{
    open_home();
    lq_datadir_close(&dir);
    lq_file_calls.fsync = failing_sync;
    refuses("..: can't sync: Input/output error");
    lq_file_calls.fsync = fsync;
    open_home();
    ck_assert(lq_datadir_identify(&dir, CLUSTER, NODE));
    lq_datadir_close(&dir);
    lq_file_calls.fsync = failing_sync;
    open_home();
    lq_datadir_close(&dir);
}
END_TEST

static Suite *datadir_suite(void)
{
    Suite *suite = suite_create("datadir");
    TCase *tcase = tcase_create("datadir");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_new_directory_is_made_for_its_owner_alone);
    tcase_add_test(tcase, an_identity_stays);
    tcase_add_loop_test(tcase, a_damaged_identity_is_refused, 0,
                        sizeof bad_identities / sizeof bad_identities[0]);
    tcase_add_test(tcase, a_newer_layout_is_refused);
    tcase_add_test(tcase, what_a_start_left_is_no_obstacle);
    tcase_add_loop_test(tcase, a_directory_of_something_else_is_refused, 0, 4);
    tcase_add_loop_test(tcase, files_of_a_node_without_identity_are_refused, 0, 2);
    tcase_add_test(tcase, a_path_that_is_none_is_refused);
    tcase_add_test(tcase, looking_changes_nothing);
    tcase_add_test(tcase, a_directory_belongs_to_one_process);
    tcase_add_test(tcase, a_process_that_was_killed_holds_nothing);
    tcase_add_test(tcase, an_identity_that_is_not_durable_is_none);
    tcase_add_test(tcase, a_directory_is_durable_before_it_has_an_identity);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(datadir_suite());
}
