/* The messages of etcd against bytes that were written by hand from the definitions in its .proto
 * files. */
#include <stdlib.h>
#include <string.h>

#include "etcd_wire.h"
#include "lq_test.h"

static uint64_t seed;
static uint8_t buffer[4096];
static const struct lq_bench_etcd_room room = {buffer, sizeof buffer};

static struct lq_bench_etcd_key key_of(const char *text)
{
    struct lq_bench_etcd_key key = {(const uint8_t *)text, strlen(text)};
    return key;
}

#define AS_BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

#define CHECK_MESSAGE(len, wanted)                                                                 \
    do {                                                                                           \
        size_t len_ = (len);                                                                       \
        ck_assert_mem_eq(buffer, wanted, sizeof(wanted) - 1);                                      \
        ck_assert_uint_eq(len_, sizeof(wanted) - 1);                                               \
    } while (0)

/* ---- Requests. Lengths of inner messages take two bytes, the first with its highest bit set. */

START_TEST(test_create)
{
    static const char wanted[] = "\x0a\x8b\x00\x08\x00\x10\x01\x1a\x03"
                                 "a/1\x28\x00"
                                 "\x12\x8d\x00\x12\x8a\x00\x0a\x03"
                                 "a/1\x12\x00\x18\xac\x02"
                                 "\x12\x91\x00\x0a\x8e\x00\x0a\x02"
                                 "a/\x12\x02"
                                 "a0\x18\x01\x28\x01\x30\x02"
                                 "\x1a\x88\x00\x0a\x85\x00\x0a\x03"
                                 "a/1"
                                 "\x1a\x91\x00\x0a\x8e\x00\x0a\x02"
                                 "a/\x12\x02"
                                 "a0\x18\x01\x28\x01\x30\x02";
    CHECK_MESSAGE(lq_bench_etcd_put_create(room, key_of("a/1"), key_of("a/"), 300), wanted);
}
END_TEST

START_TEST(test_small_requests)
{
    CHECK_MESSAGE(lq_bench_etcd_put_before(room, key_of("a/"), 129),
                  "\x0a\x02"
                  "a/\x12\x02"
                  "a0\x18\x01\x28\x02\x30\x02\x58\x80\x01");
    CHECK_MESSAGE(lq_bench_etcd_put_delete(room, key_of("a")), "\x0a\x01"
                                                               "a");
    CHECK_MESSAGE(lq_bench_etcd_put_grant(room, 150), "\x08\x96\x01");
    CHECK_MESSAGE(lq_bench_etcd_put_watch(room, key_of("a"), 5), "\x0a\x85\x00\x0a\x01"
                                                                 "a\x18\x05");
    CHECK_MESSAGE(lq_bench_etcd_put_unwatch(room, 7), "\x12\x82\x00\x08\x07");
}
END_TEST

START_TEST(test_no_room)
{
    size_t whole = lq_bench_etcd_put_create(room, key_of("a/1"), key_of("a/"), 300);
    ck_assert_uint_gt(whole, 0);
    for (size_t size = 0; size < whole; size++) {
        struct lq_bench_etcd_room less = {buffer, size};
        memset(buffer, 0x55, sizeof buffer);
        ck_assert_uint_eq(lq_bench_etcd_put_create(less, key_of("a/1"), key_of("a/"), 300), 0);
        ck_assert_uint_eq(buffer[size], 0x55);
    }
}
END_TEST

/* ---- Answers. */

#define HEADER_5  "\x0a\x04\x08\x01\x18\x05"
#define KV_A_AT_3 "\x0a\x01\x61\x10\x03"

START_TEST(test_created)
{
    struct lq_bench_etcd_created created;
    ck_assert_int_eq(
        lq_bench_etcd_get_created(
            AS_BYTES(HEADER_5 "\x10\x01\x1a\x02\x12\x00\x1a\x09\x0a\x07\x12\x05" KV_A_AT_3),
            &created),
        0);
    ck_assert(created.succeeded);
    ck_assert_int_eq(created.revision, 5);
    ck_assert_int_eq(created.oldest, 3);
    ck_assert_int_eq(lq_bench_etcd_get_created(AS_BYTES(HEADER_5), &created), 0);
    ck_assert(!created.succeeded);
    ck_assert_int_eq(created.oldest, 0);
    ck_assert_int_eq(lq_bench_etcd_get_created(AS_BYTES("\x10\x01"), &created), -1);
}
END_TEST

START_TEST(test_small_answers)
{
    struct lq_bench_etcd_before before;
    uint64_t count;
    int64_t lease;
    ck_assert_int_eq(lq_bench_etcd_get_before(AS_BYTES(HEADER_5 "\x12\x05" KV_A_AT_3), &before), 0);
    ck_assert(before.found);
    ck_assert_int_eq(before.revision, 5);
    ck_assert_uint_eq(before.key.len, 1);
    ck_assert_uint_eq(before.key.bytes[0], 'a');
    ck_assert_int_eq(lq_bench_etcd_get_before(AS_BYTES(HEADER_5), &before), 0);
    ck_assert(!before.found);
    ck_assert_int_eq(lq_bench_etcd_get_before(AS_BYTES(HEADER_5 "\x12\x00"), &before), -1);
    ck_assert_int_eq(lq_bench_etcd_get_deleted(AS_BYTES(HEADER_5 "\x10\x02"), &count), 0);
    ck_assert_uint_eq(count, 2);
    ck_assert_int_eq(lq_bench_etcd_get_deleted(AS_BYTES(HEADER_5), &count), 0);
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(lq_bench_etcd_get_granted(AS_BYTES(HEADER_5 "\x10\xac\x02"), &lease), 0);
    ck_assert_int_eq(lease, 300);
}
END_TEST

START_TEST(test_watched)
{
    struct lq_bench_etcd_watched watched;
    ck_assert_int_eq(lq_bench_etcd_get_watched(AS_BYTES(HEADER_5 "\x10\x02\x18\x01"), &watched), 0);
    ck_assert_int_eq(watched.watch, 2);
    ck_assert(watched.created && !watched.canceled && !watched.deleted);
    ck_assert_int_eq(
        lq_bench_etcd_get_watched(AS_BYTES("\x5a\x02\x12\x00\x5a\x04\x08\x01\x12\x00"), &watched),
        0);
    ck_assert_int_eq(watched.watch, 0);
    ck_assert(!watched.created && watched.deleted);
    ck_assert_int_eq(lq_bench_etcd_get_watched(AS_BYTES("\x5a\x02\x12\x00\x20\x01"), &watched), 0);
    ck_assert(!watched.deleted && watched.canceled);
}
END_TEST

/* Bytes at random, in a buffer of their own so that a read beyond them is seen. */
START_TEST(test_any_bytes)
{
    struct lq_rand rand = lq_rand_of(seed, 0);
    uint64_t rounds = lq_test_number("LQ_OPS", 20000);
    unsigned taken = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        size_t len = lq_rand_below(&rand, 24);
        uint8_t *bytes = malloc(len + 1);
        struct lq_bench_etcd_created created;
        struct lq_bench_etcd_before before;
        struct lq_bench_etcd_watched watched;
        ck_assert_ptr_nonnull(bytes);
        for (size_t k = 0; k < len; k++) /* tags and short lengths more often than not */
            bytes[k] = (uint8_t)(lq_rand_below(&rand, 3) > 0 ? lq_rand_below(&rand, 32)
                                                             : lq_rand_below(&rand, 256));
        (void)lq_bench_etcd_get_created(bytes, len, &created);
        if (lq_bench_etcd_get_before(bytes, len, &before) == 0 && before.found)
            ck_assert(before.key.bytes + before.key.len <= bytes + len);
        taken += lq_bench_etcd_get_watched(bytes, len, &watched) == 0;
        free(bytes);
    }
    ck_assert_uint_gt(taken, 0);
    ck_assert_uint_lt(taken, rounds);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("etcd_wire");
    TCase *requests = tcase_create("requests"), *answers = tcase_create("answers");
    seed = lq_test_seed();
    tcase_add_test(requests, test_create);
    tcase_add_test(requests, test_small_requests);
    tcase_add_test(requests, test_no_room);
    tcase_add_test(answers, test_created);
    tcase_add_test(answers, test_small_answers);
    tcase_add_test(answers, test_watched);
    tcase_add_test(answers, test_any_bytes);
    suite_add_tcase(suite, requests);
    suite_add_tcase(suite, answers);
    return lq_test_run(suite);
}
