/* The log in memory against a plain array that is never compacted. */
#include "lq_log.h"
#include "lq_test.h"
#include "support/hot_assert.h"

#include <string.h>

#define ENTRIES_MAX 2000
#define LEN_MAX     40

struct both {
    struct lq_log log;
    uint64_t base, last; /* indexes; what is known of them stands in the arrays */
    uint64_t terms[ENTRIES_MAX + 1];
    uint64_t seeds[ENTRIES_MAX + 1]; /* what the entry's other fields are made of */
};

static struct lq_log_entry made_of(uint64_t seed, uint8_t bytes[LEN_MAX])
{
    struct lq_rand rand = lq_rand_of(seed, 0);
    struct lq_log_entry entry = {.check = lq_rand_next(&rand), .bytes = bytes};
    entry.type = (uint8_t)lq_rand_below(&rand, 3);
    entry.len = (uint32_t)lq_rand_below(&rand, LEN_MAX + 1);
    lq_rand_fill(&rand, bytes, entry.len);
    return entry;
}

static void append(struct both *both, struct lq_rand *rand)
{
    uint8_t bytes[LEN_MAX];
    struct lq_log_entry entry;
    uint64_t term = both->terms[both->last] + (lq_rand_below(rand, 4) == 0);
    if (both->last == ENTRIES_MAX) {
        return;
    }
    both->last++;
    both->terms[both->last] = term;
    both->seeds[both->last] = lq_rand_next(rand);
    entry = made_of(both->seeds[both->last], bytes);
    lq_log_append(&both->log, term, entry.type, entry.check, bytes, entry.len);
}

static void check_entry(const struct both *both, uint64_t index)
{
    const struct lq_log_entry *entry = lq_log_at(&both->log, index);
    uint8_t bytes[LEN_MAX];
    struct lq_log_entry expected = made_of(both->seeds[index], bytes);
    LQ_HOT_ASSERT(entry != NULL && entry->term == both->terms[index]);
    LQ_HOT_ASSERT(entry->check == expected.check && entry->type == expected.type);
    LQ_HOT_ASSERT(entry->len == expected.len && memcmp(entry->bytes, bytes, entry->len) == 0);
    LQ_HOT_ASSERT(lq_log_term_of(&both->log, index) == both->terms[index]);
}

static void check_all(const struct both *both)
{
    struct lq_log_point last = lq_log_last(&both->log);
    uint64_t bytes = 0;
    LQ_HOT_ASSERT(last.index == both->last && last.term == both->terms[both->last]);
    LQ_HOT_ASSERT(both->log.base.index == both->base);
    LQ_HOT_ASSERT(lq_log_term_of(&both->log, both->base) == both->terms[both->base]);
    LQ_HOT_ASSERT(lq_log_at(&both->log, both->base) == NULL);
    LQ_HOT_ASSERT(lq_log_at(&both->log, both->last + 1) == NULL);
    LQ_HOT_ASSERT(lq_log_term_of(&both->log, both->last + 1) == 0);
    LQ_HOT_ASSERT(both->base == 0 || lq_log_term_of(&both->log, both->base - 1) == 0);
    for (uint64_t index = both->base + 1; index <= both->last; index++) {
        check_entry(both, index);
        bytes += lq_log_at(&both->log, index)->len;
    }
    LQ_HOT_ASSERT(both->log.count == both->last - both->base && both->log.bytes == bytes);
}

/* Mostly appends; a truncation or a compaction now and then; seldom a restart. */
static void step(struct both *both, struct lq_rand *rand)
{
    uint64_t kept = both->last - both->base, index;
    switch (lq_rand_below(rand, 200)) {
    case 0:
        index = both->base + 1 + lq_rand_below(rand, kept + 2);
        lq_log_truncate(&both->log, index);
        both->last = index <= both->last ? index - 1 : both->last;
        break;
    case 1:
    case 2:
        index = lq_rand_below(rand, both->last + 1);
        lq_log_compact(&both->log, index);
        both->base = index > both->base ? index : both->base;
        break;
    case 3:
        if (lq_rand_below(rand, 10) == 0 && both->last + 10 <= ENTRIES_MAX) {
            uint64_t term = both->terms[both->last];
            both->base = both->last = both->last + lq_rand_below(rand, 10);
            both->terms[both->last] = term + 1;
            lq_log_restart(&both->log, (struct lq_log_point){both->last, term + 1});
        }
        break;
    default:
        append(both, rand);
        break;
    }
}

START_TEST(equals_an_array_at_random)
{
    static struct both both;
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    both = (struct both){0};
    lq_log_init(&both.log, (struct lq_log_point){0, 0});
    for (int i = 0; i < 2500; i++) {
        step(&both, &rand);
        if (i % 16 == 0) {
            check_all(&both);
        }
    }
    check_all(&both);
    lq_log_done(&both.log);
}
END_TEST

START_TEST(an_empty_log_is_its_base)
{
    struct lq_log log;
    lq_log_init(&log, (struct lq_log_point){7, 3});
    ck_assert_uint_eq(lq_log_last(&log).index, 7);
    ck_assert_uint_eq(lq_log_last(&log).term, 3);
    ck_assert_uint_eq(lq_log_term_of(&log, 7), 3);
    ck_assert_uint_eq(lq_log_term_of(&log, 6), 0);
    ck_assert_uint_eq(lq_log_term_of(&log, 8), 0);
    ck_assert_ptr_null(lq_log_at(&log, 0));
    ck_assert_ptr_null(lq_log_at(&log, 7));
    ck_assert_ptr_null(lq_log_at(&log, UINT64_MAX));
    lq_log_truncate(&log, 8);
    lq_log_compact(&log, 7);
    lq_log_compact(&log, 2);
    ck_assert_uint_eq(lq_log_last(&log).index, 7);
    lq_log_done(&log);
}
END_TEST

/* The bytes of an entry stay where they are while the ring grows around them. */
START_TEST(an_entry_of_the_log_can_be_appended_again)
{
    static const uint8_t bytes[3] = "abc";
    struct lq_log log;
    lq_log_init(&log, (struct lq_log_point){0, 0});
    lq_log_append(&log, 1, 0, 5, bytes, 3);
    for (uint64_t index = 2; index < 300; index++) {
        const struct lq_log_entry *first = lq_log_at(&log, 1);
        lq_log_append(&log, first->term, first->type, first->check, first->bytes, first->len);
        ck_assert_mem_eq(lq_log_at(&log, index)->bytes, bytes, 3);
    }
    lq_log_done(&log);
}
END_TEST

static Suite *raftlog_suite(void)
{
    Suite *suite = suite_create("raftlog");
    TCase *tcase = tcase_create("raftlog");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, equals_an_array_at_random, 0, 20);
    tcase_add_test(tcase, an_empty_log_is_its_base);
    tcase_add_test(tcase, an_entry_of_the_log_can_be_appended_again);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(raftlog_suite());
}
