#include "lq_cursor.h"

#include <endian.h>
#include <string.h>

struct lq_reader lq_reader_of(const uint8_t *bytes, size_t len)
{
    return (struct lq_reader){.at = bytes, .left = len};
}

const uint8_t *lq_read_bytes(struct lq_reader *reader, size_t len)
{
    const uint8_t *bytes = reader->at;
    if (reader->failed || len > reader->left) {
        reader->failed = true;
        return NULL;
    }
    reader->at += len;
    reader->left -= len;
    return bytes;
}

/* Copies the next `len` bytes; leaves `ret_value` as it is when fewer are left. */
static void take(struct lq_reader *reader, void *ret_value, size_t len)
{
    const uint8_t *bytes = lq_read_bytes(reader, len);
    if (bytes != NULL) {
        memcpy(ret_value, bytes, len);
    }
}

uint8_t lq_read_u8(struct lq_reader *reader)
{
    uint8_t value = 0;
    take(reader, &value, sizeof value);
    return value;
}

uint16_t lq_read_u16(struct lq_reader *reader)
{
    uint16_t value = 0;
    take(reader, &value, sizeof value);
    return be16toh(value);
}

uint32_t lq_read_u32(struct lq_reader *reader)
{
    uint32_t value = 0;
    take(reader, &value, sizeof value);
    return be32toh(value);
}

uint64_t lq_read_u64(struct lq_reader *reader)
{
    uint64_t value = 0;
    take(reader, &value, sizeof value);
    return be64toh(value);
}

struct lq_writer lq_writer_of(uint8_t *bytes, size_t len)
{
    return (struct lq_writer){.at = bytes, .left = len};
}

void lq_write_bytes(struct lq_writer *writer, const void *bytes, size_t len)
{
    if (writer->failed || len > writer->left) {
        writer->failed = true;
        return;
    }
    if (len == 0) {
        return; /* `bytes` may be NULL then */
    }
    memcpy(writer->at, bytes, len);
    writer->at += len;
    writer->left -= len;
}

void lq_write_u8(struct lq_writer *writer, uint8_t value)
{
    lq_write_bytes(writer, &value, sizeof value);
}

void lq_write_u16(struct lq_writer *writer, uint16_t value)
{
    value = htobe16(value);
    lq_write_bytes(writer, &value, sizeof value);
}

void lq_write_u32(struct lq_writer *writer, uint32_t value)
{
    value = htobe32(value);
    lq_write_bytes(writer, &value, sizeof value);
}

void lq_write_u64(struct lq_writer *writer, uint64_t value)
{
    value = htobe64(value);
    lq_write_bytes(writer, &value, sizeof value);
}
