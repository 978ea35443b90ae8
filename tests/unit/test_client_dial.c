/* Addresses, health and backoff of the client's core. */
#include "client_rig.h"
#include "lq_dial.h"

/* Fails dials from `*now_ms` on, for as long as it takes to try `n` of them. Tells when the last
 * was. */
static void fail_dials(size_t n, uint64_t *now_ms)
{
    for (size_t failed = 0; failed < n; ++*now_ms) {
        size_t address;
        struct lq_channel *channel = lq_core_next_dial(core, *now_ms, &address);
        if (channel != NULL) {
            lq_core_lost(core, channel, *now_ms, LQ_WHY_DIAL, 111);
            (void)closed();
            failed++;
        }
    }
}

START_TEST(every_address_is_tried)
{
    bool seen[5] = {false};
    use_addresses(5);
    (void)acquire(60000, 30, 1000);
    for (int i = 0; i < 5; i++) {
        size_t address;
        struct lq_channel *channel = lq_core_next_dial(core, 1000, &address);
        ck_assert_uint_lt(address, 5);
        ck_assert(!seen[address]);
        seen[address] = true;
        ck_assert(!lq_core_wants_lookup(core));
        lq_core_lost(core, channel, 1000, LQ_WHY_DIAL, 111);
    }
    expect_no_dial(1000);
    ck_assert(lq_core_wants_lookup(core));
    ck_assert(!lq_core_wants_lookup(core));
}
END_TEST

START_TEST(pauses_grow_and_have_jitter)
{
    uint64_t now_ms = 1000, before_ms;
    bool differ = false;
    (void)acquire(250000, 30, 1000);
    for (uint64_t backoff_ms = LQ_BACKOFF_MIN_MS; now_ms < 100000;) {
        uint64_t pause_ms;
        before_ms = now_ms - 1;
        fail_dials(1, &now_ms);
        pause_ms = now_ms - 1 - before_ms;
        if (before_ms >= 1000) {
            ck_assert_uint_ge(pause_ms, backoff_ms / 2);
            ck_assert_uint_le(pause_ms, backoff_ms);
            differ = differ || pause_ms != backoff_ms;
            backoff_ms = backoff_ms * 2 < LQ_BACKOFF_MAX_MS ? backoff_ms * 2 : LQ_BACKOFF_MAX_MS;
        }
    }
    ck_assert(differ);
}
END_TEST

START_TEST(success_ends_the_backoff)
{
    uint64_t now_ms = 1000;
    struct lq_channel *channel;
    (void)submit(LQ_GOAL_RELEASE, 1000);
    fail_dials(6, &now_ms);
    while (core->dial.not_before_ms > now_ms) {
        now_ms++;
    }
    channel = connect_now(now_ms);
    answer(channel, written(channel, now_ms), 'R', now_ms);
    expect(LOQUET_RELEASED, now_ms);
    ck_assert_uint_eq(core->dial.backoff_ms, LQ_BACKOFF_MIN_MS);
}
END_TEST

START_TEST(dial_takes_at_most_so_long)
{
    (void)submit(LQ_GOAL_RELEASE, 1000);
    (void)dial(1000);
    ck_assert(lq_core_is_waiting(core));
    ck_assert_uint_eq(lq_core_due_ms(core), 1000 + LQ_DIAL_MS);
    lq_core_tick(core, 1000 + LQ_DIAL_MS);
    ck_assert_uint_eq(closed(), 1);
    ck_assert_uint_gt(core->dial.not_before_ms, 3000);
}
END_TEST

/* A server that takes connections and ends them is no better than one that takes none. */
START_TEST(connection_without_an_answer_is_a_failure)
{
    struct lq_channel *channel;
    (void)submit(LQ_GOAL_RELEASE, 1000);
    channel = connect_now(1000);
    (void)written(channel, 1000);
    lq_core_lost(core, channel, 1001, LQ_WHY_EOF, 0);
    expect_no_dial(1001);
    ck_assert(lq_core_wants_lookup(core));
    ck_assert_uint_eq(closed(), 1);
    ck_assert_uint_eq(lq_core_due_ms(core), core->dial.not_before_ms);
}
END_TEST

START_TEST(idle_connection_that_ended_is_excused)
{
    struct lq_channel *channel;
    struct lq_frame frame;
    use_addresses(3);
    (void)submit(LQ_GOAL_PING, 1000);
    channel = connect_now(1000);
    answer(channel, written(channel, 1000), 'P', 1001);
    expect(LOQUET_ALIVE, 1001);
    ck_assert_uint_eq(outcome.address, channel->address);
    (void)submit(LQ_GOAL_RELEASE, 2000);
    frame = written(channel, 2000);
    lq_core_lost(core, channel, 2000, LQ_WHY_EOF, 0); /* it may have been dead for long */
    ck_assert_uint_eq(dial(2000)->address, channel->address);
    (void)frame;
}
END_TEST

START_TEST(broken_address_is_left)
{
    struct lq_channel *channel, *other;
    struct lq_frame frame;
    use_addresses(2);
    (void)submit(LQ_GOAL_RELEASE, 1000);
    (void)acquire(0, 30, 1000);
    channel = connect_now(1000);
    frame = written(channel, 1000);
    (void)written(channel, 1000);
    answer(channel, frame, 'R', 1001);
    expect(LOQUET_RELEASED, 1001);
    lq_core_lost(core, channel, 1002, LQ_WHY_BROKEN, 104);
    expect(LOQUET_INDETERMINATE, 1002);
    ck_assert_int_eq(outcome.code, 104);
    (void)submit(LQ_GOAL_RELEASE, 1003);
    other = dial(1003);
    ck_assert_uint_ne(other->address, channel->address);
    lq_core_lost(core, other, 1004, LQ_WHY_DIAL, 111); /* then the first one again */
    ck_assert_uint_eq(dial(1004)->address, channel->address);
}
END_TEST

/* Many connections to one dead server fail at once: that is one failure. */
START_TEST(one_dead_server_is_one_failure)
{
    struct lq_channel *channels[5];
    use_addresses(2);
    for (int i = 0; i < 40; i++) {
        (void)acquire(60000, 30, 1000);
    }
    channels[0] = connect_now(1000);
    for (int i = 1; i < 5; i++) {
        channels[i] = dial(1000);
    }
    for (int i = 1; i < 5; i++) {
        lq_core_lost(core, channels[i], 1001, LQ_WHY_DIAL, 111);
    }
    ck_assert_uint_eq(core->dial.failures, 1);
    ck_assert_uint_ne(dial(1001)->address, channels[0]->address);
    expect_no_dial(1001); /* one at a time again */
}
END_TEST

START_TEST(waits_follow_to_the_other_address)
{
    struct lq_frame frame;
    struct lq_channel *old, *common;
    use_addresses(2);
    old = acquire_sent(60000, 30, 1000, &frame);
    (void)submit(LQ_GOAL_RELEASE, 1000);
    common = connect_now(1000);
    (void)written(common, 1000);
    lq_core_tick(core, 2000); /* too slow: to the other address */
    ck_assert_uint_ne(connect_now(2000)->address, old->address);
    (void)acquire(60000, 30, 2001); /* there is room on `old`, but not there */
    ck_assert_uint_ne(dial(2001)->address, old->address);
    answer(old, frame, 'A', 2002); /* what waits there goes on */
    expect(LOQUET_ACQUIRED, 2002);
    ck_assert(!lq_core_is_open(old));
}
END_TEST

START_TEST(one_round_is_tried_anew_for_each_request)
{
    struct lq_order order;
    use_addresses(3);
    (void)acquire(60000, 30, 1000); /* goes on */
    lq_core_lost(core, dial(1000), 1000, LQ_WHY_DIAL, 111);
    lq_core_lost(core, dial(1000), 1000, LQ_WHY_DIAL, 111);
    order = order_of(LQ_GOAL_RELEASE, 1000);
    order.redial_until_ms = 0;
    (void)lq_core_submit(core, &order, 1000);
    lq_core_lost(core, dial(1000), 1000, LQ_WHY_DIAL, 111);
    expect_nothing(1000); /* it has seen one address fail, not three */
    for (int i = 0; i < 2; i++) {
        expect_nothing(1020);
        lq_core_lost(core, dial(1020), 1020, LQ_WHY_DIAL, 111);
    }
    expect(LOQUET_CLOSED, 1020);
    expect_nothing(1020);
}
END_TEST

START_TEST(addresses_are_replaced)
{
    struct lq_channel *channel, *other;
    struct lq_frame frame;
    use_addresses(9);
    (void)acquire(0, 30, 1000);
    channel = connect_now(1000);
    frame = written(channel, 1000);
    (void)acquire(60000, 30, 1000);
    (void)dial(1000);
    lq_core_set_addresses(core, 1);
    ck_assert_uint_eq(closed(), 1); /* what was being dialled */
    other = dial(1001);
    ck_assert_uint_eq(other->address, 0);
    answer(channel, frame, 'T', 1002); /* stays */
    expect(LOQUET_TIMEOUT, 1002);
    ck_assert_uint_eq(outcome.address, SIZE_MAX); /* not one of the present ones */
}
END_TEST

START_TEST(trouble_of_a_request_under_way)
{
    struct lq_outcome trouble = {.token = 5};
    struct lq_request *request = acquire(60000, 30, 1000);
    struct lq_channel *channel = dial(1000);
    int io = 0;
    void *got;
    lq_core_set_io(channel, &io);
    ck_assert_ptr_eq(lq_core_io(channel), &io);
    lq_core_trouble(request, &trouble);
    ck_assert_int_eq(trouble.why, LQ_WHY_NOTHING);
    ck_assert_uint_eq(trouble.address, SIZE_MAX);
    lq_core_lost(core, channel, 1001, LQ_WHY_DIAL, 111);
    lq_core_lost(core, channel, 1001, LQ_WHY_DIAL, 112); /* once is enough */
    lq_core_trouble(request, &trouble);
    ck_assert_int_eq(trouble.why, LQ_WHY_DIAL);
    ck_assert_int_eq(trouble.code, 111);
    ck_assert_uint_eq(trouble.address, 0);
    ck_assert_uint_eq(trouble.token, 5);
    ck_assert_ptr_eq(lq_core_next_closed(core, &got), channel);
    ck_assert_ptr_eq(got, &io);
}
END_TEST

/* An idle connection to an address that was left ends by a tick, which the core asks for. */
START_TEST(idle_connection_to_a_left_address)
{
    struct lq_frame frame;
    struct lq_channel *idle, *common, *other;
    use_addresses(2);
    idle = acquire_sent(60000, 30, 1000, &frame);
    answer(idle, frame, 'T', 1001);
    expect(LOQUET_TIMEOUT, 1001);
    (void)submit(LQ_GOAL_RELEASE, 1002);
    common = connect_now(1002);
    (void)written(common, 1002);
    lq_core_tick(core, 2002); /* too slow: the address is left */
    (void)closed();
    other = connect_now(2002);
    (void)written(other, 2002);
    (void)acquire(60000, 30, 2003);
    (void)written(connect_now(2003), 2003);
    ck_assert_uint_gt(lq_core_due_ms(core), 0); /* there is nothing to drain */
    ck_assert_uint_le(lq_core_due_ms(core), 2003);
    lq_core_tick(core, 2003);
    ck_assert(!lq_core_is_open(idle));
}
END_TEST

START_TEST(pause_is_not_kept_for_later)
{
    uint64_t now_ms = 1000;
    (void)acquire(2000, 30, 1000);
    fail_dials(8, &now_ms);
    lq_core_tick(core, 3000);
    expect(LOQUET_TIMEOUT, 3000);
    ck_assert_uint_gt(core->dial.not_before_ms, 3000);
    (void)acquire(100, 30, 3000); /* nobody waits: its first round starts now */
    (void)dial(3000);
    ck_assert_uint_eq(core->dial.backoff_ms, LQ_BACKOFF_MIN_MS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client dial");
    TCase *tcase = tcase_create("client dial");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, every_address_is_tried);
    tcase_add_test(tcase, pauses_grow_and_have_jitter);
    tcase_add_test(tcase, success_ends_the_backoff);
    tcase_add_test(tcase, dial_takes_at_most_so_long);
    tcase_add_test(tcase, connection_without_an_answer_is_a_failure);
    tcase_add_test(tcase, idle_connection_that_ended_is_excused);
    tcase_add_test(tcase, broken_address_is_left);
    tcase_add_test(tcase, one_dead_server_is_one_failure);
    tcase_add_test(tcase, waits_follow_to_the_other_address);
    tcase_add_test(tcase, one_round_is_tried_anew_for_each_request);
    tcase_add_test(tcase, addresses_are_replaced);
    tcase_add_test(tcase, trouble_of_a_request_under_way);
    tcase_add_test(tcase, idle_connection_to_a_left_address);
    tcase_add_test(tcase, pause_is_not_kept_for_later);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
