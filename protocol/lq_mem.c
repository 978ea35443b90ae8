#include "lq_mem.h"

#include "lq_check.h"

#include <stdlib.h>

/* Frees after which sorting is worth a call, and the size of the allocation that brings it about:
 * larger than any free list of exact sizes, smaller than what comes from the kernel. */
#define SETTLE_FREES 128
#define SETTLE_BYTES ((size_t)256 << 10)

/* The client library keeps no state outside of its handles, and is called by any thread: nothing is
 * counted there. */
#ifdef LOQUET_LIBRARY
#define COUNT(counter) ((void)0)
#else
#define COUNT(counter) ((counter)++)
static uint64_t allocations, frees;
#endif

void *lq_malloc(size_t size)
{
    void *memory = malloc(size == 0 ? 1 : size);
    LQ_CHECK(memory != NULL);
    COUNT(allocations);
    return memory;
}

void *lq_calloc(size_t count, size_t size)
{
    void *memory = calloc(count == 0 ? 1 : count, size == 0 ? 1 : size);
    LQ_CHECK(memory != NULL);
    COUNT(allocations);
    return memory;
}

void *lq_realloc(void *memory, size_t count, size_t size)
{
    void *moved = reallocarray(memory, count == 0 ? 1 : count, size == 0 ? 1 : size);
    LQ_CHECK(moved != NULL);
    COUNT(allocations);
    return moved;
}

void lq_free(void *memory)
{
    COUNT(frees);
    free(memory);
}

#ifndef LOQUET_LIBRARY
void lq_mem_settle(void)
{
    if (frees >= SETTLE_FREES) {
        void *volatile memory = malloc(SETTLE_BYTES); /* volatile: not to be optimised away */
        free(memory);
        frees = 0;
    }
}

uint64_t lq_mem_allocations(void)
{
    return allocations;
}
#endif
