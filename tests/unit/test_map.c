/* The hash map against a plain array: every lookup in every phase of growing and shrinking, equal
 * keys, and the bound on what one operation may move. */
#include "lq_limits.h"
#include "lq_list.h"
#include "lq_map.h"
#include "lq_test.h"
#include "support/hot_assert.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct item {
    struct lq_map_node node;
    uint64_t key;
    size_t at;   /* place in `items` */
    int n_found; /* by a walk over a chain or the map */
};

static struct item *item_of(struct lq_map_node *node)
{
    return LQ_CONTAINER(node, struct item, node);
}

/* ---- Hashes: a good one, one whose low bits are poor, one that hardly tells keys apart. */

static uint64_t hash_well(uint64_t key)
{
    struct lq_rand rand = {.state = key};
    return lq_rand_next(&rand);
}

static uint64_t hash_high(uint64_t key)
{
    return key << 8;
}

static uint64_t hash_poorly(uint64_t key)
{
    return key % 3;
}

typedef uint64_t hash_fn(uint64_t key);
static hash_fn *const hashes[] = {hash_well, hash_high, hash_poorly};
#define N_HASHES (sizeof hashes / sizeof *hashes)

/* ---- A map, and the array that says what is in it. */

struct both {
    struct lq_map map;
    hash_fn *hash;
    struct item **items;
    size_t n, cap;
};

static uint64_t hash_node(const struct lq_map_node *node, const void *context)
{
    const struct both *both = context;
    return both->hash(LQ_CONTAINER(node, const struct item, node)->key);
}

static void both_init(struct both *both, hash_fn *hash)
{
    *both = (struct both){.hash = hash};
    lq_map_init(&both->map, hash_node, both);
}

static void free_item(struct lq_map_node *node, void *argument)
{
    ++*(size_t *)argument;
    free(item_of(node));
}

/* Frees the items from within lq_map_each, as the table does. */
static void both_done(struct both *both)
{
    size_t freed = 0;
    lq_map_each(&both->map, free_item, &freed);
    LQ_HOT_ASSERT(freed == both->n);
    lq_map_done(&both->map);
    free(both->items);
}

/* What an operation may have done to the arrays, given the map as it was before. */
static void check_step(const struct lq_map *before, const struct lq_map *after)
{
    if (before->old == NULL) {
        LQ_HOT_ASSERT(after->old == NULL || after->moved == 0);
    } else if (after->old == NULL) {
        LQ_HOT_ASSERT(before->n_old - before->moved <= LQ_MAP_STEP);
    } else {
        LQ_HOT_ASSERT(after->old == before->old);
        LQ_HOT_ASSERT(after->moved - before->moved <= LQ_MAP_STEP);
    }
    LQ_HOT_ASSERT(after->count <= 2 * after->n_buckets);
    LQ_HOT_ASSERT((after->n_buckets & (after->n_buckets - 1)) == 0);
}

static void both_insert(struct both *both, uint64_t key)
{
    struct item *item = calloc(1, sizeof *item);
    struct lq_map before = both->map;
    if (both->n == both->cap) {
        both->cap = both->cap == 0 ? 16 : 2 * both->cap;
        both->items = realloc(both->items, both->cap * sizeof(struct item *));
    }
    item->key = key;
    item->at = both->n;
    both->items[both->n++] = item;
    lq_map_insert(&both->map, &item->node, both->hash(key));
    check_step(&before, &both->map);
}

static void both_remove(struct both *both, size_t at)
{
    struct item *item = both->items[at];
    struct lq_map before = both->map;
    lq_map_remove(&both->map, &item->node);
    LQ_HOT_ASSERT(item->node.link == NULL);
    check_step(&before, &both->map);
    both->items[at] = both->items[--both->n];
    both->items[at]->at = at;
    free(item);
}

/* How many nodes with this key a lookup finds. */
static size_t find(const struct both *both, uint64_t key)
{
    size_t count = 0;
    for (struct lq_map_node *node = lq_map_chain(&both->map, both->hash(key)); node != NULL;
         node = node->next) {
        count += item_of(node)->key == key;
    }
    return count;
}

static size_t find_plainly(const struct both *both, uint64_t key)
{
    size_t count = 0;
    for (size_t i = 0; i < both->n; i++) {
        count += both->items[i]->key == key;
    }
    return count;
}

static void count_visit(struct lq_map_node *node, void *argument)
{
    item_of(node)->n_found++;
    ++*(size_t *)argument;
}

/* Every node is found by its key, and visited once. */
static void check_all(struct both *both)
{
    size_t visited = 0;
    LQ_HOT_ASSERT(both->map.count == both->n);
    lq_map_each(&both->map, count_visit, &visited);
    LQ_HOT_ASSERT(visited == both->n);
    for (size_t i = 0; i < both->n; i++) {
        struct lq_map_node *node = lq_map_chain(&both->map, both->hash(both->items[i]->key));
        LQ_HOT_ASSERT(both->items[i]->n_found == 1);
        both->items[i]->n_found = 0;
        while (node != NULL && node != &both->items[i]->node) {
            node = node->next;
        }
        LQ_HOT_ASSERT(node != NULL);
    }
}

/* ---- Tests. */

/* Up to many sizes and down again, everything looked at after every operation while small. */
START_TEST(grows_and_shrinks_without_losing_any)
{
    static const size_t sizes[] = {1, 15, 16, 17, 18, 31, 32, 33, 40, 65, 129, 200, 257, 700};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct both both;
        both_init(&both, hashes[_i]);
        for (size_t key = 0; key < sizes[i]; key++) {
            LQ_HOT_ASSERT(find(&both, key) == 0);
            both_insert(&both, key);
            check_all(&both);
        }
        while (both.n > 0) {
            both_remove(&both, both.n / 2);
            check_all(&both);
        }
        LQ_HOT_ASSERT(find(&both, 0) == 0);
        both_done(&both);
    }
}
END_TEST

/* A walk whose size wanders up and down, through resizes that begin, go on and end at random. */
START_TEST(equals_an_array_at_random)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    struct both both;
    both_init(&both, hashes[(size_t)_i % N_HASHES]);
    for (int round = 0; round < 20; round++) {
        size_t n_keys = 1 + lq_rand_below(&rand, 400);
        uint64_t grow = 1 + lq_rand_below(&rand, 9);
        for (int i = 0; i < 400; i++) {
            uint64_t key = lq_rand_below(&rand, n_keys);
            if (both.n == 0 || lq_rand_below(&rand, 10) < grow) {
                both_insert(&both, key);
            } else {
                both_remove(&both, lq_rand_below(&rand, both.n));
            }
            LQ_HOT_ASSERT(find(&both, key) == find_plainly(&both, key));
        }
        check_all(&both);
    }
    both_done(&both);
}
END_TEST

START_TEST(equal_keys_stand_side_by_side)
{
    struct both both;
    both_init(&both, hash_well);
    for (size_t i = 0; i < 100; i++) {
        both_insert(&both, 7);
        both_insert(&both, i + 1000);
        LQ_HOT_ASSERT(find(&both, 7) == i + 1);
    }
    for (size_t i = 100; i > 0; i--) {
        size_t at = 0;
        while (both.items[at]->key != 7) {
            at++;
        }
        both_remove(&both, at);
        LQ_HOT_ASSERT(find(&both, 7) == i - 1);
    }
    check_all(&both);
    both_done(&both);
}
END_TEST

START_TEST(gives_buckets_back)
{
    struct both both;
    size_t most;
    both_init(&both, hash_well);
    for (size_t i = 0; i < 20000; i++) {
        both_insert(&both, i);
    }
    most = both.map.n_buckets;
    LQ_HOT_ASSERT(most >= 16384);
    while (both.n > 10) {
        both_remove(&both, both.n - 1);
    }
    for (size_t i = 0; i < 40000; i++) { /* what a resize has left goes on with any operation */
        both_insert(&both, i);
        both_remove(&both, both.n - 1);
    }
    LQ_HOT_ASSERT(both.map.n_buckets <= 256);
    LQ_HOT_ASSERT(both.map.old == NULL);
    check_all(&both);
    both_done(&both);
}
END_TEST

START_TEST(room_that_was_reserved)
{
    struct both both;
    size_t reserved;
    both_init(&both, hash_well);
    lq_map_reserve(&both.map, 20000);
    reserved = both.map.n_buckets;
    LQ_HOT_ASSERT(reserved >= 20000 && reserved < 40000);
    for (size_t i = 0; i < 20000; i++) {
        both_insert(&both, i);
        LQ_HOT_ASSERT(both.map.n_buckets == reserved && both.map.old == NULL);
    }
    check_all(&both);
    while (both.n > 10) {
        both_remove(&both, both.n - 1);
    }
    for (size_t i = 0; i < 40000; i++) {
        both_insert(&both, i);
        both_remove(&both, both.n - 1);
    }
    LQ_HOT_ASSERT(both.map.n_buckets <= 256);
    both_done(&both);
}
END_TEST

/* Chains stay short with a good hash, however far a resize is. */
START_TEST(chains_stay_short)
{
    struct both both;
    both_init(&both, hash_well);
    for (size_t i = 0; i < 30000; i++) {
        size_t len = 0;
        both_insert(&both, i);
        for (struct lq_map_node *node = lq_map_chain(&both.map, hash_well(i)); node != NULL;
             node = node->next) {
            len++;
        }
        LQ_HOT_ASSERT(len <= 16);
    }
    both_done(&both);
}
END_TEST

static Suite *map_suite(void)
{
    Suite *suite = suite_create("map");
    TCase *tcase = tcase_create("map");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, grows_and_shrinks_without_losing_any, 0, (int)N_HASHES);
    tcase_add_loop_test(tcase, equals_an_array_at_random, 0, 3 * (int)N_HASHES);
    tcase_add_test(tcase, equal_keys_stand_side_by_side);
    tcase_add_test(tcase, gives_buckets_back);
    tcase_add_test(tcase, room_that_was_reserved);
    tcase_add_test(tcase, chains_stay_short);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(map_suite());
}
