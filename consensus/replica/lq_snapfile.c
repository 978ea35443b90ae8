/* Blocks are packed independently of each other, so the bytes depend on the state alone, not on
 * where in memory its pieces were. */
#include "lq_snapfile.h"

#include "lq_check.h"
#include "lq_cursor.h"
#include "lq_mem.h"

#include <lz4frame.h>
#include <string.h>
#include <xxhash.h>

#define VERSION     1
#define HEAD_LEN    44u /* without members and check */
#define CHECK_LEN   8u
#define TRAILER_LEN 16u
#define MEMBERS_MAX 4096u /* longest byte form of LQ_MEMBERS_MAX members */

/* Unpacked at a time: what the state's memory may grow by on the word of a few bytes. */
#define UNPACK_LEN ((size_t)256 * 1024)

static const char magic[4] = {'L', 'Q', 'S', 'N'};
static const LZ4F_preferences_t preferences = {
    .frameInfo = {.blockSizeID = LZ4F_max256KB,
                  .blockMode = LZ4F_blockIndependent,
                  .contentChecksumFlag = LZ4F_contentChecksumEnabled}};

/* ---- Writing. */

struct lq_snapfile_writer {
    LZ4F_cctx *packer;
    XXH3_state_t *hash; /* of all bytes of the file so far */
    uint64_t state_len, file_len;
};

/* `out` has got new bytes of the file from `start` on. */
static void count_in(struct lq_snapfile_writer *writer, const struct lq_buffer *out, size_t start)
{
    XXH3_64bits_update(writer->hash, out->bytes + start, out->len - start);
    writer->file_len += out->len - start;
}

static void add_u64(struct lq_buffer *out, uint64_t value)
{
    struct lq_writer cursor = lq_writer_of(lq_buffer_extend(out, sizeof value), sizeof value);
    lq_write_u64(&cursor, value);
}

static void add_head(const struct lq_snapfile_head *head, struct lq_buffer *out)
{
    size_t start = out->len;
    struct lq_buffer members = {0};
    struct lq_writer cursor = lq_writer_of(lq_buffer_extend(out, HEAD_LEN), HEAD_LEN);
    lq_members_encode(&head->members, &members);
    lq_write_bytes(&cursor, magic, sizeof magic);
    lq_write_u8(&cursor, VERSION);
    lq_write_bytes(&cursor, (const uint8_t[3]){0}, 3);
    lq_write_u64(&cursor, head->cluster);
    lq_write_u64(&cursor, head->index);
    lq_write_u64(&cursor, head->term);
    lq_write_u64(&cursor, head->members_index);
    lq_write_u32(&cursor, (uint32_t)members.len);
    LQ_CHECK(!cursor.failed && cursor.left == 0 && members.len <= MEMBERS_MAX);
    lq_buffer_add(out, members.bytes, members.len);
    lq_buffer_done(&members);
    add_u64(out, XXH3_64bits(out->bytes + start, out->len - start));
}

struct lq_snapfile_writer *lq_snapfile_begin(const struct lq_snapfile_head *head,
                                             struct lq_buffer *out)
{
    struct lq_snapfile_writer *writer = lq_calloc(1, sizeof *writer);
    size_t start = out->len, room_at, used;
    writer->hash = XXH3_createState();
    LQ_CHECK(writer->hash != NULL && XXH3_64bits_reset(writer->hash) == XXH_OK);
    LQ_CHECK(!LZ4F_isError(LZ4F_createCompressionContext(&writer->packer, LZ4F_VERSION)));
    add_head(head, out);
    room_at = out->len;
    used = LZ4F_compressBegin(writer->packer, lq_buffer_extend(out, LZ4F_HEADER_SIZE_MAX),
                              LZ4F_HEADER_SIZE_MAX, &preferences);
    LQ_CHECK(!LZ4F_isError(used));
    out->len = room_at + used;
    count_in(writer, out, start);
    return writer;
}

void lq_snapfile_add(struct lq_snapfile_writer *writer, const uint8_t *state, size_t len,
                     struct lq_buffer *out)
{
    size_t start = out->len, room = LZ4F_compressBound(len, &preferences), used;
    if (len == 0) {
        return;
    }
    used = LZ4F_compressUpdate(writer->packer, lq_buffer_extend(out, room), room, state, len, NULL);
    LQ_CHECK(!LZ4F_isError(used));
    out->len = start + used;
    writer->state_len += len;
    count_in(writer, out, start);
}

void lq_snapfile_end(struct lq_snapfile_writer *writer, struct lq_buffer *out, uint64_t *ret_total,
                     uint64_t *ret_check)
{
    size_t start = out->len, room = LZ4F_compressBound(0, &preferences);
    size_t used = LZ4F_compressEnd(writer->packer, lq_buffer_extend(out, room), room, NULL);
    LQ_CHECK(!LZ4F_isError(used));
    out->len = start + used;
    add_u64(out, writer->state_len);
    count_in(writer, out, start);
    *ret_check = XXH3_64bits_digest(writer->hash);
    add_u64(out, *ret_check);
    *ret_total = writer->file_len + CHECK_LEN;
}

void lq_snapfile_free(struct lq_snapfile_writer *writer)
{
    if (writer != NULL) {
        (void)LZ4F_freeCompressionContext(writer->packer);
        XXH3_freeState(writer->hash);
        lq_free(writer);
    }
}

/* ---- Reading. */

const char *lq_snapfile_fault_text(enum lq_snapfile_fault fault)
{
    switch (fault) {
    case LQ_SNAPFILE_OK:
        return "no fault";
    case LQ_SNAPFILE_SHORT:
        return "the file is cut short";
    case LQ_SNAPFILE_MAGIC:
        return "this is no snapshot file";
    case LQ_SNAPFILE_VERSION:
        return "the file is of a version that this program does not know";
    case LQ_SNAPFILE_HEADER:
        return "the header says what no snapshot can say";
    case LQ_SNAPFILE_CHECKSUM:
        return "a checksum is wrong: the file was damaged";
    case LQ_SNAPFILE_STATE:
        return "the packed state is broken, or larger than it may be";
    }
    return "unknown fault";
}

/* Reads the header; `ret_len` is how much of the file it is. */
static enum lq_snapfile_fault read_head(const uint8_t *bytes, size_t len,
                                        struct lq_snapfile_head *ret_head, size_t *ret_len)
{
    struct lq_reader reader = lq_reader_of(bytes, len);
    const uint8_t *start = lq_read_bytes(&reader, sizeof magic), *zeros, *members;
    uint8_t version = lq_read_u8(&reader);
    uint32_t members_len;
    uint64_t check;
    if (start == NULL || memcmp(start, magic, sizeof magic) != 0) {
        return LQ_SNAPFILE_MAGIC;
    }
    if (version != VERSION) {
        return LQ_SNAPFILE_VERSION;
    }
    zeros = lq_read_bytes(&reader, 3);
    ret_head->cluster = lq_read_u64(&reader);
    ret_head->index = lq_read_u64(&reader);
    ret_head->term = lq_read_u64(&reader);
    ret_head->members_index = lq_read_u64(&reader);
    members_len = lq_read_u32(&reader);
    if (members_len > MEMBERS_MAX) {
        return LQ_SNAPFILE_HEADER;
    }
    members = lq_read_bytes(&reader, members_len);
    *ret_len = HEAD_LEN + members_len + CHECK_LEN;
    check = lq_read_u64(&reader);
    if (reader.failed) {
        return LQ_SNAPFILE_SHORT;
    }
    if (check != XXH3_64bits(bytes, HEAD_LEN + members_len)) {
        return LQ_SNAPFILE_CHECKSUM;
    }
    return memcmp(zeros, (const uint8_t[3]){0}, 3) == 0 &&
                   lq_members_decode(&ret_head->members, members, members_len)
               ? LQ_SNAPFILE_OK
               : LQ_SNAPFILE_HEADER;
}

/* Whether a frame begins as ours do. */
static bool is_our_frame(LZ4F_dctx *unpacker, struct lq_reader *frame)
{
    LZ4F_frameInfo_t info = LZ4F_INIT_FRAMEINFO;
    size_t used = frame->left;
    size_t hint = LZ4F_getFrameInfo(unpacker, &info, frame->at, &used);
    return !LZ4F_isError(hint) && lq_read_bytes(frame, used) != NULL &&
           info.frameType == LZ4F_frame && info.blockSizeID == LZ4F_max256KB &&
           info.blockMode == LZ4F_blockIndependent &&
           info.contentChecksumFlag == LZ4F_contentChecksumEnabled && info.contentSize == 0 &&
           info.dictID == 0 && info.blockChecksumFlag == LZ4F_noBlockChecksum;
}

/* Unpacks to the end of the frame, which is the end of the bytes, or until there is more than
 * `state_len`. */
static bool unpack(LZ4F_dctx *unpacker, struct lq_reader *frame, uint64_t state_len,
                   struct lq_buffer *state)
{
    size_t hint = 1;
    while (hint != 0 && state->len <= state_len) {
        uint64_t due = state_len - state->len;
        size_t used = frame->left, start = state->len;
        size_t made = due < UNPACK_LEN ? (size_t)due + 1 : UNPACK_LEN; /* one more shows */
        uint8_t *room = lq_buffer_extend(state, made);
        hint = LZ4F_decompress(unpacker, room, &made, frame->at, &used, NULL);
        if (LZ4F_isError(hint) || (made == 0 && used == 0)) {
            return false;
        }
        state->len = start + made;
        (void)lq_read_bytes(frame, used);
    }
    return hint == 0 && frame->left == 0 && state->len == state_len;
}

static enum lq_snapfile_fault read_state(struct lq_reader frame, uint64_t state_len,
                                         struct lq_buffer *state)
{
    LZ4F_dctx *unpacker;
    bool is_good;
    LQ_CHECK(!LZ4F_isError(LZ4F_createDecompressionContext(&unpacker, LZ4F_VERSION)));
    is_good = is_our_frame(unpacker, &frame) && unpack(unpacker, &frame, state_len, state);
    (void)LZ4F_freeDecompressionContext(unpacker);
    if (!is_good) {
        lq_buffer_done(state);
    }
    return is_good ? LQ_SNAPFILE_OK : LQ_SNAPFILE_STATE;
}

enum lq_snapfile_fault lq_snapfile_read(const uint8_t *bytes, size_t len, uint64_t state_max,
                                        struct lq_snapfile_head *ret_head, struct lq_buffer *state,
                                        uint64_t *ret_check)
{
    struct lq_snapfile_head head = {0};
    struct lq_reader trailer;
    size_t head_len;
    uint64_t state_len, check;
    enum lq_snapfile_fault fault;
    LQ_CHECK(state->len == 0);
    if (len < LQ_SNAPFILE_MIN) {
        return LQ_SNAPFILE_SHORT;
    }
    fault = read_head(bytes, len, &head, &head_len);
    if (fault != LQ_SNAPFILE_OK) {
        return fault;
    }
    if (len - head_len < TRAILER_LEN) {
        return LQ_SNAPFILE_SHORT;
    }
    trailer = lq_reader_of(bytes + len - TRAILER_LEN, TRAILER_LEN);
    state_len = lq_read_u64(&trailer);
    check = lq_read_u64(&trailer);
    if (XXH3_64bits(bytes, len - CHECK_LEN) != check) {
        return LQ_SNAPFILE_CHECKSUM;
    }
    if (state_len > state_max) {
        return LQ_SNAPFILE_STATE;
    }
    fault =
        read_state(lq_reader_of(bytes + head_len, len - head_len - TRAILER_LEN), state_len, state);
    if (fault == LQ_SNAPFILE_OK) {
        *ret_head = head;
        *ret_check = check;
    }
    return fault;
}
