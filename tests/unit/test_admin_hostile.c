/* Clients of the admin interface that are slow, greedy, wrong or many. */
#include "test_admin_rig.h"

#include <sys/resource.h>

#define GET_LIVEZ "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"

/* ---- Names of this server. */

static const struct {
    const char *host; /* NULL: no header */
    bool is_known;
} host_rows[] = {
    {NULL, true},
    {"127.0.0.1", true},
    {"10.1.2.3:7313", true},
    {"[::1]", true},
    {"[fe80::1]:7313", true},
    {"localhost", true},
    {"LocalHost:7313", true},
    {"admin.example:7313", true}, /* listened on */
    {"Node1.Example", true},      /* of a member's address */
    {"evil.example", false},
    {"localhost.evil.example", false},
    {"127.0.0.1.evil.example:7313", false},
    {"node1.example.evil", false},
    {"", false},
    {":7313", false},
    {"::1", false},
    {"[::1", false},
    {"[]", false},
    {"[localhost]", false},
    {"[127.0.0.1]", false},
    {"localhost:port", false},
    {"localhost:1:2", false},
    {"localhost/x", false},
    {"user@localhost", false},
    {"127.1", false},
};

START_TEST(only_own_names_are_known)
{
    struct lq_members members = {0};
    ck_assert(lq_members_add(&members, 1, "node1.example:7312", LQ_ROLE_VOTER));
    ck_assert(lq_members_add(&members, 2, "nonsense", LQ_ROLE_VOTER));
    ck_assert_int_eq(lq_admin_host_is_known(host_rows[_i].host, "admin.example", &members),
                     host_rows[_i].is_known);
}
END_TEST

START_TEST(a_host_of_any_length_is_read)
{
    struct lq_members members = {0};
    char host[600];
    memset(host, 'a', sizeof host);
    for (size_t len = 250; len < sizeof host; len++) {
        host[len] = '\0';
        ck_assert(!lq_admin_host_is_known(host, "own", &members));
        ck_assert_int_eq(lq_admin_host_is_known(host, host, &members), len <= LQ_HOST_MAX);
        host[len] = 'a';
    }
}
END_TEST

START_TEST(requests_under_a_foreign_name_are_refused)
{
    static const char request[] = "POST /v1/members/2/remove HTTP/1.1\r\nHost: evil.example\r\n"
                                  "Content-Length: 0\r\n" JSON_TYPE "\r\n";
    struct rig rig;
    struct client client;
    rig_open(&rig);
    client_open(&rig, &client);
    client_say(&rig, &client, request);
    client_await(&rig, &client, 1);
    ck_assert_int_eq(status_of(client.bytes), 403);
    ck_assert_ptr_nonnull(strstr(client.bytes, "\"host\""));
    ck_assert_uint_eq(rig.n_changes, 0);
    client_close(&client);
    client_open(&rig, &client);
    client_say(&rig, &client, "GET /livez HTTP/1.0\r\n\r\n");
    client_await_end(&rig, &client);
    ck_assert_ptr_nonnull(strstr(client.bytes, " 200 OK"));
    client_close(&client);
    rig_close(&rig);
}
END_TEST

/* ---- Long and malformed requests. */

/* A POST with a body of `len` bytes, in one piece or in chunks of 1000. */
static int post_long(struct rig *rig, struct client *client, size_t len, bool is_chunked)
{
    static char body[200000];
    char head[256];
    memset(body, ' ', sizeof body);
    client_open(rig, client);
    if (is_chunked) {
        (void)snprintf(head, sizeof head,
                       "POST /v1/members/3/promote HTTP/1.1\r\nHost: [::1]\r\n"
                       "Transfer-Encoding: chunked\r\n" JSON_TYPE "\r\n");
    } else {
        (void)snprintf(head, sizeof head,
                       "POST /v1/members/3/promote HTTP/1.1\r\nHost: [::1]\r\n"
                       "Content-Length: %zu\r\n" JSON_TYPE "\r\n",
                       len);
    }
    client_say(rig, client, head);
    for (size_t sent = 0; is_chunked && sent < len; sent += 1000) {
        client_say(rig, client, "3e8\r\n");
        client_send(rig, client, body, 1000);
        client_say(rig, client, "\r\n");
    }
    if (is_chunked) {
        client_say(rig, client, "0\r\n\r\n");
    } else {
        client_send(rig, client, body, len);
    }
    if (!client->is_ended) {
        client_await(rig, client, 1);
    }
    client_close(client);
    return client->len == 0 ? 0 : status_of(client->bytes);
}

START_TEST(bodies_are_bounded)
{
    struct rig rig;
    struct client client;
    rig_open(&rig);
    ck_assert_int_eq(post_long(&rig, &client, LQ_ADMIN_BODY_MAX + 1, false), 413);
    ck_assert_ptr_nonnull(strstr(client.bytes, "\"too_large\""));
    ck_assert_int_eq(post_long(&rig, &client, LQ_ADMIN_DISCARD_MAX, false), 413);
    ck_assert_int_eq(post_long(&rig, &client, 5000, true), 413);
    ck_assert_int_eq(post_long(&rig, &client, 60000, true), 413);
    ck_assert_uint_eq(rig.n_changes, 0);
    ck_assert_int_eq(post_long(&rig, &client, 1000, true), 400); /* spaces are no JSON */
    ck_assert_int_eq(post_long(&rig, &client, LQ_ADMIN_BODY_MAX, false), 400);
    rig_close(&rig);
}
END_TEST

START_TEST(who_sends_without_end_is_cut_off)
{
    struct rig rig;
    struct client client;
    uint64_t until_ms = lq_clock_ms() + PATIENCE_MS;
    rig_open(&rig);
    client_open(&rig, &client);
    client_say(&rig, &client,
               "POST /v1/members/3/promote HTTP/1.1\r\nHost: [::1]\r\n"
               "Transfer-Encoding: chunked\r\n" JSON_TYPE "\r\n");
    while (!client.is_ended) {
        client_say(&rig, &client, "4\r\nabcd\r\n");
        ck_assert_msg(lq_clock_ms() < until_ms, "it listens for ever");
    }
    ck_assert_uint_eq(rig.n_changes, 0);
    client_close(&client);
    /* A length far beyond is refused before it comes. */
    client_open(&rig, &client);
    client_say(&rig, &client,
               "POST /v1/members HTTP/1.1\r\nHost: [::1]\r\n"
               "Content-Length: 9999999999\r\n" JSON_TYPE "\r\n");
    client_await(&rig, &client, 1);
    ck_assert_int_eq(status_of(client.bytes), 413);
    client_await_end(&rig, &client);
    client_close(&client);
    rig_close(&rig);
}
END_TEST

START_TEST(malformed_requests_end_without_harm)
{
    static const char *const requests[] = {
        "\r\n\r\n\r\nX\r\n\r\n",
        "GET\r\n\r\n",
        "GET /livez\r\n\r\n",
        "GET /livez HTTP/9.9\r\n\r\n",
        "GET /v1/members HTTP/1.1\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: localhost\r\nno colon here\r\n\r\n",
        "POST /v1/members HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "POST /v1/members HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1x\r\n\r\n",
        "POST /v1/members HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "A\1\36\0\0\0\0\0\0\0\1k\n\r\n\r\n",
        "\x16\x03\x01\x02\x01\x01\xfc\r\n\r\n",
    };
    struct rig rig;
    struct client client;
    rig_open(&rig);
    rig.admin->timeout_ms = 100; /* of some it waits for more */
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        client_open(&rig, &client);
        client_say(&rig, &client, requests[i]);
        client_await_end(&rig, &client);
        client_close(&client);
        ck_assert_int_eq(get(&rig, &client, "/livez"), 200);
    }
    ck_assert_uint_eq(rig.n_changes, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(random_bytes_do_no_harm)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    struct rig rig;
    struct client client;
    char bytes[512];
    rig_open(&rig);
    rig.admin->timeout_ms = 50;
    for (unsigned i = 0; i < 20; i++) {
        size_t len = 1 + lq_rand_below(&rand, sizeof bytes);
        size_t start = lq_rand_below(&rand, 2) == 0 ? 0 : strlen(GET_LIVEZ) - 2;
        lq_rand_fill(&rand, (uint8_t *)bytes, sizeof bytes);
        memcpy(bytes, GET_LIVEZ, start);
        client_open(&rig, &client);
        client_send(&rig, &client, bytes, len);
        client_await_end(&rig, &client);
        client_close(&client);
    }
    rig.admin->timeout_ms = LQ_ADMIN_TIMEOUT_MS;
    ck_assert_int_eq(get(&rig, &client, "/livez"), 200);
    rig_close(&rig);
}
END_TEST

/* ---- Time and number. */

START_TEST(requests_in_a_row_are_answered_in_order)
{
    struct rig rig;
    struct client client;
    const char *first, *second, *third;
    rig_open(&rig);
    client_open(&rig, &client);
    client_say(&rig, &client,
               GET_LIVEZ "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
                         "POST /v1/members/3/promote HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                         "Content-Length: 2\r\n\r\n{}" GET_LIVEZ);
    client_await(&rig, &client, 4);
    first = strstr(client.bytes, " 200 OK");
    second = strstr(client.bytes, " 404 ");
    third = strstr(client.bytes, " 202 ");
    ck_assert(first != NULL && first < second && second < third);
    ck_assert_uint_eq(rig.n_changes, 1);
    client_close(&client);
    rig_close(&rig);
}
END_TEST

START_TEST(who_says_too_little_is_cut_off)
{
    struct rig rig;
    struct client client;
    uint64_t began_ms = lq_clock_ms();
    rig_open(&rig);
    rig.admin->timeout_ms = 300;
    client_open(&rig, &client);
    client_say(&rig, &client, "GET /livez HTTP/1.1\r\n");
    while (!client.is_ended) { /* a byte each turn: it is never idle */
        client_say(&rig, &client, "a");
        (void)usleep(1000);
        rig_turn(&rig);
        client_read(&client);
        ck_assert_msg(lq_clock_ms() < began_ms + PATIENCE_MS, "it waits for ever");
    }
    ck_assert_uint_ge(lq_clock_ms() - began_ms, 300);
    ck_assert_uint_eq(count_of(client.bytes, " 200 OK"), 0);
    client_close(&client);
    /* So is who asks and then says nothing. */
    client_open(&rig, &client);
    client_say(&rig, &client, GET_LIVEZ);
    client_await_end(&rig, &client);
    ck_assert_int_eq(status_of(client.bytes), 200);
    client_close(&client);
    ck_assert_uint_eq(rig.admin->n_links, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(who_goes_on_asking_is_kept)
{
    struct rig rig;
    struct client client;
    uint64_t until_ms = lq_clock_ms() + 1000;
    rig_open(&rig);
    rig.admin->timeout_ms = 250;
    client_open(&rig, &client);
    while (lq_clock_ms() < until_ms) {
        client.len = 0;
        client_say(&rig, &client, GET_LIVEZ);
        client_await(&rig, &client, 1);
        ck_assert(!client.is_ended);
        (void)usleep(5000);
    }
    client_close(&client);
    rig_close(&rig);
}
END_TEST

START_TEST(who_fills_all_places_does_not_keep_them)
{
    static struct client idle[LQ_ADMIN_LINKS_MAX];
    struct rig rig;
    struct client client;
    uint64_t began_ms = lq_clock_ms();
    rig_open(&rig);
    for (size_t i = 0; i < LQ_ADMIN_LINKS_MAX; i++) {
        client_open(&rig, &idle[i]);
        rig_turn(&rig);
    }
    ck_assert_int_eq(get(&rig, &client, "/livez"), 200);
    ck_assert_uint_lt(lq_clock_ms() - began_ms, LQ_ADMIN_TIMEOUT_MS / 2);
    ck_assert_uint_ge(lq_clock_ms() - began_ms, LQ_ADMIN_CROWDED_MS);
    for (size_t i = 0; i < LQ_ADMIN_LINKS_MAX; i++) {
        client_close(&idle[i]);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(more_than_there_are_places_for_are_all_answered)
{
    static struct client many[3 * LQ_ADMIN_LINKS_MAX];
    size_t n = sizeof many / sizeof *many;
    struct rig rig;
    rig_open(&rig);
    for (size_t i = 0; i < n; i++) {
        client_open(&rig, &many[i]);
        client_say(&rig, &many[i],
                   "GET /livez HTTP/1.1\r\nHost: localhost\r\n"
                   "Connection: close\r\n\r\n");
        ck_assert_uint_le(rig.admin->n_links, LQ_ADMIN_LINKS_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        client_await_end(&rig, &many[i]);
        ck_assert_int_eq(status_of(many[i].bytes), 200);
        client_close(&many[i]);
    }
    rig_close(&rig);
}
END_TEST

/* Under valgrind, which has limits of its own: an accept beyond them takes the connection away. */
static bool is_watched(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload != NULL && strstr(preload, "vgpreload") != NULL;
}

static void on_alarm(uv_timer_t *alarm)
{
    *(bool *)alarm->data = true;
}

START_TEST(without_descriptors_connections_wait)
{
    struct rig rig;
    struct client client;
    struct rlimit before, low;
    unsigned turns = 0;
    bool is_over = false;
    uv_timer_t alarm = {.data = &is_over};
    if (is_watched()) {
        return;
    }
    rig_open(&rig);
    ck_assert_int_eq(uv_timer_init(&rig.loop, &alarm), 0);
    ck_assert_int_eq(uv_timer_start(&alarm, on_alarm, 300, 0), 0);
    client_open(&rig, &client);
    client_say(&rig, &client, "");
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = 3;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    while (!is_over) {
        (void)uv_run(&rig.loop, UV_RUN_ONCE); /* sleeps until something is due */
        turns++;
    }
    ck_assert_uint_eq(rig.admin->n_links, 0);
    ck_assert_uint_lt(turns, 50); /* and does not spin meanwhile */
    uv_close((uv_handle_t *)&alarm, NULL);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    client_say(&rig, &client, GET_LIVEZ);
    client_await(&rig, &client, 1);
    ck_assert_int_eq(status_of(client.bytes), 200);
    client_close(&client);
    rig_close(&rig);
}
END_TEST

START_TEST(clients_may_vanish_at_any_time)
{
    static const char request[] =
        "POST /v1/members/3/promote HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
        "Content-Length: 2\r\n\r\n{}";
    struct rig rig;
    struct client client;
    rig_open(&rig);
    for (size_t len = 0; len < sizeof request - 1; len++) {
        client_open(&rig, &client);
        client_send(&rig, &client, request, len);
        client_close(&client);
    }
    ck_assert_uint_eq(rig.n_changes, 0);
    while (rig.admin->n_links > 0) {
        rig_turn(&rig);
    }
    /* One that asked and is gone before it is answered. */
    client_open(&rig, &client);
    ck_assert_int_eq(send(client.fd, request, sizeof request - 1, 0), (int)sizeof request - 1);
    client_close(&client);
    while (rig.n_changes == 0) {
        rig_turn(&rig);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(stopping_closes_what_is_open)
{
    struct rig rig;
    struct client idle, half;
    rig_open(&rig);
    client_open(&rig, &idle);
    client_open(&rig, &half);
    client_say(&rig, &half,
               "POST /v1/members HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n" JSON_TYPE
               "\r\n{");
    while (rig.admin->n_links < 2) {
        rig_turn(&rig);
    }
    rig_close(&rig);
    client_read(&idle);
    client_read(&half);
    ck_assert(idle.is_ended && half.is_ended);
    client_close(&idle);
    client_close(&half);
}
END_TEST

static Suite *hostile_suite(void)
{
    Suite *suite = suite_create("admin_hostile");
    TCase *tcase = tcase_create("admin_hostile");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, only_own_names_are_known, 0, sizeof host_rows / sizeof *host_rows);
    tcase_add_test(tcase, a_host_of_any_length_is_read);
    tcase_add_test(tcase, requests_under_a_foreign_name_are_refused);
    tcase_add_test(tcase, bodies_are_bounded);
    tcase_add_test(tcase, who_sends_without_end_is_cut_off);
    tcase_add_test(tcase, malformed_requests_end_without_harm);
    tcase_add_loop_test(tcase, random_bytes_do_no_harm, 0, 3);
    tcase_add_test(tcase, requests_in_a_row_are_answered_in_order);
    tcase_add_test(tcase, who_says_too_little_is_cut_off);
    tcase_add_test(tcase, who_goes_on_asking_is_kept);
    tcase_add_test(tcase, who_fills_all_places_does_not_keep_them);
    tcase_add_test(tcase, more_than_there_are_places_for_are_all_answered);
    tcase_add_test(tcase, without_descriptors_connections_wait);
    tcase_add_test(tcase, clients_may_vanish_at_any_time);
    tcase_add_test(tcase, stopping_closes_what_is_open);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(hostile_suite());
}
