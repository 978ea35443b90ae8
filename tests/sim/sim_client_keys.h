/* The keys of the simulated clients: numbers, which have names on the wire. A few are hot, many are
 * cold, some have long names. */
#ifndef SIM_CLIENT_KEYS_H
#define SIM_CLIENT_KEYS_H

#include <stddef.h>
#include <stdint.h>

#define SIM_KEYS        256
#define SIM_KEY_UNKNOWN UINT32_MAX
#define SIM_KEY_NAME    80 /* bytes enough for any name */

/* Writes the name of a key below SIM_KEYS; returns its length. */
size_t sim_key_name(uint32_t key, uint8_t ret_name[SIM_KEY_NAME]);

/* The key of that name, or SIM_KEY_UNKNOWN. */
uint32_t sim_key_of(const uint8_t *name, size_t len);

#endif
