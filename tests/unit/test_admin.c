/* What the admin interface tells, and which requests it takes. */
#include "test_admin_rig.h"

/* ---- Probes. */

START_TEST(livez_is_ok_whatever_the_node_does)
{
    struct rig rig;
    struct client client;
    rig_open(&rig);
    rig.view.is_ready = false;
    rig.view.is_stopping = true;
    ck_assert_int_eq(get(&rig, &client, "/livez"), 200);
    ck_assert_str_eq(body_of(client.bytes), "ok\n");
    ck_assert_ptr_nonnull(strstr(client.bytes, "Content-Type: text/plain\r\n"));
    ck_assert_ptr_nonnull(strstr(client.bytes, "Cache-Control: no-store\r\n"));
    rig_close(&rig);
}
END_TEST

START_TEST(readyz_says_why_not)
{
    struct rig rig;
    struct client client;
    rig_open(&rig);
    ck_assert_int_eq(get(&rig, &client, "/readyz"), 200);
    ck_assert_str_eq(body_of(client.bytes), "ready\n");
    rig.view.is_ready = false;
    rig.view.not_ready = "no leader is known";
    ck_assert_int_eq(get(&rig, &client, "/readyz?verbose=1"), 503);
    ck_assert_str_eq(body_of(client.bytes), "no leader is known\n");
    rig.view.not_ready = NULL;
    ck_assert_int_eq(get(&rig, &client, "/readyz"), 503);
    ck_assert_str_eq(body_of(client.bytes), "not ready\n");
    rig.view.is_ready = rig.view.is_stopping = true;
    ck_assert_int_eq(get(&rig, &client, "/readyz"), 503);
    ck_assert_str_eq(body_of(client.bytes), "stopping\n");
    rig_close(&rig);
}
END_TEST

/* ---- Members and status. */

START_TEST(members_are_listed)
{
    struct rig rig;
    struct client client;
    json_t *json;
    rig_open(&rig);
    rig.view.replica.leader = 2;
    rig.view.replica.term = 7;
    ck_assert_int_eq(get(&rig, &client, "/v1/members"), 200);
    json = json_of(&client);
    assert_json(json,
                "{'cluster_id': '000000000000feed', 'node': 1, 'leader': 2, 'term': 7, 'members': ["
                "{'node': 1, 'address': 'node1.example:7312', 'role': 'voter', 'leader': false},"
                "{'node': 2, 'address': '127.0.0.1:7322', 'role': 'voter', 'leader': true},"
                "{'node': 3, 'address': '[::1]:7332', 'role': 'standby', 'leader': false}]}");
    json_decref(json);
    rig_close(&rig);
}
END_TEST

/* A view in which each number is another one. */
static void fill(struct lq_node_view *view)
{
    view->now_ms = 100000;
    view->started_ms = 99000;
    view->cluster = UINT64_MAX;
    view->replica = (struct lq_replica_status){.role = LQ_REPLICA_CANDIDATE,
                                               .is_serving = true,
                                               .is_full = true,
                                               .leader = 0,
                                               .term = 10,
                                               .boot = 11,
                                               .incarnation = UINT64_MAX,
                                               .first_index = 12,
                                               .last_index = 13,
                                               .durable_index = 14,
                                               .commit_index = 15,
                                               .applied_index = 16,
                                               .snapshot_index = 17,
                                               .table_ms = 18,
                                               .outbox_bytes = 19,
                                               .held_requests = 20,
                                               .log_bytes = 21,
                                               .queued_bytes = 22};
    view->is_ready = false;
    view->not_ready = "the disk is full";
    view->n_peers = 2;
    view->peers[0] = (struct lq_node_peer){.node = 2,
                                           .link = {.is_up = true,
                                                    .is_full = true,
                                                    .queued_bytes = 23,
                                                    .sent_bytes = 24,
                                                    .received_bytes = 25,
                                                    .since_ms = 99990},
                                           .heard_ms = 26,
                                           .match_index = 27};
    view->peers[1] = (struct lq_node_peer){
        .node = 9, .link = {.since_ms = 100001, .text = "refused \xff"}, .heard_ms = UINT64_MAX};
    view->table = (struct lq_table_counts){.keys = 28,
                                           .waiters = 29,
                                           .state_bytes = 30,
                                           .last_token = UINT64_C(9007199254740993),
                                           .time_ms = 31};
    view->hub = (struct lq_hub_counters){32, 33, 34, 35, 36, 37};
    view->connections = 38;
    view->disk = (struct lq_disk_counters){39, 40, 41, 42, 43};
    view->longest_turn_us = 44;
}

START_TEST(status_has_all_that_the_view_has)
{
    struct rig rig;
    struct client client;
    json_t *json, *members;
    rig_open(&rig);
    fill(&rig.view);
    ck_assert_int_eq(get(&rig, &client, "/v1/status"), 200);
    ck_assert_ptr_nonnull(strstr(client.bytes, "Content-Type: application/json\r\n"));
    json = json_of(&client);
    members = json_object_get(json, "members");
    ck_assert_uint_eq(json_array_size(members), 3);
    ck_assert_int_eq(json_object_del(json, "members"), 0);
    assert_json(
        json,
        "{'version': '" LOQUET_VERSION "', 'node': 1, 'name': 'one', 'cluster_id': "
        "'ffffffffffffffff', 'uptime_ms': 1000, 'role': 'candidate', 'term': 10, 'leader': null, "
        "'ready': false, 'not_ready': 'the disk is full', 'stopping': false, 'serving': true, "
        "'boot': 11, 'incarnation': '18446744073709551615', 'connections': 38, "
        "'longest_turn_us': 44, 'log': {'first_index': 12, 'last_index': 13, 'durable_index': 14, "
        "'commit_index': 15, 'applied_index': 16, 'snapshot_index': 17, 'bytes': 21}, "
        "'queues': {'outbox_bytes': 19, 'held_requests': 20, 'effect_bytes': 22}, "
        "'table': {'keys': 28, 'waiters': 29, 'state_bytes': 30, 'last_token': "
        "'9007199254740993', 'time_ms': 31, 'clock_ms': 18}, "
        "'requests': {'all': 32, 'granted': 33, 'timeouts': 34, 'busy': 35, 'errors': 36, "
        "'taken_back': 37}, 'disk': {'full': true, 'free_bytes': 43, 'writes': 39, "
        "'written_bytes': 40, 'last_write_us': 41, 'longest_write_us': 42}, 'peers': ["
        "{'node': 2, 'up': true, 'changed_ago_ms': 10, 'reason': '', 'heard_ago_ms': 26, "
        "'match_index': 27, 'full': true, 'queued_bytes': 23, 'sent_bytes': 24, "
        "'received_bytes': 25}, "
        "{'node': 9, 'up': false, 'changed_ago_ms': 0, 'reason': '(not UTF-8)', 'heard_ago_ms': "
        "null, 'match_index': 0, 'full': false, 'queued_bytes': 0, 'sent_bytes': 0, "
        "'received_bytes': 0}]}");
    json_decref(json);
    rig_close(&rig);
}
END_TEST

START_TEST(roles_are_words)
{
    static const struct {
        enum lq_replica_role role;
        const char *word;
    } rows[] = {{LQ_REPLICA_WAITING, "waiting"},
                {LQ_REPLICA_FOLLOWER, "follower"},
                {LQ_REPLICA_CANDIDATE, "candidate"},
                {LQ_REPLICA_LEADER, "leader"}};
    struct rig rig;
    struct client client;
    rig_open(&rig);
    rig.members = (struct lq_members){0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *json;
        rig.view.replica.role = rows[i].role;
        ck_assert_int_eq(get(&rig, &client, "/v1/status"), 200);
        json = json_of(&client);
        ck_assert_str_eq(json_string_value(json_object_get(json, "role")), rows[i].word);
        ck_assert_uint_eq(json_array_size(json_object_get(json, "members")), 0);
        json_decref(json);
    }
    rig_close(&rig);
}
END_TEST

/* ---- Routes. */

static const struct {
    const char *line;
    int status;
    const char *allow;
} route_rows[] = {
    {"GET /", 404, NULL},
    {"GET /livez/", 404, NULL},
    {"GET /livezz", 404, NULL},
    {"GET /live", 404, NULL},
    {"GET /v1/members/", 404, NULL},
    {"GET /v1/members//promote", 404, NULL},
    {"POST /v1/members/x/promote", 404, NULL},
    {"POST /v1/members/2x/promote", 404, NULL},
    {"POST /v1/members/-2/promote", 404, NULL},
    {"POST /v1/members/2/promote/", 404, NULL},
    {"POST /v1/members/2/frob", 404, NULL},
    {"POST /v1/members/0/promote", 400, NULL},
    {"POST /v1/members/4294967296/promote", 400, NULL},
    {"POST /v1/members/99999999999999999999999/promote", 400, NULL},
    {"DELETE /v1/members/0", 400, NULL},
    {"POST /v1/members/4294967295/promote", 202, NULL},
    {"POST /v1/members/%32/promote", 202, NULL},
    {"POST /livez", 405, "GET, HEAD"},
    {"OPTIONS /v1/status", 405, "GET, HEAD"},
    {"FROB /v1/status", 405, "GET, HEAD"},
    {"DELETE /v1/members", 405, "GET, HEAD, POST"},
    {"GET /v1/members/2", 405, "DELETE"},
    {"HEAD /v1/members/2", 405, "DELETE"},
    {"GET /v1/members/2/promote", 405, "POST"},
    {"PUT /v1/leader/transfer", 405, "POST"},
};

START_TEST(routes_are_these)
{
    struct rig rig;
    struct client client;
    char allow[64];
    rig_open(&rig);
    ck_assert_int_eq(ask(&rig, &client, route_rows[_i].line, JSON_TYPE, ""), route_rows[_i].status);
    if (route_rows[_i].allow != NULL) {
        (void)snprintf(allow, sizeof allow, "\r\nAllow: %s\r\n", route_rows[_i].allow);
        ck_assert_msg(strstr(client.bytes, allow) != NULL, "%s", client.bytes);
    }
    ck_assert_uint_eq(rig.n_changes, route_rows[_i].status == 202);
    rig_close(&rig);
}
END_TEST

START_TEST(head_is_get_without_body)
{
    struct rig rig;
    struct client client;
    rig_open(&rig);
    ck_assert_int_eq(ask(&rig, &client, "HEAD /v1/status", "", ""), 200);
    ck_assert_str_eq(body_of(client.bytes), "");
    rig.view.is_ready = false;
    ck_assert_int_eq(ask(&rig, &client, "HEAD /readyz", "", ""), 503);
    rig_close(&rig);
}
END_TEST

START_TEST(faults_are_json)
{
    struct rig rig;
    struct client client;
    json_t *json;
    rig_open(&rig);
    ck_assert_int_eq(get(&rig, &client, "/nothing%ffhere"), 404);
    json = json_of(&client);
    ck_assert_str_eq(json_string_value(json_object_get(json, "error")), "not_found");
    ck_assert_ptr_nonnull(json_string_value(json_object_get(json, "message")));
    json_decref(json);
    rig_close(&rig);
}
END_TEST

/* ---- The address to listen on. */

START_TEST(listens_on_ipv6_and_by_name)
{
    static const char *const addresses[] = {"[::1]:0", "localhost:0"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        struct rig rig;
        rig_open_at(&rig, addresses[i]);
        ck_assert_uint_ne(rig.port, 0);
        rig_close(&rig);
    }
}
END_TEST

START_TEST(an_address_in_use_or_unknown_is_refused)
{
    struct rig rig;
    char taken[32];
    rig_open(&rig);
    lq_log_set_level(LQ_LOG_ERROR + 1);
    (void)snprintf(taken, sizeof taken, "127.0.0.1:%u", rig.port);
    ck_assert_ptr_null(lq_admin_start(&rig.loop, taken, &rig.admin->user));
    ck_assert_ptr_null(lq_admin_start(&rig.loop, "no.such.host.invalid:1", &rig.admin->user));
    rig_close(&rig);
    lq_admin_stop(NULL);
}
END_TEST

static Suite *admin_suite(void)
{
    Suite *suite = suite_create("admin");
    TCase *tcase = tcase_create("admin");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, livez_is_ok_whatever_the_node_does);
    tcase_add_test(tcase, readyz_says_why_not);
    tcase_add_test(tcase, members_are_listed);
    tcase_add_test(tcase, status_has_all_that_the_view_has);
    tcase_add_test(tcase, roles_are_words);
    tcase_add_loop_test(tcase, routes_are_these, 0, sizeof route_rows / sizeof *route_rows);
    tcase_add_test(tcase, head_is_get_without_body);
    tcase_add_test(tcase, faults_are_json);
    tcase_add_test(tcase, listens_on_ipv6_and_by_name);
    tcase_add_test(tcase, an_address_in_use_or_unknown_is_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(admin_suite());
}
