/* While the map is resized there are two arrays, and the place of a hash follows one rule: in the
 * old array if its bucket there was not moved yet, else in the new one. So each hash has exactly
 * one chain at any time. */
#include "lq_map.h"

#include "lq_check.h"
#include "lq_limits.h"
#include "lq_mem.h"

#define BUCKETS_MIN ((size_t)16)

void lq_map_init(struct lq_map *map, lq_map_hash_fn *hash, const void *context)
{
    *map = (struct lq_map){
        .n_buckets = BUCKETS_MIN, .n_min = BUCKETS_MIN, .hash = hash, .context = context};
    map->buckets = lq_calloc(map->n_buckets, sizeof(struct lq_map_node *));
}

void lq_map_reserve(struct lq_map *map, size_t count)
{
    LQ_CHECK(map->count == 0 && map->old == NULL);
    while (map->n_min < count) {
        map->n_min *= 2;
    }
    lq_free(map->buckets);
    map->n_buckets = map->n_min;
    map->buckets = lq_calloc(map->n_buckets, sizeof(struct lq_map_node *));
}

void lq_map_done(struct lq_map *map)
{
    lq_free(map->buckets);
    lq_free(map->old);
    *map = (struct lq_map){0};
}

static struct lq_map_node **bucket_of(const struct lq_map *map, uint64_t hash)
{
    if (map->old != NULL && (hash & (map->n_old - 1)) >= map->moved) {
        return &map->old[hash & (map->n_old - 1)];
    }
    return &map->buckets[hash & (map->n_buckets - 1)];
}

static void link_in(struct lq_map_node **bucket, struct lq_map_node *node)
{
    node->next = *bucket;
    node->link = bucket;
    if (node->next != NULL) {
        node->next->link = &node->next;
    }
    *bucket = node;
}

static void resize(struct lq_map *map, size_t n_buckets)
{
    map->old = map->buckets;
    map->n_old = map->n_buckets;
    map->moved = 0;
    map->n_buckets = n_buckets;
    map->buckets = lq_calloc(n_buckets, sizeof(struct lq_map_node *));
}

/* Moves one bucket of the old array. Its nodes' place changes from old to new at the moment `moved`
 * passes it. */
static void move_bucket(struct lq_map *map)
{
    struct lq_map_node *node = map->old[map->moved];
    map->moved++;
    while (node != NULL) {
        struct lq_map_node *next = node->next;
        link_in(&map->buckets[map->hash(node, map->context) & (map->n_buckets - 1)], node);
        node = next;
    }
}

/* Goes on with a resize, or begins one: doubles at one node a bucket, halves at one node in eight
 * buckets. */
static void step(struct lq_map *map)
{
    if (map->count >= map->n_min / 2) {
        map->n_min = BUCKETS_MIN; /* what room was reserved for has come */
    }
    if (map->old == NULL) {
        if (map->count > map->n_buckets) {
            resize(map, 2 * map->n_buckets);
        } else if (map->n_buckets > map->n_min && map->count < map->n_buckets / 8) {
            resize(map, map->n_buckets / 2);
        }
        return;
    }
    for (int i = 0; i < LQ_MAP_STEP && map->moved < map->n_old; i++) {
        move_bucket(map);
    }
    if (map->moved == map->n_old) {
        lq_free(map->old);
        map->old = NULL;
    }
}

struct lq_map_node *const *lq_map_bucket(const struct lq_map *map, uint64_t hash)
{
    return bucket_of(map, hash);
}

struct lq_map_node *lq_map_chain(const struct lq_map *map, uint64_t hash)
{
    return *bucket_of(map, hash);
}

void lq_map_insert(struct lq_map *map, struct lq_map_node *node, uint64_t hash)
{
    link_in(bucket_of(map, hash), node);
    map->count++;
    step(map);
}

void lq_map_remove(struct lq_map *map, struct lq_map_node *node)
{
    LQ_CHECK(node->link != NULL && map->count > 0);
    *node->link = node->next;
    if (node->next != NULL) {
        node->next->link = node->link;
    }
    *node = (struct lq_map_node){0};
    map->count--;
    step(map);
}

static void each_in(struct lq_map_node *const *buckets, size_t n,
                    void (*visit)(struct lq_map_node *node, void *argument), void *argument)
{
    for (size_t i = 0; i < n; i++) {
        struct lq_map_node *node = buckets[i];
        while (node != NULL) {
            struct lq_map_node *next = node->next;
            visit(node, argument);
            node = next;
        }
    }
}

void lq_map_each(const struct lq_map *map, void (*visit)(struct lq_map_node *node, void *argument),
                 void *argument)
{
    each_in(map->buckets, map->n_buckets, visit, argument);
    if (map->old != NULL) {
        each_in(map->old + map->moved, map->n_old - map->moved, visit, argument);
    }
}
