/* The lock table, written down again as plainly as can be: arrays, linear search, no digest, no
 * memory that grows. Slow and small, but obviously right; test_table_model.c holds the real one
 * against it. */
#ifndef LQ_TABLE_MODEL_H
#define LQ_TABLE_MODEL_H

#include "lq_table.h"

#define LQ_MODEL_KEYS     8 /* keys there are; a command's key is one of lq_model_keys */
#define LQ_MODEL_WAITERS  64
#define LQ_MODEL_NODES    4 /* nodes 1 to 4 */
#define LQ_MODEL_OUTCOMES (LQ_MODEL_WAITERS + 2)

struct lq_model_grant {
    struct lq_origin_id origin;
    uint64_t seq;
    uint8_t lease_s;
};

struct lq_model_lock {
    bool is_registered;
    uint64_t token;
    uint64_t deadline_ms;
    struct lq_model_grant waiters[LQ_MODEL_WAITERS];
    size_t n_waiters;
};

struct lq_model_node {
    bool is_known, is_open;
    uint64_t incarnation;
    uint64_t last_seq;
};

struct lq_model {
    struct lq_model_lock locks[LQ_MODEL_KEYS];
    struct lq_model_node nodes[LQ_MODEL_NODES + 1];
    uint64_t last_token;
    struct lq_outcome outcomes[LQ_MODEL_OUTCOMES]; /* of the last command */
    size_t n_outcomes;
    const char *busy; /* the cap that made the last command BUSY, or NULL */
};

extern const char *const lq_model_keys[LQ_MODEL_KEYS];

/* Applies a command to one of lq_model_keys; `key` is its index. */
void lq_model_apply(struct lq_model *model, const struct lq_command *command, size_t key,
                    const struct lq_stamp *stamp);

struct lq_table_counts lq_model_counts(const struct lq_model *model);

/* The earliest deadline of all locks, or of those with waiters; UINT64_MAX when there is none. */
uint64_t lq_model_next_deadline(const struct lq_model *model, bool only_contended);

#endif
