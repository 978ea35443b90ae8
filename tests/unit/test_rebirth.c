/* A new cluster out of one disk of an old one, or out of a backup: what comes out goes through
 * lq_recovery into a replica, which must serve, and have nothing to do with the old cluster. */
#include "lq_frame.h"
#include "lq_message.h"
#include "lq_replica.h"
#include "test_rebirth_rig.h"

/* ---- A node that lives on what came out, its disk answering at once. */

struct node {
    struct lq_replica *replica;
    struct files files;
    uint64_t now_ms;
    struct lq_request *request; /* the one under way */
    struct lq_answer answer;    /* its last word */
};

static void node_start(struct node *node, const struct lq_buffer *snapshot, uint32_t id)
{
    struct lq_recovery *recovery = read_disk(NEW_CLUSTER, &node->files, snapshot, LQ_RECOVERY_GOOD);
    struct lq_replica_options options;
    lq_replica_defaults(&options);
    options.cluster = NEW_CLUSTER;
    options.node = id;
    options.caps = caps;
    options.seed = 5;
    options.segment_bytes = SEGMENT_BYTES;
    memcpy(options.secret, secret, sizeof secret);
    node->now_ms += 1000;
    node->replica = lq_replica_new(&options, recovery, node->now_ms);
    lq_recovery_free(recovery);
}

static void node_init(struct node *node, const struct lq_rebirth *rebirth, uint32_t id)
{
    *node = (struct node){.now_ms = 77777};
    memcpy(files_add(&node->files, 1, rebirth->segment.len), rebirth->segment.bytes,
           rebirth->segment.len);
    node_start(node, &rebirth->snapshot, id);
}

static void node_done(struct node *node)
{
    lq_replica_free(node->replica);
    files_done(&node->files);
    free(node->request);
}

/* Carries out the effects; returns the one that the disk has to answer, or 0 behind all kinds. */
static int act(struct node *node)
{
    struct lq_effect effect;
    int asked = -1;
    while (lq_replica_take(node->replica, &effect)) {
        if (effect.kind == LQ_EFFECT_SEGMENT) {
            (void)files_add(&node->files, effect.write.number, SEGMENT_BYTES);
            files_write(&node->files, &effect.seal);
        }
        if (effect.kind == LQ_EFFECT_SEGMENT || effect.kind == LQ_EFFECT_WRITE) {
            files_write(&node->files, &effect.write);
        }
        if (effect.kind <= LQ_EFFECT_WRITE) {
            ck_assert_int_eq(asked, -1);
            asked = (int)effect.kind;
        }
        if (effect.kind == LQ_EFFECT_STOP) {
            ck_abort_msg("stopped: %s", effect.text);
        }
    }
    return asked;
}

static void turn(struct node *node)
{
    struct lq_backend *backend = lq_replica_backend(node->replica);
    struct lq_answer answer;
    int asked;
    lq_replica_wake(node->replica, node->now_ms);
    lq_replica_turn(node->replica);
    backend->ops->begin(backend, node->now_ms);
    backend->ops->end(backend);
    lq_replica_flush(node->replica);
    while ((asked = act(node)) >= 0) {
        if (asked == LQ_EFFECT_ALLOCATE) {
            lq_replica_allocated(node->replica, node->now_ms);
        } else if (asked == LQ_EFFECT_SEGMENT) {
            lq_replica_segment_ready(node->replica);
        } else {
            lq_replica_written(node->replica);
        }
        lq_replica_flush(node->replica);
    }
    while (backend->ops->take(backend, &answer)) {
        node->answer = answer;
    }
}

static void run_for(struct node *node, uint64_t ms)
{
    for (uint64_t end_ms = node->now_ms + ms; node->now_ms < end_ms; node->now_ms++) {
        turn(node);
    }
}

/* Sends a request, of a lease of 2 s, and returns how it was answered by `ms` later. */
static enum lq_answer_kind ask(struct node *node, enum lq_op op, const char *key, uint64_t token)
{
    struct lq_backend *backend = lq_replica_backend(node->replica);
    free(node->request);
    node->request = calloc(1, sizeof *node->request + strlen(key));
    node->request->op = (uint8_t)op;
    node->request->lease_s = 2;
    node->request->key_len = (uint16_t)strlen(key);
    node->request->token = token;
    memcpy(node->request->key, key, strlen(key));
    node->answer = (struct lq_answer){0};
    backend->ops->submit(backend, node->request);
    run_for(node, 50);
    ck_assert_ptr_eq(node->answer.request, node->request);
    return node->answer.kind;
}

/* ---- What must hold after either operation. */

/* All origins but the node's new one are closed, and nobody waits. */
static void check_origins(const struct node *node)
{
    const struct lq_table *table = lq_replica_table(node->replica);
    uint64_t incarnation = lq_replica_status(node->replica).incarnation;
    struct lq_origin_state origin = {0};
    size_t n_open = 0;
    while (lq_table_next_origin(table, origin.id.node, &origin)) {
        n_open += origin.is_open;
        ck_assert(!origin.is_open || origin.id.incarnation == incarnation);
        ck_assert_uint_eq(origin.n_waiters, 0);
    }
    ck_assert_uint_eq(n_open, 1);
    ck_assert_uint_eq(lq_table_counts(table).waiters, 0);
}

static void check_held(const struct lq_table *table, struct lq_origin_id origin, uint64_t seq,
                       const char *key, uint64_t token, uint64_t stamp_ms)
{
    struct lq_outcome grant = {0};
    ck_assert_int_eq(lq_table_fate(table, origin, seq, (const uint8_t *)key, strlen(key), &grant),
                     LQ_FATE_HOLDING);
    ck_assert_uint_eq(grant.token, token);
    ck_assert_uint_eq(grant.stamp_ms, stamp_ms);
}

/* The new node leads, serves, has the old locks, and gives each to another only after its lease. */
static void check_new_life(struct node *node, uint64_t last_token)
{
    const struct lq_table *table = lq_replica_table(node->replica);
    run_for(node, 500);
    ck_assert_int_eq(lq_replica_status(node->replica).role, LQ_REPLICA_LEADER);
    ck_assert(lq_replica_status(node->replica).is_serving);
    ck_assert_uint_eq(lq_replica_members(node->replica)->n, 1);
    check_origins(node);
    check_held(table, one, 1, "a", 1, 5000);
    check_held(table, three, 2, "b", 2, 3000);
    ck_assert_int_eq(ask(node, LQ_OP_ACQUIRE, "c", 0), LQ_ANSWER_GRANTED);
    ck_assert_uint_eq(node->answer.token, last_token + LQ_REBIRTH_TOKENS + 1);
    ck_assert_int_eq(ask(node, LQ_OP_ACQUIRE, "a", 0), LQ_ANSWER_TIMEOUT);
    ck_assert_int_eq(ask(node, LQ_OP_RELEASE, "b", 2), LQ_ANSWER_RELEASED);
    run_for(node, 9000);
    ck_assert_int_eq(ask(node, LQ_OP_ACQUIRE, "a", 0), LQ_ANSWER_TIMEOUT);
    run_for(node, 500); /* 10,001 ms after the start its lease is over */
    ck_assert_int_eq(ask(node, LQ_OP_ACQUIRE, "a", 0), LQ_ANSWER_GRANTED);
    ck_assert_uint_eq(node->answer.token, last_token + LQ_REBIRTH_TOKENS + 2);
}

/* ---- Recovery. */

/* From the log alone, and from a snapshot and what is behind it. */
START_TEST(a_survivor_begins_a_cluster)
{
    struct lq_rebirth rebirth;
    struct node node;
    recover(&old.files, _i == 0 ? NULL : &backup, &rebirth);
    ck_assert_uint_eq(rebirth.old_cluster, CLUSTER);
    ck_assert_uint_eq(rebirth.last_index, LAST_INDEX);
    ck_assert_uint_eq(rebirth.last_term, LAST_TERM);
    ck_assert_uint_eq(rebirth.index, LAST_INDEX + 1);
    ck_assert_uint_eq(rebirth.term, SEEN_TERM + 1);
    ck_assert_uint_eq(rebirth.keys, 2);
    ck_assert_uint_eq(rebirth.dropped, 2);
    ck_assert_uint_eq(rebirth.last_token, 2 + LQ_REBIRTH_TOKENS);
    ck_assert_ptr_nonnull(strstr(rebirth.text, "2 locks held, 2 waiters dropped"));
    ck_assert_ptr_null(strstr(rebirth.text, "no voter"));
    ck_assert_uint_eq(rebirth.segment.len, SEGMENT_BYTES);
    node_init(&node, &rebirth, NODE);
    check_new_life(&node, 2);
    ck_assert_uint_eq(lq_replica_status(node.replica).boot, BOOT + 1);
    node_done(&node);
    lq_rebirth_done(&rebirth);
}
END_TEST

/* Both ways lead to the same state, which is that of the old log. */
START_TEST(the_state_is_that_of_the_log)
{
    struct lq_rebirth from_log, from_both;
    struct lq_table *table = table_at(LAST_INDEX);
    struct lq_buffer state = {0};
    struct lq_snapfile_head head;
    struct lq_table *back;
    uint64_t check;
    recover(&old.files, NULL, &from_log);
    recover(&old.files, &backup, &from_both);
    ck_assert_uint_eq(from_log.snapshot.len, from_both.snapshot.len);
    ck_assert_mem_eq(from_log.snapshot.bytes, from_both.snapshot.bytes, from_log.snapshot.len);
    ck_assert_mem_eq(from_log.segment.bytes, from_both.segment.bytes, SEGMENT_BYTES);
    ck_assert_int_eq(lq_snapfile_read(from_log.snapshot.bytes, from_log.snapshot.len, UINT64_MAX,
                                      &head, &state, &check),
                     LQ_SNAPFILE_OK);
    back = lq_snapshot_restore(state.bytes, state.len, secret);
    lq_table_reborn(table, LQ_REBIRTH_TOKENS);
    ck_assert_uint_eq(lq_table_digest(back), lq_table_digest(table));
    ck_assert_uint_eq(lq_table_counts(back).time_ms, 5000);
    lq_table_free(back);
    lq_table_free(table);
    lq_buffer_done(&state);
    lq_rebirth_done(&from_log);
    lq_rebirth_done(&from_both);
}
END_TEST

/* The new node stops, starts again from what it wrote, and its cluster can be lost in turn. */
START_TEST(lives_go_on)
{
    struct lq_rebirth first, second;
    struct lq_rebirth_options options = usual_options();
    struct lq_recovery *recovery;
    struct node node;
    recover(&old.files, &backup, &first);
    node_init(&node, &first, NODE);
    run_for(&node, 500);
    ck_assert_int_eq(ask(&node, LQ_OP_ACQUIRE, "c", 0), LQ_ANSWER_GRANTED);
    lq_replica_free(node.replica);
    node_start(&node, &first.snapshot, NODE);
    run_for(&node, 500);
    ck_assert_int_eq(ask(&node, LQ_OP_ACQUIRE, "c", 0), LQ_ANSWER_TIMEOUT);
    ck_assert_uint_eq(lq_replica_status(node.replica).boot, BOOT + 2);
    recovery = read_disk(NEW_CLUSTER, &node.files, &first.snapshot, LQ_RECOVERY_GOOD);
    check_refused(lq_rebirth_recover(recovery, &options, &second), &second, "id of its own");
    lq_recovery_free(recovery);
    recovery = read_disk(NEW_CLUSTER, &node.files, &first.snapshot, LQ_RECOVERY_GOOD);
    options.cluster = 0xC3;
    ck_assert(lq_rebirth_recover(recovery, &options, &second));
    ck_assert_uint_eq(second.last_token, first.last_token + 1 + LQ_REBIRTH_TOKENS);
    ck_assert_uint_eq(second.keys, 3);
    ck_assert(second.term > first.term && second.index > first.index + 1);
    lq_recovery_free(recovery);
    node_done(&node);
    lq_rebirth_done(&first);
    lq_rebirth_done(&second);
}
END_TEST

/* A last batch that was in flight is no obstacle. */
START_TEST(a_torn_batch_is_left_out)
{
    struct lq_rebirth_options options = usual_options();
    struct lq_buffer bytes;
    struct lq_journal_write write;
    struct lq_recovery *recovery;
    struct lq_rebirth rebirth;
    uint8_t type = make_entry(1, &bytes);
    memset(lq_buffer_extend(&bytes, 2000), 0, 2000);
    put_bytes(&old, LAST_INDEX + 1, type, &bytes);
    write = rig_finish(&old);
    write.len = 2 * LQ_SECTOR;
    files_write(&old.files, &write);
    recovery = read_disk(CLUSTER, &old.files, &backup, LQ_RECOVERY_TORN);
    ck_assert(lq_rebirth_recover(recovery, &options, &rebirth));
    ck_assert_uint_eq(rebirth.last_index, LAST_INDEX);
    lq_recovery_free(recovery);
    lq_rebirth_done(&rebirth);
    lq_buffer_done(&bytes);
}
END_TEST

/* A snapshot that came from a leader, ahead of this node's journal: that is the state. */
START_TEST(a_snapshot_ahead_of_the_journal)
{
    struct lq_rebirth rebirth;
    struct lq_table *table = table_at(LAST_INDEX);
    struct lq_snapfile_head head = {
        .cluster = CLUSTER, .index = 90, .term = SEEN_TERM + 3, .members_index = 1};
    struct lq_buffer installed = file_of(head, table);
    struct node node;
    recover(&old.files, &installed, &rebirth);
    ck_assert_uint_eq(rebirth.index, 91);
    ck_assert_uint_eq(rebirth.term, SEEN_TERM + 4);
    node_init(&node, &rebirth, NODE);
    check_new_life(&node, 2);
    node_done(&node);
    lq_rebirth_done(&rebirth);
    lq_buffer_done(&installed);
    lq_table_free(table);
}
END_TEST

/* ---- The old cluster comes back. */

START_TEST(old_and_new_do_not_mix)
{
    struct lq_hello hello = {.cluster = CLUSTER, .from = 1, .to = NODE, .boot = 1};
    struct lq_recovery *recovery;
    struct lq_rebirth rebirth;
    struct files both = {0};
    struct node node;
    recover(&old.files, &backup, &rebirth);
    node_init(&node, &rebirth, NODE);
    run_for(&node, 500);
    ck_assert_int_eq(lq_replica_link_up(node.replica, &hello), LQ_LINK_WRONG_CLUSTER);
    hello.cluster = NEW_CLUSTER; /* emptied and configured for the new one, under the old id */
    hello.is_blank = true;
    ck_assert_int_eq(lq_replica_link_up(node.replica, &hello), LQ_LINK_NOT_MEMBER);
    hello.from = 4;
    ck_assert_int_eq(lq_replica_link_up(node.replica, &hello), LQ_LINK_OK);
    recovery = read_disk(NEW_CLUSTER, &old.files, NULL, LQ_RECOVERY_CORRUPT);
    ck_assert_ptr_nonnull(
        strstr(lq_recovery_text(recovery), lq_journal_fault_text(LQ_JOURNAL_OTHER_CLUSTER)));
    lq_recovery_free(recovery);
    recovery = lq_recovery_new(NEW_CLUSTER, NODE, secret);
    ck_assert(!lq_recovery_snapshot(recovery, backup.bytes, backup.len));
    lq_recovery_free(recovery);
    /* segments of both in one folder */
    memcpy(files_add(&both, 1, SEGMENT_BYTES), rebirth.segment.bytes, SEGMENT_BYTES);
    memcpy(files_add(&both, 2, SEGMENT_BYTES), old.files.bytes[0], SEGMENT_BYTES);
    recovery = read_disk(0, &both, &rebirth.snapshot, LQ_RECOVERY_CORRUPT);
    lq_recovery_free(recovery);
    files_done(&both);
    node_done(&node);
    lq_rebirth_done(&rebirth);
}
END_TEST

/* ---- Restoring. */

/* Under the id of the node that made the backup, of another one, and of none: id, and the boot
 * counter that its first start has. */
static const struct {
    uint32_t node;
    uint64_t boot;
} restored[] = {{NODE, BOOT + 1}, {1, 2}, {9, 2}};

START_TEST(a_backup_begins_a_cluster)
{
    struct lq_rebirth_options options = usual_options();
    struct lq_rebirth rebirth;
    struct lq_buffer full = snapshot_at(LAST_INDEX, CLUSTER);
    struct node node;
    options.node = restored[_i].node;
    if (!lq_rebirth_restore(full.bytes, full.len, &options, &rebirth)) {
        ck_abort_msg("refused: %s", rebirth.text);
    }
    ck_assert_uint_eq(rebirth.old_cluster, CLUSTER);
    ck_assert_uint_eq(rebirth.index, LAST_INDEX + 1);
    ck_assert_uint_eq(rebirth.term, LAST_TERM + 1);
    ck_assert_uint_eq(rebirth.dropped, 2);
    node_init(&node, &rebirth, options.node);
    check_new_life(&node, 2);
    ck_assert_uint_eq(lq_replica_status(node.replica).boot, restored[_i].boot);
    node_done(&node);
    lq_rebirth_done(&rebirth);
    lq_buffer_done(&full);
}
END_TEST

/* A backup has no more than was in the table then. */
START_TEST(a_backup_is_of_its_time)
{
    struct lq_rebirth_options options = usual_options();
    struct lq_rebirth rebirth;
    ck_assert(lq_rebirth_restore(backup.bytes, backup.len, &options, &rebirth));
    ck_assert_uint_eq(rebirth.last_index, 4);
    ck_assert_uint_eq(rebirth.keys, 1);
    ck_assert_uint_eq(rebirth.last_token, 1 + LQ_REBIRTH_TOKENS);
    lq_rebirth_done(&rebirth);
}
END_TEST

static Suite *rebirth_suite(void)
{
    Suite *suite = suite_create("rebirth");
    TCase *tcase = tcase_create("rebirth");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_survivor_begins_a_cluster, 0, 2);
    tcase_add_test(tcase, the_state_is_that_of_the_log);
    tcase_add_test(tcase, lives_go_on);
    tcase_add_test(tcase, a_torn_batch_is_left_out);
    tcase_add_test(tcase, a_snapshot_ahead_of_the_journal);
    tcase_add_test(tcase, old_and_new_do_not_mix);
    tcase_add_loop_test(tcase, a_backup_begins_a_cluster, 0,
                        (int)(sizeof restored / sizeof *restored));
    tcase_add_test(tcase, a_backup_is_of_its_time);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(rebirth_suite());
}
