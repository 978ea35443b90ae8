/* Carries bytes and connections between the client's core and the model of its servers, as a driver
 * and a network would, and breaks the rules of both where the round allows faults. */
#ifndef CLIENT_WIRES_H
#define CLIENT_WIRES_H

#include "client_rules.h"

static struct lq_core *core;

static inline struct lq_channel *channel_of(int i)
{
    return model.conns[i].channel;
}

/* ---- Bytes to the servers. */

/* Looks at the frames of which `len` bytes are about to leave: at those that begin there. */
static inline void check_frames(struct conn *conn, int index, const uint8_t *bytes, size_t len,
                                size_t n)
{
    size_t at = conn->rest;

    while (at < n) {
        struct lq_frame frame;
        size_t used;
        LQ_HOT_ASSERT(lq_request_decode(bytes + at, len - at, &frame, &used) == LQ_DECODED_FRAME);
        if (frame.op == LQ_OP_ACQUIRE) {
            check_acquire(conn, index, &frame);
        } else if (frame.op == LQ_OP_CANCEL) {
            call_of_owner(frame.owner)->cancel = true;
        }
        at += used;
    }
    conn->rest = at - n;
}

static inline void write_out(int index)
{
    struct conn *conn = &model.conns[index];
    size_t len, n;
    const uint8_t *bytes = lq_core_output(core, conn->channel, model.now_ms, &len);

    if (len == 0) {
        return;
    }
    if (model.now_ms < conn->full_until_ms) {
        lq_core_full(core, conn->channel);
        return;
    }
    n = chance(3) ? 1 + below(len) : len;
    LQ_HOT_ASSERT(n <= sizeof conn->pipe - conn->pipe_len);
    check_frames(conn, index, bytes, len, n);
    if (conn->pipe_len == 0) {
        conn->read_ms = model.now_ms + below(15);
    }
    memcpy(conn->pipe + conn->pipe_len, bytes, n);
    conn->pipe_len += n;
    lq_core_wrote(core, conn->channel, n);
    if (n < len && chance(2)) {
        conn->full_until_ms = model.now_ms + below(20);
        lq_core_full(core, conn->channel);
    }
}

/* ---- Bytes to the client. */

/* Notes what an answer means once the client has all of it. */
static inline void note_delivery(struct conn *conn, const struct lq_frame *frame)
{
    struct call *call;

    if (frame->op != LQ_OP_ACQUIRE && frame->op != LQ_OP_TIMEOUT && frame->op != LQ_OP_BUSY) {
        return;
    }
    call = call_of_owner(frame->owner);
    if (call->order.wait_ms > 0 && conn->open_waits > 0) {
        conn->open_waits--;
    }
    if (frame->op == LQ_OP_ACQUIRE) {
        call->delivered_ms = model.now_ms;
        call->delivered_faults = model.n_faults;
        call->delivered_end = conn->in_total;
    }
}

/* The client closed the connection before it had read all that arrived: it has no A in the rest. */
static inline void note_unread(const struct conn *conn, int index)
{
    uint64_t read = conn->in_total - conn->in_len;

    for (size_t i = 0; i < model.n_calls; i++) {
        struct call *call = &model.calls[i];
        if (call->wire_conn == index && call->wire_number == conn->number &&
            call->delivered_end > read) {
            call->delivered_ms = 0;
        }
    }
}

/* Answers that are due, in the order of their times, become bytes. */
static inline void arrive(struct conn *conn)
{
    for (;;) {
        size_t first = SIZE_MAX, len;
        for (size_t i = 0; i < conn->n_answers; i++) {
            if (conn->answers[i].due_ms <= model.now_ms &&
                (first == SIZE_MAX || conn->answers[i].due_ms < conn->answers[first].due_ms)) {
                first = i;
            }
        }
        if (first == SIZE_MAX || sizeof conn->in - conn->in_len < LQ_FRAME_MAX ||
            model.now_ms < model.frozen_ms[conn->address]) {
            return;
        }
        len = lq_answer_encode(&conn->answers[first].frame, conn->in + conn->in_len,
                               sizeof conn->in - conn->in_len);
        conn->in_len += len;
        conn->in_total += len;
        note_delivery(conn, &conn->answers[first].frame);
        conn->n_answers--;
        memmove(conn->answers + first, conn->answers + first + 1,
                (conn->n_answers - first) * sizeof *conn->answers);
    }
}

static inline void read_in(struct conn *conn, int index)
{
    arrive(conn);
    while (conn->in_len > 0 && lq_core_is_open(conn->channel)) {
        size_t cap, n;
        uint8_t *space = lq_core_space(core, conn->channel, &cap);
        n = chance(2) ? 1 + below(conn->in_len) : conn->in_len;
        n = n < cap ? n : cap;
        memcpy(space, conn->in, n);
        memmove(conn->in, conn->in + n, conn->in_len - n);
        conn->in_len -= n;
        lq_core_received(core, conn->channel, n, model.now_ms);
    }
    if (conn->in_len > 0) {
        note_unread(conn, index);
    }
}

/* A server that shuts down, or is none. */
static inline void talk_nonsense(struct conn *conn, int index)
{
    static const struct lq_frame frames[] = {
        {.op = LQ_OP_ERROR, .code = LQ_WIRE_SHUTTING_DOWN, .key = (const uint8_t *)"x"},
        {.op = LQ_OP_ERROR, .code = LQ_WIRE_UNKNOWN_OP, .key = (const uint8_t *)"x"},
        {.op = LQ_OP_PING, .owner = 3, .key = (const uint8_t *)""},
    };
    fault(6000);
    conn->in_len = lq_answer_encode(&frames[below(3)], conn->in, sizeof conn->in);
    conn->in_total += conn->in_len;
    read_in(conn, index);
}

static inline void notice(int index)
{
    struct conn *conn = &model.conns[index];
    bool down = model.now_ms < model.down_ms[conn->address];

    if (!conn->open) {
        if (model.now_ms >= conn->ready_ms && down) {
            lq_core_lost(core, conn->channel, model.now_ms, LQ_WHY_DIAL, 111);
        } else if (model.now_ms >= conn->ready_ms) {
            conn->open = true;
            lq_core_connected(core, conn->channel, model.now_ms);
        }
        return;
    }
    read_in(conn, index);
    if (conn->broken && lq_core_is_open(conn->channel)) {
        lq_core_lost(core, conn->channel, model.now_ms, chance(2) ? LQ_WHY_EOF : LQ_WHY_BROKEN,
                     104);
    } else if (!model.calm && chance(2000) && lq_core_is_open(conn->channel)) {
        talk_nonsense(conn, index);
    }
    if (lq_core_is_full(conn->channel) && model.now_ms >= conn->full_until_ms) {
        lq_core_writable(core, conn->channel);
    }
}

/* ---- Connections. */

static inline void open_conn(struct lq_channel *channel, size_t address)
{
    int i = 0;
    while (i < model.n_conns && channel_of(i) != NULL) {
        i++;
    }
    LQ_HOT_ASSERT(i < MODEL_CONNS);
    model.n_conns = i < model.n_conns ? model.n_conns : i + 1;
    model.conns[i] = (struct conn){.number = ++model.numbers,
                                   .channel = channel,
                                   .address = address,
                                   .ready_ms = model.now_ms + below(10)};
    if (!model.calm && chance(20)) {
        model.conns[i].ready_ms = UINT64_MAX;
        fault(LQ_DIAL_MS);
    }
}

static inline void drain(void)
{
    size_t address;
    void *io;
    struct lq_channel *channel;

    while ((channel = lq_core_next_dial(core, model.now_ms, &address)) != NULL) {
        open_conn(channel, address);
    }
    while ((channel = lq_core_next_output(core)) != NULL) {
        for (int i = 0; i < model.n_conns; i++) {
            if (channel_of(i) == channel) {
                write_out(i);
            }
        }
    }
    while ((channel = lq_core_next_closed(core, &io)) != NULL) {
        for (int i = 0; i < model.n_conns; i++) {
            if (channel_of(i) == channel) {
                if (!model.conns[i].broken && chance(2)) {
                    serve_pipe(i);
                }
                model.conns[i].channel = NULL;
                model.conns[i].number = 0;
                end_conn(i);
            }
        }
    }
}

#endif
