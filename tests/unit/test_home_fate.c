/* The origin when it was away: grants that are old news, a life that was closed, and a snapshot
 * that has outcomes behind it. */
#include "lq_test.h"
#include "support/replica_rig.h"

static struct lq_nodes nodes;
static uint64_t n_renewed, n_not_held;

static void on_applied(void *context, uint64_t index, const struct lq_stamp *stamp,
                       const struct lq_command *command, const struct lq_outcome *outcomes,
                       size_t n_outcomes)
{
    (void)context;
    (void)index;
    (void)stamp;
    for (size_t i = 0; i < n_outcomes; i++) {
        n_renewed += outcomes[i].kind == LQ_OUTCOME_RENEWED;
        n_not_held += outcomes[i].kind == LQ_OUTCOME_NOT_HELD && command->type == LQ_COMMAND_RENEW;
    }
}

static void form(void)
{
    (void)lq_nodes_form(&nodes, 3);
    lq_nodes_lead(&nodes, 1);
    n_renewed = n_not_held = 0;
    lq_replica_observe(nodes.nodes[1].replica, on_applied, NULL);
}

static void set_up(void)
{
    lq_nodes_init(&nodes, 3);
    form();
}

/* Snapshots every few entries, nothing kept behind them, and patience with silent origins. */
static void set_up_small(void)
{
    lq_nodes_init(&nodes, 3);
    nodes.options.snapshot_entries = 20;
    nodes.options.trailing_entries = 0;
    nodes.options.origin_timeout_ms = 100000;
    form();
}

static void tear_down(void)
{
    lq_nodes_done(&nodes);
}

/* Node 2 hears nothing any more; what it says is heard. */
static void deafen(bool is_deaf)
{
    nodes.is_cut[1][2] = nodes.is_cut[3][2] = is_deaf;
}

/* ---- Grants that are old news. */

START_TEST(a_fresh_grant_is_delivered_as_it_is)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    nodes.latency_ms = 20;
    lq_rig_say(client, "A 20 1 7 short; A 20 60 8 long");
    lq_nodes_advance(&nodes, 150);
    LQ_HEARS(client, "A 1 7 short; A 2 8 long");
    ck_assert_uint_eq(n_renewed, 0);
}
END_TEST

START_TEST(a_stale_grant_is_delivered_once_a_renewal_has_proved_it)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lq_rig_say(client, "A 20 30 7 key");
    lq_nodes_advance(&nodes, 1);
    nodes.nodes[2].is_paused = true;
    lq_nodes_advance(&nodes, 1000);
    ck_assert_uint_eq(lq_nodes_holder(&nodes, 1, "key"), 1);
    nodes.nodes[2].is_paused = false;
    lq_nodes_advance(&nodes, 500);
    LQ_HEARS(client, "A 1 7 key");
    ck_assert_uint_eq(n_renewed, 1);
    lq_nodes_advance(&nodes, 29200); /* counts from the renewal */
    ck_assert_uint_eq(lq_nodes_holder(&nodes, 1, "key"), 1);
}
END_TEST

START_TEST(a_stale_grant_whose_lease_ended_closes_the_session)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    struct lq_rig_client *other = lq_nodes_connect(&nodes, 2);
    lq_rig_say(client, "A 20 1 7 key");
    lq_nodes_advance(&nodes, 1);
    nodes.nodes[2].is_paused = true;
    lq_nodes_advance(&nodes, 2500);
    ck_assert_uint_eq(lq_nodes_holder(&nodes, 1, "key"), 0);
    nodes.nodes[2].is_paused = false;
    lq_nodes_advance(&nodes, 500);
    LQ_HEARS(client, "");
    ck_assert_int_eq(client->end, LQ_RIG_ABORTED);
    ck_assert_uint_eq(n_not_held, 1);
    ck_assert_int_eq(other->end, LQ_RIG_CONNECTED);
}
END_TEST

/* Node 2 stands still while the outcome that it waits for is on its way, then goes on until a
 * renewal of what is too old by then is committed; false when it asks for none. */
static bool misses_a_renewal(void)
{
    uint64_t before = n_renewed;
    nodes.nodes[2].is_paused = true;
    lq_nodes_advance(&nodes, 1000);
    nodes.nodes[2].is_paused = false;
    for (int i = 0; i < 200 && n_renewed == before; i++) {
        lq_nodes_advance(&nodes, 1);
    }
    return n_renewed > before;
}

/* One leader after the other may be lost meanwhile. */
START_TEST(a_renewal_that_came_late_itself_is_proved_again_and_again)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lq_rig_say(client, "A 20 30 7 key");
    lq_nodes_advance(&nodes, 1);
    for (int i = 0; i < 4; i++) {
        ck_assert(misses_a_renewal());
        LQ_HEARS(client, "");
    }
    lq_nodes_advance(&nodes, 300);
    LQ_HEARS(client, "A 1 7 key");
}
END_TEST

START_TEST(a_grant_that_can_not_be_proved_in_time_is_given_back)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lq_rig_say(client, "A 20 30 7 key");
    lq_nodes_advance(&nodes, 1);
    for (int i = 0; misses_a_renewal(); i++) {
        ck_assert_int_lt(i, 6);
    }
    lq_nodes_advance(&nodes, 1000);
    LQ_HEARS(client, "");
    ck_assert_int_eq(client->end, LQ_RIG_ABORTED);
    ck_assert_uint_eq(lq_nodes_holder(&nodes, 1, "key"), 0);
}
END_TEST

/* One-way: entries do not reach the origin, and the answers neither. */
START_TEST(a_grant_that_a_cut_held_back_is_stale)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    deafen(true);
    lq_rig_say(client, "A 20 30 7 key");
    lq_nodes_advance(&nodes, 700);
    ck_assert_uint_eq(lq_nodes_holder(&nodes, 1, "key"), 1);
    deafen(false);
    lq_nodes_advance(&nodes, 500);
    LQ_HEARS(client, "A 1 7 key");
    ck_assert_uint_eq(n_renewed, 1);
}
END_TEST

/* ---- Renewals that are old news. */

/* Node 2 hears of the renewal only when a bit more than half of its lease is over. */
static struct lq_rig_client *renews_late(const char *more)
{
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lq_rig_say(client, "A 20 2 7 key");
    lq_nodes_advance(&nodes, 50);
    LQ_HEARS(client, "A 1 7 key");
    lq_rig_say(client, "K 2 1 key");
    lq_rig_say(client, "%s", more);
    lq_nodes_advance(&nodes, 1);
    nodes.nodes[2].is_paused = true;
    lq_nodes_advance(&nodes, 1200);
    ck_assert_uint_eq(n_renewed, 1);
    nodes.nodes[2].is_paused = false;
    return client;
}

START_TEST(a_stale_renewal_is_told_once_another_has_proved_it)
{
    struct lq_rig_client *client = renews_late("");
    lq_nodes_advance(&nodes, 300);
    LQ_HEARS(client, "K 1 key");
    ck_assert_uint_eq(n_renewed, 2);
    lq_nodes_advance(&nodes, 1600); /* counts from the second */
    ck_assert_uint_eq(lq_nodes_holder(&nodes, 1, "key"), 1);
}
END_TEST

START_TEST(a_stale_renewal_whose_lock_is_gone_is_told_so)
{
    struct lq_rig_client *client = renews_late("");
    struct lq_rig_client *other = lq_nodes_connect(&nodes, 1);
    lq_rig_say(other, "R 1 key");
    lq_nodes_advance(&nodes, 300);
    LQ_HEARS(other, "R 1 key");
    LQ_HEARS(client, "N 1 key");
    ck_assert_int_eq(client->end, LQ_RIG_CONNECTED);
}
END_TEST

/* To repeat it would be to renew after the release, and to answer N before R. */
START_TEST(a_stale_renewal_with_more_behind_it_closes_the_session)
{
    struct lq_rig_client *client = renews_late("R 1 key");
    lq_nodes_advance(&nodes, 300);
    LQ_HEARS(client, "");
    ck_assert_int_eq(client->end, LQ_RIG_ABORTED);
    ck_assert_uint_eq(n_renewed, 1);
    ck_assert_uint_eq(lq_nodes_holder(&nodes, 1, "key"), 0);
}
END_TEST

/* What others of the session do meanwhile goes on. */
START_TEST(a_stale_renewal_holds_up_no_other_token)
{
    struct lq_rig_client *client = renews_late("A 0 60 8 other");
    lq_nodes_advance(&nodes, 1);
    lq_rig_say(client, "R 2 other");
    lq_nodes_advance(&nodes, 400);
    LQ_HEARS(client, "K 1 key; A 2 8 other; R 2 other");
}
END_TEST

/* ---- A life that was closed. */

START_TEST(an_origin_that_was_closed_loses_what_had_a_number_and_goes_on_with_the_rest)
{
    struct lq_rig_client *holder = lq_nodes_connect(&nodes, 3);
    struct lq_rig_client *waiter = lq_nodes_connect(&nodes, 2);
    struct lq_rig_client *held = lq_nodes_connect(&nodes, 2);
    uint64_t incarnation = lq_nodes_status(&nodes, 2).incarnation;
    lq_rig_say(holder, "A 20 60 7 key");
    lq_nodes_advance(&nodes, 50);
    lq_rig_say(waiter, "A 60 60 8 key");
    lq_nodes_advance(&nodes, 50);
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, 1), 1);
    nodes.nodes[2].is_paused = true;
    lq_nodes_advance(&nodes, 4500);
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, 1), 1);
    lq_nodes_advance(&nodes, 1000); /* silent for too long: its waiters leave the queue */
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, 1), 0);
    ck_assert_uint_eq(nodes.nodes[1].notes[LQ_NOTE_ORIGIN_DEAD], 1);
    lq_rig_say(held, "A 60 60 9 other");
    nodes.nodes[2].is_paused = false;
    lq_nodes_advance(&nodes, 1000);
    LQ_HEARS(waiter, "");
    ck_assert_int_eq(waiter->end, LQ_RIG_ABORTED);
    ck_assert_uint_eq(nodes.nodes[2].notes[LQ_NOTE_CLOSED], 1);
    ck_assert_uint_eq(lq_nodes_status(&nodes, 2).incarnation, incarnation + 1);
    ck_assert(lq_nodes_status(&nodes, 2).is_serving);
    LQ_HEARS(held, "A 2 9 other");
    ck_assert_int_eq(held->end, LQ_RIG_CONNECTED);
}
END_TEST

START_TEST(the_waiters_of_a_process_that_died_leave_the_queue_soon)
{
    struct lq_rig_client *holder = lq_nodes_connect(&nodes, 2);
    struct lq_rig_client *dead = lq_nodes_connect(&nodes, 3);
    uint64_t boot = lq_nodes_status(&nodes, 3).boot;
    lq_rig_say(holder, "A 20 60 7 key");
    lq_nodes_advance(&nodes, 50);
    lq_rig_say(dead, "A 60 60 8 key");
    lq_nodes_advance(&nodes, 50);
    lq_nodes_kill(&nodes, 3);
    lq_nodes_advance(&nodes, 300);
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, 1), 0);
    lq_nodes_start(&nodes, 3);
    lq_nodes_advance(&nodes, 500);
    ck_assert(lq_nodes_status(&nodes, 3).is_serving);
    ck_assert_uint_eq(lq_nodes_status(&nodes, 3).incarnation, (boot + 1) << 32 | 1);
}
END_TEST

START_TEST(a_node_that_leaves_closes_its_own_origin)
{
    struct lq_rig_client *waiter = lq_nodes_connect(&nodes, 2);
    struct lq_rig_client *holder = lq_nodes_connect(&nodes, 3);
    lq_rig_say(holder, "A 20 60 7 key");
    lq_nodes_advance(&nodes, 50);
    lq_rig_say(waiter, "A 60 60 8 key");
    lq_nodes_advance(&nodes, 50);
    lq_replica_leave(nodes.nodes[2].replica);
    lq_nodes_advance(&nodes, 100);
    ck_assert(lq_replica_has_left(nodes.nodes[2].replica));
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, 1), 0);
    lq_nodes_advance(&nodes, 1000); /* and does not open another one */
    ck_assert(!lq_nodes_status(&nodes, 2).is_serving);
}
END_TEST

START_TEST(a_leader_that_leaves_hands_over)
{
    lq_replica_leave(nodes.nodes[1].replica);
    for (int i = 0; i < 500 && !lq_replica_has_left(nodes.nodes[1].replica); i++) {
        lq_nodes_advance(&nodes, 1);
    }
    ck_assert(lq_replica_has_left(nodes.nodes[1].replica));
    lq_nodes_advance(&nodes, 50);
    ck_assert_uint_ne(lq_nodes_leader(&nodes), 1);
    ck_assert_uint_ne(lq_nodes_leader(&nodes), 0);
}
END_TEST

/* ---- A snapshot on a live origin. */

/* So much that node 2's next entries are no longer kept. */
static void log_much(struct lq_rig_client *client)
{
    uint64_t index = lq_nodes_status(&nodes, 2).last_index;
    for (unsigned i = 0; i < 200 && lq_nodes_status(&nodes, 1).first_index <= index + 25; i++) {
        lq_rig_say(client, "A 0 60 %u filler%u", 1000 + i, i);
        lq_nodes_advance(&nodes, 5);
    }
    ck_assert_uint_gt(lq_nodes_status(&nodes, 1).first_index, index + 1);
    (void)lq_rig_hear(client);
}

static void heal_with_a_snapshot(void)
{
    deafen(false);
    lq_nodes_advance(&nodes, 1500);
    ck_assert_uint_ge(nodes.nodes[2].notes[LQ_NOTE_INSTALLED], 1);
    ck_assert(lq_nodes_status(&nodes, 2).is_serving);
    ck_assert_uint_eq(lq_table_digest(lq_replica_table(nodes.nodes[2].replica)),
                      lq_table_digest(lq_replica_table(nodes.nodes[1].replica)));
}

START_TEST(a_snapshot_on_a_live_origin_tells_who_waits_holds_or_is_gone)
{
    struct lq_rig_client *holder = lq_nodes_connect(&nodes, 3);
    struct lq_rig_client *waits = lq_nodes_connect(&nodes, 2);
    struct lq_rig_client *holds = lq_nodes_connect(&nodes, 2);
    struct lq_rig_client *ended = lq_nodes_connect(&nodes, 2);
    struct lq_rig_client *refused = lq_nodes_connect(&nodes, 2);
    struct lq_rig_client *release = lq_nodes_connect(&nodes, 2);
    struct lq_rig_client *idle = lq_nodes_connect(&nodes, 2);
    lq_rig_say(holder, "A 20 100 7 first; A 20 100 7 second");
    lq_nodes_advance(&nodes, 50);
    LQ_HEARS(holder, "A 1 7 first; A 2 7 second");
    deafen(true);
    lq_rig_say(waits, "A 100 60 1 first");
    lq_rig_say(holds, "A 100 60 2 second");
    lq_rig_say(ended, "A 100 1 3 third");
    lq_rig_say(refused, "A 0 60 4 first");
    lq_rig_say(release, "R 99 first");
    lq_nodes_advance(&nodes, 20);
    ck_assert_uint_eq(lq_nodes_waiters(&nodes, 1), 2);
    lq_rig_say(holder, "R 2 second");
    lq_nodes_advance(&nodes, 1200);
    log_much(holder);
    heal_with_a_snapshot();
    LQ_HEARS(waits, "");
    ck_assert_int_eq(waits->end, LQ_RIG_CONNECTED);
    LQ_HEARS(holds, "A 4 2 second");
    ck_assert_int_eq(ended->end, LQ_RIG_ABORTED);
    ck_assert_int_eq(refused->end, LQ_RIG_ABORTED);
    ck_assert_int_eq(release->end, LQ_RIG_ABORTED);
    ck_assert_int_eq(idle->end, LQ_RIG_CONNECTED);
    lq_rig_say(holder, "R 1 first");
    lq_nodes_advance(&nodes, 100);
    ck_assert_uint_eq(lq_rig_hear_count(waits, LQ_OP_ACQUIRE), 1);
    lq_rig_say(idle, "A 0 60 9 another");
    lq_nodes_advance(&nodes, 100);
    ck_assert_uint_eq(lq_rig_hear_count(idle, LQ_OP_ACQUIRE), 1);
}
END_TEST

/* What had a number but did not reach the leader before is sent again, and done. */
START_TEST(what_a_snapshot_does_not_include_is_sent_again)
{
    struct lq_rig_client *other = lq_nodes_connect(&nodes, 1);
    struct lq_rig_client *client = lq_nodes_connect(&nodes, 2);
    lq_nodes_cut(&nodes, 2, true);
    lq_rig_say(client, "A 60 60 1 key; A 60 60 2 key2; R 1 key3");
    lq_nodes_advance(&nodes, 20);
    ck_assert_uint_gt(lq_nodes_status(&nodes, 2).outbox_bytes, 0);
    log_much(other);
    lq_nodes_cut(&nodes, 2, false);
    heal_with_a_snapshot();
    ck_assert_uint_eq(lq_rig_hear_count(client, LQ_OP_ACQUIRE), 2);
    ck_assert_int_eq(client->end, LQ_RIG_CONNECTED);
}
END_TEST

static unsigned n_chunks;

static enum lq_nodes_fate lose_chunks(uint32_t from, uint32_t to, const struct lq_message *message)
{
    (void)from;
    (void)to;
    if (message->kind == LQ_MESSAGE_CHUNK || message->kind == LQ_MESSAGE_CHUNK_RESULT) {
        n_chunks++;
        return n_chunks % 3 == 0 ? LQ_NODES_PASS : LQ_NODES_DROP;
    }
    return LQ_NODES_PASS;
}

/* Raft wants the snapshot with every heartbeat; the transfer is one, and what is lost comes again.
 */
START_TEST(a_transfer_survives_losses_and_is_not_begun_again_and_again)
{
    struct lq_rig_client *other = lq_nodes_connect(&nodes, 1);
    lq_nodes_cut(&nodes, 2, true);
    log_much(other);
    nodes.filter = lose_chunks;
    n_chunks = 0;
    lq_nodes_cut(&nodes, 2, false);
    lq_nodes_advance(&nodes, 4000);
    ck_assert_uint_ge(nodes.nodes[2].notes[LQ_NOTE_INSTALLED], 1);
    ck_assert_uint_le(n_chunks, 60);
}
END_TEST

static Suite *home_suite(void)
{
    Suite *suite = suite_create("home_fate");
    TCase *tcase = tcase_create("away"), *small = tcase_create("snapshots");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_fresh_grant_is_delivered_as_it_is);
    tcase_add_test(tcase, a_stale_grant_is_delivered_once_a_renewal_has_proved_it);
    tcase_add_test(tcase, a_stale_grant_whose_lease_ended_closes_the_session);
    tcase_add_test(tcase, a_renewal_that_came_late_itself_is_proved_again_and_again);
    tcase_add_test(tcase, a_grant_that_can_not_be_proved_in_time_is_given_back);
    tcase_add_test(tcase, a_grant_that_a_cut_held_back_is_stale);
    tcase_add_test(tcase, a_stale_renewal_is_told_once_another_has_proved_it);
    tcase_add_test(tcase, a_stale_renewal_whose_lock_is_gone_is_told_so);
    tcase_add_test(tcase, a_stale_renewal_with_more_behind_it_closes_the_session);
    tcase_add_test(tcase, a_stale_renewal_holds_up_no_other_token);
    tcase_add_test(tcase,
                   an_origin_that_was_closed_loses_what_had_a_number_and_goes_on_with_the_rest);
    tcase_add_test(tcase, the_waiters_of_a_process_that_died_leave_the_queue_soon);
    tcase_add_test(tcase, a_node_that_leaves_closes_its_own_origin);
    tcase_add_test(tcase, a_leader_that_leaves_hands_over);
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(small, set_up_small, tear_down);
    tcase_set_timeout(small, 60);
    tcase_add_test(small, a_snapshot_on_a_live_origin_tells_who_waits_holds_or_is_gone);
    tcase_add_test(small, what_a_snapshot_does_not_include_is_sent_again);
    tcase_add_test(small, a_transfer_survives_losses_and_is_not_begun_again_and_again);
    suite_add_tcase(suite, small);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(home_suite());
}
