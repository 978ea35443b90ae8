/* The blocking calls of loquet.h on a client; those on a ticket are in lq_ticket.c, and how threads
 * share a client is in lq_client.h. */
#include "loquet.h"

#include "lq_check.h"
#include "lq_lookup.h"
#include "lq_mem.h"
#include "lq_ticket.h"
#include "lq_time.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

const char *loquet_version(void)
{
    return LOQUET_VERSION;
}

uint64_t loquet_now_ms(void)
{
    return lq_time_now_ms();
}

const char *loquet_result_text(enum loquet_result result)
{
    switch (result) {
    case LOQUET_ACQUIRED:
        return "acquired";
    case LOQUET_TIMEOUT:
        return "timeout";
    case LOQUET_BUSY:
        return "busy";
    case LOQUET_INDETERMINATE:
        return "indeterminate";
    case LOQUET_CLOSED:
        return "closed";
    case LOQUET_INVALID:
        return "invalid";
    case LOQUET_RELEASED:
        return "released";
    case LOQUET_RENEWED:
        return "renewed";
    case LOQUET_NOT_HELD:
        return "not_held";
    case LOQUET_ALIVE:
        return "alive";
    }
    return "unknown";
}

/* ---- Opening. */

static void set_why(struct loquet_why *why, const char *text)
{
    (void)snprintf(why->text, sizeof why->text, "%s", text);
    why->endpoint[0] = '\0';
}

static struct loquet_client *make(void)
{
    struct loquet_client *client = lq_calloc(1, sizeof *client);

    LQ_CHECK(pthread_mutex_init(&client->mutex, NULL) == 0);
    LQ_CHECK(pthread_cond_init(&client->changed, NULL) == 0);
    lq_driver_init(&client->driver);
    lq_list_init(&client->callers);
    lq_list_init(&client->tickets);
    lq_list_init(&client->lost);
    client->close_by_ms = client->alarm_ms = LQ_NEVER;
    client->alarm_fd = lq_alarm_open();
    client->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    client->nudge_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return client;
}

static void close_fd(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

static void free_client(struct loquet_client *client)
{
    close_fd(client->alarm_fd);
    close_fd(client->wake_fd);
    close_fd(client->nudge_fd);
    (void)pthread_cond_destroy(&client->changed);
    (void)pthread_mutex_destroy(&client->mutex);
    lq_free(client);
}

/* Everything that can fail. */
static bool set_up(struct loquet_client *client, const char *endpoints, struct loquet_why *ret_why)
{
    int code;

    if (client->alarm_fd < 0 || client->wake_fd < 0 || client->nudge_fd < 0) {
        set_why(ret_why, "no file descriptor left");
        return false;
    }
    if (lq_driver_set_endpoints(&client->driver, endpoints, ret_why) != LOQUET_ALIVE) {
        return false;
    }
    code = lq_client_start_thread(&client->worker, lq_worker_main, client);
    if (code != 0) {
        set_why(ret_why, "no thread can be had");
    }
    return code == 0;
}

struct loquet_client *loquet_open(const char *endpoints, struct loquet_why *ret_why)
{
    struct loquet_client *client = make();
    struct loquet_why unused;

    if (!set_up(client, endpoints, ret_why == NULL ? &unused : ret_why)) {
        lq_driver_done(&client->driver);
        free_client(client);
        return NULL;
    }
    return client;
}

/* ---- Closing. */

/* They go on by themselves. */
static void wait_for_callers(struct loquet_client *client)
{
    while (client->n_inside > 0) {
        (void)pthread_cond_wait(&client->changed, &client->mutex);
    }
}

/* Finishes what the callers leave in the time that there is for it. */
static void finish(struct loquet_client *client)
{
    wait_for_callers(client);
    while (!lq_core_is_idle(client->driver.cluster.core) &&
           lq_time_now_ms() < client->close_by_ms) {
        if (client->polling) {
            (void)pthread_cond_wait(&client->changed, &client->mutex); /* the worker ends */
        } else {
            lq_client_poll(client);
        }
    }
}

static void detach_tickets(struct loquet_client *client)
{
    while (!lq_list_is_empty(&client->tickets)) {
        lq_ticket_detach(LQ_CONTAINER(client->tickets.next, struct loquet_ticket, in_client));
    }
}

/* From now on nothing new begins, and the worker comes to its end. */
static void shut(struct loquet_client *client)
{
    uint64_t now_ms = lq_time_now_ms();

    client->closing = true;
    client->close_by_ms = now_ms + LQ_CLOSE_MS;
    lq_ticket_let_go_all(client);
    lq_core_shut(client->driver.cluster.core, now_ms);
    lq_client_turn(client);
    lq_client_nudge(client);
}

void loquet_close(struct loquet_client *client)
{
    if (client == NULL) {
        return;
    }
    lq_client_lock(client);
    shut(client);
    finish(client);
    LQ_CHECK(pthread_mutex_unlock(&client->mutex) == 0);
    (void)pthread_join(client->worker, NULL); /* after its callback, if one runs */
    lq_client_lock(client);
    wait_for_callers(client); /* one may have freed its ticket while the callback ran */
    lq_lookup_forget(client);
    detach_tickets(client);
    lq_driver_done(&client->driver);
    LQ_CHECK(pthread_mutex_unlock(&client->mutex) == 0);
    free_client(client);
}

/* ---- Calls. */

/* The gate in the caller's own thread: it may have been woken late, or the client is being closed
 * meanwhile. What must not be handed over any more is released, without waiting for that. */
static bool is_late(struct loquet_client *client, const struct lq_order *acquire,
                    uint64_t deadline_ms, struct lq_outcome *outcome, struct loquet_why *ret_why)
{
    uint64_t now_ms = lq_time_now_ms();

    if (now_ms < deadline_ms && now_ms < outcome->ends_ms && !client->closing) {
        return false;
    }
    lq_core_give_back(client->driver.cluster.core, acquire, outcome->token, now_ms);
    lq_client_turn(client);
    outcome->result = LOQUET_INDETERMINATE;
    outcome->why = LQ_WHY_LATE;
    lq_cluster_explain(&client->driver.cluster, outcome, ret_why);
    return true;
}

static struct loquet_ticket *make_ticket(struct loquet_client *client, const struct lq_order *order,
                                         const struct lq_outcome *outcome)
{
    struct loquet_ticket *ticket =
        lq_ticket_new(client, order->key, order->key_len, outcome->token);

    lq_hold_granted(&ticket->hold, order->lease_s, outcome);
    return ticket;
}

static struct lq_order order_of(const struct loquet_request *request, uint64_t now_ms)
{
    size_t len = request->key_len;

    if (len == 0 && request->key != NULL) {
        len = strlen(request->key);
    }
    return (struct lq_order){.goal = LQ_GOAL_ACQUIRE,
                             .key = request->key,
                             .key_len = len,
                             .wait_ms = request->wait_ms,
                             .lease_s = request->lease_s,
                             .redial_until_ms =
                                 request->wait_ms == 0 ? 0 : now_ms + request->wait_ms};
}

enum loquet_result loquet_acquire(struct loquet_client *client,
                                  const struct loquet_request *request,
                                  struct loquet_ticket **ret_ticket, struct loquet_why *ret_why)
{
    uint64_t now_ms = lq_time_now_ms();
    uint64_t limit_ms = request->wait_ms == 0 ? LQ_TRANSPORT_MS : request->wait_ms;
    struct lq_order order = order_of(request, now_ms);
    struct lq_outcome outcome;
    struct loquet_why unused, *why = ret_why == NULL ? &unused : ret_why;
    enum loquet_result result;

    lq_client_lock(client);
    if (request->cancel != NULL && request->cancel->fired) {
        set_why(why, "it was given up");
        result = LOQUET_TIMEOUT;
    } else {
        const struct lq_tie tie = {.cancel = request->cancel};
        result = lq_client_run(client, &order, &tie, &outcome, why);
    }
    if (result == LOQUET_ACQUIRED && is_late(client, &order, now_ms + limit_ms, &outcome, why)) {
        result = LOQUET_INDETERMINATE;
    } else if (result == LOQUET_ACQUIRED) {
        *ret_ticket = make_ticket(client, &order, &outcome);
    }
    lq_client_unlock(client);
    return result;
}

enum loquet_result loquet_ping(struct loquet_client *client, uint64_t *ret_round_trip_us,
                               struct loquet_why *ret_why)
{
    struct lq_order order = {.goal = LQ_GOAL_PING,
                             .deadline_ms = lq_time_now_ms() + LQ_TRANSPORT_MS};
    struct loquet_why unused, *why = ret_why == NULL ? &unused : ret_why;
    struct lq_outcome outcome = {.result = LOQUET_ALIVE};
    uint64_t began_us = 0;

    lq_client_lock(client);
    /* The first one connects, the second one is measured. */
    for (int i = 0; i < 2 && outcome.result == LOQUET_ALIVE; i++) {
        began_us = lq_time_now_us();
        (void)lq_client_run(client, &order, NULL, &outcome, why);
    }
    if (outcome.result == LOQUET_ALIVE) {
        *ret_round_trip_us = lq_time_now_us() - began_us;
    }
    lq_client_unlock(client);
    return outcome.result;
}
