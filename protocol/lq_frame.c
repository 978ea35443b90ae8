/* Frames from one table: each op has a string of header fields, in their order on the wire
 *   w wait  l lease  c code (u8)   o owner  t token (u64)
 * and says what stands between header and line feed. The decoder consumes the header by its size
 * first and only then looks for the line feed, since header bytes may be 0A. */
#include "lq_frame.h"

#include "lq_check.h"
#include "lq_cursor.h"
#include "lq_key.h"
#include "lq_limits.h"

#include <string.h>

enum body {
    BODY_KEY,  /* 1 to LQ_KEY_MAX bytes of UTF-8 */
    BODY_NONE, /* the line feed follows at once */
    BODY_TEXT, /* 0 to LQ_KEY_MAX bytes, for people */
};

struct layout {
    uint8_t op;
    uint8_t header_len; /* op byte included */
    enum body body;
    const char *fields;
};

static const struct layout requests[] = {
    {LQ_OP_ACQUIRE, 11, BODY_KEY, "wlo"}, {LQ_OP_RELEASE, 9, BODY_KEY, "t"},
    {LQ_OP_RENEW, 10, BODY_KEY, "lt"},    {LQ_OP_CANCEL, 9, BODY_KEY, "o"},
    {LQ_OP_PING, 9, BODY_NONE, "o"},
};

static const struct layout answers[] = {
    {LQ_OP_ACQUIRE, 17, BODY_KEY, "to"}, {LQ_OP_RELEASE, 9, BODY_KEY, "t"},
    {LQ_OP_TIMEOUT, 9, BODY_KEY, "o"},   {LQ_OP_BUSY, 9, BODY_KEY, "o"},
    {LQ_OP_NOT_HELD, 9, BODY_KEY, "t"},  {LQ_OP_RENEW, 9, BODY_KEY, "t"},
    {LQ_OP_PING, 9, BODY_NONE, "o"},     {LQ_OP_ERROR, 2, BODY_TEXT, "c"},
};

/* One direction of the protocol. */
struct grammar {
    const struct layout *layouts;
    size_t n;
};

static const struct grammar request_grammar = {requests, sizeof requests / sizeof *requests};
static const struct grammar answer_grammar = {answers, sizeof answers / sizeof *answers};

static const struct layout *find(const struct grammar *grammar, uint8_t op)
{
    for (size_t i = 0; i < grammar->n; i++) {
        if (grammar->layouts[i].op == op) {
            return &grammar->layouts[i];
        }
    }
    return NULL;
}

static enum lq_decoded bad(struct lq_frame *ret_frame, uint8_t op, enum lq_wire_error code)
{
    *ret_frame = (struct lq_frame){.op = op, .code = (uint8_t)code};
    return LQ_DECODED_BAD;
}

static void read_field(struct lq_reader *reader, char field, struct lq_frame *frame)
{
    switch (field) {
    case 'w':
        frame->wait_s = lq_read_u8(reader);
        break;
    case 'l':
        frame->lease_s = lq_read_u8(reader);
        break;
    case 'c':
        frame->code = lq_read_u8(reader);
        break;
    case 'o':
        frame->owner = lq_read_u64(reader);
        break;
    case 't':
        frame->token = lq_read_u64(reader);
        break;
    default:
        LQ_BUG("a field that no frame has");
    }
}

static void write_field(struct lq_writer *writer, char field, const struct lq_frame *frame)
{
    switch (field) {
    case 'w':
        lq_write_u8(writer, frame->wait_s);
        break;
    case 'l':
        lq_write_u8(writer, frame->lease_s);
        break;
    case 'c':
        lq_write_u8(writer, frame->code);
        break;
    case 'o':
        lq_write_u64(writer, frame->owner);
        break;
    case 't':
        lq_write_u64(writer, frame->token);
        break;
    default:
        LQ_BUG("a field that no frame has");
    }
}

/* Whether the lease byte of this header has come and is 0. The lease is the last u8 field of its
 * header. */
static int lease_is_zero(const struct layout *layout, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; layout->fields[i] == 'w' || layout->fields[i] == 'l'; i++) {
        if (layout->fields[i] == 'l' && len > 1 + i && bytes[1 + i] == 0) {
            return 1;
        }
    }
    return 0;
}

/* How long what stands between header and line feed may be. */
static size_t body_max(enum body body)
{
    return body == BODY_NONE ? 0 : LQ_KEY_MAX;
}

/* Checks a whole key; LQ_WIRE_OK when it is one. */
static enum lq_wire_error check_body(enum body body, const uint8_t *bytes, size_t len)
{
    if (body != BODY_KEY) {
        return LQ_WIRE_OK;
    }
    if (len == 0) {
        return LQ_WIRE_EMPTY_KEY;
    }
    return lq_key_is_utf8(bytes, len) ? LQ_WIRE_OK : LQ_WIRE_KEY_NOT_UTF8;
}

static enum lq_decoded decode(const struct grammar *grammar, const uint8_t *bytes, size_t len,
                              struct lq_frame *ret_frame, size_t *ret_used)
{
    const struct layout *layout;
    struct lq_reader reader = lq_reader_of(bytes, len);
    const uint8_t *body, *end;
    size_t room, body_len;
    enum lq_wire_error fault;

    if (len == 0) {
        return LQ_DECODED_MORE;
    }
    layout = find(grammar, bytes[0]);
    if (layout == NULL) {
        return bad(ret_frame, bytes[0], LQ_WIRE_UNKNOWN_OP);
    }
    if (lease_is_zero(layout, bytes, len)) {
        return bad(ret_frame, bytes[0], LQ_WIRE_LEASE_ZERO);
    }
    if (len <= layout->header_len) {
        return LQ_DECODED_MORE;
    }
    body = bytes + layout->header_len;
    room = len - layout->header_len;
    end = memchr(body, '\n', room <= body_max(layout->body) ? room : body_max(layout->body) + 1);
    if (end == NULL) {
        return room > body_max(layout->body) ? bad(ret_frame, bytes[0], LQ_WIRE_KEY_TOO_LONG)
                                             : LQ_DECODED_MORE;
    }
    body_len = (size_t)(end - body);
    fault = check_body(layout->body, body, body_len);
    if (fault != LQ_WIRE_OK) {
        return bad(ret_frame, bytes[0], fault);
    }
    *ret_frame = (struct lq_frame){.key_len = (uint16_t)body_len, .key = body};
    ret_frame->op = lq_read_u8(&reader);
    for (const char *field = layout->fields; *field != '\0'; field++) {
        read_field(&reader, *field, ret_frame);
    }
    LQ_CHECK(!reader.failed && reader.at == body);
    *ret_used = layout->header_len + body_len + 1;
    return LQ_DECODED_FRAME;
}

static size_t encode(const struct grammar *grammar, const struct lq_frame *frame,
                     uint8_t *ret_bytes, size_t cap)
{
    const struct layout *layout = find(grammar, frame->op);
    struct lq_writer writer = lq_writer_of(ret_bytes, cap);

    LQ_CHECK(layout != NULL);
    LQ_CHECK(frame->key_len <= body_max(layout->body));
    lq_write_u8(&writer, frame->op);
    for (const char *field = layout->fields; *field != '\0'; field++) {
        write_field(&writer, *field, frame);
    }
    lq_write_bytes(&writer, frame->key, frame->key_len);
    lq_write_u8(&writer, '\n');
    return writer.failed ? 0 : cap - writer.left;
}

enum lq_decoded lq_request_decode(const uint8_t *bytes, size_t len, struct lq_frame *ret_frame,
                                  size_t *ret_used)
{
    return decode(&request_grammar, bytes, len, ret_frame, ret_used);
}

enum lq_decoded lq_answer_decode(const uint8_t *bytes, size_t len, struct lq_frame *ret_frame,
                                 size_t *ret_used)
{
    return decode(&answer_grammar, bytes, len, ret_frame, ret_used);
}

size_t lq_request_encode(const struct lq_frame *frame, uint8_t *ret_bytes, size_t cap)
{
    return encode(&request_grammar, frame, ret_bytes, cap);
}

size_t lq_answer_encode(const struct lq_frame *frame, uint8_t *ret_bytes, size_t cap)
{
    return encode(&answer_grammar, frame, ret_bytes, cap);
}

const char *lq_wire_error_text(uint8_t code)
{
    switch ((enum lq_wire_error)code) {
    case LQ_WIRE_OK:
        return "no error";
    case LQ_WIRE_UNKNOWN_OP:
        return "unknown op: a request begins with A, R, K, C or P";
    case LQ_WIRE_EMPTY_KEY:
        return "empty key: a key has 1 to 1024 bytes";
    case LQ_WIRE_KEY_TOO_LONG:
        return "key too long: no line feed within 1024 bytes (P takes no key)";
    case LQ_WIRE_KEY_NOT_UTF8:
        return "key is not valid UTF-8";
    case LQ_WIRE_LEASE_ZERO:
        return "lease is 0: give 1 to 255 seconds";
    case LQ_WIRE_SHUTTING_DOWN:
        return "server is shutting down";
    }
    return "error code unknown to this version";
}
