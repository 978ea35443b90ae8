/* Which request goes over which connection of the client's core, and what the loss of one means. */
#include "client_rig.h"

/* ---- Sharing. */

/* Writes all acquires that wait for this channel, tells how many. */
static size_t write_acquires(struct lq_channel *channel, uint64_t now_ms,
                             struct lq_frame ret_frames[LQ_CHANNEL_WAITS])
{
    size_t n = 0, len;
    for (;;) {
        (void)lq_core_output(core, channel, now_ms, &len);
        if (len == 0) {
            return n;
        }
        ck_assert_uint_lt(n, LQ_CHANNEL_WAITS);
        ret_frames[n] = written(channel, now_ms);
        ck_assert_int_eq(ret_frames[n++].op, 'A');
    }
}

START_TEST(waits_share_connections)
{
    struct lq_frame frames[3][LQ_CHANNEL_WAITS];
    struct lq_channel *channels[3];
    for (int i = 0; i < 20; i++) {
        (void)acquire(60000, 30, 1000);
    }
    channels[0] = dial(1000);
    expect_no_dial(1000); /* one at a time, until the address has worked */
    lq_core_connected(core, channels[0], 1001);
    ck_assert_uint_eq(write_acquires(channels[0], 1001, frames[0]), LQ_CHANNEL_WAITS);
    channels[1] = dial(1001);
    channels[2] = dial(1001);
    expect_no_dial(1001);
    lq_core_connected(core, channels[1], 1002);
    lq_core_connected(core, channels[2], 1003);
    ck_assert_uint_eq(write_acquires(channels[1], 1003, frames[1]), LQ_CHANNEL_WAITS);
    ck_assert_uint_eq(write_acquires(channels[2], 1003, frames[2]), 4);

    answer(channels[1], frames[1][3], 'T', 1100); /* room for others */
    expect(LOQUET_TIMEOUT, 1100);
    for (int i = 0; i < 5; i++) {
        (void)acquire(60000, 30, 1100);
    }
    expect_no_dial(1100);
    ck_assert_uint_eq(write_acquires(channels[1], 1100, frames[1]) +
                          write_acquires(channels[2], 1100, frames[2]),
                      5);
}
END_TEST

START_TEST(others_share_one_connection)
{
    static const enum lq_goal goals[] = {LQ_GOAL_RELEASE, LQ_GOAL_RENEW, LQ_GOAL_PING};
    struct lq_frame frames[4];
    struct lq_channel *channel;
    for (size_t i = 0; i < 3; i++) {
        (void)submit(goals[i], 1000);
    }
    (void)acquire(0, 30, 1000);
    channel = connect_now(1000);
    expect_no_dial(1000);
    for (size_t i = 0; i < 4; i++) {
        frames[i] = written(channel, 1000);
        ck_assert_int_eq(frames[i].op, "RKPA"[i]);
    }
    expect_silence(channel, 1000);
    answer(channel, frames[3], 'A', 1001);
    answer(channel, frames[2], 'P', 1001);
    answer(channel, frames[0], 'R', 1001);
    answer(channel, frames[1], 'N', 1001);
    expect(LOQUET_ACQUIRED, 1001);
    expect(LOQUET_ALIVE, 1001);
    expect(LOQUET_RELEASED, 1001);
    expect(LOQUET_NOT_HELD, 1001);
    ck_assert(lq_core_is_open(channel));
}
END_TEST

START_TEST(loss_touches_its_own_requests)
{
    struct lq_frame frames[2][LQ_CHANNEL_WAITS], release;
    struct lq_channel *channels[2], *common;
    for (int i = 0; i < 10; i++) {
        (void)acquire(60000, 30, 1000);
    }
    (void)submit(LQ_GOAL_RELEASE, 1000);
    common = connect_now(1000);
    release = written(common, 1000);
    channels[0] = connect_now(1000);
    channels[1] = connect_now(1000);
    ck_assert_uint_eq(write_acquires(channels[0], 1000, frames[0]), LQ_CHANNEL_WAITS);
    ck_assert_uint_eq(write_acquires(channels[1], 1000, frames[1]), 2);
    lq_core_lost(core, channels[0], 1001, LQ_WHY_BROKEN, 0);
    for (int i = 0; i < LQ_CHANNEL_WAITS; i++) {
        expect(LOQUET_INDETERMINATE, 1001);
    }
    expect_nothing(1001);
    answer(common, release, 'R', 1002);
    answer(channels[1], frames[1][1], 'A', 1002);
    expect(LOQUET_RELEASED, 1002);
    expect(LOQUET_ACQUIRED, 1002);
}
END_TEST

START_TEST(unsent_goes_to_another_connection)
{
    struct lq_frame frames[LQ_CHANNEL_WAITS];
    struct lq_channel *channel, *other;
    (void)acquire(60000, 30, 1000);
    (void)acquire(60000, 30, 1000);
    channel = connect_now(1000);
    write_some(channel, 1000, 3); /* of the first */
    lq_core_full(core, channel);
    ck_assert(lq_core_is_full(channel));
    other = connect_now(1001); /* for the second */
    ck_assert_uint_eq(write_acquires(other, 1001, frames), 1);
    ck_assert_ptr_null(lq_core_next_output(core));
    lq_core_writable(core, channel);
    ck_assert_ptr_eq(lq_core_next_output(core), channel);
    write_some(channel, 1001, 11 + 4 - 3);
    expect_silence(channel, 1001);
}
END_TEST

START_TEST(idle_connections_end)
{
    struct lq_frame frames[3][LQ_CHANNEL_WAITS];
    struct lq_channel *channels[3];
    for (int i = 0; i < 20; i++) {
        (void)acquire(60000, 30, 1000);
    }
    for (int i = 0; i < 3; i++) {
        channels[i] = connect_now(1000);
        (void)write_acquires(channels[i], 1000, frames[i]);
    }
    for (int i = 0; i < 20; i++) {
        answer(channels[i / 8], frames[i / 8][i % 8], 'T', 1100 + (uint64_t)i);
        expect(LOQUET_TIMEOUT, 1200);
    }
    ck_assert_uint_eq(closed(), 1); /* two are kept */
    ck_assert_uint_eq(lq_core_due_ms(core), 1107 + LQ_CHANNEL_IDLE_MS);
    lq_core_tick(core, 1107 + LQ_CHANNEL_IDLE_MS);
    ck_assert_uint_eq(closed(), 1);
    (void)acquire(60000, 30, 11110);
    expect_no_dial(11110);
    ck_assert_uint_eq(write_acquires(channels[1], 11110, frames[1]), 1);
    lq_core_tick(core, 11115 + LQ_CHANNEL_IDLE_MS);
    ck_assert_uint_eq(closed(), 0); /* in use again */
}
END_TEST

/* ---- Giving one up. */

START_TEST(margin_over_takes_the_neighbours_along)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(2000, 30, 1000, &frame), *other;
    (void)acquire(60000, 30, 1000);
    (void)written(channel, 1000);
    for (int i = 0; i < LQ_CHANNEL_WAITS; i++) {
        (void)acquire(60000, 30, 1000);
        if (i < LQ_CHANNEL_WAITS - 2) {
            (void)written(channel, 1000);
        }
    }
    other = connect_now(1000);
    (void)written(other, 1000);
    lq_core_tick(core, 3000);
    lq_core_tick(core, 4250);
    for (int i = 0; i < LQ_CHANNEL_WAITS; i++) {
        expect(LOQUET_INDETERMINATE, 4250);
    }
    expect_nothing(4250);
    ck_assert(lq_core_is_open(other));
}
END_TEST

START_TEST(giving_up_leaves_the_neighbours_alone)
{
    struct lq_request *first = acquire(60000, 30, 1000);
    struct lq_channel *channel = connect_now(1000), *other;
    struct lq_frame frame = written(channel, 1000), neighbour;
    (void)acquire(60000, 30, 1000);
    neighbour = written(channel, 1000);

    lq_core_give_up(core, first, 1100);
    ck_assert_int_eq(written(channel, 1100).op, 'C');
    lq_core_tick(core, 1100 + LQ_CANCEL_MARGIN_MS);
    expect(LOQUET_INDETERMINATE, 1600);
    ck_assert(lq_core_is_open(channel));

    (void)acquire(60000, 30, 1700); /* not over this one */
    other = connect_now(1700);
    (void)written(other, 1700);
    answer(channel, frame, 'A', 1800); /* so late */
    expect_nothing(1800);
    other = connect_now(1800);
    frame = written(other, 1800);
    ck_assert_int_eq(frame.op, 'R');
    answer(other, frame, 'R', 1800);
    answer(channel, neighbour, 'A', 1900);
    expect(LOQUET_ACQUIRED, 1900);
    ck_assert(!lq_core_is_open(channel));
}
END_TEST

START_TEST(caller_gives_up)
{
    static const char answers[] = {'T', 'A'};
    struct lq_request *request = acquire(5000, 30, 1000);
    struct lq_channel *channel;
    struct lq_frame frame;
    lq_core_give_up(core, request, 1000);
    expect(LOQUET_TIMEOUT, 1000);
    ck_assert_int_eq(outcome.why, LQ_WHY_GIVEN_UP);

    request = acquire(5000, 30, 2000);
    channel = connect_now(2000);
    frame = written(channel, 2000);
    lq_core_give_up(core, request, 2100);
    lq_core_give_up(core, request, 2200);
    ck_assert_int_eq(written(channel, 2100).op, 'C');
    answer(channel, frame, answers[_i], 2300);
    if (answers[_i] == 'T') {
        expect(LOQUET_TIMEOUT, 2300);
    } else {
        expect_late(2300);
    }

    request = acquire(5000, 30, 3000);
    frame = written(channel, 3000);
    answer(channel, frame, 'A', 3001);
    lq_core_give_up(core, request, 3002);
    expect(LOQUET_INDETERMINATE, 3002);
}
END_TEST

/* ---- Silence. */

START_TEST(silent_server_is_pinged_and_left)
{
    struct lq_frame frame, ping;
    struct lq_channel *channel = acquire_sent(60000, 30, 1000, &frame);
    for (uint64_t now_ms = 3000; now_ms < 9000; now_ms += LQ_PING_AFTER_MS) {
        ck_assert_uint_eq(lq_core_due_ms(core), now_ms);
        lq_core_tick(core, now_ms);
        ping = written(channel, now_ms);
        ck_assert_int_eq(ping.op, 'P');
        answer(channel, ping, 'P', now_ms);
    }
    lq_core_tick(core, 9000);
    ck_assert_int_eq(written(channel, 9000).op, 'P');
    lq_core_tick(core, 13999);
    expect_nothing(13999);
    lq_core_tick(core, 14000); /* 7 s after the last byte */
    expect(LOQUET_INDETERMINATE, 14000);
    ck_assert_int_eq(outcome.why, LQ_WHY_SILENT);
    ck_assert(!lq_core_is_open(channel));
}
END_TEST

START_TEST(idle_connection_is_not_pinged)
{
    struct lq_channel *channel;
    (void)submit(LQ_GOAL_RELEASE, 1000);
    channel = connect_now(1000);
    answer(channel, written(channel, 1000), 'R', 1001);
    expect(LOQUET_RELEASED, 1001);
    ck_assert_uint_eq(lq_core_due_ms(core), LQ_NEVER);
    lq_core_tick(core, 100000);
    expect_silence(channel, 100000);
    (void)submit(LQ_GOAL_RELEASE, 200000); /* silence counts from here */
    (void)written(channel, 200000);
    lq_core_tick(core, 200900);
    expect_silence(channel, 200900);
}
END_TEST

/* ---- Slow answers. */

START_TEST(slow_release_moves_to_another_address)
{
    struct lq_channel *slow, *other;
    struct lq_frame frame, zero, again;
    use_addresses(2);
    (void)submit(LQ_GOAL_RELEASE, 1000);
    slow = connect_now(1000);
    frame = written(slow, 1000);
    (void)acquire(0, 30, 1000);
    zero = written(slow, 1000);
    lq_core_tick(core, 1999);
    expect_no_dial(1999);
    lq_core_tick(core, 2000); /* a third of its time */
    other = connect_now(2000);
    ck_assert_uint_ne(other->address, slow->address);
    again = written(other, 2000);
    ck_assert_uint_eq(again.token, TOKEN);
    answer(slow, frame, 'R', 2001); /* late: matched, and ignored */
    expect_nothing(2001);
    ck_assert(lq_core_is_open(slow));
    answer(other, again, 'N', 2002);
    expect(LOQUET_NOT_HELD, 2002);
    ck_assert(outcome.repeated);
    answer(slow, zero, 'T', 2003); /* what was sent there is still answered */
    expect(LOQUET_TIMEOUT, 2003);
    ck_assert(!lq_core_is_open(slow));
}
END_TEST

START_TEST(slow_release_stays_at_the_only_address)
{
    struct lq_channel *channel;
    struct lq_frame frame, ping;
    (void)submit(LQ_GOAL_RELEASE, 1000);
    channel = connect_now(1000);
    frame = written(channel, 1000);
    lq_core_tick(core, 2000);
    ping = written(channel, 2000);
    ck_assert_int_eq(ping.op, 'P'); /* is anybody there? */
    answer(channel, ping, 'P', 2001);
    lq_core_tick(core, 2999);
    answer(channel, frame, 'R', 2999);
    expect(LOQUET_RELEASED, 2999);
    ck_assert(!outcome.repeated);
}
END_TEST

START_TEST(dead_connection_to_the_only_address)
{
    struct lq_channel *channel;
    (void)submit(LQ_GOAL_RELEASE, 1000);
    channel = connect_now(1000);
    (void)written(channel, 1000);
    lq_core_tick(core, 2000);
    ck_assert_int_eq(written(channel, 2000).op, 'P');
    lq_core_tick(core, 2700);
    ck_assert(!lq_core_is_open(channel)); /* not a byte came since */
    channel = connect_now(2800);
    ck_assert_int_eq(written(channel, 2800).op, 'R');
    lq_core_tick(core, 4000);
    expect(LOQUET_INDETERMINATE, 4000);
    ck_assert(outcome.repeated);
}
END_TEST

/* ---- Matching. */

START_TEST(oldest_of_a_token_is_answered_first)
{
    struct lq_channel *channel;
    struct lq_frame frame;
    (void)submit(LQ_GOAL_RENEW, 1000);
    (void)submit(LQ_GOAL_RELEASE, 1000);
    channel = connect_now(1000);
    frame = written(channel, 1000);
    (void)written(channel, 1000);
    answer(channel, frame, 'N', 1001);
    answer(channel, frame, 'R', 1001);
    expect(LOQUET_NOT_HELD, 1001);
    expect(LOQUET_RELEASED, 1001);
    (void)submit(LQ_GOAL_RENEW, 2000);
    (void)submit(LQ_GOAL_RELEASE, 2000);
    frame = written(channel, 2000);
    (void)written(channel, 2000);
    answer(channel, frame, 'R', 2001); /* out of turn */
    ck_assert(!lq_core_is_open(channel));
}
END_TEST

static const struct {
    char op;
    uint64_t owner_plus, token;
    const char *key;
} unasked[] = {{'A', 1, TOKEN, "key"}, {'A', 0, TOKEN, "kex"}, {'A', 0, TOKEN, "ke"},
               {'T', 1, 0, "key"},     {'B', 0, 0, "keys"},    {'R', 0, TOKEN, "key"},
               {'K', 0, TOKEN, "key"}, {'N', 0, TOKEN, "key"}, {'P', 1, 0, ""}};

START_TEST(answers_nobody_asked_for)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(5000, 30, 1000, &frame);
    frame.op = (uint8_t)unasked[_i].op;
    frame.owner += unasked[_i].owner_plus;
    frame.token = unasked[_i].token;
    frame.key = (const uint8_t *)unasked[_i].key;
    frame.key_len = (uint16_t)strlen(unasked[_i].key);
    answer_frame(channel, &frame, 1001);
    ck_assert(!lq_core_is_open(channel));
    expect(LOQUET_INDETERMINATE, 1001);
    ck_assert_int_eq(outcome.why, LQ_WHY_UNASKED);
    (void)acquire(5000, 30, 2000); /* before it is sent it does no harm */
    channel = connect_now(2000);
    frame.owner = last_owner;
    answer_frame(channel, &frame, 2001);
    expect_nothing(2001);
    channel = connect_now(3000);
    ck_assert_int_eq(written(channel, 3000).op, 'A');
}
END_TEST

START_TEST(bytes_that_are_no_answer)
{
    struct lq_frame frame;
    struct lq_channel *channel = acquire_sent(5000, 30, 1000, &frame);
    receive_bytes(channel, (const uint8_t *)"HTTP/1.1 400\r\n", 14, 1001);
    expect(LOQUET_INDETERMINATE, 1001);
    ck_assert_int_eq(outcome.why, LQ_WHY_GARBAGE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client channels");
    TCase *tcase = tcase_create("client channels");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, waits_share_connections);
    tcase_add_test(tcase, others_share_one_connection);
    tcase_add_test(tcase, loss_touches_its_own_requests);
    tcase_add_test(tcase, unsent_goes_to_another_connection);
    tcase_add_test(tcase, idle_connections_end);
    tcase_add_test(tcase, margin_over_takes_the_neighbours_along);
    tcase_add_test(tcase, giving_up_leaves_the_neighbours_alone);
    tcase_add_loop_test(tcase, caller_gives_up, 0, 2);
    tcase_add_test(tcase, silent_server_is_pinged_and_left);
    tcase_add_test(tcase, idle_connection_is_not_pinged);
    tcase_add_test(tcase, slow_release_moves_to_another_address);
    tcase_add_test(tcase, slow_release_stays_at_the_only_address);
    tcase_add_test(tcase, dead_connection_to_the_only_address);
    tcase_add_test(tcase, oldest_of_a_token_is_answered_first);
    tcase_add_loop_test(tcase, answers_nobody_asked_for, 0,
                        (int)(sizeof unasked / sizeof *unasked));
    tcase_add_test(tcase, bytes_that_are_no_answer);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
