/* The reading side of the journal. Every byte of every segment must be explained: header, good
 * batches, and behind them zeros, up to a seal or zeros in the last sector. The only other thing
 * that a crash can leave is a part of the one batch that was in flight, at the very end:
 *
 *        .--------- good batch ---------.
 *        v                              |
 *     BATCHES --- zeros to the end ---> END ---.
 *        |                                     +--> seal --> next segment, which must agree
 *        '--- some sectors, all stamped -> TORN'        '--> or the verdict
 *        |
 *        '--- anything else -------------> corrupt
 *
 * A torn batch has all the marks of one that never was answered: at least one of its sectors is
 * zero, each of the others carries its stamp, and nothing stands behind it. Neither the seal nor
 * the next segment's header may count it in. */
#include "lq_check.h"
#include "lq_journal_impl.h"
#include "lq_mem.h"

#include <string.h>

enum step {
    STEP_BATCH, /* a good batch was taken; there may be more */
    STEP_END,   /* zeros from here on */
    STEP_TORN,
    STEP_FAULT,
};

void lq_journal_scan_init(struct lq_journal_scan *scan, uint64_t cluster, uint64_t node,
                          lq_journal_on_record *on_record, void *context)
{
    *scan = (struct lq_journal_scan){
        .on_record = on_record, .context = context, .cluster = cluster, .node = node};
    lq_journal_state_init(&scan->state);
    lq_journal_ends_init(&scan->ends, 0);
}

void lq_journal_scan_done(struct lq_journal_scan *scan)
{
    lq_journal_state_done(&scan->state);
    lq_journal_ends_done(&scan->ends);
    lq_free(scan->body);
    scan->body = NULL;
    scan->body_cap = 0;
}

/* The segment is found corrupt. */
static bool refuse(struct lq_journal_scan *scan, enum lq_journal_fault fault, uint64_t number,
                   uint64_t offset)
{
    scan->finding = (struct lq_journal_finding){
        .fault = fault, .number = number, .offset = offset, .seq = scan->seq + 1};
    return false;
}

static enum step refuse_batch(struct lq_journal_scan *scan, enum lq_journal_fault fault,
                              uint64_t offset)
{
    (void)refuse(scan, fault, scan->header.number, offset);
    return STEP_FAULT;
}

/* ---- Records of a batch. */

/* Puts the body together without stamps, `len` bytes of records, which it returns. */
static const uint8_t *gather_body(struct lq_journal_scan *scan, const uint8_t *sectors, size_t len)
{
    size_t n = (size_t)lq_batch_bytes(LQ_BATCH_HEAD + len) / LQ_SECTOR;
    if (scan->body_cap < n * LQ_SECTOR_BODY) {
        lq_free(scan->body);
        scan->body_cap = n * LQ_SECTOR_BODY;
        scan->body = lq_malloc(scan->body_cap);
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(scan->body + i * LQ_SECTOR_BODY, sectors + i * LQ_SECTOR, LQ_SECTOR_BODY);
    }
    return scan->body + LQ_BATCH_HEAD;
}

static enum step take_records(struct lq_journal_scan *scan, const uint8_t *sectors, size_t len)
{
    struct lq_reader reader = lq_reader_of(gather_body(scan, sectors, len), len);
    while (reader.left > 0) {
        struct lq_journal_record record;
        enum lq_journal_fault fault = lq_journal_record_read(&reader, &record);
        if (fault == LQ_JOURNAL_OK) {
            fault = lq_journal_state_fold(&scan->state, &record);
        }
        if (fault != LQ_JOURNAL_OK) {
            return refuse_batch(scan, fault, scan->end);
        }
        if (scan->on_record != NULL) {
            scan->on_record(scan->context, &record, &scan->state);
        }
    }
    return STEP_BATCH;
}

/* ---- Batches of a segment. */

/* What stands in a range of sectors where the next batch could have been written. */
struct survey {
    bool has_written, has_zero;
    uint64_t bad_stamp_at; /* file offset of the first that is neither; 0: none */
};

static struct survey survey(const struct lq_journal_scan *scan, const uint8_t *segment,
                            uint64_t from, uint64_t to)
{
    struct survey found = {0};
    for (uint64_t at = from; at < to; at += LQ_SECTOR) {
        const uint8_t *sector = segment + at;
        uint64_t place = (at - scan->end) / LQ_SECTOR;
        if (lq_journal_is_zero(sector, LQ_SECTOR)) {
            found.has_zero = true;
        } else if (lq_batch_stamp_read(sector) ==
                   lq_batch_stamp(scan->header.salt, scan->seq + 1, place)) {
            found.has_written = true;
        } else if (found.bad_stamp_at == 0) {
            found.bad_stamp_at = at;
        }
    }
    return found;
}

/* The sector in which a batch would begin is zero, or there is none: the segment ends here, or the
 * first sector of its last batch was not written. */
static enum step judge_end(struct lq_journal_scan *scan, const uint8_t *segment)
{
    uint64_t data_end = lq_segment_data_end(scan->header.segment_bytes);
    struct survey rest;
    if (scan->end == data_end ||
        lq_journal_is_zero(segment + scan->end, (size_t)(data_end - scan->end))) {
        return STEP_END;
    }
    rest = survey(scan, segment, scan->end, data_end);
    return rest.bad_stamp_at > 0 ? refuse_batch(scan, LQ_JOURNAL_STRAY, rest.bad_stamp_at)
                                 : STEP_TORN;
}

/* A batch of `len` bytes has a wrong checksum: it is torn, or it is rotten. */
static enum step judge_bad(struct lq_journal_scan *scan, const uint8_t *segment, uint64_t len)
{
    uint64_t batch_end = scan->end + len;
    struct survey batch = survey(scan, segment, scan->end, batch_end);
    struct survey rest =
        survey(scan, segment, batch_end, lq_segment_data_end(scan->header.segment_bytes));
    if (batch.bad_stamp_at > 0) {
        return refuse_batch(scan, LQ_JOURNAL_STAMP, batch.bad_stamp_at);
    }
    if (!batch.has_zero) {
        return refuse_batch(scan, LQ_JOURNAL_BATCH_CHECKSUM, scan->end);
    }
    if (rest.bad_stamp_at > 0 || rest.has_written) {
        return refuse_batch(scan, LQ_JOURNAL_STRAY,
                            rest.bad_stamp_at > 0 ? rest.bad_stamp_at : batch_end);
    }
    return STEP_TORN;
}

static bool stamps_are_right(const struct lq_journal_scan *scan, const uint8_t *sectors,
                             uint64_t len)
{
    for (uint64_t place = 0; place < len / LQ_SECTOR; place++) {
        if (lq_batch_stamp_read(sectors + place * LQ_SECTOR) !=
            lq_batch_stamp(scan->header.salt, scan->seq + 1, place)) {
            return false;
        }
    }
    return true;
}

/* Judges what stands at scan->end; moves it behind a good batch. */
static enum step next_batch(struct lq_journal_scan *scan, const uint8_t *segment)
{
    uint64_t room = lq_segment_data_end(scan->header.segment_bytes) - scan->end, len;
    const uint8_t *sectors = segment + scan->end;
    struct lq_batch_head head;
    if (room == 0 || lq_journal_is_zero(sectors, LQ_SECTOR)) {
        return judge_end(scan, segment);
    }
    if (!lq_batch_head_read(sectors, scan->header.salt, &head)) {
        return refuse_batch(scan, LQ_JOURNAL_BATCH_HEAD, scan->end);
    }
    if (head.seq != scan->seq + 1) {
        return refuse_batch(scan, LQ_JOURNAL_BATCH_SEQ, scan->end);
    }
    len = lq_batch_bytes(LQ_BATCH_HEAD + (uint64_t)head.len);
    if (head.len == 0 || len > room) {
        return refuse_batch(scan, LQ_JOURNAL_BATCH_LENGTH, scan->end);
    }
    if (lq_batch_checksum(sectors, (size_t)len, scan->header.salt) != head.checksum) {
        return judge_bad(scan, segment, len);
    }
    if (!stamps_are_right(scan, sectors, len)) {
        return refuse_batch(scan, LQ_JOURNAL_STAMP, scan->end);
    }
    if (take_records(scan, sectors, head.len) == STEP_FAULT) {
        return STEP_FAULT;
    }
    scan->end += len;
    scan->seq++;
    return STEP_BATCH;
}

static bool take_batches(struct lq_journal_scan *scan, const uint8_t *segment)
{
    enum step step;
    do {
        step = next_batch(scan, segment);
        if ((step == STEP_BATCH || step == STEP_TORN) && !scan->follows_sealed) {
            return refuse(scan, LQ_JOURNAL_SEAL_MISSING, scan->header.number - 1, 0);
        }
    } while (step == STEP_BATCH);
    scan->is_torn = step == STEP_TORN;
    if (scan->is_torn) {
        (void)refuse(scan, LQ_JOURNAL_OK, scan->header.number, scan->end);
    }
    return step != STEP_FAULT;
}

/* ---- Segments. */

/* The seal of this segment, which tells again where it ends. */
static bool take_seal(struct lq_journal_scan *scan, const uint8_t *segment)
{
    uint64_t at = lq_segment_data_end(scan->header.segment_bytes);
    uint64_t number = scan->header.number;
    struct lq_journal_seal seal;
    scan->successor_salt = 0;
    if (lq_journal_is_zero(segment + at, LQ_SECTOR)) {
        return true;
    }
    if (!lq_journal_seal_read(segment + at, &seal) || seal.number != number ||
        seal.salt != scan->header.salt) {
        return refuse(scan, LQ_JOURNAL_SEAL, number, at);
    }
    if (seal.seq > scan->seq) {
        return refuse(scan, LQ_JOURNAL_BATCH_LOST, number, scan->end);
    }
    if (seal.seq != scan->seq || seal.end != scan->end) {
        return refuse(scan, LQ_JOURNAL_SEAL, number, at);
    }
    scan->successor_salt = seal.successor_salt;
    return true;
}

/* The first segment that is there: what came before was covered and deleted. */
static void begin_with(struct lq_journal_scan *scan, const struct lq_journal_header *header)
{
    lq_journal_state_begin(&scan->state, &header->tail);
    lq_journal_ends_init(&scan->ends, header->number);
    scan->follows_sealed = true;
}

/* Goes on from the segment before, if the header says that it does. */
static bool follow(struct lq_journal_scan *scan, const struct lq_journal_header *header)
{
    bool is_sealed = scan->successor_salt != 0;
    if (header->prev_seq > scan->seq && header->prev_salt == scan->header.salt) {
        return refuse(scan, LQ_JOURNAL_BATCH_LOST, scan->header.number, scan->end);
    }
    if (header->prev_salt != scan->header.salt || header->prev_end != scan->end ||
        header->prev_seq != scan->seq ||
        !lq_journal_tail_equals(&header->tail, &scan->state.tail) ||
        (is_sealed && scan->successor_salt != header->salt)) {
        return refuse(scan, LQ_JOURNAL_CHAIN, header->number, 0);
    }
    lq_journal_ends_add(&scan->ends, scan->state.tail.last.index);
    scan->follows_sealed = is_sealed;
    return true;
}

static bool take_header(struct lq_journal_scan *scan, uint64_t number, const uint8_t *bytes,
                        size_t len)
{
    struct lq_journal_header header;
    enum lq_journal_fault fault;
    if (scan->header.number != 0 && number != scan->header.number + 1) {
        return refuse(scan, LQ_JOURNAL_SEGMENT_MISSING, scan->header.number + 1, 0);
    }
    if (len < LQ_SECTOR) {
        return refuse(scan, LQ_JOURNAL_SIZE, number, len);
    }
    fault = lq_journal_header_read(bytes, &header);
    if (fault == LQ_JOURNAL_OK && header.segment_bytes != len) {
        fault = LQ_JOURNAL_SIZE;
    } else if (fault == LQ_JOURNAL_OK && scan->cluster != 0 && header.cluster != scan->cluster) {
        fault = LQ_JOURNAL_OTHER_CLUSTER;
    } else if (fault == LQ_JOURNAL_OK && scan->node != 0 && header.node != scan->node) {
        fault = LQ_JOURNAL_OTHER_NODE;
    } else if (fault == LQ_JOURNAL_OK && header.number != number) {
        fault = LQ_JOURNAL_OTHER_SEGMENT;
    }
    if (fault != LQ_JOURNAL_OK) {
        return refuse(scan, fault, number, fault == LQ_JOURNAL_SIZE ? len : 0);
    }
    if (scan->header.number == 0) {
        begin_with(scan, &header);
    } else if (!follow(scan, &header)) {
        return false;
    }
    scan->header = header;
    scan->cluster = header.cluster;
    scan->node = header.node;
    scan->end = LQ_SECTOR;
    scan->seq = header.prev_seq;
    return true;
}

bool lq_journal_scan_segment(struct lq_journal_scan *scan, uint64_t number, const uint8_t *bytes,
                             size_t len)
{
    LQ_CHECK(number > 0 && number > scan->header.number);
    return scan->finding.fault == LQ_JOURNAL_OK && take_header(scan, number, bytes, len) &&
           take_batches(scan, bytes) && take_seal(scan, bytes);
}

enum lq_journal_verdict lq_journal_scan_end(struct lq_journal_scan *scan,
                                            struct lq_journal_finding *ret_finding)
{
    const struct lq_journal_state *state = &scan->state;
    enum lq_journal_verdict verdict;
    if (scan->finding.fault != LQ_JOURNAL_OK) {
        verdict = LQ_JOURNAL_CORRUPT;
    } else if (scan->header.number == 0) {
        verdict = LQ_JOURNAL_BLANK;
    } else if (scan->successor_salt != 0) {
        (void)refuse(scan, LQ_JOURNAL_NEWEST_MISSING, scan->header.number + 1, 0);
        verdict = LQ_JOURNAL_CORRUPT;
    } else if (state->first_index > state->tail.mark.index + 1) {
        (void)refuse(scan, LQ_JOURNAL_OLDEST_MISSING, scan->ends.oldest - 1, 0);
        verdict = LQ_JOURNAL_CORRUPT;
    } else {
        verdict = scan->is_torn ? LQ_JOURNAL_TORN : LQ_JOURNAL_CLEAN;
    }
    if (verdict == LQ_JOURNAL_CORRUPT || verdict == LQ_JOURNAL_TORN) {
        *ret_finding = scan->finding;
    }
    return verdict;
}
