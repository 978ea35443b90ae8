/* The writing side of the journal. Records go straight to where they will stand in the sectors of
 * the batch being gathered. Finishing a batch gives it its place and sequence number, fills in
 * stamps and checksums and changes buffers, so that the next batch gathers while this one is
 * written. The memory is kept from batch to batch.
 *
 * No batch is finished and no segment begun while one is in flight: a header that tells of a batch
 * which a crash then tears would make the journal contradict itself. */
#include "lq_check.h"
#include "lq_journal_impl.h"
#include "lq_mem.h"

#include <string.h>

#define BATCH_CAP_MIN (8 * LQ_SECTOR)

/* ---- A batch in memory. */

static void reserve(struct lq_journal_batch *batch, size_t more)
{
    size_t need = (size_t)lq_batch_bytes(batch->used + more);
    size_t cap = batch->cap < BATCH_CAP_MIN ? BATCH_CAP_MIN : batch->cap;
    while (cap < need) {
        cap *= 2;
    }
    if (cap != batch->cap) {
        batch->sectors = lq_realloc(batch->sectors, cap, 1);
        batch->cap = cap;
    }
}

/* Appends bytes, for which there is room, around the stamps. */
static void append(struct lq_journal_batch *batch, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        size_t within = batch->used % LQ_SECTOR_BODY;
        size_t n = len < LQ_SECTOR_BODY - within ? len : LQ_SECTOR_BODY - within;
        memcpy(batch->sectors + batch->used / LQ_SECTOR_BODY * LQ_SECTOR + within, bytes, n);
        batch->used += n;
        bytes += n;
        len -= n;
    }
}

/* ---- The journal. */

static void init_batches(struct lq_journal *journal)
{
    journal->gathering = (struct lq_journal_batch){.used = LQ_BATCH_HEAD};
    journal->flying = (struct lq_journal_batch){.used = LQ_BATCH_HEAD};
}

void lq_journal_init(struct lq_journal *journal, uint64_t cluster, uint64_t node,
                     uint64_t segment_bytes)
{
    LQ_CHECK(segment_bytes >= LQ_JOURNAL_SEGMENT_MIN && segment_bytes <= LQ_JOURNAL_SEGMENT_MAX);
    LQ_CHECK(segment_bytes % LQ_SECTOR == 0);
    *journal = (struct lq_journal){
        .cluster = cluster, .node = node, .segment_bytes = segment_bytes, .ends.oldest = 1};
    lq_journal_state_init(&journal->state);
    init_batches(journal);
}

/* A torn batch is not written over, since what remains of it would look like a part of a later one;
 * and a segment whose predecessor is not sealed takes no batches. In both cases the next batch
 * begins a segment. */
void lq_journal_resume(struct lq_journal *journal, struct lq_journal_scan *scan,
                       uint64_t segment_bytes)
{
    LQ_CHECK(scan->finding.fault == LQ_JOURNAL_OK && scan->header.number > 0 &&
             scan->successor_salt == 0 &&
             scan->state.first_index <= scan->state.tail.mark.index + 1);
    lq_journal_init(journal, scan->header.cluster, scan->header.node, segment_bytes);
    journal->state = scan->state;
    lq_journal_state_init(&scan->state);
    journal->ends = scan->ends;
    lq_journal_ends_init(&scan->ends, 0);
    journal->placed = journal->state.tail;
    journal->durable_mark = journal->placed.mark.index;
    journal->segment.number = scan->header.number;
    journal->segment.salt = scan->header.salt;
    journal->segment.bytes = scan->header.segment_bytes;
    journal->segment.end = scan->end;
    journal->segment.seq = scan->seq;
    journal->segment.is_closed = scan->is_torn || !scan->follows_sealed;
}

void lq_journal_done(struct lq_journal *journal)
{
    lq_journal_state_done(&journal->state);
    lq_journal_ends_done(&journal->ends);
    lq_free(journal->gathering.sectors);
    lq_free(journal->flying.sectors);
    init_batches(journal);
}

bool lq_journal_is_empty(const struct lq_journal *journal)
{
    return journal->gathering.used == LQ_BATCH_HEAD;
}

bool lq_journal_put(struct lq_journal *journal, const struct lq_journal_record *record)
{
    struct lq_journal_batch *batch = &journal->gathering;
    uint8_t head[LQ_RECORD_HEAD];
    size_t head_len = lq_journal_record_write(record, head);
    size_t room = lq_batch_body_max(journal->segment_bytes) - batch->used;
    if (record->len > room || head_len > room - record->len) {
        LQ_CHECK(!lq_journal_is_empty(journal));
        return false;
    }
    LQ_CHECK(lq_journal_state_fold(&journal->state, record) == LQ_JOURNAL_OK);
    reserve(batch, head_len + record->len);
    append(batch, head, head_len);
    append(batch, record->bytes, record->len);
    return true;
}

static void change_batches(struct lq_journal *journal)
{
    struct lq_journal_batch finished = journal->gathering;
    journal->gathering = journal->flying;
    journal->gathering.used = LQ_BATCH_HEAD;
    journal->flying = finished;
}

bool lq_journal_finish(struct lq_journal *journal, struct lq_journal_write *ret_write)
{
    uint64_t len = lq_batch_bytes(journal->gathering.used);
    LQ_CHECK(!journal->is_in_flight && !lq_journal_is_empty(journal));
    if (journal->segment.number == 0 || journal->segment.is_closed ||
        len > lq_segment_data_end(journal->segment.bytes) - journal->segment.end) {
        return false;
    }
    journal->segment.seq++;
    lq_batch_complete(journal->gathering.sectors, journal->gathering.used - LQ_BATCH_HEAD,
                      journal->segment.salt, journal->segment.seq);
    *ret_write = (struct lq_journal_write){.number = journal->segment.number,
                                           .offset = journal->segment.end,
                                           .bytes = journal->gathering.sectors,
                                           .len = (size_t)len};
    change_batches(journal);
    journal->segment.end += len;
    journal->placed = journal->state.tail;
    journal->is_in_flight = true;
    return true;
}

void lq_journal_durable(struct lq_journal *journal)
{
    LQ_CHECK(journal->is_in_flight);
    journal->is_in_flight = false;
    journal->durable_mark = journal->placed.mark.index;
}

static struct lq_journal_write sector_write(uint64_t number, uint64_t offset, const uint8_t *sector)
{
    return (struct lq_journal_write){
        .number = number, .offset = offset, .bytes = sector, .len = LQ_SECTOR};
}

/* Makes the seal of the present segment, if there is one, and remembers where it ended. */
static struct lq_journal_write seal_segment(struct lq_journal *journal, uint64_t successor_salt)
{
    struct lq_journal_seal seal = {.number = journal->segment.number,
                                   .salt = journal->segment.salt,
                                   .end = journal->segment.end,
                                   .seq = journal->segment.seq,
                                   .successor_salt = successor_salt};
    if (seal.number == 0) {
        return (struct lq_journal_write){0};
    }
    lq_journal_ends_add(&journal->ends, journal->placed.last.index);
    lq_journal_seal_write(&seal, journal->seal);
    return sector_write(seal.number, lq_segment_data_end(journal->segment.bytes), journal->seal);
}

void lq_journal_begin_segment(struct lq_journal *journal, uint64_t salt,
                              struct lq_journal_write *ret_header,
                              struct lq_journal_write *ret_seal)
{
    struct lq_journal_header header = {.segment_bytes = journal->segment_bytes,
                                       .cluster = journal->cluster,
                                       .node = journal->node,
                                       .number = journal->segment.number + 1,
                                       .salt = salt,
                                       .prev_salt = journal->segment.salt,
                                       .prev_end = journal->segment.end,
                                       .prev_seq = journal->segment.seq,
                                       .tail = journal->placed};
    LQ_CHECK(!journal->is_in_flight && salt != 0);
    *ret_seal = seal_segment(journal, salt);
    lq_journal_header_write(&header, journal->header);
    *ret_header = sector_write(header.number, 0, journal->header);
    journal->segment.number = header.number;
    journal->segment.salt = salt;
    journal->segment.bytes = header.segment_bytes;
    journal->segment.end = LQ_SECTOR;
    journal->segment.is_closed = false;
}

uint64_t lq_journal_deletable(const struct lq_journal *journal, uint64_t first_index)
{
    const struct lq_journal_ends *ends = &journal->ends;
    bool is_covered = ends->n > 0 && ends->last_indexes[0] < first_index &&
                      ends->last_indexes[0] <= journal->durable_mark;
    return is_covered ? ends->oldest : 0;
}

void lq_journal_deleted(struct lq_journal *journal)
{
    lq_journal_ends_drop_oldest(&journal->ends);
}
