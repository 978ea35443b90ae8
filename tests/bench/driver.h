/* What the load needs from a protocol: how a request is written and how answers are found in the
 * input. The drivers do nothing else, so that the loop, the buffers and the clock readings are the
 * same for every server. */
#ifndef LQ_BENCH_DRIVER_H
#define LQ_BENCH_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_bench_conn;
struct lq_bench_load;
struct lq_bench_slot;

struct lq_bench_driver {
    const char *name;

    /* Whether the server queues waiters and hands a key on with a growing token. */
    bool hands_over;

    /* Once, before any connection: may talk to the server with calls that block. Returns 0, or -1
     * with the reason in load->error. Whatever it allocates is load->driver_state, which `done`
     * frees (also after a failure). */
    int (*init)(struct lq_bench_load *load);
    void (*done)(struct lq_bench_load *load);

    /* Per connection, after it is open and after it was closed; may be NULL. `attach` returns 0 or
     * -1. */
    int (*attach)(struct lq_bench_conn *conn);
    void (*detach)(struct lq_bench_conn *conn);

    /* The longest request and the longest answer. */
    size_t (*request_bytes)(const struct lq_bench_load *load);
    size_t (*answer_bytes)(const struct lq_bench_load *load);

    /* Writes the slot's request at `out` and returns its end. */
    uint8_t *(*put_acquire)(struct lq_bench_slot *slot, uint8_t *out);
    uint8_t *(*put_release)(struct lq_bench_slot *slot, uint8_t *out);

    /* Takes every complete answer from the connection's input and calls lq_bench_load_answer() for
     * each. Returns 0, or -1 after lq_bench_conn_fail(). */
    int (*take_answers)(struct lq_bench_conn *conn, uint64_t now_ns);
};

extern const struct lq_bench_driver lq_bench_driver_loquet;
extern const struct lq_bench_driver lq_bench_driver_redis;
extern const struct lq_bench_driver lq_bench_driver_echo;
extern const struct lq_bench_driver lq_bench_driver_etcd;
extern const struct lq_bench_driver lq_bench_driver_floor;

#endif
