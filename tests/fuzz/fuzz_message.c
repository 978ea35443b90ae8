/* Bodies of messages between nodes from arbitrary bytes, taken as a message, as a hello, as a
 * refusal and as a frame: nothing is read beyond the end, and whatever is accepted is written the
 * same again. */
#include "lq_check.h"
#include "lq_mem.h"
#include "lq_message.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* The frame in `out` must have this body. */
static void check_written(struct lq_buffer *out, const uint8_t *body, size_t len)
{
    const uint8_t *again;
    size_t again_len, used;
    LQ_CHECK(lq_message_unframe(out->bytes, out->len, len, &again, &again_len, &used) ==
             LQ_FRAMED_ONE);
    LQ_CHECK(used == out->len && again_len == len && memcmp(again, body, len) == 0);
    lq_buffer_done(out);
}

static void try_message(const uint8_t *bytes, size_t len)
{
    struct lq_message message;
    struct lq_message_entry *entries = NULL;
    struct lq_message_outcome *outcomes = NULL;
    struct lq_buffer out;
    if (!lq_message_decode(bytes, len, &message)) {
        return;
    }
    if (message.kind == LQ_MESSAGE_APPEND) {
        entries = lq_calloc((size_t)message.count + 1, sizeof *entries);
        for (uint32_t i = 0; i < message.count; i++) {
            LQ_CHECK(lq_message_next_entry(&message, &entries[i]));
        }
        LQ_CHECK(!lq_message_next_entry(&message, &entries[message.count]));
    }
    if (message.kind == LQ_MESSAGE_OUTCOMES) {
        outcomes = lq_calloc((size_t)message.count + 1, sizeof *outcomes);
        for (uint32_t i = 0; i < message.count; i++) {
            LQ_CHECK(lq_message_next_outcome(&message, &outcomes[i]));
        }
        LQ_CHECK(!lq_message_next_outcome(&message, &outcomes[message.count]));
    }
    lq_buffer_init(&out);
    lq_message_put(&out, &message, entries, outcomes);
    check_written(&out, bytes, len);
    lq_free(entries);
    lq_free(outcomes);
}

static void try_hello(const uint8_t *bytes, size_t len)
{
    struct lq_hello hello;
    struct lq_buffer out;
    if (lq_hello_decode(bytes, len, &hello)) {
        lq_buffer_init(&out);
        lq_hello_put(&out, &hello);
        check_written(&out, bytes, len);
    }
}

static void try_refusal(const uint8_t *bytes, size_t len)
{
    struct lq_refusal refusal;
    struct lq_buffer out;
    if (lq_refusal_decode(bytes, len, &refusal)) {
        lq_buffer_init(&out);
        lq_refusal_put(&out, &refusal);
        check_written(&out, bytes, len);
    }
}

static void try_frame(const uint8_t *bytes, size_t len)
{
    const uint8_t *body;
    size_t body_len, used;
    if (lq_message_unframe(bytes, len, LQ_MESSAGE_MAX, &body, &body_len, &used) == LQ_FRAMED_ONE) {
        LQ_CHECK(body_len > 0 && body == bytes + LQ_MESSAGE_LEN_BYTES);
        LQ_CHECK(used <= len && body_len == used - LQ_MESSAGE_LEN_BYTES);
        try_message(body, body_len);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    try_message(bytes, len);
    try_hello(bytes, len);
    try_refusal(bytes, len);
    try_frame(bytes, len);
    return 0;
}
