/* Loquet's own protocol, written out by hand: A and R out; A, T, B, R, N and E in
 * (docs/protocol.md). All keys of a run have the same length, so an answer's length follows from
 * its first byte, and every answer is compared with the whole frame that is due. */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "driver.h"
#include "load.h"

enum {
    ACQUIRE_HEADER = 1 + 1 + 1 + 8,
    RELEASE_HEADER = 1 + 8,
    GRANT_HEADER = 1 + 8 + 8,
    SHORT_HEADER = 1 + 8, /* T, B, R, N */
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

static size_t answer_bytes(const struct lq_bench_load *load)
{
    return GRANT_HEADER + load->options->key_bytes + 1;
}

static void put_u64(uint8_t *out, uint64_t n)
{
    n = htobe64(n);
    memcpy(out, &n, sizeof n);
}

static uint64_t get_u64(const uint8_t *in)
{
    uint64_t n;
    memcpy(&n, in, sizeof n);
    return be64toh(n);
}

static uint8_t *put_key(const struct lq_bench_slot *slot, uint8_t *out)
{
    size_t bytes = slot->conn->load->options->key_bytes;
    memcpy(out, slot->text, bytes);
    out[bytes] = '\n';
    return out + bytes + 1;
}

static uint8_t *put_acquire(struct lq_bench_slot *slot, uint8_t *out)
{
    const struct lq_bench_options *o = slot->conn->load->options;
    out[0] = 'A';
    out[1] = (uint8_t)o->wait_s;
    out[2] = (uint8_t)o->lease_s;
    put_u64(out + 3, slot->owner);
    return put_key(slot, out + ACQUIRE_HEADER);
}

/* Only releases queue: their answers carry the token and not the owner. */
static uint8_t *put_release(struct lq_bench_slot *slot, uint8_t *out)
{
    lq_bench_conn_push(slot->conn, slot);
    out[0] = 'R';
    put_u64(out + 1, slot->token);
    return put_key(slot, out + RELEASE_HEADER);
}

static struct lq_bench_slot *find_owner(struct lq_bench_conn *conn, uint64_t owner)
{
    uint32_t id = (uint32_t)owner;
    struct lq_bench_slot *slot = id < conn->load->n_slots ? &conn->load->slots[id] : NULL;
    if (slot == NULL || slot->conn != conn || slot->owner != owner ||
        slot->state != LQ_BENCH_SLOT_ACQUIRING)
        return NULL;
    return slot;
}

/* Takes the release with this token out of the queue. Answers may come in any order, but as a rule
 * it is the first. */
static struct lq_bench_slot *find_token(struct lq_bench_conn *conn, uint64_t token)
{
    struct lq_bench_slot *before = NULL, *slot = conn->first;
    if (slot != NULL && slot->token == token)
        return lq_bench_conn_pop(conn);
    while (slot != NULL && slot->token != token) {
        before = slot;
        slot = slot->next;
    }
    if (slot != NULL) { /* then it is not the first, and `before` is set */
        before->next = slot->next;
        if (conn->last == slot)
            conn->last = before;
    }
    return slot;
}

static int fail_frame(struct lq_bench_conn *conn, const uint8_t *in, size_t len)
{
    if (in[0] == 'E' && len >= 2) {
        size_t text = len - 2;
        const uint8_t *end = memchr(in + 2, '\n', text);
        if (end != NULL)
            text = (size_t)(end - in - 2);
        return lq_bench_conn_fail(conn, "error frame %u: %.*s", in[1],
                                  (int)(text < 120 ? text : 120), (const char *)in + 2);
    }
    return lq_bench_conn_fail(conn, "an answer that fits no request: first byte 0x%02x", in[0]);
}

/* One whole frame of the right length. Returns 0, or -1 if it is the answer to nothing. */
static int take(struct lq_bench_conn *conn, const uint8_t *in, size_t header, uint64_t now_ns)
{
    struct lq_bench_load *load = conn->load;
    size_t bytes = load->options->key_bytes;
    enum lq_bench_answer answer = LQ_BENCH_ANSWER_GRANTED;
    struct lq_bench_slot *slot;
    uint64_t token = 0;
    switch (in[0]) {
    case 'A':
        token = get_u64(in + 1);
        slot = find_owner(conn, get_u64(in + 9));
        break;
    case 'T':
    case 'B':
        answer = in[0] == 'T' ? LQ_BENCH_ANSWER_TIMEOUT : LQ_BENCH_ANSWER_BUSY;
        slot = find_owner(conn, get_u64(in + 1));
        break;
    default:
        answer = in[0] == 'R' ? LQ_BENCH_ANSWER_RELEASED : LQ_BENCH_ANSWER_NOT_HELD;
        slot = find_token(conn, get_u64(in + 1));
        break;
    }
    if (slot == NULL || memcmp(in + header, slot->text, bytes) != 0 || in[header + bytes] != '\n')
        return -1;
    lq_bench_load_answer(load, slot, answer, token, now_ns);
    return 0;
}

static size_t header_bytes(uint8_t op)
{
    switch (op) {
    case 'A':
        return GRANT_HEADER;
    case 'T':
    case 'B':
    case 'R':
    case 'N':
        return SHORT_HEADER;
    default:
        return 0;
    }
}

static int take_answers(struct lq_bench_conn *conn, uint64_t now_ns)
{
    size_t at = 0, tail = conn->load->options->key_bytes + 1;
    while (at < conn->in_len) {
        const uint8_t *in = conn->in + at;
        size_t left = conn->in_len - at, header = header_bytes(in[0]);
        if (header == 0)
            return fail_frame(conn, in, left);
        if (left < header + tail)
            break;
        if (take(conn, in, header, now_ns) != 0)
            return fail_frame(conn, in, left);
        at += header + tail;
    }
    lq_bench_conn_consumed(conn, at);
    return 0;
}

const struct lq_bench_driver lq_bench_driver_loquet = {
    .name = "loquet",
    .hands_over = true,
    .init = init,
    .done = done,
    .request_bytes = request_bytes,
    .answer_bytes = answer_bytes,
    .put_acquire = put_acquire,
    .put_release = put_release,
    .take_answers = take_answers,
};
