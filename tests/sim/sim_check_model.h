/* The lock table, written down once more as plainly as can be: arrays and linear search. It shares
 * no code with the real one; the outcomes of the two must be the same. Besides them it says what
 * happened to whom, which is what the other checks go by. */
#ifndef SIM_CHECK_MODEL_H
#define SIM_CHECK_MODEL_H

#include "lq_table.h"
#include "sim_client_keys.h"

#define SIM_MODEL_NODES 64 /* node ids below this */

enum sim_fact_kind {
    SIM_FACT_QUEUED = 1, /* these four: of an acquire */
    SIM_FACT_GRANTED,
    SIM_FACT_TIMEOUT,
    SIM_FACT_BUSY,
    SIM_FACT_CANCELLED, /* a waiter was taken back */
    SIM_FACT_DROPPED,   /* a waiter left with its origin */
    SIM_FACT_RELEASED,  /* these three: a grant ended */
    SIM_FACT_FORCED,
    SIM_FACT_EXPIRED,
    SIM_FACT_RENEWED,
    SIM_FACT_NOT_RELEASED, /* a release, or a renewal, by who does not hold */
    SIM_FACT_NOT_RENEWED,
};

/* What a command did to an acquire or to a grant. */
struct sim_fact {
    enum sim_fact_kind kind;
    uint8_t lease_s;
    uint32_t key;
    uint64_t owner; /* of the acquire, or of the grant's */
    uint64_t token; /* of the grant; or that which does not hold */
};

struct sim_model_waiter {
    struct lq_origin_id origin;
    uint64_t seq, owner;
    uint8_t lease_s;
};

struct sim_model_lock {
    bool is_held;
    size_t key_len;
    uint64_t token, owner, end_ms;
    struct sim_model_waiter *waiters;
    size_t n_waiters, cap_waiters;
};

struct sim_model_node {
    bool is_known, is_open;
    uint64_t incarnation, last_seq;
};

struct sim_model {
    struct sim_model_lock locks[SIM_KEYS];
    struct sim_model_node nodes[SIM_MODEL_NODES];
    uint64_t last_token, time_ms;
    uint64_t n_keys, n_waiters, bytes;
    struct lq_outcome *outcomes; /* of the last command */
    size_t n_outcomes, cap_outcomes;
    struct sim_fact *facts; /* of the last command */
    size_t n_facts, cap_facts;
};

/* Zeroed memory is an empty table. */
void sim_model_done(struct sim_model *model);

/* Applies a command; its outcomes and facts are there until the next one. Returns NULL, or what is
 * wrong with the command itself. */
const char *sim_model_apply(struct sim_model *model, const struct lq_command *command,
                            const struct lq_stamp *stamp);

#endif
