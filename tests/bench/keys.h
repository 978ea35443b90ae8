/* Which keys a run uses. All keys of a run have the same length: a kind letter, filler, and the
 * key's number in eight hexadecimal digits, so that the keys of the load never meet the held ones.
 *
 * Own keys: slot s of n takes the numbers s, s + n, s + 2n, ... below the size of the set, so that
 * no two slots ever want the same key. Shared keys: any slot takes any number of the set. */
#ifndef LQ_BENCH_KEYS_H
#define LQ_BENCH_KEYS_H

#include <stddef.h>
#include <stdint.h>

enum {
    LQ_BENCH_KEY_DIGITS = 8,
    LQ_BENCH_KEY_MIN_BYTES = 1 + LQ_BENCH_KEY_DIGITS,
    LQ_BENCH_KEY_MAX_COUNT = 100000000,
};

enum lq_bench_key_kind {
    LQ_BENCH_KEY_LOAD = 'k',
    LQ_BENCH_KEY_HELD = 'h',
};

/* Writes the whole text of a key, `bytes` long and not terminated. */
void lq_bench_key_write(uint8_t *text, size_t bytes, enum lq_bench_key_kind kind, uint32_t number);

/* Changes only the number in a text that lq_bench_key_write() made. */
void lq_bench_key_renumber(uint8_t *text, size_t bytes, uint32_t number);

/* The next number in [0, n), n > 0, of the generator whose state is *state. */
uint32_t lq_bench_random_below(uint64_t *state, uint32_t n);

#endif
