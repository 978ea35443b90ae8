/* The seven duties of docs/protocol.md as transitions of the client's core, without a socket. */
#include "client_rig.h"

/* ---- Duty 1: one deadline, one owner. */

START_TEST(duty1_retries_keep_deadline_and_owner)
{
    struct lq_channel *channel;
    (void)acquire(5000, 30, 1000);
    channel = connect_now(1001);
    ck_assert_int_eq(shown(channel, 1001).wait_s, 5); /* nothing was taken by the kernel */
    lq_core_lost(core, channel, 3001, LQ_WHY_BROKEN, 0);
    ck_assert_uint_eq(closed(), 1);
    channel = connect_now(4500);
    ck_assert_uint_eq(shown(channel, 4500).owner, last_owner);
    ck_assert_uint_eq(lq_core_due_ms(core), 0); /* to be written */
    lq_core_full(core, channel);
    ck_assert_uint_le(lq_core_due_ms(core), 4500); /* another channel may take it */
    channel = connect_now(4500);
    ck_assert_uint_eq(written(channel, 4500).owner, last_owner);
    ck_assert_uint_eq(lq_core_due_ms(core), 6000);
    lq_core_tick(core, 6000);
    ck_assert_int_eq(written(channel, 6000).op, 'C');
}
END_TEST

START_TEST(duty1_queued_until_the_one_deadline)
{
    (void)acquire(100, 30, 1000);
    for (uint64_t now_ms = 1000; now_ms < 1100; now_ms++) {
        size_t address;
        struct lq_channel *channel = lq_core_next_dial(core, now_ms, &address);
        if (channel != NULL) {
            lq_core_lost(core, channel, now_ms, LQ_WHY_DIAL, 0);
        }
        lq_core_tick(core, now_ms);
        expect_nothing(now_ms);
    }
    lq_core_tick(core, 1100);
    expect(LOQUET_TIMEOUT, 1100);
    ck_assert_int_eq(outcome.why, LQ_WHY_DIAL);
    ck_assert(lq_core_is_idle(core));
}
END_TEST

/* ---- Duty 2: the wait on the wire. */

START_TEST(duty2_wire_wait_shrinks_and_is_rounded_up)
{
    struct lq_channel *channel;
    (void)acquire(5000, 30, 1000);
    channel = connect_now(1001);
    ck_assert_int_eq(shown(channel, 1001).wait_s, 5);
    ck_assert_int_eq(shown(channel, 3000).wait_s, 3);
    lq_core_lost(core, channel, 3001, LQ_WHY_BROKEN, 0);
    channel = connect_now(4500);
    ck_assert_int_eq(shown(channel, 4500).wait_s, 2);
    ck_assert_int_eq(shown(channel, 5000).wait_s, 1);
    ck_assert_int_eq(written(channel, 5999).wait_s, 1);
}
END_TEST

START_TEST(duty2_longest_wait_fits)
{
    struct lq_frame frame;
    (void)acquire_sent(LOQUET_WAIT_MAX, 255, 1000, &frame);
    ck_assert_int_eq(frame.wait_s, 255);
    ck_assert_int_eq(frame.lease_s, 255);
}
END_TEST

START_TEST(duty2_rest_of_a_frame_is_frozen)
{
    const uint8_t begin[] = {'A', 5, 30};
    struct lq_channel *channel;
    size_t n;
    (void)acquire(5000, 30, 1000);
    channel = connect_now(1000);
    write_some(channel, 1000, 2);
    ck_assert_mem_eq(lq_core_output(core, channel, 3000, &n), begin + 2, 1);
    ck_assert_uint_eq(n, 11 + 4 - 2);
}
END_TEST

/* ---- Duty 3: what is queued, and what may have been sent, at the deadline. */

START_TEST(duty3_queued_at_the_deadline_is_a_timeout)
{
    struct lq_channel *channel;
    (void)acquire(2000, 30, 1000);
    channel = connect_now(2999);
    expect_silence(channel, 3000);
    expect(LOQUET_TIMEOUT, 3000);
    ck_assert(!outcome.maybe_sent);
    ck_assert_int_eq(outcome.why, LQ_WHY_NOT_SENT);
    lq_core_lost(core, channel, 3500, LQ_WHY_EOF, 0);
    (void)acquire(2000, 30, 4000);
    (void)dial(4000);
    lq_core_tick(core, 5999);
    expect_nothing(5999);
    lq_core_tick(core, 6000);
    expect(LOQUET_TIMEOUT, 6000);
}
END_TEST

START_TEST(duty3_one_byte_may_have_been_enough)
{
    struct lq_channel *channel;
    (void)acquire(5000, 30, 1000);
    channel = connect_now(1000);
    write_some(channel, 1000, 1);
    lq_core_lost(core, channel, 1100, LQ_WHY_BROKEN, 32);
    expect(LOQUET_INDETERMINATE, 1100);
    ck_assert(outcome.maybe_sent);
    ck_assert_int_eq(outcome.why, LQ_WHY_BROKEN);
    ck_assert_int_eq(outcome.code, 32);
    expect_no_dial(2000); /* and is never sent again */
}
END_TEST

START_TEST(duty3_lost_after_the_write)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(5000, 30, 1000, &frame);
    lq_core_lost(core, channel, 1100, LQ_WHY_EOF, 0);
    expect(LOQUET_INDETERMINATE, 1100);
    ck_assert_int_eq(outcome.why, LQ_WHY_EOF);
}
END_TEST

START_TEST(duty3_cancel_and_the_answer_margin)
{
    static const char answers[] = {'T', 'B'};
    static const enum loquet_result results[] = {LOQUET_TIMEOUT, LOQUET_BUSY};
    struct lq_frame frame, cancel;
    struct lq_channel *channel = acquire_sent(2000, 30, 1000, &frame);
    lq_core_tick(core, 2999);
    expect_silence(channel, 2999);
    lq_core_tick(core, 3000);
    cancel = written(channel, 3000);
    ck_assert_int_eq(cancel.op, 'C');
    ck_assert_uint_eq(cancel.owner, frame.owner);
    answer(channel, frame, answers[_i], 3000 + LQ_ANSWER_MARGIN_MS);
    expect(results[_i], 4300);
    ck_assert(lq_core_is_open(channel));
}
END_TEST

START_TEST(duty3_grant_in_the_margin_is_given_back)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(2000, 30, 1000, &frame);
    lq_core_tick(core, 3000);
    ck_assert_int_eq(written(channel, 3000).op, 'C');
    answer(channel, frame, 'A', 3100);
    expect_late(3100);
}
END_TEST

START_TEST(duty3_margin_over_closes_the_session)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(2000, 30, 1000, &frame);
    lq_core_tick(core, 3000);
    lq_core_tick(core, 3000 + LQ_ANSWER_MARGIN_MS - 1);
    expect_nothing(4249);
    lq_core_tick(core, 3000 + LQ_ANSWER_MARGIN_MS);
    expect(LOQUET_INDETERMINATE, 4250);
    ck_assert_int_eq(outcome.why, LQ_WHY_SLOW);
    ck_assert(!lq_core_is_open(channel));
    ck_assert_uint_eq(closed(), 1);
}
END_TEST

START_TEST(duty3_lost_in_the_margin)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(2000, 30, 1000, &frame);
    lq_core_tick(core, 3000);
    lq_core_lost(core, channel, 3001, LQ_WHY_EOF, 0);
    expect(LOQUET_INDETERMINATE, 3001);
}
END_TEST

/* ---- Duty 4: an acquire that may have been sent is never sent again. */

START_TEST(duty4_never_sent_again)
{
    struct lq_frame frame;
    struct lq_channel *channel;
    use_addresses(3);
    channel = acquire_sent(60000, 30, 1000, &frame);
    lq_core_lost(core, channel, 1001, LQ_WHY_BROKEN, 0);
    expect(LOQUET_INDETERMINATE, 1001);
    (void)acquire(60000, 30, 2000);
    channel = connect_now(2000);
    ck_assert_uint_eq(written(channel, 2000).owner, last_owner);
    expect_silence(channel, 2000);
}
END_TEST

/* ---- Duty 5: the gate, and the instant of the deadline. */

START_TEST(duty5_late_at_the_gate)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(2000, 30, 1000, &frame);
    answer(channel, frame, 'A', 2999);
    expect_late(3000);
    ck_assert(lq_core_is_open(channel)); /* the session need not be closed */
}
END_TEST

START_TEST(duty5_in_time_at_the_gate)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(2000, 30, 1000, &frame);
    answer(channel, frame, 'A', 2998);
    ck_assert_uint_eq(lq_core_due_ms(core), 0);
    expect(LOQUET_ACQUIRED, 2999);
    ck_assert_uint_eq(outcome.token, TOKEN);
    ck_assert_uint_eq(outcome.owner, last_owner);
    ck_assert_uint_eq(outcome.sent_ms, 1000);
    ck_assert_uint_eq(outcome.ends_ms, 1000 + 29400); /* counted from the sending */
    ck_assert_uint_eq(outcome.address, 0);
    ck_assert(lq_core_is_idle(core));
}
END_TEST

START_TEST(duty5_answer_in_the_instant_of_the_deadline)
{
    static const char answers[] = {'A', 'T', 'B'};
    static const enum loquet_result results[] = {LOQUET_INDETERMINATE, LOQUET_TIMEOUT, LOQUET_BUSY};
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(2000, 30, 1000, &frame);
    answer(channel, frame, answers[_i], 3000); /* is read before the tick */
    lq_core_tick(core, 3000);
    if (answers[_i] == 'A') {
        expect_late(3000);
    } else {
        expect(results[_i], 3000);
    }
}
END_TEST

START_TEST(duty5_gate_refuses_a_lease_that_is_over)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(100000, 1, 1000, &frame);
    answer(channel, frame, 'A', 1500);
    expect_late(1980);
}
END_TEST

/* The chore goes on over other channels until the lease must be over. */
START_TEST(duty5_chore_is_repeated)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(2000, 4, 1000, &frame);
    answer(channel, frame, 'A', 2999);
    expect(LOQUET_INDETERMINATE, 3000);
    channel = connect_now(3000);
    ck_assert_int_eq(written(channel, 3000).op, 'R');
    lq_core_lost(core, channel, 3001, LQ_WHY_EOF, 0);
    lq_core_lost(core, dial(3100), 3100, LQ_WHY_DIAL, 0);
    channel = connect_now(3200);
    ck_assert_int_eq(written(channel, 3200).op, 'R');
    ck_assert(!lq_core_is_idle(core));
    lq_core_tick(core, 7000); /* 4 s after the grant can have been at the latest */
    ck_assert(lq_core_is_idle(core));
    expect_nothing(7000);
}
END_TEST

/* ---- Duty 6: T and B are definitive. */

START_TEST(duty6_timeout_and_busy_are_definitive)
{
    static const char answers[] = {'T', 'B'};
    static const enum loquet_result results[] = {LOQUET_TIMEOUT, LOQUET_BUSY};
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(2000, 30, 1000, &frame);
    answer(channel, frame, answers[_i], 1500);
    lq_core_lost(core, channel, 1500, LQ_WHY_EOF, 0);
    expect(results[_i], 9000); /* however late it is fetched */
    ck_assert_int_eq(outcome.why, LQ_WHY_NOTHING);
}
END_TEST

/* ---- Duty 7: wait 0. */

START_TEST(duty7_wait_zero_has_five_seconds)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(0, 30, 1000, &frame);
    ck_assert_int_eq(frame.wait_s, 0);
    lq_core_tick(core, 3000); /* pings */
    answer(channel, written(channel, 3000), 'P', 3000);
    lq_core_tick(core, 5999);
    expect_nothing(5999);
    lq_core_tick(core, 6000);
    expect(LOQUET_INDETERMINATE, 6000);
    ck_assert(!lq_core_is_open(channel));
    (void)acquire(0, 30, 7000);
    (void)dial(11000);
    lq_core_tick(core, 12000);
    expect(LOQUET_CLOSED, 12000);
    ck_assert(!outcome.maybe_sent);
}
END_TEST

START_TEST(duty7_unsent_goes_to_another_address)
{
    size_t first, second;
    struct lq_channel *channel;
    struct lq_frame frame;
    use_addresses(2);
    (void)acquire(0, 30, 1000);
    channel = lq_core_next_dial(core, 1000, &first);
    lq_core_lost(core, channel, 1001, LQ_WHY_DIAL, 0);
    channel = lq_core_next_dial(core, 1001, &second);
    ck_assert_ptr_nonnull(channel);
    ck_assert_uint_ne(first, second);
    lq_core_connected(core, channel, 1002);
    frame = written(channel, 1002);
    ck_assert_uint_eq(frame.owner, last_owner);
    ck_assert_int_eq(frame.wait_s, 0);
    answer(channel, frame, 'T', 1003);
    expect(LOQUET_TIMEOUT, 1003);
    ck_assert(outcome.maybe_sent);
}
END_TEST

START_TEST(duty7_each_server_is_tried_once)
{
    use_addresses(3);
    (void)acquire(0, 30, 1000);
    for (int i = 0; i < 3; i++) {
        expect_nothing(1000);
        lq_core_lost(core, dial(1000), 1000, LQ_WHY_DIAL, 111);
    }
    expect(LOQUET_CLOSED, 1000);
    ck_assert_int_eq(outcome.code, 111);
    ck_assert_uint_lt(outcome.address, 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client duties");
    TCase *tcase = tcase_create("client duties");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, duty1_retries_keep_deadline_and_owner);
    tcase_add_test(tcase, duty1_queued_until_the_one_deadline);
    tcase_add_test(tcase, duty2_wire_wait_shrinks_and_is_rounded_up);
    tcase_add_test(tcase, duty2_longest_wait_fits);
    tcase_add_test(tcase, duty2_rest_of_a_frame_is_frozen);
    tcase_add_test(tcase, duty3_queued_at_the_deadline_is_a_timeout);
    tcase_add_test(tcase, duty3_one_byte_may_have_been_enough);
    tcase_add_test(tcase, duty3_lost_after_the_write);
    tcase_add_loop_test(tcase, duty3_cancel_and_the_answer_margin, 0, 2);
    tcase_add_test(tcase, duty3_grant_in_the_margin_is_given_back);
    tcase_add_test(tcase, duty3_margin_over_closes_the_session);
    tcase_add_test(tcase, duty3_lost_in_the_margin);
    tcase_add_test(tcase, duty4_never_sent_again);
    tcase_add_test(tcase, duty5_late_at_the_gate);
    tcase_add_test(tcase, duty5_in_time_at_the_gate);
    tcase_add_loop_test(tcase, duty5_answer_in_the_instant_of_the_deadline, 0, 3);
    tcase_add_test(tcase, duty5_gate_refuses_a_lease_that_is_over);
    tcase_add_test(tcase, duty5_chore_is_repeated);
    tcase_add_loop_test(tcase, duty6_timeout_and_busy_are_definitive, 0, 2);
    tcase_add_test(tcase, duty7_wait_zero_has_five_seconds);
    tcase_add_test(tcase, duty7_unsent_goes_to_another_address);
    tcase_add_test(tcase, duty7_each_server_is_tried_once);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
