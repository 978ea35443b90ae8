/* Sectors of the journal: stamps, checksums, heads of batches, headers and seals of segments. A
 * header and a seal are one sector each, so they are written as a whole or not at all. */
#include "lq_check.h"
#include "lq_journal_impl.h"

#include <string.h>
#include <xxhash.h>

#define BATCH_MAGIC  UINT32_C(0x4C514A62)         /* LQJb */
#define HEADER_MAGIC UINT64_C(0x4C6F717565744A0A) /* LoquetJ, line feed */
#define SEAL_MAGIC   UINT64_C(0x4C6F71756574530A) /* LoquetS, line feed */
#define VERSION      1

/* The last bytes of a header or seal: its checksum, at this place in every version. */
#define SUM_AT (LQ_SECTOR - 8)

#define CHECKSUM_BYTES 8

bool lq_journal_is_zero(const uint8_t *bytes, size_t len)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0;
}

static struct lq_writer writer_at(uint8_t *sectors, size_t at, size_t len)
{
    return lq_writer_of(sectors + at, len);
}

/* ---- Batches. */

uint32_t lq_batch_stamp(uint64_t salt, uint64_t seq, uint64_t place)
{
    uint8_t fields[16];
    struct lq_writer writer = lq_writer_of(fields, sizeof fields);
    lq_write_u64(&writer, seq);
    lq_write_u64(&writer, place);
    return (uint32_t)XXH3_64bits_withSeed(fields, sizeof fields, salt) | UINT32_C(0x80000001);
}

uint32_t lq_batch_stamp_read(const uint8_t *sector)
{
    struct lq_reader reader = lq_reader_of(sector + LQ_SECTOR_BODY, LQ_SECTOR_STAMP);
    return lq_read_u32(&reader);
}

static void write_stamps(uint8_t *sectors, size_t bytes, uint64_t salt, uint64_t seq)
{
    for (size_t at = 0; at < bytes; at += LQ_SECTOR) {
        struct lq_writer writer = writer_at(sectors, at + LQ_SECTOR_BODY, LQ_SECTOR_STAMP);
        lq_write_u32(&writer, lq_batch_stamp(salt, seq, at / LQ_SECTOR));
    }
}

uint32_t lq_batch_head_check(const uint8_t *sector, uint64_t salt)
{
    return (uint32_t)XXH3_64bits_withSeed(sector + CHECKSUM_BYTES,
                                          LQ_BATCH_HEAD - CHECKSUM_BYTES - 4, salt);
}

uint64_t lq_batch_checksum(const uint8_t *sectors, size_t bytes, uint64_t salt)
{
    return XXH3_64bits_withSeed(sectors + CHECKSUM_BYTES, bytes - CHECKSUM_BYTES, salt);
}

void lq_batch_complete(uint8_t *sectors, size_t len, uint64_t salt, uint64_t seq)
{
    size_t used = LQ_BATCH_HEAD + len, bytes = (size_t)lq_batch_bytes(used);
    size_t used_of_last = used - (bytes / LQ_SECTOR - 1) * LQ_SECTOR_BODY;
    struct lq_writer writer = writer_at(sectors, CHECKSUM_BYTES, LQ_BATCH_HEAD - CHECKSUM_BYTES);
    memset(sectors + bytes - LQ_SECTOR + used_of_last, 0, LQ_SECTOR_BODY - used_of_last);
    write_stamps(sectors, bytes, salt, seq);
    lq_write_u32(&writer, BATCH_MAGIC);
    lq_write_u32(&writer, (uint32_t)len);
    lq_write_u64(&writer, seq);
    lq_write_u32(&writer, lq_batch_head_check(sectors, salt));
    LQ_CHECK(!writer.failed && writer.left == 0);
    writer = writer_at(sectors, 0, CHECKSUM_BYTES);
    lq_write_u64(&writer, lq_batch_checksum(sectors, bytes, salt));
}

bool lq_batch_head_read(const uint8_t *sector, uint64_t salt, struct lq_batch_head *ret_head)
{
    struct lq_reader reader = lq_reader_of(sector, LQ_BATCH_HEAD);
    struct lq_batch_head head = {.checksum = lq_read_u64(&reader)};
    uint32_t magic = lq_read_u32(&reader);
    head.len = lq_read_u32(&reader);
    head.seq = lq_read_u64(&reader);
    if (magic != BATCH_MAGIC || lq_read_u32(&reader) != lq_batch_head_check(sector, salt)) {
        return false;
    }
    *ret_head = head;
    return true;
}

/* ---- Headers and seals. */

static uint64_t sum_of(const uint8_t *sector)
{
    return XXH3_64bits(sector, SUM_AT);
}

static bool sum_is_right(const uint8_t *sector)
{
    struct lq_reader reader = lq_reader_of(sector + SUM_AT, LQ_SECTOR - SUM_AT);
    return lq_read_u64(&reader) == sum_of(sector);
}

void lq_journal_sum_sector(uint8_t *sector)
{
    struct lq_writer writer = writer_at(sector, SUM_AT, LQ_SECTOR - SUM_AT);
    lq_write_u64(&writer, sum_of(sector));
}

/* Clears what no field has taken, up to the checksum, and writes that. */
static void close_sector(const struct lq_writer *writer, uint8_t *sector)
{
    LQ_CHECK(!writer->failed);
    memset(writer->at, 0, writer->left);
    lq_journal_sum_sector(sector);
}

static void write_tail(struct lq_writer *writer, const struct lq_journal_tail *tail)
{
    lq_write_u64(writer, tail->term);
    lq_write_u64(writer, tail->vote);
    lq_write_u64(writer, tail->boot);
    lq_write_u64(writer, tail->mark.index);
    lq_write_u64(writer, tail->mark.term);
    lq_write_u64(writer, tail->last.index);
    lq_write_u64(writer, tail->last.term);
}

static struct lq_journal_tail read_tail(struct lq_reader *reader)
{
    struct lq_journal_tail tail;
    tail.term = lq_read_u64(reader);
    tail.vote = lq_read_u64(reader);
    tail.boot = lq_read_u64(reader);
    tail.mark.index = lq_read_u64(reader);
    tail.mark.term = lq_read_u64(reader);
    tail.last.index = lq_read_u64(reader);
    tail.last.term = lq_read_u64(reader);
    return tail;
}

void lq_journal_header_write(const struct lq_journal_header *header, uint8_t ret_sector[LQ_SECTOR])
{
    struct lq_writer writer = lq_writer_of(ret_sector, SUM_AT);
    lq_write_u64(&writer, HEADER_MAGIC);
    lq_write_u32(&writer, VERSION);
    lq_write_u32(&writer, 0);
    lq_write_u64(&writer, header->segment_bytes);
    lq_write_u64(&writer, header->cluster);
    lq_write_u64(&writer, header->node);
    lq_write_u64(&writer, header->number);
    lq_write_u64(&writer, header->salt);
    lq_write_u64(&writer, header->prev_salt);
    lq_write_u64(&writer, header->prev_end);
    lq_write_u64(&writer, header->prev_seq);
    write_tail(&writer, &header->tail);
    close_sector(&writer, ret_sector);
}

static bool header_is_sound(const struct lq_journal_header *header)
{
    bool is_first = header->number == 1;
    return header->segment_bytes >= LQ_JOURNAL_SEGMENT_MIN &&
           header->segment_bytes <= LQ_JOURNAL_SEGMENT_MAX &&
           header->segment_bytes % LQ_SECTOR == 0 && header->number >= 1 &&
           header->number <= LQ_JOURNAL_NUMBER_MAX && header->prev_seq <= LQ_JOURNAL_NUMBER_MAX &&
           header->salt != 0 && (header->prev_salt == 0) == is_first &&
           (header->prev_end == 0) == is_first && (!is_first || header->prev_seq == 0) &&
           lq_journal_tail_is_sound(&header->tail);
}

enum lq_journal_fault lq_journal_header_read(const uint8_t *sector,
                                             struct lq_journal_header *ret_header)
{
    struct lq_reader reader = lq_reader_of(sector, SUM_AT);
    struct lq_journal_header header;
    if (lq_read_u64(&reader) != HEADER_MAGIC || !sum_is_right(sector)) {
        return LQ_JOURNAL_HEADER;
    }
    if (lq_read_u32(&reader) != VERSION) {
        return LQ_JOURNAL_VERSION;
    }
    if (lq_read_u32(&reader) != 0) {
        return LQ_JOURNAL_HEADER;
    }
    header.segment_bytes = lq_read_u64(&reader);
    header.cluster = lq_read_u64(&reader);
    header.node = lq_read_u64(&reader);
    header.number = lq_read_u64(&reader);
    header.salt = lq_read_u64(&reader);
    header.prev_salt = lq_read_u64(&reader);
    header.prev_end = lq_read_u64(&reader);
    header.prev_seq = lq_read_u64(&reader);
    header.tail = read_tail(&reader);
    if (!lq_journal_is_zero(reader.at, reader.left) || !header_is_sound(&header)) {
        return LQ_JOURNAL_HEADER;
    }
    *ret_header = header;
    return LQ_JOURNAL_OK;
}

void lq_journal_seal_write(const struct lq_journal_seal *seal, uint8_t ret_sector[LQ_SECTOR])
{
    struct lq_writer writer = lq_writer_of(ret_sector, SUM_AT);
    lq_write_u64(&writer, SEAL_MAGIC);
    lq_write_u64(&writer, seal->number);
    lq_write_u64(&writer, seal->salt);
    lq_write_u64(&writer, seal->end);
    lq_write_u64(&writer, seal->seq);
    lq_write_u64(&writer, seal->successor_salt);
    close_sector(&writer, ret_sector);
}

bool lq_journal_seal_read(const uint8_t *sector, struct lq_journal_seal *ret_seal)
{
    struct lq_reader reader = lq_reader_of(sector, SUM_AT);
    struct lq_journal_seal seal;
    if (lq_read_u64(&reader) != SEAL_MAGIC || !sum_is_right(sector)) {
        return false;
    }
    seal.number = lq_read_u64(&reader);
    seal.salt = lq_read_u64(&reader);
    seal.end = lq_read_u64(&reader);
    seal.seq = lq_read_u64(&reader);
    seal.successor_salt = lq_read_u64(&reader);
    if (!lq_journal_is_zero(reader.at, reader.left) || seal.successor_salt == 0) {
        return false;
    }
    *ret_seal = seal;
    return true;
}
