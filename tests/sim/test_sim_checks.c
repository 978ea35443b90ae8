/* The checks of the simulator, with histories made by hand: what is right passes, and each kind of
 * wrong is called by its name. */
#include "test_sim_rig.h"

/* ---- Log and model. */

START_TEST(a_right_history_passes)
{
    uint64_t first = hold(1), second = send(LQ_OP_ACQUIRE, 2, 0), release;
    sim_checks_answered(checks, first, LQ_OP_ACQUIRE, 1);
    sim_checks_certain(checks, first, sim.now_us + 9 * SIM_S);
    sim_checks_store_write(checks, first, 1);
    apply(command_of(LQ_COMMAND_ACQUIRE, 2, 0));
    release = send(LQ_OP_RELEASE, 0, 1);
    sim_checks_certain(checks, first, sim.now_us);
    sim.now_us += SIM_MS;
    apply(command_of(LQ_COMMAND_RELEASE, 0, 1));
    sim_checks_answered(checks, release, LQ_OP_RELEASE, 1);
    sim_checks_answered(checks, second, LQ_OP_ACQUIRE, 2);
    sim_checks_certain(checks, second, sim.now_us + 9 * SIM_S);
    sim_checks_store_write(checks, second, 2);
    sim_checks_store_write(checks, first, 1); /* late, and refused */
    sim.now_us += 10100 * SIM_MS;
    apply(expire_of(2));
    sim_checks_end(checks);
    passes();
}
END_TEST

START_TEST(nodes_that_apply_different_commands)
{
    struct lq_command other;
    struct lq_stamp stamp;
    (void)hold(1);
    stamp = stamp_now();
    (void)send(LQ_OP_ACQUIRE, 2, 0);
    other = command_of(LQ_COMMAND_ACQUIRE, 2, 0);
    apply_on(1, ++last_index, &other, &stamp, NULL);
    passes();
    other.lease_s++;
    apply_on(2, last_index, &other, &stamp, NULL);
    fails("log: node 2");
}
END_TEST

START_TEST(a_committed_entry_that_is_redefined_after_a_restart)
{
    struct lq_command other = {.type = LQ_COMMAND_ORIGIN_OPEN, .origin = {3, 1}};
    struct lq_stamp stamp;
    (void)hold(1);
    stamp = stamp_now();
    sim_checks_node_stopped(checks, 1, true);
    sim_checks_node_started(checks, 1, &replicas[1]);
    apply_on(1, 1, &other, &stamp, NULL);
    fails("log: node 1");
}
END_TEST

START_TEST(an_index_that_comes_again)
{
    struct lq_command command = {.type = LQ_COMMAND_ORIGIN_OPEN, .origin = {2, 1}};
    struct lq_stamp stamp = stamp_now();
    open_origin();
    apply_on(1, 1, &command, &stamp, NULL);
    fails("log: node 1 applies entry 1 after entry 1");
}
END_TEST

START_TEST(a_state_that_differs)
{
    struct lq_command command = {.type = LQ_COMMAND_ORIGIN_OPEN, .origin = {3, 1}};
    struct lq_stamp stamp = stamp_now();
    struct lq_outcomes outcomes;
    lq_outcomes_init(&outcomes);
    lq_table_apply(replicas[2].table, &command, &stamp, &outcomes); /* behind the log's back */
    lq_outcomes_done(&outcomes);
    open_origin();
    fails("digest: node 2");
}
END_TEST

static void token_again(struct lq_outcome *outcome)
{
    outcome->token--;
}

START_TEST(an_outcome_that_a_lock_table_does_not_have)
{
    struct lq_stamp stamp = stamp_now();
    struct lq_command command;
    (void)send(LQ_OP_ACQUIRE, 1, 0);
    open_origin();
    command = command_of(LQ_COMMAND_ACQUIRE, 1, 0);
    apply_on(1, ++last_index, &command, &stamp, token_again);
    fails("model: entry 2: ACQUIRE led to GRANTED for 2.1 #1 token 0");
}
END_TEST

START_TEST(an_acquire_that_takes_effect_twice)
{
    (void)hold(1);
    apply(command_of(LQ_COMMAND_ACQUIRE, 1, 0));
    fails("exactly once");
}
END_TEST

START_TEST(an_entry_that_only_one_disk_has)
{
    replicas[2].status.durable_index = replicas[3].status.durable_index = 1;
    sim_checks_node_turn(checks, 2);
    sim_checks_node_turn(checks, 3);
    open_origin();
    passes();
    (void)send(LQ_OP_ACQUIRE, 1, 0);
    apply(command_of(LQ_COMMAND_ACQUIRE, 1, 0));
    fails("commit: node 1 applies entry 2");
}
END_TEST

/* ---- Leases. */

START_TEST(a_lease_cut_short)
{
    struct lq_stamp stamp = stamp_now();
    struct lq_command command;
    (void)hold(1);
    sim.now_us += 9800 * SIM_MS;
    stamp.time_ms += 10010; /* a leader whose clock ran ahead */
    command = expire_of(1);
    apply_on(1, ++last_index, &command, &stamp, NULL);
    fails("leases: that of token 1");
}
END_TEST

START_TEST(a_lease_that_lasts)
{
    (void)hold(1);
    sim.now_us += 13 * SIM_S;
    apply(expire_of(1));
    fails("dead holders: the lease of token 1");
}
END_TEST

START_TEST(a_lease_that_nobody_ends)
{
    sim.now_us = 100 * SIM_S;
    (void)hold(1);
    sim_checks_answered(checks, 1, LQ_OP_ACQUIRE, 1);
    sim.now_us += 20 * SIM_S;
    sim_checks_end(checks);
    fails("dead holders: key 3 is still held at the end");
}
END_TEST

START_TEST(a_table_time_that_stands_still)
{
    sim.now_us += SIM_S;
    replicas[1].status.table_ms += 900;
    sim_checks_node_turn(checks, 1);
    fails("table time: goes on by 900 ms at leader 1, true time by 11000 ms");
}
END_TEST

START_TEST(two_leaders_in_a_term)
{
    replicas[3].status.role = LQ_REPLICA_LEADER;
    sim_checks_node_turn(checks, 3);
    fails("nodes: 1 and 3 both lead");
}
END_TEST

/* ---- Requests. */

START_TEST(an_answer_before_its_commit)
{
    uint64_t id = send(LQ_OP_ACQUIRE, 1, 0);
    sim_checks_answered(checks, id, LQ_OP_ACQUIRE, 1);
    fails("no grant was committed");
}
END_TEST

START_TEST(an_answer_with_another_token)
{
    sim_checks_answered(checks, hold(1), LQ_OP_ACQUIRE, 2);
    fails("another token");
}
END_TEST

START_TEST(an_answer_that_comes_twice)
{
    uint64_t id = hold(1);
    sim_checks_answered(checks, id, LQ_OP_ACQUIRE, 1);
    passes();
    sim_checks_answered(checks, id, LQ_OP_ACQUIRE, 1);
    fails("answered twice");
}
END_TEST

START_TEST(a_timeout_that_was_granted)
{
    sim_checks_answered(checks, hold(1), LQ_OP_TIMEOUT, 0);
    fails("but it was granted");
}
END_TEST

START_TEST(a_timeout_that_is_granted_later)
{
    uint64_t id = send(LQ_OP_ACQUIRE, 1, 0);
    open_origin();
    sim.now_us += 5100 * SIM_MS;
    sim_checks_answered(checks, id, LQ_OP_TIMEOUT, 0);
    passes();
    apply(command_of(LQ_COMMAND_ACQUIRE, 1, 0));
    fails("was told T");
}
END_TEST

START_TEST(a_timeout_that_comes_early)
{
    uint64_t id = send(LQ_OP_ACQUIRE, 1, 0);
    sim.now_us += 4900 * SIM_MS;
    sim_checks_answered(checks, id, LQ_OP_TIMEOUT, 0);
    fails("before its wait was over");
}
END_TEST

START_TEST(a_grant_that_is_no_news)
{
    uint64_t id = hold(1);
    sim.now_us += 700 * SIM_MS;
    replicas[1].status.table_ms = stamp_now().time_ms;
    sim_checks_answered(checks, id, LQ_OP_ACQUIRE, 1);
    fails("stale");
}
END_TEST

START_TEST(a_grant_that_is_news_by_table_time)
{
    uint64_t id = hold(1);
    replicas[1].status.table_ms = stamp_now().time_ms; /* nobody led since */
    sim.now_us += 700 * SIM_MS;
    sim_checks_answered(checks, id, LQ_OP_ACQUIRE, 1);
    passes();
}
END_TEST

START_TEST(a_release_that_was_not_committed)
{
    sim_checks_answered(checks, hold(1), LQ_OP_ACQUIRE, 1);
    sim_checks_answered(checks, send(LQ_OP_RELEASE, 0, 1), LQ_OP_RELEASE, 1);
    fails("no release was committed");
}
END_TEST

START_TEST(a_release_that_was_committed_before)
{
    sim_checks_answered(checks, hold(1), LQ_OP_ACQUIRE, 1);
    (void)send(LQ_OP_RELEASE, 0, 1);
    apply(command_of(LQ_COMMAND_RELEASE, 0, 1));
    sim.now_us++;
    sim_checks_answered(checks, send(LQ_OP_RELEASE, 0, 1), LQ_OP_RELEASE, 1);
    fails("no release was committed");
}
END_TEST

START_TEST(a_release_that_nobody_asked_for)
{
    sim_checks_answered(checks, hold(1), LQ_OP_ACQUIRE, 1);
    apply(command_of(LQ_COMMAND_RELEASE, 0, 1));
    fails("nobody asked");
}
END_TEST

/* ---- Store and service. */

START_TEST(two_that_are_certain)
{
    struct sim_store store = {0};
    ck_assert_ptr_null(sim_store_certain(&store, 3, 1, 1, 100, 200));
    ck_assert_ptr_null(sim_store_certain(&store, 4, 2, 2, 100, 200));
    ck_assert_ptr_null(sim_store_certain(&store, 3, 1, 1, 150, 300)); /* renewed */
    ck_assert_ptr_nonnull(sim_store_certain(&store, 3, 3, 3, 299, 400));
    ck_assert_ptr_null(sim_store_certain(&store, 3, 1, 1, 299, 299)); /* released */
    ck_assert_ptr_null(sim_store_certain(&store, 3, 3, 3, 299, 400));
    ck_assert_ptr_nonnull(sim_store_certain(&store, 3, 4, 3, 500, 600)); /* a token again */
}
END_TEST

START_TEST(what_the_store_refuses)
{
    struct sim_store store = {0};
    bool is_accepted;
    ck_assert_ptr_null(sim_store_write(&store, 3, 1, 5, 100, &is_accepted));
    ck_assert(is_accepted);
    ck_assert_ptr_null(sim_store_write(&store, 3, 2, 4, 100, &is_accepted));
    ck_assert(!is_accepted);
    ck_assert_ptr_nonnull(sim_store_write(&store, 3, 2, 5, 100, &is_accepted));
    ck_assert_ptr_null(sim_store_certain(&store, 3, 2, 4, 100, 200));
    ck_assert_ptr_nonnull(sim_store_write(&store, 3, 2, 4, 150, &is_accepted));
}
END_TEST

START_TEST(a_connection_that_a_healthy_node_closes)
{
    uint64_t since_us = sim.now_us;
    uint64_t id = send(LQ_OP_ACQUIRE, 1, 0);
    sim.now_us += SIM_S;
    sim_checks_closed(checks, 2, since_us, true, &id, 1);
    fails("service: node 2, which is well, breaks");
}
END_TEST

START_TEST(a_connection_that_a_faulty_node_closes)
{
    uint64_t since_us = sim.now_us;
    uint64_t id = send(LQ_OP_ACQUIRE, 1, 0);
    sim_checks_node_fault(checks, 2, "paused");
    sim.now_us += SIM_S;
    sim_checks_closed(checks, 2, since_us, true, &id, 1);
    passes();
}
END_TEST

START_TEST(a_connection_that_closes_in_an_outage)
{
    uint64_t since_us = sim.now_us;
    uint64_t id = send(LQ_OP_RELEASE, 0, 1);
    sim.now_us += 6 * SIM_S;
    sim_checks_closed(checks, 2, since_us, true, &id, 1);
    passes();
}
END_TEST

/* So long nothing is committed, then something for `works_us`, then nothing again. */
static void two_outages(uint64_t works_us)
{
    uint64_t since_us = sim.now_us;
    uint64_t id = send(LQ_OP_RELEASE, 0, 1);
    sim.now_us += 4 * SIM_S;
    for (uint64_t us = 0; us <= works_us; us += 100 * SIM_MS) {
        open_origin(); /* what it does is of no interest here */
        sim.now_us += 100 * SIM_MS;
    }
    sim.now_us += 2 * SIM_S;
    sim_checks_closed(checks, 2, since_us, true, &id, 1);
}

START_TEST(a_connection_that_closes_in_an_outage_with_a_gasp)
{
    two_outages(200 * SIM_MS);
    passes();
}
END_TEST

START_TEST(a_connection_that_closes_after_an_outage_that_ended)
{
    two_outages(SIM_S);
    fails("service: node 2, which is well, breaks");
}
END_TEST

START_TEST(a_request_that_nobody_answers)
{
    (void)send(LQ_OP_RELEASE, 0, 1);
    sim.now_us += 12 * SIM_S;
    replicas[1].status.table_ms += 22000;
    sim_checks_node_turn(checks, 1);
    passes();
    sim.now_us += 2 * SIM_S;
    replicas[1].status.table_ms += 2000;
    sim_checks_node_turn(checks, 1);
    fails("service: node 2, which is well, neither answered");
}
END_TEST

static Suite *suite_of_checks(void)
{
    Suite *suite = suite_create("checks of the simulator");
    TCase *tcase = tcase_create("histories");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_right_history_passes);
    tcase_add_test(tcase, nodes_that_apply_different_commands);
    tcase_add_test(tcase, a_committed_entry_that_is_redefined_after_a_restart);
    tcase_add_test(tcase, an_index_that_comes_again);
    tcase_add_test(tcase, a_state_that_differs);
    tcase_add_test(tcase, an_outcome_that_a_lock_table_does_not_have);
    tcase_add_test(tcase, an_acquire_that_takes_effect_twice);
    tcase_add_test(tcase, an_entry_that_only_one_disk_has);
    tcase_add_test(tcase, a_lease_cut_short);
    tcase_add_test(tcase, a_lease_that_lasts);
    tcase_add_test(tcase, a_lease_that_nobody_ends);
    tcase_add_test(tcase, a_table_time_that_stands_still);
    tcase_add_test(tcase, two_leaders_in_a_term);
    tcase_add_test(tcase, an_answer_before_its_commit);
    tcase_add_test(tcase, an_answer_with_another_token);
    tcase_add_test(tcase, an_answer_that_comes_twice);
    tcase_add_test(tcase, a_timeout_that_was_granted);
    tcase_add_test(tcase, a_timeout_that_is_granted_later);
    tcase_add_test(tcase, a_timeout_that_comes_early);
    tcase_add_test(tcase, a_grant_that_is_no_news);
    tcase_add_test(tcase, a_grant_that_is_news_by_table_time);
    tcase_add_test(tcase, a_release_that_was_not_committed);
    tcase_add_test(tcase, a_release_that_was_committed_before);
    tcase_add_test(tcase, a_release_that_nobody_asked_for);
    tcase_add_test(tcase, two_that_are_certain);
    tcase_add_test(tcase, what_the_store_refuses);
    tcase_add_test(tcase, a_connection_that_a_healthy_node_closes);
    tcase_add_test(tcase, a_connection_that_a_faulty_node_closes);
    tcase_add_test(tcase, a_connection_that_closes_in_an_outage);
    tcase_add_test(tcase, a_connection_that_closes_in_an_outage_with_a_gasp);
    tcase_add_test(tcase, a_connection_that_closes_after_an_outage_that_ended);
    tcase_add_test(tcase, a_request_that_nobody_answers);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(suite_of_checks());
}
