/* Changes by way of the admin interface: bodies, what reaches the node, what comes back. */
#include "test_admin_rig.h"

#define MAX_ADDRESS_260                                                                            \
    "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggghhhhhhhhhhiiiiiiiiii"   \
    "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggghhhhhhhhhhiiiiiiiiii"   \
    "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggghhhhhhhhhhiiiiiiiiii"

static const struct {
    const char *line, *body;
    int kind;
    uint32_t node, new_node;
    const char *address;
} right_rows[] = {
    {"POST /v1/members", "{\"node\": 4, \"address\": \"h:7312\"}", LQ_CHANGE_ADD, 4, 0, "h:7312"},
    {"POST /v1/members", "{\"address\":\"[::1]:1\",\"node\":4294967295}", LQ_CHANGE_ADD, UINT32_MAX,
     0, "[::1]:1"},
    {"POST /v1/members/3/promote", "", LQ_CHANGE_PROMOTE, 3, 0, ""},
    {"POST /v1/members/3/promote", " { } ", LQ_CHANGE_PROMOTE, 3, 0, ""},
    {"POST /v1/members/2/demote", "{}", LQ_CHANGE_DEMOTE, 2, 0, ""},
    {"POST /v1/members/2/remove", "", LQ_CHANGE_REMOVE, 2, 0, ""},
    {"DELETE /v1/members/2", "", LQ_CHANGE_REMOVE, 2, 0, ""},
    {"POST /v1/members/2/replace", "{\"node\": 5, \"address\": \"127.0.0.1:65535\"}", -1, 2, 5,
     "127.0.0.1:65535"},
    {"POST /v1/leader/transfer", "{\"node\": 2}", LQ_CHANGE_TRANSFER, 2, 0, ""},
    {"POST /v1/leader/transfer", "{}", LQ_CHANGE_TRANSFER, 0, 0, ""},
    {"POST /v1/leader/transfer", "", LQ_CHANGE_TRANSFER, 0, 0, ""},
};

START_TEST(right_requests_reach_the_node)
{
    struct rig rig;
    struct client client;
    rig_open(&rig);
    ck_assert_int_eq(ask(&rig, &client, right_rows[_i].line, JSON_TYPE, right_rows[_i].body), 202);
    ck_assert_uint_eq(rig.n_changes, 1);
    ck_assert_int_eq(rig.kind, right_rows[_i].kind);
    ck_assert_uint_eq(rig.node, right_rows[_i].node);
    ck_assert_uint_eq(rig.new_node, right_rows[_i].new_node);
    ck_assert_str_eq(rig.address, right_rows[_i].address);
    rig_close(&rig);
}
END_TEST

#define ADD "POST /v1/members"

static const struct {
    const char *line, *body;
    const char *message; /* part of it */
} wrong_rows[] = {
    {ADD, "", "node: is missing"},
    {ADD, "{}", "node: is missing"},
    {ADD, "{\"node\": 4}", "address: is missing"},
    {ADD, "{\"address\": \"h:1\"}", "node: is missing"},
    {ADD, "{\"node\": 0, \"address\": \"h:1\"}", "node: a whole number"},
    {ADD, "{\"node\": -1, \"address\": \"h:1\"}", "node: a whole number"},
    {ADD, "{\"node\": 4294967296, \"address\": \"h:1\"}", "node: a whole number"},
    {ADD, "{\"node\": 18446744073709551617, \"address\": \"h:1\"}", "no JSON"},
    {ADD, "{\"node\": 4.0, \"address\": \"h:1\"}", "node: a whole number"},
    {ADD, "{\"node\": \"4\", \"address\": \"h:1\"}", "node: a whole number"},
    {ADD, "{\"node\": null, \"address\": \"h:1\"}", "node: a whole number"},
    {ADD, "{\"node\": 4, \"address\": 7}", "address: \"HOST:PORT\""},
    {ADD, "{\"node\": 4, \"address\": \"\"}", "address: \"HOST:PORT\""},
    {ADD, "{\"node\": 4, \"address\": \"h\"}", "address: \"HOST:PORT\""},
    {ADD, "{\"node\": 4, \"address\": \"h:\"}", "address: \"HOST:PORT\""},
    {ADD, "{\"node\": 4, \"address\": \"h:0\"}", "address: \"HOST:PORT\""},
    {ADD, "{\"node\": 4, \"address\": \"h:65536\"}", "address: \"HOST:PORT\""},
    {ADD, "{\"node\": 4, \"address\": \"::1:7312\"}", "address: \"HOST:PORT\""},
    {ADD, "{\"node\": 4, \"address\": \"h h:1\"}", "address: \"HOST:PORT\""},
    {ADD, "{\"node\": 4, \"address\": \"h\\n:1\"}", "address: \"HOST:PORT\""},
    {ADD, "{\"node\": 4, \"address\": \"h\\u0000:1\"}", "no JSON"},
    {ADD, "{\"node\": 4, \"address\": \"" MAX_ADDRESS_260 ":1\"}", "address: \"HOST:PORT\""},
    {ADD, "{\"node\": 4, \"address\": \"h:1\", \"Role\": 1}", "Role: there is no such field"},
    {ADD, "{\"node\": 4, \"node\": 5, \"address\": \"h:1\"}", "no JSON"},
    {ADD, "{\"node\": 4, \"address\": \"h:1\"} x", "no JSON"},
    {ADD, "{\"node\": 4, \"address\": \"h:1\"", "no JSON"},
    {ADD, "{\"node\": 4, \"address\": \"h:1\xff\"}", "no JSON"},
    {ADD, "[4, \"h:1\"]", "a JSON object is wanted"},
    {ADD, "node=4&address=h:1", "no JSON"},
    {"POST /v1/members/3/promote", "{\"node\": 3}", "node: there is no such field"},
    {"POST /v1/members/3/demote", "[]", "a JSON object is wanted"},
    {"DELETE /v1/members/3", "{\"address\": \"h:1\"}", "address: there is no such field"},
    {"POST /v1/members/2/replace", "{\"address\": \"h:1\"}", "node: is missing"},
    {"POST /v1/members/2/replace", "{\"node\": 2, \"address\": \"h:1\"}", "another id"},
    {"POST /v1/leader/transfer", "{\"node\": 0}", "node: a whole number"},
    {"POST /v1/leader/transfer", "{\"node\": 2, \"address\": \"h:1\"}", "address: there is no"},
};

static void assert_fault(const struct client *client, const char *error, const char *message)
{
    json_t *json = json_of(client);
    const char *said = json_string_value(json_object_get(json, "message"));
    ck_assert_str_eq(json_string_value(json_object_get(json, "error")), error);
    ck_assert_msg(strstr(said, message) != NULL, "'%s' is not in '%s'", message, said);
    json_decref(json);
}

START_TEST(wrong_bodies_are_refused_by_the_name_of_the_field)
{
    struct rig rig;
    struct client client;
    rig_open(&rig);
    ck_assert_int_eq(ask(&rig, &client, wrong_rows[_i].line, JSON_TYPE, wrong_rows[_i].body), 400);
    assert_fault(&client, "invalid", wrong_rows[_i].message);
    ck_assert_uint_eq(rig.n_changes, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_post_has_to_be_json)
{
    static const struct {
        const char *header;
        int status;
    } rows[] = {
        {"", 415},
        {"Content-Type: text/plain\r\n", 415},
        {"Content-Type: application/x-www-form-urlencoded\r\n", 415},
        {"Content-Type: application/jsonp\r\n", 415},
        {"Content-Type: text/plain; application/json\r\n", 415},
        {"Content-Type: application/json\r\n", 202},
        {"content-type: Application/JSON ; charset=utf-8\r\n", 202},
    };
    struct rig rig;
    struct client client;
    unsigned n_taken = 0;
    rig_open(&rig);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_int_eq(ask(&rig, &client, "POST /v1/members/3/promote", rows[i].header, ""),
                         rows[i].status);
        n_taken += rows[i].status == 202;
        ck_assert_uint_eq(rig.n_changes, n_taken);
    }
    ck_assert_int_eq(ask(&rig, &client, "DELETE /v1/members/3", "", ""), 202);
    rig_close(&rig);
}
END_TEST

START_TEST(results_have_their_status_and_words)
{
    struct rig rig;
    struct client client;
    json_t *json;
    rig_open(&rig);
    rig.result = LQ_CHANGE_DONE;
    ck_assert_int_eq(post(&rig, &client, "/v1/members/3/promote", ""), 200);
    json = json_of(&client);
    assert_json(json, "{'result': 'done'}");
    json_decref(json);
    rig.result = LQ_CHANGE_STARTED;
    ck_assert_int_eq(post(&rig, &client, "/v1/members/3/promote", ""), 202);
    json = json_of(&client);
    assert_json(json, "{'result': 'started'}");
    json_decref(json);
    rig.result = LQ_CHANGE_BUSY;
    ck_assert_int_eq(post(&rig, &client, "/v1/members/3/promote", ""), 409);
    assert_fault(&client, "busy", "another change");
    rig_close(&rig);
}
END_TEST

START_TEST(who_does_not_lead_says_who_does)
{
    struct rig rig;
    struct client client;
    json_t *json;
    rig_open(&rig);
    rig.result = LQ_CHANGE_NOT_LEADER;
    rig.view.replica.leader = 2;
    ck_assert_int_eq(post(&rig, &client, "/v1/members/3/promote", ""), 409);
    assert_fault(&client, "not_leader", "ask node 2");
    json = json_of(&client);
    assert_json(json_object_get(json, "leader"), "2");
    json_decref(json);
    rig.view.replica.leader = 0;
    ck_assert_int_eq(post(&rig, &client, "/v1/leader/transfer", ""), 409);
    assert_fault(&client, "not_leader", "no leader");
    json = json_of(&client);
    assert_json(json_object_get(json, "leader"), "null");
    json_decref(json);
    rig_close(&rig);
}
END_TEST

/* ---- What cannot be done is explained. Members are 1 and 2, voters, and 3, a standby. */

static const struct {
    const char *line, *body, *message;
} invalid_rows[] = {
    {ADD, "{\"node\": 2, \"address\": \"h:1\"}", "node 2 is a member already"},
    {ADD, "{\"node\": 4, \"address\": \"127.0.0.1:7322\"}", "the address of node 2"},
    {ADD, "{\"node\": 4, \"address\": \"h:1\"}", "never used"},
    {"POST /v1/members/4/promote", "", "node 4 is no member"},
    {"POST /v1/members/4/demote", "", "node 4 is no member"},
    {"POST /v1/members/2/remove", "", "transfer leadership"},
    {"POST /v1/members/9/replace", "{\"node\": 4, \"address\": \"h:1\"}", "node 9 is no member"},
    {"POST /v1/members/2/replace", "{\"node\": 3, \"address\": \"h:1\"}", "node 3 is a member"},
    {"POST /v1/leader/transfer", "{\"node\": 3}", "node 3 is no voter"},
    {"POST /v1/leader/transfer", "{}", "no other voter"},
};

START_TEST(invalid_changes_are_explained)
{
    struct rig rig;
    struct client client;
    rig_open(&rig);
    rig.result = LQ_CHANGE_INVALID;
    ck_assert_int_eq(ask(&rig, &client, invalid_rows[_i].line, JSON_TYPE, invalid_rows[_i].body),
                     400);
    assert_fault(&client, "invalid", invalid_rows[_i].message);
    ck_assert_uint_eq(rig.n_changes, 1);
    rig_close(&rig);
}
END_TEST

START_TEST(the_last_voter_and_a_full_list_are_told)
{
    struct rig rig;
    struct client client;
    char address[32];
    rig_open(&rig);
    rig.result = LQ_CHANGE_INVALID;
    ck_assert(lq_members_remove(&rig.members, 2));
    ck_assert_int_eq(post(&rig, &client, "/v1/members/1/remove", ""), 400);
    assert_fault(&client, "invalid", "the last voter");
    for (uint32_t node = 10; rig.members.n < LQ_MEMBERS_MAX; node++) {
        (void)snprintf(address, sizeof address, "h:%u", node);
        ck_assert(lq_members_add(&rig.members, node, address, LQ_ROLE_STANDBY));
    }
    ck_assert_int_eq(post(&rig, &client, "/v1/members", "{\"node\":4,\"address\":\"x:1\"}"), 400);
    assert_fault(&client, "invalid", "there are 15 members already");
    rig_close(&rig);
}
END_TEST

static Suite *change_suite(void)
{
    Suite *suite = suite_create("admin_change");
    TCase *tcase = tcase_create("admin_change");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, right_requests_reach_the_node, 0,
                        sizeof right_rows / sizeof *right_rows);
    tcase_add_loop_test(tcase, wrong_bodies_are_refused_by_the_name_of_the_field, 0,
                        sizeof wrong_rows / sizeof *wrong_rows);
    tcase_add_test(tcase, a_post_has_to_be_json);
    tcase_add_test(tcase, results_have_their_status_and_words);
    tcase_add_test(tcase, who_does_not_lead_says_who_does);
    tcase_add_loop_test(tcase, invalid_changes_are_explained, 0,
                        sizeof invalid_rows / sizeof *invalid_rows);
    tcase_add_test(tcase, the_last_voter_and_a_full_list_are_told);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(change_suite());
}
