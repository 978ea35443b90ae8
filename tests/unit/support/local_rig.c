#include "local_rig.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct lq_local_options lq_local_rig_defaults(void)
{
    return (struct lq_local_options){.caps = {.keys = 1000000,
                                              .waiters_per_key = 1000,
                                              .waiters = 1000000,
                                              .state_bytes = UINT64_MAX},
                                     .sweep_ms = LQ_LOCAL_RIG_SWEEP,
                                     .first_token = 1};
}

void lq_local_rig_init(struct lq_local_rig *rig, const struct lq_local_options *options)
{
    rig->now_ms = LQ_LOCAL_RIG_START;
    rig->n_requests = 0;
    rig->backend = lq_local_new(options, rig->now_ms);
}

void lq_local_rig_done(struct lq_local_rig *rig)
{
    lq_local_free(rig->backend);
    for (size_t i = 0; i < rig->n_requests; i++) {
        free(rig->requests[i]);
    }
}

void lq_local_rig_begin(struct lq_local_rig *rig, uint64_t at_ms)
{
    rig->now_ms = at_ms;
    rig->backend->ops->begin(rig->backend, at_ms);
}

void lq_local_rig_end(struct lq_local_rig *rig)
{
    rig->backend->ops->end(rig->backend);
}

void lq_local_rig_turn(struct lq_local_rig *rig, uint64_t at_ms)
{
    lq_local_rig_begin(rig, at_ms);
    lq_local_rig_end(rig);
}

struct lq_request *lq_local_rig_submit(struct lq_local_rig *rig, enum lq_op op, const char *key,
                                       uint8_t wait_s, uint64_t number)
{
    size_t len = strlen(key);
    struct lq_request *request = calloc(1, sizeof *request + len);
    ck_assert(request != NULL && rig->n_requests < sizeof rig->requests / sizeof *rig->requests);
    request->op = (uint8_t)op;
    request->wait_s = wait_s;
    request->lease_s = 2;
    request->key_len = (uint16_t)len;
    request->owner = op == LQ_OP_ACQUIRE ? number : 0;
    request->token = op == LQ_OP_ACQUIRE ? 0 : number;
    lq_list_init(&request->in_held);
    memcpy(request->key, key, len);
    rig->requests[rig->n_requests++] = request;
    rig->backend->ops->submit(rig->backend, request);
    return request;
}

struct lq_request *lq_local_rig_acquire(struct lq_local_rig *rig, const char *key, uint8_t wait_s)
{
    return lq_local_rig_submit(rig, LQ_OP_ACQUIRE, key, wait_s, 7);
}

void lq_local_rig_check(struct lq_local_rig *rig, const struct lq_request *request,
                        enum lq_answer_kind kind, uint64_t token)
{
    struct lq_answer answer;
    ck_assert(rig->backend->ops->take(rig->backend, &answer));
    ck_assert_ptr_eq(answer.request, request);
    ck_assert_int_eq(answer.kind, kind);
    ck_assert_uint_eq(answer.token, token);
}

void lq_local_rig_check_none(struct lq_local_rig *rig)
{
    struct lq_answer answer = {.token = 99};
    ck_assert(!rig->backend->ops->take(rig->backend, &answer));
    ck_assert_uint_eq(answer.token, 99);
}

void lq_local_rig_drop_answers(struct lq_local_rig *rig)
{
    struct lq_answer answer;
    while (rig->backend->ops->take(rig->backend, &answer)) {
    }
}

uint64_t lq_local_rig_deadline(const struct lq_local_rig *rig)
{
    return rig->backend->ops->deadline(rig->backend);
}

struct lq_table_counts lq_local_rig_counts(const struct lq_local_rig *rig)
{
    return lq_table_counts(lq_local_table(rig->backend));
}
