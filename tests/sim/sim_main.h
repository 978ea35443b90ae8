/* The program around the runs: options, sharing of seeds between processes, measurements. */
#ifndef SIM_MAIN_H
#define SIM_MAIN_H

#include "sim_world.h"

struct sim_arguments {
    struct sim_options options;
    bool has_seed; /* one seed, in this very process */
    bool until_fail;
    bool is_repeat_check;
    bool is_quick; /* no timeline of failures, only their seeds */
    uint64_t first, n_seeds;
    unsigned jobs;
    int plant;
    const char *failover; /* NULL, "closed" or "silent" */
};

/* Exit status: 0 all is well, 1 something failed, 2 wrong options. */
enum { SIM_EXIT_GOOD, SIM_EXIT_FAILED, SIM_EXIT_USAGE };

/* Runs one seed; a failure is told with its timeline. Returns whether all was well. */
bool sim_main_run(const struct sim_arguments *arguments, uint64_t seed);

/* Runs the seed of the options alone; what aborts it leaves its timeline, too. Exit status. */
int sim_main_run_one(struct sim_arguments *arguments);

/* Runs all seeds in worker processes, so that one which aborts fails alone. Exit status. */
int sim_workers_run(const struct sim_arguments *arguments);

/* Measures from the loss of a leader to the next grant. Exit status: whether the bounds hold. */
int sim_failover_run(const struct sim_arguments *arguments);

/* The command that repeats a seed. */
void sim_main_print_replay(const struct sim_arguments *arguments, uint64_t seed);

#endif
