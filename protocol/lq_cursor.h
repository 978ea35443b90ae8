/* Bounded cursors over bytes. Errors are sticky: read or write everything, then look once at
 * `failed`. Numbers are big-endian, as on the wire. A cursor never owns the bytes. */
#ifndef LQ_CURSOR_H
#define LQ_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_reader {
    const uint8_t *at;
    size_t left;
    bool failed; /* more was asked for than was left; every later read gives 0 or NULL */
};

struct lq_writer {
    uint8_t *at;
    size_t left;
    bool failed; /* more was written than fits; nothing is written from then on */
};

struct lq_reader lq_reader_of(const uint8_t *bytes, size_t len);
uint8_t lq_read_u8(struct lq_reader *reader);
uint16_t lq_read_u16(struct lq_reader *reader);
uint32_t lq_read_u32(struct lq_reader *reader);
uint64_t lq_read_u64(struct lq_reader *reader);

/* Returns a pointer to the next `len` bytes, inside the bytes being read, or NULL when fewer are
 * left. */
const uint8_t *lq_read_bytes(struct lq_reader *reader, size_t len);

struct lq_writer lq_writer_of(uint8_t *bytes, size_t len);
void lq_write_u8(struct lq_writer *writer, uint8_t value);
void lq_write_u16(struct lq_writer *writer, uint16_t value);
void lq_write_u32(struct lq_writer *writer, uint32_t value);
void lq_write_u64(struct lq_writer *writer, uint64_t value);
void lq_write_bytes(struct lq_writer *writer, const void *bytes, size_t len);

#endif
