#include "lq_wait.h"

#include "lq_check.h"
#include "lq_out.h"
#include "lq_time.h"
#include "lq_where.h"

#include <string.h>
#include <unistd.h>

enum lq_exit lq_wait_set_endpoints(const struct lq_cli *cli, struct lq_driver *driver)
{
    enum loquet_result result = lq_driver_set_endpoints(driver, lq_where_endpoints(cli));
    return result == LOQUET_ALIVE ? LQ_EXIT_OK : lq_where_fail(cli, result, driver->error);
}

/* Says once that connecting fails, when it will be tried again for a while. */
static void note_trouble(const struct lq_cli *cli, const struct lq_driver *driver, bool *noted)
{
    if (!*noted && !cli->json && cli->wait_ms > 0 && driver->core.why == LQ_WHY_DIAL) {
        (void)fprintf(stderr, "loquet: %s; trying again until the wait is over\n", driver->error);
        *noted = true;
    }
}

static void await_events(const struct lq_driver *driver, int signal_fd, int alarm_fd)
{
    struct pollfd pollfds[3] = {lq_driver_pollfd(driver),
                                {.fd = signal_fd, .events = POLLIN},
                                {.fd = alarm_fd, .events = POLLIN}};
    lq_alarm_set(alarm_fd, lq_driver_due_ms(driver));
    (void)poll(pollfds, 3, -1); /* whatever it says, everything is looked at */
}

/* Waits for the outcome of an acquire. The first signal (returned) gives up the wait in an orderly
 * way, the second one does not wait for that. */
static int finish_acquire(const struct lq_cli *cli, struct lq_driver *driver,
                          const struct lq_signals *signals, int alarm_fd,
                          struct lq_outcome *ret_outcome)
{
    bool noted = false;
    int signal = 0;

    *ret_outcome = (struct lq_outcome){.result = LOQUET_INDETERMINATE};
    while (!lq_driver_step(driver, ret_outcome)) {
        int number = lq_signals_read(signals);
        if (number != 0 && signal != 0) {
            break;
        }
        if (number != 0) {
            signal = number;
            lq_driver_cancel(driver);
            continue;
        }
        note_trouble(cli, driver, &noted);
        await_events(driver, signals->fd, alarm_fd);
    }
    return signal != 0 ? signal : lq_signals_read(signals);
}

struct lq_outcome lq_wait_release(struct lq_driver *driver, const struct loquet_ticket *ticket,
                                  uint64_t limit_ms)
{
    struct lq_outcome outcome = {.result = LOQUET_INDETERMINATE};
    uint64_t by_ms = lq_time_now_ms() + limit_ms;
    int alarm_fd = lq_alarm_open();

    if (alarm_fd >= 0 && lq_driver_release(driver, ticket, by_ms, 0)) {
        while (!lq_driver_step(driver, &outcome)) {
            await_events(driver, -1, alarm_fd);
        }
    }
    if (alarm_fd >= 0) {
        (void)close(alarm_fd);
    }
    return outcome;
}

/* Says why a lock was not acquired. */
static enum lq_exit explain(const struct lq_cli *cli, const struct lq_driver *driver,
                            const struct lq_outcome *outcome)
{
    const char *key = cli->arguments[0], *why = driver->error;
    double wait_s = (double)cli->wait_ms / 1000;

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
                           key, why);
    }
    return lq_out_fail(cli, "indeterminate", LQ_EXIT_UNKNOWN,
                       "it is unknown whether '%s' was acquired: %s. If it was, it is free again "
                       "in %u s at the latest",
                       key, why, cli->lease_s);
}

enum lq_exit lq_wait_acquire(const struct lq_cli *cli, struct lq_driver *driver,
                             const struct lq_signals *signals, struct loquet_ticket *ret_ticket,
                             uint64_t *ret_sent_ms)
{
    const char *key = cli->arguments[0];
    struct lq_outcome outcome;
    int signal, alarm_fd = lq_alarm_open();

    if (alarm_fd < 0) {
        return lq_out_fail(cli, "system", LQ_EXIT_SYSTEM, "no file descriptor left");
    }
    LQ_CHECK(lq_driver_acquire(driver, key, strlen(key), cli->wait_ms, cli->lease_s));
    signal = finish_acquire(cli, driver, signals, alarm_fd, &outcome);
    (void)close(alarm_fd);
    if (outcome.result == LOQUET_ACQUIRED) {
        (void)loquet_ticket_make(ret_ticket, key, strlen(key), outcome.token);
        ret_ticket->owner = outcome.owner;
        ret_ticket->ends_ms = outcome.ends_ms;
        ret_ticket->lease_s = cli->lease_s;
        *ret_sent_ms = outcome.sent_ms;
        if (signal == 0) {
            return LQ_EXIT_OK;
        }
        (void)lq_wait_release(driver, ret_ticket, LQ_UNDO_MS);
    }
    if (signal != 0) {
        return lq_out_fail(cli, "interrupted", LQ_EXIT_SIGNAL + (enum lq_exit)signal,
                           "gave up waiting for '%s': signal %s", key, lq_signals_name(signal));
    }
    return explain(cli, driver, &outcome);
}
