/* The journal at work, driven by hand: what is asked of the disk, and what is called durable. */
#include "lq_heap.h"
#include "lq_mem.h"
#include "lq_store.h"
#include "lq_test.h"
#include "support/hot_assert.h"

#include <string.h>

#define SEGMENT_BYTES LQ_JOURNAL_SEGMENT_MIN
#define SEGMENTS_MAX  400

static struct lq_effects effects;
static struct lq_store store;
static uint8_t *files[SEGMENTS_MAX + 1]; /* by number; NULL: not there */
static struct lq_effect asked;           /* the last one that was taken */
static uint64_t now_ms, salt;

static void set_up(void)
{
    struct lq_journal journal;
    lq_effects_init(&effects);
    lq_journal_init(&journal, 7, 1, SEGMENT_BYTES);
    lq_store_init(&store, &journal, &effects);
    now_ms = 1000;
    salt = 77;
}

static void tear_down(void)
{
    lq_store_done(&store);
    lq_effects_done(&effects);
    for (size_t i = 0; i <= SEGMENTS_MAX; i++) {
        lq_free(files[i]);
        files[i] = NULL;
    }
}

/* ---- The disk. */

static bool take(void)
{
    return lq_effects_take(&effects, &asked);
}

static void takes(enum lq_effect_kind kind)
{
    LQ_HOT_ASSERT(take());
    LQ_HOT_ASSERT(asked.kind == kind);
}

static void takes_nothing(void)
{
    LQ_HOT_ASSERT(!take());
}

static void write_out(const struct lq_journal_write *write)
{
    if (write->len > 0) {
        LQ_HOT_ASSERT(write->number <= SEGMENTS_MAX && files[write->number] != NULL);
        LQ_HOT_ASSERT(write->offset + write->len <= SEGMENT_BYTES);
        memcpy(files[write->number] + write->offset, write->bytes, write->len);
    }
}

static void begin_segment(void)
{
    lq_store_allocated(&store, ++salt);
    takes(LQ_EFFECT_SEGMENT);
    files[asked.write.number] = lq_calloc(1, SEGMENT_BYTES);
    write_out(&asked.write);
    write_out(&asked.seal);
    lq_store_segment_ready(&store);
}

/* Does what was asked for, as far as the batch that is in flight by now, if any. */
static void run(void)
{
    lq_store_run(&store, now_ms);
    if (take()) {
        if (asked.kind == LQ_EFFECT_ALLOCATE) {
            begin_segment();
            takes(LQ_EFFECT_WRITE);
        }
        LQ_HOT_ASSERT(asked.kind == LQ_EFFECT_WRITE);
    }
}

static uint64_t finish(void)
{
    LQ_HOT_ASSERT(asked.kind == LQ_EFFECT_WRITE);
    write_out(&asked.write);
    return lq_store_written(&store);
}

/* ---- Records. */

static uint64_t put_term(uint64_t term)
{
    return lq_store_put(&store, &(struct lq_journal_record){.kind = LQ_JOURNAL_TERM, .term = term});
}

static uint64_t put(uint64_t index, uint64_t term, uint32_t len)
{
    static const uint8_t bytes[1000];
    return lq_store_put(&store, &(struct lq_journal_record){
                                    .kind = LQ_JOURNAL_ENTRY,
                                    .type = 1,
                                    .len = len,
                                    .index = index,
                                    .term = term,
                                    .check = lq_journal_entry_check(index, term, 1, bytes, len),
                                    .bytes = bytes});
}

/* ---- */

START_TEST(one_batch_is_in_flight)
{
    uint64_t first, second;
    first = put_term(1);
    lq_store_run(&store, now_ms);
    takes(LQ_EFFECT_ALLOCATE);
    ck_assert_uint_eq(asked.len, SEGMENT_BYTES);
    lq_store_run(&store, now_ms); /* asks once */
    takes_nothing();
    begin_segment();
    takes(LQ_EFFECT_WRITE);
    second = put(1, 1, 10);
    lq_store_run(&store, now_ms);
    takes_nothing();
    ck_assert_uint_eq(lq_store_durable(&store), 0);
    ck_assert_uint_eq(finish(), 0);
    ck_assert_uint_eq(lq_store_durable(&store), first);
    lq_store_run(&store, now_ms);
    takes(LQ_EFFECT_WRITE);
    ck_assert_uint_lt(lq_store_durable(&store), second);
    ck_assert_uint_eq(finish(), 1);
    ck_assert_uint_eq(lq_store_durable(&store), second);
    lq_store_run(&store, now_ms);
    takes_nothing();
    ck_assert_uint_eq(lq_store_deadline(&store), LQ_NEVER);
}
END_TEST

static uint64_t scanned;

static void on_record(void *context, const struct lq_journal_record *record,
                      const struct lq_journal_state *state)
{
    (void)context;
    (void)state;
    if (record->kind == LQ_JOURNAL_ENTRY) {
        ck_assert_uint_eq(record->index, ++scanned);
    }
}

START_TEST(records_that_wait_keep_their_order)
{
    struct lq_journal_scan scan;
    struct lq_journal_finding finding;
    (void)put_term(1);
    for (uint64_t index = 1; index <= 100; index++) {
        uint64_t position = put(index, 1, index % 3 == 0 ? 900 : 1);
        ck_assert_uint_eq(position, index + 1);
    }
    ck_assert(!lq_list_is_empty(&store.waiting));
    ck_assert_uint_gt(lq_store_backlog(&store), 33 * 900);
    for (uint64_t index = 0, turn = 0; index < 100; turn++) {
        uint64_t reported;
        run();
        reported = finish();
        ck_assert_uint_ge(reported, index);
        ck_assert_uint_eq(lq_store_durable(&store), reported + 1);
        index = reported;
        ck_assert_uint_lt(turn, 100);
    }
    ck_assert_uint_lt(lq_store_backlog(&store), 100); /* heads of batches */
    lq_journal_scan_init(&scan, 7, 1, on_record, NULL);
    for (uint64_t number = 1; files[number] != NULL; number++) {
        ck_assert(lq_journal_scan_segment(&scan, number, files[number], SEGMENT_BYTES));
    }
    ck_assert_int_eq(lq_journal_scan_end(&scan, &finding), LQ_JOURNAL_CLEAN);
    ck_assert_uint_eq(scanned, 100);
    lq_journal_scan_done(&scan);
}
END_TEST

START_TEST(a_write_of_replaced_entries_is_not_reported)
{
    (void)put_term(1);
    for (uint64_t index = 1; index <= 6; index++) {
        (void)put(index, 1, 10);
    }
    run();
    (void)put_term(2);
    (void)put(4, 2, 10); /* while 1 to 6 are in flight */
    ck_assert_uint_eq(finish(), 3);
    run();
    (void)put(5, 2, 10);
    ck_assert_uint_eq(finish(), 4);
    run();
    ck_assert_uint_eq(finish(), 5);
}
END_TEST

START_TEST(the_lowest_of_several_replacements_counts)
{
    (void)put_term(1);
    for (uint64_t index = 1; index <= 9; index++) {
        (void)put(index, 1, 10);
    }
    run();
    (void)put_term(2);
    (void)put(5, 2, 10);
    (void)put(6, 2, 10);
    (void)put(7, 2, 10);
    (void)put_term(3);
    (void)put(7, 3, 10);
    (void)put(8, 3, 10);
    ck_assert_uint_eq(finish(), 4);
    run();
    ck_assert_uint_eq(finish(), 8);
}
END_TEST

/* The replacement itself waits for room in a batch. */
START_TEST(a_replacement_that_waits_counts)
{
    (void)put_term(1);
    for (uint64_t index = 1; index <= 3; index++) {
        (void)put(index, 1, 10);
    }
    run();
    for (uint64_t index = 4; index <= 12; index++) {
        (void)put(index, 1, 900);
    }
    ck_assert(!lq_list_is_empty(&store.waiting));
    (void)put_term(2);
    (void)put(2, 2, 10);
    ck_assert_uint_eq(finish(), 1);
    for (int i = 0; i < 6 && lq_store_durable(&store) < store.n_put; i++) {
        run();
        ck_assert_uint_eq(finish(), lq_store_durable(&store) < store.n_put ? 1 : 2);
    }
    ck_assert_uint_eq(lq_store_durable(&store), store.n_put);
}
END_TEST

START_TEST(after_a_restart_of_the_log_earlier_writes_say_nothing)
{
    uint64_t position;
    (void)put_term(5);
    for (uint64_t index = 1; index <= 9; index++) {
        (void)put(index, 5, 10);
    }
    run();
    position = lq_store_put(
        &store, &(struct lq_journal_record){.kind = LQ_JOURNAL_RESTART, .index = 4, .term = 5});
    (void)put(5, 5, 10);
    ck_assert_uint_le(finish(), 4); /* no more than what the snapshot has */
    ck_assert_uint_lt(lq_store_durable(&store), position);
    run();
    ck_assert_uint_eq(finish(), 5);
    ck_assert_uint_gt(lq_store_durable(&store), position);
}
END_TEST

START_TEST(a_full_disk_is_asked_again_and_loses_nothing)
{
    (void)put_term(1);
    (void)put(1, 1, 10);
    lq_store_run(&store, now_ms);
    takes(LQ_EFFECT_ALLOCATE);
    lq_store_no_room(&store, now_ms);
    (void)put(2, 1, 10);
    lq_store_run(&store, now_ms);
    takes_nothing();
    ck_assert_uint_eq(lq_store_deadline(&store), now_ms + LQ_STORE_RETRY_MS);
    lq_store_run(&store, now_ms + LQ_STORE_RETRY_MS - 1);
    takes_nothing();
    now_ms += LQ_STORE_RETRY_MS;
    lq_store_run(&store, now_ms);
    takes(LQ_EFFECT_ALLOCATE);
    lq_store_no_room(&store, now_ms);
    now_ms += LQ_STORE_RETRY_MS;
    lq_store_run(&store, now_ms);
    takes(LQ_EFFECT_ALLOCATE);
    begin_segment();
    takes(LQ_EFFECT_WRITE);
    ck_assert_uint_eq(finish(), 2);
}
END_TEST

/* Fills segments until number `n` was begun. */
static uint64_t fill_to(uint64_t n, uint64_t index)
{
    while (store.journal.segment.number < n) {
        (void)put(++index, 1, 900);
        run();
        (void)finish();
    }
    return index;
}

START_TEST(what_the_log_does_without_is_trimmed_one_by_one)
{
    uint64_t last;
    (void)put_term(1);
    last = fill_to(5, 0);
    lq_store_trim(&store, last + 1);
    takes_nothing(); /* no snapshot covers it */
    (void)lq_store_put(
        &store, &(struct lq_journal_record){.kind = LQ_JOURNAL_MARK, .index = last, .term = 1});
    run();
    lq_store_trim(&store, last + 1);
    takes_nothing(); /* the mark is not durable */
    asked.kind = LQ_EFFECT_WRITE;
    asked.write = (struct lq_journal_write){0};
    (void)lq_store_written(&store);
    lq_store_trim(&store, 1);
    takes_nothing(); /* the log is kept from 1 on */
    for (uint64_t number = 1; number <= 4; number++) {
        lq_store_trim(&store, last + 1);
        takes(LQ_EFFECT_DELETE);
        ck_assert_uint_eq(asked.number, number);
        lq_store_trim(&store, last + 1);
        takes_nothing(); /* one at a time */
        lq_store_deleted(&store);
    }
    lq_store_trim(&store, last + 1);
    takes_nothing(); /* the newest stays */
}
END_TEST

/* Its seal is still to be written to it. */
START_TEST(a_segment_is_not_deleted_while_its_successor_is_begun)
{
    uint64_t last;
    (void)put_term(1);
    last = fill_to(2, 0);
    (void)lq_store_put(
        &store, &(struct lq_journal_record){.kind = LQ_JOURNAL_MARK, .index = last, .term = 1});
    run();
    (void)finish();
    lq_store_trim(&store, last + 1);
    takes(LQ_EFFECT_DELETE);
    lq_store_deleted(&store);
    while (true) { /* until a third segment is needed */
        (void)put(++last, 1, 900);
        lq_store_run(&store, now_ms);
        LQ_HOT_ASSERT(take());
        if (asked.kind == LQ_EFFECT_ALLOCATE) {
            break;
        }
        (void)finish();
    }
    (void)lq_store_put(
        &store, &(struct lq_journal_record){.kind = LQ_JOURNAL_MARK, .index = last, .term = 1});
    lq_store_trim(&store, last + 1);
    takes_nothing();
    lq_store_allocated(&store, ++salt);
    takes(LQ_EFFECT_SEGMENT);
    files[asked.write.number] = lq_calloc(1, SEGMENT_BYTES);
    write_out(&asked.write);
    lq_store_trim(&store, last + 1);
    ck_assert(!store.is_deleting);
    write_out(&asked.seal);
    lq_store_segment_ready(&store);
    takes(LQ_EFFECT_WRITE);
    (void)finish();
    lq_store_trim(&store, last + 1);
    LQ_HOT_ASSERT(!take() || asked.kind == LQ_EFFECT_DELETE);
}
END_TEST

/* ---- At random, against what was put where. */

struct model {
    uint64_t positions[2000]; /* of the record that made the present entry at an index */
    uint64_t terms[2000];
    uint64_t base, last, term;
};

static void put_one(struct model *model, struct lq_rand *rand)
{
    uint64_t index = model->last + 1;
    if (lq_rand_below(rand, 8) == 0) {
        index = model->base + 1 + lq_rand_below(rand, model->last - model->base + 1);
        (void)put_term(++model->term);
    } else if (lq_rand_below(rand, 60) == 0) {
        uint64_t above = model->last > model->base ? model->last - model->base : 1;
        model->base += 1 + lq_rand_below(rand, above + 4); /* within the log, or behind it */
        model->last = model->base;
        (void)put_term(++model->term);
        (void)lq_store_put(&store, &(struct lq_journal_record){.kind = LQ_JOURNAL_RESTART,
                                                               .index = model->base,
                                                               .term = model->term});
        return;
    }
    model->last = index;
    model->terms[index] = model->term;
    model->positions[index] = put(index, model->term, (uint32_t)lq_rand_below(rand, 1000));
}

START_TEST(what_is_reported_is_durable_and_all_that_is)
{
    static struct model model;
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    bool flies = false;
    model = (struct model){.term = 1};
    (void)put_term(1);
    for (int i = 0; i < 1000 && model.last < 1900; i++) {
        if (lq_rand_below(&rand, 2) == 0) {
            put_one(&model, &rand);
        }
        if (!flies && lq_store_durable(&store) < store.n_put) {
            run();
            flies = true;
        } else if (flies && lq_rand_below(&rand, 3) == 0) {
            uint64_t reported = finish(), expected = model.base;
            flies = false;
            while (expected < model.last &&
                   model.positions[expected + 1] <= lq_store_durable(&store)) {
                expected++;
            }
            if (expected > model.base) {
                LQ_HOT_ASSERT(reported == expected);
            } else {
                LQ_HOT_ASSERT(reported <= model.base);
            }
        }
    }
}
END_TEST

static Suite *store_suite(void)
{
    Suite *suite = suite_create("store");
    TCase *tcase = tcase_create("store");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, one_batch_is_in_flight);
    tcase_add_test(tcase, records_that_wait_keep_their_order);
    tcase_add_test(tcase, a_write_of_replaced_entries_is_not_reported);
    tcase_add_test(tcase, the_lowest_of_several_replacements_counts);
    tcase_add_test(tcase, a_replacement_that_waits_counts);
    tcase_add_test(tcase, after_a_restart_of_the_log_earlier_writes_say_nothing);
    tcase_add_test(tcase, a_full_disk_is_asked_again_and_loses_nothing);
    tcase_add_test(tcase, what_the_log_does_without_is_trimmed_one_by_one);
    tcase_add_test(tcase, a_segment_is_not_deleted_while_its_successor_is_begun);
    tcase_add_loop_test(tcase, what_is_reported_is_durable_and_all_that_is, 0, 30);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(store_suite());
}
