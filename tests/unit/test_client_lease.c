/* Leases in the client's core: renewals and releases on request, the confirmation of a grant that
 * waited long, and leases that are kept. */
#include "client_rig.h"
#include "lq_lease.h"

static struct lq_lease lease;

static void setup_lease(void)
{
    setup();
    lease = (struct lq_lease){0};
}

static void teardown_lease(void)
{
    lq_core_unkeep(core, &lease);
    teardown();
}

/* ---- Release and renew. */

START_TEST(release_is_repeated)
{
    struct lq_channel *channel;
    struct lq_frame frame;
    (void)submit(LQ_GOAL_RELEASE, 1000);
    channel = connect_now(1000);
    ck_assert_int_eq(written(channel, 1000).op, 'R');
    lq_core_lost(core, channel, 1000, LQ_WHY_EOF, 0);
    channel = connect_now(1100);
    frame = written(channel, 1100);
    ck_assert_uint_eq(frame.token, TOKEN);
    answer(channel, frame, 'N', 1101);
    expect(LOQUET_NOT_HELD, 1101);
    ck_assert(outcome.repeated);
    (void)submit(LQ_GOAL_RELEASE, 2000);
    answer(channel, written(channel, 2000), 'R', 2001);
    expect(LOQUET_RELEASED, 2001);
    ck_assert(!outcome.repeated);
}
END_TEST

START_TEST(renewal_counts_from_its_sending)
{
    struct lq_channel *channel;
    struct lq_frame frame;
    (void)submit(LQ_GOAL_RENEW, 1000);
    channel = connect_now(1000);
    frame = written(channel, 1010);
    ck_assert_int_eq(frame.op, 'K');
    ck_assert_int_eq(frame.lease_s, 30);
    answer(channel, frame, 'K', 1500);
    expect(LOQUET_RENEWED, 1500);
    ck_assert_uint_eq(outcome.sent_ms, 1010);
    ck_assert_uint_eq(outcome.ends_ms, 1010 + 29400);
}
END_TEST

START_TEST(unanswered_is_indeterminate)
{
    static const enum lq_goal goals[] = {LQ_GOAL_RELEASE, LQ_GOAL_RENEW, LQ_GOAL_PING};
    struct lq_channel *channel;
    (void)submit(goals[_i], 1000);
    lq_core_tick(core, 4000);
    expect(LOQUET_CLOSED, 4000); /* not sent */
    (void)submit(goals[_i], 5000);
    channel = connect_now(5000);
    (void)written(channel, 5000);
    lq_core_tick(core, 8000);
    expect(goals[_i] == LQ_GOAL_PING ? LOQUET_CLOSED : LOQUET_INDETERMINATE, 8000);
    ck_assert_int_eq(outcome.why, LQ_WHY_SLOW);
    ck_assert(lq_core_is_idle(core));
    ck_assert(!lq_core_is_open(channel)); /* is not trusted any more */
}
END_TEST

START_TEST(server_without_renewals)
{
    struct lq_channel *channel;
    (void)submit(LQ_GOAL_RENEW, 1000);
    channel = connect_now(1000);
    answer(channel, written(channel, 1000), 'E', 1001);
    expect(LOQUET_INVALID, 1001);
    ck_assert_int_eq(outcome.why, LQ_WHY_ERROR_FRAME);
    ck_assert_int_eq(outcome.error_code, LQ_WIRE_UNKNOWN_OP);
    ck_assert(!lq_core_is_open(channel));
}
END_TEST

START_TEST(error_that_may_be_anybodys)
{
    struct lq_channel *channel;
    struct lq_frame frame;
    (void)submit(LQ_GOAL_RENEW, 1000);
    (void)acquire(0, 30, 1000);
    (void)submit(LQ_GOAL_RELEASE, 1000);
    channel = connect_now(1000);
    for (int i = 0; i < 3; i++) {
        frame = written(channel, 1000);
    }
    answer(channel, frame, 'E', 1001);
    expect(LOQUET_INDETERMINATE, 1001); /* the acquire */
    expect_nothing(1001);
    channel = connect_now(1100);
    frame = written(channel, 1100); /* the others are asked again */
    ck_assert(frame.op == 'R' || frame.op == 'K');
    frame = written(channel, 1100);
    ck_assert(frame.op == 'R' || frame.op == 'K');
}
END_TEST

/* ---- Long waits: K counts anew (design, section 10). */

/* A grant after `waited_ms` of a wait of a minute is to be confirmed with the frame returned. */
static struct lq_frame confirming(uint32_t lease_s, uint64_t waited_ms,
                                  struct lq_channel **ret_channel)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(60000, lease_s, 1000, &frame);
    answer(channel, frame, 'A', 1000 + waited_ms);
    expect_nothing(1000 + waited_ms);
    *ret_channel = connect_now(1000 + waited_ms);
    frame = written(*ret_channel, 1002 + waited_ms);
    ck_assert_int_eq(frame.op, 'K');
    ck_assert_uint_eq(frame.token, TOKEN);
    return frame;
}

START_TEST(long_wait_is_confirmed)
{
    struct lq_channel *common;
    struct lq_frame frame = confirming(30, 15001, &common);
    answer(common, frame, 'K', 16010);
    expect(LOQUET_ACQUIRED, 16010);
    ck_assert_uint_eq(outcome.ends_ms, 16003 + 29400);
}
END_TEST

START_TEST(half_a_lease_needs_no_confirmation)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(60000, 30, 1000, &frame);
    answer(channel, frame, 'A', 16000);
    expect(LOQUET_ACQUIRED, 16000);
}
END_TEST

START_TEST(unconfirmed_keeps_the_earlier_end)
{
    struct lq_channel *common;
    (void)confirming(30, 16000, &common);
    lq_core_tick(core, 17000 + LQ_ANSWER_MARGIN_MS);
    expect(LOQUET_ACQUIRED, 18250);
    ck_assert_uint_eq(outcome.ends_ms, 1000 + 29400);
}
END_TEST

START_TEST(unconfirmed_after_the_lease_is_given_back)
{
    struct lq_channel *common;
    (void)confirming(1, 16000, &common);
    lq_core_tick(core, 17000 + LQ_ANSWER_MARGIN_MS);
    expect_late(18250);
}
END_TEST

START_TEST(refused_confirmation)
{
    struct lq_channel *common;
    struct lq_frame frame = confirming(1, 16000, &common);
    answer(common, frame, 'N', 17003);
    expect(LOQUET_INDETERMINATE, 17003);
    ck_assert_int_eq(outcome.why, LQ_WHY_LEASE_OVER);
    ck_assert(lq_core_is_idle(core));
}
END_TEST

START_TEST(given_up_while_being_confirmed)
{
    struct lq_frame frame;
    struct lq_request *request = acquire(60000, 30, 1000);
    struct lq_channel *channel = connect_now(1000), *common;
    frame = written(channel, 1000);
    answer(channel, frame, 'A', 17000);
    common = connect_now(17000);
    frame = written(common, 17000);
    lq_core_give_up(core, request, 17001);
    expect(LOQUET_INDETERMINATE, 17001);
    answer(common, frame, 'K', 17001);
    expect_chore(common, 17002);
}
END_TEST

/* ---- Kept leases. */

static void keep(uint32_t lease_s, uint64_t sent_ms)
{
    struct lq_order lock = order_of(LQ_GOAL_RENEW, sent_ms);
    lock.lease_s = lease_s;
    lq_core_keep(core, &lease, &lock,
                 &(struct lq_known){sent_ms, sent_ms + (uint64_t)lease_s * 980, UINT32_MAX});
}

static void expect_loss(enum loquet_loss loss, uint64_t now_ms)
{
    enum loquet_loss got;
    ck_assert_ptr_eq(lq_core_take_lost(core, now_ms, &got), &lease);
    ck_assert_int_eq(got, loss);
    ck_assert_ptr_null(lq_core_take_lost(core, now_ms, &got));
}

static void expect_no_loss(uint64_t now_ms)
{
    enum loquet_loss loss;
    ck_assert_ptr_null(lq_core_take_lost(core, now_ms, &loss));
}

START_TEST(kept_lease_is_renewed_again_and_again)
{
    struct lq_channel *channel = NULL;
    uint64_t now_ms = 1000;
    keep(30, now_ms);
    for (int i = 0; i < 5; i++) {
        struct lq_frame frame;
        ck_assert_uint_eq(lq_core_due_ms(core), now_ms + 10000);
        now_ms += 10000;
        lq_core_tick(core, now_ms - 1);
        ck_assert(!lq_core_is_waiting(core));
        lq_core_tick(core, now_ms);
        ck_assert(lq_core_is_waiting(core));
        channel = channel == NULL ? connect_now(now_ms) : channel;
        frame = written(channel, now_ms);
        ck_assert_int_eq(frame.op, 'K');
        ck_assert_uint_eq(frame.token, TOKEN);
        ck_assert_int_eq(frame.lease_s, 30);
        answer(channel, frame, 'K', now_ms + 7);
        ck_assert_uint_eq(lease.plan.ends_ms, now_ms + 29400);
    }
    expect_no_loss(now_ms);
    ck_assert(!lq_core_is_idle(core));
    lq_core_unkeep(core, &lease);
    ck_assert(lq_core_is_idle(core));
    ck_assert_uint_eq(lq_core_due_ms(core), LQ_NEVER);
}
END_TEST

START_TEST(refused_renewal_is_a_certain_loss)
{
    struct lq_channel *channel;
    keep(30, 1000);
    lq_core_tick(core, 11000);
    channel = connect_now(11000);
    answer(channel, written(channel, 11000), 'N', 11001);
    expect_loss(LOQUET_LOSS_CERTAIN, 11001);
    ck_assert(lq_core_is_idle(core));
}
END_TEST

START_TEST(loss_by_the_clock)
{
    uint64_t now_ms;
    struct lq_channel *channel;
    keep(30, 1000);
    lq_core_tick(core, 11000);
    channel = connect_now(11000);
    (void)written(channel, 11000);
    for (now_ms = 11001; now_ms < 1000 + 29400 - 1000; now_ms++) { /* nothing is answered */
        size_t address;
        lq_core_tick(core, now_ms);
        channel = lq_core_next_dial(core, now_ms, &address);
        if (channel != NULL) {
            lq_core_connected(core, channel, now_ms);
        }
        channel = lq_core_next_output(core);
        if (channel != NULL) {
            (void)written(channel, now_ms);
        }
        expect_no_loss(now_ms);
        (void)closed();
    }
    expect_loss(LOQUET_LOSS_POSSIBLE, now_ms);
    ck_assert(lq_core_is_idle(core)); /* and is not renewed any more */
}
END_TEST

START_TEST(loss_without_a_tick)
{
    keep(30, 1000);
    expect_no_loss(1000 + 28399);
    expect_loss(LOQUET_LOSS_POSSIBLE, 1000 + 28400);
}
END_TEST

START_TEST(unkept_while_being_renewed)
{
    struct lq_channel *channel;
    struct lq_frame renewal, release;
    keep(30, 1000);
    lq_core_tick(core, 11000); /* queued */
    lq_core_unkeep(core, &lease);
    ck_assert(lq_core_is_idle(core));
    keep(30, 1000);
    lq_core_tick(core, 11000);
    channel = connect_now(11000);
    renewal = written(channel, 11000); /* sent */
    lq_core_unkeep(core, &lease);
    lq_core_unkeep(core, &lease);
    ck_assert(lq_core_is_idle(core));
    (void)submit(LQ_GOAL_RELEASE, 11001);
    release = written(channel, 11001);
    answer(channel, renewal, 'K', 11002);
    answer(channel, release, 'R', 11003);
    expect(LOQUET_RELEASED, 11003);
    expect_no_loss(11003);
    ck_assert(lq_core_is_open(channel));
}
END_TEST

START_TEST(unkept_before_its_loss_is_told)
{
    keep(30, 1000);
    lq_core_tick(core, 1000 + 28400);
    lq_core_unkeep(core, &lease);
    expect_no_loss(1000 + 28400);
    ck_assert(lq_core_is_idle(core));
}
END_TEST

/* ---- The end of a client. */

START_TEST(shut_ends_everything)
{
    struct lq_frame waiting, zero, release;
    struct lq_channel *channel = acquire_sent(60000, 30, 1000, &waiting), *common;
    (void)acquire(0, 30, 1000);
    (void)submit(LQ_GOAL_RELEASE, 1000);
    common = connect_now(1000);
    zero = written(common, 1000);
    release = written(common, 1000);
    (void)submit(LQ_GOAL_RENEW, 1000); /* not sent */
    (void)acquire(60000, 30, 1000);    /* neither */
    keep(30, 1000);
    lq_core_shut(core, 2000);
    lq_core_shut(core, 2001);
    expect(LOQUET_TIMEOUT, 2000);
    ck_assert_int_eq(outcome.why, LQ_WHY_SHUT);
    (void)submit(LQ_GOAL_RELEASE, 2001);
    expect(LOQUET_CLOSED, 2001);
    ck_assert_int_eq(outcome.why, LQ_WHY_SHUT);
    ck_assert_int_eq(written(channel, 2002).op, 'C');
    answer(channel, waiting, 'A', 2003);
    expect(LOQUET_INDETERMINATE, 2003);
    answer(common, release, 'R', 2004);
    answer(common, zero, 'T', 2004);
    expect(LOQUET_RELEASED, 2004);
    expect(LOQUET_TIMEOUT, 2004);
    lq_core_tick(core, 2000 + LQ_CANCEL_MARGIN_MS);
    expect(LOQUET_CLOSED, 2500);       /* the renewal */
    ck_assert(!lq_core_is_idle(core)); /* the chore */
    ck_assert(!closed() || !lq_core_is_open(channel));
    lq_core_tick(core, 2003 + LQ_UNDO_MS);
    ck_assert(lq_core_is_idle(core));
    ck_assert_uint_eq(lq_core_due_ms(core), 0);
    ck_assert_uint_ge(closed(), 1);
    ck_assert_uint_eq(lq_core_due_ms(core), LQ_NEVER);
}
END_TEST

START_TEST(all_channels_are_dropped)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(60000, 30, 1000, &frame), *common;
    (void)submit(LQ_GOAL_RELEASE, 1000);
    common = connect_now(1000);
    (void)written(common, 1000);
    lq_core_drop_all(core, 1001);
    expect(LOQUET_INDETERMINATE, 1001);
    expect_nothing(1001);
    ck_assert(!lq_core_is_open(channel) && !lq_core_is_open(common));
    ck_assert_uint_eq(closed(), 2);
    common = connect_now(1001); /* a release can be repeated */
    ck_assert_int_eq(written(common, 1001).op, 'R');
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client lease");
    TCase *tcase = tcase_create("client lease");

    tcase_add_checked_fixture(tcase, setup_lease, teardown_lease);
    tcase_add_test(tcase, release_is_repeated);
    tcase_add_test(tcase, renewal_counts_from_its_sending);
    tcase_add_loop_test(tcase, unanswered_is_indeterminate, 0, 3);
    tcase_add_test(tcase, server_without_renewals);
    tcase_add_test(tcase, error_that_may_be_anybodys);
    tcase_add_test(tcase, long_wait_is_confirmed);
    tcase_add_test(tcase, half_a_lease_needs_no_confirmation);
    tcase_add_test(tcase, unconfirmed_keeps_the_earlier_end);
    tcase_add_test(tcase, unconfirmed_after_the_lease_is_given_back);
    tcase_add_test(tcase, refused_confirmation);
    tcase_add_test(tcase, given_up_while_being_confirmed);
    tcase_add_test(tcase, kept_lease_is_renewed_again_and_again);
    tcase_add_test(tcase, refused_renewal_is_a_certain_loss);
    tcase_add_test(tcase, loss_by_the_clock);
    tcase_add_test(tcase, loss_without_a_tick);
    tcase_add_test(tcase, unkept_while_being_renewed);
    tcase_add_test(tcase, unkept_before_its_loss_is_told);
    tcase_add_test(tcase, shut_ends_everything);
    tcase_add_test(tcase, all_channels_are_dropped);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
