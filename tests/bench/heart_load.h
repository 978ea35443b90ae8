/* Clients of the three replicas of bench_replica: workers, each with one request at a time, that
 * acquire and release keys at random, never the same one at once. */
#ifndef LQ_BENCH_HEART_LOAD_H
#define LQ_BENCH_HEART_LOAD_H

#include "heart.h"

#include "lq_frame.h"
#include "lq_request.h"

#include <stdbool.h>
#include <stdint.h>

enum { HEART_KEY_LEN = 32 };

struct heart_worker {
    struct lq_list in_ready;    /* it has something to ask for */
    struct lq_list in_releases; /* its release was sent through a session; answered in order */
    uint32_t number, key;
    bool is_second; /* of the two requests of a pair */
    struct lq_request *request;
};

struct heart_key {
    uint64_t token; /* 0: not held */
    bool is_busy;
};

/* The workers of one node. */
struct heart_clients {
    struct lq_list ready, releases;
    struct lq_list late;        /* half of the workers, which begin a sweep after the others */
    struct lq_session *session; /* NULL: they talk to the backend */
    struct lq_buffer input;     /* answers not decoded yet */
    struct lq_buffer output;    /* requests not taken in yet */
};

struct heart_load {
    struct heart_worker *workers;
    uint32_t n_workers;
    struct heart_key *keys;
    uint32_t n_keys;
    uint32_t n_to_fill; /* keys still to be acquired before pairs begin */
    uint64_t random;
    uint64_t pairs;
    uint64_t late_from_ms; /* when the late ones begin */
    struct heart_clients clients[HEART_NODES];
};

struct heart_load_options {
    uint32_t n_workers, n_keys;
    bool from_all;      /* at all nodes instead of the leader */
    bool with_sessions; /* frames through sessions instead of requests to the backend */
    bool held;          /* all keys are held, and a pair is release and acquire */
    uint64_t seed;
};

/* Makes the load and lets it have its part in the turns of `heart`. */
void heart_load_start(struct heart_load *load, struct heart *heart,
                      const struct heart_load_options *options);

/* After heart_end: what the backend had was its own until then. */
void heart_load_end(struct heart_load *load);

#endif
