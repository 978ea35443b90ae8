/* The world from inside: what its own parts (nodes, disks, network, connections, faults) share. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "lq_list.h"
#include "sim.h"
#include "sim_disk.h"
#include "sim_faults.h"
#include "sim_network.h"
#include "sim_node.h"
#include "sim_queue.h"
#include "sim_trace.h"

/* What a run is made of; the rest follows from the seed. */
struct sim_options {
    uint64_t seed;
    unsigned n_nodes;    /* 0: drawn */
    unsigned seconds;    /* with faults, before the calm part */
    const char *profile; /* of faults; NULL: drawn */
    bool is_traced;
    bool is_silent;  /* a failure is not printed: the seed will run again */
    bool is_verbose; /* the timeline is printed as it comes */
};

struct sim {
    struct sim_options options;
    uint64_t now_us, calm_us, end_us;
    uint64_t n_events, n_events_here; /* in all, and at this very time */
    struct lq_rand rand;              /* for whoever asks */
    struct sim_queue queue;
    struct sim_trace trace;
    bool is_calm;

    struct lq_replica_options replica; /* what all nodes have in common */
    unsigned load_per_minute;
    uint32_t disk_latency_us;                 /* of all disks; 0: each has its own */
    unsigned n_nodes, n_first;                /* nodes so far; those that the cluster began with */
    struct sim_node nodes[SIM_NODES_MAX + 1]; /* by id */
    struct sim_network network;
    struct sim_faults faults;
    struct lq_list conns; /* of clients, with the server's side */

    struct sim_checks *checks; /* NULL: the run has no checks and no clients */
    struct sim_clients *clients;
};

/* How a run ended. */
struct sim_result {
    bool has_failed;
    uint64_t hash; /* of all that happened */
    uint64_t n_events;
};

/* Runs one seed from the beginning to the end and frees all of it. */
struct sim_result sim_run(const struct sim_options *options);

/* A world with its nodes, at time 0, not yet running; for sim_run and measurements. */
struct sim *sim_new(const struct sim_options *options);
void sim_free(struct sim *sim);

/* Lets events happen until that time, or until a check fails. */
void sim_run_until(struct sim *sim, uint64_t us);

/* Draws: a number from low to high, both included; and whether something of that chance happens. */
uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high);
bool sim_percent(struct sim *sim, unsigned percent);

#endif
