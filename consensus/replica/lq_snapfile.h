/* A snapshot as a file: where in the log it stands, who the members were, and the table's state
 * (lq_snapshot.h) packed with LZ4. It is written in pieces as the state comes out of the table, and
 * read as a whole. Numbers are big-endian. */
/* clang-format off */
/*   header    magic "LQSN" | version u8 = 1 | reserved u8[3] = 0 | cluster u64 | index u64 | term u64
 *             | members_index u64 | members: len u32, bytes (lq_members.h) | check u64 of all before
 *   state     one LZ4 frame (content checksum on)
 *   trailer   len u64 of the unpacked state | check u64 of all bytes before
 *
 * Checks are XXH3 of 64 bits.
 */
/* clang-format on */
#ifndef LQ_SNAPFILE_H
#define LQ_SNAPFILE_H

#include "lq_buffer.h"
#include "lq_members.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The oldest header and trailer a reader needs to see: no file is shorter. */
#define LQ_SNAPFILE_MIN 64

struct lq_snapfile_head {
    uint64_t cluster;
    uint64_t index, term;   /* of the last entry that the state includes */
    uint64_t members_index; /* of the entry that made these the members */
    struct lq_members members;
};

/* ---- Writing. */

struct lq_snapfile_writer;

/* Begins a file: appends its first bytes to `out`. Never NULL. */
struct lq_snapfile_writer *lq_snapfile_begin(const struct lq_snapfile_head *head,
                                             struct lq_buffer *out);

/* Packs a piece of the state and appends to `out` what of the file is ready by now. */
void lq_snapfile_add(struct lq_snapfile_writer *writer, const uint8_t *state, size_t len,
                     struct lq_buffer *out);

/* Appends the rest of the file. `ret_total` is the size of the whole file, `ret_check` the checksum
 * in its last 8 bytes, which stands for the file as a whole. */
void lq_snapfile_end(struct lq_snapfile_writer *writer, struct lq_buffer *out, uint64_t *ret_total,
                     uint64_t *ret_check);

/* Frees the writer, whether it came to its end or not; NULL is fine. */
void lq_snapfile_free(struct lq_snapfile_writer *writer);

/* ---- Reading: for bytes that nobody has checked. */

enum lq_snapfile_fault {
    LQ_SNAPFILE_OK = 0,
    LQ_SNAPFILE_SHORT = 1,
    LQ_SNAPFILE_MAGIC = 2,
    LQ_SNAPFILE_VERSION = 3,
    LQ_SNAPFILE_HEADER = 4,
    LQ_SNAPFILE_CHECKSUM = 5,
    LQ_SNAPFILE_STATE = 6,
};

/* What is wrong, in words for the operator. */
const char *lq_snapfile_fault_text(enum lq_snapfile_fault fault);

/* Reads a whole file: its head, and the state unpacked and appended to `state`, which is empty and
 * never grows beyond what the trailer says, nor beyond `state_max`. `ret_check` is the file's
 * checksum. Memory is not taken on the word of unchecked bytes. */
enum lq_snapfile_fault lq_snapfile_read(const uint8_t *bytes, size_t len, uint64_t state_max,
                                        struct lq_snapfile_head *ret_head, struct lq_buffer *state,
                                        uint64_t *ret_check);

#endif
