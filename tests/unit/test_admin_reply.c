/* That the command line understands what the admin interface really says. */
#include "lq_reply.h"
#include "test_admin_rig.h"

static json_t *parsed(const struct client *client)
{
    const char *body = body_of(client->bytes);
    json_t *json = lq_reply_parse(body, strlen(body));
    ck_assert_ptr_nonnull(json);
    return json;
}

START_TEST(status_is_understood)
{
    struct rig rig;
    struct client client;
    struct lq_reply_status status;
    json_t *json;
    rig_open(&rig);
    rig.view.replica = (struct lq_replica_status){.role = LQ_REPLICA_LEADER,
                                                  .leader = 1,
                                                  .term = 2,
                                                  .last_index = 5,
                                                  .commit_index = 4,
                                                  .applied_index = 3};
    rig.view.table = (struct lq_table_counts){.keys = 6, .waiters = 7};
    rig.view.connections = 8;
    ck_assert_int_eq(get(&rig, &client, "/v1/status"), 200);
    json = parsed(&client);
    ck_assert(lq_reply_status(json, &status));
    ck_assert(lq_reply_leads(&status) && status.is_ready);
    ck_assert_uint_eq(status.node, 1);
    ck_assert_uint_eq(status.leader, 1);
    ck_assert_uint_eq(status.term, 2);
    ck_assert_uint_eq(status.applied_index, 3);
    ck_assert_uint_eq(status.commit_index, 4);
    ck_assert_uint_eq(status.last_index, 5);
    ck_assert_uint_eq(status.keys, 6);
    ck_assert_uint_eq(status.waiters, 7);
    ck_assert_uint_eq(status.connections, 8);
    ck_assert_uint_eq(status.n_members, 3);
    ck_assert_str_eq(status.name, "one");
    ck_assert_str_eq(status.cluster_id, "000000000000feed");
    ck_assert_str_eq(status.not_ready, "");
    json_decref(json);
    rig.view.replica.role = LQ_REPLICA_WAITING;
    rig.view.replica.leader = 0;
    ck_assert_int_eq(get(&rig, &client, "/v1/status"), 200);
    json = parsed(&client);
    ck_assert(lq_reply_status(json, &status));
    ck_assert(!lq_reply_leads(&status));
    ck_assert_uint_eq(status.leader, 0);
    json_decref(json);
    rig_close(&rig);
}
END_TEST

START_TEST(members_are_understood)
{
    struct rig rig;
    struct client client;
    struct lq_reply_members members;
    json_t *json;
    rig_open(&rig);
    rig.view.replica.term = 9;
    ck_assert_int_eq(get(&rig, &client, "/v1/members"), 200);
    json = parsed(&client);
    ck_assert(lq_reply_members(json, &members));
    ck_assert_uint_eq(members.n, 3);
    ck_assert_uint_eq(members.leader, 1);
    ck_assert_uint_eq(members.term, 9);
    ck_assert_uint_eq(members.items[2].node, 3);
    ck_assert_str_eq(members.items[2].address, "[::1]:7332");
    ck_assert_str_eq(members.items[2].role, "standby");
    json_decref(json);
    rig_close(&rig);
}
END_TEST

START_TEST(the_furthest_is_a_linked_voter)
{
    struct rig rig;
    struct client client;
    json_t *json;
    rig_open(&rig);
    ck_assert(lq_members_add(&rig.members, 4, "h:4", LQ_ROLE_VOTER));
    ck_assert(lq_members_add(&rig.members, 5, "h:5", LQ_ROLE_VOTER));
    rig.view.n_peers = 5;
    rig.view.peers[0] = (struct lq_node_peer){.node = 2, .link.is_up = true, .match_index = 10};
    rig.view.peers[1] = (struct lq_node_peer){.node = 3, .link.is_up = true, .match_index = 50};
    rig.view.peers[2] = (struct lq_node_peer){.node = 4, .link.is_up = true, .match_index = 30};
    rig.view.peers[3] = (struct lq_node_peer){.node = 5, .link.is_up = false, .match_index = 40};
    rig.view.peers[4] = (struct lq_node_peer){.node = 9, .link.is_up = true, .match_index = 60};
    ck_assert_int_eq(get(&rig, &client, "/v1/status"), 200);
    json = parsed(&client);
    ck_assert_uint_eq(lq_reply_furthest(json), 4);
    json_decref(json);
    rig.view.n_peers = 0;
    ck_assert_int_eq(get(&rig, &client, "/v1/status"), 200);
    json = parsed(&client);
    ck_assert_uint_eq(lq_reply_furthest(json), 0);
    json_decref(json);
    rig_close(&rig);
}
END_TEST

START_TEST(results_of_changes_are_understood)
{
    static const struct {
        enum lq_change_result result;
        enum lq_reply_kind kind;
    } rows[] = {
        {LQ_CHANGE_DONE, LQ_REPLY_DONE},       {LQ_CHANGE_STARTED, LQ_REPLY_STARTED},
        {LQ_CHANGE_BUSY, LQ_REPLY_BUSY},       {LQ_CHANGE_NOT_LEADER, LQ_REPLY_NOT_LEADER},
        {LQ_CHANGE_INVALID, LQ_REPLY_REFUSED},
    };
    struct rig rig;
    struct client client;
    rig_open(&rig);
    rig.view.replica.leader = 2;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lq_reply_change change;
        json_t *json;
        int status;
        rig.result = rows[i].result;
        status = post(&rig, &client, "/v1/members/3/promote", "{}");
        json = parsed(&client);
        change = lq_reply_change(status, json);
        ck_assert_int_eq(change.kind, rows[i].kind);
        if (change.kind == LQ_REPLY_NOT_LEADER) {
            ck_assert_uint_eq(change.leader, 2);
            ck_assert_uint_eq(change.node, 1);
        }
        if (change.kind == LQ_REPLY_BUSY || change.kind == LQ_REPLY_REFUSED) {
            ck_assert_ptr_nonnull(change.message);
        }
        json_decref(json);
    }
    ck_assert_int_eq(lq_reply_change(0, NULL).kind, LQ_REPLY_STRANGE);
    ck_assert_int_eq(lq_reply_change(200, NULL).kind, LQ_REPLY_STRANGE);
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admin_reply");
    TCase *tcase = tcase_create("admin_reply");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, status_is_understood);
    tcase_add_test(tcase, members_are_understood);
    tcase_add_test(tcase, the_furthest_is_a_linked_voter);
    tcase_add_test(tcase, results_of_changes_are_understood);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
