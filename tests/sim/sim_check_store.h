/* What the locks are for: a store that knows nothing of the lock table and only refuses a token
 * below the highest it has seen, and the intervals in which clients are certain to hold a key. Pure
 * logic, with true time as a parameter. */
#ifndef SIM_CHECK_STORE_H
#define SIM_CHECK_STORE_H

#include "sim_client_keys.h"

#include <stdbool.h>
#include <stdint.h>

/* An interval of one client, from when it got to know until when it is certain; the ends do not
 * belong to it. */
struct sim_certain {
    uint64_t acquire; /* whose grant; 0: nobody's */
    uint64_t token;
    uint64_t from_us, until_us;
};

/* Zeroed memory is an empty store. */
struct sim_store {
    uint64_t tokens[SIM_KEYS];   /* the highest that wrote */
    uint64_t acquires[SIM_KEYS]; /* whose it was */
    struct sim_certain certain[SIM_KEYS];
};

/* The client of `acquire` is certain from now on until then; with `until_us` not after `now_us` it
 * is not any more. Returns NULL, or what is wrong with that. */
const char *sim_store_certain(struct sim_store *store, uint32_t key, uint64_t acquire,
                              uint64_t token, uint64_t now_us, uint64_t until_us);

/* A write arrives; `ret_is_accepted` says what the store made of it. Returns NULL, or what is wrong
 * with that: a client that is certain was refused, or a token is in two hands. */
const char *sim_store_write(struct sim_store *store, uint32_t key, uint64_t acquire, uint64_t token,
                            uint64_t now_us, bool *ret_is_accepted);

#endif
