/* The engine and snapshots: the log is cut behind those of our own, and begins anew behind those of
 * a leader. */
#include "lq_test.h"
#include "support/replica_engines.h"

static struct lq_engines engines;
static struct lq_engines_node *const one = &engines.nodes[1];
static struct lq_engines_node *const three = &engines.nodes[3];

static void set_up(void)
{
    lq_engines_init(&engines, 3, 3);
}

static void tear_down(void)
{
    lq_engines_done(&engines);
}

/* Those at the beginning: node 2's log is never cut. */
static struct lq_members members_of(void)
{
    const struct lq_log_entry *entry = lq_log_at(&engines.nodes[2].log, 1);
    struct lq_members members;
    ck_assert(lq_members_decode(&members, entry->bytes, entry->len));
    return members;
}

/* Node 1 leads, the log goes to `last` at least, node 3 is down since `last` / 2. */
static void lead_far(uint64_t last)
{
    lq_engines_start_all(&engines, 3);
    lq_engines_elect_node(&engines, 1);
    while (lq_log_last(&one->log).index < last) {
        ck_assert(lq_engines_submit(&engines, 1, "command"));
        lq_engines_settle(&engines);
        if (lq_log_last(&one->log).index == last / 2) {
            lq_engines_stop(&engines, 3);
        }
    }
}

static void take_snapshot(uint64_t index, uint64_t keep_from)
{
    struct lq_log_point point = {index, lq_log_term_of(&one->log, index)};
    one->members = members_of();
    one->start.snapshot = point;
    one->start.members_index = 1;
    lq_engine_snapshot_taken(one->engine, point, keep_from, &one->members, 1);
    while (lq_engine_compact(one->engine)) {
    }
}

START_TEST(the_log_keeps_what_it_was_told_to_keep)
{
    lead_far(40);
    take_snapshot(30, 25);
    ck_assert_uint_eq(one->log.base.index, 25);
    ck_assert(lq_engines_submit(&engines, 1, "and on"));
    lq_engines_advance(&engines, 100);
    ck_assert_uint_eq(lq_engine_commit(one->engine), 41);
    take_snapshot(20, 10); /* an older one says nothing */
    ck_assert_uint_eq(one->log.base.index, 25);
    ck_assert_ptr_null(lq_engine_fault(one->engine));
}
END_TEST

START_TEST(a_start_from_a_snapshot_goes_on_behind_it)
{
    lead_far(40);
    take_snapshot(30, 15); /* whoever leads has what node 3 lacks */
    lq_engines_stop(&engines, 1);
    one->start.snapshot.index = 30;
    lq_engines_start(&engines, 1);
    ck_assert_uint_eq(lq_engine_commit(one->engine), 30);
    ck_assert_uint_eq(lq_engine_last_stored(one->engine), 40);
    ck_assert_uint_eq(lq_engine_members(one->engine)->n, 3);
    lq_engines_start(&engines, 3);
    (void)lq_engines_elect(&engines);
    lq_engines_advance(&engines, 200);
    ck_assert_uint_ge(one->applied, 40);
    ck_assert_uint_ge(three->applied, 40);
}
END_TEST

START_TEST(a_follower_within_the_kept_log_needs_no_snapshot)
{
    lead_far(40);
    take_snapshot(40, 15);
    lq_engines_start(&engines, 3);
    lq_engines_advance(&engines, 300);
    ck_assert_uint_eq(one->n_wanted, 0);
    ck_assert_uint_eq(three->applied, 40);
}
END_TEST

/* Asked for again and again, always as the same; nothing of it reaches the follower by itself. */
START_TEST(a_follower_behind_the_kept_log_needs_the_snapshot)
{
    lead_far(40);
    take_snapshot(35, 30);
    lq_engines_start(&engines, 3);
    lq_engines_advance(&engines, 600);
    ck_assert_uint_ge(one->n_wanted, 2);
    ck_assert_uint_eq(one->wanted_by, 3);
    ck_assert_uint_eq(one->wanted.index, 35);
    ck_assert_uint_eq(one->wanted.term, lq_log_term_of(&one->log, 35));
    ck_assert_uint_eq(three->n_installs, 0);
    ck_assert_uint_lt(three->applied, 25);
    ck_assert_int_eq(lq_engine_role(one->engine), LQ_ENGINE_LEADER);
}
END_TEST

/* Node 3 gets the snapshot at 35, of node `from`. */
static bool install(uint32_t from)
{
    struct lq_members members = members_of();
    return lq_engine_install(three->engine, from,
                             (struct lq_log_point){35, lq_log_term_of(&one->log, 35)}, &members, 1);
}

START_TEST(a_snapshot_replaces_everything_once_it_is_whole)
{
    lead_far(40);
    take_snapshot(35, 30);
    lq_engines_start(&engines, 3);
    lq_engines_advance(&engines, 100);
    ck_assert(install(1));
    ck_assert_uint_eq(three->n_installs, 1);
    ck_assert_uint_eq(three->install.index, 35);
    ck_assert(lq_engine_is_installing(three->engine));
    ck_assert_uint_eq(lq_log_last(&three->log).index, 35);
    ck_assert(!install(1)); /* once is enough */
    lq_engines_advance(&engines, 100);
    ck_assert_uint_eq(lq_log_last(&three->log).index, 35); /* entries wait for it */
    lq_engine_installed(three->engine);
    ck_assert(!lq_engine_is_installing(three->engine));
    lq_engines_advance(&engines, 200);
    ck_assert_uint_eq(three->applied, lq_log_last(&one->log).index);
    ck_assert_uint_eq(lq_engine_members(three->engine)->n, 3);
    ck_assert(!install(1)); /* too old now */
    ck_assert(lq_engines_submit(&engines, 1, "and on"));
    lq_engines_advance(&engines, 5);
    ck_assert_uint_eq(lq_log_last(&three->log).index, lq_log_last(&one->log).index);
}
END_TEST

START_TEST(a_write_that_completes_during_an_installation_is_dropped)
{
    lead_far(40);
    take_snapshot(35, 30);
    lq_engines_start(&engines, 3);
    lq_engines_advance(&engines, 100);
    three->holds_writes = true;
    ck_assert(install(1));
    for (uint64_t index = 1; index <= 40; index++) {
        lq_engine_stored(three->engine, index);
    }
    ck_assert_ptr_null(lq_engine_fault(three->engine));
    lq_engine_installed(three->engine);
    ck_assert_uint_eq(lq_engine_last_stored(three->engine), 35);
    lq_engine_stored(three->engine, 20); /* of the log before */
    ck_assert_uint_eq(lq_engine_last_stored(three->engine), 35);
    lq_engines_settle(&engines);
    ck_assert_uint_le(lq_engine_match(one->engine, 3), 35);
}
END_TEST

START_TEST(a_snapshot_of_another_than_the_leader_is_refused)
{
    lead_far(40);
    take_snapshot(35, 30);
    lq_engines_start(&engines, 3);
    ck_assert(!install(1)); /* it knows of no leader yet */
    lq_engines_advance(&engines, 100);
    ck_assert(!install(2));
    ck_assert_uint_eq(three->n_installs, 0);
    ck_assert_ptr_null(lq_engine_fault(three->engine));
}
END_TEST

START_TEST(a_snapshot_that_the_log_has_anyway_is_refused)
{
    lead_far(40);
    take_snapshot(35, 15);
    lq_engines_start(&engines, 3);
    lq_engines_advance(&engines, 300);
    ck_assert(!install(1));
    ck_assert_uint_eq(three->applied, 40);
    ck_assert_uint_eq(three->n_installs, 0);
}
END_TEST

/* The entry at its end is in the log, only not committed: raft would take that for an answer. */
START_TEST(a_snapshot_whose_last_entry_is_in_the_log_is_refused)
{
    struct lq_message_entry entries[3] = {lq_engines_entry(2, 2, "a"), lq_engines_entry(3, 2, "b"),
                                          lq_engines_entry(4, 2, "c")};
    struct lq_members members = members_of();
    lq_engines_start(&engines, 1);
    engines.is_mute = true;
    lq_engines_feed(&engines, 1, 2,
                    &(struct lq_message){.kind = LQ_MESSAGE_APPEND,
                                         .term = 2,
                                         .prev_index = 1,
                                         .prev_term = 1,
                                         .commit = 1,
                                         .count = 3},
                    entries);
    lq_engines_settle(&engines);
    ck_assert(!lq_engine_install(one->engine, 2, (struct lq_log_point){3, 2}, &members, 1));
    ck_assert_uint_eq(one->n_installs, 0);
    ck_assert_uint_eq(lq_log_last(&one->log).index, 4);
    ck_assert(!lq_engine_is_installing(one->engine));
}
END_TEST

/* A new leader while the old one's snapshot is being installed. */
START_TEST(an_installation_survives_a_change_of_leaders)
{
    lead_far(40);
    take_snapshot(35, 30);
    lq_engines_start(&engines, 3);
    lq_engines_advance(&engines, 100);
    ck_assert(install(1));
    ck_assert(!lq_engine_skip_timeout(three->engine));
    ck_assert(lq_engine_transfer(one->engine, 2));
    lq_engines_advance(&engines, 100);
    ck_assert_int_eq(lq_engine_role(engines.nodes[2].engine), LQ_ENGINE_LEADER);
    lq_engine_installed(three->engine);
    lq_engines_advance(&engines, 500);
    ck_assert_uint_eq(three->applied, lq_log_last(&engines.nodes[2].log).index);
}
END_TEST

START_TEST(members_of_a_snapshot_are_in_force)
{
    struct lq_members members;
    lead_far(40);
    lq_engines_start(&engines, 3);
    lq_engines_advance(&engines, 300);
    lq_engines_stop(&engines, 3);
    members = members_of();
    ck_assert(lq_members_add(&members, 4, "node4:1", LQ_ROLE_STANDBY));
    ck_assert(lq_engines_submit_members(&engines, 1, &members));
    lq_engines_advance(&engines, 20);
    ck_assert_uint_eq(one->applied_members_index, 41);
    lq_engine_snapshot_taken(one->engine, (struct lq_log_point){41, lq_log_term_of(&one->log, 41)},
                             41, &members, 41);
    lq_engines_start(&engines, 3);
    lq_engines_advance(&engines, 100);
    ck_assert_uint_eq(one->wanted.index, 41);
    ck_assert(lq_engine_install(three->engine, 1, one->wanted, &members, 41));
    lq_engine_installed(three->engine);
    ck_assert_uint_eq(lq_engine_members(three->engine)->n, 4);
    lq_engines_advance(&engines, 100);
    ck_assert_uint_eq(lq_engine_match(one->engine, 3), lq_log_last(&one->log).index);
}
END_TEST

static Suite *engine_suite(void)
{
    Suite *suite = suite_create("engine_snapshot");
    TCase *tcase = tcase_create("snapshot");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, the_log_keeps_what_it_was_told_to_keep);
    tcase_add_test(tcase, a_start_from_a_snapshot_goes_on_behind_it);
    tcase_add_test(tcase, a_follower_within_the_kept_log_needs_no_snapshot);
    tcase_add_test(tcase, a_follower_behind_the_kept_log_needs_the_snapshot);
    tcase_add_test(tcase, a_snapshot_replaces_everything_once_it_is_whole);
    tcase_add_test(tcase, a_write_that_completes_during_an_installation_is_dropped);
    tcase_add_test(tcase, a_snapshot_of_another_than_the_leader_is_refused);
    tcase_add_test(tcase, a_snapshot_that_the_log_has_anyway_is_refused);
    tcase_add_test(tcase, a_snapshot_whose_last_entry_is_in_the_log_is_refused);
    tcase_add_test(tcase, an_installation_survives_a_change_of_leaders);
    tcase_add_test(tcase, members_of_a_snapshot_are_in_force);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(engine_suite());
}
