/* The poll driver and its sockets: both ends of each connection are in this one thread. */
#include "lq_driver.h"
#include "lq_frame.h"
#include "lq_key.h"
#include "lq_limits.h"
#include "lq_socket.h"
#include "lq_test.h"
#include "lq_time.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_MS 10000

static struct lq_driver driver;
static struct loquet_why why;
static int listener, peer; /* the server's sockets */
static size_t n_open;      /* descriptors before */

static size_t count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t n = 0;
    while (readdir(folder) != NULL) {
        n++;
    }
    (void)closedir(folder);
    return n;
}

static struct sockaddr_in own_address(int fd)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    return address;
}

static void listen_on(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int yes = 1, small = 4096;

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    (void)setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listener, 16), 0);
}

static void setup(void)
{
    char endpoints[32];

    n_open = count_descriptors();
    listen_on(0);
    peer = -1;
    lq_driver_init(&driver);
    (void)snprintf(endpoints, sizeof endpoints, "127.0.0.1:%d",
                   ntohs(own_address(listener).sin_port));
    ck_assert_int_eq(lq_driver_set_endpoints(&driver, endpoints, &why), LOQUET_ALIVE);
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

static void teardown(void)
{
    lq_driver_done(&driver);
    close_fd(&peer);
    close_fd(&listener);
    ck_assert_uint_eq(count_descriptors(), n_open);
}

/* ---- The client's side. */

static struct lq_request *submit(enum lq_goal goal, const char *key)
{
    struct lq_order order = {.goal = goal,
                             .key = key,
                             .key_len = strlen(key),
                             .token = 7,
                             .lease_s = 30,
                             .deadline_ms = lq_time_now_ms() + PATIENCE_MS};
    return lq_driver_submit(&driver, &order, &why);
}

/* Steps until an outcome comes. */
static struct lq_outcome await_outcome(void)
{
    uint64_t by_ms = lq_time_now_ms() + PATIENCE_MS;
    struct lq_outcome outcome;

    while (lq_driver_step(&driver), !lq_driver_take(&driver, &outcome)) {
        nfds_t n;
        struct pollfd *pollfds = lq_driver_pollfds(&driver, NULL, 0, &n);
        ck_assert_uint_lt(lq_time_now_ms(), by_ms);
        (void)poll(pollfds, n, 10);
        lq_driver_polled(&driver, 0, n);
    }
    lq_cluster_explain(&driver.cluster, &outcome, &why);
    return outcome;
}

static void step_for(unsigned ms)
{
    uint64_t by_ms = lq_time_now_ms() + ms;
    while (lq_time_now_ms() < by_ms) {
        lq_driver_step(&driver);
        (void)poll(NULL, 0, 1);
    }
}

/* ---- The server's side. */

static struct {
    uint8_t bytes[LQ_FRAME_MAX];
    size_t len, used;
} heard;

static void accept_peer(void)
{
    close_fd(&peer);
    heard.len = heard.used = 0;
    lq_driver_step(&driver);
    peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(peer, 0);
}

/* The next request on the connection, with the driver's help; good until the next one. */
static struct lq_frame hear(void)
{
    struct lq_frame frame;

    heard.len -= heard.used;
    memmove(heard.bytes, heard.bytes + heard.used, heard.len);
    while (lq_request_decode(heard.bytes, heard.len, &frame, &heard.used) != LQ_DECODED_FRAME) {
        ssize_t n = recv(peer, heard.bytes + heard.len, LQ_FRAME_MAX - heard.len, MSG_DONTWAIT);
        if (n > 0) {
            heard.len += (size_t)n;
        } else {
            lq_driver_step(&driver);
            (void)poll(NULL, 0, 1);
        }
    }
    return frame;
}

static void answer(uint8_t op, const struct lq_frame *request)
{
    struct lq_frame frame = *request;
    uint8_t bytes[LQ_FRAME_MAX];
    size_t len;

    frame.op = op;
    frame.token = op == 'A' ? 7 : request->token;
    len = lq_answer_encode(&frame, bytes, sizeof bytes);
    ck_assert_int_eq(send(peer, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void serve_one(uint8_t op)
{
    struct lq_frame request = hear();
    answer(op, &request);
}

/* ---- Tests. */

START_TEST(refused)
{
    close_fd(&listener);
    ck_assert_ptr_nonnull(submit(LQ_GOAL_ACQUIRE, "k"));
    ck_assert_int_eq(await_outcome().result, LOQUET_CLOSED);
    ck_assert_ptr_nonnull(strstr(why.text, "refused"));
}
END_TEST

START_TEST(invalid)
{
    ck_assert_ptr_null(submit(LQ_GOAL_ACQUIRE, "a\nb"));
    ck_assert_str_ne(why.text, "");
    ck_assert_int_eq(lq_driver_set_endpoints(&driver, ":", &why), LOQUET_INVALID);
}
END_TEST

START_TEST(granted_and_released)
{
    ck_assert_ptr_nonnull(submit(LQ_GOAL_ACQUIRE, "k"));
    accept_peer();
    serve_one('A');
    ck_assert_int_eq(await_outcome().result, LOQUET_ACQUIRED);
    ck_assert_str_eq(why.text, "");
    ck_assert_str_ne(why.endpoint, "");
    ck_assert_ptr_nonnull(submit(LQ_GOAL_RELEASE, "k"));
    serve_one('R'); /* on the same connection */
    ck_assert_int_eq(await_outcome().result, LOQUET_RELEASED);
}
END_TEST

/* The server closed an idle connection: an acquire is not written to it, where it would be lost. */
START_TEST(idle_connection_that_ended)
{
    ck_assert_ptr_nonnull(submit(LQ_GOAL_PING, ""));
    accept_peer();
    serve_one('P');
    ck_assert_int_eq(await_outcome().result, LOQUET_ALIVE);
    close_fd(&peer);
    ck_assert_ptr_nonnull(submit(LQ_GOAL_ACQUIRE, "k"));
    accept_peer();
    serve_one('A');
    ck_assert_int_eq(await_outcome().result, LOQUET_ACQUIRED);
}
END_TEST

/* What a fork's other half does: its sockets go, and it can begin anew. */
START_TEST(dropped)
{
    char byte;

    ck_assert_ptr_nonnull(submit(LQ_GOAL_ACQUIRE, "k"));
    accept_peer();
    step_for(20);
    lq_driver_drop(&driver);
    ck_assert_int_eq(await_outcome().result, LOQUET_INDETERMINATE);
    while (recv(peer, &byte, 1, 0) > 0) {
        /* what was sent; then the end */
    }
    ck_assert_ptr_nonnull(submit(LQ_GOAL_RELEASE, "k"));
    accept_peer();
    serve_one('R');
    ck_assert_int_eq(await_outcome().result, LOQUET_RELEASED);
}
END_TEST

/* More than the kernel takes at once, to a server that does not read for a while. */
START_TEST(full_socket)
{
    enum { N = 6000 };
    char key[LQ_KEY_MAX + 1];

    for (int i = 0; i < N; i++) {
        (void)snprintf(key, sizeof key, "%0*d", LQ_KEY_MAX, i);
        ck_assert_ptr_nonnull(submit(LQ_GOAL_RELEASE, key));
    }
    accept_peer();
    step_for(50);
    for (int i = 0; i < N; i++) {
        struct lq_frame request = hear();
        answer('R', &request);
        if (i % 16 == 0) {
            lq_driver_step(&driver); /* so that the answers have room */
        }
    }
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(await_outcome().result, LOQUET_RELEASED);
    }
}
END_TEST

/* When nobody listens, the kernel may connect us to ourselves. */
START_TEST(self_connection)
{
    struct sockaddr_in address;
    struct lq_channel *channel;
    struct lq_outcome outcome;
    size_t unused;
    void *io;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    address = own_address(fd);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);

    ck_assert_ptr_nonnull(submit(LQ_GOAL_ACQUIRE, "k"));
    channel = lq_core_next_dial(driver.cluster.core, lq_time_now_ms(), &unused);
    ck_assert_ptr_nonnull(channel);
    ck_assert(lq_socket_finish_dial(driver.cluster.core, channel, fd));
    ck_assert_ptr_eq(lq_core_next_closed(driver.cluster.core, &io), channel);
    ck_assert(lq_driver_take(&driver, &outcome));
    ck_assert_int_eq(outcome.result, LOQUET_CLOSED);
    ck_assert_int_eq(outcome.code, ECONNREFUSED);
    (void)close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_driver");
    TCase *tcase = tcase_create("driver");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, refused);
    tcase_add_test(tcase, invalid);
    tcase_add_test(tcase, granted_and_released);
    tcase_add_test(tcase, idle_connection_that_ended);
    tcase_add_test(tcase, dropped);
    tcase_add_test(tcase, full_socket);
    tcase_add_test(tcase, self_connection);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
