/* The durable floor (floor.h): operations of 64 bytes, which come back in the order sent once they
 * are durable. */
#include <string.h>

#include "driver.h"
#include "floor.h"
#include "load.h"

enum {
    OP_BYTES = LQ_BENCH_FLOOR_OP_BYTES,
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

static size_t op_bytes(const struct lq_bench_load *load)
{
    (void)load;
    return OP_BYTES;
}

/* The kind, the owner, and as much of the key as fits. */
static void write_op(const struct lq_bench_slot *slot, uint8_t *out)
{
    size_t header = 1 + sizeof slot->owner, room = OP_BYTES - header;
    size_t bytes = slot->conn->load->options->key_bytes;
    memset(out, 0, OP_BYTES);
    out[0] = slot->state == LQ_BENCH_SLOT_ACQUIRING ? 'A' : 'R';
    memcpy(out + 1, &slot->owner, sizeof slot->owner);
    memcpy(out + header, slot->text, bytes < room ? bytes : room);
}

static uint8_t *put(struct lq_bench_slot *slot, uint8_t *out)
{
    lq_bench_conn_push(slot->conn, slot);
    write_op(slot, out);
    return out + OP_BYTES;
}

static int take_answers(struct lq_bench_conn *conn, uint64_t now_ns)
{
    size_t at = 0;
    for (; conn->in_len - at >= OP_BYTES; at += OP_BYTES) {
        struct lq_bench_slot *slot = lq_bench_conn_pop(conn);
        uint8_t due[OP_BYTES];
        if (slot != NULL)
            write_op(slot, due);
        if (slot == NULL || memcmp(conn->in + at, due, OP_BYTES) != 0)
            return lq_bench_conn_fail(conn, "the answer of an operation that was not sent");
        lq_bench_load_answer(conn->load, slot,
                             due[0] == 'A' ? LQ_BENCH_ANSWER_GRANTED : LQ_BENCH_ANSWER_RELEASED, 0,
                             now_ns);
    }
    lq_bench_conn_consumed(conn, at);
    return 0;
}

const struct lq_bench_driver lq_bench_driver_floor = {
    .name = "floor",
    .hands_over = false,
    .init = init,
    .done = done,
    .request_bytes = op_bytes,
    .answer_bytes = op_bytes,
    .put_acquire = put,
    .put_release = put,
    .take_answers = take_answers,
};
