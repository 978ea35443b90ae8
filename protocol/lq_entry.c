#include "lq_entry.h"

#include "lq_check.h"
#include "lq_key.h"

#include <string.h>

#define VERSION 1

/* Where the counters stand that are raised as things are added. */
#define ENTRY_SEGMENTS_AT   4
#define SEGMENT_COMMANDS_AT 24
#define SEGMENT_LEN_AT      28

/* ---- Which fields a command has, in their order: w wait, l lease, o owner, t token, g target, k
 * key, i origin. */

static const char *fields_of(uint8_t type)
{
    switch ((enum lq_command_type)type) {
    case LQ_COMMAND_ACQUIRE:
        return "wlok";
    case LQ_COMMAND_RELEASE:
    case LQ_COMMAND_EXPIRE:
        return "tk";
    case LQ_COMMAND_RENEW:
        return "ltk";
    case LQ_COMMAND_CANCEL:
        return "g";
    case LQ_COMMAND_FORCE_RELEASE:
        return "k";
    case LQ_COMMAND_ORIGIN_OPEN:
    case LQ_COMMAND_ORIGIN_CLOSE:
        return "i";
    }
    return NULL;
}

static bool fits_kind(uint8_t type, uint8_t kind)
{
    return lq_command_is_from_origin(type) == (kind == LQ_SEGMENT_ORIGIN);
}

/* ---- Writing. */

static void write_field(struct lq_writer *writer, char field, const struct lq_command *command)
{
    switch (field) {
    case 'w':
        lq_write_u8(writer, command->wait_s);
        break;
    case 'l':
        lq_write_u8(writer, command->lease_s);
        break;
    case 'o':
        lq_write_u64(writer, command->owner);
        break;
    case 't':
        lq_write_u64(writer, command->token);
        break;
    case 'g':
        lq_write_u64(writer, command->target);
        break;
    case 'k':
        lq_write_u16(writer, command->key_len);
        lq_write_bytes(writer, command->key, command->key_len);
        break;
    case 'i':
        lq_write_u32(writer, command->origin.node);
        lq_write_u64(writer, command->origin.incarnation);
        break;
    default:
        LQ_BUG("a field that no command has");
    }
}

static uint32_t get_u32(const uint8_t *bytes)
{
    struct lq_reader reader = lq_reader_of(bytes, sizeof(uint32_t));
    return lq_read_u32(&reader);
}

static void set_u32(uint8_t *bytes, uint32_t value)
{
    struct lq_writer writer = lq_writer_of(bytes, sizeof(uint32_t));
    lq_write_u32(&writer, value);
}

size_t lq_segment_begin(struct lq_buffer *out, enum lq_segment_kind kind,
                        struct lq_origin_id origin, uint64_t first_seq)
{
    size_t position = out->len;
    struct lq_writer writer =
        lq_writer_of(lq_buffer_extend(out, LQ_SEGMENT_HEADER), LQ_SEGMENT_HEADER);
    lq_write_u8(&writer, (uint8_t)kind);
    lq_write_bytes(&writer, (const uint8_t[3]){0}, 3);
    lq_write_u32(&writer, origin.node);
    lq_write_u64(&writer, origin.incarnation);
    lq_write_u64(&writer, first_seq);
    lq_write_u32(&writer, 0);
    lq_write_u32(&writer, 0);
    LQ_CHECK(!writer.failed && writer.left == 0);
    return position;
}

void lq_segment_add(struct lq_buffer *out, size_t position, const struct lq_command *command)
{
    uint8_t bytes[LQ_COMMAND_MAX], *header;
    struct lq_writer writer = lq_writer_of(bytes, sizeof bytes);
    const char *field = fields_of(command->type);
    size_t len;
    LQ_CHECK(field != NULL && fits_kind(command->type, out->bytes[position]));
    lq_write_u8(&writer, command->type);
    for (; *field != '\0'; field++) {
        write_field(&writer, *field, command);
    }
    LQ_CHECK(!writer.failed);
    len = sizeof bytes - writer.left;
    lq_buffer_add(out, bytes, len);
    header = out->bytes + position;
    set_u32(header + SEGMENT_COMMANDS_AT, get_u32(header + SEGMENT_COMMANDS_AT) + 1);
    set_u32(header + SEGMENT_LEN_AT, (uint32_t)(get_u32(header + SEGMENT_LEN_AT) + len));
    LQ_CHECK(position + LQ_SEGMENT_HEADER + get_u32(header + SEGMENT_LEN_AT) == out->len);
}

void lq_entry_begin(struct lq_buffer *out, const struct lq_stamp *stamp)
{
    struct lq_writer writer;
    LQ_CHECK(out->len == 0);
    writer = lq_writer_of(lq_buffer_extend(out, LQ_ENTRY_HEADER), LQ_ENTRY_HEADER);
    lq_write_u8(&writer, VERSION);
    lq_write_bytes(&writer, (const uint8_t[3]){0}, 3);
    lq_write_u32(&writer, 0);
    lq_write_u64(&writer, stamp->time_ms);
    lq_write_u64(&writer, stamp->caps.keys);
    lq_write_u64(&writer, stamp->caps.waiters_per_key);
    lq_write_u64(&writer, stamp->caps.waiters);
    lq_write_u64(&writer, stamp->caps.state_bytes);
    LQ_CHECK(!writer.failed && writer.left == 0);
}

void lq_entry_count_segment(struct lq_buffer *out)
{
    LQ_CHECK(out->len >= LQ_ENTRY_HEADER + LQ_SEGMENT_HEADER);
    set_u32(out->bytes + ENTRY_SEGMENTS_AT, get_u32(out->bytes + ENTRY_SEGMENTS_AT) + 1);
}

/* ---- Reading. */

static bool skip_zeros(struct lq_reader *reader)
{
    const uint8_t *bytes = lq_read_bytes(reader, 3);
    return bytes != NULL && bytes[0] == 0 && bytes[1] == 0 && bytes[2] == 0;
}

/* Whether the header makes sense by itself: known kind, a leader's segment without origin, numbers
 * that do not run over, and as many bytes as the smallest commands would take. */
static bool is_sound(const struct lq_segment *segment)
{
    bool is_origins = segment->kind == LQ_SEGMENT_ORIGIN;
    bool has_origin =
        segment->origin.node != 0 || segment->origin.incarnation != 0 || segment->first_seq != 0;
    if (!is_origins && (segment->kind != LQ_SEGMENT_LEADER || has_origin)) {
        return false;
    }
    if (is_origins &&
        (segment->first_seq == 0 || segment->first_seq > UINT64_MAX - segment->n_commands)) {
        return false;
    }
    return segment->n_commands >= 1 && segment->n_commands <= segment->len;
}

/* Reads the header of the next segment. */
static bool open_segment(struct lq_commands *commands)
{
    struct lq_reader *reader = &commands->reader;
    struct lq_segment segment = {.kind = lq_read_u8(reader)};
    bool is_reserved_zero = skip_zeros(reader);
    segment.origin.node = lq_read_u32(reader);
    segment.origin.incarnation = lq_read_u64(reader);
    segment.first_seq = lq_read_u64(reader);
    segment.n_commands = lq_read_u32(reader);
    segment.len = lq_read_u32(reader);
    if (reader->failed || !is_reserved_zero || !is_sound(&segment) || segment.len > reader->left) {
        return false;
    }
    commands->segment = segment;
    commands->commands_left = segment.n_commands;
    commands->end = reader->at + segment.len;
    return true;
}

bool lq_segment_open(struct lq_commands *ret_commands, const uint8_t *bytes, size_t len)
{
    *ret_commands = (struct lq_commands){.reader = lq_reader_of(bytes, len)};
    return open_segment(ret_commands);
}

bool lq_entry_open(struct lq_commands *ret_commands, const uint8_t *bytes, size_t len)
{
    struct lq_commands commands = {.reader = lq_reader_of(bytes, len)};
    struct lq_reader *reader = &commands.reader;
    bool is_known = lq_read_u8(reader) == VERSION && skip_zeros(reader);
    commands.segments_left = lq_read_u32(reader);
    commands.stamp.time_ms = lq_read_u64(reader);
    commands.stamp.caps.keys = lq_read_u64(reader);
    commands.stamp.caps.waiters_per_key = lq_read_u64(reader);
    commands.stamp.caps.waiters = lq_read_u64(reader);
    commands.stamp.caps.state_bytes = lq_read_u64(reader);
    commands.end = reader->at;
    if (reader->failed || !is_known) {
        return false;
    }
    *ret_commands = commands;
    return true;
}

static void read_key(struct lq_reader *reader, struct lq_command *command)
{
    command->key_len = lq_read_u16(reader);
    command->key = lq_read_bytes(reader, command->key_len);
    if (command->key == NULL || !lq_key_is_valid(command->key, command->key_len)) {
        reader->failed = true;
    }
}

static void read_field(struct lq_reader *reader, char field, struct lq_command *command)
{
    switch (field) {
    case 'w':
        command->wait_s = lq_read_u8(reader);
        break;
    case 'l':
        command->lease_s = lq_read_u8(reader);
        reader->failed = reader->failed || command->lease_s == 0;
        break;
    case 'o':
        command->owner = lq_read_u64(reader);
        break;
    case 't':
        command->token = lq_read_u64(reader);
        break;
    case 'g':
        command->target = lq_read_u64(reader);
        break;
    case 'k':
        read_key(reader, command);
        break;
    case 'i':
        command->origin.node = lq_read_u32(reader);
        command->origin.incarnation = lq_read_u64(reader);
        break;
    default:
        LQ_BUG("a field that no command has");
    }
}

static bool read_command(struct lq_commands *commands, struct lq_command *ret_command)
{
    const struct lq_segment *segment = &commands->segment;
    struct lq_reader reader =
        lq_reader_of(commands->reader.at, (size_t)(commands->end - commands->reader.at));
    struct lq_command command = {.type = lq_read_u8(&reader)};
    const char *field = fields_of(command.type);
    if (reader.failed || field == NULL || !fits_kind(command.type, segment->kind)) {
        return false;
    }
    if (segment->kind == LQ_SEGMENT_ORIGIN) {
        command.origin = segment->origin;
        command.seq = segment->first_seq + (segment->n_commands - commands->commands_left);
    }
    for (; *field != '\0'; field++) {
        read_field(&reader, *field, &command);
    }
    if (reader.failed) {
        return false;
    }
    (void)lq_read_bytes(&commands->reader, (size_t)(reader.at - commands->reader.at));
    *ret_command = command;
    return true;
}

enum lq_commands_next lq_commands_next(struct lq_commands *commands, struct lq_command *ret_command)
{
    while (commands->commands_left == 0) {
        if (commands->reader.at != commands->end) {
            return LQ_COMMANDS_BAD;
        }
        if (commands->segments_left == 0) {
            return commands->reader.left == 0 ? LQ_COMMANDS_END : LQ_COMMANDS_BAD;
        }
        commands->segments_left--;
        if (!open_segment(commands)) {
            return LQ_COMMANDS_BAD;
        }
    }
    if (!read_command(commands, ret_command)) {
        return LQ_COMMANDS_BAD;
    }
    commands->commands_left--;
    return LQ_COMMANDS_ONE;
}
