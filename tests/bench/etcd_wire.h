/* The messages of etcd v3 that its lock recipe needs, written and read by hand: etcd's rpc.proto
 * and kv.proto have the field numbers.
 *
 * Keys are texts of given length. A prefix stands for all keys that begin with it; its last byte is
 * below 255. Writers return the length of the message, 0 if it does not fit. Readers return 0, or
 * -1 with *ret unspecified for bytes that are no such message. */
#ifndef LQ_BENCH_ETCD_WIRE_H
#define LQ_BENCH_ETCD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_bench_etcd_key {
    const uint8_t *bytes;
    size_t len;
};

struct lq_bench_etcd_room {
    uint8_t *bytes;
    size_t size;
};

/* A transaction: creates `key` under the lease if it does not exist; then, with a prefix, also asks
 * for the oldest key under it. `prefix` is empty or the beginning of `key`. */
size_t lq_bench_etcd_put_create(struct lq_bench_etcd_room room, struct lq_bench_etcd_key key,
                                struct lq_bench_etcd_key prefix, int64_t lease);

struct lq_bench_etcd_created {
    bool succeeded;   /* the key is new */
    int64_t revision; /* of the transaction; of the key's creation if it succeeded */
    int64_t oldest;   /* the creation of the oldest key under the prefix; 0: not asked for */
};
int lq_bench_etcd_get_created(const uint8_t *bytes, size_t len, struct lq_bench_etcd_created *ret);

/* Asks for the youngest key under the prefix that was created before a revision. */
size_t lq_bench_etcd_put_before(struct lq_bench_etcd_room room, struct lq_bench_etcd_key prefix,
                                int64_t revision);

struct lq_bench_etcd_before {
    int64_t revision; /* when this was true */
    bool found;
    struct lq_bench_etcd_key key; /* points into the message */
};
int lq_bench_etcd_get_before(const uint8_t *bytes, size_t len, struct lq_bench_etcd_before *ret);

size_t lq_bench_etcd_put_delete(struct lq_bench_etcd_room room, struct lq_bench_etcd_key key);
int lq_bench_etcd_get_deleted(const uint8_t *bytes, size_t len, uint64_t *ret_count);

size_t lq_bench_etcd_put_grant(struct lq_bench_etcd_room room, uint32_t ttl_s);
int lq_bench_etcd_get_granted(const uint8_t *bytes, size_t len, int64_t *ret_lease);

/* Watches a key from a revision on, or ends that. */
size_t lq_bench_etcd_put_watch(struct lq_bench_etcd_room room, struct lq_bench_etcd_key key,
                               int64_t revision);
size_t lq_bench_etcd_put_unwatch(struct lq_bench_etcd_room room, int64_t watch);

struct lq_bench_etcd_watched {
    int64_t watch;
    bool created;  /* the watch has begun, `watch` is its number from now on */
    bool canceled; /* it has ended */
    bool deleted;  /* its key was deleted */
};
int lq_bench_etcd_get_watched(const uint8_t *bytes, size_t len, struct lq_bench_etcd_watched *ret);

#endif
