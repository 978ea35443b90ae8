/* Failover of three nodes on links of 1 ms: the time from the loss of a leader under load to the
 * next grant. Each survivor has a client that asks for a new key every few milliseconds. */
#include "sim_main.h"

#include "lq_frame.h"
#include "lq_heap.h"
#include "lq_mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES      3
#define ASK_US     (2 * SIM_MS)
#define LOSS_US    (4 * SIM_S) /* earliest */
#define PATIENCE   (30 * SIM_S)
#define LATENCY_US 1000
#define DISK_US    300

struct load {
    struct sim *sim;
    uint32_t node;
    struct sim_conn *conn;
    uint64_t n_asked;
};

struct measurement {
    struct sim *sim;
    struct load loads[NODES];
    uint32_t lost; /* the leader, once it is gone */
    uint64_t lost_us, term;
    uint64_t n_granted[NODES + 1]; /* by survivors, before a new leader was known there */
    uint64_t us;                   /* the result */
};

static void on_bytes(void *client, const uint8_t *bytes, size_t len)
{
    (void)client;
    (void)bytes;
    (void)len;
}

static void on_over(void *client)
{
    struct load *load = client;
    load->conn = NULL;
}

static const struct sim_conn_events events = {
    .on_bytes = on_bytes, .on_eof = on_over, .on_reset = on_over};

static void ask(struct sim *sim, void *argument)
{
    struct load *load = argument;
    uint8_t bytes[64];
    char key[32];
    int len = snprintf(key, sizeof key, "%u-%" PRIu64, load->node, load->n_asked++);
    struct lq_frame frame = {.op = LQ_OP_ACQUIRE,
                             .wait_s = 10,
                             .lease_s = 2,
                             .owner = load->n_asked,
                             .key = (const uint8_t *)key,
                             .key_len = (uint16_t)len};
    if (load->conn == NULL && sim->nodes[load->node].is_up) {
        load->conn = sim_connect(sim, load->node, &events, load);
    }
    if (load->conn != NULL) {
        sim_conn_send(load->conn, bytes, lq_request_encode(&frame, bytes, sizeof bytes));
    }
    (void)sim_at(sim, sim->now_us + ASK_US, ask, load);
}

static void lose_leader(struct measurement *measurement, enum sim_death death)
{
    struct sim *sim = measurement->sim;
    measurement->lost = sim_leader(sim);
    if (measurement->lost == 0) {
        return;
    }
    measurement->term = lq_replica_status(sim->nodes[measurement->lost].replica).term;
    sim_node_crash(&sim->nodes[measurement->lost], death);
    measurement->lost_us = sim->now_us;
}

/* A grant counts only where a later term is known: those of the lost leader are still arriving. */
static bool has_granted(struct measurement *measurement)
{
    struct sim *sim = measurement->sim;
    for (uint32_t id = 1; id <= NODES; id++) {
        uint64_t n_granted;
        if (!sim->nodes[id].is_up) {
            continue;
        }
        n_granted = lq_hub_counters(sim->nodes[id].hub).granted;
        if (lq_replica_status(sim->nodes[id].replica).term == measurement->term) {
            measurement->n_granted[id] = n_granted;
        } else if (n_granted > measurement->n_granted[id]) {
            return true;
        }
    }
    return false;
}

static struct sim *new_world(uint64_t seed, bool is_verbose)
{
    struct sim_options options = {
        .seed = seed, .n_nodes = NODES, .seconds = 120, .is_verbose = is_verbose};
    struct sim *sim = sim_new(&options);
    struct lq_members members = sim->replica.bootstrap;
    uint64_t cluster = sim->replica.cluster;
    lq_replica_defaults(&sim->replica);
    sim->replica.bootstrap = members;
    sim->replica.cluster = cluster;
    sim->network.jitter_us = 0;
    for (uint32_t a = 1; a <= NODES; a++) {
        sim->nodes[a].disk.latency_us = DISK_US;
        sim->nodes[a].loop_us = 0;
        for (uint32_t b = 1; b <= NODES; b++) {
            sim->network.ways[a][b].latency_us = LATENCY_US;
        }
    }
    return sim;
}

/* Returns the time in us, or UINT64_MAX when it lasts for ever. */
static uint64_t measure(uint64_t seed, enum sim_death death, bool is_verbose)
{
    struct measurement measurement = {.sim = new_world(seed, is_verbose), .us = UINT64_MAX};
    struct sim *sim = measurement.sim;
    for (uint32_t id = 1; id <= NODES; id++) {
        measurement.loads[id - 1] = (struct load){.sim = sim, .node = id};
        (void)sim_at(sim, SIM_S + id * 300, ask, &measurement.loads[id - 1]);
    }
    sim_run_until(sim, LOSS_US + sim_between(sim, 0, SIM_S));
    while (measurement.lost == 0 && sim->now_us < LOSS_US + PATIENCE && !sim_has_failed(sim)) {
        lose_leader(&measurement, death);
        sim_run_until(sim, sim->now_us + SIM_MS / 10);
    }
    while (measurement.lost != 0 && measurement.us == UINT64_MAX && !sim_has_failed(sim) &&
           sim->now_us < measurement.lost_us + PATIENCE) {
        if (has_granted(&measurement)) {
            measurement.us = sim->now_us - measurement.lost_us;
        } else {
            sim_run_until(sim, sim->now_us + SIM_MS / 10);
        }
    }
    if (sim_has_failed(sim)) {
        sim_trace_print(&sim->trace);
    }
    sim_free(sim);
    return measurement.us;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

static double in_ms(uint64_t us)
{
    return (double)us / 1000.0;
}

int sim_failover_run(const struct sim_arguments *arguments)
{
    bool is_closed = strcmp(arguments->failover, "closed") == 0, is_good;
    uint64_t n = arguments->n_seeds, n_lost = 0, median, most, max;
    uint64_t *us = lq_calloc(n, sizeof *us), election_us;
    struct lq_replica_options options;
    lq_replica_defaults(&options);
    election_us = options.election_ms * SIM_MS;
    for (uint64_t i = 0; i < n; i++) {
        us[i] = measure(arguments->first + i, is_closed ? SIM_DEATH_PROCESS : SIM_DEATH_MACHINE,
                        arguments->options.is_verbose);
        if (us[i] == UINT64_MAX) {
            n_lost++;
            (void)printf("FAILED: no grant any more\n"
                         "replay: %s --failover %s --seeds 1 --first %" PRIu64 " --verbose\n",
                         program_invocation_name, arguments->failover, arguments->first + i);
        }
    }
    qsort(us, n, sizeof *us, compare);
    median = us[n / 2];
    most = us[(n * 99 - 1) / 100];
    max = us[n - 1];
    lq_free(us);
    is_good =
        is_closed ? median < 100 * SIM_MS : median < 2 * election_us && most < 5 * election_us;
    (void)printf("failover, links %s: %" PRIu64 " seeds from %" PRIu64
                 ", median %.1f ms, 99 %% %.1f ms, max %.1f ms (election timeout %u ms): %s\n",
                 is_closed ? "closing" : "falling silent", n, arguments->first, in_ms(median),
                 in_ms(most), in_ms(max), options.election_ms, is_good ? "good" : "too slow");
    (void)printf("%" PRIu64 " seeds passed, %" PRIu64 " failed\n", n - n_lost, n_lost + !is_good);
    return n_lost == 0 && is_good ? SIM_EXIT_GOOD : SIM_EXIT_FAILED;
}
