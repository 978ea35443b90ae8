/* What is wrong with a node's options is said in words, one fault at a time. */
#include "lq_journal.h"
#include "lq_message.h"
#include "lq_replica.h"
#include "lq_test.h"

#include <string.h>

static struct lq_replica_options sound(void)
{
    struct lq_replica_options options;
    lq_replica_defaults(&options);
    options.cluster = 7;
    options.node = 2;
    return options;
}

static void no_cluster(struct lq_replica_options *options)
{
    options->cluster = 0;
}

static void no_node(struct lq_replica_options *options)
{
    options->node = 0;
}

static void others_begin(struct lq_replica_options *options)
{
    ck_assert(lq_members_add(&options->bootstrap, 1, "node1:1", LQ_ROLE_VOTER));
    ck_assert(lq_members_add(&options->bootstrap, 3, "node3:1", LQ_ROLE_VOTER));
}

static void begins_as_a_standby(struct lq_replica_options *options)
{
    ck_assert(lq_members_add(&options->bootstrap, 1, "node1:1", LQ_ROLE_VOTER));
    ck_assert(lq_members_add(&options->bootstrap, 2, "node2:1", LQ_ROLE_STANDBY));
}

static void no_heartbeat(struct lq_replica_options *options)
{
    options->heartbeat_ms = 0;
}

static void hasty_election(struct lq_replica_options *options)
{
    options->election_ms = 3 * options->heartbeat_ms - 1;
}

static void hasty_origin_timeout(struct lq_replica_options *options)
{
    options->origin_timeout_ms = 2 * options->election_ms - 1;
}

static void tiny_segment(struct lq_replica_options *options)
{
    options->segment_bytes = LQ_JOURNAL_SEGMENT_MIN - LQ_SECTOR;
}

static void huge_segment(struct lq_replica_options *options)
{
    options->segment_bytes = LQ_JOURNAL_SEGMENT_MAX + LQ_SECTOR;
}

static void odd_segment(struct lq_replica_options *options)
{
    options->segment_bytes++;
}

static void empty_entries(struct lq_replica_options *options)
{
    options->entry_bytes = 0;
}

static void huge_entries(struct lq_replica_options *options)
{
    options->entry_bytes = LQ_MESSAGE_MAX / 4 + 1;
}

static void snapshots_of_nothing(struct lq_replica_options *options)
{
    options->snapshot_entries = 0;
}

static void snapshots_of_no_bytes(struct lq_replica_options *options)
{
    options->snapshot_bytes = 0;
}

static void no_outbox(struct lq_replica_options *options)
{
    options->outbox_bytes = 0;
}

static const struct {
    void (*spoil)(struct lq_replica_options *options);
    const char *words; /* which the text must hold */
} faults[] = {
    {no_cluster, "id"},
    {no_node, "id"},
    {others_begin, "voters"},
    {begins_as_a_standby, "voters"},
    {no_heartbeat, "heartbeat"},
    {hasty_election, "election"},
    {hasty_origin_timeout, "origin timeout"},
    {tiny_segment, "segment"},
    {huge_segment, "segment"},
    {odd_segment, "segment"},
    {empty_entries, "limit"},
    {huge_entries, "entries"},
    {snapshots_of_nothing, "limit"},
    {snapshots_of_no_bytes, "limit"},
    {no_outbox, "limit"},
};

START_TEST(each_fault_is_named)
{
    struct lq_replica_options options = sound();
    const char *text;
    faults[_i].spoil(&options);
    text = lq_replica_options_fault(&options);
    ck_assert_msg(text != NULL, "fault %d is not seen", _i);
    ck_assert_msg(strstr(text, faults[_i].words) != NULL, "fault %d: %s", _i, text);
}
END_TEST

START_TEST(the_defaults_are_sound)
{
    struct lq_replica_options options = sound();
    ck_assert_ptr_null(lq_replica_options_fault(&options)); /* of a node that is added later */
    ck_assert(lq_members_add(&options.bootstrap, 1, "node1:1", LQ_ROLE_VOTER));
    ck_assert(lq_members_add(&options.bootstrap, 2, "node2:1", LQ_ROLE_VOTER));
    ck_assert_ptr_null(lq_replica_options_fault(&options));
}
END_TEST

START_TEST(what_is_just_allowed_is_sound)
{
    struct lq_replica_options options = sound();
    options.election_ms = 3 * options.heartbeat_ms;
    options.origin_timeout_ms = 2 * options.election_ms;
    options.segment_bytes = LQ_JOURNAL_SEGMENT_MAX;
    options.entry_bytes = LQ_MESSAGE_MAX / 4;
    options.snapshot_entries = options.snapshot_bytes = options.outbox_bytes = 1;
    options.trailing_entries = 0;
    ck_assert_ptr_null(lq_replica_options_fault(&options));
}
END_TEST

static Suite *options_suite(void)
{
    Suite *suite = suite_create("replica_options");
    TCase *tcase = tcase_create("options");
    tcase_add_loop_test(tcase, each_fault_is_named, 0, (int)(sizeof faults / sizeof faults[0]));
    tcase_add_test(tcase, the_defaults_are_sound);
    tcase_add_test(tcase, what_is_just_allowed_is_sound);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(options_suite());
}
