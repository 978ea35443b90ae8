/* Crashes at random. A simulated disk takes one write at a time, as the journal asks for; a crash
 * cuts it short, so that any of its sectors may have arrived, and an entry of the directory may be
 * there or not. After each crash exactly the records of durable batches are there, and those of the
 * batch in flight if all of its sectors were. LQ_OPS is the number of batches. */
#include "test_journal_rig.h"

#include <inttypes.h>
#include <stdio.h>

#define BYTES_MAX 2500
#define LIFE      2500 /* batches before a journal ends and another begins */

struct crash {
    struct rig rig;
    size_t n_durable; /* records whose batch is durable */
    uint64_t crashes, torn, whole, lost, deleted, half_begun, restarts;
    bool is_whole;    /* the batch in flight reached the disk as a whole */
    bool has_remains; /* of a torn batch, at the end of the newest segment */
    uint8_t bytes[BYTES_MAX];
};

static bool happens(struct crash *crash, uint64_t one_in)
{
    return lq_rand_below(&crash->rig.rand, one_in) == 0;
}

/* ---- What the log must be: all records ever, replayed without any cleverness. */

#define LOG_MAX 50000

struct plain_log {
    uint64_t first, last;
    uint64_t prints[LOG_MAX]; /* of entries first to last */
};

static void replay(struct plain_log *log, const struct trace *trace)
{
    log->first = 1;
    log->last = 0;
    for (size_t i = 0; i < trace->n; i++) {
        const struct lq_journal_record *record = &trace->items[i].record;
        if (record->kind == LQ_JOURNAL_ENTRY) {
            LQ_HOT_ASSERT(record->index < LOG_MAX && record->index >= log->first);
            log->last = record->index;
            log->prints[record->index] = trace->items[i].print;
        } else if (record->kind == LQ_JOURNAL_RESTART) {
            log->first = record->index + 1;
            log->last = record->index;
        }
    }
}

/* The log that a receiver of records builds, by the rule that lq_journal.h states. */
struct built_log {
    struct reading reading;
    struct plain_log log;
};

static void build(void *context, const struct lq_journal_record *record,
                  const struct lq_journal_state *state)
{
    struct built_log *built = context;
    reading_take(&built->reading, record, state);
    if (record->kind == LQ_JOURNAL_ENTRY) {
        LQ_HOT_ASSERT(record->index < LOG_MAX);
        built->log.prints[record->index] = print_of(record);
    }
    built->log.first = state->first_index;
    built->log.last = state->tail.last.index;
}

static void check_log(const struct built_log *built, const struct trace *trace)
{
    static struct plain_log plain;
    const struct lq_journal_state *state = &built->reading.scan.state;
    uint64_t first = state->first_index;
    replay(&plain, trace);
    LQ_HOT_ASSERT(state->tail.last.index == plain.last && first >= plain.first);
    LQ_HOT_ASSERT(first <= state->tail.mark.index + 1);
    for (uint64_t i = first; i <= plain.last; i++) {
        LQ_HOT_ASSERT(built->log.prints[i] == plain.prints[i]);
    }
}

/* ---- Crashes. */

/* A new process: recovers, checks, goes on. What was not durable is gone from the trace. */
static void recover(struct crash *crash)
{
    static struct built_log built;
    struct rig *rig = &crash->rig;
    struct reading *reading = &built.reading;
    bool was_in_flight = rig->journal.is_in_flight;
    size_t n = crash->is_whole ? rig->n_finished : crash->n_durable;
    uint64_t oldest = rig->files.names[0];
    *reading = (struct reading){0};
    lq_journal_scan_init(&reading->scan, CLUSTER, NODE, build, &built);
    for (size_t i = 0; i < rig->files.n; i++) {
        LQ_HOT_ASSERT(lq_journal_scan_segment(&reading->scan, rig->files.names[i],
                                              rig->files.bytes[i], rig->files.lens[i]));
    }
    reading->verdict = lq_journal_scan_end(&reading->scan, &reading->finding);
    LQ_HOT_ASSERT(reading->verdict == LQ_JOURNAL_CLEAN ||
                  (reading->verdict == LQ_JOURNAL_TORN && (crash->has_remains || was_in_flight) &&
                   !crash->is_whole));
    crash->has_remains = reading->verdict == LQ_JOURNAL_TORN;
    crash->torn += reading->verdict == LQ_JOURNAL_TORN;
    crash->whole += crash->is_whole;
    crash->lost += rig->n_finished - n;
    rig->written.n = rig->n_finished = crash->n_durable = n;
    LQ_HOT_ASSERT(reading_equals(reading, &rig->written, oldest, UINT64_MAX));
    check_log(&built, &rig->written);
    lq_journal_done(&rig->journal);
    lq_journal_resume(&rig->journal, &reading->scan,
                      (8 + lq_rand_below(&rig->rand, 12)) * LQ_SECTOR);
    reading_done(reading);
    crash->is_whole = false;
    crash->crashes++;
    rig_put_boot(rig, rig->journal.state.tail.boot + 1);
}

/* Any of the sectors of a write arrive. Returns whether all did. */
static bool write_some(struct crash *crash, const struct lq_journal_write *write)
{
    uint8_t *at = files_find(&crash->rig.files, write->number) + write->offset;
    uint64_t one_in = 1 + lq_rand_below(&crash->rig.rand, 3);
    bool is_whole = true;
    for (size_t i = 0; i < write->len; i += LQ_SECTOR) {
        if (happens(crash, one_in)) {
            memcpy(at + i, write->bytes + i, LQ_SECTOR);
        } else {
            is_whole = false;
        }
    }
    return is_whole;
}

/* ---- Steps of a life; each returns false when the process died in it. */

static bool begin_segment(struct crash *crash)
{
    struct rig *rig = &crash->rig;
    struct lq_journal_write header, seal;
    lq_journal_begin_segment(&rig->journal, lq_rand_next(&rig->rand) | 1, &header, &seal);
    if (rig->files.n > 0 && happens(crash, 10)) {
        return false; /* the file has no name yet */
    }
    (void)files_add(&rig->files, header.number, (size_t)rig->journal.segment_bytes);
    files_write(&rig->files, &header);
    if (happens(crash, 10)) {
        crash->half_begun++;
        if (seal.len > 0) {
            (void)write_some(crash, &seal);
        }
        return false;
    }
    if (seal.len > 0) {
        files_write(&rig->files, &seal);
    }
    return true;
}

static bool flush(struct crash *crash)
{
    struct rig *rig = &crash->rig;
    struct lq_journal_write write;
    if (!lq_journal_finish(&rig->journal, &write)) {
        if (!begin_segment(crash)) {
            return false;
        }
        LQ_HOT_ASSERT(lq_journal_finish(&rig->journal, &write));
    }
    for (; rig->n_finished < rig->written.n; rig->n_finished++) {
        rig->written.items[rig->n_finished].segment = write.number;
        rig->written.items[rig->n_finished].seq = rig->journal.segment.seq;
    }
    if (happens(crash, 2)) { /* the next batch gathers already */
        struct lq_journal_record record =
            draw_record(&rig->rand, &rig->journal.state, crash->bytes, BYTES_MAX);
        (void)rig_try(rig, record);
    }
    if (happens(crash, 6)) {
        crash->is_whole = write_some(crash, &write);
        return false;
    }
    files_write(&rig->files, &write);
    lq_journal_durable(&rig->journal);
    crash->has_remains = false;
    crash->n_durable = rig->n_finished;
    return true;
}

static bool delete_old(struct crash *crash)
{
    struct rig *rig = &crash->rig;
    uint64_t kept = lq_rand_below(&rig->rand, 20);
    uint64_t first = rig->journal.durable_mark + 1;
    uint64_t number;
    first = first > kept ? first - kept : 1;
    while ((number = lq_journal_deletable(&rig->journal, first)) != 0) {
        bool dies = happens(crash, 20);
        LQ_HOT_ASSERT(number == rig->files.names[0]);
        if (dies && happens(crash, 2)) {
            return false;
        }
        files_remove(&rig->files, 0);
        crash->deleted++;
        if (dies) {
            return false;
        }
        lq_journal_deleted(&rig->journal);
    }
    return true;
}

static bool live(struct crash *crash)
{
    struct rig *rig = &crash->rig;
    uint64_t n = 1 + lq_rand_below(&rig->rand, 6);
    for (uint64_t i = 0; i < n; i++) {
        struct lq_journal_record record = draw_record(&rig->rand, &rig->journal.state, crash->bytes,
                                                      happens(crash, 4) ? BYTES_MAX : 100);
        crash->restarts += record.kind == LQ_JOURNAL_RESTART;
        if (!rig_try(rig, record)) {
            break;
        }
    }
    if (rig->files.n > FILES_MAX - 8) { /* nothing went for long */
        const struct lq_journal_tail *tail = &rig->journal.state.tail;
        struct lq_journal_record mark = {
            .kind = LQ_JOURNAL_RESTART, .index = tail->last.index + 1, .term = tail->term};
        (void)rig_try(rig, mark);
    }
    return flush(crash) && (!happens(crash, 3) || delete_old(crash)) && !happens(crash, 30);
}

/* A journal of a few thousand batches, from its bootstrap on. */
static void live_long(struct crash *crash, uint64_t stream, uint64_t batches)
{
    rig_init(&crash->rig, LQ_JOURNAL_SEGMENT_MIN, stream);
    lq_rand_fill(&crash->rig.rand, crash->bytes, BYTES_MAX);
    (void)begin_segment(crash);
    crash->n_durable = 0;
    for (uint64_t i = 0; i < batches; i++) {
        if (!live(crash)) {
            recover(crash);
        }
    }
    rig_done(&crash->rig);
}

START_TEST(durable_records_survive_and_others_do_not_come_half)
{
    uint64_t batches = lq_test_number("LQ_OPS", 10000), done = 0;
    struct crash *crash = calloc(1, sizeof *crash);
    while (done < batches) {
        uint64_t n = batches - done < LIFE ? batches - done : LIFE;
        live_long(crash, done, n);
        done += n;
    }
    (void)printf("%" PRIu64 " crashes, %" PRIu64 " torn and %" PRIu64
                 " whole batches in flight, %" PRIu64 " records lost before they were durable\n"
                 "%" PRIu64 " segments deleted, %" PRIu64 " half begun, %" PRIu64 " restarts\n",
                 crash->crashes, crash->torn, crash->whole, crash->lost, crash->deleted,
                 crash->half_begun, crash->restarts);
    ck_assert_uint_ge(crash->crashes, batches / 20);
    ck_assert_uint_ge(crash->torn, batches / 100);
    free(crash);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_crash");
    TCase *tcase = tcase_create("crash");
    (void)lq_test_seed();
    tcase_set_timeout(tcase, 600);
    tcase_add_test(tcase, durable_records_survive_and_others_do_not_come_half);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
