/* Snapshot files from arbitrary bytes. The first byte says what the rest is:
 *   RAW      a file
 *   SEALED   a file whose checks are made to fit
 *   FRAME    a length of the state, and the packed state in an otherwise good file
 *   WRITTEN  pieces of a state to be written, each behind its length, and read back
 * Nothing is read beyond the end, memory stays below the limit, and what is accepted can be written
 * and read again. */
#include "lq_check.h"
#include "lq_cursor.h"
#include "lq_mem.h"
#include "lq_snapfile.h"

#include <string.h>
#include <xxhash.h>

#define STATE_MAX ((uint64_t)1 << 20)
/* A buffer doubles, and grows by at most this before what it holds is looked at. */
#define MEMORY_MAX (2 * (STATE_MAX + 256 * 1024))

enum way { RAW = 0, SEALED = 1, FRAME = 2, WRITTEN = 3, WAYS = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct lq_snapfile_head sample_head(void)
{
    struct lq_snapfile_head head = {.cluster = 1, .index = 2, .term = 3, .members_index = 1};
    LQ_CHECK(lq_members_add(&head.members, 1, "a:1", LQ_ROLE_VOTER));
    return head;
}

static void put_check(uint8_t *bytes, size_t len)
{
    struct lq_writer cursor = lq_writer_of(bytes + len, 8);
    lq_write_u64(&cursor, XXH3_64bits(bytes, len));
}

/* Ends the file that holds `state` in one piece, and checks that it reads back. */
static void check_again(const struct lq_snapfile_head *head, const struct lq_buffer *state)
{
    struct lq_buffer out = {0}, back = {0};
    struct lq_snapfile_head again;
    struct lq_snapfile_writer *writer = lq_snapfile_begin(head, &out);
    uint64_t total, check, read_check;
    lq_snapfile_add(writer, state->bytes, state->len, &out);
    lq_snapfile_end(writer, &out, &total, &check);
    lq_snapfile_free(writer);
    LQ_CHECK(total == out.len);
    LQ_CHECK(lq_snapfile_read(out.bytes, out.len, state->len, &again, &back, &read_check) ==
             LQ_SNAPFILE_OK);
    LQ_CHECK(read_check == check && back.len == state->len);
    LQ_CHECK(back.len == 0 || memcmp(back.bytes, state->bytes, back.len) == 0);
    LQ_CHECK(again.cluster == head->cluster && again.index == head->index &&
             again.term == head->term && again.members_index == head->members_index &&
             again.members.n == head->members.n &&
             memcmp(again.members.items, head->members.items, sizeof again.members.items) == 0);
    lq_buffer_done(&out);
    lq_buffer_done(&back);
}

static void try_file(const uint8_t *bytes, size_t len)
{
    struct lq_snapfile_head head;
    struct lq_buffer state = {0};
    uint64_t check;
    if (lq_snapfile_read(bytes, len, STATE_MAX, &head, &state, &check) == LQ_SNAPFILE_OK) {
        LQ_CHECK(state.len <= STATE_MAX && state.cap <= MEMORY_MAX);
        check_again(&head, &state);
    } else {
        LQ_CHECK(state.len == 0 && state.bytes == NULL);
    }
    lq_buffer_done(&state);
}

static void try_sealed(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = lq_malloc(len);
    if (len > 0) {
        memcpy(copy, bytes, len);
    }
    if (len >= LQ_SNAPFILE_MIN) {
        struct lq_reader reader = lq_reader_of(copy + 40, 4);
        size_t head_len = 44 + (size_t)lq_read_u32(&reader) % 4097;
        if (head_len <= len - 16) {
            put_check(copy, head_len);
        }
        put_check(copy, len - 8);
    }
    try_file(copy, len);
    lq_free(copy);
}

static void try_frame(struct lq_reader input)
{
    struct lq_snapfile_head head = sample_head();
    struct lq_buffer out = {0};
    uint64_t state_len = lq_read_u32(&input);
    uint8_t *at;
    struct lq_writer cursor;
    struct lq_snapfile_writer *writer = lq_snapfile_begin(&head, &out);
    lq_snapfile_free(writer);
    out.len -= 7; /* the head of the writer's own frame */
    lq_buffer_add(&out, input.at, input.left);
    at = lq_buffer_extend(&out, 16);
    cursor = lq_writer_of(at, 8);
    lq_write_u64(&cursor, state_len);
    put_check(out.bytes, out.len - 8);
    try_file(out.bytes, out.len);
    lq_buffer_done(&out);
}

static void try_written(struct lq_reader input)
{
    struct lq_snapfile_head head = sample_head();
    struct lq_buffer out = {0}, state = {0};
    struct lq_snapfile_writer *writer = lq_snapfile_begin(&head, &out);
    uint64_t total, check;
    while (input.left > 2) {
        size_t len = lq_read_u16(&input);
        size_t times = len >> 12; /* long runs of equal bytes, so that blocks fill */
        len = len % 4096 < input.left ? len % 4096 : input.left;
        for (size_t i = 0; i < 1 + 4 * times; i++) {
            lq_snapfile_add(writer, input.at, len, &out);
            lq_buffer_add(&state, input.at, len);
        }
        (void)lq_read_bytes(&input, len);
    }
    lq_snapfile_end(writer, &out, &total, &check);
    lq_snapfile_free(writer);
    LQ_CHECK(total == out.len);
    try_file(out.bytes, out.len);
    check_again(&head, &state);
    lq_buffer_done(&out);
    lq_buffer_done(&state);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct lq_reader input = lq_reader_of(bytes, len);
    switch ((enum way)(lq_read_u8(&input) % WAYS)) {
    case RAW:
        try_file(input.at, input.left);
        break;
    case SEALED:
        try_sealed(input.at, input.left);
        break;
    case FRAME:
        try_frame(input);
        break;
    case WRITTEN:
    case WAYS:
        try_written(input);
        break;
    }
    return 0;
}
