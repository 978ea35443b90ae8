/* What the tests of the running disk share: a data directory, a loop, a disk, and a writer that
 * drives a journal through it as a replica does. */
#ifndef TEST_DISK_RIG_H
#define TEST_DISK_RIG_H

#include "lq_disk.h"
#include "test_datadir_rig.h"

#define SIZE (UINT64_C(64) << 10) /* of segments */

static uv_loop_t loop;
static struct lq_disk *disk;
static struct lq_disk_answer answer; /* the last one */
static struct lq_journal journal;
static struct lq_journal_write last_write;

/* ---- Life. */

static inline void start_disk(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    disk = lq_disk_start(&loop, &dir);
}

static inline void stop_disk(void)
{
    lq_disk_stop(disk);
    disk = NULL;
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static inline void disk_set_up(void)
{
    root_init();
    make_home();
    lq_journal_init(&journal, CLUSTER, NODE, SIZE);
    start_disk();
}

static inline void disk_tear_down(void)
{
    if (disk != NULL) {
        stop_disk();
    }
    lq_journal_done(&journal);
    lq_datadir_close(&dir);
    root_done();
}

/* ---- Effects and answers. */

static inline void submit(struct lq_effect effect)
{
    lq_disk_submit(disk, &effect);
}

/* Waits until the disk has an answer; Check's timeout ends a wait for nothing. */
static inline void await(void)
{
    while (!lq_disk_take(disk, &answer)) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
}

static inline void expect_answer(enum lq_disk_answer_kind kind)
{
    await();
    if (answer.kind != kind) {
        ck_abort_msg("answer %d, not %d: %s", (int)answer.kind, (int)kind,
                     answer.text == NULL ? "" : answer.text);
    }
}

/* The answer is the end: what is said, and that nothing follows. */
static inline void is_failure(const char *words)
{
    ck_assert_int_eq(answer.kind, LQ_DISK_FAILED);
    says(answer.text, words);
    says(answer.text, home);
    says(answer.text, "must stop");
    submit((struct lq_effect){.kind = LQ_EFFECT_DELETE, .number = 77});
    ck_assert(!lq_disk_take(disk, &answer));
    stop_disk();
}

static inline void expect_failure(const char *words)
{
    await();
    is_failure(words);
}

static inline void allocate(void)
{
    submit((struct lq_effect){.kind = LQ_EFFECT_ALLOCATE, .len = SIZE});
}

/* ---- The journal. */

static inline void submit_segment(void)
{
    struct lq_effect effect = {.kind = LQ_EFFECT_SEGMENT};
    lq_journal_begin_segment(&journal, 1000 + journal.segment.number, &effect.write, &effect.seal);
    submit(effect);
}

static inline void next_segment(void)
{
    allocate();
    expect_answer(LQ_DISK_ALLOCATED);
    submit_segment();
    expect_answer(LQ_DISK_SEGMENT_READY);
}

static inline void submit_write(void)
{
    submit((struct lq_effect){.kind = LQ_EFFECT_WRITE, .write = last_write});
}

/* Finishes the batch, in a new segment if need be, and writes it. */
static inline void flush(void)
{
    if (!lq_journal_finish(&journal, &last_write)) {
        next_segment();
        ck_assert(lq_journal_finish(&journal, &last_write));
    }
    submit_write();
    expect_answer(LQ_DISK_WRITTEN);
    lq_journal_durable(&journal);
}

static inline void put_term(uint64_t term)
{
    ck_assert(lq_journal_put(&journal,
                             &(struct lq_journal_record){.kind = LQ_JOURNAL_TERM, .term = term}));
}

/* Batch number `term` of a journal that holds nothing but terms. */
static inline void write_term(uint64_t term)
{
    put_term(term);
    flush();
}

/* ---- Snapshots. */

static inline struct lq_effect snapshot_effect(enum lq_effect_kind kind, uint64_t index,
                                               bool is_incoming)
{
    return (struct lq_effect){.kind = kind,
                              .snapshot = {.index = index, .term = 1, .is_incoming = is_incoming}};
}

static inline void write_snapshot_at(uint64_t index, bool is_incoming, uint64_t offset,
                                     const char *text)
{
    struct lq_effect effect = snapshot_effect(LQ_EFFECT_SNAPSHOT_WRITE, index, is_incoming);
    char *copy = strdup(text); /* gone before the disk gets to it */
    effect.offset = offset;
    effect.bytes = (const uint8_t *)copy;
    effect.len = strlen(text);
    submit(effect);
    memset(copy, 'z', effect.len);
    free(copy);
}

static inline void holds(const char *name, const char *text)
{
    struct lq_buffer bytes = read_file(name);
    ck_assert_uint_eq(bytes.len, strlen(text));
    ck_assert_mem_eq(bytes.bytes, text, bytes.len);
    lq_buffer_done(&bytes);
}

#endif
