#include "lq_key.h"
#include "lq_mem.h"
#include "lq_time.h"
#include "lq_uv.h"

#include <string.h>

struct loquet_uv_ticket *lq_uv_ticket_new(struct loquet_uv *client, const char *key, size_t key_len,
                                          uint64_t token)
{
    struct loquet_uv_ticket *ticket = lq_calloc(1, sizeof *ticket);

    ticket->client = client;
    lq_hold_init(&ticket->hold, key, key_len, token);
    lq_list_init(&ticket->waits);
    lq_list_append(&client->tickets, &ticket->in_client);
    return ticket;
}

bool loquet_uv_keep(struct loquet_uv_ticket *ticket, loquet_uv_lost_fn *on_lost, void *context)
{
    struct loquet_uv *client = ticket->client;

    if (client->closing ||
        !lq_hold_keep(&ticket->hold, client->driver.cluster.core, lq_time_now_ms())) {
        return false;
    }
    ticket->on_lost = on_lost;
    ticket->context = context;
    lq_uv_wake(client);
    return true;
}

void lq_uv_ticket_lose(struct loquet_uv_ticket *ticket, enum loquet_loss loss)
{
    lq_hold_lose(&ticket->hold, loss);
    if (ticket->on_lost != NULL) {
        ticket->on_lost(ticket, loss, ticket->context);
    }
}

/* ---- Making, asking, freeing. */

struct loquet_uv_ticket *loquet_uv_ticket_make(struct loquet_uv *client, const char *key,
                                               size_t key_len, uint64_t token)
{
    size_t len = key_len == 0 && key != NULL ? strlen(key) : key_len;

    if (key == NULL || !lq_key_is_valid((const uint8_t *)key, len)) {
        return NULL;
    }
    return lq_uv_ticket_new(client, key, len, token);
}

void loquet_uv_ticket_free(struct loquet_uv_ticket *ticket)
{
    struct lq_list *member;

    if (ticket == NULL) {
        return;
    }
    if (ticket->client != NULL) {
        lq_hold_unkeep(&ticket->hold, ticket->client->driver.cluster.core);
        lq_list_remove(&ticket->in_client);
    }
    while ((member = lq_list_take(&ticket->waits)) != NULL) {
        LQ_CONTAINER(member, struct loquet_uv_wait, in_ticket)->ticket = NULL;
    }
    lq_hold_done(&ticket->hold);
    lq_free(ticket);
}

uint64_t loquet_uv_ticket_token(const struct loquet_uv_ticket *ticket)
{
    return ticket->hold.token;
}

uint64_t loquet_uv_ticket_owner(const struct loquet_uv_ticket *ticket)
{
    return ticket->hold.owner;
}

const char *loquet_uv_ticket_key(const struct loquet_uv_ticket *ticket, size_t *ret_len)
{
    if (ret_len != NULL) {
        *ret_len = ticket->hold.key_len;
    }
    return ticket->hold.key;
}

uint32_t loquet_uv_ticket_lease_s(const struct loquet_uv_ticket *ticket)
{
    return ticket->hold.lease_s;
}

uint64_t loquet_uv_ticket_ends_ms(const struct loquet_uv_ticket *ticket)
{
    return lq_hold_ends_ms(&ticket->hold);
}

bool loquet_uv_ticket_is_held(const struct loquet_uv_ticket *ticket)
{
    return lq_hold_is_certain(&ticket->hold, lq_time_now_ms());
}
