#include "sim_checks.h"

#include "sim_checks_impl.h"

#include <inttypes.h>

struct sim_checks *sim_checks_new(struct sim *sim)
{
    struct sim_checks *checks = lq_calloc(1, sizeof *checks);
    checks->sim = sim;
    lq_buffer_init(&checks->applied);
    lq_buffer_init(&checks->scratch);
    for (uint32_t id = 0; id < SIM_MODEL_NODES; id++) {
        checks->nodes[id].checks = checks;
        checks->nodes[id].node = id;
    }
    return checks;
}

void sim_checks_free(struct sim_checks *checks)
{
    if (checks == NULL) {
        return;
    }
    lq_buffer_done(&checks->applied);
    lq_buffer_done(&checks->scratch);
    lq_free(checks->entries);
    sim_model_done(&checks->model);
    lq_free(checks->pictures);
    lq_free(checks->requests);
    lq_free(checks->acquires);
    lq_free(checks->grants);
    lq_free(checks->open);
    sim_index_done(&checks->by_owner);
    sim_index_done(&checks->by_token);
    sim_index_done(&checks->leaders);
    lq_free(checks);
}

/* ---- What happens to nodes. */

static struct sim_observed *node_at(struct sim_checks *checks, uint32_t node)
{
    LQ_CHECK(node < SIM_MODEL_NODES);
    return &checks->nodes[node];
}

static void disturb(struct sim_checks *checks)
{
    checks->is_disturbed = true;
    checks->disturbed_us = sim_now(checks->sim);
}

void sim_checks_node_started(struct sim_checks *checks, uint32_t node, struct lq_replica *replica)
{
    struct sim_observed *observed = node_at(checks, node);
    LQ_CHECK(observed->replica == NULL);
    observed->replica = replica;
    observed->started_us = sim_now(checks->sim);
    observed->serving_us = 0;
    observed->index = 0;
    observed->at = 0;
    observed->is_between = true;
    observed->commit_index = 0;
    observed->is_leading = false;
    disturb(checks);
    lq_replica_observe(replica, sim_log_applied, observed);
}

void sim_checks_node_stopped(struct sim_checks *checks, uint32_t node, bool is_crash)
{
    struct sim_observed *observed = node_at(checks, node);
    (void)is_crash;
    LQ_CHECK(observed->replica != NULL);
    /* It may have told others of a write since its latest turn ended. */
    observed->durable_index = lq_replica_status(observed->replica).durable_index;
    observed->replica = NULL;
    disturb(checks);
}

void sim_checks_node_fault(struct sim_checks *checks, uint32_t node, const char *what)
{
    struct sim_observed *observed = node_at(checks, node);
    (void)what;
    observed->had_fault = true;
    observed->fault_us = sim_now(checks->sim);
    disturb(checks);
}

void sim_checks_node_turn(struct sim_checks *checks, uint32_t node)
{
    struct sim_observed *observed = node_at(checks, node);
    if (observed->replica == NULL || sim_has_failed(checks->sim)) {
        return;
    }
    sim_nodes_turn(observed);
    sim_requests_watch(checks);
}

/* ---- The end. */

bool sim_checks_must_serve(const struct sim_checks *checks, uint32_t node)
{
    return checks->nodes[node].replica != NULL && sim_node_is_expected(checks->sim, node);
}

void sim_checks_probe_failed(struct sim_checks *checks, uint32_t node, const char *what)
{
    sim_fail(checks->sim, "liveness: faults have stopped, but node %u does not serve: %s", node,
             what);
}

/* All nodes that are up have come to the same index, if they are members. */
static void check_even(struct sim_checks *checks)
{
    for (uint32_t id = 0; id < SIM_MODEL_NODES; id++) {
        const struct sim_observed *node = &checks->nodes[id];
        if (!sim_checks_must_serve(checks, id)) {
            continue;
        }
        if (lq_replica_status(node->replica).applied_index + 64 < checks->last_index) {
            sim_fail(checks->sim,
                     "liveness: node %u has applied entry %" PRIu64 " of %" PRIu64 " at the end",
                     id, lq_replica_status(node->replica).applied_index, checks->last_index);
        }
    }
}

void sim_checks_end(struct sim_checks *checks)
{
    if (sim_has_failed(checks->sim)) {
        return;
    }
    if (checks->n_open > 0) {
        const struct sim_request *request = sim_requests_at(checks, checks->open[0]);
        sim_fail(checks->sim,
                 "liveness: at the end the %c of owner %" PRIu64 ", token %" PRIu64
                 " at node %u is not answered",
                 request->op, request->owner, request->token, request->node);
        return;
    }
    sim_leases_end(checks);
    check_even(checks);
}
