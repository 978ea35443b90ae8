/* The payload of a log entry: a header with the leader's stamp, then segments of commands. Numbers
 * are big-endian. */
/* clang-format off */
/*   header    version u8 = 1 | reserved u8[3] = 0 | segments u32 | time_ms u64
 *             | caps: keys u64, waiters_per_key u64, waiters u64, state_bytes u64
 *   segment   kind u8 | reserved u8[3] = 0 | node u32 | incarnation u64 | first_seq u64
 *             | commands u32 | len u32 | `len` bytes of commands
 *   command   type u8 | then, by type:
 *               ACQUIRE                     wait u8, lease u8, owner u64, key
 *               RELEASE, EXPIRE             token u64, key
 *               RENEW                       lease u8, token u64, key
 *               CANCEL                      target u64
 *               FORCE_RELEASE               key
 *               ORIGIN_OPEN, ORIGIN_CLOSE   node u32, incarnation u64
 *   key       len u16 | bytes
 */
/* clang-format on */
/* An origin's segment (kind 1) holds commands of that origin, numbered from first_seq on. It is
 * made by the origin, sent to the leader and copied into the entry as it is. A leader's segment
 * (kind 2) holds EXPIRE, ORIGIN_OPEN and ORIGIN_CLOSE; its node, incarnation and first_seq are 0.
 */
#ifndef LQ_ENTRY_H
#define LQ_ENTRY_H

#include "lq_buffer.h"
#include "lq_command.h"
#include "lq_cursor.h"
#include "lq_limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LQ_ENTRY_HEADER   48
#define LQ_SEGMENT_HEADER 32

/* Largest encoded command: an ACQUIRE with the longest key. */
#define LQ_COMMAND_MAX (13 + LQ_KEY_MAX)

enum lq_segment_kind {
    LQ_SEGMENT_ORIGIN = 1,
    LQ_SEGMENT_LEADER = 2,
};

/* What the header of a segment says. */
struct lq_segment {
    uint8_t kind; /* enum lq_segment_kind */
    struct lq_origin_id origin;
    uint64_t first_seq;
    uint32_t n_commands;
    uint32_t len; /* of the commands, in bytes */
};

/* ---- Writing. A segment is begun, filled, and complete at any time; its position is where it
 * begins in the buffer. */

/* Begins a segment at the end of `out` and returns its position. */
size_t lq_segment_begin(struct lq_buffer *out, enum lq_segment_kind kind,
                        struct lq_origin_id origin, uint64_t first_seq);

/* Appends a command to the segment at `position`, which must be the last thing in `out`. The
 * command must fit the kind, and its seq the number of commands before it. */
void lq_segment_add(struct lq_buffer *out, size_t position, const struct lq_command *command);

/* Begins an entry at the end of `out`, which must be empty. */
void lq_entry_begin(struct lq_buffer *out, const struct lq_stamp *stamp);

/* Counts a segment that was appended to the entry, whether begun there or copied. */
void lq_entry_count_segment(struct lq_buffer *out);

/* ---- Reading. All of it is for bytes that nobody has checked. */

/* Goes through the commands of one segment, or of all segments of an entry. */
struct lq_commands {
    struct lq_reader reader;
    struct lq_stamp stamp;     /* entries only */
    uint32_t segments_left;    /* after the present one */
    uint32_t commands_left;    /* of the present one */
    const uint8_t *end;        /* of the present one */
    struct lq_segment segment; /* the present one */
};

enum lq_commands_next {
    LQ_COMMANDS_ONE, /* a command was read */
    LQ_COMMANDS_END, /* all were read, and nothing is left over */
    LQ_COMMANDS_BAD, /* the bytes are not a valid segment or entry */
};

/* Begins to read an entry; false when its header is not valid. The bytes must stay while commands
 * are read. */
bool lq_entry_open(struct lq_commands *ret_commands, const uint8_t *bytes, size_t len);

/* Begins to read exactly one segment; false when its header is not valid. `ret_commands->segment`
 * tells what it is. */
bool lq_segment_open(struct lq_commands *ret_commands, const uint8_t *bytes, size_t len);

/* Reads the next command; its key lies inside the bytes. */
enum lq_commands_next lq_commands_next(struct lq_commands *commands,
                                       struct lq_command *ret_command);

#endif
