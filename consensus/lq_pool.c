#include "lq_pool.h"

#include "lq_check.h"
#include "lq_mem.h"

void lq_pool_init(struct lq_pool *pool, size_t size, size_t keep)
{
    LQ_CHECK(size >= sizeof(void *));
    *pool = (struct lq_pool){.keep = keep, .size = size};
}

static void *take_idle(struct lq_pool *pool)
{
    void *piece = pool->idle;
    pool->idle = *(void **)piece;
    pool->n_idle--;
    return piece;
}

void lq_pool_done(struct lq_pool *pool)
{
    while (pool->idle != NULL) {
        lq_free(take_idle(pool));
    }
}

void *lq_pool_get(struct lq_pool *pool)
{
    return pool->idle == NULL ? lq_malloc(pool->size) : take_idle(pool);
}

void lq_pool_put(struct lq_pool *pool, void *piece)
{
    if (pool->n_idle == pool->keep) {
        lq_free(piece);
        return;
    }
    *(void **)piece = pool->idle;
    pool->idle = piece;
    pool->n_idle++;
}
