#include "lq_random.h"

#include "lq_check.h"

#include <sys/random.h>

void lq_random_fill(uint8_t *ret_bytes, size_t len)
{
    LQ_CHECK(getrandom(ret_bytes, len, 0) == (ssize_t)len);
}

uint64_t lq_random_id(void)
{
    uint64_t id = 0;
    while (id == 0) {
        lq_random_fill((uint8_t *)&id, sizeof id);
    }
    return id;
}
