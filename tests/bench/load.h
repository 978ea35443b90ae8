/* The load: connections times depth slots, each a closed loop of acquire and release.
 *
 *     IDLE --acquire--> ACQUIRING --granted--> RELEASING --released, not held--+
 *      ^                    |  ^                                               |
 *      |                    |  +-----------------next key----------------------+
 *      +---the run ends-----+--refused: next key, again ACQUIRING
 *
 * While keys are being held, a granted slot goes straight to its next key instead of RELEASING.
 *
 * Every answer makes its own connection's next request, so one loop turn is: for each readable
 * connection read once, take all answers, write once. An answer's time of receipt is the clock
 * reading after that read; the requests which follow from it count as sent at the same reading (a
 * little early: the time to build them belongs to the latency).
 *
 * Failure: a connection that fails takes its slots out of the run, the others go on, and the run is
 * marked failed. */
#ifndef LQ_BENCH_LOAD_H
#define LQ_BENCH_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "conn.h"
#include "cpu.h"
#include "driver.h"
#include "histogram.h"
#include "options.h"

enum lq_bench_slot_state {
    LQ_BENCH_SLOT_IDLE,
    LQ_BENCH_SLOT_ACQUIRING,
    LQ_BENCH_SLOT_RELEASING,
};

struct lq_bench_slot {
    struct lq_bench_conn *conn;
    struct lq_bench_slot *next; /* in the connection's queue of requests in flight */
    uint64_t owner; /* of the attempt: its number in the upper half, the slot's in the lower */
    uint64_t token;
    uint64_t sent_ns; /* of the request in flight */
    uint32_t id;
    uint32_t key;
    enum lq_bench_slot_state state;
    uint8_t *text; /* of the key, options->key_bytes long */
};

enum lq_bench_answer {
    LQ_BENCH_ANSWER_GRANTED,
    LQ_BENCH_ANSWER_TIMEOUT, /* T; from Redis: the key is held */
    LQ_BENCH_ANSWER_BUSY,
    LQ_BENCH_ANSWER_RELEASED,
    LQ_BENCH_ANSWER_NOT_HELD,
};

enum lq_bench_phase {
    LQ_BENCH_PHASE_HOLD,    /* each grant stays */
    LQ_BENCH_PHASE_WARMUP,  /* nothing is recorded */
    LQ_BENCH_PHASE_MEASURE, /* everything is */
    LQ_BENCH_PHASE_DRAIN,   /* nothing new begins */
};

/* Of a shared key, to see hand-overs. */
struct lq_bench_key_state {
    uint64_t released_ns; /* when its last holder sent R; 0 once the next A came */
    uint64_t last_token;
};

struct lq_bench_load_counts {
    uint64_t pairs;
    uint64_t timeouts, busy, not_held;
    struct lq_bench_histogram acquire, release, hand_over;
};

struct lq_bench_load {
    const struct lq_bench_options *options;
    const struct lq_bench_driver *driver;
    void *driver_state;
    int epoll;
    struct lq_bench_conn *conns;
    struct lq_bench_slot *slots;
    uint32_t n_slots;
    uint8_t *texts;
    struct lq_bench_key_state
        *keys; /* one for each key of the set, or NULL if hand-overs are not watched */
    uint64_t random;
    enum lq_bench_phase phase;
    uint32_t live;   /* connections that have not failed */
    uint32_t active; /* slots with a request in flight, on live connections */
    uint64_t last_answer_ns;

    uint32_t next_held, held;
    double hold_seconds;
    struct lq_bench_load_counts
        counts; /* of the measured time; the held keys' refusals are counted apart */
    uint64_t hold_refused;
    uint64_t errors; /* of the whole run */
    struct lq_bench_cpu_usage usage;
    char error[200]; /* the first one */
};

/* Opens all connections. On failure returns -1 with the reason in load->error. lq_bench_load_done()
 * either way. */
int lq_bench_load_init(struct lq_bench_load *load, const struct lq_bench_options *options);
void lq_bench_load_done(struct lq_bench_load *load);

/* Acquires options->hold keys and returns when each was answered. Look at load->held and
 * load->errors. */
void lq_bench_load_hold(struct lq_bench_load *load);

/* Warms up, measures, and ends when nothing is held or in flight any more. Look at counts, usage
 * and errors. */
void lq_bench_load_measure(struct lq_bench_load *load);

/* Counts an error and keeps the first one's text. */
void lq_bench_load_error(struct lq_bench_load *load, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts the first request of an idle slot into its connection's output (slot.c). */
void lq_bench_load_start(struct lq_bench_load *load, struct lq_bench_slot *slot, uint64_t now_ns);

/* For drivers (slot.c): one answer to the slot's request in flight. `token` counts with
 * LQ_BENCH_ANSWER_GRANTED only. */
void lq_bench_load_answer(struct lq_bench_load *load, struct lq_bench_slot *slot,
                          enum lq_bench_answer answer, uint64_t token, uint64_t now_ns);

#endif
