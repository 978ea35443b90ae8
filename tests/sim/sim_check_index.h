/* Numbers found by numbers: a small hash table that only grows. Iteration is not offered, so its
 * order can't matter. */
#ifndef SIM_CHECK_INDEX_H
#define SIM_CHECK_INDEX_H

#include "lq_mem.h"

#include <stddef.h>
#include <stdint.h>

#define SIM_INDEX_NONE UINT32_MAX

/* Zeroed memory is an empty index. */
struct sim_index {
    struct sim_index_slot {
        uint64_t key;
        uint32_t value; /* one more than the value; 0: empty */
    } * slots;
    size_t n_slots, count;
};

static inline void sim_index_done(struct sim_index *index)
{
    lq_free(index->slots);
}

/* The slot of a key: its own, or the empty one where it would go. */
static inline struct sim_index_slot *sim_index_slot(const struct sim_index *index, uint64_t key)
{
    uint64_t at = key * UINT64_C(0x9E3779B97F4A7C15) >> 20;
    while (1) {
        struct sim_index_slot *slot = &index->slots[at & (index->n_slots - 1)];
        if (slot->value == 0 || slot->key == key) {
            return slot;
        }
        at++;
    }
}

/* What was put for this key, or SIM_INDEX_NONE. */
static inline uint32_t sim_index_get(const struct sim_index *index, uint64_t key)
{
    return index->n_slots == 0 ? SIM_INDEX_NONE : sim_index_slot(index, key)->value - 1;
}

/* Puts a value below SIM_INDEX_NONE for a key that has none. */
static inline void sim_index_put(struct sim_index *index, uint64_t key, uint32_t value)
{
    if (4 * index->count >= 3 * index->n_slots) {
        struct sim_index old = *index;
        index->n_slots = old.n_slots == 0 ? 256 : 2 * old.n_slots;
        index->slots = lq_calloc(index->n_slots, sizeof *index->slots);
        for (size_t i = 0; i < old.n_slots; i++) {
            if (old.slots[i].value != 0) {
                *sim_index_slot(index, old.slots[i].key) = old.slots[i];
            }
        }
        sim_index_done(&old);
    }
    *sim_index_slot(index, key) = (struct sim_index_slot){key, value + 1};
    index->count++;
}

#endif
