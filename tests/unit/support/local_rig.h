/* A backend of simple mode without a hub: a test hands it requests and takes its answers. */
#ifndef LQ_LOCAL_RIG_H
#define LQ_LOCAL_RIG_H

#include "lq_frame.h"
#include "lq_local.h"

#include <stddef.h>

/* Time begins here, and sweeps have this period. */
#define LQ_LOCAL_RIG_START UINT64_C(1000)
#define LQ_LOCAL_RIG_SWEEP UINT64_C(5000)

struct lq_local_rig {
    struct lq_backend *backend;
    uint64_t now_ms;
    struct lq_request *requests[8192]; /* all that were submitted; the test's */
    size_t n_requests;
};

/* Wide caps, no quarantine, first token 1. */
struct lq_local_options lq_local_rig_defaults(void);

void lq_local_rig_init(struct lq_local_rig *rig, const struct lq_local_options *options);
void lq_local_rig_done(struct lq_local_rig *rig);

/* ---- Turns. */

void lq_local_rig_begin(struct lq_local_rig *rig, uint64_t at_ms);
void lq_local_rig_end(struct lq_local_rig *rig);
void lq_local_rig_turn(struct lq_local_rig *rig, uint64_t at_ms);

/* Makes a request with a lease of 2 s and submits it; `number` is its owner or token. */
struct lq_request *lq_local_rig_submit(struct lq_local_rig *rig, enum lq_op op, const char *key,
                                       uint8_t wait_s, uint64_t number);
struct lq_request *lq_local_rig_acquire(struct lq_local_rig *rig, const char *key, uint8_t wait_s);

/* ---- Answers. */

/* The next answer is this one. */
void lq_local_rig_check(struct lq_local_rig *rig, const struct lq_request *request,
                        enum lq_answer_kind kind, uint64_t token);
void lq_local_rig_check_none(struct lq_local_rig *rig);
void lq_local_rig_drop_answers(struct lq_local_rig *rig);

uint64_t lq_local_rig_deadline(const struct lq_local_rig *rig);
struct lq_table_counts lq_local_rig_counts(const struct lq_local_rig *rig);

#endif
