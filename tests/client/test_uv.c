/* The client on a libuv loop, against a real server. */
#include "loquet_uv.h"
#include "lq_test.h"
#include "server.h"

#include <string.h>

static struct server server;
static uv_loop_t loop;
static struct loquet_uv *client;

/* What the callbacks noted. */
static struct {
    int n;
    enum loquet_result result;
    struct loquet_uv_ticket *ticket;
    struct loquet_why why;
    uint64_t number, at_ms;
} seen;
static bool inside; /* a call: no callback may run */

static void setup(void)
{
    server_start(&server);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    client = loquet_uv_open(&loop, server.endpoint, NULL);
    ck_assert_ptr_nonnull(client);
}

static void note_closed(void *context)
{
    *(int *)context += 1;
}

static void teardown(void)
{
    int closed = 0;

    if (client != NULL) {
        loquet_uv_close(client, note_closed, &closed);
        ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
        ck_assert_int_eq(closed, 1);
    }
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    server_kill(&server);
}

static void note(enum loquet_result result, const struct loquet_why *why)
{
    ck_assert(!inside);
    seen.n++;
    seen.result = result;
    seen.why = *why;
    seen.at_ms = loquet_now_ms();
}

static void on_acquired(void *context, enum loquet_result result, struct loquet_uv_ticket *ticket,
                        const struct loquet_why *why)
{
    (void)context;
    note(result, why);
    seen.ticket = ticket;
}

static void on_done(void *context, enum loquet_result result, const struct loquet_why *why)
{
    (void)context;
    note(result, why);
}

static struct loquet_uv_wait *acquire(const char *key, uint32_t wait_ms, uint32_t lease_s)
{
    struct loquet_request request = {.key = key, .wait_ms = wait_ms, .lease_s = lease_s};
    struct loquet_uv_wait *wait;

    inside = true;
    wait = loquet_uv_acquire(client, &request, on_acquired, NULL);
    inside = false;
    return wait;
}

/* Runs the loop until it has nothing more to do; `n` callbacks must have come. */
static void run(int n)
{
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(seen.n, n);
    seen.n = 0;
}

static struct loquet_uv_ticket *take(const char *key, uint32_t lease_s)
{
    (void)acquire(key, 0, lease_s);
    run(1);
    ck_assert_msg(seen.result == LOQUET_ACQUIRED, "%s: %s", loquet_result_text(seen.result),
                  seen.why.text);
    return seen.ticket;
}

static enum loquet_result release(struct loquet_uv_ticket *ticket)
{
    inside = true;
    loquet_uv_release(ticket, on_done, NULL);
    inside = false;
    run(1);
    return seen.result;
}

START_TEST(pair)
{
    struct loquet_uv_ticket *ticket = take("k", 30);

    ck_assert_str_eq(loquet_uv_ticket_key(ticket, NULL), "k");
    ck_assert_uint_gt(loquet_uv_ticket_token(ticket), 0);
    ck_assert(loquet_uv_ticket_is_held(ticket));
    ck_assert_str_eq(seen.why.endpoint, server.endpoint);
    ck_assert_int_eq(release(ticket), LOQUET_RELEASED);
    ck_assert(!loquet_uv_ticket_is_held(ticket));
    ck_assert_int_eq(release(ticket), LOQUET_NOT_HELD);
    loquet_uv_ticket_free(ticket);
}
END_TEST

START_TEST(invalid_arguments)
{
    (void)acquire("a\nb", 0, 30);
    run(1);
    ck_assert_int_eq(seen.result, LOQUET_INVALID);
    ck_assert_str_ne(seen.why.text, "");
    (void)acquire("k", 0, 0);
    run(1);
    ck_assert_int_eq(seen.result, LOQUET_INVALID);
    ck_assert_ptr_null(seen.ticket);
    ck_assert_ptr_null(loquet_uv_open(&loop, "a:b", &seen.why));
    ck_assert_str_ne(seen.why.text, "");
}
END_TEST

START_TEST(renewal)
{
    struct loquet_uv_ticket *ticket = take("k", 2);
    uint64_t ends_ms = loquet_uv_ticket_ends_ms(ticket);

    loquet_uv_renew(ticket, 60, on_done, NULL);
    run(1);
    ck_assert_int_eq(seen.result, LOQUET_RENEWED);
    ck_assert_uint_gt(loquet_uv_ticket_ends_ms(ticket), ends_ms + 50000);
    loquet_uv_renew(ticket, 0, on_done, NULL);
    run(1);
    ck_assert_int_eq(seen.result, LOQUET_INVALID);
    loquet_uv_release(ticket, NULL, NULL);
    loquet_uv_ticket_free(ticket); /* before its callback would come */
    run(0);
    loquet_uv_ticket_free(take("k", 1));
}
END_TEST

static void on_alive(void *context, enum loquet_result result, uint64_t round_trip_us,
                     const struct loquet_why *why)
{
    (void)context;
    note(result, why);
    seen.number = round_trip_us;
}

START_TEST(ping)
{
    loquet_uv_ping(client, on_alive, NULL);
    run(1);
    ck_assert_int_eq(seen.result, LOQUET_ALIVE);
    ck_assert_uint_lt(seen.number, 1000000);
}
END_TEST

START_TEST(names)
{
    int closed = 0;
    const char *port = strrchr(server.endpoint, ':');
    char endpoint[64] = "localhost";

    loquet_uv_close(client, note_closed, &closed);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    (void)strncat(endpoint, port, sizeof endpoint - strlen(endpoint) - 1);
    client = loquet_uv_open(&loop, endpoint, NULL);
    (void)acquire("k", 5000, 30); /* ::1 may come first, where nobody listens */
    run(1);
    ck_assert_msg(seen.result == LOQUET_ACQUIRED, "%s", seen.why.text);
    ck_assert_str_eq(seen.why.endpoint, endpoint);
    loquet_uv_ticket_free(seen.ticket);
}
END_TEST

START_TEST(name_without_address)
{
    int closed = 0;

    loquet_uv_close(client, note_closed, &closed);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    client = loquet_uv_open(&loop, "no-such-host.invalid", NULL);
    (void)acquire("k", 0, 30);
    run(1);
    ck_assert_int_eq(seen.result, LOQUET_CLOSED);
    ck_assert_ptr_nonnull(strstr(seen.why.text, "no-such-host.invalid"));
}
END_TEST

START_TEST(giving_up)
{
    struct loquet_uv_ticket *holder = take("k", 30);
    struct loquet_uv_wait *wait = acquire("k", 60000, 30);
    uint64_t began_ms = loquet_now_ms();

    for (int i = 0; i < 5; i++) { /* connects, and sends */
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    loquet_uv_give_up(wait);
    run(1);
    ck_assert_int_eq(seen.result, LOQUET_TIMEOUT);
    ck_assert_uint_lt(loquet_now_ms() - began_ms, 1500);
    loquet_uv_ticket_free(holder);
}
END_TEST

/* ---- Keeping. */

static void on_lost(struct loquet_uv_ticket *ticket, enum loquet_loss loss, void *context)
{
    struct loquet_why none = {.text = ""};

    *(enum loquet_loss *)context = loss;
    ck_assert(!loquet_uv_ticket_is_held(ticket));
    note(LOQUET_NOT_HELD, &none);
    loquet_uv_ticket_free(ticket);
}

static void on_timer(uv_timer_t *timer)
{
    uv_close((uv_handle_t *)timer, NULL);
    uv_stop(&loop);
}

START_TEST(kept_and_lost_by_an_answer)
{
    struct loquet_uv_ticket *ticket = take("k", 1);
    struct loquet_uv_ticket *thief =
        loquet_uv_ticket_make(client, "k", 1, loquet_uv_ticket_token(ticket));
    enum loquet_loss loss = 0;
    uv_timer_t timer;

    ck_assert(loquet_uv_keep(ticket, on_lost, &loss));
    ck_assert_int_eq(uv_timer_init(&loop, &timer), 0);
    ck_assert_int_eq(uv_timer_start(&timer, on_timer, 1500, 0), 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert(loquet_uv_ticket_is_held(ticket)); /* beyond its first lease */
    loquet_uv_release(thief, NULL, NULL);
    run(1); /* until it is lost: nothing else keeps the loop alive */
    ck_assert_int_eq(loss, LOQUET_LOSS_CERTAIN);
    loquet_uv_ticket_free(thief);
}
END_TEST

START_TEST(lost_by_the_clock)
{
    struct loquet_uv_ticket *ticket = take("k", 2);
    uint64_t ends_ms = loquet_uv_ticket_ends_ms(ticket);
    enum loquet_loss loss = 0;

    server_freeze(&server);
    ck_assert(loquet_uv_keep(ticket, on_lost, &loss));
    run(1);
    ck_assert_int_eq(loss, LOQUET_LOSS_POSSIBLE);
    ck_assert_uint_ge(seen.at_ms, ends_ms - 200);
    ck_assert_uint_lt(seen.at_ms, ends_ms + 1000);
    server_thaw(&server);
}
END_TEST

/* ---- Closing. */

static void close_inside(void *context, enum loquet_result result, struct loquet_uv_ticket *ticket,
                         const struct loquet_why *why)
{
    note(result, why);
    loquet_uv_ticket_free(ticket);
    loquet_uv_close(client, note_closed, context);
}

START_TEST(closing_in_a_callback_with_others_under_way)
{
    struct loquet_request request = {.key = "k", .lease_s = 30};
    struct loquet_uv_ticket *held = take("held", 30);
    uint64_t began_ms = loquet_now_ms();
    int closed = 0;

    (void)acquire("held", 60000, 30);
    (void)acquire("held", 60000, 30);
    (void)loquet_uv_acquire(client, &request, close_inside, &closed);
    run(3);
    ck_assert_int_eq(closed, 1);
    ck_assert_uint_lt(loquet_now_ms() - began_ms, 2500);
    loquet_uv_ticket_free(held);
    client = NULL;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_uv");
    TCase *tcase = tcase_create("uv");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, pair);
    tcase_add_test(tcase, invalid_arguments);
    tcase_add_test(tcase, renewal);
    tcase_add_test(tcase, ping);
    tcase_add_test(tcase, names);
    tcase_add_test(tcase, name_without_address);
    tcase_add_test(tcase, giving_up);
    tcase_add_test(tcase, kept_and_lost_by_an_answer);
    tcase_add_test(tcase, lost_by_the_clock);
    tcase_add_test(tcase, closing_in_a_callback_with_others_under_way);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
