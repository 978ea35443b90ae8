/* Requests of the client on a libuv loop, from the call to the callback. */
#include "lq_check.h"
#include "lq_mem.h"
#include "lq_time.h"
#include "lq_uv.h"

#include <string.h>

/* ---- Beginning. */

static struct loquet_uv_wait *new_wait(struct loquet_uv *client, enum lq_goal goal, void *context)
{
    struct loquet_uv_wait *wait = lq_calloc(1, sizeof *wait);

    wait->client = client;
    wait->goal = goal;
    wait->context = context;
    wait->began_ms = lq_time_now_ms();
    wait->began_us = lq_time_now_us();
    lq_list_init(&wait->in_ticket);
    lq_list_init(&wait->in_refused);
    client->n_waits++;
    return wait;
}

static void submit(struct loquet_uv_wait *wait, struct lq_order *order)
{
    struct loquet_uv *client = wait->client;

    order->user = wait;
    wait->lease_s = order->lease_s;
    wait->request = lq_driver_submit(&client->driver, order, &wait->why);
    if (wait->request == NULL) {
        lq_list_append(&client->refused, &wait->in_refused);
    }
    lq_uv_wake(client);
}

struct loquet_uv_wait *loquet_uv_acquire(struct loquet_uv *client,
                                         const struct loquet_request *request,
                                         loquet_uv_acquired_fn *on_done, void *context)
{
    struct loquet_uv_wait *wait = new_wait(client, LQ_GOAL_ACQUIRE, context);
    const char *key = request->key == NULL ? "" : request->key;
    size_t key_len = request->key_len == 0 ? strlen(key) : request->key_len;
    struct lq_order order = {.goal = LQ_GOAL_ACQUIRE,
                             .key = key,
                             .key_len = key_len,
                             .wait_ms = request->wait_ms,
                             .lease_s = request->lease_s};

    LQ_CHECK(request->cancel == NULL);
    order.redial_until_ms = request->wait_ms == 0 ? 0 : wait->began_ms + request->wait_ms;
    wait->on_acquired = on_done;
    wait->ticket = lq_uv_ticket_new(client, key, key_len, 0);
    submit(wait, &order);
    return wait;
}

void loquet_uv_give_up(struct loquet_uv_wait *wait)
{
    struct loquet_uv *client = wait->client;

    if (wait->request != NULL) {
        lq_core_give_up(client->driver.cluster.core, wait->request, lq_time_now_ms());
        lq_uv_wake(client);
    }
}

/* A request about a ticket. */
static void ask(struct loquet_uv_ticket *ticket, struct loquet_uv_wait *wait,
                struct lq_order *order)
{
    wait->ticket = ticket;
    lq_list_append(&ticket->waits, &wait->in_ticket);
    submit(wait, order);
}

void loquet_uv_release(struct loquet_uv_ticket *ticket, loquet_uv_done_fn *on_done, void *context)
{
    struct loquet_uv_wait *wait = new_wait(ticket->client, LQ_GOAL_RELEASE, context);
    struct lq_order order =
        lq_hold_order(&ticket->hold, LQ_GOAL_RELEASE, wait->began_ms + LQ_TRANSPORT_MS);

    wait->on_done = on_done;
    lq_hold_begin_release(&ticket->hold, ticket->client->driver.cluster.core);
    ask(ticket, wait, &order);
}

void loquet_uv_renew(struct loquet_uv_ticket *ticket, uint32_t lease_s, loquet_uv_done_fn *on_done,
                     void *context)
{
    struct loquet_uv_wait *wait = new_wait(ticket->client, LQ_GOAL_RENEW, context);
    struct lq_order order =
        lq_hold_order(&ticket->hold, LQ_GOAL_RENEW, wait->began_ms + LQ_TRANSPORT_MS);

    wait->on_done = on_done;
    order.lease_s = lease_s;
    ask(ticket, wait, &order);
    if (wait->request != NULL) {
        lq_hold_begin_renewal(&ticket->hold, ticket->client->driver.cluster.core, lease_s,
                              wait->began_ms);
    }
}

static void submit_ping(struct loquet_uv_wait *wait)
{
    struct lq_order order = {.goal = LQ_GOAL_PING, .deadline_ms = wait->began_ms + LQ_TRANSPORT_MS};

    wait->began_us = lq_time_now_us();
    submit(wait, &order);
}

void loquet_uv_ping(struct loquet_uv *client, loquet_uv_alive_fn *on_done, void *context)
{
    struct loquet_uv_wait *wait = new_wait(client, LQ_GOAL_PING, context);

    wait->on_alive = on_done;
    submit_ping(wait);
}

/* ---- Ending. */

static void end_acquire(struct loquet_uv_wait *wait, const struct lq_outcome *outcome)
{
    struct loquet_uv_ticket *ticket = wait->ticket;

    if (outcome->result == LOQUET_ACQUIRED) {
        lq_hold_granted(&ticket->hold, wait->lease_s, outcome);
    } else {
        loquet_uv_ticket_free(ticket);
        ticket = NULL;
    }
    wait->on_acquired(wait->context, outcome->result, ticket, &wait->why);
}

/* A ping is done twice: the first one connects, the second one is measured. */
static bool ping_again(struct loquet_uv_wait *wait, enum loquet_result result)
{
    if (result != LOQUET_ALIVE || wait->measuring) {
        return false;
    }
    wait->measuring = true;
    submit_ping(wait);
    return true;
}

void lq_uv_wait_end(struct loquet_uv_wait *wait, struct lq_outcome *outcome)
{
    if (wait->goal == LQ_GOAL_PING && ping_again(wait, outcome->result)) {
        return;
    }
    lq_list_remove(&wait->in_ticket);
    wait->client->n_waits--;
    if (wait->request != NULL) {
        lq_cluster_explain(&wait->client->driver.cluster, outcome, &wait->why);
    }
    switch (wait->goal) {
    case LQ_GOAL_ACQUIRE:
        end_acquire(wait, outcome);
        break;
    case LQ_GOAL_RELEASE:
        if (wait->ticket != NULL) {
            lq_hold_end_release(&wait->ticket->hold, outcome->result);
        }
        break;
    case LQ_GOAL_RENEW:
        if (wait->ticket != NULL && wait->request != NULL) {
            lq_hold_end_renewal(&wait->ticket->hold, wait->client->driver.cluster.core,
                                wait->lease_s, wait->began_ms, outcome);
            lq_uv_wake(wait->client);
        }
        break;
    case LQ_GOAL_PING:
        wait->on_alive(wait->context, outcome->result, lq_time_now_us() - wait->began_us,
                       &wait->why);
        break;
    }
    if (wait->on_done != NULL) {
        wait->on_done(wait->context, outcome->result, &wait->why);
    }
    lq_free(wait);
}
