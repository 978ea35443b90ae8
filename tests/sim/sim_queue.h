/* The queue of events to come: a heap by (time, order of scheduling), so that a run is the same
 * whenever it is repeated. Events are named by ids, which outlive them without harm. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include "sim.h"

struct sim_event {
    uint64_t us, order;
    sim_fn *fn;
    void *argument;
    uint32_t place;      /* in the heap, from 1; 0: the slot is free */
    uint32_t generation; /* of the slot */
    uint32_t next_free;
};

struct sim_queue {
    struct sim_event *slots; /* slot 0 is not used */
    uint32_t *heap;          /* slots; place 0 is not used */
    uint32_t n_slots, cap, count, first_free;
    uint64_t n_scheduled;
};

void sim_queue_init(struct sim_queue *queue);
void sim_queue_done(struct sim_queue *queue);

/* Returns an id, never 0. */
uint64_t sim_queue_add(struct sim_queue *queue, uint64_t us, sim_fn *fn, void *argument);

/* Does nothing for an event that was taken or removed already, or for id 0. */
void sim_queue_remove(struct sim_queue *queue, uint64_t id);

/* Takes the next event if it is due by `until_us`, or returns false. */
bool sim_queue_take(struct sim_queue *queue, uint64_t until_us, struct sim_event *ret_event);

#endif
