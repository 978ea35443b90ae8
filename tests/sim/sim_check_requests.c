/* What clients sent and were told, against what was committed. An answer must be the outcome of
 * that very request, committed between its sending and its arrival; with unique owners, and tokens
 * that are given once, that is all that linearizability per key asks for, since the committed log
 * is one order for all. */
#include "lq_frame.h"
#include "sim_checks_impl.h"

#include <inttypes.h>

/* A T may come so much before the end of its wait: clocks of nodes are fast or slow by 1 %, and
 * read in ms. */
#define EARLY_US(wait_s) ((uint64_t)(wait_s)*990000 - 5000)

/* A grant is told only while it is so fresh: 500 ms or a quarter of its lease, whatever is less
 * (design, "Freshness of a grant"); the rest is what clocks and the way to the client may add. */
#define FRESH_US(lease_s) (((lease_s) >= 2 ? 500 : 250) * SIM_MS + FRESH_SLACK_US)
#define FRESH_SLACK_US    (150 * SIM_MS)

struct sim_request *sim_requests_at(struct sim_checks *checks, uint64_t id)
{
    LQ_CHECK(id >= 1 && id <= checks->n_requests);
    return &checks->requests[id - 1];
}

static struct sim_acquire *acquire_of(struct sim_checks *checks, const struct sim_request *request)
{
    return &checks->acquires[request->id - 1];
}

/* The acquire with this owner, or NULL. */
static struct sim_request *find_owner(struct sim_checks *checks, uint64_t owner)
{
    uint32_t at = sim_index_get(&checks->by_owner, owner);
    return at == SIM_INDEX_NONE ? NULL : &checks->requests[at];
}

struct sim_grant *sim_requests_grant(struct sim_checks *checks, uint64_t token)
{
    uint32_t at = sim_index_get(&checks->by_token, token);
    if (at == SIM_INDEX_NONE) {
        if (checks->n_grants == checks->cap_grants) {
            checks->cap_grants = 2 * checks->cap_grants + 256;
            checks->grants = lq_realloc(checks->grants, checks->cap_grants, sizeof *checks->grants);
        }
        at = (uint32_t)checks->n_grants++;
        checks->grants[at] = (struct sim_grant){.token = token};
        sim_index_put(&checks->by_token, token, at);
    }
    return &checks->grants[at];
}

/* ---- From the log. */

static const char *fact_name(enum sim_fact_kind kind)
{
    static const char *const names[] = {
        "nothing",   "queued",       "granted",    "timed out",         "busy",
        "cancelled", "dropped",      "released",   "released by force", "expired",
        "renewed",   "not released", "not renewed"};
    return names[kind];
}

static void command_acquire(struct sim_checks *checks, const struct lq_command *command)
{
    struct sim_request *request = find_owner(checks, command->owner);
    if (request == NULL) {
        sim_fail(checks->sim, "requests: an acquire of owner %" PRIu64 ", which nobody sent",
                 command->owner);
        return;
    }
    if (acquire_of(checks, request)->fact != 0) {
        sim_fail(checks->sim, "exactly once: the acquire of owner %" PRIu64 " takes effect twice",
                 command->owner);
    } else if (request->answer != 0) {
        sim_fail(checks->sim,
                 "requests: owner %" PRIu64 " was told %c, then its acquire is committed",
                 command->owner, request->answer);
    } else if (request->key != sim_key_of(command->key, command->key_len) ||
               request->lease_s != command->lease_s) {
        sim_fail(checks->sim, "requests: the acquire of owner %" PRIu64 " is not what was sent",
                 command->owner);
    }
    sim_leases_heard(checks, request->sent_us);
}

void sim_requests_command(struct sim_checks *checks, const struct lq_command *command)
{
    const struct sim_grant *grant;
    if (command->type == LQ_COMMAND_ACQUIRE) {
        command_acquire(checks, command);
        return;
    }
    if (command->type != LQ_COMMAND_RELEASE && command->type != LQ_COMMAND_RENEW) {
        return;
    }
    grant = sim_requests_grant(checks, command->token);
    if (grant->is_told) {
        /* its node has let go of it, so this comes from a client, after the first such request */
        sim_leases_heard(checks,
                         command->type == LQ_COMMAND_RELEASE ? grant->release_us : grant->renew_us);
    }
}

static void fact_of_acquire(struct sim_checks *checks, const struct sim_fact *fact)
{
    struct sim_request *request = find_owner(checks, fact->owner);
    struct sim_acquire *acquire;
    if (request == NULL) {
        sim_fail(checks->sim, "requests: owner %" PRIu64 " is %s, but sent nothing", fact->owner,
                 fact_name(fact->kind));
        return;
    }
    acquire = acquire_of(checks, request);
    if (request->answer != 0) {
        sim_fail(checks->sim, "requests: owner %" PRIu64 " was told %c, then it is %s", fact->owner,
                 request->answer, fact_name(fact->kind));
    }
    if (acquire->fact != 0 && acquire->fact != SIM_FACT_QUEUED) {
        sim_fail(checks->sim, "fifo: owner %" PRIu64 " is %s, then %s", fact->owner,
                 fact_name(acquire->fact), fact_name(fact->kind));
    }
    acquire->fact = fact->kind;
    acquire->token = fact->token;
    if (fact->kind == SIM_FACT_GRANTED) {
        struct sim_grant *grant = sim_requests_grant(checks, fact->token);
        if (grant->acquire != 0) {
            sim_fail(checks->sim, "tokens: %" PRIu64 " is given a second time", fact->token);
        }
        grant->acquire = request->id;
        grant->key = fact->key;
    }
}

static void fact_of_end(struct sim_checks *checks, const struct sim_fact *fact)
{
    struct sim_grant *grant = sim_requests_grant(checks, fact->token);
    if (grant->end != 0) {
        sim_fail(checks->sim, "tokens: the grant %" PRIu64 " ends twice: %s, then %s", fact->token,
                 fact_name(grant->end), fact_name(fact->kind));
    }
    if (fact->kind == SIM_FACT_RELEASED && grant->n_releases == 0 && grant->is_told) {
        sim_fail(checks->sim, "requests: the grant %" PRIu64 " is released, but nobody asked",
                 fact->token);
    }
    grant->end = fact->kind;
    grant->end_us = sim_now(checks->sim);
}

void sim_requests_fact(struct sim_checks *checks, const struct sim_fact *fact)
{
    uint64_t now_us = sim_now(checks->sim);
    sim_trace(checks->sim, "  fact: %s owner %" PRIu64 " key %u token %" PRIu64,
              fact_name(fact->kind), fact->owner, fact->key, fact->token);
    switch (fact->kind) {
    case SIM_FACT_QUEUED:
    case SIM_FACT_GRANTED:
    case SIM_FACT_TIMEOUT:
    case SIM_FACT_BUSY:
    case SIM_FACT_CANCELLED:
    case SIM_FACT_DROPPED:
        fact_of_acquire(checks, fact);
        break;
    case SIM_FACT_RELEASED:
    case SIM_FACT_FORCED:
    case SIM_FACT_EXPIRED:
        fact_of_end(checks, fact);
        break;
    case SIM_FACT_RENEWED:
        sim_requests_grant(checks, fact->token)->renewed_us = now_us;
        break;
    case SIM_FACT_NOT_RELEASED:
        sim_requests_grant(checks, fact->token)->not_released_us = now_us;
        break;
    case SIM_FACT_NOT_RENEWED:
        sim_requests_grant(checks, fact->token)->not_renewed_us = now_us;
        break;
    }
}

/* ---- From the clients. */

uint64_t sim_checks_sent(struct sim_checks *checks, const struct sim_request *request)
{
    struct sim_request *kept;
    if (checks->n_requests == checks->cap_requests) {
        checks->cap_requests = 2 * checks->cap_requests + 512;
        checks->requests =
            lq_realloc(checks->requests, checks->cap_requests, sizeof *checks->requests);
        checks->acquires =
            lq_realloc(checks->acquires, checks->cap_requests, sizeof *checks->acquires);
    }
    kept = &checks->requests[checks->n_requests];
    checks->acquires[checks->n_requests] = (struct sim_acquire){0};
    *kept = *request;
    kept->id = ++checks->n_requests;
    kept->sent_us = sim_now(checks->sim);
    if (kept->op == LQ_OP_ACQUIRE) {
        LQ_CHECK(find_owner(checks, kept->owner) == NULL);
        sim_index_put(&checks->by_owner, kept->owner, (uint32_t)(kept->id - 1));
    } else if (kept->op == LQ_OP_RELEASE) {
        struct sim_grant *grant = sim_requests_grant(checks, kept->token);
        grant->release_us = grant->n_releases++ == 0 ? kept->sent_us : grant->release_us;
    } else if (kept->op == LQ_OP_RENEW) {
        struct sim_grant *grant = sim_requests_grant(checks, kept->token);
        grant->renew_us = grant->renew_us == 0 ? kept->sent_us : grant->renew_us;
    }
    if (checks->n_open == checks->cap_open) {
        checks->cap_open = 2 * checks->cap_open + 64;
        checks->open = lq_realloc(checks->open, checks->cap_open, sizeof *checks->open);
    }
    checks->open[checks->n_open++] = kept->id;
    return kept->id;
}

static void forget_open(struct sim_checks *checks, uint64_t id)
{
    size_t n = 0;
    for (size_t i = 0; i < checks->n_open; i++) {
        if (checks->open[i] != id) {
            checks->open[n++] = checks->open[i];
        }
    }
    checks->n_open = n;
}

static void answer_fault(struct sim_checks *checks, const struct sim_request *request, uint8_t op,
                         const char *what)
{
    sim_fail(checks->sim,
             "requests: %c to the %c of %s %" PRIu64 " on key %u at node %u: %s (log: %s)", op,
             request->op, request->op == LQ_OP_ACQUIRE ? "owner" : "token",
             request->op == LQ_OP_ACQUIRE ? request->owner : request->token, request->key,
             request->node, what, fact_name(acquire_of(checks, request)->fact));
}

/* Table time as the newest leader has it; UINT64_MAX: nobody leads. */
static uint64_t leader_table_ms(const struct sim_checks *checks)
{
    uint64_t table_ms = UINT64_MAX, term = 0;
    for (uint32_t id = 0; id < SIM_MODEL_NODES; id++) {
        struct lq_replica_status status;
        if (checks->nodes[id].replica == NULL) {
            continue;
        }
        status = lq_replica_status(checks->nodes[id].replica);
        if (status.role == LQ_REPLICA_LEADER && status.term > term) {
            term = status.term;
            table_ms = status.table_ms;
        }
    }
    return table_ms;
}

/* By table time, which leases are measured by: it stands still while nobody leads, and so does the
 * age of a grant. */
static bool is_fresh_by_table(const struct sim_checks *checks, const struct sim_grant *grant)
{
    const struct sim_model_lock *lock = &checks->model.locks[grant->key];
    uint64_t now_ms = leader_table_ms(checks), lease_ms = (uint64_t)grant->lease_s * 1000 + 1;
    return lock->is_held && lock->token == grant->token && now_ms != UINT64_MAX &&
           now_ms + lease_ms <= lock->end_ms + FRESH_US(grant->lease_s) / SIM_MS;
}

/* The A of this grant arrives now: it must be news. */
static bool is_fresh(const struct sim_checks *checks, const struct sim_request *request,
                     const struct sim_grant *grant)
{
    return request->is_slow_reader ||
           sim_now(checks->sim) <= grant->upper_us + FRESH_US(request->lease_s) ||
           is_fresh_by_table(checks, grant);
}

static void answer_granted(struct sim_checks *checks, const struct sim_request *request,
                           uint64_t token)
{
    const struct sim_acquire *acquire = acquire_of(checks, request);
    struct sim_grant *grant;
    if (acquire->fact != SIM_FACT_GRANTED) {
        answer_fault(checks, request, LQ_OP_ACQUIRE, "no grant was committed");
        return;
    }
    if (acquire->token != token) {
        answer_fault(checks, request, LQ_OP_ACQUIRE, "with another token than was committed");
        return;
    }
    grant = sim_requests_grant(checks, token);
    if (grant->end == SIM_FACT_RELEASED && grant->n_releases == 0) {
        answer_fault(checks, request, LQ_OP_ACQUIRE, "the node had taken it back");
    } else if (!is_fresh(checks, request, grant)) {
        answer_fault(checks, request, LQ_OP_ACQUIRE, "stale: the grant is too old to be news");
    }
    grant->is_told = true;
}

static void answer_denied(struct sim_checks *checks, const struct sim_request *request, uint8_t op)
{
    enum sim_fact_kind fact = acquire_of(checks, request)->fact;
    bool is_busy = op == LQ_OP_BUSY;
    if (fact == SIM_FACT_GRANTED) {
        answer_fault(checks, request, op, "but it was granted");
    } else if (fact == SIM_FACT_QUEUED) {
        answer_fault(checks, request, op, "but it is still in the queue");
    } else if (is_busy && fact != 0 && fact != SIM_FACT_BUSY) {
        answer_fault(checks, request, op, "the log says something else");
    } else if (!is_busy && fact == SIM_FACT_BUSY) {
        answer_fault(checks, request, op, "the log says something else");
    } else if (!is_busy && request->wait_s > 0 && !request->is_cancelled &&
               sim_now(checks->sim) < request->sent_us + EARLY_US(request->wait_s)) {
        answer_fault(checks, request, op, "before its wait was over");
    }
}

static void answer_released(struct sim_checks *checks, const struct sim_request *request,
                            uint8_t op)
{
    struct sim_grant *grant = sim_requests_grant(checks, request->token);
    if (op == LQ_OP_RELEASE) {
        if (grant->end != SIM_FACT_RELEASED || grant->end_us < request->sent_us) {
            answer_fault(checks, request, op, "no release was committed meanwhile");
        } else if (grant->is_release_told) {
            answer_fault(checks, request, op, "told twice for one token");
        }
        grant->is_release_told = true;
    } else if (grant->not_released_us < request->sent_us || grant->not_released_us == 0) {
        answer_fault(checks, request, op, "no such outcome was committed meanwhile");
    }
}

static void answer_renewed(struct sim_checks *checks, const struct sim_request *request, uint8_t op)
{
    const struct sim_grant *grant = sim_requests_grant(checks, request->token);
    uint64_t us = op == LQ_OP_RENEW ? grant->renewed_us : grant->not_renewed_us;
    if (us == 0 || us < request->sent_us) {
        answer_fault(checks, request, op, "no such outcome was committed meanwhile");
    }
}

void sim_checks_answered(struct sim_checks *checks, uint64_t id, uint8_t op, uint64_t token)
{
    struct sim_request *request = sim_requests_at(checks, id);
    bool is_possible = false;
    if (request->answer != 0 || request->is_given_up) {
        answer_fault(checks, request, op, "answered twice");
        return;
    }
    if (request->op == LQ_OP_ACQUIRE) {
        is_possible = op == LQ_OP_ACQUIRE || op == LQ_OP_TIMEOUT || op == LQ_OP_BUSY;
    } else if (request->op == LQ_OP_PING) {
        is_possible = op == LQ_OP_PING;
    } else {
        is_possible = op == request->op || op == LQ_OP_NOT_HELD;
    }
    if (!is_possible) {
        answer_fault(checks, request, op, "no answer to this");
    } else if (op == LQ_OP_ACQUIRE) {
        answer_granted(checks, request, token);
    } else if (request->op == LQ_OP_ACQUIRE) {
        answer_denied(checks, request, op);
    } else if (request->op == LQ_OP_RELEASE) {
        answer_released(checks, request, op);
    } else if (request->op == LQ_OP_RENEW) {
        answer_renewed(checks, request, op);
    }
    request->answer = op;
    request->answered_us = sim_now(checks->sim);
    forget_open(checks, id);
}

void sim_checks_given_up(struct sim_checks *checks, uint64_t id)
{
    sim_requests_at(checks, id)->is_given_up = true;
    forget_open(checks, id);
}

void sim_checks_cancelled(struct sim_checks *checks, uint64_t id)
{
    sim_requests_at(checks, id)->is_cancelled = true;
}

void sim_checks_excuse(struct sim_checks *checks, uint64_t id)
{
    sim_requests_at(checks, id)->is_slow_reader = true;
}

/* ---- The store. */

void sim_checks_certain(struct sim_checks *checks, uint64_t acquire, uint64_t until_us)
{
    const struct sim_request *request = sim_requests_at(checks, acquire);
    const char *fault =
        sim_store_certain(&checks->store, request->key, acquire,
                          checks->acquires[acquire - 1].token, sim_now(checks->sim), until_us);
    if (fault != NULL) {
        sim_fail(checks->sim, "certain leases: key %u, owner %" PRIu64 ": %s", request->key,
                 request->owner, fault);
    }
}

void sim_checks_store_write(struct sim_checks *checks, uint64_t acquire, uint64_t token)
{
    const struct sim_request *request = sim_requests_at(checks, acquire);
    bool is_accepted;
    const char *fault = sim_store_write(&checks->store, request->key, acquire, token,
                                        sim_now(checks->sim), &is_accepted);
    if (fault != NULL) {
        sim_fail(checks->sim, "store: key %u, owner %" PRIu64 ", token %" PRIu64 ": %s",
                 request->key, request->owner, token, fault);
    }
}
