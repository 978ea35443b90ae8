#include "keys.h"

#include <string.h>

void lq_bench_key_write(uint8_t *text, size_t bytes, enum lq_bench_key_kind kind, uint32_t number)
{
    memset(text, '-', bytes);
    text[0] = (uint8_t)kind;
    lq_bench_key_renumber(text, bytes, number);
}

void lq_bench_key_renumber(uint8_t *text, size_t bytes, uint32_t number)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 1; i <= LQ_BENCH_KEY_DIGITS; i++) {
        text[bytes - i] = (uint8_t)digits[number & 15];
        number >>= 4;
    }
}

/* splitmix64: one multiplication-mixed counter; plenty for choosing keys, and the same everywhere
 * for a seed. */
static uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

uint32_t lq_bench_random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(((random_next(state) >> 32) * n) >> 32);
}
