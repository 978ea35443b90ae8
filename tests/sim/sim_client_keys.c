#include "sim_client_keys.h"

#include <stdio.h>
#include <string.h>

/* Every so many keys have a long name. */
#define LONG_EVERY 8
#define LONG_TAIL  ", a lock with a name as long as people give them"

size_t sim_key_name(uint32_t key, uint8_t ret_name[SIM_KEY_NAME])
{
    char text[SIM_KEY_NAME];
    int len = snprintf(text, sizeof text, "k%u%s", (unsigned)key,
                       key % LONG_EVERY == LONG_EVERY - 1 ? LONG_TAIL : "");
    memcpy(ret_name, text, (size_t)len);
    return (size_t)len;
}

uint32_t sim_key_of(const uint8_t *name, size_t len)
{
    uint8_t expected[SIM_KEY_NAME];
    uint32_t key = 0;
    size_t at = 1;
    while (at < len && at < 5 && name[at] >= '0' && name[at] <= '9') {
        key = 10 * key + (uint32_t)(name[at++] - '0');
    }
    if (key >= SIM_KEYS || len > SIM_KEY_NAME || sim_key_name(key, expected) != len ||
        memcmp(name, expected, len) != 0) {
        return SIM_KEY_UNKNOWN;
    }
    return key;
}
