/* A model of servers for the random test of the client's core, in virtual time: one lock table
 * behind several addresses, and connections that delay, reorder, drop, break and freeze. It is kept
 * with the calls of the test's caller, since each call's acquire is executed at most once. */
#ifndef CLIENT_MODEL_H
#define CLIENT_MODEL_H

#include "lq_core.h"
#include "lq_frame.h"
#include "lq_lease.h"
#include "lq_limits.h"
#include "lq_test.h"
#include "support/hot_assert.h"

#include <stdio.h>
#include <string.h>

/* LQ_HOT_ASSERT with words. */
#define MUST(condition, text)                                                                      \
    (__builtin_expect(!(condition), 0) ? ck_abort_msg("%s", text) : (void)0)

#define MODEL_KEYS      3
#define MODEL_CALLS     64
#define MODEL_CONNS     64
#define MODEL_ANSWERS   128
#define MODEL_ADDRESSES 3
#define MODEL_OWNERS    UINT64_C(0x5000000000000000)
#define MODEL_TOKENS    UINT64_C(0x0A00000000000A0A)

static const char *const model_keys[MODEL_KEYS] = {"a", "bb", "ccc"};

/* One request of the caller. The lower half is what the servers did with it, if it is an acquire.
 */
struct call {
    struct lq_order order;
    struct lq_request *request; /* while it is under way */
    struct call *of;            /* release, renewal: of this grant */
    struct lq_lease lease;
    uint64_t submitted_ms, deadline_ms;
    uint64_t by_ms;   /* its outcome must be there */
    uint64_t next_ms; /* ACQUIRED: when something is done with it */
    bool given_up, done, told;
    enum loquet_result result; /* done */
    bool begun;                /* a byte of it was written */
    bool cancel;               /* a byte of a C for it was */
    int wire_conn;             /* where */
    uint64_t wire_number;

    size_t key;
    bool waiting;
    uint64_t wait_until_ms, turn;
    int conn;
    uint64_t token, granted_ms, ends_ms;
    bool released, release_seen;
    uint64_t delivered_ms; /* the client has its A; 0: not */
    size_t delivered_faults;
    uint64_t delivered_end; /* its end, in all that arrived on its connection */
};

struct model_answer {
    struct lq_frame frame;
    uint64_t due_ms;
};

struct conn {
    uint64_t number;            /* places are used again */
    struct lq_channel *channel; /* NULL: closed by the client, or never used */
    size_t address;
    bool open;         /* not merely being dialled */
    bool broken;       /* by its server; the client notices at its next turn */
    uint64_t ready_ms; /* dialling ends, with success or not */
    uint64_t full_until_ms;
    size_t rest;         /* unwritten bytes of a frame that was begun */
    size_t open_waits;   /* waiting acquires that were begun and are unanswered */
    uint8_t pipe[16384]; /* on the way to the server */
    size_t pipe_len;
    uint64_t read_ms;
    struct model_answer answers[MODEL_ANSWERS];
    size_t n_answers;
    uint64_t ordered_ms; /* answers to R and K keep their order */
    uint8_t in[8192];    /* arrived at the client */
    size_t in_len;
    uint64_t in_total; /* so many bytes arrived in all */
};

struct model {
    struct lq_rand rand;
    uint64_t now_ms;
    bool calm;             /* no faults in this round */
    uint64_t fault_rarity; /* turns between two faults */
    size_t n_faults;
    uint64_t faulty_ms; /* until then the last fault has consequences */
    size_t n_addresses;
    uint64_t frozen_ms[MODEL_ADDRESSES], down_ms[MODEL_ADDRESSES];
    struct call calls[MODEL_CALLS];
    size_t n_calls;
    struct conn conns[MODEL_CONNS];
    int n_conns;
    uint64_t turns, numbers;
    uint64_t tokens;
    struct call *by_token[MODEL_CALLS + 1];
};

static struct model model;

static inline uint64_t below(uint64_t n)
{
    return lq_rand_below(&model.rand, n);
}

static inline bool chance(uint64_t in)
{
    return below(in) == 0;
}

/* Notes a fault whose consequences last for `ms`. */
static inline void fault(uint64_t ms)
{
    model.n_faults++;
    if (model.now_ms + ms > model.faulty_ms) {
        model.faulty_ms = model.now_ms + ms;
    }
}

static inline struct call *call_of_owner(uint64_t owner)
{
    uint64_t index = owner - MODEL_OWNERS;
    if (index >= model.n_calls) {
        ck_abort_msg("an owner that no caller gave");
    }
    return &model.calls[index];
}

static inline struct call *call_of_token(uint64_t token)
{
    uint64_t index = token - MODEL_TOKENS;
    return index >= 1 && index <= model.tokens ? model.by_token[index] : NULL;
}

static inline bool is_held(const struct call *call)
{
    return call->token != 0 && !call->released && model.now_ms < call->ends_ms;
}

/* ---- Answers. */

static inline void say(struct conn *conn, uint8_t op, const struct lq_frame *request,
                       uint64_t token)
{
    uint64_t delay_ms = below(15);
    bool ordered = op == LQ_OP_RELEASE || op == LQ_OP_RENEW || op == LQ_OP_NOT_HELD;
    struct model_answer answer = {.frame = {.op = op,
                                            .owner = request->owner,
                                            .token = token,
                                            .key = request->key,
                                            .key_len = request->key_len}};

    if (!model.calm && chance(60)) {
        delay_ms = below(4000);
        fault(delay_ms);
    }
    if (!model.calm && chance(60)) {
        fault(6000);
        return; /* never said */
    }
    answer.due_ms = model.now_ms + delay_ms;
    if (ordered) {
        answer.due_ms = answer.due_ms > conn->ordered_ms ? answer.due_ms : conn->ordered_ms;
        conn->ordered_ms = answer.due_ms;
    }
    LQ_HOT_ASSERT(conn->n_answers < MODEL_ANSWERS);
    conn->answers[conn->n_answers++] = answer;
}

static inline struct lq_frame about(const struct call *call)
{
    return (struct lq_frame){.owner = call->order.owner,
                             .key = (const uint8_t *)model_keys[call->key],
                             .key_len = (uint16_t)strlen(model_keys[call->key])};
}

static inline void say_of(struct call *call, uint8_t op)
{
    struct lq_frame frame = about(call);
    struct conn *conn = &model.conns[call->conn];
    if (conn->channel != NULL && !conn->broken) {
        say(conn, op, &frame, call->token);
    }
}

/* ---- The table. */

static inline void grant(struct call *call)
{
    MUST(!call->done || call->result == LOQUET_INDETERMINATE,
         "granted although its caller was told that it is not");
    call->waiting = false;
    call->token = MODEL_TOKENS + ++model.tokens;
    model.by_token[model.tokens] = call;
    call->granted_ms = model.now_ms;
    call->ends_ms = model.now_ms + (uint64_t)call->order.lease_s * 1000;
    say_of(call, LQ_OP_ACQUIRE);
}

static inline bool key_is_held(size_t key)
{
    for (size_t i = 0; i < model.n_calls; i++) {
        if (model.calls[i].key == key && is_held(&model.calls[i])) {
            return true;
        }
    }
    return false;
}

static inline void hand_on(size_t key)
{
    struct call *first = NULL;
    for (size_t i = 0; i < model.n_calls; i++) {
        struct call *call = &model.calls[i];
        if (call->key == key && call->waiting && (first == NULL || call->turn < first->turn)) {
            first = call;
        }
    }
    if (first != NULL && !key_is_held(key)) {
        grant(first);
    }
}

static inline void serve_acquire(int index, const struct lq_frame *frame)
{
    struct call *call = call_of_owner(frame->owner);

    call->conn = index;
    if (!key_is_held(call->key)) {
        grant(call);
    } else if (frame->wait_s == 0) {
        say_of(call, LQ_OP_TIMEOUT);
    } else if (chance(10)) {
        say_of(call, LQ_OP_BUSY);
    } else {
        call->waiting = true;
        call->turn = model.turns++;
        call->wait_until_ms = model.now_ms + (uint64_t)frame->wait_s * 1000;
    }
}

static inline void serve(int index, const struct lq_frame *frame)
{
    struct conn *conn = &model.conns[index];
    struct call *call = call_of_token(frame->token), *waiter;
    bool held = call != NULL && is_held(call);

    switch ((enum lq_op)frame->op) {
    case LQ_OP_ACQUIRE:
        serve_acquire(index, frame);
        break;
    case LQ_OP_RELEASE:
        if (call != NULL) {
            call->release_seen = true;
            call->released = true;
        }
        say(conn, held ? LQ_OP_RELEASE : LQ_OP_NOT_HELD, frame, frame->token);
        break;
    case LQ_OP_RENEW:
        if (held) {
            call->ends_ms = model.now_ms + (uint64_t)frame->lease_s * 1000;
        }
        say(conn, held ? LQ_OP_RENEW : LQ_OP_NOT_HELD, frame, frame->token);
        break;
    case LQ_OP_CANCEL:
        waiter = call_of_owner(frame->owner);
        if (waiter->waiting && waiter->conn == index) {
            waiter->waiting = false;
            say_of(waiter, LQ_OP_TIMEOUT);
        }
        break;
    case LQ_OP_PING:
        say(conn, LQ_OP_PING, frame, 0);
        break;
    case LQ_OP_TIMEOUT:
    case LQ_OP_BUSY:
    case LQ_OP_NOT_HELD:
    case LQ_OP_ERROR:
        ck_abort_msg("not a request");
    }
}

/* Executes what has arrived. Keys are told by their place in `model_keys`, which lives on. */
static inline void serve_pipe(int index)
{
    struct conn *conn = &model.conns[index];
    size_t at = 0, used;
    struct lq_frame frame;

    while (lq_request_decode(conn->pipe + at, conn->pipe_len - at, &frame, &used) ==
           LQ_DECODED_FRAME) {
        for (size_t key = 0; key < MODEL_KEYS; key++) {
            if (frame.key_len == strlen(model_keys[key])) {
                frame.key = (const uint8_t *)model_keys[key];
            }
        }
        at += used;
        serve(index, &frame);
    }
    memmove(conn->pipe, conn->pipe + at, conn->pipe_len - at);
    conn->pipe_len -= at;
}

/* The server sees the end of a connection. */
static inline void end_conn(int index)
{
    for (size_t i = 0; i < model.n_calls; i++) {
        if (model.calls[i].conn == index) {
            model.calls[i].waiting = false;
        }
    }
    model.conns[index].pipe_len = 0;
}

/* A connection breaks; what is on the way may still arrive. */
static inline void break_conn(int index)
{
    struct conn *conn = &model.conns[index];
    if (conn->channel == NULL || conn->broken) {
        return;
    }
    fault(6000);
    if (chance(2)) {
        serve_pipe(index);
    }
    conn->broken = true;
    end_conn(index);
}

static inline void serve_all(void)
{
    for (int i = 0; i < model.n_conns; i++) {
        struct conn *conn = &model.conns[i];
        bool awake = model.now_ms >= model.frozen_ms[conn->address];
        if (conn->channel != NULL && !conn->broken && conn->pipe_len > 0 &&
            model.now_ms >= conn->read_ms && awake) {
            serve_pipe(i);
        }
    }
    for (size_t key = 0; key < MODEL_KEYS; key++) {
        hand_on(key);
    }
    for (size_t i = 0; i < model.n_calls; i++) {
        struct call *call = &model.calls[i];
        if (call->waiting && model.now_ms >= call->wait_until_ms &&
            model.now_ms >= model.frozen_ms[model.conns[call->conn].address]) {
            call->waiting = false;
            say_of(call, LQ_OP_TIMEOUT);
        }
    }
}

/* ---- Faults. */

static inline void break_something(void)
{
    size_t address = (size_t)below(model.n_addresses);
    uint64_t ms = below(9000);

    switch (below(5)) {
    case 0:
    case 1:
        if (model.n_conns > 0) {
            break_conn((int)below((uint64_t)model.n_conns));
        }
        break;
    case 2:
        model.frozen_ms[address] = model.now_ms + ms;
        fault(ms + 6000);
        break;
    case 3:
        model.down_ms[address] = model.now_ms + ms;
        for (int i = 0; i < model.n_conns; i++) {
            if (model.conns[i].address == address) {
                break_conn(i);
            }
        }
        fault(ms + 6000);
        break;
    case 4:
        if (model.n_conns > 0) {
            model.conns[below((uint64_t)model.n_conns)].full_until_ms = model.now_ms + ms;
            fault(ms + 6000);
        }
        break;
    }
}

#endif
