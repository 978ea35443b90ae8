/* The floor: requests of the same size as Loquet's, sent back by a server that does nothing else.
 * What a lock server needs beyond this is its own doing; the rest is the kernel's and the load
 * generator's. */
#include <string.h>

#include "driver.h"
#include "load.h"

enum {
    ACQUIRE_HEADER =
        11, /* as in docs/protocol.md, with zeros for all that only a lock server reads */
    RELEASE_HEADER = 9,
};

static int init(struct lq_bench_load *load)
{
    (void)load;
    return 0;
}

static void done(struct lq_bench_load *load)
{
    (void)load;
}

static size_t request_bytes(const struct lq_bench_load *load)
{
    return ACQUIRE_HEADER + load->options->key_bytes + 1;
}

static uint8_t *put(struct lq_bench_slot *slot, uint8_t *out, uint8_t op, size_t header)
{
    size_t bytes = slot->conn->load->options->key_bytes;
    lq_bench_conn_push(slot->conn, slot);
    memset(out, 0, header);
    out[0] = op;
    memcpy(out + header, slot->text, bytes);
    out[header + bytes] = '\n';
    return out + header + bytes + 1;
}

static uint8_t *put_acquire(struct lq_bench_slot *slot, uint8_t *out)
{
    return put(slot, out, 'A', ACQUIRE_HEADER);
}

static uint8_t *put_release(struct lq_bench_slot *slot, uint8_t *out)
{
    return put(slot, out, 'R', RELEASE_HEADER);
}

static int take_answers(struct lq_bench_conn *conn, uint64_t now_ns)
{
    size_t at = 0, bytes = conn->load->options->key_bytes;
    while (at < conn->in_len) {
        const uint8_t *in = conn->in + at;
        size_t header = in[0] == 'A' ? ACQUIRE_HEADER : RELEASE_HEADER;
        struct lq_bench_slot *slot;
        if (conn->in_len - at < header + bytes + 1)
            break;
        slot = lq_bench_conn_pop(conn);
        if (slot == NULL || memcmp(in + header, slot->text, bytes) != 0)
            return lq_bench_conn_fail(conn, "an echo of something that was not sent");
        lq_bench_load_answer(conn->load, slot,
                             in[0] == 'A' ? LQ_BENCH_ANSWER_GRANTED : LQ_BENCH_ANSWER_RELEASED, 0,
                             now_ns);
        at += header + bytes + 1;
    }
    lq_bench_conn_consumed(conn, at);
    return 0;
}

const struct lq_bench_driver lq_bench_driver_echo = {
    .name = "echo",
    .hands_over = false,
    .init = init,
    .done = done,
    .request_bytes = request_bytes,
    .answer_bytes = request_bytes,
    .put_acquire = put_acquire,
    .put_release = put_release,
    .take_answers = take_answers,
};
