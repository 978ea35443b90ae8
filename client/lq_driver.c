#include "lq_driver.h"

#include "lq_check.h"
#include "lq_explain.h"
#include "lq_key.h"
#include "lq_time.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Reading in one step goes round at most so often: a server that talks without end must not keep
 * the deadlines from being looked at. */
#define READS_PER_STEP 16

static uint64_t random_u64(void)
{
    uint64_t value = 0;
    LQ_CHECK(getrandom(&value, sizeof value, 0) == (ssize_t)sizeof value);
    return value;
}

void lq_driver_init(struct lq_driver *driver)
{
    memset(driver, 0, sizeof *driver);
    driver->fd = -1;
    driver->owner = random_u64();
}

static void close_socket(struct lq_driver *driver)
{
    if (driver->fd >= 0) {
        (void)close(driver->fd);
        driver->fd = -1;
    }
}

void lq_driver_close(struct lq_driver *driver)
{
    if (driver->core.conn != LQ_CONN_NONE) {
        lq_core_lost(&driver->core, lq_time_now_ms(), LQ_WHY_EOF);
    }
    close_socket(driver);
}

enum loquet_result lq_driver_set_endpoints(struct lq_driver *driver, const char *text)
{
    struct lq_endpoints endpoints;

    LQ_CHECK(!lq_driver_is_busy(driver));
    driver->error[0] = '\0';
    if (!lq_endpoints_parse(&endpoints, text, LQ_ENDPOINTS_PORT, driver->error,
                            sizeof driver->error)) {
        return LOQUET_INVALID;
    }
    if (!lq_endpoints_resolve(&endpoints, driver->error, sizeof driver->error)) {
        return LOQUET_CLOSED;
    }
    close_socket(driver);
    driver->endpoints = endpoints;
    driver->has_endpoints = true;
    driver->endpoint[0] = '\0';
    lq_core_init(&driver->core, endpoints.n_addresses, random_u64());
    return LOQUET_ALIVE;
}

static bool refuse(struct lq_driver *driver, const char *why)
{
    (void)snprintf(driver->error, sizeof driver->error, "%s", why);
    return false;
}

/* Checks what callers gave, and begins. */
static bool begin(struct lq_driver *driver, const struct lq_order *order)
{
    bool keyed = order->goal != LQ_GOAL_PING;
    bool leased = order->goal == LQ_GOAL_ACQUIRE || order->goal == LQ_GOAL_RENEW;

    driver->error[0] = '\0';
    driver->last_errno = 0;
    if (keyed && !lq_key_is_valid(order->key, order->key_len)) {
        return refuse(driver, "a key is 1 to 1024 bytes of UTF-8 without line feed");
    }
    if (leased && (order->lease_s < 1 || order->lease_s > LOQUET_LEASE_MAX)) {
        return refuse(driver, "a lease is 1 to 255 seconds");
    }
    if (order->wait_ms > LOQUET_WAIT_MAX) {
        return refuse(driver, "a wait is at most 255 seconds");
    }
    if (!driver->has_endpoints) {
        return refuse(driver, "no endpoints were set");
    }
    lq_core_begin(&driver->core, order, lq_time_now_ms());
    return true;
}

bool lq_driver_acquire(struct lq_driver *driver, const char *key, size_t key_len, uint32_t wait_ms,
                       uint32_t lease_s)
{
    struct lq_order order = {.goal = LQ_GOAL_ACQUIRE,
                             .key = key,
                             .key_len = key_len,
                             .owner = ++driver->owner,
                             .wait_ms = wait_ms,
                             .lease_s = lease_s,
                             .redial_until_ms = wait_ms == 0 ? 0 : lq_time_now_ms() + wait_ms};
    return begin(driver, &order);
}

bool lq_driver_release(struct lq_driver *driver, const struct loquet_ticket *ticket,
                       uint64_t deadline_ms, uint64_t redial_until_ms)
{
    struct lq_order order = {.goal = LQ_GOAL_RELEASE,
                             .key = ticket->key,
                             .key_len = ticket->key_len,
                             .token = ticket->token,
                             .deadline_ms = deadline_ms,
                             .redial_until_ms = redial_until_ms};
    return begin(driver, &order);
}

bool lq_driver_renew(struct lq_driver *driver, const struct loquet_ticket *ticket, uint32_t lease_s,
                     uint64_t deadline_ms, uint64_t redial_until_ms)
{
    struct lq_order order = {.goal = LQ_GOAL_RENEW,
                             .key = ticket->key,
                             .key_len = ticket->key_len,
                             .token = ticket->token,
                             .lease_s = lease_s,
                             .deadline_ms = deadline_ms,
                             .redial_until_ms = redial_until_ms};
    return begin(driver, &order);
}

bool lq_driver_ping(struct lq_driver *driver, uint64_t deadline_ms)
{
    struct lq_order order = {.goal = LQ_GOAL_PING, .deadline_ms = deadline_ms};
    return begin(driver, &order);
}

void lq_driver_cancel(struct lq_driver *driver)
{
    lq_core_cancel(&driver->core, lq_time_now_ms());
}

void lq_driver_abandon(struct lq_driver *driver)
{
    lq_core_abandon(&driver->core, lq_time_now_ms());
    if (driver->core.conn == LQ_CONN_NONE) {
        close_socket(driver);
    }
}

bool lq_driver_is_busy(const struct lq_driver *driver)
{
    return driver->core.phase != LQ_PHASE_IDLE;
}

struct pollfd lq_driver_pollfd(const struct lq_driver *driver)
{
    struct pollfd pollfd = {.fd = driver->fd, .events = POLLIN};
    if (driver->core.conn == LQ_CONN_DIALLING) {
        pollfd.events = POLLOUT;
    } else if (driver->core.phase == LQ_PHASE_QUEUED || lq_wire_is_pending(&driver->core.wire)) {
        pollfd.events = POLLIN | POLLOUT;
    }
    return pollfd;
}

uint64_t lq_driver_due_ms(const struct lq_driver *driver)
{
    return lq_core_due_ms(&driver->core);
}

/* ---- The connection. */

static void lost(struct lq_driver *driver, enum lq_why why, int code)
{
    driver->last_errno = code;
    lq_core_lost(&driver->core, lq_time_now_ms(), why);
}

static void set_option(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof value); /* each is a help, none is needed */
}

static int open_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, LQ_USER_TIMEOUT_MS);
        set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
        set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, LQ_KEEPALIVE_IDLE_S);
        set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, LQ_KEEPALIVE_INTERVAL_S);
        set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, LQ_KEEPALIVE_PROBES);
    }
    return fd;
}

/* Starts a connection when the core wants one. */
static void dial(struct lq_driver *driver)
{
    const struct lq_address *address;

    if (!lq_core_dial(&driver->core, lq_time_now_ms(), &driver->address)) {
        return;
    }
    close_socket(driver); /* the one before, if the core dropped it in this very step */
    address = &driver->endpoints.addresses[driver->address];
    lq_endpoints_text(&driver->endpoints, address->endpoint, driver->endpoint,
                      sizeof driver->endpoint);
    driver->last_errno = 0;
    driver->fd = open_socket(address->socket_address.ss_family);
    if (driver->fd < 0) {
        lost(driver, LQ_WHY_DIAL, errno);
    } else if (connect(driver->fd, (const struct sockaddr *)&address->socket_address,
                       address->len) != 0 &&
               errno != EINPROGRESS) {
        lost(driver, LQ_WHY_DIAL, errno);
    }
}

/* Whether we are connected to ourselves: when nobody listens, the kernel may by chance give our end
 * the very port that we connect to (TCP's simultaneous open). */
static bool is_self_connected(int fd)
{
    struct sockaddr_storage ours = {0}, theirs = {0};
    socklen_t our_len = sizeof ours, their_len = sizeof theirs;

    return getsockname(fd, (struct sockaddr *)&ours, &our_len) == 0 &&
           getpeername(fd, (struct sockaddr *)&theirs, &their_len) == 0 && our_len == their_len &&
           memcmp(&ours, &theirs, our_len) == 0;
}

/* Looks whether the connection being dialled is there. */
static void finish_dial(struct lq_driver *driver)
{
    struct pollfd pollfd = {.fd = driver->fd, .events = POLLOUT};
    int code = 0;
    socklen_t len = sizeof code;

    if (poll(&pollfd, 1, 0) <= 0) {
        return;
    }
    if (getsockopt(driver->fd, SOL_SOCKET, SO_ERROR, &code, &len) != 0) {
        code = errno;
    }
    if (code == 0 && is_self_connected(driver->fd)) {
        code = ECONNREFUSED;
    }
    if (code != 0) {
        lost(driver, LQ_WHY_DIAL, code);
    } else {
        lq_core_connected(&driver->core, lq_time_now_ms());
    }
}

static bool is_temporary(int code)
{
    return code == EAGAIN || code == EWOULDBLOCK || code == EINTR;
}

/* Takes in what has come. */
static void receive(struct lq_driver *driver)
{
    for (int i = 0; i < READS_PER_STEP && driver->core.conn == LQ_CONN_OPEN; i++) {
        size_t cap;
        uint8_t *space = lq_core_space(&driver->core, &cap);
        ssize_t n = recv(driver->fd, space, cap, 0);
        if (n > 0) {
            lq_core_received(&driver->core, (size_t)n, lq_time_now_ms());
        } else if (n == 0) {
            lost(driver, LQ_WHY_EOF, 0);
        } else if (is_temporary(errno)) {
            return;
        } else {
            lost(driver, LQ_WHY_BROKEN, errno);
        }
    }
}

/* Writes what there is to write. */
static void transmit(struct lq_driver *driver)
{
    for (;;) {
        size_t len;
        const uint8_t *bytes = lq_core_output(&driver->core, lq_time_now_ms(), &len);
        ssize_t n = len == 0 ? 0 : send(driver->fd, bytes, len, MSG_NOSIGNAL);
        if (n > 0) {
            lq_core_wrote(&driver->core, (size_t)n);
        } else if (n == 0 || is_temporary(errno)) {
            return;
        } else {
            lost(driver, LQ_WHY_BROKEN, errno);
            return;
        }
    }
}

/* ---- The step. */

bool lq_driver_step(struct lq_driver *driver, struct lq_outcome *ret_outcome)
{
    struct lq_core *core = &driver->core;
    bool over;

    /* A failed dial may be followed by another at once. That ends: after a round of all addresses
     * there is a pause. */
    do {
        if (core->conn == LQ_CONN_DIALLING) {
            finish_dial(driver);
        }
        receive(driver);
        lq_core_tick(core, lq_time_now_ms());
        dial(driver);
        transmit(driver);
        over = lq_core_take(core, lq_time_now_ms(), ret_outcome);
    } while (!over && lq_core_due_ms(core) <= lq_time_now_ms());
    if (core->conn == LQ_CONN_NONE) {
        close_socket(driver);
    }
    if (over && lq_explain_is_success(ret_outcome->result)) {
        driver->error[0] = '\0';
    } else {
        lq_explain(core, driver->endpoint, driver->last_errno, driver->error, sizeof driver->error);
    }
    return over;
}
