/* The operator of the cluster: adds, removes, demotes, promotes and replaces nodes, by asking
 * whoever leads, again and again until it is so. */
#include "sim_checks.h"
#include "sim_faults.h"
#include "sim_world.h"

#include <stdio.h>

#define STEP_US (150 * SIM_MS)
#define GOAL_US (15 * SIM_S)

uint32_t sim_leader(struct sim *sim)
{
    uint32_t leader = 0;
    uint64_t term = 0;
    for (uint32_t id = 1; id <= sim->n_nodes; id++) {
        struct lq_replica_status status;
        if (!sim->nodes[id].is_up) {
            continue;
        }
        status = lq_replica_status(sim->nodes[id].replica);
        if (status.role == LQ_REPLICA_LEADER && status.term > term) {
            leader = id;
            term = status.term;
        }
    }
    return leader;
}

bool sim_node_is_expected(const struct sim *sim, uint32_t node)
{
    const struct sim_node *state = &sim->nodes[node];
    const struct lq_members *members = NULL;
    uint64_t index = 0;
    if (!state->is_up || state->is_wiped || state->is_rotten || state->is_leaving) {
        return false;
    }
    for (uint32_t id = 1; id <= sim->n_nodes; id++) {
        const struct sim_node *other = &sim->nodes[id];
        if (other->is_up && !other->is_wiped) {
            struct lq_replica_status status = lq_replica_status(other->replica);
            if (status.applied_index >= index) {
                index = status.applied_index;
                members = lq_replica_members(other->replica);
            }
        }
    }
    return members != NULL && lq_members_find(members, node) != NULL;
}

static void ask(struct sim *sim, enum lq_change_kind kind, uint32_t node)
{
    uint32_t leader = sim_leader(sim);
    struct sim_input *input = sim_input_new(SIM_INPUT_CHANGE, NULL, 0);
    input->number = kind;
    input->peer = node;
    sim_node_input(&sim->nodes[leader], input);
}

static const struct lq_members *members_of_leader(struct sim *sim)
{
    uint32_t leader = sim_leader(sim);
    return leader == 0 ? NULL : lq_replica_members(sim->nodes[leader].replica);
}

/* ---- Goals. */

/* In half of the seeds members are replaced in one request. The seed says so by itself, so that
 * nothing else is drawn otherwise than in a run without. */
static bool replaces_at_once(const struct sim *sim)
{
    struct lq_rand rand = lq_rand_of(sim->options.seed, UINT64_C(0x7265706C616365));
    return lq_rand_below(&rand, 2) == 0;
}

/* Whether the next two goals are such a request. A node whose state is damaged goes first all the
 * same: it must not hand its state to the new one. */
static bool is_replacement(const struct sim *sim)
{
    const struct sim_goal *goals = sim->faults.goals;
    return replaces_at_once(sim) && sim->faults.n_goals > 1 && goals[0].kind == SIM_GOAL_SHRINK &&
           goals[1].kind == SIM_GOAL_GROW && !sim->nodes[goals[0].node].is_rotten;
}

/* By whose number the new one's address goes: in half of these seeds by the old one's. */
static uint32_t place_of(struct sim *sim, uint32_t old_node, uint32_t new_node)
{
    struct lq_rand rand = lq_rand_of(sim->options.seed, UINT64_C(0x706C616365));
    if (lq_rand_below(&rand, 2) == 0) {
        return new_node;
    }
    sim->nodes[new_node].place = sim->nodes[old_node].place;
    return sim->nodes[new_node].place;
}

/* Asks the leader, in a process that runs. True once it is so. */
static bool step_of_replacement(struct sim *sim)
{
    static const char *const results[] = {"done", "started", "busy", "not leader", "invalid"};
    uint32_t old_node = sim->faults.goals[0].node, new_node = sim->faults.goals[1].node;
    uint32_t leader = sim_leader(sim);
    enum lq_change_result result;
    char address[32];
    if (leader == 0 || sim->nodes[leader].is_paused) {
        return false;
    }
    (void)snprintf(address, sizeof address, "node%u:1", place_of(sim, old_node, new_node));
    result = lq_replica_replace(sim->nodes[leader].replica, old_node, new_node, address);
    sim_trace(sim, "%u   asked to replace %u by %u: %s", leader, old_node, new_node,
              results[result]);
    return result == LQ_CHANGE_DONE;
}

/* One step towards it; true when it is reached. */
static bool step_towards(struct sim *sim, const struct sim_goal *goal)
{
    const struct lq_members *members = members_of_leader(sim);
    const struct lq_member *member;
    if (members == NULL) {
        return false;
    }
    member = lq_members_find(members, goal->node);
    if (goal->kind == SIM_GOAL_SHRINK) {
        if (member != NULL) {
            ask(sim, LQ_CHANGE_REMOVE, goal->node);
        }
        return member == NULL;
    }
    if (goal->kind == SIM_GOAL_REST) {
        if (member != NULL && member->role == LQ_ROLE_VOTER) {
            ask(sim, LQ_CHANGE_DEMOTE, goal->node);
            return false;
        }
        return true;
    }
    if (member == NULL) {
        ask(sim, LQ_CHANGE_ADD, goal->node);
    } else if (member->role != LQ_ROLE_VOTER) {
        ask(sim, LQ_CHANGE_PROMOTE, goal->node);
    }
    return member != NULL && member->role == LQ_ROLE_VOTER;
}

static void on_step(struct sim *sim, void *argument)
{
    struct sim_faults *faults = &sim->faults;
    unsigned n_reached = 0;
    (void)argument;
    if (sim->is_calm) {
        return;
    }
    if (is_replacement(sim) && sim->now_us <= faults->goals[0].until_us) {
        n_reached = step_of_replacement(sim) ? 2 : 0;
    } else if (faults->n_goals > 0 &&
               (step_towards(sim, &faults->goals[0]) || sim->now_us > faults->goals[0].until_us)) {
        n_reached = 1;
    }
    if (n_reached > 0) {
        faults->n_goals -= n_reached;
        for (unsigned i = 0; i < faults->n_goals; i++) {
            faults->goals[i] = faults->goals[i + n_reached];
            faults->goals[i].until_us = sim->now_us + GOAL_US;
        }
    }
    (void)sim_at(sim, sim->now_us + STEP_US, on_step, NULL);
}

void sim_operator_start(struct sim *sim)
{
    (void)sim_at(sim, STEP_US, on_step, NULL);
}

void sim_operator_want(struct sim *sim, const struct sim_goal *goal)
{
    struct sim_faults *faults = &sim->faults;
    static const char *const kinds[] = {"a voter", "no member", "a standby"};
    if (faults->n_goals < SIM_GOALS_MAX) {
        sim_trace(sim, "    the operator wants %u to become %s", goal->node, kinds[goal->kind]);
        faults->goals[faults->n_goals] = *goal;
        faults->goals[faults->n_goals++].until_us = sim->now_us + GOAL_US;
    }
}

static void want(struct sim *sim, enum sim_goal_kind kind, uint32_t node)
{
    struct sim_goal goal = {.kind = kind, .node = node};
    if (kind == SIM_GOAL_SHRINK) {
        sim->nodes[node].is_removed = true;
        if (sim->checks != NULL) {
            sim_checks_node_fault(sim->checks, node, "is being removed");
        }
    }
    sim_operator_want(sim, &goal);
}

/* A new node, blank and up, that nobody has asked to join yet; 0: there were enough. */
static uint32_t new_node(struct sim *sim)
{
    struct sim_node *node;
    if (sim->n_nodes == SIM_NODES_MAX) {
        return 0;
    }
    node = &sim->nodes[++sim->n_nodes];
    sim_node_init(node, sim, sim->n_nodes);
    node->is_added = true;
    sim_node_start_at(node, sim->now_us + sim_between(sim, 0, 1000) * SIM_MS);
    return node->id;
}

/* ---- Lost disks. */

static bool is_lost(const struct sim_node *node)
{
    return node->is_wiped || node->is_flipped || node->is_rotten || node->is_gone;
}

/* Whether one of the members will never come back, and is still listed. */
static bool has_lost(struct sim *sim, const struct lq_members *members)
{
    for (size_t i = 0; i < members->n; i++) {
        if (is_lost(&sim->nodes[members->items[i].node])) {
            return true;
        }
    }
    return false;
}

/* Whether all other voters are up and have stored all that this one has: entries that were
 * committed through its word must not be left on too few disks. */
static bool have_all_of(struct sim *sim, const struct lq_members *members, uint32_t node)
{
    uint64_t index = lq_replica_status(sim->nodes[node].replica).durable_index;
    for (size_t i = 0; i < members->n; i++) {
        const struct sim_node *other = &sim->nodes[members->items[i].node];
        if (members->items[i].role == LQ_ROLE_VOTER && other->id != node &&
            (!other->is_up || other->is_paused ||
             lq_replica_status(other->replica).durable_index < index)) {
            return false;
        }
    }
    return true;
}

/* What is committed is on a majority of the voters. One of them may lose its disk if no other has,
 * and if the cluster has begun to work, so that a blank node is told from a new one. */
bool sim_operator_can_lose(struct sim *sim, uint32_t node)
{
    const struct lq_members *members = members_of_leader(sim);
    uint32_t leader = sim_leader(sim);
    if (members == NULL || sim->faults.n_goals > 0 || sim->faults.n_lost >= 3 ||
        lq_members_n_voters(members) < 3 ||
        lq_replica_status(sim->nodes[leader].replica).applied_index < 20) {
        return false;
    }
    if (is_lost(&sim->nodes[node]) || has_lost(sim, members)) {
        return false;
    }
    for (uint32_t id = 1; id <= sim->n_nodes; id++) {
        const struct sim_node *other = &sim->nodes[id];
        if (other->is_up && !is_lost(other) && !other->is_removed &&
            lq_replica_members(other->replica)->n != members->n) {
            return false; /* a change is still on its way */
        }
    }
    return have_all_of(sim, members, node);
}

void sim_operator_replace(struct sim *sim, uint32_t node)
{
    uint32_t fresh = new_node(sim);
    want(sim, SIM_GOAL_SHRINK, node);
    if (fresh != 0) {
        want(sim, SIM_GOAL_GROW, fresh);
    }
}

/* ---- Changes. */

void sim_operator_change(struct sim *sim)
{
    const struct lq_members *members = members_of_leader(sim);
    const struct lq_member *member;
    uint64_t draw = sim_between(sim, 0, 99);
    if (members == NULL || members->n == 0 || sim->faults.n_goals > 0) {
        return;
    }
    member = &members->items[sim_between(sim, 0, members->n - 1)];
    if (draw < 40 && members->n < 7) {
        uint32_t fresh = new_node(sim);
        if (fresh != 0) {
            want(sim, SIM_GOAL_GROW, fresh);
        }
    } else if (has_lost(sim, members)) {
        return; /* fewer others must not make it the majority */
    } else if (draw < 65 && lq_members_n_voters(members) > 2 && replaces_at_once(sim)) {
        sim_operator_replace(sim, member->node);
    } else if (draw < 65 && lq_members_n_voters(members) > 2) {
        want(sim, SIM_GOAL_SHRINK, member->node);
    } else if (draw < 85 && lq_members_n_voters(members) > 2) {
        want(sim, SIM_GOAL_REST, member->node);
    } else if (member->role != LQ_ROLE_VOTER) {
        want(sim, SIM_GOAL_GROW, member->node);
    }
}

bool sim_operator_is_minority(const struct sim *sim, const bool *is_cut)
{
    const struct lq_members *members = NULL;
    uint64_t term = 0;
    size_t n_cut = 0;
    for (uint32_t id = 1; id <= sim->n_nodes; id++) {
        const struct lq_replica *replica = sim->nodes[id].is_up ? sim->nodes[id].replica : NULL;
        if (replica != NULL && lq_replica_status(replica).term >= term) {
            term = lq_replica_status(replica).term;
            members = lq_replica_members(replica);
        }
    }
    for (size_t i = 0; members != NULL && i < members->n; i++) {
        n_cut += members->items[i].role == LQ_ROLE_VOTER && is_cut[members->items[i].node];
    }
    return members != NULL && 2 * n_cut < lq_members_n_voters(members);
}
