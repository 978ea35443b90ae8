/* Messages from one table: a kind has some numbers of 8 bytes, in their order on the wire, and then
 * at most one thing more: flags, items behind their count, or bytes up to the end. The decoder
 * walks all items once and believes a count only when the bytes left could hold as many. */
#include "lq_message.h"

#include "lq_check.h"

#include <string.h>

/* What stands in every body before the numbers of its kind. */
#define HEADER_BYTES 28

#define NUMBER_BYTES  8
#define COUNT_BYTES   4
#define ENTRY_BYTES   21 /* without the bytes of the entry */
#define OUTCOME_BYTES 26

#define OUTCOME_KIND_LAST 15

#define NUMBERS_MAX 6
#define FLAGS_MAX   2

enum tail {
    TAIL_NONE,
    TAIL_FLAGS,
    TAIL_ENTRIES,
    TAIL_OUTCOMES,
    TAIL_BYTES, /* all that is left */
};

/* Members are named by their place in struct lq_message. `kind` is at 0, so 0 ends a list. */
#define AT(member) offsetof(struct lq_message, member)
_Static_assert(AT(kind) == 0, "place 0 must not be a number or a flag");

struct layout {
    uint16_t numbers[NUMBERS_MAX + 1];
    uint16_t flags[FLAGS_MAX + 1]; /* the first has bit 1, the second bit 2 */
    enum tail tail;
};

static const uint16_t header_numbers[] = {AT(time_ms), AT(ping_ms), AT(echo_ms), 0};

/* clang-format off */
static const struct layout layouts[] = {
    [LQ_MESSAGE_VOTE] = {{AT(term), AT(last_index), AT(last_term)},
                         {AT(is_pre_vote), AT(is_disrupting)}, TAIL_FLAGS},
    [LQ_MESSAGE_VOTE_RESULT] = {{AT(term)}, {AT(is_pre_vote), AT(is_granted)}, TAIL_FLAGS},
    [LQ_MESSAGE_APPEND] = {{AT(term), AT(prev_index), AT(prev_term), AT(commit)}, {0}, TAIL_ENTRIES},
    [LQ_MESSAGE_APPEND_RESULT] = {{AT(term), AT(rejected), AT(last_index)}, {0}, TAIL_NONE},
    [LQ_MESSAGE_TIMEOUT_NOW] = {{AT(term), AT(last_index), AT(last_term)}, {0}, TAIL_NONE},
    [LQ_MESSAGE_OPEN] = {{AT(incarnation)}, {0}, TAIL_NONE},
    [LQ_MESSAGE_CLOSE] = {{AT(incarnation)}, {0}, TAIL_NONE},
    [LQ_MESSAGE_SUBMIT] = {{AT(term)}, {0}, TAIL_BYTES},
    [LQ_MESSAGE_RESEND] = {{AT(term), AT(incarnation), AT(next_seq)}, {0}, TAIL_NONE},
    [LQ_MESSAGE_OUTCOMES] = {{AT(term), AT(incarnation), AT(through)}, {0}, TAIL_OUTCOMES},
    [LQ_MESSAGE_PING] = {{0}, {0}, TAIL_NONE},
    [LQ_MESSAGE_REMOVED] = {{AT(index)}, {0}, TAIL_NONE},
    [LQ_MESSAGE_DIGEST] = {{AT(index), AT(digest)}, {0}, TAIL_NONE},
    [LQ_MESSAGE_CHUNK] = {{AT(term), AT(index), AT(index_term), AT(total), AT(check), AT(offset)},
                          {0}, TAIL_BYTES},
    [LQ_MESSAGE_CHUNK_RESULT] = {{AT(term), AT(index), AT(check), AT(offset)},
                                 {AT(is_refused)}, TAIL_FLAGS},
};
/* clang-format on */

/* The layout of a kind, NULL when there is no such kind. */
static const struct layout *layout_of(uint8_t kind)
{
    return kind >= LQ_MESSAGE_VOTE && kind < sizeof layouts / sizeof *layouts ? &layouts[kind]
                                                                              : NULL;
}

/* ---- Writing. */

static void write_numbers(struct lq_writer *writer, const uint16_t *places,
                          const struct lq_message *message)
{
    for (; *places != 0; places++) {
        uint64_t number;
        memcpy(&number, (const uint8_t *)message + *places, sizeof number);
        lq_write_u64(writer, number);
    }
}

static void write_flags(struct lq_writer *writer, const uint16_t *places,
                        const struct lq_message *message)
{
    uint8_t flags = 0;
    for (unsigned bit = 1; *places != 0; places++, bit <<= 1) {
        bool is_set;
        memcpy(&is_set, (const uint8_t *)message + *places, sizeof is_set);
        flags = (uint8_t)(flags | (is_set ? bit : 0));
    }
    lq_write_u8(writer, flags);
}

static void write_entries(struct lq_writer *writer, const struct lq_message_entry *entries,
                          uint32_t count)
{
    lq_write_u32(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        lq_write_u64(writer, entries[i].term);
        lq_write_u64(writer, entries[i].check);
        lq_write_u8(writer, entries[i].type);
        lq_write_u32(writer, entries[i].len);
        lq_write_bytes(writer, entries[i].bytes, entries[i].len);
    }
}

static void write_outcomes(struct lq_writer *writer, const struct lq_message_outcome *outcomes,
                           uint32_t count)
{
    LQ_CHECK(count == 0 || outcomes != NULL);
    lq_write_u32(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        LQ_CHECK(outcomes[i].kind >= 1 && outcomes[i].kind <= OUTCOME_KIND_LAST);
        lq_write_u8(writer, outcomes[i].kind);
        lq_write_u8(writer, outcomes[i].lease_s);
        lq_write_u64(writer, outcomes[i].seq);
        lq_write_u64(writer, outcomes[i].token);
        lq_write_u64(writer, outcomes[i].stamp_ms);
    }
}

size_t lq_message_entry_bytes(size_t len)
{
    return ENTRY_BYTES + len;
}

static size_t entries_bytes(const struct lq_message_entry *entries, uint32_t count)
{
    size_t sum = COUNT_BYTES;
    LQ_CHECK(count == 0 || entries != NULL);
    for (uint32_t i = 0; i < count; i++) {
        sum += lq_message_entry_bytes(entries[i].len);
        LQ_CHECK(sum <= LQ_MESSAGE_MAX);
    }
    return sum;
}

static size_t tail_bytes(enum tail tail, const struct lq_message *message,
                         const struct lq_message_entry *entries)
{
    switch (tail) {
    case TAIL_NONE:
        return 0;
    case TAIL_FLAGS:
        return 1;
    case TAIL_ENTRIES:
        return entries_bytes(entries, message->count);
    case TAIL_OUTCOMES:
        return COUNT_BYTES + (size_t)message->count * OUTCOME_BYTES;
    case TAIL_BYTES:
        return message->len;
    }
    LQ_BUG("a tail that no message has");
}

static void write_tail(struct lq_writer *writer, const struct layout *layout,
                       const struct lq_message *message, const struct lq_message_entry *entries,
                       const struct lq_message_outcome *outcomes)
{
    switch (layout->tail) {
    case TAIL_NONE:
        break;
    case TAIL_FLAGS:
        write_flags(writer, layout->flags, message);
        break;
    case TAIL_ENTRIES:
        write_entries(writer, entries, message->count);
        break;
    case TAIL_OUTCOMES:
        write_outcomes(writer, outcomes, message->count);
        break;
    case TAIL_BYTES:
        lq_write_bytes(writer, message->bytes, message->len);
        break;
    }
}

void lq_message_put(struct lq_buffer *out, const struct lq_message *message,
                    const struct lq_message_entry *entries,
                    const struct lq_message_outcome *outcomes)
{
    const struct layout *layout = layout_of(message->kind);
    struct lq_writer writer;
    size_t rest, body_len = HEADER_BYTES, len;
    LQ_CHECK(layout != NULL);
    LQ_CHECK(entries == NULL || layout->tail == TAIL_ENTRIES);
    LQ_CHECK(outcomes == NULL || layout->tail == TAIL_OUTCOMES);
    for (const uint16_t *place = layout->numbers; *place != 0; place++) {
        body_len += NUMBER_BYTES;
    }
    rest = tail_bytes(layout->tail, message, entries);
    LQ_CHECK(rest <= LQ_MESSAGE_MAX - body_len);
    body_len += rest;
    len = LQ_MESSAGE_LEN_BYTES + body_len;
    writer = lq_writer_of(lq_buffer_extend(out, len), len);
    lq_write_u32(&writer, (uint32_t)body_len);
    lq_write_u8(&writer, message->kind);
    lq_write_bytes(&writer, (const uint8_t[3]){0}, 3);
    write_numbers(&writer, header_numbers, message);
    write_numbers(&writer, layout->numbers, message);
    write_tail(&writer, layout, message, entries, outcomes);
    LQ_CHECK(!writer.failed && writer.left == 0);
}

/* ---- Reading. */

static void read_numbers(struct lq_reader *reader, const uint16_t *places,
                         struct lq_message *message)
{
    for (; *places != 0; places++) {
        uint64_t number = lq_read_u64(reader);
        memcpy((uint8_t *)message + *places, &number, sizeof number);
    }
}

static void read_flags(struct lq_reader *reader, const uint16_t *places, struct lq_message *message)
{
    unsigned flags = lq_read_u8(reader);
    for (; *places != 0; places++, flags >>= 1) {
        bool is_set = (flags & 1) != 0;
        memcpy((uint8_t *)message + *places, &is_set, sizeof is_set);
    }
    reader->failed = reader->failed || flags != 0; /* bits that the kind does not have */
}

static struct lq_message_entry read_entry(struct lq_reader *reader)
{
    struct lq_message_entry entry = {.term = lq_read_u64(reader)};
    entry.check = lq_read_u64(reader);
    entry.type = lq_read_u8(reader);
    entry.len = lq_read_u32(reader);
    entry.bytes = lq_read_bytes(reader, entry.len);
    return entry;
}

static struct lq_message_outcome read_outcome(struct lq_reader *reader)
{
    struct lq_message_outcome outcome = {.kind = lq_read_u8(reader)};
    outcome.lease_s = lq_read_u8(reader);
    outcome.seq = lq_read_u64(reader);
    outcome.token = lq_read_u64(reader);
    outcome.stamp_ms = lq_read_u64(reader);
    reader->failed = reader->failed || outcome.kind == 0 || outcome.kind > OUTCOME_KIND_LAST;
    return outcome;
}

/* Reads a count, notes where the items begin, and goes through all of them. */
static void read_items(struct lq_reader *reader, enum tail tail, struct lq_message *message)
{
    size_t smallest = tail == TAIL_ENTRIES ? ENTRY_BYTES : OUTCOME_BYTES;
    message->count = lq_read_u32(reader);
    message->items = *reader;
    reader->failed = reader->failed || message->count > reader->left / smallest;
    for (uint32_t i = 0; i < message->count && !reader->failed; i++) {
        if (tail == TAIL_ENTRIES) {
            (void)read_entry(reader);
        } else {
            (void)read_outcome(reader);
        }
    }
}

static void read_tail(struct lq_reader *reader, const struct layout *layout,
                      struct lq_message *message)
{
    switch (layout->tail) {
    case TAIL_NONE:
        break;
    case TAIL_FLAGS:
        read_flags(reader, layout->flags, message);
        break;
    case TAIL_ENTRIES:
    case TAIL_OUTCOMES:
        read_items(reader, layout->tail, message);
        break;
    case TAIL_BYTES:
        message->len = reader->left;
        message->bytes = lq_read_bytes(reader, message->len);
        break;
    }
}

bool lq_message_decode(const uint8_t *body, size_t len, struct lq_message *ret_message)
{
    struct lq_reader reader = lq_reader_of(body, len);
    struct lq_message message = {.kind = lq_read_u8(&reader)};
    const uint8_t *reserved = lq_read_bytes(&reader, 3);
    const struct layout *layout = layout_of(message.kind);
    if (len > LQ_MESSAGE_MAX || layout == NULL || reserved == NULL || reserved[0] != 0 ||
        reserved[1] != 0 || reserved[2] != 0) {
        return false;
    }
    read_numbers(&reader, header_numbers, &message);
    read_numbers(&reader, layout->numbers, &message);
    read_tail(&reader, layout, &message);
    if (reader.failed || reader.left != 0) {
        return false;
    }
    *ret_message = message;
    return true;
}

bool lq_message_next_entry(struct lq_message *message, struct lq_message_entry *ret_entry)
{
    LQ_CHECK(message->kind == LQ_MESSAGE_APPEND);
    if (message->items.left == 0) {
        return false;
    }
    *ret_entry = read_entry(&message->items);
    LQ_CHECK(!message->items.failed); /* the decoder went through all of them */
    return true;
}

bool lq_message_next_outcome(struct lq_message *message, struct lq_message_outcome *ret_outcome)
{
    LQ_CHECK(message->kind == LQ_MESSAGE_OUTCOMES);
    if (message->items.left == 0) {
        return false;
    }
    *ret_outcome = read_outcome(&message->items);
    LQ_CHECK(!message->items.failed); /* the decoder went through all of them */
    return true;
}
