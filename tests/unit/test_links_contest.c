/* The decisions of the links, which need no socket: which of two connections is kept, in all states
 * that there are; how waits grow; what may be logged; and the queue to a peer. */
#include "lq_contest.h"
#include "lq_mem.h"
#include "lq_outqueue.h"
#include "lq_test.h"

#include <stdio.h>
#include <string.h>

static uint64_t seed;

/* ---- The contest. */

/* The rules once more, in the words of lq_contest.h. */
static enum lq_contest expected(const struct lq_contest_state *state)
{
    bool is_same_life = state->is_linked && state->boot == state->link_boot;
    bool competes =
        is_same_life || (!state->is_linked && state->is_greeting && state->node < state->peer);
    if (is_same_life && state->is_link_alive) {
        return LQ_CONTEST_DROP;
    }
    return competes && state->waited_ms < LQ_CONTEST_HOLD_MS ? LQ_CONTEST_WAIT : LQ_CONTEST_TAKE;
}

START_TEST(every_state_is_judged_by_the_rules)
{
    static const uint64_t waits[] = {0, 1, LQ_CONTEST_HOLD_MS - 1, LQ_CONTEST_HOLD_MS, 60000};
    unsigned seen[3] = {0};
    for (unsigned bits = 0; bits < 64; bits++) {
        for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
            struct lq_contest_state state = {
                .node = (bits & 1) != 0 ? 1 : 2,
                .peer = (bits & 1) != 0 ? 2 : 1,
                .boot = 9 + (bits >> 1 & 3) % 3,
                .link_boot = 10,
                .waited_ms = waits[i],
                .is_linked = (bits & 8) != 0,
                .is_link_alive = (bits & 16) != 0,
                .is_greeting = (bits & 32) != 0,
            };
            enum lq_contest judged = lq_contest_judge(&state);
            ck_assert_int_eq(judged, expected(&state));
            seen[judged]++;
        }
    }
    ck_assert(seen[LQ_CONTEST_TAKE] > 0 && seen[LQ_CONTEST_WAIT] > 0 && seen[LQ_CONTEST_DROP] > 0);
}
END_TEST

/* When both have said hello, one side takes what the other one leaves unanswered. */
START_TEST(both_sides_keep_the_same_one)
{
    struct lq_contest_state low = {.node = 1, .peer = 2, .is_greeting = true};
    struct lq_contest_state high = {.node = 2, .peer = 1, .is_greeting = true};
    ck_assert_int_eq(lq_contest_judge(&low), LQ_CONTEST_WAIT);
    ck_assert_int_eq(lq_contest_judge(&high), LQ_CONTEST_TAKE);
}
END_TEST

/* ---- Waits. */

START_TEST(waits_double_up_to_the_longest)
{
    static const uint64_t wanted[] = {20, 40, 80, 160, 320, 640, 1000, 1000};
    uint64_t delay_ms = 0;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        delay_ms = lq_backoff_next(delay_ms, 20, 1000);
        ck_assert_uint_eq(delay_ms, wanted[i]);
    }
    ck_assert_uint_eq(lq_backoff_next(7, 7, 7), 7);
    ck_assert_uint_eq(lq_backoff_next(5000, 20, 1000), 1000);
}
END_TEST

START_TEST(a_drawn_wait_is_half_to_all)
{
    struct lq_rand rand = lq_rand_of(seed, 1);
    uint64_t smallest = UINT64_MAX, largest = 0;
    ck_assert_uint_eq(lq_backoff_draw(0, lq_rand_next(&rand)), 0);
    ck_assert_uint_eq(lq_backoff_draw(1, lq_rand_next(&rand)), 1);
    for (int i = 0; i < 1000; i++) {
        uint64_t drawn = lq_backoff_draw(20, lq_rand_next(&rand));
        smallest = drawn < smallest ? drawn : smallest;
        largest = drawn > largest ? drawn : largest;
    }
    ck_assert_uint_eq(smallest, 10);
    ck_assert_uint_eq(largest, 20);
}
END_TEST

/* ---- The limiter. */

START_TEST(the_same_trouble_is_told_once_in_a_period)
{
    static struct lq_limiter limiter;
    ck_assert(lq_limiter_allows(&limiter, "a", 1000, 100));
    ck_assert(!lq_limiter_allows(&limiter, "a", 1000, 100));
    ck_assert(lq_limiter_allows(&limiter, "b", 1050, 100));
    ck_assert(!lq_limiter_allows(&limiter, "a", 1099, 100));
    ck_assert(lq_limiter_allows(&limiter, "a", 1100, 100));
    ck_assert(!lq_limiter_allows(&limiter, "b", 1149, 100));
    ck_assert(!lq_limiter_allows(&limiter, "a", 1199, 100));
}
END_TEST

/* A crowd of addresses gets no more lines than there is room for. */
START_TEST(a_crowd_is_told_of_in_part)
{
    static struct lq_limiter limiter;
    unsigned told = 0;
    for (unsigned i = 0; i < 1000; i++) {
        char key[100];
        (void)snprintf(key, sizeof key, "%090u", i); /* longer than what is compared */
        told += lq_limiter_allows(&limiter, key + 50, 1000, 100);
        ck_assert(!lq_limiter_allows(&limiter, key + 50, 1000, 100));
    }
    ck_assert_uint_eq(told, LQ_LIMITER_ITEMS);
}
END_TEST

/* ---- The queue. */

/* Whether what is next in the queue is what comes next in `bytes`. */
static bool is_next(const struct lq_outqueue *queue, const uint8_t *bytes, size_t n_views)
{
    struct lq_view views[LQ_LIMITER_ITEMS];
    size_t n = lq_outqueue_views(queue, views, n_views), sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (views[i].len == 0 || memcmp(views[i].bytes, bytes + sum, views[i].len) != 0) {
            return false;
        }
        sum += views[i].len;
    }
    return n > 0 ? sum <= queue->len : queue->len == 0;
}

START_TEST(what_is_queued_comes_out_in_order)
{
    enum { ALL = 8 << 20 };
    struct lq_rand rand = lq_rand_of(seed, 2);
    uint8_t *bytes = lq_malloc(ALL);
    struct lq_outqueue queue;
    size_t added = 0, taken = 0;
    lq_rand_fill(&rand, bytes, ALL);
    lq_outqueue_init(&queue);
    while (taken < ALL) {
        size_t most = lq_rand_below(&rand, 4) == 0 ? 300000 : 3000;
        size_t len = lq_rand_below(&rand, most), part;
        len = len < ALL - added ? len : ALL - added;
        lq_outqueue_add(&queue, bytes + added, len);
        added += len;
        ck_assert_uint_eq(queue.len, added - taken);
        ck_assert(is_next(&queue, bytes + taken, 1 + lq_rand_below(&rand, 8)));
        part = lq_rand_below(&rand, 3) == 0 ? queue.len : lq_rand_below(&rand, queue.len + 1);
        lq_outqueue_wrote(&queue, part);
        taken += part;
    }
    ck_assert(is_next(&queue, bytes, 4) && queue.len == 0);
    lq_outqueue_add(&queue, bytes, 100000);
    lq_outqueue_done(&queue);
    ck_assert(is_next(&queue, bytes, 4) && queue.len == 0);
    lq_free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("links_contest");
    TCase *tests = tcase_create("links_contest");
    seed = lq_test_seed();
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, every_state_is_judged_by_the_rules);
    tcase_add_test(tests, both_sides_keep_the_same_one);
    tcase_add_test(tests, waits_double_up_to_the_longest);
    tcase_add_test(tests, a_drawn_wait_is_half_to_all);
    tcase_add_test(tests, the_same_trouble_is_told_once_in_a_period);
    tcase_add_test(tests, a_crowd_is_told_of_in_part);
    tcase_add_test(tests, what_is_queued_comes_out_in_order);
    suite_add_tcase(suite, tests);
    return lq_test_run(suite);
}
