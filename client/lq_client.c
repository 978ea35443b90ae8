/* How threads share a client; see lq_client.h. */
#include "lq_client.h"

#include "lq_check.h"
#include "lq_lookup.h"
#include "lq_mem.h"
#include "lq_ticket.h"
#include "lq_time.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* What is delivered may leave something to do, such as giving back a grant that came late. So often
 * it is done at once; then the alarm rings at once. */
#define ROUNDS_PER_TURN 4

/* A thread in a call. */
struct lq_caller {
    struct lq_list in_client, in_cancel;
    struct lq_request *request;
    struct lq_hold *hold; /* NULL: none */
    enum lq_goal goal;
    uint32_t lease_s;
    uint64_t began_ms;
    struct lq_outcome outcome;
    bool over, sleeping, polling;
    pthread_cond_t outcome_came;
};

int lq_client_start_thread(pthread_t *ret_thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    int code;

    LQ_CHECK(sigfillset(&all) == 0);
    LQ_CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    code = pthread_create(ret_thread, NULL, run, argument);
    LQ_CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    return code;
}

void lq_client_lock(struct loquet_client *client)
{
    LQ_CHECK(pthread_mutex_lock(&client->mutex) == 0);
}

/* ---- Waking each other. */

static void write_event(int fd)
{
    LQ_CHECK(eventfd_write(fd, 1) == 0);
}

static void clear_event(int fd)
{
    eventfd_t unused;
    (void)eventfd_read(fd, &unused); /* it may have been cleared already */
}

static void wake_poller(struct loquet_client *client)
{
    if (client->polling && !client->woken) {
        client->woken = true;
        write_event(client->wake_fd);
    }
}

void lq_client_nudge(struct loquet_client *client)
{
    if (client->resting) {
        client->resting = false;
        write_event(client->nudge_fd);
    } else {
        wake_poller(client); /* that may be the worker */
    }
}

bool lq_client_has_to_poll(const struct loquet_client *client)
{
    return !lq_list_is_empty(&client->callers) || lq_core_is_waiting(client->driver.cluster.core);
}

/* Finds somebody who polls, if that is needed. */
static void hand_over(struct loquet_client *client)
{
    if (client->polling || !lq_client_has_to_poll(client)) {
        return;
    }
    if (!client->busy) {
        lq_client_nudge(client);
    } else if (!lq_list_is_empty(&client->callers)) {
        struct lq_caller *first = LQ_CONTAINER(client->callers.next, struct lq_caller, in_client);
        (void)pthread_cond_signal(&first->outcome_came); /* sees that nobody polls */
    }
}

void lq_client_unlock(struct loquet_client *client)
{
    hand_over(client);
    LQ_CHECK(pthread_mutex_unlock(&client->mutex) == 0);
}

/* ---- Turns. */

static void set_alarm(struct loquet_client *client)
{
    uint64_t due_ms = lq_earlier(lq_driver_due_ms(&client->driver), client->close_by_ms);

    if (due_ms < client->alarm_ms || client->alarm_ms <= lq_time_now_ms()) {
        client->alarm_ms = due_ms;
        lq_alarm_set(client->alarm_fd, due_ms);
    }
}

/* The caller's lock begins to be released or renewed. */
static void begin_on_hold(struct loquet_client *client, const struct lq_caller *caller)
{
    struct lq_core *core = client->driver.cluster.core;

    if (caller->goal == LQ_GOAL_RELEASE) {
        lq_hold_begin_release(caller->hold, core);
    } else {
        lq_hold_begin_renewal(caller->hold, core, caller->lease_s, caller->began_ms);
    }
}

static void end_on_hold(struct loquet_client *client, const struct lq_caller *caller)
{
    struct lq_core *core = client->driver.cluster.core;

    if (caller->goal == LQ_GOAL_RELEASE) {
        lq_hold_end_release(caller->hold, caller->outcome.result);
    } else {
        lq_hold_end_renewal(caller->hold, core, caller->lease_s, caller->began_ms,
                            &caller->outcome);
    }
}

static void deliver(struct loquet_client *client, const struct lq_outcome *outcome)
{
    struct lq_caller *caller = outcome->user;

    if (caller == NULL) {
        return; /* a release that nobody waits for */
    }
    caller->outcome = *outcome;
    caller->over = true;
    if (caller->hold != NULL) {
        end_on_hold(client, caller);
    }
    lq_list_remove(&caller->in_client);
    lq_list_remove(&caller->in_cancel);
    if (caller->sleeping) {
        (void)pthread_cond_signal(&caller->outcome_came);
    } else if (caller->polling) {
        wake_poller(client); /* another thread's turn took in what it polls for */
    }
}

void lq_client_turn(struct loquet_client *client)
{
    struct lq_driver *driver = &client->driver;
    struct lq_core *core = driver->cluster.core;
    struct lq_outcome outcome;
    struct lq_lease *lease;
    enum loquet_loss loss;
    int rounds = 0;

    do {
        lq_driver_turn(driver);
        while (lq_driver_take(driver, &outcome)) {
            deliver(client, &outcome);
        }
        while ((lease = lq_core_take_lost(core, lq_time_now_ms(), &loss)) != NULL) {
            lq_ticket_lose(LQ_CONTAINER(lease, struct loquet_ticket, hold.lease), loss);
        }
    } while (lq_driver_due_ms(driver) == 0 && ++rounds < ROUNDS_PER_TURN);
    if (lq_core_wants_lookup(core)) {
        lq_lookup_start(client);
    }
    if (!lq_list_is_empty(&client->lost)) {
        lq_client_nudge(client);
    }
    if (driver->changes != client->polled_changes) {
        wake_poller(client);
    }
    set_alarm(client);
}

void lq_client_poll(struct loquet_client *client)
{
    struct pollfd own[2] = {{.fd = client->wake_fd, .events = POLLIN},
                            {.fd = client->alarm_fd, .events = POLLIN}};
    nfds_t n;
    struct pollfd *pollfds = lq_driver_pollfds(&client->driver, own, 2, &n);

    client->polling = true;
    client->polled_changes = client->driver.changes;
    LQ_CHECK(pthread_mutex_unlock(&client->mutex) == 0);
    (void)poll(pollfds, n, -1); /* whatever it says, the turn looks for itself */
    lq_client_lock(client);
    client->polling = false;
    if (client->woken) {
        client->woken = false;
        clear_event(client->wake_fd);
    }
    lq_driver_polled(&client->driver, 2, n);
    lq_client_turn(client);
}

/* ---- Calls. */

static void wait_for(struct loquet_client *client, struct lq_caller *caller)
{
    while (!caller->over) {
        if (client->polling) {
            caller->sleeping = true;
            (void)pthread_cond_wait(&caller->outcome_came, &client->mutex);
            caller->sleeping = false;
        } else {
            caller->polling = true;
            lq_client_poll(client);
            caller->polling = false;
        }
    }
}

void lq_client_enter(struct loquet_client *client)
{
    client->n_inside++;
}

void lq_client_leave(struct loquet_client *client)
{
    if (--client->n_inside == 0 && client->closing) {
        (void)pthread_cond_broadcast(&client->changed);
    }
}

/* Ties a call that was submitted to what it is about. */
static void tie_caller(struct loquet_client *client, struct lq_caller *caller,
                       const struct lq_tie *tie)
{
    lq_list_append(&client->callers, &caller->in_client);
    lq_list_init(&caller->in_cancel);
    if (tie != NULL && tie->cancel != NULL) {
        lq_list_append(&tie->cancel->callers, &caller->in_cancel);
    }
    if (tie != NULL && tie->hold != NULL) {
        caller->hold = tie->hold;
        begin_on_hold(client, caller);
    }
}

enum loquet_result lq_client_run(struct loquet_client *client, struct lq_order *order,
                                 const struct lq_tie *tie, struct lq_outcome *ret_outcome,
                                 struct loquet_why *ret_why)
{
    struct lq_caller caller = {.outcome_came = PTHREAD_COND_INITIALIZER,
                               .goal = order->goal,
                               .lease_s = order->lease_s,
                               .began_ms = lq_time_now_ms()};
    struct loquet_why unused;

    ret_why = ret_why == NULL ? &unused : ret_why;
    order->user = &caller;
    caller.request = lq_driver_submit(&client->driver, order, ret_why);
    if (caller.request == NULL) {
        return LOQUET_INVALID;
    }
    lq_client_enter(client);
    tie_caller(client, &caller, tie);
    lq_client_turn(client);
    wait_for(client, &caller);
    (void)pthread_cond_destroy(&caller.outcome_came);
    lq_client_leave(client);
    *ret_outcome = caller.outcome;
    lq_cluster_explain(&client->driver.cluster, ret_outcome, ret_why);
    return ret_outcome->result;
}

/* ---- Giving up. */

struct loquet_cancel *loquet_cancel_new(struct loquet_client *client)
{
    struct loquet_cancel *cancel = lq_malloc(sizeof *cancel);

    *cancel = (struct loquet_cancel){.client = client};
    lq_list_init(&cancel->callers);
    return cancel;
}

void loquet_cancel_fire(struct loquet_cancel *cancel)
{
    struct loquet_client *client = cancel->client;
    uint64_t now_ms = lq_time_now_ms();

    lq_client_lock(client);
    cancel->fired = true;
    for (struct lq_list *at = cancel->callers.next; at != &cancel->callers; at = at->next) {
        struct lq_caller *caller = LQ_CONTAINER(at, struct lq_caller, in_cancel);
        lq_core_give_up(client->driver.cluster.core, caller->request, now_ms);
    }
    lq_client_turn(client);
    lq_client_unlock(client);
}

void loquet_cancel_free(struct loquet_cancel *cancel)
{
    lq_free(cancel);
}
