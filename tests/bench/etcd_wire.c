#include "etcd_wire.h"

#include <string.h>

#include "pb.h"

/* Field numbers, named after the message and the field. */
enum {
    RANGE_KEY = 1,
    RANGE_END = 2,
    RANGE_LIMIT = 3,
    RANGE_ORDER = 5,
    RANGE_TARGET = 6,
    RANGE_MAX_CREATED = 11,
    RANGE_ANSWER_KVS = 2,

    PUT_KEY = 1,
    PUT_VALUE = 2,
    PUT_LEASE = 3,

    OPERATION_RANGE = 1,
    OPERATION_PUT = 2,

    COMPARE_RESULT = 1,
    COMPARE_TARGET = 2,
    COMPARE_KEY = 3,
    COMPARE_CREATED = 5,

    TXN_COMPARE = 1,
    TXN_SUCCESS = 2,
    TXN_FAILURE = 3,
    TXN_ANSWER_SUCCEEDED = 2,
    TXN_ANSWER_RESPONSES = 3,

    DELETE_KEY = 1,
    DELETE_ANSWER_COUNT = 2,

    GRANT_TTL = 1,
    GRANT_ANSWER_ID = 2,

    WATCH_CREATE = 1,
    WATCH_CANCEL = 2,
    WATCH_CREATE_KEY = 1,
    WATCH_CREATE_START = 3,
    WATCH_CANCEL_ID = 1,
    WATCH_ANSWER_ID = 2,
    WATCH_ANSWER_CREATED = 3,
    WATCH_ANSWER_CANCELED = 4,
    WATCH_ANSWER_EVENTS = 11,
    EVENT_TYPE = 1,

    HEADER = 1, /* of every answer */
    HEADER_REVISION = 3,

    KV_KEY = 1,
    KV_CREATED = 2,
};

/* Values of etcd's enumerations. */
enum {
    COMPARE_EQUAL = 0,
    BY_CREATION = 1, /* the target of a comparison */
    SORT_ASCENDING = 1,
    SORT_DESCENDING = 2,
    SORT_BY_CREATION = 2, /* the target of a sort, which counts otherwise */
    EVENT_DELETE = 1,
};

static struct lq_bench_pb_out begin(struct lq_bench_etcd_room room)
{
    struct lq_bench_pb_out out = {.at = room.bytes, .end = room.bytes + room.size};
    return out;
}

static size_t finish(const struct lq_bench_pb_out *out, struct lq_bench_etcd_room room)
{
    return out->bad ? 0 : (size_t)(out->at - room.bytes);
}

/* ---- Requests. */

/* All keys that begin with the prefix: up to, and without, the prefix with its last byte one
 * higher. One of them is wanted, the first in order of creation. */
static void put_first_of(struct lq_bench_pb_out *out, struct lq_bench_etcd_key prefix,
                         uint64_t order)
{
    uint8_t end[2048];
    if (prefix.len > sizeof end) {
        out->bad = true;
        return;
    }
    memcpy(end, prefix.bytes, prefix.len);
    end[prefix.len - 1]++;
    lq_bench_pb_put_bytes(out, RANGE_KEY, prefix.bytes, prefix.len);
    lq_bench_pb_put_bytes(out, RANGE_END, end, prefix.len);
    lq_bench_pb_put_number(out, RANGE_LIMIT, 1);
    lq_bench_pb_put_number(out, RANGE_ORDER, order);
    lq_bench_pb_put_number(out, RANGE_TARGET, SORT_BY_CREATION);
}

/* One branch's wish for the oldest key under the prefix. */
static void put_oldest(struct lq_bench_pb_out *out, uint32_t branch,
                       struct lq_bench_etcd_key prefix)
{
    uint8_t *operation = lq_bench_pb_open(out, branch);
    uint8_t *range = lq_bench_pb_open(out, OPERATION_RANGE);
    put_first_of(out, prefix, SORT_ASCENDING);
    lq_bench_pb_close(out, range);
    lq_bench_pb_close(out, operation);
}

static void put_is_new(struct lq_bench_pb_out *out, struct lq_bench_etcd_key key)
{
    uint8_t *compare = lq_bench_pb_open(out, TXN_COMPARE);
    lq_bench_pb_put_number(out, COMPARE_RESULT, COMPARE_EQUAL);
    lq_bench_pb_put_number(out, COMPARE_TARGET, BY_CREATION);
    lq_bench_pb_put_bytes(out, COMPARE_KEY, key.bytes, key.len);
    lq_bench_pb_put_number(out, COMPARE_CREATED, 0);
    lq_bench_pb_close(out, compare);
}

static void put_put(struct lq_bench_pb_out *out, struct lq_bench_etcd_key key, int64_t lease)
{
    uint8_t *operation = lq_bench_pb_open(out, TXN_SUCCESS);
    uint8_t *put = lq_bench_pb_open(out, OPERATION_PUT);
    lq_bench_pb_put_bytes(out, PUT_KEY, key.bytes, key.len);
    lq_bench_pb_put_bytes(out, PUT_VALUE, key.bytes, 0);
    lq_bench_pb_put_number(out, PUT_LEASE, (uint64_t)lease);
    lq_bench_pb_close(out, put);
    lq_bench_pb_close(out, operation);
}

static void put_get(struct lq_bench_pb_out *out, struct lq_bench_etcd_key key)
{
    uint8_t *operation = lq_bench_pb_open(out, TXN_FAILURE);
    uint8_t *range = lq_bench_pb_open(out, OPERATION_RANGE);
    lq_bench_pb_put_bytes(out, RANGE_KEY, key.bytes, key.len);
    lq_bench_pb_close(out, range);
    lq_bench_pb_close(out, operation);
}

size_t lq_bench_etcd_put_create(struct lq_bench_etcd_room room, struct lq_bench_etcd_key key,
                                struct lq_bench_etcd_key prefix, int64_t lease)
{
    struct lq_bench_pb_out out = begin(room);
    put_is_new(&out, key);
    put_put(&out, key, lease);
    if (prefix.len > 0)
        put_oldest(&out, TXN_SUCCESS, prefix);
    put_get(&out, key);
    if (prefix.len > 0)
        put_oldest(&out, TXN_FAILURE, prefix);
    return finish(&out, room);
}

size_t lq_bench_etcd_put_before(struct lq_bench_etcd_room room, struct lq_bench_etcd_key prefix,
                                int64_t revision)
{
    struct lq_bench_pb_out out = begin(room);
    put_first_of(&out, prefix, SORT_DESCENDING);
    lq_bench_pb_put_number(&out, RANGE_MAX_CREATED, (uint64_t)(revision - 1));
    return finish(&out, room);
}

size_t lq_bench_etcd_put_delete(struct lq_bench_etcd_room room, struct lq_bench_etcd_key key)
{
    struct lq_bench_pb_out out = begin(room);
    lq_bench_pb_put_bytes(&out, DELETE_KEY, key.bytes, key.len);
    return finish(&out, room);
}

size_t lq_bench_etcd_put_grant(struct lq_bench_etcd_room room, uint32_t ttl_s)
{
    struct lq_bench_pb_out out = begin(room);
    lq_bench_pb_put_number(&out, GRANT_TTL, ttl_s);
    return finish(&out, room);
}

size_t lq_bench_etcd_put_watch(struct lq_bench_etcd_room room, struct lq_bench_etcd_key key,
                               int64_t revision)
{
    struct lq_bench_pb_out out = begin(room);
    uint8_t *create = lq_bench_pb_open(&out, WATCH_CREATE);
    lq_bench_pb_put_bytes(&out, WATCH_CREATE_KEY, key.bytes, key.len);
    lq_bench_pb_put_number(&out, WATCH_CREATE_START, (uint64_t)revision);
    lq_bench_pb_close(&out, create);
    return finish(&out, room);
}

size_t lq_bench_etcd_put_unwatch(struct lq_bench_etcd_room room, int64_t watch)
{
    struct lq_bench_pb_out out = begin(room);
    uint8_t *cancel = lq_bench_pb_open(&out, WATCH_CANCEL);
    lq_bench_pb_put_number(&out, WATCH_CANCEL_ID, (uint64_t)watch);
    lq_bench_pb_close(&out, cancel);
    return finish(&out, room);
}

/* ---- Answers. Fields that are not there have the value 0. */

static bool find(const uint8_t *bytes, size_t len, uint32_t number, struct lq_bench_pb_field *ret)
{
    struct lq_bench_pb_in in = lq_bench_pb_in(bytes, len);
    while (lq_bench_pb_next(&in, ret))
        if (ret->number == number)
            return true;
    return false;
}

static int64_t find_number(const uint8_t *bytes, size_t len, uint32_t number)
{
    struct lq_bench_pb_field f;
    return find(bytes, len, number, &f) && f.bytes == NULL ? (int64_t)f.value : 0;
}

static bool find_message(const uint8_t *bytes, size_t len, uint32_t number,
                         struct lq_bench_pb_field *ret)
{
    return find(bytes, len, number, ret) && ret->bytes != NULL;
}

/* Every answer has a header, and no answer here comes from a revision below 1. */
static int64_t find_revision(const uint8_t *bytes, size_t len)
{
    struct lq_bench_pb_field header;
    return find_message(bytes, len, HEADER, &header)
               ? find_number(header.bytes, header.len, HEADER_REVISION)
               : 0;
}

/* The creation of the one key in a transaction's response, 0 if that is no range. */
static int64_t creation_of(const struct lq_bench_pb_field *response)
{
    struct lq_bench_pb_field range, kv;
    if (!find_message(response->bytes, response->len, OPERATION_RANGE, &range) ||
        !find_message(range.bytes, range.len, RANGE_ANSWER_KVS, &kv))
        return 0;
    return find_number(kv.bytes, kv.len, KV_CREATED);
}

int lq_bench_etcd_get_created(const uint8_t *bytes, size_t len, struct lq_bench_etcd_created *ret)
{
    struct lq_bench_pb_in in = lq_bench_pb_in(bytes, len);
    struct lq_bench_pb_field f;
    struct lq_bench_etcd_created created = {.revision = find_revision(bytes, len)};
    while (lq_bench_pb_next(&in, &f)) {
        if (f.number == TXN_ANSWER_SUCCEEDED)
            created.succeeded = f.value != 0;
        else if (f.number == TXN_ANSWER_RESPONSES && f.bytes != NULL)
            created.oldest = creation_of(&f); /* the last response counts */
    }
    if (in.bad || created.revision <= 0)
        return -1;
    *ret = created;
    return 0;
}

int lq_bench_etcd_get_before(const uint8_t *bytes, size_t len, struct lq_bench_etcd_before *ret)
{
    struct lq_bench_pb_field kv, key;
    struct lq_bench_etcd_before before = {.revision = find_revision(bytes, len)};
    if (before.revision <= 0)
        return -1;
    before.found = find_message(bytes, len, RANGE_ANSWER_KVS, &kv);
    if (before.found) {
        if (!find_message(kv.bytes, kv.len, KV_KEY, &key))
            return -1;
        before.key.bytes = key.bytes;
        before.key.len = key.len;
    }
    *ret = before;
    return 0;
}

int lq_bench_etcd_get_deleted(const uint8_t *bytes, size_t len, uint64_t *ret_count)
{
    if (find_revision(bytes, len) <= 0)
        return -1;
    *ret_count = (uint64_t)find_number(bytes, len, DELETE_ANSWER_COUNT);
    return 0;
}

int lq_bench_etcd_get_granted(const uint8_t *bytes, size_t len, int64_t *ret_lease)
{
    int64_t lease = find_number(bytes, len, GRANT_ANSWER_ID);
    if (lease == 0)
        return -1;
    *ret_lease = lease;
    return 0;
}

int lq_bench_etcd_get_watched(const uint8_t *bytes, size_t len, struct lq_bench_etcd_watched *ret)
{
    struct lq_bench_pb_in in = lq_bench_pb_in(bytes, len);
    struct lq_bench_pb_field f;
    struct lq_bench_etcd_watched watched = {0};
    while (lq_bench_pb_next(&in, &f)) {
        if (f.number == WATCH_ANSWER_ID)
            watched.watch = (int64_t)f.value;
        else if (f.number == WATCH_ANSWER_CREATED)
            watched.created = f.value != 0;
        else if (f.number == WATCH_ANSWER_CANCELED)
            watched.canceled = f.value != 0;
        else if (f.number == WATCH_ANSWER_EVENTS && f.bytes != NULL)
            watched.deleted |= find_number(f.bytes, f.len, EVENT_TYPE) == EVENT_DELETE;
    }
    if (in.bad)
        return -1;
    *ret = watched;
    return 0;
}
