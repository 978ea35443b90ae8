/* Memory that never fails to come: running out aborts the process, since a node may die but never
 * diverge (design: applying a command has no failure). All long-lived state is bounded by the caps
 * in lq_limits.h. */
#ifndef LQ_MEM_H
#define LQ_MEM_H

#include <stddef.h>
#include <stdint.h>

/* Returns `size` bytes (at least one), contents undefined. Free with lq_free. Never NULL. */
__attribute__((malloc, returns_nonnull)) void *lq_malloc(size_t size);

/* Returns `count * size` zeroed bytes; aborts when the product overflows. Free with lq_free. Never
 * NULL. */
__attribute__((malloc, returns_nonnull)) void *lq_calloc(size_t count, size_t size);

/* Resizes `memory` (NULL is fine) to `count * size` bytes; aborts when the product overflows. Never
 * NULL. */
__attribute__((returns_nonnull)) void *lq_realloc(void *memory, size_t count, size_t size);

/* Gives memory back; NULL is fine. */
void lq_free(void *memory);

/* Lets the C library's allocator sort what was freed since the last call, if that was much. It puts
 * that off to the next allocation of another size, which then pays for up to 10,000 pieces at once;
 * called after each slice of work, it never adds up. */
void lq_mem_settle(void);

/* Number of allocations since the process began, for showing that a hot path makes none. Not
 * thread-safe. */
uint64_t lq_mem_allocations(void);

#endif
