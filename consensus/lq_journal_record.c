/* Records of the journal, one by one. lq_journal_impl.h shows their bytes. */
#include "lq_check.h"
#include "lq_journal_impl.h"

#include <xxhash.h>

uint64_t lq_journal_entry_check(uint64_t index, uint64_t term, uint8_t type, const uint8_t *bytes,
                                size_t len)
{
    uint8_t fields[17];
    struct lq_writer writer = lq_writer_of(fields, sizeof fields);
    lq_write_u64(&writer, index);
    lq_write_u64(&writer, term);
    lq_write_u8(&writer, type);
    LQ_CHECK(!writer.failed && writer.left == 0);
    return XXH3_64bits_withSeed(bytes, len, XXH3_64bits(fields, sizeof fields));
}

size_t lq_journal_entry_max(uint64_t segment_bytes)
{
    return lq_batch_body_max(segment_bytes) - LQ_BATCH_HEAD - LQ_RECORD_HEAD;
}

size_t lq_journal_record_write(const struct lq_journal_record *record,
                               uint8_t ret_head[LQ_RECORD_HEAD])
{
    struct lq_writer writer = lq_writer_of(ret_head, LQ_RECORD_HEAD);
    lq_write_u8(&writer, record->kind);
    switch ((enum lq_journal_kind)record->kind) {
    case LQ_JOURNAL_ENTRY:
        lq_write_u8(&writer, record->type);
        lq_write_u32(&writer, record->len);
        lq_write_u64(&writer, record->index);
        lq_write_u64(&writer, record->term);
        lq_write_u64(&writer, record->check);
        break;
    case LQ_JOURNAL_TERM:
        lq_write_u64(&writer, record->term);
        lq_write_u64(&writer, record->vote);
        break;
    case LQ_JOURNAL_BOOT:
        lq_write_u64(&writer, record->boot);
        break;
    case LQ_JOURNAL_MARK:
    case LQ_JOURNAL_RESTART:
        lq_write_u64(&writer, record->index);
        lq_write_u64(&writer, record->term);
        break;
    }
    LQ_CHECK(!writer.failed);
    return LQ_RECORD_HEAD - writer.left;
}

static void read_entry(struct lq_reader *reader, struct lq_journal_record *record)
{
    record->type = lq_read_u8(reader);
    record->len = lq_read_u32(reader);
    record->index = lq_read_u64(reader);
    record->term = lq_read_u64(reader);
    record->check = lq_read_u64(reader);
    record->bytes = lq_read_bytes(reader, record->len);
}

/* Reads the fields behind the kind; false when no record is of this kind. */
static bool read_fields(struct lq_reader *reader, struct lq_journal_record *record)
{
    switch ((enum lq_journal_kind)record->kind) {
    case LQ_JOURNAL_ENTRY:
        read_entry(reader, record);
        return true;
    case LQ_JOURNAL_TERM:
        record->term = lq_read_u64(reader);
        record->vote = lq_read_u64(reader);
        return true;
    case LQ_JOURNAL_BOOT:
        record->boot = lq_read_u64(reader);
        return true;
    case LQ_JOURNAL_MARK:
    case LQ_JOURNAL_RESTART:
        record->index = lq_read_u64(reader);
        record->term = lq_read_u64(reader);
        return true;
    }
    return false;
}

enum lq_journal_fault lq_journal_record_read(struct lq_reader *reader,
                                             struct lq_journal_record *ret_record)
{
    struct lq_journal_record record = {.kind = lq_read_u8(reader)};
    if (!read_fields(reader, &record) || reader->failed) {
        return LQ_JOURNAL_RECORD;
    }
    if (record.kind == LQ_JOURNAL_ENTRY &&
        record.check != lq_journal_entry_check(record.index, record.term, record.type, record.bytes,
                                               record.len)) {
        return LQ_JOURNAL_ENTRY_CHECK;
    }
    *ret_record = record;
    return LQ_JOURNAL_OK;
}
