/* Inside of the journal: how its bytes lie. lq_journal_*.c share it, and tests that forge bytes.
 *
 *   segment  header sector | batches, each from one sector boundary to another | zeros | seal
 * sector batch    sectors of 508 bytes of body and a stamp u32; the rest of the last body is zero
 *   body     checksum u64 | magic u32 | len u32 | seq u64 | head check u32 | `len` bytes of records
 *   record   ENTRY 1 u8 | type u8 | len u32 | index u64 | term u64 | check u64 | bytes
 *            TERM  2 u8 | term u64 | vote u64
 *            BOOT  3 u8 | boot u64
 *            MARK  4 u8, RESTART 5 u8 | index u64 | term u64
 *
 * Numbers are big-endian. The checksum covers all that follows it to the end of the batch's last
 * sector, stamps included; the head check covers what stands between them. All are seeded with the
 * segment's salt. */
#ifndef LQ_JOURNAL_IMPL_H
#define LQ_JOURNAL_IMPL_H

#include "lq_cursor.h"
#include "lq_journal.h"

#define LQ_SECTOR_STAMP 4
#define LQ_SECTOR_BODY  (LQ_SECTOR - LQ_SECTOR_STAMP)
#define LQ_BATCH_HEAD   28 /* at the beginning of a batch's first sector */
#define LQ_RECORD_HEAD  30 /* of an ENTRY, the largest */

/* Indexes, terms and the like never come near the end of their 64 bits, so that adding 1 is safe.
 */
#define LQ_JOURNAL_NUMBER_MAX (UINT64_C(1) << 62)

/* ---- lq_journal_sector.c: sectors, checksums, headers and seals. */

/* Whether `len` bytes (at least 1) are all zero. */
bool lq_journal_is_zero(const uint8_t *bytes, size_t len);

/* Bytes of the sectors that take `body` bytes, head included. */
static inline uint64_t lq_batch_bytes(uint64_t body)
{
    return (body + LQ_SECTOR_BODY - 1) / LQ_SECTOR_BODY * LQ_SECTOR;
}

/* The end of the part of a segment that takes batches. */
static inline uint64_t lq_segment_data_end(uint64_t segment_bytes)
{
    return segment_bytes - LQ_SECTOR;
}

/* The most bytes of body, head included, that a batch can have in a segment of this size. */
static inline size_t lq_batch_body_max(uint64_t segment_bytes)
{
    return (size_t)((segment_bytes - 2 * LQ_SECTOR) / LQ_SECTOR * LQ_SECTOR_BODY);
}

/* The stamp of the sector `place` (0, 1, ...) of a batch: at least two bits of it are set, so that
 * no single flipped bit makes a written sector look like zeros, or zeros like a written one. */
uint32_t lq_batch_stamp(uint64_t salt, uint64_t seq, uint64_t place);
uint32_t lq_batch_stamp_read(const uint8_t *sector);

struct lq_batch_head {
    uint64_t checksum;
    uint32_t len; /* of the records */
    uint64_t seq;
};

/* Makes a batch out of `len` bytes of records that stand behind the room for the head, distributed
 * over the sectors: clears what is behind them and writes stamps, head and checksum. */
void lq_batch_complete(uint8_t *sectors, size_t len, uint64_t salt, uint64_t seq);

/* Reads the head from a batch's first sector; false when its check is wrong. */
bool lq_batch_head_read(const uint8_t *sector, uint64_t salt, struct lq_batch_head *ret_head);

/* The check of a head, over the fields between the two checksums. */
uint32_t lq_batch_head_check(const uint8_t *sector, uint64_t salt);

/* The checksum of a batch of `bytes` bytes of sectors. */
uint64_t lq_batch_checksum(const uint8_t *sectors, size_t bytes, uint64_t salt);

/* Writes the checksum of a header or seal, over all that stands before it. */
void lq_journal_sum_sector(uint8_t *sector);

void lq_journal_header_write(const struct lq_journal_header *header, uint8_t ret_sector[LQ_SECTOR]);

/* Fills `ret_header` and returns OK, or what is wrong with the sector taken by itself. */
enum lq_journal_fault lq_journal_header_read(const uint8_t *sector,
                                             struct lq_journal_header *ret_header);

/* The end of a segment that has a successor. */
struct lq_journal_seal {
    uint64_t number, salt; /* of the segment */
    uint64_t end, seq;     /* where its last batch ends, and that batch */
    uint64_t successor_salt;
};

void lq_journal_seal_write(const struct lq_journal_seal *seal, uint8_t ret_sector[LQ_SECTOR]);

/* False when the sector is no seal. */
bool lq_journal_seal_read(const uint8_t *sector, struct lq_journal_seal *ret_seal);

/* ---- lq_journal_record.c. */

/* Writes what stands before the bytes of an entry, or a whole record of another kind. Returns its
 * size. */
size_t lq_journal_record_write(const struct lq_journal_record *record,
                               uint8_t ret_head[LQ_RECORD_HEAD]);

/* Reads the next record, its bytes inside those of the reader; OK, RECORD or ENTRY_CHECK. */
enum lq_journal_fault lq_journal_record_read(struct lq_reader *reader,
                                             struct lq_journal_record *ret_record);

/* ---- lq_journal_state.c. */

void lq_journal_state_init(struct lq_journal_state *state);
void lq_journal_state_done(struct lq_journal_state *state);

/* Sets a fresh state to what a header says. Its log is empty and ends at the last point. */
void lq_journal_state_begin(struct lq_journal_state *state, const struct lq_journal_tail *tail);

/* Whether a header can say this at all. */
bool lq_journal_tail_is_sound(const struct lq_journal_tail *tail);
bool lq_journal_tail_equals(const struct lq_journal_tail *a, const struct lq_journal_tail *b);

/* Takes a record in. Returns OK, or what is wrong with it after those before; the state is then
 * unchanged. */
enum lq_journal_fault lq_journal_state_fold(struct lq_journal_state *state,
                                            const struct lq_journal_record *record);

void lq_journal_ends_init(struct lq_journal_ends *ends, uint64_t oldest);
void lq_journal_ends_done(struct lq_journal_ends *ends);
void lq_journal_ends_add(struct lq_journal_ends *ends, uint64_t last_index);
void lq_journal_ends_drop_oldest(struct lq_journal_ends *ends);

#endif
