/* The seven duties of docs/protocol.md as transitions of the client's core, without a socket. */
#include "client_rig.h"

/* ---- Duties 1 and 2: one deadline, and the wait on the wire. */

START_TEST(grant_counts_from_the_sending)
{
    struct lq_frame frame;
    begin(LQ_GOAL_ACQUIRE, 0, 30, 1000);
    connect_now(1100);
    frame = written(1200, -1);
    ck_assert_int_eq(frame.wait_s, 0);
    ck_assert_int_eq(frame.lease_s, 30);
    ck_assert_uint_eq(frame.owner, OWNER);
    answer('A', 1300);
    expect(LOQUET_ACQUIRED, 1300);
    ck_assert_uint_eq(outcome.token, TOKEN);
    ck_assert_uint_eq(outcome.ends_ms, 1200 + 29400);
}
END_TEST

START_TEST(wire_wait_shrinks_and_is_rounded_up)
{
    begin(LQ_GOAL_ACQUIRE, 5000, 30, 1000);
    connect_now(1001);
    ck_assert_int_eq(written(1001, 0).wait_s, 5); /* nothing was taken by the kernel */
    ck_assert_int_eq(written(3000, 0).wait_s, 3);
    lq_core_lost(&core, 3001, LQ_WHY_BROKEN);
    connect_now(4500);
    ck_assert_int_eq(written(4500, 0).wait_s, 2);
    ck_assert_uint_eq(written(5999, 0).owner, OWNER);
    ck_assert_int_eq(written(5999, -1).wait_s, 1);
    ck_assert_uint_eq(lq_core_due_ms(&core), 6000);
}
END_TEST

START_TEST(longest_wait_fits)
{
    begin(LQ_GOAL_ACQUIRE, LOQUET_WAIT_MAX, 255, 1000);
    connect_now(1000);
    ck_assert_int_eq(written(1000, -1).wait_s, 255);
}
END_TEST

/* ---- Duties 3 and 4: what may have been sent. */

START_TEST(queued_at_the_deadline_is_a_timeout)
{
    begin(LQ_GOAL_ACQUIRE, 2000, 30, 1000);
    connect_now(2999);
    expect_silence(3000);
    expect(LOQUET_TIMEOUT, 3000);
    ck_assert(!outcome.maybe_sent);
    begin(LQ_GOAL_ACQUIRE, 2000, 30, 4000);
    lq_core_tick(&core, 6000);
    expect(LOQUET_TIMEOUT, 6000);
}
END_TEST

START_TEST(one_byte_may_have_been_enough)
{
    size_t address;
    begin(LQ_GOAL_ACQUIRE, 5000, 30, 1000);
    connect_now(1000);
    (void)written(1000, 1);
    lq_core_lost(&core, 1100, LQ_WHY_BROKEN);
    ck_assert(!lq_core_dial(&core, 1100, &address)); /* and is never sent again */
    expect(LOQUET_INDETERMINATE, 1100);
}
END_TEST

START_TEST(rest_of_a_frame_is_frozen)
{
    uint8_t frame[16] = {'A', 5, 30};
    size_t n;
    begin(LQ_GOAL_ACQUIRE, 5000, 30, 1000);
    connect_now(1000);
    (void)written(1000, 2);
    ck_assert_mem_eq(lq_core_output(&core, 3000, &n), frame + 2, 1);
    ck_assert_uint_eq(n, 11 + 4 - 2);
}
END_TEST

START_TEST(cancel_and_the_answer_margin)
{
    static const char answers[] = {'T', 'B'};
    static const enum loquet_result results[] = {LOQUET_TIMEOUT, LOQUET_BUSY};
    begin_sent(2000, 30, 1000);
    lq_core_tick(&core, 2999);
    expect_silence(2999);
    lq_core_tick(&core, 3000);
    ck_assert_int_eq(written(3000, -1).op, 'C');
    answer(answers[_i], 3000 + LQ_ANSWER_MARGIN_MS);
    expect(results[_i], 4300);
    ck_assert_int_eq(core.conn, LQ_CONN_OPEN);
}
END_TEST

START_TEST(grant_in_the_margin_is_given_back)
{
    begin_sent(2000, 30, 1000);
    lq_core_tick(&core, 3000);
    ck_assert_int_eq(written(3000, -1).op, 'C');
    answer('A', 3100);
    expect_undo(3100);
}
END_TEST

START_TEST(margin_over_closes_the_session)
{
    begin_sent(2000, 30, 1000);
    lq_core_tick(&core, 3000);
    lq_core_tick(&core, 3000 + LQ_ANSWER_MARGIN_MS - 1);
    expect_nothing(4249);
    lq_core_tick(&core, 3000 + LQ_ANSWER_MARGIN_MS);
    expect(LOQUET_INDETERMINATE, 4250);
    ck_assert_int_eq(core.conn, LQ_CONN_NONE);
}
END_TEST

START_TEST(undo_goes_on_elsewhere_and_ends)
{
    begin_sent(2000, 30, 1000);
    answer('A', 3000); /* in the instant of the deadline is late */
    ck_assert_int_eq(written(3000, -1).op, 'R');
    lq_core_lost(&core, 3001, LQ_WHY_EOF);
    expect(LOQUET_INDETERMINATE, 3001);
}
END_TEST

/* ---- Duty 5: the gate. */

START_TEST(late_at_the_gate)
{
    begin_sent(2000, 30, 1000);
    answer('A', 2999);
    expect_undo(3000);
}
END_TEST

START_TEST(gate_refuses_a_lease_that_is_over)
{
    begin_sent(100000, 1, 1000);
    answer('A', 1500);
    expect_undo(1980);
}
END_TEST

/* ---- Long waits: K counts anew (design, section 10). */

START_TEST(long_wait_is_confirmed)
{
    begin_sent(60000, 30, 1000);
    answer('A', 16001);
    expect_nothing(16001);
    ck_assert_int_eq(written(16002, -1).op, 'K');
    answer('K', 16010);
    expect(LOQUET_ACQUIRED, 16010);
    ck_assert_uint_eq(outcome.ends_ms, 16002 + 29400);
}
END_TEST

START_TEST(unconfirmed_keeps_the_earlier_end)
{
    begin_sent(60000, 30, 1000);
    answer('A', 17000);
    ck_assert_int_eq(written(17000, -1).op, 'K');
    lq_core_tick(&core, 17000 + LQ_ANSWER_MARGIN_MS);
    expect(LOQUET_ACQUIRED, 18250);
    ck_assert_uint_eq(outcome.ends_ms, 1000 + 29400);
}
END_TEST

START_TEST(unconfirmed_after_the_lease_is_given_back)
{
    begin_sent(60000, 1, 1000);
    answer('A', 17000);
    ck_assert_int_eq(written(17000, -1).op, 'K');
    lq_core_tick(&core, 17000 + LQ_ANSWER_MARGIN_MS);
    connect_now(18250);
    expect_undo(18250);
}
END_TEST

START_TEST(refused_confirmation)
{
    begin_sent(60000, 1, 1000);
    answer('A', 17000);
    (void)written(17000, -1);
    answer('N', 17001);
    expect(LOQUET_INDETERMINATE, 17001);
}
END_TEST

/* ---- Duty 7: wait 0. */

START_TEST(wait_zero_has_five_seconds)
{
    begin_sent(0, 30, 1000);
    ck_assert_uint_eq(lq_core_due_ms(&core), 6000);
    lq_core_tick(&core, 6000);
    expect(LOQUET_INDETERMINATE, 6000);
    ck_assert_int_eq(core.conn, LQ_CONN_NONE);
    begin(LQ_GOAL_ACQUIRE, 0, 30, 7000);
    dial(7000);
    lq_core_tick(&core, 12000);
    expect(LOQUET_CLOSED, 12000);
}
END_TEST

START_TEST(unsent_goes_to_another_address)
{
    size_t first, second;
    lq_core_init(&core, 2, 7);
    begin(LQ_GOAL_ACQUIRE, 0, 30, 1000);
    ck_assert(lq_core_dial(&core, 1000, &first));
    lq_core_lost(&core, 1001, LQ_WHY_DIAL);
    ck_assert(lq_core_dial(&core, 1001, &second));
    ck_assert_uint_ne(first, second);
    lq_core_connected(&core, 1002);
    ck_assert_uint_eq(written(1002, -1).owner, OWNER);
    answer('T', 1003);
    expect(LOQUET_TIMEOUT, 1003); /* duty 6 */
    ck_assert(outcome.maybe_sent);
}
END_TEST

START_TEST(one_round_or_until_the_deadline)
{
    size_t address;
    lq_core_init(&core, 3, 8);
    begin(LQ_GOAL_ACQUIRE, 0, 30, 1000);
    for (int i = 0; i < 3; i++) {
        dial(1000);
        lq_core_tick(&core, 1000);
        lq_core_lost(&core, 1000, LQ_WHY_DIAL);
    }
    expect(LOQUET_CLOSED, 1000);
    begin(LQ_GOAL_ACQUIRE, 100, 30, 2000);
    for (uint64_t now_ms = 2000; now_ms < 2100; now_ms++) {
        if (lq_core_dial(&core, now_ms, &address)) {
            lq_core_lost(&core, now_ms, LQ_WHY_DIAL);
        }
        lq_core_tick(&core, now_ms);
    }
    expect_nothing(2099);
    lq_core_tick(&core, 2100);
    expect(LOQUET_TIMEOUT, 2100);
}
END_TEST

/* ---- Servers that say nothing, or nonsense. */

START_TEST(silent_server_is_pinged_and_left)
{
    struct lq_frame ping;
    begin_sent(60000, 30, 1000);
    for (uint64_t now_ms = 6000; now_ms < 20000; now_ms += 5000) {
        ck_assert_uint_eq(lq_core_due_ms(&core), now_ms);
        lq_core_tick(&core, now_ms);
        ping = written(now_ms, -1);
        ck_assert_int_eq(ping.op, 'P');
        answer_as('P', ping.owner, 0, "", now_ms);
    }
    lq_core_tick(&core, 21000);
    ck_assert_int_eq(written(21000, -1).op, 'P');
    lq_core_tick(&core, 30999);
    expect_nothing(30999);
    lq_core_tick(&core, 31000); /* 15 s after the last byte */
    expect(LOQUET_INDETERMINATE, 31000);
    ck_assert_int_eq(core.conn, LQ_CONN_NONE);
}
END_TEST

static const struct {
    char op;
    uint64_t owner, token;
    const char *key;
} unasked[] = {
    {'A', OWNER + 1, TOKEN, "key"}, {'A', OWNER, TOKEN, "kex"}, {'A', OWNER, TOKEN, "ke"},
    {'T', OWNER + 1, 0, "key"},     {'B', OWNER, 0, "keys"},    {'R', OWNER, TOKEN, "key"},
    {'K', OWNER, TOKEN, "key"},     {'N', OWNER, TOKEN, "key"}, {'P', 1, 0, ""},
    {'E', 0, 0, "go away"}};

START_TEST(answers_nobody_asked_for)
{
    begin_sent(5000, 30, 1000);
    answer_as(unasked[_i].op, unasked[_i].owner, unasked[_i].token, unasked[_i].key, 1001);
    ck_assert_int_eq(core.conn, LQ_CONN_NONE);
    expect(LOQUET_INDETERMINATE, 1001);
    begin(LQ_GOAL_ACQUIRE, 5000, 30, 2000); /* before it is sent it does no harm */
    connect_now(2000);
    answer_as(unasked[_i].op, unasked[_i].owner, unasked[_i].token, unasked[_i].key, 2001);
    expect_nothing(2001);
    connect_now(3000);
    ck_assert_int_eq(written(3000, -1).op, 'A');
}
END_TEST

START_TEST(bytes_that_are_no_answer)
{
    begin_sent(5000, 30, 1000);
    receive_bytes((const uint8_t *)"HTTP/1.1 400\r\n", 14, 1001);
    expect(LOQUET_INDETERMINATE, 1001);
    ck_assert_int_eq(core.why, LQ_WHY_GARBAGE);
}
END_TEST

/* ---- Giving up. */

START_TEST(caller_gives_up)
{
    begin(LQ_GOAL_ACQUIRE, 5000, 30, 1000);
    lq_core_cancel(&core, 1000);
    expect(LOQUET_CLOSED, 1000);
    begin_sent(5000, 30, 2000);
    lq_core_cancel(&core, 2100);
    ck_assert_int_eq(written(2100, -1).op, 'C');
    answer('A', 2200);
    expect_undo(2200);
    begin(LQ_GOAL_ACQUIRE, 5000, 30, 3000);
    (void)written(3000, -1);
    answer('A', 3001);
    lq_core_cancel(&core, 3002);
    expect_undo(3002);
}
END_TEST

/* Whatever happens, a request ends, within its deadline and the margins, and no check fails. */
START_TEST(random_events)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), 1);
    uint64_t now_ms = 1, rounds = lq_test_number("LQ_OPS", 20000);

    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t limit_ms = now_ms + 3000 + LQ_ANSWER_MARGIN_MS + LQ_UNDO_MS + 200;
        enum lq_goal goal = (enum lq_goal)(1 + lq_rand_below(&rand, 4));
        begin(goal, goal == LQ_GOAL_ACQUIRE ? 1 + (uint32_t)lq_rand_below(&rand, 3000) : 0,
              1 + (uint32_t)lq_rand_below(&rand, 3), now_ms);
        while (!lq_core_take(&core, now_ms, &outcome)) {
            static const char ops[] = "AATBRNKPE?";
            size_t n, address;
            ck_assert_uint_le(now_ms, limit_ms);
            now_ms += lq_rand_below(&rand, 2) * lq_rand_below(&rand, 100);
            (void)lq_core_dial(&core, now_ms, &address);
            if (core.conn == LQ_CONN_DIALLING && lq_rand_below(&rand, 2) == 0) {
                lq_core_connected(&core, now_ms);
            }
            (void)lq_core_output(&core, now_ms, &n);
            if (n > 0 && lq_rand_below(&rand, 2) == 0) {
                lq_core_wrote(&core, 1 + lq_rand_below(&rand, n));
            }
            if (core.conn == LQ_CONN_OPEN && lq_rand_below(&rand, 8) == 0) {
                char op = ops[lq_rand_below(&rand, sizeof ops - 1)];
                if (op == '?') {
                    receive_bytes((const uint8_t *)&op, 1, now_ms);
                } else {
                    answer_as(op, op == 'P' ? core.wire.nonce : OWNER, TOKEN,
                              op == 'P' ? "" : "key", now_ms);
                }
            }
            if (core.conn != LQ_CONN_NONE && lq_rand_below(&rand, 30) == 0) {
                lq_core_lost(&core, now_ms, LQ_WHY_BROKEN);
            }
            lq_core_tick(&core, now_ms);
        }
        if (outcome.result == LOQUET_ACQUIRED) {
            ck_assert_uint_lt(now_ms, outcome.ends_ms);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client core");
    TCase *tcase = tcase_create("client core");

    (void)lq_test_seed();
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, grant_counts_from_the_sending);
    tcase_add_test(tcase, wire_wait_shrinks_and_is_rounded_up);
    tcase_add_test(tcase, longest_wait_fits);
    tcase_add_test(tcase, queued_at_the_deadline_is_a_timeout);
    tcase_add_test(tcase, one_byte_may_have_been_enough);
    tcase_add_test(tcase, rest_of_a_frame_is_frozen);
    tcase_add_loop_test(tcase, cancel_and_the_answer_margin, 0, 2);
    tcase_add_test(tcase, grant_in_the_margin_is_given_back);
    tcase_add_test(tcase, margin_over_closes_the_session);
    tcase_add_test(tcase, undo_goes_on_elsewhere_and_ends);
    tcase_add_test(tcase, late_at_the_gate);
    tcase_add_test(tcase, gate_refuses_a_lease_that_is_over);
    tcase_add_test(tcase, long_wait_is_confirmed);
    tcase_add_test(tcase, unconfirmed_keeps_the_earlier_end);
    tcase_add_test(tcase, unconfirmed_after_the_lease_is_given_back);
    tcase_add_test(tcase, refused_confirmation);
    tcase_add_test(tcase, wait_zero_has_five_seconds);
    tcase_add_test(tcase, unsent_goes_to_another_address);
    tcase_add_test(tcase, one_round_or_until_the_deadline);
    tcase_add_test(tcase, silent_server_is_pinged_and_left);
    tcase_add_loop_test(tcase, answers_nobody_asked_for, 0,
                        (int)(sizeof unasked / sizeof *unasked));
    tcase_add_test(tcase, bytes_that_are_no_answer);
    tcase_add_test(tcase, caller_gives_up);
    tcase_add_test(tcase, random_events);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
