/* Which address to connect to, and when. Pure.
 *
 * All channels go to one address, `at`: the one that last worked. When a connection to it can't be
 * made, or ends without a single answer, that counts as a failure, and the next address is tried,
 * in rounds from a random one on; a round in which all failed is followed by a pause that grows. An
 * address that did answer and then breaks or falls silent is merely left: the others are tried
 * before it, without a pause.
 *
 * Many channels may fail at once because of one dead server. `attempt` tells them apart: only the
 * first failure of an attempt counts. */
#ifndef LQ_DIAL_H
#define LQ_DIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_dial {
    size_t n;               /* addresses; they are numbered from 0 */
    size_t at;              /* the one in use, or to try next */
    size_t failed;          /* of this round */
    uint64_t failures;      /* ever; n more of them mean that each address was tried */
    uint64_t attempt;       /* number of this attempt at `at` */
    bool is_proven;         /* a connection to `at` was made in this attempt */
    uint64_t not_before_ms; /* the pause ends */
    uint64_t backoff_ms;    /* length of the next pause */
    uint64_t random;        /* state of the jitter; never 0 */
};

/* `random`, from the caller, chooses the first address and the jitter. */
void lq_dial_init(struct lq_dial *dial, size_t n_addresses, uint64_t random);

/* Other addresses take the place of the ones so far. Pauses go on. */
void lq_dial_set(struct lq_dial *dial, size_t n_addresses);

/* Somebody asks for a connection after nobody did: no pause is left from before. */
void lq_dial_restart(struct lq_dial *dial);

/* A connection to the address in use was made. */
void lq_dial_connected(struct lq_dial *dial);

/* The address in use failed. Moves to the next one. Returns true when this was the last of a round:
 * a pause begins. */
bool lq_dial_failed(struct lq_dial *dial, uint64_t now_ms);

/* `address` is left, if it is the one in use and there is another. Returns whether it was. */
bool lq_dial_leave(struct lq_dial *dial, size_t address);

/* The address in use answered. */
void lq_dial_succeeded(struct lq_dial *dial);

/* A random number: only spreads clients, no secret. */
uint64_t lq_dial_random(struct lq_dial *dial);

#endif
