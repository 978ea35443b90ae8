/* A ticket's life: made by an acquire or by hand; perhaps kept; released, lost, or left alone until
 * its lease ends; freed. Its client may be closed before. */
#include "lq_ticket.h"

#include "lq_key.h"
#include "lq_mem.h"
#include "lq_time.h"

#include <string.h>

static struct lq_core *core_of(const struct loquet_ticket *ticket)
{
    return ticket->client->driver.cluster.core;
}

struct loquet_ticket *lq_ticket_new(struct loquet_client *client, const char *key, size_t key_len,
                                    uint64_t token)
{
    struct loquet_ticket *ticket = lq_calloc(1, sizeof *ticket);

    ticket->client = client;
    lq_hold_init(&ticket->hold, key, key_len, token);
    lq_list_append(&client->tickets, &ticket->in_client);
    lq_list_init(&ticket->in_lost);
    return ticket;
}

/* ---- Keeping it. */

void lq_ticket_lose(struct loquet_ticket *ticket, enum loquet_loss loss)
{
    lq_hold_lose(&ticket->hold, loss);
    ticket->loss = loss;
    lq_list_remove(&ticket->in_lost); /* kept again, and lost again, before it was told */
    if (ticket->on_lost != NULL) {
        lq_list_append(&ticket->client->lost, &ticket->in_lost);
    }
}

void lq_ticket_let_go_all(struct loquet_client *client)
{
    struct lq_list *tickets = &client->tickets;

    for (struct lq_list *at = tickets->next; at != tickets; at = at->next) {
        struct loquet_ticket *ticket = LQ_CONTAINER(at, struct loquet_ticket, in_client);
        lq_hold_unkeep(&ticket->hold, core_of(ticket));
        lq_list_remove(&ticket->in_lost);
    }
}

void lq_ticket_detach(struct loquet_ticket *ticket)
{
    lq_hold_unkeep(&ticket->hold, core_of(ticket));
    lq_list_remove(&ticket->in_client);
    lq_list_remove(&ticket->in_lost);
    ticket->client = NULL;
}

bool loquet_keep(struct loquet_ticket *ticket, loquet_lost_fn *on_lost, void *context)
{
    struct loquet_client *client = ticket->client;
    bool kept;

    lq_client_lock(client);
    kept = !client->closing && lq_hold_keep(&ticket->hold, core_of(ticket), lq_time_now_ms());
    if (kept) {
        lq_list_remove(&ticket->in_lost);
        ticket->on_lost = on_lost;
        ticket->context = context;
        lq_client_turn(client);
    }
    lq_client_unlock(client);
    return kept;
}

/* ---- Requests. */

enum loquet_result loquet_release(struct loquet_ticket *ticket, struct loquet_why *ret_why)
{
    struct loquet_client *client = ticket->client;
    const struct lq_tie tie = {.hold = &ticket->hold};
    struct lq_outcome outcome;
    struct lq_order order;
    enum loquet_result result;

    lq_client_lock(client);
    lq_list_remove(&ticket->in_lost);
    order = lq_hold_order(&ticket->hold, LQ_GOAL_RELEASE, lq_time_now_ms() + LQ_TRANSPORT_MS);
    result = lq_client_run(client, &order, &tie, &outcome, ret_why);
    lq_client_unlock(client);
    return result;
}

enum loquet_result loquet_renew(struct loquet_ticket *ticket, uint32_t lease_s,
                                struct loquet_why *ret_why)
{
    struct loquet_client *client = ticket->client;
    const struct lq_tie tie = {.hold = &ticket->hold};
    struct lq_outcome outcome;
    struct lq_order order;
    enum loquet_result result;

    lq_client_lock(client);
    order = lq_hold_order(&ticket->hold, LQ_GOAL_RENEW, lq_time_now_ms() + LQ_TRANSPORT_MS);
    order.lease_s = lease_s;
    result = lq_client_run(client, &order, &tie, &outcome, ret_why);
    lq_client_unlock(client);
    return result;
}

/* ---- Making, asking, freeing. */

struct loquet_ticket *loquet_ticket_make(struct loquet_client *client, const char *key,
                                         size_t key_len, uint64_t token)
{
    size_t len = key_len == 0 && key != NULL ? strlen(key) : key_len;
    struct loquet_ticket *ticket;

    if (key == NULL || !lq_key_is_valid((const uint8_t *)key, len)) {
        return NULL;
    }
    lq_client_lock(client);
    ticket = lq_ticket_new(client, key, len, token);
    lq_client_unlock(client);
    return ticket;
}

void loquet_ticket_free(struct loquet_ticket *ticket)
{
    struct loquet_client *client;

    if (ticket == NULL) {
        return;
    }
    client = ticket->client;
    if (client != NULL) {
        lq_client_lock(client);
        lq_hold_unkeep(&ticket->hold, core_of(ticket));
        lq_list_remove(&ticket->in_lost);
        lq_client_enter(client);
        while (client->informed == ticket) { /* the callback may ask it for this or that */
            (void)pthread_cond_wait(&client->changed, &client->mutex);
        }
        lq_ticket_detach(ticket);
        lq_client_leave(client);
        lq_client_unlock(client);
    }
    lq_hold_done(&ticket->hold);
    lq_free(ticket);
}

uint64_t loquet_ticket_token(const struct loquet_ticket *ticket)
{
    return ticket->hold.token;
}

uint64_t loquet_ticket_owner(const struct loquet_ticket *ticket)
{
    return ticket->hold.owner;
}

const char *loquet_ticket_key(const struct loquet_ticket *ticket, size_t *ret_len)
{
    if (ret_len != NULL) {
        *ret_len = ticket->hold.key_len;
    }
    return ticket->hold.key;
}

uint32_t loquet_ticket_lease_s(const struct loquet_ticket *ticket)
{
    struct loquet_client *client = ticket->client;
    uint32_t lease_s;

    lq_client_lock(client);
    lease_s = ticket->hold.lease_s;
    lq_client_unlock(client);
    return lease_s;
}

uint64_t loquet_ticket_ends_ms(const struct loquet_ticket *ticket)
{
    struct loquet_client *client = ticket->client;
    uint64_t ends_ms;

    lq_client_lock(client);
    ends_ms = lq_hold_ends_ms(&ticket->hold);
    lq_client_unlock(client);
    return ends_ms;
}

bool loquet_ticket_is_held(const struct loquet_ticket *ticket)
{
    struct loquet_client *client = ticket->client;
    bool held;

    lq_client_lock(client);
    held = lq_hold_is_certain(&ticket->hold, lq_time_now_ms());
    lq_client_unlock(client);
    return held;
}
