#include "sim_world.h"

#include "lq_mem.h"
#include "sim_checks.h"
#include "sim_clients.h"
#include "sim_conn.h"

#include <stdio.h>
#include <string.h>

/* The calm part is at most this long. */
#define CALM_US (30 * SIM_S)

/* More events than any sensible run has: something runs away. */
#define EVENTS_MAX      UINT64_C(30000000)
#define EVENTS_HERE_MAX UINT64_C(200000)

/* ---- Time and chance. */

uint64_t sim_now(const struct sim *sim)
{
    return sim->now_us;
}

struct lq_rand *sim_rand(struct sim *sim)
{
    return &sim->rand;
}

uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high)
{
    return low + lq_rand_below(&sim->rand, high - low + 1);
}

bool sim_percent(struct sim *sim, unsigned percent)
{
    return lq_rand_below(&sim->rand, 100) < percent;
}

uint64_t sim_at(struct sim *sim, uint64_t us, sim_fn *fn, void *argument)
{
    return sim_queue_add(&sim->queue, us > sim->now_us ? us : sim->now_us, fn, argument);
}

void sim_cancel(struct sim *sim, uint64_t id)
{
    sim_queue_remove(&sim->queue, id);
}

bool sim_is_calm(const struct sim *sim)
{
    return sim->is_calm;
}

uint64_t sim_calm_us(const struct sim *sim)
{
    return sim->calm_us;
}

uint64_t sim_end_us(const struct sim *sim)
{
    return sim->end_us;
}

unsigned sim_load_per_minute(const struct sim *sim)
{
    return sim->load_per_minute;
}

struct sim_checks *sim_checks_of(struct sim *sim)
{
    return sim->checks;
}

static void count_event(struct sim *sim, uint64_t us)
{
    sim->n_events_here = us == sim->now_us ? sim->n_events_here + 1 : 0;
    sim->now_us = us;
    sim->n_events++;
    if (sim->n_events > EVENTS_MAX || sim->n_events_here > EVENTS_HERE_MAX) {
        sim_fail(sim, "too many events: something runs away");
    }
}

void sim_run_until(struct sim *sim, uint64_t us)
{
    struct sim_event event;
    while (!sim->trace.has_failed && sim_queue_take(&sim->queue, us, &event)) {
        count_event(sim, event.us);
        event.fn(sim, event.argument);
    }
    if (!sim->trace.has_failed && us > sim->now_us) {
        sim->now_us = us;
    }
}

/* ---- A world. */

static unsigned draw_n_nodes(struct sim *sim)
{
    static const unsigned char sizes[] = {3, 3, 3, 3, 3, 3, 3, 3, 3, 5,
                                          5, 5, 5, 5, 1, 2, 4, 6, 7, 7};
    return sizes[sim_between(sim, 0, sizeof sizes - 1)];
}

/* Small, so that segments, snapshots and compactions come often. */
static void draw_replica_options(struct sim *sim)
{
    struct lq_replica_options *options = &sim->replica;
    lq_replica_defaults(options);
    options->cluster = lq_rand_next(&sim->rand) | 1;
    options->segment_bytes = UINT64_C(16) * 1024 << sim_between(sim, 0, 5);
    if (sim_percent(sim, 85)) {
        options->snapshot_entries = UINT64_C(16) << sim_between(sim, 0, 5);
        options->trailing_entries = options->snapshot_entries << sim_between(sim, 0, 1);
    }
    if (sim_percent(sim, 20)) {
        options->outbox_bytes = UINT64_C(4096) << sim_between(sim, 0, 4);
    }
    for (unsigned id = 1; id <= sim->n_first; id++) {
        char address[32];
        (void)snprintf(address, sizeof address, "node%u:1", id);
        (void)lq_members_add(&options->bootstrap, id, address, LQ_ROLE_VOTER);
    }
}

struct sim *sim_new(const struct sim_options *options)
{
    struct sim *sim = lq_calloc(1, sizeof *sim);
    sim->options = *options;
    sim->rand = lq_rand_of(options->seed, 0);
    sim->calm_us = options->seconds * SIM_S;
    sim->end_us = sim->calm_us + CALM_US;
    sim_queue_init(&sim->queue);
    sim_trace_init(&sim->trace, options->is_traced, options->is_verbose);
    lq_list_init(&sim->conns);
    sim->n_first = options->n_nodes != 0 ? options->n_nodes : draw_n_nodes(sim);
    sim->load_per_minute = (unsigned)sim_between(sim, 200, 1000);
    draw_replica_options(sim);
    if (sim_percent(sim, 15)) { /* so slow that much happens between a write and its end */
        sim->disk_latency_us = 5000U << sim_between(sim, 0, 3);
    }
    sim_network_init(&sim->network, sim);
    for (uint32_t id = 1; id <= sim->n_first; id++) {
        sim->n_nodes = id;
        sim_node_init(&sim->nodes[id], sim, id);
        sim_node_start_at(&sim->nodes[id], sim_between(sim, 0, 300) * SIM_MS);
    }
    return sim;
}

void sim_free(struct sim *sim)
{
    sim->trace.is_on = false;
    for (uint32_t id = 1; id <= sim->n_nodes; id++) {
        sim_node_done(&sim->nodes[id]);
    }
    sim_conn_free_all(sim);
    sim_network_done(&sim->network);
    sim_queue_done(&sim->queue);
    sim_trace_done(&sim->trace);
    lq_free(sim);
}

/* ---- A run. */

static void run_calm(struct sim *sim)
{
    while (!sim->trace.has_failed && sim->now_us < sim->end_us &&
           !sim_clients_are_done(sim->clients)) {
        sim_run_until(sim, sim->now_us + 200 * SIM_MS);
    }
}

struct sim_result sim_run(const struct sim_options *options)
{
    struct sim *sim = sim_new(options);
    struct sim_result result;
    sim->checks = sim_checks_new(sim);
    if (!sim_faults_init(sim, options->profile)) {
        sim_fail(sim, "there is no profile of that name");
    }
    sim->clients = sim_clients_start(sim, sim->checks);
    sim_run_until(sim, sim->calm_us);
    if (!sim->trace.has_failed) {
        sim_faults_end(sim);
        run_calm(sim);
    }
    if (!sim->trace.has_failed) {
        sim_checks_end(sim->checks);
    }
    sim_clients_stop(sim->clients);
    sim_note_hash(sim, lq_rand_next(&sim->rand));
    sim_note_hash(sim, sim->n_events);
    result = (struct sim_result){
        .has_failed = sim->trace.has_failed, .hash = sim->trace.hash, .n_events = sim->n_events};
    if (result.has_failed && !options->is_silent) {
        sim_trace_print(&sim->trace);
    }
    sim_checks_free(sim->checks);
    sim->checks = NULL;
    sim_free(sim);
    return result;
}
