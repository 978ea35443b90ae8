/* CPU time of loop turns: how long the longest one kept the loop from everybody else. */
#ifndef LQ_TURNS_H
#define LQ_TURNS_H

#include <stdbool.h>
#include <stdint.h>

struct lq_turns {
    bool is_on;
    uint64_t last_us; /* CPU time at the end of the latest turn */
    uint64_t longest_us;
    uint64_t count;
};

/* Does nothing from now on unless `is_on`. */
void lq_turns_init(struct lq_turns *turns, bool is_on);

/* A turn has ended. */
void lq_turns_note(struct lq_turns *turns);

/* Logs the figures, and the number of allocations made, if measuring is on. */
void lq_turns_log(const struct lq_turns *turns);

#endif
