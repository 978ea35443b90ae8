/* Which address to connect to, and when. Pure. Addresses are tried in rounds from a random one on;
 * a round in which all failed is followed by a pause that grows. */
#ifndef LQ_DIAL_H
#define LQ_DIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_dial {
    size_t n;               /* addresses; they are numbered from 0 */
    size_t at;              /* the one to try next, or in use */
    size_t failed;          /* of this round */
    uint64_t not_before_ms; /* the pause ends */
    uint64_t backoff_ms;    /* length of the next pause */
    uint64_t random;        /* state of the jitter; never 0 */
};

/* `random`, from the caller, chooses the first address and the jitter. */
void lq_dial_init(struct lq_dial *dial, size_t n_addresses, uint64_t random);

/* A new request: its first round starts now. */
void lq_dial_restart(struct lq_dial *dial);

/* The address in use failed: could not be connected to, or its connection broke. Moves to the next
 * one. Returns true when this was the last of a round: a pause begins. */
bool lq_dial_failed(struct lq_dial *dial, uint64_t now_ms);

/* The address in use works. */
void lq_dial_succeeded(struct lq_dial *dial);

#endif
