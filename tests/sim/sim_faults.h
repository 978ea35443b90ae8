/* What goes wrong in a run: which kinds of faults, how often, drawn from the seed, and the operator
 * who adds, removes and replaces nodes meanwhile. */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include "sim.h"

enum sim_fault {
    SIM_FAULT_CRASH, /* a process dies, perhaps between two effects, and is started again */
    SIM_FAULT_POWER, /* a machine dies silently and comes back */
    SIM_FAULT_VOTER, /* whoever gives a vote dies at once and is back at once; two cannot talk */
    SIM_FAULT_ALL,   /* all processes die at about the same time */
    SIM_FAULT_PAUSE, /* a process stands still for a while */
    SIM_FAULT_PARTITION, /* the network falls into two halves */
    SIM_FAULT_ONE_WAY,   /* some ways are blocked, in one or both directions */
    SIM_FAULT_FLAKY,     /* messages are lost, doubled, reordered, damaged */
    SIM_FAULT_STALL,     /* a disk stands still */
    SIM_FAULT_FULL,      /* a disk is full */
    SIM_FAULT_LOST,      /* a disk is lost for good */
    SIM_FAULT_FLIP,      /* a bit on a disk flips */
    SIM_FAULT_ROT,       /* the state of a replica in memory is not what was applied */
    SIM_FAULT_MEMBERS,   /* nodes are added, removed, demoted, promoted */
    SIM_FAULT_TRANSFER,  /* leadership is transferred */
    SIM_FAULT_LEAVE,     /* a process is stopped in order and started again */
    SIM_N_FAULTS,
};

/* What the operator wants a node to become. */
enum sim_goal_kind {
    SIM_GOAL_GROW,   /* a voter */
    SIM_GOAL_SHRINK, /* no member any more */
    SIM_GOAL_REST,   /* a standby */
};

struct sim_goal {
    enum sim_goal_kind kind;
    uint32_t node;
    uint64_t until_us; /* then it is given up */
};

#define SIM_GOALS_MAX 8

struct sim_faults {
    uint64_t gap_us[SIM_N_FAULTS]; /* mean time between two; 0: none of this kind */
    bool is_partitioned;
    struct sim_goal goals[SIM_GOALS_MAX];
    unsigned n_goals;
    unsigned n_lost; /* disks that were lost or damaged */
};

/* Draws what will happen, and schedules it; `profile` NULL: drawn too. False: there is no such
 * profile. */
bool sim_faults_init(struct sim *sim, const char *profile);

/* For --help. */
const char *sim_faults_name(enum sim_fault fault);

/* Faults stop: everything is mended that can be. */
void sim_faults_end(struct sim *sim);

/* ---- The operator (sim_operator.c). */

/* The node that leads, as far as anyone can tell, or 0. */
uint32_t sim_leader(struct sim *sim);

void sim_operator_start(struct sim *sim);

/* Adds a goal, unless there are too many. */
void sim_operator_want(struct sim *sim, const struct sim_goal *goal);

/* A disk is to be lost: whether the cluster bears that now. */
bool sim_operator_can_lose(struct sim *sim, uint32_t node);

/* Whether the voters on the cut side are fewer than half, as the node in the newest term lists
 * them: then the other side can go on. */
bool sim_operator_is_minority(const struct sim *sim, const bool *is_cut);

/* A node of a new id takes the place of one whose disk is lost. */
void sim_operator_replace(struct sim *sim, uint32_t node);

/* Something about the membership, drawn. */
void sim_operator_change(struct sim *sim);

#endif
