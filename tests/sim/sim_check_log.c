/* The log, as the nodes apply it. Whoever applies an index first defines it, for ever: every other
 * node, and the same node after a restart, must apply the same commands with the same stamps and
 * outcomes there, and have the same digest afterwards. What is defined goes through the model once.
 */
#include "lq_journal.h"
#include "lq_snapfile.h"
#include "lq_snapshot.h"
#include "sim_checks_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A picture larger than this is not one of a simulated table. */
#define STATE_MAX (UINT64_C(64) << 20)

static const char *command_name(uint8_t type)
{
    static const char *const names[] = {"?",           "ACQUIRE",      "RELEASE",
                                        "RENEW",       "CANCEL",       "EXPIRE",
                                        "ORIGIN_OPEN", "ORIGIN_CLOSE", "FORCE_RELEASE"};
    return type < sizeof names / sizeof *names ? names[type] : names[0];
}

static const char *outcome_name(uint8_t kind)
{
    static const char *const names[] = {"?",         "GRANTED",    "QUEUED",   "TIMEOUT",
                                        "BUSY",      "RELEASED",   "NOT_HELD", "RENEWED",
                                        "CANCELLED", "NOT_QUEUED", "SKIPPED",  "OPENED",
                                        "REFUSED",   "CLOSED",     "EXPIRED",  "STALE"};
    return kind < sizeof names / sizeof *names ? names[kind] : names[0];
}

/* ---- Entries. */

static struct sim_entry *entry_at(struct sim_checks *checks, uint64_t index)
{
    if (index >= checks->cap_entries) {
        checks->cap_entries = 2 * checks->cap_entries + 1024 + index;
        checks->entries = lq_realloc(checks->entries, checks->cap_entries, sizeof *checks->entries);
    }
    while (checks->n_entries <= index) {
        checks->entries[checks->n_entries++] = (struct sim_entry){0};
    }
    return &checks->entries[index];
}

static void put(struct lq_buffer *out, const void *bytes, size_t len)
{
    if (len > 0) {
        lq_buffer_add(out, bytes, len);
    }
}

/* One command and what came of it, in bytes that are equal when those are. */
static void write_item(struct lq_buffer *out, const struct lq_stamp *stamp,
                       const struct lq_command *command, const struct lq_outcome *outcomes,
                       size_t n_outcomes)
{
    uint64_t numbers[] = {stamp->time_ms,
                          stamp->caps.keys,
                          stamp->caps.waiters_per_key,
                          stamp->caps.waiters,
                          stamp->caps.state_bytes,
                          command->type,
                          command->wait_s,
                          command->lease_s,
                          command->key_len,
                          command->origin.node,
                          command->origin.incarnation,
                          command->seq,
                          command->owner,
                          command->token,
                          command->target,
                          n_outcomes};
    out->len = 0;
    put(out, numbers, sizeof numbers);
    put(out, command->key, command->key_len);
    for (size_t i = 0; i < n_outcomes; i++) {
        uint64_t outcome[] = {outcomes[i].kind,        outcomes[i].lease_s,
                              outcomes[i].origin.node, outcomes[i].origin.incarnation,
                              outcomes[i].seq,         outcomes[i].token,
                              outcomes[i].stamp_ms};
        put(out, outcome, sizeof outcome);
    }
}

/* ---- The model. */

static bool is_equal(const struct lq_outcome *a, const struct lq_outcome *b)
{
    return a->kind == b->kind && a->lease_s == b->lease_s && a->origin.node == b->origin.node &&
           a->origin.incarnation == b->origin.incarnation && a->seq == b->seq &&
           a->token == b->token && a->stamp_ms == b->stamp_ms;
}

static void say_outcome(char *text, size_t size, const struct lq_outcome *outcomes, size_t n,
                        size_t at)
{
    if (at >= n) {
        (void)snprintf(text, size, "nothing more");
        return;
    }
    const struct lq_outcome *outcome = &outcomes[at];
    (void)snprintf(text, size,
                   "%s for %u.%" PRIu64 " #%" PRIu64 " token %" PRIu64 " at %" PRIu64 " ms",
                   outcome_name(outcome->kind), outcome->origin.node, outcome->origin.incarnation,
                   outcome->seq, outcome->token, outcome->stamp_ms);
}

static void compare_model(struct sim_checks *checks, uint64_t index,
                          const struct lq_command *command, const struct lq_outcome *outcomes,
                          size_t n_outcomes)
{
    const struct sim_model *model = &checks->model;
    char real[120], expected[120];
    size_t i = 0;
    while (i < n_outcomes && i < model->n_outcomes && is_equal(&outcomes[i], &model->outcomes[i])) {
        i++;
    }
    if (i == n_outcomes && i == model->n_outcomes) {
        return;
    }
    say_outcome(real, sizeof real, outcomes, n_outcomes, i);
    say_outcome(expected, sizeof expected, model->outcomes, model->n_outcomes, i);
    sim_fail(checks->sim, "model: entry %" PRIu64 ": %s led to %s, should be %s", index,
             command_name(command->type), real, expected);
}

/* A command is applied that nobody has applied before. */
static void define(struct sim_checks *checks, uint64_t index, const struct lq_stamp *stamp,
                   const struct lq_command *command, const struct lq_outcome *outcomes,
                   size_t n_outcomes)
{
    struct sim_model *model = &checks->model;
    const char *fault = sim_model_apply(model, command, stamp);
    if (fault != NULL) {
        sim_fail(checks->sim, "model: entry %" PRIu64 ": %s with %s", index,
                 command_name(command->type), fault);
        return;
    }
    compare_model(checks, index, command, outcomes, n_outcomes);
    if (n_outcomes > 0 && outcomes[0].kind != LQ_OUTCOME_SKIPPED) {
        sim_requests_command(checks, command);
    } else {
        sim_trace(checks->sim, "  fact: %s %u.%" PRIu64 " #%" PRIu64 " is skipped",
                  command_name(command->type), command->origin.node, command->origin.incarnation,
                  command->seq);
    }
    for (size_t i = 0; i < model->n_facts && !sim_has_failed(checks->sim); i++) {
        sim_requests_fact(checks, &model->facts[i]);
        sim_leases_fact(checks, &model->facts[i]);
    }
}

/* ---- What a node applies. */

/* The node goes on to this index. */
static bool begin_entry(struct sim_observed *node, uint64_t index)
{
    struct sim_checks *checks = node->checks;
    if (node->index != 0 && (index <= node->index || !node->is_between)) {
        sim_fail(checks->sim, "log: node %u applies entry %" PRIu64 " after entry %" PRIu64,
                 node->node, index, node->index);
        return false;
    }
    if (index > checks->last_index && checks->n_entries > 0 &&
        entry_at(checks, checks->n_entries - 1)->is_known &&
        !entry_at(checks, checks->n_entries - 1)->is_complete && index != checks->n_entries - 1) {
        sim_fail(checks->sim, "log: node %u applies entry %" PRIu64 ", but entry %zu has no end",
                 node->node, index, checks->n_entries - 1);
        return false;
    }
    node->index = index;
    node->at = 0;
    node->is_between = false;
    return true;
}

static void apply_command(struct sim_observed *node, struct sim_entry *entry,
                          const struct lq_stamp *stamp, const struct lq_command *command,
                          const struct lq_outcome *outcomes, size_t n_outcomes)
{
    struct sim_checks *checks = node->checks;
    struct lq_buffer *item = &checks->scratch;
    write_item(item, stamp, command, outcomes, n_outcomes);
    if (!entry->is_known && node->index < checks->last_index) {
        sim_fail(checks->sim,
                 "log: node %u applies %s at entry %" PRIu64 ", where others had nothing",
                 node->node, command_name(command->type), node->index);
        return;
    }
    if (node->at == entry->len && !entry->is_complete) {
        if (!entry->is_known) {
            *entry = (struct sim_entry){
                .at = checks->applied.len, .is_known = true, .stamp_ms = stamp->time_ms};
        }
        lq_buffer_add(&checks->applied, item->bytes, item->len);
        entry->len += item->len;
        node->at += item->len;
        define(checks, node->index, stamp, command, outcomes, n_outcomes);
        return;
    }
    if (item->len > entry->len - node->at ||
        memcmp(checks->applied.bytes + entry->at + node->at, item->bytes, item->len) != 0) {
        sim_fail(checks->sim,
                 "log: node %u applies %s (token %" PRIu64 ", owner %" PRIu64 ") -> %s at entry "
                 "%" PRIu64 ", where another one, or itself earlier, applied something else",
                 node->node, command_name(command->type), command->token, command->owner,
                 n_outcomes > 0 ? outcome_name(outcomes[0].kind) : "?", node->index);
        return;
    }
    node->at += item->len;
}

bool sim_log_is_damaged(const struct sim_checks *checks, uint32_t node)
{
    return checks->nodes[node].is_infected || sim_node_is_rotten(checks->sim, node);
}

/* The first node whose state counts says what the digest is; the others must have the same. */
static void compare_digest(const struct sim_observed *node, struct sim_entry *entry)
{
    uint64_t digest;
    if (sim_log_is_damaged(node->checks, node->node)) {
        return; /* it must find out by itself, and stop */
    }
    digest = lq_table_digest(lq_replica_table(node->replica));
    if (!entry->has_digest) {
        entry->has_digest = true;
        entry->digest = digest;
    } else if (entry->digest != digest) {
        sim_fail(node->checks->sim, "digest: node %u has another state after entry %" PRIu64,
                 node->node, node->index);
    }
}

static void end_entry(struct sim_observed *node, struct sim_entry *entry)
{
    struct sim_checks *checks = node->checks;
    node->is_between = true;
    if (entry->is_complete && node->at != entry->len) {
        sim_fail(checks->sim, "log: node %u applies less at entry %" PRIu64 " than another one",
                 node->node, node->index);
        return;
    }
    if (!entry->is_known) {
        *entry = (struct sim_entry){
            .at = checks->applied.len, .is_known = true, .stamp_ms = checks->last_stamp_ms};
    }
    compare_digest(node, entry);
    if (entry->is_complete) {
        return;
    }
    entry->is_complete = true;
    entry->first_us = sim_now(checks->sim);
    if (node->index < checks->last_index) {
        return; /* the first members, which no other node had to apply */
    }
    sim_nodes_committed(node, node->index);
    sim_leases_entry(checks, entry);
    checks->last_index = node->index;
    checks->last_us = entry->first_us;
    checks->last_stamp_ms = entry->stamp_ms;
}

void sim_log_applied(void *context, uint64_t index, const struct lq_stamp *stamp,
                     const struct lq_command *command, const struct lq_outcome *outcomes,
                     size_t n_outcomes)
{
    struct sim_observed *node = context;
    struct sim_checks *checks = node->checks;
    if (sim_has_failed(checks->sim)) {
        return;
    }
    if (command != NULL && command->type == LQ_COMMAND_ORIGIN_CLOSE &&
        command->origin.node >= SIM_MODEL_NODES) {
        return; /* of an origin that exists only in a damaged state; no other state cares */
    }
    if ((node->index != index || node->is_between) && !begin_entry(node, index)) {
        return;
    }
    if (command == NULL) {
        end_entry(node, entry_at(checks, index));
    } else {
        apply_command(node, entry_at(checks, index), stamp, command, outcomes, n_outcomes);
    }
}

/* A snapshot comes from whoever leads, damaged or not. */
void sim_log_compare(struct sim_observed *node, uint64_t index)
{
    struct sim_checks *checks = node->checks;
    for (uint32_t id = 0; id < SIM_MODEL_NODES; id++) {
        node->is_infected = node->is_infected ||
                            (checks->nodes[id].replica != NULL && sim_log_is_damaged(checks, id));
    }
    if (index < checks->n_entries && checks->entries[index].is_complete) {
        compare_digest(node, &checks->entries[index]);
    }
}

/* ---- Pictures: snapshots, in bytes. */

/* Whether another node has taken one at this index, with other bytes. */
static bool differs(struct sim_checks *checks, const struct sim_picture *picture,
                    uint32_t *ret_node)
{
    for (size_t i = checks->n_pictures; i-- > 0;) {
        if (checks->pictures[i].index == picture->index) {
            *ret_node = checks->pictures[i].node;
            return checks->pictures[i].hash != picture->hash;
        }
    }
    return false;
}

static void keep_picture(struct sim_checks *checks, struct sim_picture picture)
{
    if (checks->n_pictures == checks->cap_pictures) {
        checks->cap_pictures = 2 * checks->cap_pictures + 16;
        checks->pictures =
            lq_realloc(checks->pictures, checks->cap_pictures, sizeof *checks->pictures);
    }
    checks->pictures[checks->n_pictures++] = picture;
}

/* What is wrong with the state in a snapshot, or NULL. */
static const char *state_fault(const struct sim_checks *checks, uint64_t index,
                               const struct lq_buffer *state)
{
    static const uint8_t secret[16] = "sixteen letters";
    struct lq_table *table = lq_snapshot_restore(state->bytes, state->len, secret);
    const char *fault = NULL;
    if (table == NULL) {
        return "no table can be made of it";
    }
    if (lq_table_digest(table) != lq_table_digest_recomputed(table)) {
        fault = "its digest is not that of its state";
    } else if (index < checks->n_entries && checks->entries[index].has_digest &&
               lq_table_digest(table) != checks->entries[index].digest) {
        fault = "it is not the state at its index";
    }
    lq_table_free(table);
    return fault;
}

void sim_checks_snapshot(struct sim_checks *checks, uint32_t node, const uint8_t *bytes, size_t len)
{
    struct lq_snapfile_head head;
    struct lq_buffer state;
    struct sim_picture picture = {.node = node};
    uint64_t check;
    uint32_t other = 0;
    const char *fault;
    if (sim_log_is_damaged(checks, node)) {
        return;
    }
    lq_buffer_init(&state);
    if (lq_snapfile_read(bytes, len, STATE_MAX, &head, &state, &check) != LQ_SNAPFILE_OK) {
        sim_fail(checks->sim, "snapshot: that of node %u can't be read", node);
        lq_buffer_done(&state);
        return;
    }
    picture.index = head.index;
    picture.hash = lq_journal_entry_check(head.index, 0, 0, state.bytes, state.len);
    fault = state_fault(checks, head.index, &state);
    if (fault != NULL) {
        sim_fail(checks->sim, "snapshot: node %u at entry %" PRIu64 ": %s", node, head.index,
                 fault);
    } else if (differs(checks, &picture, &other)) {
        sim_fail(checks->sim, "snapshot: nodes %u and %u differ at entry %" PRIu64, node, other,
                 head.index);
    }
    keep_picture(checks, picture);
    lq_buffer_done(&state);
}
