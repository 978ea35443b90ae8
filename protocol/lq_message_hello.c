/* What stands around messages on a link: the hello that comes first, the refusal that may answer
 * it, and the length before each body. */
#include "lq_message.h"

#include "lq_check.h"

#include <string.h>

#define HELLO_VERSION 1
#define HELLO_BLANK   1
#define HELLO_FRESH   2

#define REFUSAL_VERSION 1

static const uint8_t hello_magic[] = {'L', 'Q', 'N', 'D'};
static const uint8_t refusal_magic[] = {'L', 'Q', 'N', 'R'};

void lq_hello_put(struct lq_buffer *out, const struct lq_hello *hello)
{
    struct lq_writer writer = lq_writer_of(lq_buffer_extend(out, LQ_HELLO_BYTES), LQ_HELLO_BYTES);
    LQ_CHECK(hello->from != 0 && hello->to != 0 && hello->boot != 0);
    lq_write_u32(&writer, LQ_HELLO_BYTES - LQ_MESSAGE_LEN_BYTES);
    lq_write_bytes(&writer, hello_magic, sizeof hello_magic);
    lq_write_u8(&writer, HELLO_VERSION);
    lq_write_u8(&writer, hello->is_blank ? HELLO_BLANK : hello->is_fresh ? HELLO_FRESH : 0);
    lq_write_u16(&writer, 0);
    lq_write_u64(&writer, hello->cluster);
    lq_write_u32(&writer, hello->from);
    lq_write_u32(&writer, hello->to);
    lq_write_u64(&writer, hello->boot);
    LQ_CHECK(!writer.failed && writer.left == 0);
}

void lq_refusal_put(struct lq_buffer *out, const struct lq_refusal *refusal)
{
    struct lq_writer writer =
        lq_writer_of(lq_buffer_extend(out, LQ_REFUSAL_BYTES), LQ_REFUSAL_BYTES);
    LQ_CHECK(refusal->reason >= 1 && refusal->reason <= LQ_REFUSAL_LAST);
    lq_write_u32(&writer, LQ_REFUSAL_BYTES - LQ_MESSAGE_LEN_BYTES);
    lq_write_bytes(&writer, refusal_magic, sizeof refusal_magic);
    lq_write_u8(&writer, REFUSAL_VERSION);
    lq_write_u8(&writer, refusal->reason);
    lq_write_u16(&writer, 0);
    lq_write_u64(&writer, refusal->cluster);
    LQ_CHECK(!writer.failed && writer.left == 0);
}

enum lq_framed lq_message_unframe(const uint8_t *bytes, size_t len, size_t max,
                                  const uint8_t **ret_body, size_t *ret_body_len, size_t *ret_used)
{
    struct lq_reader reader = lq_reader_of(bytes, len);
    size_t body_len = lq_read_u32(&reader);
    if (reader.failed) {
        return LQ_FRAMED_MORE;
    }
    if (body_len == 0 || body_len > max) {
        return LQ_FRAMED_BAD;
    }
    if (body_len > reader.left) {
        return LQ_FRAMED_MORE;
    }
    *ret_body = reader.at;
    *ret_body_len = body_len;
    *ret_used = LQ_MESSAGE_LEN_BYTES + body_len;
    return LQ_FRAMED_ONE;
}

bool lq_hello_decode(const uint8_t *body, size_t len, struct lq_hello *ret_hello)
{
    struct lq_reader reader = lq_reader_of(body, len);
    const uint8_t *magic = lq_read_bytes(&reader, sizeof hello_magic);
    uint8_t version = lq_read_u8(&reader), flags = lq_read_u8(&reader);
    uint16_t reserved = lq_read_u16(&reader);
    struct lq_hello hello = {.is_blank = flags == HELLO_BLANK, .is_fresh = flags == HELLO_FRESH};
    hello.cluster = lq_read_u64(&reader);
    hello.from = lq_read_u32(&reader);
    hello.to = lq_read_u32(&reader);
    hello.boot = lq_read_u64(&reader);
    if (reader.failed || reader.left != 0 || memcmp(magic, hello_magic, sizeof hello_magic) != 0 ||
        version != HELLO_VERSION || flags > HELLO_FRESH || reserved != 0) {
        return false;
    }
    if (hello.from == 0 || hello.to == 0 || hello.boot == 0) {
        return false;
    }
    *ret_hello = hello;
    return true;
}

bool lq_refusal_decode(const uint8_t *body, size_t len, struct lq_refusal *ret_refusal)
{
    struct lq_reader reader = lq_reader_of(body, len);
    const uint8_t *magic = lq_read_bytes(&reader, sizeof refusal_magic);
    uint8_t version = lq_read_u8(&reader);
    struct lq_refusal refusal = {.reason = lq_read_u8(&reader)};
    uint16_t reserved = lq_read_u16(&reader);
    refusal.cluster = lq_read_u64(&reader);
    if (reader.failed || reader.left != 0 ||
        memcmp(magic, refusal_magic, sizeof refusal_magic) != 0 || version != REFUSAL_VERSION ||
        refusal.reason == 0 || refusal.reason > LQ_REFUSAL_LAST || reserved != 0) {
        return false;
    }
    *ret_refusal = refusal;
    return true;
}
