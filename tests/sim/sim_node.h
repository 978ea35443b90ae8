/* A node: a process with its own clock, its replica, its hub of sessions and its disk. Whatever
 * happens to it becomes an input; inputs are acted on in turns, in the order that lq_replica.h
 * states. A paused process takes no turns, its inputs wait. */
#ifndef SIM_NODE_H
#define SIM_NODE_H

#include "lq_hub.h"
#include "lq_list.h"
#include "sim.h"
#include "sim_disk.h"

/* Ids 1 to this; later ones are nodes that are added in the course of a run. */
#define SIM_NODES_MAX 14

enum sim_input_kind {
    SIM_INPUT_LINK_UP,   /* peer, connection, hello */
    SIM_INPUT_LINK_DOWN, /* peer, flag: refused */
    SIM_INPUT_LINK_FULL, /* peer, flag */
    SIM_INPUT_MESSAGE,   /* peer, connection, bytes; flag: damaged on its way */
    SIM_INPUT_DISK,      /* disk: which request, flag: no room; number: offset read, bytes */
    SIM_INPUT_CHANGE,    /* peer: the node that is meant; number: the kind of change */
};

struct sim_input {
    struct lq_list in_list; /* of the node, or of all that are on their way to one */
    enum sim_input_kind kind;
    enum lq_effect_kind disk;
    bool flag;
    uint32_t peer, from, to; /* from, to: while on its way */
    uint64_t connection, number;
    struct lq_hello hello;
    size_t len;
    uint8_t bytes[];
};

struct sim_node {
    struct sim *sim;
    uint32_t id;
    uint32_t place; /* whose number its address has: its own, or that of one it replaces */
    bool is_up, is_paused, is_leaving, was_told_to_leave;
    bool is_gone;      /* never to be started again */
    bool is_wiped;     /* lost its disk: of no use under this id any more */
    bool is_removed;   /* was taken, or is being taken, out of the cluster */
    bool is_rotten;    /* its state was damaged on purpose */
    bool is_flipped;   /* a bit of its disk was flipped: it may refuse to start */
    bool is_added;     /* later, rather than with the first ones */
    bool serves_first; /* in a turn: sessions before effects */
    bool is_silent;    /* it went down without closing anything: its machine is gone */
    uint64_t started_us, stop_by_us;
    int64_t rate_ppm; /* of its clock beside real time */
    uint64_t clock_offset_us;
    uint64_t start_event; /* a start that is scheduled, or 0 */
    uint64_t turn_event, turn_us;
    uint64_t loop_us;     /* from an input to the turn that acts on it */
    unsigned crash_in;    /* so many effects until it dies; 0: not planned */
    bool dies_writing;    /* it is to die while something large is being written */
    unsigned dies_voting; /* so many times it dies right after it gave a vote */
    unsigned n_idle;      /* turns at the same time without any input */
    struct lq_replica *replica;
    struct lq_hub *hub;
    struct lq_list inputs;
    struct lq_list conns;         /* of clients, server's side */
    struct lq_list ready, served; /* those of them to be read; and written to, in this turn */
    struct sim_disk disk;
};

/* A node that is down, with an empty disk. */
void sim_node_init(struct sim_node *node, struct sim *sim, uint32_t id);
void sim_node_done(struct sim_node *node);

/* Starts a process on what the disk holds; does nothing when it is up or gone. */
void sim_node_start(struct sim_node *node);
void sim_node_start_at(struct sim_node *node, uint64_t us);

/* The process dies at once. Silent: so does its machine, and nobody is told. Does nothing when it
 * is down. */
enum sim_death { SIM_DEATH_PROCESS, SIM_DEATH_MACHINE };
void sim_node_crash(struct sim_node *node, enum sim_death death);

/* An orderly stop: it hands over what it has, then ends, to be started again a little later. */
void sim_node_leave(struct sim_node *node);

void sim_node_pause(struct sim_node *node);
void sim_node_resume(struct sim_node *node);

/* A new input with a copy of the bytes; NULL leaves them to be filled in. */
struct sim_input *sim_input_new(enum sim_input_kind kind, const uint8_t *bytes, size_t len);

/* Takes the input; it is acted on in a turn to come, or dropped when the node is down. */
void sim_node_input(struct sim_node *node, struct sim_input *input);

/* Something waits outside of the inputs (bytes of a client): a turn is due. */
void sim_node_wake(struct sim_node *node);

/* Real time at which the node's clock shows that. */
uint64_t sim_node_real_us(const struct sim_node *node, uint64_t clock_ms);

/* A leave is done, or has lasted long enough: ends the process in order. */
void sim_node_end_leave(struct sim_node *node);

/* One turn at that time of its own clock (sim_turn.c), which ends with sim_node_sleep or with the
 * end of the process. */
void sim_node_turn(struct sim_node *node, uint64_t now_ms);

/* Schedules the next turn by the deadline of the hub. */
void sim_node_sleep(struct sim_node *node);

#endif
