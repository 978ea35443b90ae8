/* What the tests of the journal share: segment files in memory, a journal that writes to them,
 * prints of all records that were written, by batch, and a scan that collects what it is told. */
#ifndef TEST_JOURNAL_RIG_H
#define TEST_JOURNAL_RIG_H

#include "lq_journal_impl.h"
#include "lq_test.h"
#include "support/hot_assert.h"

#include <stdlib.h>
#include <string.h>

#define FILES_MAX 64
#define CLUSTER   UINT64_C(0xC1)
#define NODE      UINT64_C(3)

/* ---- Files. */

/* Segment files in ascending order; `names` are their numbers. */
struct files {
    uint8_t *bytes[FILES_MAX];
    size_t lens[FILES_MAX];
    uint64_t names[FILES_MAX];
    size_t n;
};

static inline uint8_t *files_add(struct files *files, uint64_t name, size_t len)
{
    LQ_HOT_ASSERT(files->n < FILES_MAX);
    files->bytes[files->n] = calloc(len, 1);
    files->lens[files->n] = len;
    files->names[files->n] = name;
    return files->bytes[files->n++];
}

static inline void files_remove(struct files *files, size_t at)
{
    free(files->bytes[at]);
    files->n--;
    memmove(files->bytes + at, files->bytes + at + 1, (files->n - at) * sizeof *files->bytes);
    memmove(files->lens + at, files->lens + at + 1, (files->n - at) * sizeof *files->lens);
    memmove(files->names + at, files->names + at + 1, (files->n - at) * sizeof *files->names);
}

static inline void files_done(struct files *files)
{
    while (files->n > 0) {
        files_remove(files, files->n - 1);
    }
}

static inline uint8_t *files_find(const struct files *files, uint64_t name)
{
    for (size_t i = 0; i < files->n; i++) {
        if (files->names[i] == name) {
            return files->bytes[i];
        }
    }
    ck_abort_msg("no segment %llu", (unsigned long long)name);
    return NULL;
}

static inline void files_write(struct files *files, const struct lq_journal_write *write)
{
    memcpy(files_find(files, write->number) + write->offset, write->bytes, write->len);
}

static inline void files_copy(struct files *ret_files, const struct files *files)
{
    *ret_files = (struct files){0};
    for (size_t i = 0; i < files->n; i++) {
        memcpy(files_add(ret_files, files->names[i], files->lens[i]), files->bytes[i],
               files->lens[i]);
    }
}

/* ---- Records. */

/* A record in 64 bits; equal records have equal prints, others hardly ever. */
static inline uint64_t print_of(const struct lq_journal_record *record)
{
    const uint64_t fields[] = {record->kind, record->type, record->len,  record->index,
                               record->term, record->vote, record->boot, record->check};
    uint64_t print = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        print = (print ^ fields[i]) * UINT64_C(0x100000001b3) + (print >> 29);
    }
    for (size_t i = 0; i < record->len; i++) {
        print = (print ^ record->bytes[i]) * UINT64_C(0x100000001b3);
    }
    return print;
}

/* Records in the order of writing, with the segment and the sequence number of their batch. */
struct traced {
    struct lq_journal_record record; /* without its bytes */
    uint64_t print, segment, seq;
};

struct trace {
    struct traced *items;
    size_t n, cap;
};

static inline void trace_add(struct trace *trace, const struct lq_journal_record *record)
{
    if (trace->n == trace->cap) {
        trace->cap = trace->cap == 0 ? 256 : 2 * trace->cap;
        trace->items = realloc(trace->items, trace->cap * sizeof *trace->items);
    }
    trace->items[trace->n] = (struct traced){.record = *record, .print = print_of(record)};
    trace->items[trace->n++].record.bytes = NULL;
}

static inline void trace_done(struct trace *trace)
{
    free(trace->items);
    *trace = (struct trace){0};
}

static inline struct lq_journal_record entry_of(uint64_t index, uint64_t term, const uint8_t *bytes,
                                                size_t len)
{
    uint8_t type = (uint8_t)(1 + index % 3);
    return (struct lq_journal_record){.kind = LQ_JOURNAL_ENTRY,
                                      .type = type,
                                      .len = (uint32_t)len,
                                      .index = index,
                                      .term = term,
                                      .check =
                                          lq_journal_entry_check(index, term, type, bytes, len),
                                      .bytes = bytes};
}

/* The term of the entry at `index`, from the last one down to where terms are known; 0: not known.
 */
static inline uint64_t term_at(const struct lq_journal_state *state, uint64_t index)
{
    for (size_t i = state->n_runs; i > 0 && index <= state->tail.last.index; i--) {
        if (state->runs[i - 1].index <= index) {
            return state->runs[i - 1].term;
        }
    }
    return 0;
}

/* Draws a mark that makes sense, or a restart somewhere behind the mark. */
static inline struct lq_journal_record draw_mark(struct lq_rand *rand,
                                                 const struct lq_journal_state *state)
{
    uint64_t from = state->tail.mark.index, to = state->tail.last.index;
    struct lq_journal_record mark = {.kind = LQ_JOURNAL_MARK};
    mark.index = from + lq_rand_below(rand, to - from + 1);
    mark.term = term_at(state, mark.index);
    if (mark.index == 0 || mark.term == 0 || lq_rand_below(rand, 8) == 0) {
        mark.kind = LQ_JOURNAL_RESTART;
        mark.index = from + 1 + lq_rand_below(rand, to - from + 4);
        mark.term = state->tail.term;
    }
    return mark;
}

/* Draws a record of any kind that makes sense after `state`; an entry has at most `len_max` of the
 * `bytes`. */
static inline struct lq_journal_record draw_record(struct lq_rand *rand,
                                                   const struct lq_journal_state *state,
                                                   const uint8_t *bytes, size_t len_max)
{
    const struct lq_journal_tail *tail = &state->tail;
    uint64_t kind = tail->term == 0 ? 0 : lq_rand_below(rand, 12);
    uint64_t index = tail->last.index + 1;
    if (kind == 0) {
        uint64_t more = tail->term == 0 ? 1 : lq_rand_below(rand, 3);
        return (struct lq_journal_record){
            .kind = LQ_JOURNAL_TERM,
            .term = tail->term + more,
            .vote = more == 0 && tail->vote != 0 ? tail->vote : lq_rand_below(rand, 4)};
    }
    if (kind == 1) {
        return (struct lq_journal_record){.kind = LQ_JOURNAL_BOOT, .boot = tail->boot + 1};
    }
    if (kind == 2) {
        return draw_mark(rand, state);
    }
    if (kind == 3) {
        index = tail->mark.index + 1 + lq_rand_below(rand, index - tail->mark.index);
    }
    return entry_of(index, tail->term, bytes, lq_rand_below(rand, len_max + 1));
}

/* ---- A journal and its files. */

struct rig {
    struct lq_journal journal;
    struct files files;
    struct trace written; /* records of finished batches, then those of the batch being gathered */
    size_t n_finished;
    struct lq_rand rand;
};

static inline void rig_init(struct rig *rig, uint64_t segment_bytes, uint64_t stream)
{
    *rig = (struct rig){.rand = lq_rand_of(lq_test_seed(), stream)};
    lq_journal_init(&rig->journal, CLUSTER, NODE, segment_bytes);
}

static inline void rig_done(struct rig *rig)
{
    lq_journal_done(&rig->journal);
    files_done(&rig->files);
    trace_done(&rig->written);
}

static inline bool rig_try(struct rig *rig, struct lq_journal_record record)
{
    if (!lq_journal_put(&rig->journal, &record)) {
        return false;
    }
    trace_add(&rig->written, &record);
    return true;
}

static inline void rig_put(struct rig *rig, struct lq_journal_record record)
{
    LQ_HOT_ASSERT(rig_try(rig, record));
}

static inline void rig_put_term(struct rig *rig, uint64_t term, uint64_t vote)
{
    rig_put(rig, (struct lq_journal_record){.kind = LQ_JOURNAL_TERM, .term = term, .vote = vote});
}

static inline void rig_put_mark(struct rig *rig, uint64_t index, uint64_t term)
{
    rig_put(rig, (struct lq_journal_record){.kind = LQ_JOURNAL_MARK, .index = index, .term = term});
}

static inline void rig_put_boot(struct rig *rig, uint64_t boot)
{
    rig_put(rig, (struct lq_journal_record){.kind = LQ_JOURNAL_BOOT, .boot = boot});
}

/* Puts an entry of the present term at `index` with `len` (at most 4096) random bytes. */
static inline void rig_put_entry(struct rig *rig, uint64_t index, size_t len)
{
    uint8_t bytes[4096];
    LQ_HOT_ASSERT(len <= sizeof bytes);
    lq_rand_fill(&rig->rand, bytes, len);
    rig_put(rig, entry_of(index, rig->journal.state.tail.term, bytes, len));
}

static inline void rig_append(struct rig *rig, size_t len)
{
    rig_put_entry(rig, rig->journal.state.tail.last.index + 1, len);
}

/* Begins a segment and makes it durable, seal included. */
static inline void rig_begin_segment(struct rig *rig)
{
    struct lq_journal_write header, seal;
    lq_journal_begin_segment(&rig->journal, lq_rand_next(&rig->rand) | 1, &header, &seal);
    (void)files_add(&rig->files, header.number, (size_t)rig->journal.segment.bytes);
    files_write(&rig->files, &header);
    if (seal.len > 0) {
        files_write(&rig->files, &seal);
    }
}

/* Finishes the batch, in a new segment if need be, without writing it. */
static inline struct lq_journal_write rig_finish(struct rig *rig)
{
    struct lq_journal_write write;
    if (!lq_journal_finish(&rig->journal, &write)) {
        rig_begin_segment(rig);
        LQ_HOT_ASSERT(lq_journal_finish(&rig->journal, &write));
    }
    for (; rig->n_finished < rig->written.n; rig->n_finished++) {
        rig->written.items[rig->n_finished].segment = write.number;
        rig->written.items[rig->n_finished].seq = rig->journal.segment.seq;
    }
    return write;
}

/* Finishes the batch and makes it durable. */
static inline void rig_flush(struct rig *rig)
{
    struct lq_journal_write write = rig_finish(rig);
    files_write(&rig->files, &write);
    lq_journal_durable(&rig->journal);
}

/* ---- Reading. */

/* A scan and what it told. */
struct reading {
    struct lq_journal_scan scan;
    struct lq_journal_finding finding;
    enum lq_journal_verdict verdict;
    struct trace trace;
};

static inline void reading_take(void *context, const struct lq_journal_record *record,
                                const struct lq_journal_state *state)
{
    struct reading *reading = context;
    LQ_HOT_ASSERT(record->kind != LQ_JOURNAL_ENTRY || state->tail.last.index == record->index);
    trace_add(&reading->trace, record);
}

/* Each segment lies in memory of exactly its size, so that a sanitizer sees a read beyond. */
static inline void reading_init(struct reading *ret_reading, const struct files *files)
{
    *ret_reading = (struct reading){0};
    lq_journal_scan_init(&ret_reading->scan, CLUSTER, NODE, reading_take, ret_reading);
    for (size_t i = 0; i < files->n; i++) {
        if (!lq_journal_scan_segment(&ret_reading->scan, files->names[i], files->bytes[i],
                                     files->lens[i])) {
            break;
        }
    }
    ret_reading->verdict = lq_journal_scan_end(&ret_reading->scan, &ret_reading->finding);
}

static inline void reading_done(struct reading *reading)
{
    lq_journal_scan_done(&reading->scan);
    trace_done(&reading->trace);
}

/* Whether what was read are the records written to segments from `oldest` on in batches up to
 * `seq`. */
static inline bool reading_equals(const struct reading *reading, const struct trace *written,
                                  uint64_t oldest, uint64_t seq)
{
    size_t at = 0, n = 0;
    while (at < written->n && written->items[at].segment < oldest) {
        at++;
    }
    while (at < written->n && written->items[at].seq <= seq && written->items[at].seq > 0) {
        if (n == reading->trace.n || reading->trace.items[n].print != written->items[at].print) {
            return false;
        }
        at++;
        n++;
    }
    return n == reading->trace.n;
}

/* Scans the files and asserts the verdict, and for CORRUPT the fault. */
static inline void expect(const struct files *files, enum lq_journal_verdict verdict,
                          enum lq_journal_fault fault)
{
    struct reading reading;
    reading_init(&reading, files);
    if (reading.verdict != verdict || reading.finding.fault != fault) {
        ck_abort_msg("verdict %d, %s; expected verdict %d, %s", (int)reading.verdict,
                     lq_journal_fault_text(reading.finding.fault), (int)verdict,
                     lq_journal_fault_text(fault));
    }
    reading_done(&reading);
}

#endif
