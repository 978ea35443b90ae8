#include "lq_mem.h"

#include "lq_check.h"

#include <stdlib.h>

static uint64_t allocations;

void *lq_malloc(size_t size)
{
    void *memory = malloc(size == 0 ? 1 : size);
    LQ_CHECK(memory != NULL);
    allocations++;
    return memory;
}

void *lq_calloc(size_t count, size_t size)
{
    void *memory = calloc(count == 0 ? 1 : count, size == 0 ? 1 : size);
    LQ_CHECK(memory != NULL);
    allocations++;
    return memory;
}

void *lq_realloc(void *memory, size_t count, size_t size)
{
    void *moved = reallocarray(memory, count == 0 ? 1 : count, size == 0 ? 1 : size);
    LQ_CHECK(moved != NULL);
    allocations++;
    return moved;
}

void lq_free(void *memory)
{
    free(memory);
}

uint64_t lq_mem_allocations(void)
{
    return allocations;
}
