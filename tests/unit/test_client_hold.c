/* What a client knows of a lock that it holds, while renewals by itself, renewals by its caller and
 * copies of both that were never answered cross each other. */
#include "client_rig.h"
#include "lq_hold.h"

static struct lq_hold hold;

static void setup_hold(void)
{
    struct lq_outcome granted = {.token = TOKEN, .owner = OWNER, .sent_ms = 1000};

    setup();
    lq_hold_init(&hold, "key", 3, 0);
    granted.ends_ms = 1000 + 29400;
    lq_hold_granted(&hold, 30, &granted);
}

static void teardown_hold(void)
{
    lq_hold_unkeep(&hold, core);
    lq_hold_done(&hold);
    teardown();
}

/* The caller renews. */
static void begin(uint32_t lease_s, uint64_t now_ms)
{
    struct lq_order order = lq_hold_order(&hold, LQ_GOAL_RENEW, now_ms + LQ_TRANSPORT_MS);

    order.lease_s = lease_s;
    order.user = &hold;
    (void)lq_core_submit(core, &order, now_ms);
    lq_hold_begin_renewal(&hold, core, lease_s, now_ms);
}

static void end(enum loquet_result result, uint32_t lease_s, uint64_t began_ms, uint64_t now_ms)
{
    expect(result, now_ms);
    lq_hold_end_renewal(&hold, core, lease_s, began_ms, &outcome);
}

/* The caller renews for 100 s, which is answered at once: the end that is certain then. */
static uint64_t end_after_a_long_one(struct lq_channel *channel, uint64_t now_ms)
{
    begin(100, now_ms);
    channel = channel == NULL ? connect_now(now_ms) : channel;
    answer(channel, written(channel, now_ms), 'K', now_ms + 1);
    end(LOQUET_RENEWED, 100, now_ms, now_ms + 1);
    return lq_hold_ends_ms(&hold);
}

static void expect_loss(enum loquet_loss loss, uint64_t now_ms)
{
    enum loquet_loss got;

    ck_assert_ptr_eq(lq_core_take_lost(core, now_ms, &got), &hold.lease);
    ck_assert_int_eq(got, loss);
    lq_hold_lose(&hold, loss);
}

static void expect_no_loss(uint64_t now_ms)
{
    enum loquet_loss loss;
    ck_assert_ptr_null(lq_core_take_lost(core, now_ms, &loss));
}

/* ---- By the caller. */

START_TEST(renewed_counts_from_its_sending)
{
    struct lq_channel *channel;

    begin(100, 2000);
    channel = connect_now(2000);
    answer(channel, written(channel, 2010), 'K', 2500);
    end(LOQUET_RENEWED, 100, 2000, 2500);
    ck_assert_uint_eq(lq_hold_ends_ms(&hold), 2010 + 98000);
    ck_assert_uint_eq(hold.lease_s, 100);
}
END_TEST

/* It may have been executed at once, and the answer be late. */
START_TEST(shorter_one_counts_while_it_is_under_way)
{
    struct lq_channel *channel;

    begin(2, 2000);
    ck_assert_uint_eq(lq_hold_ends_ms(&hold), 2000 + 1960);
    channel = connect_now(2000);
    (void)written(channel, 2000);
    ck_assert(lq_hold_is_certain(&hold, 3959));
    ck_assert(!lq_hold_is_certain(&hold, 3960));
    lq_core_tick(core, 7000);
    end(LOQUET_INDETERMINATE, 2, 2000, 7000);
    ck_assert_uint_eq(lq_hold_ends_ms(&hold), 2000 + 1960);
}
END_TEST

START_TEST(one_that_was_not_sent_changes_nothing)
{
    begin(2, 2000);
    lq_core_tick(core, 7000);
    end(LOQUET_CLOSED, 2, 2000, 7000);
    ck_assert_uint_eq(lq_hold_ends_ms(&hold), 1000 + 29400);
}
END_TEST

/* The short one may be executed behind the long one. */
START_TEST(stray_stays_a_danger)
{
    struct lq_channel *channel;

    begin(5, 2000);
    channel = connect_now(2000);
    (void)written(channel, 2000);
    lq_core_tick(core, 7000);
    end(LOQUET_INDETERMINATE, 5, 2000, 7000);
    (void)closed();
    ck_assert_uint_eq(end_after_a_long_one(NULL, 8000), 8000 + 4900);
}
END_TEST

/* The one that was sent first was answered on its second try only. */
START_TEST(repeated_one_leaves_a_stray)
{
    struct lq_channel *channel;

    begin(5, 2000);
    channel = connect_now(2000);
    (void)written(channel, 2000);
    lq_core_lost(core, channel, 2100, LQ_WHY_EOF, 0);
    channel = connect_now(2200);
    answer(channel, written(channel, 2200), 'K', 2300);
    end(LOQUET_RENEWED, 5, 2000, 2300);
    ck_assert_uint_eq(lq_hold_ends_ms(&hold), 2200 + 4900);
    ck_assert_uint_eq(end_after_a_long_one(channel, 3000), 3000 + 4900);
}
END_TEST

START_TEST(two_at_a_time)
{
    struct lq_channel *channel;
    struct lq_frame first, second;

    begin(100, 2000);
    begin(5, 2001);
    channel = connect_now(2001);
    first = written(channel, 2001);
    second = written(channel, 2002);
    answer(channel, second, 'K', 2100); /* whatever the order of the executions was */
    answer(channel, first, 'K', 2100);
    expect(LOQUET_RENEWED, 2100);
    lq_hold_end_renewal(&hold, core, 5, 2001, &outcome);
    ck_assert_uint_le(lq_hold_ends_ms(&hold), 2002 + 4900);
    expect(LOQUET_RENEWED, 2100);
    lq_hold_end_renewal(&hold, core, 100, 2000, &outcome);
    ck_assert_uint_le(lq_hold_ends_ms(&hold), 2002 + 4900);
    ck_assert_uint_ge(lq_hold_ends_ms(&hold), 2001 + 4900);
}
END_TEST

START_TEST(gone_is_gone)
{
    struct lq_channel *channel;
    struct lq_frame first, second;

    begin(30, 2000);
    begin(30, 2000);
    channel = connect_now(2000);
    first = written(channel, 2000);
    second = written(channel, 2000);
    answer(channel, first, 'K', 2100);
    answer(channel, second, 'N', 2100);
    expect(LOQUET_RENEWED, 2100);
    struct lq_outcome renewed = outcome;
    expect(LOQUET_NOT_HELD, 2100);
    lq_hold_end_renewal(&hold, core, 30, 2000, &outcome);
    lq_hold_end_renewal(&hold, core, 30, 2000, &renewed); /* by another thread, later */
    ck_assert(!lq_hold_is_certain(&hold, 2100));
    ck_assert(!lq_hold_keep(&hold, core, 2100));
}
END_TEST

/* ---- By itself, too. */

START_TEST(not_by_itself_while_the_caller_renews)
{
    struct lq_channel *channel;
    struct lq_frame frame;

    ck_assert(lq_hold_keep(&hold, core, 1000));
    begin(60, 10900);
    channel = connect_now(10900);
    frame = written(channel, 10900);
    lq_core_tick(core, 11000); /* a third of the lease */
    ck_assert_ptr_null(lq_core_next_output(core));
    answer(channel, frame, 'K', 11100);
    end(LOQUET_RENEWED, 60, 10900, 11100);
    ck_assert_uint_eq(lq_hold_ends_ms(&hold), 10900 + 58800);
    lq_core_tick(core, 10900 + 19999);
    ck_assert_ptr_null(lq_core_next_output(core));
    lq_core_tick(core, 10900 + 20000);
    frame = written(channel, 10900 + 20000);
    ck_assert_int_eq(frame.lease_s, 60);
    answer(channel, frame, 'K', 31000);
    ck_assert_uint_eq(lq_hold_ends_ms(&hold), 30900 + 58800);
}
END_TEST

START_TEST(goes_on_by_itself_when_the_caller_failed)
{
    struct lq_channel *channel;
    uint64_t now_ms;

    ck_assert(lq_hold_keep(&hold, core, 1000));
    begin(60, 10000);
    lq_core_tick(core, 15000);
    end(LOQUET_CLOSED, 60, 10000, 15000);
    now_ms = 15000;
    lq_core_tick(core, now_ms);
    channel = connect_now(now_ms);
    answer(channel, written(channel, now_ms), 'K', now_ms);
    ck_assert_uint_eq(lq_hold_ends_ms(&hold), now_ms + 29400);
}
END_TEST

START_TEST(own_one_answered_first_is_no_danger)
{
    struct lq_channel *channel;
    struct lq_frame own;

    ck_assert(lq_hold_keep(&hold, core, 1000));
    lq_core_tick(core, 11000);
    channel = connect_now(11000);
    own = written(channel, 11000);
    begin(100, 11001);
    answer(channel, own, 'K', 11002);
    answer(channel, written(channel, 11002), 'K', 11003);
    end(LOQUET_RENEWED, 100, 11001, 11003);
    ck_assert_uint_eq(lq_hold_ends_ms(&hold), 11002 + 98000);
}
END_TEST

/* Nobody answers a renewal for two seconds: the lock may be lost by then, and its work must end. */
START_TEST(lost_by_the_clock_of_a_shorter_one)
{
    ck_assert(lq_hold_keep(&hold, core, 1000));
    begin(2, 2000);
    expect_no_loss(2000 + 1960 - 201);
    expect_loss(LOQUET_LOSS_POSSIBLE, 2000 + 1960 - 200);
    ck_assert(!lq_hold_is_certain(&hold, 3960));
}
END_TEST

/* Its own renewal for a short lease was repeated; the caller then wants a long one. */
START_TEST(own_stray_is_remembered)
{
    struct lq_channel *channel;

    ck_assert(lq_hold_keep(&hold, core, 1000));
    lq_core_tick(core, 11000);
    channel = connect_now(11000);
    (void)written(channel, 11000);
    lq_core_lost(core, channel, 11100, LQ_WHY_EOF, 0);
    channel = connect_now(11200);
    answer(channel, written(channel, 11200), 'K', 11201);
    ck_assert_uint_eq(end_after_a_long_one(channel, 12000), 12000 + 29400);
}
END_TEST

/* A grant whose confirmation was sent and not answered. */
START_TEST(confirmation_leaves_a_stray)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(60000, 30, 1000, &frame);
    struct lq_channel *common;

    answer(channel, frame, 'A', 17000);
    common = connect_now(17000);
    (void)written(common, 17000);
    lq_core_lost(core, common, 17001, LQ_WHY_EOF, 0);
    expect(LOQUET_ACQUIRED, 17001);
    ck_assert_uint_eq(outcome.n_stray, 1);
    lq_hold_granted(&hold, 30, &outcome);
    ck_assert_uint_eq(end_after_a_long_one(NULL, 18000), 18000 + 29400);
}
END_TEST

/* ---- Giving back, when the client is being closed. */

START_TEST(given_back_while_shut)
{
    struct lq_order acquire_order = order_of(LQ_GOAL_ACQUIRE, 1000);
    struct lq_channel *channel;
    struct lq_frame frame;

    lq_core_shut(core, 1000);
    lq_core_give_back(core, &acquire_order, TOKEN, 1000);
    ck_assert(!lq_core_is_idle(core));
    channel = connect_now(1000);
    frame = written(channel, 1000);
    ck_assert_int_eq(frame.op, 'R');
    ck_assert_uint_eq(frame.token, TOKEN);
    answer(channel, frame, 'R', 1001);
    ck_assert(lq_core_is_idle(core));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client hold");
    TCase *tcase = tcase_create("client hold");

    tcase_add_checked_fixture(tcase, setup_hold, teardown_hold);
    tcase_add_test(tcase, renewed_counts_from_its_sending);
    tcase_add_test(tcase, shorter_one_counts_while_it_is_under_way);
    tcase_add_test(tcase, one_that_was_not_sent_changes_nothing);
    tcase_add_test(tcase, stray_stays_a_danger);
    tcase_add_test(tcase, repeated_one_leaves_a_stray);
    tcase_add_test(tcase, two_at_a_time);
    tcase_add_test(tcase, gone_is_gone);
    tcase_add_test(tcase, not_by_itself_while_the_caller_renews);
    tcase_add_test(tcase, goes_on_by_itself_when_the_caller_failed);
    tcase_add_test(tcase, own_one_answered_first_is_no_danger);
    tcase_add_test(tcase, lost_by_the_clock_of_a_shorter_one);
    tcase_add_test(tcase, own_stray_is_remembered);
    tcase_add_test(tcase, confirmation_leaves_a_stray);
    tcase_add_test(tcase, given_back_while_shut);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
