/* Snapshots that fail, travel in pieces or arrive damaged, and the files that are left. */
#include "lq_replica_limits.h"
#include "lq_test.h"
#include "support/replica_disk.h"
#include "support/replica_rig.h"

#include <stdio.h>
#include <string.h>

/* How long a disk without room for a snapshot is left alone (lq_snapshots.c). */
#define RETRY_MS 5000

/* A follower asks anew for what did not come: raft's patience. */
#define ANEW_MS 60000

#define SNAPSHOT_ENTRIES 64

static struct lq_nodes nodes;
static struct lq_rig_client *client;
static struct lq_rand rand_of_keys;
static unsigned n_locks;

/* What went over the wire. */
static uint64_t n_chunks, n_results, n_refused, offset_max;
static uint64_t pass_below; /* chunks from here on are lost */

static enum lq_nodes_fate count_chunks(uint32_t from, uint32_t to, const struct lq_message *message)
{
    (void)from;
    (void)to;
    if (message->kind == LQ_MESSAGE_CHUNK && message->offset >= pass_below) {
        return LQ_NODES_DROP;
    }
    if (message->kind == LQ_MESSAGE_CHUNK) {
        n_chunks++;
        offset_max = message->offset > offset_max ? message->offset : offset_max;
    }
    n_results += message->kind == LQ_MESSAGE_CHUNK_RESULT;
    n_refused += message->kind == LQ_MESSAGE_CHUNK_RESULT && message->is_refused;
    return LQ_NODES_PASS;
}

static void set_up(void)
{
    lq_nodes_init(&nodes, 3);
    nodes.options.snapshot_entries = SNAPSHOT_ENTRIES;
    nodes.options.trailing_entries = 4;
    (void)lq_nodes_form(&nodes, 3);
    lq_nodes_lead(&nodes, 1);
    client = lq_nodes_connect(&nodes, 1);
    n_locks = 0;
    n_chunks = n_results = n_refused = offset_max = 0;
    pass_below = UINT64_MAX;
    nodes.filter = count_chunks;
    rand_of_keys = lq_rand_of(lq_test_seed(), 1);
}

static void tear_down(void)
{
    lq_nodes_done(&nodes);
}

/* ---- Locks, an entry each or many in one. */

/* One more lock; its key is of that many letters that nothing packs. */
static void take_lock(size_t key_len)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    char key[1024];
    int head = snprintf(key, sizeof key, "%u-", n_locks);
    for (size_t i = (size_t)head; i < key_len; i++) {
        key[i] = letters[lq_rand_below(&rand_of_keys, sizeof letters - 1)];
    }
    key[key_len > (size_t)head ? key_len : (size_t)head] = 0;
    lq_rig_say(client, "A 0 255 %u %s", ++n_locks, key);
}

static void take_locks(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        take_lock(8);
        lq_nodes_advance(&nodes, 4);
    }
}

static void take_large_locks(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        take_lock(900);
        if (i % 8 == 7) {
            lq_nodes_advance(&nodes, 2);
        }
    }
    lq_nodes_advance(&nodes, 100);
}

static uint64_t n_locks_at(uint32_t id)
{
    return lq_table_counts(lq_replica_table(nodes.nodes[id].replica)).keys;
}

/* ---- Files. */

static struct lq_nodes_file *temporary_file(uint32_t id)
{
    for (size_t i = 0; i < sizeof nodes.nodes[id].files / sizeof nodes.nodes[id].files[0]; i++) {
        struct lq_nodes_file *file = &nodes.nodes[id].files[i];
        if (file->bytes != NULL && !file->is_finished) {
            return file;
        }
    }
    return NULL;
}

static size_t n_finished_files(uint32_t id, uint64_t *ret_newest, uint64_t *ret_oldest)
{
    size_t n = 0;
    *ret_newest = 0;
    *ret_oldest = UINT64_MAX;
    for (size_t i = 0; i < sizeof nodes.nodes[id].files / sizeof nodes.nodes[id].files[0]; i++) {
        const struct lq_nodes_file *file = &nodes.nodes[id].files[i];
        if (file->bytes != NULL && file->is_finished) {
            n++;
            *ret_newest = file->name.index > *ret_newest ? file->name.index : *ret_newest;
            *ret_oldest = file->name.index < *ret_oldest ? file->name.index : *ret_oldest;
        }
    }
    return n;
}

/* Whether the held disk is asked for something of that kind. */
static bool is_asked(uint32_t id, enum lq_effect_kind kind)
{
    for (size_t i = 0; i < nodes.nodes[id].n_pending; i++) {
        if (nodes.nodes[id].pending[i].kind == kind) {
            return true;
        }
    }
    return false;
}

/* The disk will not do it. */
static void forget(uint32_t id, enum lq_effect_kind kind)
{
    struct lq_nodes_node *node = &nodes.nodes[id];
    size_t n = 0;
    for (size_t i = 0; i < node->n_pending; i++) {
        if (node->pending[i].kind != kind) {
            node->pending[n++] = node->pending[i];
        }
    }
    node->n_pending = n;
}

static void start_again(uint32_t id)
{
    lq_nodes_kill(&nodes, id);
    lq_nodes_advance(&nodes, 10);
    lq_nodes_start(&nodes, id);
    lq_nodes_advance(&nodes, 1000);
}

/* ---- An own snapshot. */

/* Until node 2 has stored what makes a snapshot due, and does not know yet that it is committed.
 * Then its disk does nothing more, and it goes on until it has asked for the snapshot. */
static void hold_an_own_snapshot(void)
{
    struct lq_replica_status status = {0};
    for (int i = 0; i < 2 * SNAPSHOT_ENTRIES && !nodes.nodes[2].holds_disk; i++) {
        lq_nodes_advance(&nodes, 60);
        take_lock(8);
        lq_nodes_advance(&nodes, 1);
        status = lq_nodes_status(&nodes, 2);
        nodes.nodes[2].holds_disk = status.durable_index >= SNAPSHOT_ENTRIES;
    }
    ck_assert_uint_lt(status.applied_index, SNAPSHOT_ENTRIES);
    ck_assert_uint_eq(status.durable_index, status.last_index);
    ck_assert_uint_eq(status.snapshot_index, 0);
    ck_assert(nodes.nodes[2].holds_disk);
    lq_nodes_advance(&nodes, 100);
    ck_assert(is_asked(2, LQ_EFFECT_SNAPSHOT_FINISH));
    ck_assert_ptr_nonnull(temporary_file(2));
}

START_TEST(an_own_snapshot_without_room_is_tried_again_later)
{
    uint64_t newest, oldest, first = lq_nodes_status(&nodes, 2).first_index;
    hold_an_own_snapshot();
    forget(2, LQ_EFFECT_SNAPSHOT_FINISH);
    lq_replica_snapshot_failed(nodes.nodes[2].replica, false);
    nodes.nodes[2].holds_disk = false;
    lq_nodes_advance(&nodes, 20);
    ck_assert_ptr_null(temporary_file(2)); /* it was dropped */
    take_locks(SNAPSHOT_ENTRIES);
    ck_assert_uint_eq(lq_nodes_status(&nodes, 2).snapshot_index, 0);
    ck_assert_uint_eq(lq_nodes_status(&nodes, 2).first_index, first);
    ck_assert_uint_gt(lq_nodes_status(&nodes, 1).snapshot_index, 0); /* others are not affected */
    ck_assert_uint_eq(n_finished_files(2, &newest, &oldest), 0);
    lq_nodes_advance(&nodes, RETRY_MS);
    ck_assert_uint_ge(lq_nodes_status(&nodes, 2).snapshot_index, SNAPSHOT_ENTRIES);
    ck_assert_uint_gt(lq_nodes_status(&nodes, 2).first_index, first);
    ck_assert_uint_eq(n_finished_files(2, &newest, &oldest), 1);
    ck_assert_uint_eq(newest, lq_nodes_status(&nodes, 2).snapshot_index);
    ck_assert_ptr_null(temporary_file(2));
    start_again(2);
    ck_assert(lq_nodes_status(&nodes, 2).is_serving);
    ck_assert_uint_eq(n_locks_at(2), n_locks);
}
END_TEST

/* The shell may tell it late, or twice. */
START_TEST(a_failure_of_no_snapshot_is_nothing)
{
    lq_replica_snapshot_failed(nodes.nodes[2].replica, false);
    lq_replica_snapshot_failed(nodes.nodes[2].replica, true);
    take_locks(2 * SNAPSHOT_ENTRIES);
    lq_nodes_advance(&nodes, 100);
    ck_assert_uint_ge(lq_nodes_status(&nodes, 2).snapshot_index, SNAPSHOT_ENTRIES);
    lq_replica_snapshot_failed(nodes.nodes[2].replica, false);
    lq_nodes_advance(&nodes, 100);
    ck_assert_uint_eq(n_refused, 0);
    ck_assert_uint_eq(n_locks_at(2), n_locks);
}
END_TEST

START_TEST(the_two_newest_files_stay)
{
    uint64_t newest, oldest, last = 0, before = 0;
    for (int i = 0; i < 400; i++) {
        uint64_t index = lq_nodes_status(&nodes, 3).snapshot_index;
        if (index != last) {
            size_t n = n_finished_files(3, &newest, &oldest);
            before = last;
            last = index;
            ck_assert_uint_eq(newest, last);
            ck_assert_uint_eq(n, before == 0 ? 1 : 2);
            ck_assert_uint_eq(oldest, before == 0 ? last : before);
            ck_assert_ptr_null(temporary_file(3));
        }
        take_locks(1);
    }
    ck_assert_uint_ge(before, 3 * SNAPSHOT_ENTRIES);
    start_again(3); /* it knows of the newest only: the other one stays until the next start */
    take_locks(3 * SNAPSHOT_ENTRIES);
    lq_nodes_advance(&nodes, 1000);
    ck_assert_uint_le(n_finished_files(3, &newest, &oldest), 3);
    ck_assert_uint_eq(newest, lq_nodes_status(&nodes, 3).snapshot_index);
    start_again(3);
    ck_assert_uint_eq(n_locks_at(3), n_locks);
}
END_TEST

/* ---- A snapshot of the leader. */

/* Node 3 lags so far behind that only a snapshot helps, of some hundred kilobytes. */
static void make_node_3_lag(void)
{
    lq_nodes_kill(&nodes, 3);
    take_large_locks(800);
    take_locks(SNAPSHOT_ENTRIES + 8);
    lq_nodes_advance(&nodes, 200);
    ck_assert_uint_gt(lq_nodes_status(&nodes, 1).first_index, 100);
    lq_nodes_start(&nodes, 3);
}

/* Until node 3 serves. */
static void wait_for_node_3(void)
{
    uint64_t until = nodes.now_ms + ANEW_MS;
    while (nodes.now_ms < until && !lq_nodes_status(&nodes, 3).is_serving) {
        lq_nodes_advance(&nodes, 10);
    }
    ck_assert(lq_nodes_status(&nodes, 3).is_serving);
    lq_nodes_advance(&nodes, 200);
    ck_assert_uint_eq(n_locks_at(3), n_locks_at(1)); /* the leases may have ended */
    ck_assert_ptr_null(temporary_file(3));
}

/* Node 3 works from what it got, also after a start. */
static void judge_node_3(void)
{
    struct lq_rig_client *third;
    uint64_t newest, oldest;
    ck_assert_uint_ge(n_finished_files(3, &newest, &oldest), 1);
    ck_assert_uint_eq(newest, lq_nodes_status(&nodes, 3).snapshot_index);
    ck_assert_uint_eq(lq_replica_members(nodes.nodes[3].replica)->n, 3);
    start_again(3);
    ck_assert_uint_eq(n_locks_at(3), n_locks_at(1));
    third = lq_nodes_connect(&nodes, 3);
    lq_rig_say(third, "A 0 60 7 of-three");
    lq_nodes_advance(&nodes, 50);
    ck_assert_uint_eq(lq_rig_hear_count(third, LQ_OP_ACQUIRE), 1);
}

START_TEST(a_large_snapshot_travels_in_pieces)
{
    make_node_3_lag();
    wait_for_node_3();
    ck_assert_uint_ge(offset_max, 3 * LQ_CHUNK_BYTES);
    ck_assert_uint_ge(n_chunks, 4);
    ck_assert_uint_ge(n_results, 4);
    ck_assert_uint_eq(n_refused, 0);
    ck_assert_uint_eq(nodes.nodes[3].notes[LQ_NOTE_INSTALLED], 1);
    judge_node_3();
}
END_TEST

/* Chunks are asked for again from where the follower is. */
START_TEST(lost_pieces_come_again)
{
    pass_below = 2 * LQ_CHUNK_BYTES;
    make_node_3_lag();
    lq_nodes_advance(&nodes, 2000);
    ck_assert_ptr_nonnull(temporary_file(3));
    ck_assert_uint_eq(temporary_file(3)->len, 2 * LQ_CHUNK_BYTES);
    pass_below = UINT64_MAX;
    n_chunks = 0;
    wait_for_node_3();
    ck_assert_uint_gt(n_chunks, 0);
    judge_node_3();
}
END_TEST

static void wait_for_a_refusal(void)
{
    ck_assert_uint_eq(n_refused, 0);
    for (int i = 0; i < 50 && n_refused == 0; i++) {
        lq_nodes_advance(&nodes, 1);
    }
    ck_assert_uint_eq(n_refused, 1);
}

START_TEST(without_room_for_a_piece_the_transfer_begins_anew_later)
{
    struct lq_nodes_file *file;
    pass_below = LQ_CHUNK_BYTES;
    make_node_3_lag();
    lq_nodes_advance(&nodes, 500);
    file = temporary_file(3);
    ck_assert_ptr_nonnull(file);
    ck_assert(file->name.is_incoming);
    ck_assert_uint_eq(file->len, LQ_CHUNK_BYTES);
    lq_replica_snapshot_failed(nodes.nodes[3].replica, true);
    wait_for_a_refusal();
    ck_assert_ptr_null(temporary_file(3));
    pass_below = UINT64_MAX;
    wait_for_node_3();
    ck_assert_uint_eq(nodes.nodes[3].notes[LQ_NOTE_INSTALLED], 1);
    judge_node_3();
}
END_TEST

/* A disk that stays full: the leader tries again and again, and the node goes on. */
START_TEST(without_room_for_long_nothing_else_happens)
{
    uint64_t newest, oldest;
    pass_below = LQ_CHUNK_BYTES;
    make_node_3_lag();
    for (int i = 0; i < 10000; i++) {
        lq_nodes_advance(&nodes, 1);
        if (temporary_file(3) != NULL) {
            lq_replica_snapshot_failed(nodes.nodes[3].replica, true);
        }
    }
    ck_assert_uint_ge(n_refused, 2);
    ck_assert_uint_eq(n_finished_files(3, &newest, &oldest), 0);
    pass_below = UINT64_MAX;
    wait_for_node_3();
    judge_node_3();
}
END_TEST

/* Node 3 is about to read back what is complete: nothing has the name of a snapshot yet. */
static void hold_before_the_verdict(void)
{
    uint64_t newest, oldest;
    make_node_3_lag();
    for (int i = 0; i < 3000 && !nodes.nodes[3].holds_disk; i++) {
        const struct lq_nodes_file *file;
        lq_nodes_advance(&nodes, 1);
        file = temporary_file(3);
        nodes.nodes[3].holds_disk = file != NULL && file->len >= 3 * LQ_CHUNK_BYTES;
    }
    for (int i = 0; i < 3000 && !is_asked(3, LQ_EFFECT_SNAPSHOT_LOAD); i++) {
        lq_nodes_advance(&nodes, 1);
    }
    ck_assert(is_asked(3, LQ_EFFECT_SNAPSHOT_LOAD));
    ck_assert_uint_eq(n_finished_files(3, &newest, &oldest), 0);
}

START_TEST(a_file_that_was_damaged_on_the_disk_gets_no_name)
{
    uint64_t newest, oldest;
    struct lq_nodes_file *file;
    hold_before_the_verdict();
    file = temporary_file(3);
    ck_assert_ptr_nonnull(file);
    file->bytes[lq_rand_below(&rand_of_keys, file->len)] ^=
        (uint8_t)(1 << lq_rand_below(&rand_of_keys, 8));
    nodes.nodes[3].holds_disk = false;
    lq_nodes_advance(&nodes, 1);
    ck_assert_ptr_null(temporary_file(3)); /* it was dropped */
    ck_assert_uint_eq(n_finished_files(3, &newest, &oldest), 0);
    ck_assert_uint_eq(nodes.nodes[3].notes[LQ_NOTE_INSTALLED], 0);
    ck_assert_uint_eq(lq_nodes_status(&nodes, 3).snapshot_index, 0);
    wait_for_node_3();
    ck_assert_uint_eq(nodes.nodes[3].notes[LQ_NOTE_INSTALLED], 1);
    judge_node_3();
}
END_TEST

/* It was good, and there was no room for its name. */
START_TEST(a_good_file_that_can_not_be_finished_comes_again)
{
    uint64_t newest, oldest;
    struct lq_nodes_file *file;
    hold_before_the_verdict();
    file = temporary_file(3);
    ck_assert_ptr_nonnull(file);
    lq_replica_snapshot_loaded(nodes.nodes[3].replica, file->bytes, file->len);
    forget(3, LQ_EFFECT_SNAPSHOT_LOAD);
    lq_nodes_advance(&nodes, 100);
    ck_assert(is_asked(3, LQ_EFFECT_SNAPSHOT_FINISH));
    forget(3, LQ_EFFECT_SNAPSHOT_FINISH);
    lq_replica_snapshot_failed(nodes.nodes[3].replica, true);
    nodes.nodes[3].holds_disk = false;
    wait_for_a_refusal();
    ck_assert_ptr_null(temporary_file(3));
    ck_assert_uint_eq(n_finished_files(3, &newest, &oldest), 0);
    wait_for_node_3();
    judge_node_3();
}
END_TEST

static Suite *snapshots_suite(void)
{
    Suite *suite = suite_create("replica_snapshots");
    TCase *tcase = tcase_create("snapshots");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, an_own_snapshot_without_room_is_tried_again_later);
    tcase_add_test(tcase, a_failure_of_no_snapshot_is_nothing);
    tcase_add_test(tcase, the_two_newest_files_stay);
    tcase_add_test(tcase, a_large_snapshot_travels_in_pieces);
    tcase_add_test(tcase, lost_pieces_come_again);
    tcase_add_test(tcase, without_room_for_a_piece_the_transfer_begins_anew_later);
    tcase_add_test(tcase, without_room_for_long_nothing_else_happens);
    tcase_add_test(tcase, a_file_that_was_damaged_on_the_disk_gets_no_name);
    tcase_add_test(tcase, a_good_file_that_can_not_be_finished_comes_again);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(snapshots_suite());
}
