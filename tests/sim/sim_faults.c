#include "sim_faults.h"

#include "sim_checks.h"
#include "sim_world.h"

#include <string.h>

typedef void strike_fn(struct sim *sim);

/* ---- Drawing. */

static uint64_t draw_gap(struct sim *sim, uint64_t mean_us)
{
    return sim_between(sim, mean_us / 8, 2 * mean_us - mean_us / 8);
}

/* Mostly short, now and then long: each doubling between the two is as likely as any other. */
static uint64_t draw_span_us(struct sim *sim, uint64_t low_ms, uint64_t high_ms)
{
    uint64_t doublings = 0, low;
    while (low_ms << (doublings + 1) <= high_ms) {
        doublings++;
    }
    low = low_ms << sim_between(sim, 0, doublings);
    return sim_between(sim, low, 2 * low < high_ms ? 2 * low : high_ms) * SIM_MS;
}

/* A random node that is up, or NULL. */
static struct sim_node *draw_up(struct sim *sim)
{
    uint32_t start = (uint32_t)sim_between(sim, 1, sim->n_nodes);
    for (uint32_t i = 0; i < sim->n_nodes; i++) {
        struct sim_node *node = &sim->nodes[1 + (start + i) % sim->n_nodes];
        if (node->is_up) {
            return node;
        }
    }
    return NULL;
}

/* Often the leader: that is where it hurts. */
static struct sim_node *draw_victim(struct sim *sim)
{
    uint32_t leader = sim_percent(sim, 50) ? sim_leader(sim) : 0;
    return leader != 0 ? &sim->nodes[leader] : draw_up(sim);
}

static void tell(struct sim *sim, const struct sim_node *node, const char *what)
{
    sim_trace(sim, "%u   fault: %s", node->id, what);
    if (sim->checks != NULL) {
        sim_checks_node_fault(sim->checks, node->id, what);
    }
}

/* ---- Processes. */

static void strike_crash(struct sim *sim)
{
    struct sim_node *node = draw_victim(sim);
    if (node == NULL) {
        return;
    }
    switch (sim_between(sim, 0, 2)) {
    case 0:
        node->crash_in = (unsigned)sim_between(sim, 1, 40);
        break;
    case 1:
        node->dies_writing = true;
        break;
    default:
        sim_node_crash(node, SIM_DEATH_PROCESS);
        sim_node_start_at(node, sim->now_us + draw_span_us(sim, 1, 8000));
        node->dies_writing = sim_percent(sim, 30); /* when it catches up */
        break;
    }
}

static void strike_power(struct sim *sim)
{
    struct sim_node *node = draw_victim(sim);
    if (node != NULL) {
        sim_node_crash(node, SIM_DEATH_MACHINE);
        sim_node_start_at(node, sim->now_us + draw_span_us(sim, 100, 12000));
    }
}

static void strike_all(struct sim *sim)
{
    enum sim_death death = sim_percent(sim, 50) ? SIM_DEATH_PROCESS : SIM_DEATH_MACHINE;
    for (uint32_t id = 1; id <= sim->n_nodes; id++) {
        if (sim->nodes[id].is_up) {
            sim_node_crash(&sim->nodes[id], death);
            sim_node_start_at(&sim->nodes[id], sim->now_us + draw_span_us(sim, 20, 5000));
        }
    }
}

static void on_resume(struct sim *sim, void *argument)
{
    struct sim_node *node = argument;
    if (node->is_paused) {
        sim_node_resume(node);
        tell(sim, node, "goes on");
    }
}

static void strike_pause(struct sim *sim)
{
    struct sim_node *node = draw_victim(sim);
    if (node != NULL && !node->is_paused) {
        tell(sim, node, "paused");
        sim_node_pause(node);
        (void)sim_at(sim, sim->now_us + draw_span_us(sim, 50, 12000), on_resume, node);
    }
}

static void strike_leave(struct sim *sim)
{
    struct sim_node *node = draw_victim(sim);
    if (node != NULL && !node->is_paused) {
        tell(sim, node, "stopped in order");
        sim_node_leave(node);
    }
}

/* ---- The network. */

static void heal(struct sim *sim)
{
    if (!sim->faults.is_partitioned) {
        return;
    }
    sim_trace(sim, "    the network is whole again");
    sim->faults.is_partitioned = false;
    for (uint32_t a = 1; a <= SIM_NODES_MAX; a++) {
        for (uint32_t b = 1; b <= SIM_NODES_MAX; b++) {
            if (sim->network.ways[a][b].is_blocked) {
                sim_network_block(sim, a, b, false);
                if (sim->checks != NULL && a <= sim->n_nodes) {
                    sim_checks_node_fault(sim->checks, a, "whole network");
                }
            }
        }
    }
}

static void on_heal(struct sim *sim, void *argument)
{
    (void)argument;
    heal(sim);
}

static void begin_partition(struct sim *sim)
{
    sim->faults.is_partitioned = true;
    (void)sim_at(sim, sim->now_us + draw_span_us(sim, 200, 16000), on_heal, NULL);
}

static void strike_partition(struct sim *sim)
{
    bool is_cut[SIM_NODES_MAX + 1] = {false}, is_few;
    if (sim->faults.is_partitioned || sim->n_nodes < 2) {
        return;
    }
    begin_partition(sim);
    for (uint32_t id = 1; id <= SIM_NODES_MAX; id++) { /* later nodes are on one side, too */
        is_cut[id] = sim_percent(sim, 35);
    }
    is_few = sim_operator_is_minority(sim, is_cut);
    for (uint32_t a = 1; a <= SIM_NODES_MAX; a++) {
        bool is_fault = is_cut[a] || !is_few;
        for (uint32_t b = 1; b <= SIM_NODES_MAX; b++) {
            if (is_cut[a] != is_cut[b]) {
                sim_network_block(sim, a, b, true);
            }
        }
        if (is_fault && a <= sim->n_nodes) {
            tell(sim, &sim->nodes[a], is_cut[a] ? "cut off" : "cut off, other side");
        }
    }
}

static void strike_one_way(struct sim *sim)
{
    if (sim->faults.is_partitioned || sim->n_nodes < 2) {
        return;
    }
    begin_partition(sim);
    for (uint64_t n = sim_between(sim, 1, sim->n_nodes); n > 0; n--) {
        uint32_t a = (uint32_t)sim_between(sim, 1, sim->n_nodes);
        uint32_t b = (uint32_t)sim_between(sim, 1, sim->n_nodes);
        if (a == b) {
            continue;
        }
        sim_trace(sim, "    nothing gets from %u to %u", a, b);
        sim_network_block(sim, a, b, true);
        tell(sim, &sim->nodes[a], "a way is blocked");
        tell(sim, &sim->nodes[b], "a way is blocked");
        if (sim_percent(sim, 30)) {
            sim_network_block(sim, b, a, true);
        }
    }
}

/* Nothing strikes here, the network is like this all the time; the checks are told so. */
static void strike_flaky(struct sim *sim)
{
    for (uint32_t id = 1; id <= sim->n_nodes && sim->checks != NULL; id++) {
        sim_checks_node_fault(sim->checks, id, "flaky network");
    }
}

static void begin_flaky(struct sim *sim)
{
    sim->network.loss = (unsigned)sim_between(sim, 0, 3) * 100;
    sim->network.duplication = (unsigned)sim_between(sim, 0, 3) * 100;
    sim->network.reordering = (unsigned)sim_between(sim, 0, 4) * 200;
    sim->network.damage = sim_percent(sim, 50) ? (unsigned)sim_between(sim, 1, 200) : 0;
}

/* The leader is lost and two of the others cannot hear each other: both may ask for votes in the
 * same term, and those who vote lose what was not durable. */
static void strike_voter(struct sim *sim)
{
    struct sim_node *node = draw_victim(sim), *one = draw_up(sim), *other = draw_up(sim);
    if (node == NULL || sim->faults.is_partitioned) {
        return;
    }
    begin_partition(sim);
    if (one != other) {
        sim_trace(sim, "    nothing gets between %u and %u", one->id, other->id);
        sim_network_block(sim, one->id, other->id, true);
        sim_network_block(sim, other->id, one->id, true);
    }
    tell(sim, one, "a way is blocked");
    tell(sim, other, "a way is blocked");
    for (uint32_t id = 1; id <= sim->n_nodes; id++) {
        sim->nodes[id].dies_voting = 1 + sim_percent(sim, 30);
    }
    sim_node_crash(node, SIM_DEATH_PROCESS);
    sim_node_start_at(node, sim->now_us + draw_span_us(sim, 10, 4000));
}

/* ---- Disks. */

static void on_stall_over(struct sim *sim, void *argument)
{
    tell(sim, argument, "disk moves again");
}

static void strike_stall(struct sim *sim)
{
    struct sim_node *node = draw_victim(sim);
    if (node != NULL && node->disk.stalled_until_us <= sim->now_us) {
        uint64_t until_us = sim->now_us + draw_span_us(sim, 100, 8000);
        tell(sim, node, "disk stalled");
        sim_disk_stall(&node->disk, until_us);
        (void)sim_at(sim, until_us, on_stall_over, node);
    }
}

static void on_room(struct sim *sim, void *argument)
{
    struct sim_node *node = argument;
    if (node->disk.is_full) {
        node->disk.is_full = false;
        tell(sim, node, "disk has room again");
    }
}

static void strike_full(struct sim *sim)
{
    struct sim_node *node = draw_victim(sim);
    if (node != NULL && !node->disk.is_full) {
        tell(sim, node, "disk full");
        node->disk.is_full = true;
        (void)sim_at(sim, sim->now_us + draw_span_us(sim, 500, 16000), on_room, node);
    }
}

/* Whether a node that lost its disk may be started again under its id. If all the first members
 * came back blank, they would take themselves for a new cluster: nobody could tell them otherwise.
 * So at most one of them does, of at least two. */
static bool may_come_back(const struct sim *sim, const struct sim_node *node)
{
    if (node->is_added) {
        return true;
    }
    for (uint32_t id = 1; id <= sim->n_first; id++) {
        if (id != node->id && sim->nodes[id].is_wiped) {
            return false;
        }
    }
    return sim->n_first >= 2;
}

static void strike_lost(struct sim *sim)
{
    struct sim_node *node = draw_up(sim);
    if (node == NULL || !sim_operator_can_lose(sim, node->id)) {
        return;
    }
    tell(sim, node, "disk lost");
    sim->faults.n_lost++;
    sim_node_crash(node, SIM_DEATH_PROCESS);
    sim_disk_wipe(&node->disk);
    node->is_wiped = true;
    if (sim_percent(sim, 60) && may_come_back(sim, node)) {
        sim_node_start_at(node, sim->now_us + draw_span_us(sim, 10, 4000));
    } else {
        node->is_gone = true;
    }
    sim_operator_replace(sim, node->id);
}

static void strike_flip(struct sim *sim)
{
    struct sim_node *node = draw_up(sim);
    if (node == NULL || !sim_operator_can_lose(sim, node->id)) {
        return;
    }
    tell(sim, node, "a bit of its disk flips");
    sim_node_crash(node, SIM_DEATH_PROCESS);
    if (sim_disk_flip(&node->disk)) {
        sim->faults.n_lost++;
        node->is_flipped = true;
        sim_operator_replace(sim, node->id);
    }
    sim_node_start_at(node, sim->now_us + draw_span_us(sim, 10, 1000));
}

/* ---- Memory. */

/* Slips an origin into the state that no entry has opened and closed. It does no harm by itself,
 * but states at the same index differ from now on, and whoever is alone with that must stop. */
static void strike_rot(struct sim *sim)
{
    struct sim_node *node = draw_victim(sim);
    const struct lq_command open = {.type = LQ_COMMAND_ORIGIN_OPEN, .origin = {999, 1}};
    const struct lq_command shut = {.type = LQ_COMMAND_ORIGIN_CLOSE, .origin = {999, 1}};
    struct lq_outcomes outcomes;
    struct lq_table *table;
    struct lq_stamp stamp = {.caps = sim->replica.caps};
    if (node == NULL || !sim_operator_can_lose(sim, node->id)) {
        return;
    }
    tell(sim, node, "its state is damaged");
    sim->faults.n_lost++;
    node->is_rotten = true;
    table = (struct lq_table *)(uintptr_t)lq_replica_table(node->replica);
    stamp.time_ms = lq_table_counts(table).time_ms;
    lq_outcomes_init(&outcomes);
    lq_table_apply(table, &open, &stamp, &outcomes);
    lq_table_apply(table, &shut, &stamp, &outcomes);
    lq_outcomes_done(&outcomes);
}

/* ---- Members. */

static void strike_members(struct sim *sim)
{
    sim_operator_change(sim);
}

static void strike_transfer(struct sim *sim)
{
    uint32_t leader = sim_leader(sim);
    struct sim_input *input;
    if (leader == 0) {
        return;
    }
    input = sim_input_new(SIM_INPUT_CHANGE, NULL, 0);
    input->number = LQ_CHANGE_TRANSFER;
    input->peer = (uint32_t)sim_between(sim, 0, sim->n_nodes);
    sim_node_input(&sim->nodes[leader], input);
}

/* ---- Profiles. */

static const struct {
    const char *name;
    strike_fn *strike;
    uint64_t gap_ms; /* mean, usually */
} kinds[SIM_N_FAULTS] = {
    [SIM_FAULT_CRASH] = {"crash", strike_crash, 4000},
    [SIM_FAULT_POWER] = {"power", strike_power, 8000},
    [SIM_FAULT_VOTER] = {"voter", strike_voter, 4000},
    [SIM_FAULT_ALL] = {"all", strike_all, 15000},
    [SIM_FAULT_PAUSE] = {"pause", strike_pause, 5000},
    [SIM_FAULT_PARTITION] = {"partition", strike_partition, 8000},
    [SIM_FAULT_ONE_WAY] = {"oneway", strike_one_way, 8000},
    [SIM_FAULT_FLAKY] = {"flaky", strike_flaky, 500},
    [SIM_FAULT_STALL] = {"stall", strike_stall, 5000},
    [SIM_FAULT_FULL] = {"full", strike_full, 8000},
    [SIM_FAULT_LOST] = {"lost", strike_lost, 15000},
    [SIM_FAULT_FLIP] = {"flip", strike_flip, 15000},
    [SIM_FAULT_ROT] = {"rot", strike_rot, 15000},
    [SIM_FAULT_MEMBERS] = {"members", strike_members, 5000},
    [SIM_FAULT_TRANSFER] = {"transfer", strike_transfer, 3000},
    [SIM_FAULT_LEAVE] = {"leave", strike_leave, 8000},
};

const char *sim_faults_name(enum sim_fault fault)
{
    return kinds[fault].name;
}

static void on_strike(struct sim *sim, void *argument)
{
    const uint64_t *gap_us = argument;
    if (!sim->is_calm) {
        kinds[gap_us - sim->faults.gap_us].strike(sim);
        (void)sim_at(sim, sim->now_us + draw_gap(sim, *gap_us), on_strike, argument);
    }
}

static void enable(struct sim *sim, unsigned kind)
{
    uint64_t *gap_us = &sim->faults.gap_us[kind];
    if (*gap_us != 0) {
        return;
    }
    *gap_us = kinds[kind].gap_ms * SIM_MS << sim_between(sim, 0, 2) >> 1;
    (void)sim_at(sim, 2 * SIM_S + draw_gap(sim, *gap_us), on_strike, gap_us);
    sim_trace(sim, "    profile: %s", kinds[kind].name);
    if (kind == SIM_FAULT_FLAKY) {
        begin_flaky(sim);
    }
}

static void enable_mix(struct sim *sim)
{
    for (uint64_t n = sim_between(sim, 2, 6); n > 0; n--) {
        unsigned kind = (unsigned)sim_between(sim, 0, SIM_N_FAULTS - 1);
        /* A damaged state comes alone: while others are down it could have the majority, or give
         * its snapshot to one that comes back. */
        enable(sim, kind == SIM_FAULT_ROT ? SIM_FAULT_CRASH : kind);
    }
}

static void enable_drawn(struct sim *sim)
{
    uint64_t draw = sim_between(sim, 0, 99);
    if (draw >= 50) {
        enable_mix(sim);
    } else if (draw >= 6) {
        enable(sim, (unsigned)sim_between(sim, 0, SIM_N_FAULTS - 1));
    }
}

bool sim_faults_init(struct sim *sim, const char *profile)
{
    sim->network.drops_blocked = sim_percent(sim, 30);
    sim_operator_start(sim);
    if (profile == NULL) {
        enable_drawn(sim);
        return true;
    }
    if (strcmp(profile, "mix") == 0) {
        enable_mix(sim);
        return true;
    }
    for (unsigned kind = 0; kind < SIM_N_FAULTS; kind++) {
        if (strcmp(profile, kinds[kind].name) == 0) {
            enable(sim, kind);
            return true;
        }
    }
    return strcmp(profile, "none") == 0;
}

void sim_faults_end(struct sim *sim)
{
    sim_trace(sim, "    faults are over");
    sim->is_calm = true;
    heal(sim);
    sim->network.loss = sim->network.duplication = sim->network.reordering = 0;
    sim->network.damage = 0;
    sim->faults.n_goals = 0;
    for (uint32_t id = 1; id <= sim->n_nodes; id++) {
        struct sim_node *node = &sim->nodes[id];
        node->crash_in = 0;
        node->dies_writing = false;
        node->dies_voting = 0;
        node->disk.is_full = false;
        sim_disk_stall(&node->disk, sim->now_us);
        sim_node_resume(node);
        if (!node->is_up) {
            sim_node_start_at(node, sim->now_us + sim_between(sim, 1, 500) * SIM_MS);
        }
    }
}
