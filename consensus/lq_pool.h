/* A stock of equally sized pieces of memory, so that what comes and goes with each request costs no
 * allocation once the stock has warmed up. Keeps at most `keep` idle pieces; the rest goes back to
 * the system. */
#ifndef LQ_POOL_H
#define LQ_POOL_H

#include <stddef.h>

struct lq_pool {
    void *idle; /* each idle piece begins with a pointer to the next */
    size_t n_idle;
    size_t keep;
    size_t size; /* of a piece, in bytes */
};

/* `size`: at least that of a pointer. */
void lq_pool_init(struct lq_pool *pool, size_t size, size_t keep);

/* Frees the idle pieces; those in use are the user's to give back before. */
void lq_pool_done(struct lq_pool *pool);

/* Returns a piece, contents undefined; never NULL. */
void *lq_pool_get(struct lq_pool *pool);

/* Takes a piece back. */
void lq_pool_put(struct lq_pool *pool, void *piece);

#endif
