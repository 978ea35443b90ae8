/* The nodes, after each of their turns: one leader a term, table time that runs as true time does,
 * indexes that do not go back, memory within its caps. */
#include "sim_checks_impl.h"

#include <inttypes.h>

/* A leader's clock may be slow by 1 %, and a turn may come so much late. */
#define RATE_LOW(us)  ((us) / SIM_MS * 985 / 1000)
#define RATE_HIGH(us) ((us) / SIM_MS * 1015 / 1000 + 10)
#define RATE_SLACK_MS 50

/* What may wait: commands of the origin beyond their cap by one batch, and effects that the shell
 * takes after each turn. */
#define BATCH_BYTES  (UINT64_C(2) << 20)
#define QUEUED_BYTES (UINT64_C(64) << 20)

/* Turns of a node between two computations of its digest from scratch. */
#define RECOMPUTE_EVERY 1024

static void check_leader(struct sim_observed *node, const struct lq_replica_status *status)
{
    struct sim_checks *checks = node->checks;
    uint32_t other = sim_index_get(&checks->leaders, status->term);
    if (other == SIM_INDEX_NONE) {
        sim_index_put(&checks->leaders, status->term, node->node);
    } else if (other != node->node) {
        sim_fail(checks->sim, "nodes: %u and %u both lead in term %" PRIu64, other, node->node,
                 status->term);
    }
    if (status->term > checks->term) {
        checks->term = status->term;
        checks->term_us = sim_now(checks->sim);
        checks->term_table_ms = status->table_ms;
        checks->disturbed_us = checks->term_us;
        checks->is_disturbed = true;
    }
    if (status->is_full) { /* it notices long after the disk is full, when it needs a segment */
        checks->disturbed_us = sim_now(checks->sim);
        checks->is_disturbed = true;
    }
}

/* While one node leads, its table time goes as true time does. */
static void check_clock(struct sim_observed *node, const struct lq_replica_status *status)
{
    struct sim_checks *checks = node->checks;
    uint64_t now_us = sim_now(checks->sim);
    uint64_t passed_us = now_us - node->lead_us;
    uint64_t passed_ms = status->table_ms - node->lead_table_ms;
    if (!node->is_leading || node->lead_term != status->term) {
        node->is_leading = true;
        node->lead_term = status->term;
        node->lead_us = now_us;
        node->lead_table_ms = status->table_ms;
    } else if (status->table_ms < node->lead_table_ms || passed_ms > RATE_HIGH(passed_us) ||
               passed_ms + RATE_SLACK_MS < RATE_LOW(passed_us)) {
        sim_fail(checks->sim,
                 "table time: goes on by %" PRIu64 " ms at leader %u, true time by %" PRIu64 " ms",
                 passed_ms, node->node, passed_us / SIM_MS);
    }
}

static void check_memory(const struct sim_observed *node, const struct lq_replica_status *status)
{
    struct lq_replica_options options;
    lq_replica_defaults(&options);
    if (status->outbox_bytes > options.outbox_bytes + BATCH_BYTES) {
        sim_fail(node->checks->sim, "memory: node %u has an outbox of %" PRIu64 " bytes",
                 node->node, status->outbox_bytes);
    }
    if (status->queued_bytes > QUEUED_BYTES) {
        sim_fail(node->checks->sim, "memory: node %u has effects of %" PRIu64 " bytes", node->node,
                 status->queued_bytes);
    }
}

static void check_digest(const struct sim_observed *node)
{
    const struct lq_table *table = lq_replica_table(node->replica);
    if (lq_table_digest(table) != lq_table_digest_recomputed(table)) {
        sim_fail(node->checks->sim, "digest: that of node %u is not that of its state", node->node);
    }
}

static void check_indexes(struct sim_observed *node, const struct lq_replica_status *status)
{
    struct sim_checks *checks = node->checks;
    if (status->commit_index < node->commit_index) {
        sim_fail(checks->sim, "nodes: the commit index of %u falls from %" PRIu64 " to %" PRIu64,
                 node->node, node->commit_index, status->commit_index);
    } else if (status->applied_index > status->commit_index) {
        sim_fail(checks->sim, "nodes: %u applied %" PRIu64 ", but committed %" PRIu64, node->node,
                 status->applied_index, status->commit_index);
    }
    node->commit_index = status->commit_index;
    node->durable_index = status->durable_index;
    if (status->applied_index > node->index && (node->is_between || node->index == 0)) {
        node->index = status->applied_index;
        node->is_between = true;
        sim_log_compare(node, node->index);
    }
}

void sim_nodes_turn(struct sim_observed *node)
{
    struct lq_replica_status status = lq_replica_status(node->replica);
    check_indexes(node, &status);
    if (status.role == LQ_REPLICA_LEADER) {
        check_leader(node, &status);
        check_clock(node, &status);
    } else {
        node->is_leading = false;
    }
    if (status.is_serving && node->serving_us == 0) {
        node->serving_us = sim_now(node->checks->sim);
    }
    check_memory(node, &status);
    sim_nodes_check_reports(node);
    if (++node->n_turns % RECOMPUTE_EVERY == 0 && !sim_log_is_damaged(node->checks, node->node)) {
        check_digest(node);
    }
}

/* ---- Commit. */

/* Whether a majority of these voters has the entry on its disk, as far as is known. */
static bool has_majority(const struct sim_checks *checks, const struct lq_members *members,
                         uint64_t index)
{
    size_t n_durable = 0;
    for (size_t i = 0; i < members->n; i++) {
        uint32_t id = members->items[i].node;
        if (members->items[i].role != LQ_ROLE_VOTER || id >= SIM_MODEL_NODES) {
            continue;
        }
        n_durable += checks->nodes[id].durable_index >= index;
    }
    return 2 * n_durable > lq_members_n_voters(members);
}

void sim_nodes_committed(struct sim_observed *node, uint64_t index)
{
    struct sim_checks *checks = node->checks;
    node->durable_index = lq_replica_status(node->replica).durable_index;
    if (index == 1) {
        return; /* the members that all were set up with: committed from the beginning */
    }
    /* Who the members are is changed by entries of the log, which not all nodes have yet. */
    for (uint32_t id = 0; id < SIM_MODEL_NODES; id++) {
        const struct sim_observed *other = &checks->nodes[id];
        if (other->replica != NULL &&
            has_majority(checks, lq_replica_members(other->replica), index)) {
            return;
        }
    }
    sim_fail(checks->sim,
             "commit: node %u applies entry %" PRIu64 ", which is not on the disks of a majority",
             node->node, index);
}
