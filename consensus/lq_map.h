/* A hash map with its nodes inside the members, resized in slices: each insertion and removal moves
 * a few buckets, so that no single operation pays for the whole map. Hashes come from the user, who
 * keys them with a secret where keys are chosen by clients. Equal keys may stand side by side;
 * whoever wants unique keys looks before inserting. */
#ifndef LQ_MAP_H
#define LQ_MAP_H

#include <stddef.h>
#include <stdint.h>

struct lq_map_node {
    struct lq_map_node *next;
    struct lq_map_node **link; /* whatever points to this node; NULL outside of any map */
};

/* Computes again the hash that a node was inserted with. */
typedef uint64_t lq_map_hash_fn(const struct lq_map_node *node, const void *context);

struct lq_map {
    struct lq_map_node **buckets; /* a power of two of them */
    size_t n_buckets;
    struct lq_map_node **old; /* the array being emptied into `buckets`, or NULL */
    size_t n_old;
    size_t moved; /* old buckets below this one are empty */
    size_t count; /* nodes */
    size_t n_min; /* buckets that it does not shrink below */
    lq_map_hash_fn *hash;
    const void *context;
};

/* `context` is handed to `hash` and must outlive the map. Free with lq_map_done. */
void lq_map_init(struct lq_map *map, lq_map_hash_fn *hash, const void *context);

/* Makes room for so many nodes in an empty map at once, where it is known that they will come: the
 * map does not shrink until half of them are there. */
void lq_map_reserve(struct lq_map *map, size_t count);

/* Frees the buckets. The nodes are the user's: those still inside are merely forgotten. */
void lq_map_done(struct lq_map *map);

/* The first node of the chain in which nodes with this hash stand; follow `next`, compare keys. May
 * be NULL. Valid until the next insertion or removal. */
struct lq_map_node *lq_map_chain(const struct lq_map *map, uint64_t hash);

/* Where that chain begins, to be fetched ahead. */
struct lq_map_node *const *lq_map_bucket(const struct lq_map *map, uint64_t hash);

/* Adds a node that is in no map. */
void lq_map_insert(struct lq_map *map, struct lq_map_node *node, uint64_t hash);

/* Removes a node that is in this map. */
void lq_map_remove(struct lq_map *map, struct lq_map_node *node);

/* Calls `visit` for each node, in no order that means anything. `visit` may free its node, but not
 * change the map. */
void lq_map_each(const struct lq_map *map, void (*visit)(struct lq_map_node *node, void *argument),
                 void *argument);

/* The hash of a number that clients do not choose, such as a sequence number: spreading it is
 * enough (Fibonacci). */
static inline uint64_t lq_map_spread(uint64_t number)
{
    uint64_t mixed = number * UINT64_C(0x9E3779B97F4A7C15);
    return mixed ^ (mixed >> 32);
}

#endif
