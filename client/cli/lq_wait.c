#include "lq_wait.h"

#include "lq_check.h"
#include "lq_out.h"
#include "lq_time.h"
#include "lq_where.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum lq_exit lq_wait_set_endpoints(const struct lq_cli *cli, struct lq_driver *driver)
{
    struct loquet_why why;
    enum loquet_result result = lq_driver_set_endpoints(driver, lq_where_endpoints(cli), &why);
    return result == LOQUET_ALIVE ? LQ_EXIT_OK : lq_where_fail(cli, result, why.text);
}

/* ---- Acquiring. */

/* Says once that connecting fails, when it will be tried again for a while. */
static void note_trouble(const struct lq_cli *cli, const struct lq_driver *driver,
                         const struct lq_request *request, bool *noted)
{
    struct lq_outcome trouble = {.result = LOQUET_CLOSED};
    struct loquet_why why;

    if (*noted || cli->json || cli->wait_ms == 0) {
        return;
    }
    lq_core_trouble(request, &trouble);
    if (trouble.why == LQ_WHY_DIAL) {
        lq_cluster_explain(&driver->cluster, &trouble, &why);
        (void)fprintf(stderr, "loquet: %s; trying again until the wait is over\n", why.text);
        *noted = true;
    }
}

static void await_events(struct lq_driver *driver, int signal_fd, int alarm_fd)
{
    struct pollfd own[2] = {{.fd = signal_fd, .events = POLLIN},
                            {.fd = alarm_fd, .events = POLLIN}};
    lq_alarm_set(alarm_fd, lq_driver_due_ms(driver));
    lq_driver_poll(driver, own, 2);
}

/* A grant that came too late is given back before we end. */
static void finish_chores(struct lq_driver *driver, int alarm_fd)
{
    struct lq_core *core = driver->cluster.core;
    uint64_t now_ms = lq_time_now_ms(), by_ms = now_ms + LQ_UNDO_MS;
    struct pollfd alarm = {.fd = alarm_fd, .events = POLLIN};

    lq_core_shut(core, now_ms);
    while (lq_driver_step(driver), !lq_core_is_idle(core) && lq_time_now_ms() < by_ms) {
        lq_alarm_set(alarm_fd, lq_earlier(by_ms, lq_driver_due_ms(driver)));
        lq_driver_poll(driver, &alarm, 1);
    }
}

/* Waits for the outcome of an acquire. The first signal (returned) gives up the wait in an orderly
 * way, the second one does not wait for that. */
static int finish_acquire(const struct lq_cli *cli, struct lq_driver *driver,
                          const struct lq_signals *signals, struct lq_request *request,
                          struct lq_outcome *ret_outcome)
{
    int alarm_fd = lq_alarm_open(), signal = 0;
    bool noted = false;

    *ret_outcome = (struct lq_outcome){
        .result = LOQUET_CLOSED, .why = LQ_WHY_DIAL, .code = errno, .address = SIZE_MAX};
    if (alarm_fd < 0) {
        return 0; /* not a byte was sent */
    }
    ret_outcome->result = LOQUET_INDETERMINATE;
    while (lq_driver_step(driver), !lq_driver_take(driver, ret_outcome)) {
        int number = lq_signals_read(signals);
        if (number != 0 && signal != 0) {
            (void)close(alarm_fd);
            return signal;
        }
        if (number != 0) {
            signal = number;
            lq_core_give_up(driver->cluster.core, request, lq_time_now_ms());
            continue;
        }
        note_trouble(cli, driver, request, &noted);
        await_events(driver, signals->fd, alarm_fd);
    }
    if (ret_outcome->result != LOQUET_ACQUIRED) {
        finish_chores(driver, alarm_fd);
    }
    (void)close(alarm_fd);
    return signal != 0 ? signal : lq_signals_read(signals);
}

/* ---- Others. */

struct lq_order lq_wait_order(enum lq_goal goal, const struct lq_held *held, uint64_t by_ms)
{
    struct lq_order order = {.goal = goal, .deadline_ms = by_ms};

    if (held != NULL) {
        order.key = held->key;
        order.key_len = held->key_len;
        order.token = held->token;
        order.lease_s = held->lease_s;
    }
    return order;
}

bool lq_wait_run(struct lq_driver *driver, struct lq_order *order, struct lq_outcome *ret_outcome)
{
    int alarm_fd = lq_alarm_open();
    struct loquet_why unused;

    if (alarm_fd < 0) {
        return false;
    }
    LQ_CHECK(lq_driver_submit(driver, order, &unused) != NULL); /* the arguments were checked */
    while (lq_driver_step(driver), !lq_driver_take(driver, ret_outcome)) {
        await_events(driver, -1, alarm_fd);
    }
    (void)close(alarm_fd);
    return true;
}

struct lq_outcome lq_wait_release(struct lq_driver *driver, const struct lq_held *held,
                                  uint64_t limit_ms)
{
    struct lq_order order = lq_wait_order(LQ_GOAL_RELEASE, held, lq_time_now_ms() + limit_ms);
    struct lq_outcome outcome = {.result = LOQUET_INDETERMINATE, .address = SIZE_MAX};

    (void)lq_wait_run(driver, &order, &outcome);
    return outcome;
}

/* Says why a lock was not acquired. */
static enum lq_exit explain(const struct lq_cli *cli, const struct lq_driver *driver,
                            const struct lq_outcome *outcome)
{
    const char *key = cli->arguments[0];
    struct loquet_why why;
    double wait_s = (double)cli->wait_ms / 1000;

    lq_cluster_explain(&driver->cluster, outcome, &why);
    if (outcome->result == LOQUET_BUSY) {
        return lq_out_fail(cli, "busy", LQ_EXIT_NOT_ACQUIRED,
                           "'%s' was not acquired: the server is at a limit. Try again later", key);
    }
    if (outcome->result == LOQUET_TIMEOUT && outcome->maybe_sent && cli->wait_ms == 0) {
        return lq_out_fail(cli, "timeout", LQ_EXIT_NOT_ACQUIRED,
                           "'%s' is held by another. --wait S waits for it", key);
    }
    if (outcome->result == LOQUET_TIMEOUT && outcome->maybe_sent) {
        return lq_out_fail(cli, "timeout", LQ_EXIT_NOT_ACQUIRED,
                           "'%s' did not become free within %g s", key, wait_s);
    }
    if (outcome->result == LOQUET_TIMEOUT || outcome->result == LOQUET_CLOSED) {
        return lq_out_fail(cli, "closed", LQ_EXIT_UNAVAILABLE,
                           "'%s' was not acquired: %s. Does loquetd run there? --endpoints or "
                           "LOQUET_ENDPOINTS says where to look",
                           key, why.text);
    }
    return lq_out_fail(cli, "indeterminate", LQ_EXIT_UNKNOWN,
                       "it is unknown whether '%s' was acquired: %s. If it was, it is free again "
                       "in %u s at the latest",
                       key, why.text, cli->lease_s);
}

static void take_grant(struct lq_held *ret_held, const struct lq_order *order,
                       const struct lq_outcome *outcome)
{
    *ret_held = (struct lq_held){.token = outcome->token,
                                 .sent_ms = outcome->sent_ms,
                                 .ends_ms = outcome->ends_ms,
                                 .lease_s = order->lease_s,
                                 .key_len = (uint32_t)order->key_len};
    memcpy(ret_held->key, order->key, order->key_len);
}

enum lq_exit lq_wait_acquire(const struct lq_cli *cli, struct lq_driver *driver,
                             const struct lq_signals *signals, struct lq_held *ret_held)
{
    const char *key = cli->arguments[0];
    struct lq_order order = {.goal = LQ_GOAL_ACQUIRE,
                             .key = key,
                             .key_len = strlen(key),
                             .wait_ms = cli->wait_ms,
                             .lease_s = cli->lease_s};
    struct lq_request *request;
    struct lq_outcome outcome;
    struct loquet_why unused;
    int signal;

    order.redial_until_ms = cli->wait_ms == 0 ? 0 : lq_time_now_ms() + cli->wait_ms;
    request = lq_driver_submit(driver, &order, &unused);
    LQ_CHECK(request != NULL); /* the arguments were checked */
    signal = finish_acquire(cli, driver, signals, request, &outcome);
    if (outcome.result == LOQUET_ACQUIRED) {
        take_grant(ret_held, &order, &outcome);
        if (signal == 0) {
            return LQ_EXIT_OK;
        }
        (void)lq_wait_release(driver, ret_held, LQ_UNDO_MS);
    }
    if (signal != 0) {
        return lq_out_fail(cli, "interrupted", LQ_EXIT_SIGNAL + (enum lq_exit)signal,
                           "gave up waiting for '%s': signal %s", key, lq_signals_name(signal));
    }
    return explain(cli, driver, &outcome);
}
