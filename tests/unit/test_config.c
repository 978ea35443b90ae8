/* Options of loquetd that only make sense together; the reading of each alone is tested from
 * outside (tests/integration/test_options.py). */
#include "lq_config.h"
#include "lq_test.h"

#include <stdio.h>
#include <string.h>

static struct lq_config config;
static struct lq_config_error error;

#define MEMBERS "--initial-cluster=1=10.0.0.1:7312,2=[::1]:7312,3=node-3.example:7312"

#define FLAGS_MAX 16

/* Reads flags, up to NULL. */
static bool read_flags(const char *const flags[])
{
    static char texts[FLAGS_MAX][256];
    char *argv[FLAGS_MAX + 1] = {texts[0]};
    int argc = 1;
    for (; flags[argc - 1] != NULL; argc++) {
        ck_assert_int_lt(argc, FLAGS_MAX);
        argv[argc] = texts[argc];
        (void)snprintf(argv[argc], sizeof texts[argc], "%s", flags[argc - 1]);
    }
    error.text[0] = '\0';
    return lq_config_read(&config, argc, argv, NULL, &error);
}

#define FLAGS(...)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static void refuses(const char *const flags[], const char *about)
{
    ck_assert_msg(!read_flags(flags), "accepted, but: %s", about);
    ck_assert_msg(strstr(error.text, about) != NULL, "\"%s\" does not say \"%s\"", error.text,
                  about);
}

START_TEST(a_node_that_founds_a_cluster)
{
    ck_assert_msg(read_flags(FLAGS("--node-id=2", "--data-dir=d", "--peer=[::1]:7312",
                                   "--bootstrap", MEMBERS)),
                  "%s", error.text);
    ck_assert_uint_eq(config.node_id, 2);
    ck_assert_uint_eq(config.first_members.n, 3);
    ck_assert_str_eq(config.first_members.items[2].address, "node-3.example:7312");
    ck_assert_uint_eq(config.first_members.items[2].role, LQ_ROLE_VOTER);
    ck_assert_uint_ne(lq_config_founded_id(&config), 0);
}
END_TEST

static uint64_t id_of(const char *members, const char *name)
{
    static char list[256], called[64];
    (void)snprintf(list, sizeof list, "--initial-cluster=%s", members);
    (void)snprintf(called, sizeof called, "--cluster-name=%s", name);
    ck_assert_msg(
        read_flags(FLAGS("--node-id=1", "--data-dir=d", "--peer=a:1", "--bootstrap", list, called)),
        "%s", error.text);
    return lq_config_founded_id(&config);
}

START_TEST(the_id_of_a_new_cluster)
{
    uint64_t id = id_of("1=a:1,2=b:2,3=c:3", "x");
    ck_assert_uint_eq(id_of("3=c:3,1=a:1,2=b:2", "x"), id); /* in any order */
    ck_assert_uint_ne(id_of("1=a:1,2=b:2,3=c:4", "x"), id);
    ck_assert_uint_ne(id_of("1=a:1,2=b:2,4=c:3", "x"), id);
    ck_assert_uint_ne(id_of("1=a:1,2=b:2", "x"), id);
    ck_assert_uint_ne(id_of("1=a:1,2=b:2,3=c:3", "y"), id);
}
END_TEST

START_TEST(a_node_that_joins)
{
    ck_assert_msg(read_flags(FLAGS("--node-id=4", "--data-dir=d", "--peer=a:1",
                                   "--cluster-id=00ff00000000aB01")),
                  "%s", error.text);
    ck_assert_uint_eq(lq_config_cluster_id(&config), UINT64_C(0x00ff00000000ab01));
    refuses(FLAGS("--cluster-id=0000000000000000"), "--cluster-id");
    refuses(FLAGS("--cluster-id=ff"), "--cluster-id");
}
END_TEST

START_TEST(modes_are_not_mixed)
{
    ck_assert(read_flags(FLAGS("--quarantine=3")));
    refuses(FLAGS("--data-dir=d"), "--node-id 1");
    refuses(FLAGS("--bootstrap"), "--node-id 1");
    refuses(FLAGS("--node-id=1", "--data-dir=d", "--peer=a:1", "--quarantine=3"), "--quarantine");
}
END_TEST

START_TEST(what_a_node_needs)
{
    refuses(FLAGS("--node-id=1", "--peer=a:1"), "--data-dir");
    refuses(FLAGS("--node-id=1", "--data-dir=d"), "--peer");
    refuses(FLAGS("--node-id=1", "--data-dir=d", "--peer=a:0"), "--peer");
    refuses(FLAGS("--node-id=1", "--data-dir=d", "--peer=0.0.0.0:7312"), "--peer-listen");
    refuses(FLAGS("--node-id=1", "--data-dir=d", "--peer=[::]:7312"), "--peer-listen");
    refuses(FLAGS("--node-id=1", "--data-dir=d", "--peer=a:1", "--bootstrap"), "--initial-cluster");
}
END_TEST

START_TEST(first_members_that_make_no_sense)
{
    static const char *const lists[] = {"1",      "1=",          "1=a",         "=a:1",
                                        "0=a:1",  "1=a:0",       "1=a:1;2=b:1", "x=a:1",
                                        "-1=a:1", "1=a:1,1=b:1", "1=a:1,2=a:1", "4294967296=a:1",
                                        ",1=a:1", "1=a:1,,2=b:1"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char list[64];
        (void)snprintf(list, sizeof list, "--initial-cluster=%s", lists[i]);
        refuses(FLAGS("--node-id=1", "--data-dir=d", "--peer=a:1", "--bootstrap", list),
                "--initial-cluster");
    }
    refuses(FLAGS("--node-id=4", "--data-dir=d", "--peer=a:1", "--bootstrap", MEMBERS), "node 4");
    refuses(FLAGS("--node-id=1", "--data-dir=d", "--peer=a:1", "--bootstrap", MEMBERS), "--peer");
}
END_TEST

START_TEST(timings_that_would_not_work)
{
    refuses(FLAGS("--node-id=1", "--data-dir=d", "--peer=a:1", "--election-ms=100"),
            "--election-ms");
    refuses(FLAGS("--node-id=1", "--data-dir=d", "--peer=a:1", "--origin-timeout-ms=400"),
            "--origin-timeout-ms");
    refuses(FLAGS("--node-id=1", "--data-dir=d", "--peer=a:1", "--segment-bytes=5000"),
            "--segment-bytes");
}
END_TEST

START_TEST(offline_work)
{
    ck_assert_msg(read_flags(FLAGS("--inspect=d")), "%s", error.text);
    ck_assert_msg(read_flags(FLAGS("--recover=d", "--to=e", "--node-id=1", "--peer=a:1")), "%s",
                  error.text);
    refuses(FLAGS("--recover=d"), "--to");
    refuses(FLAGS("--restore=d", "--to=e", "--node-id=1"), "--peer");
    refuses(FLAGS("--inspect=d", "--recover=d", "--to=e", "--node-id=1", "--peer=a:1"), "one");
    refuses(FLAGS("--json"), "--inspect");
    refuses(FLAGS("--to=e"), "--to");
}
END_TEST

static Suite *suite_of_config(void)
{
    Suite *suite = suite_create("config");
    TCase *tcase = tcase_create("config");
    tcase_add_test(tcase, a_node_that_founds_a_cluster);
    tcase_add_test(tcase, the_id_of_a_new_cluster);
    tcase_add_test(tcase, a_node_that_joins);
    tcase_add_test(tcase, modes_are_not_mixed);
    tcase_add_test(tcase, what_a_node_needs);
    tcase_add_test(tcase, first_members_that_make_no_sense);
    tcase_add_test(tcase, timings_that_would_not_work);
    tcase_add_test(tcase, offline_work);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(suite_of_config());
}
