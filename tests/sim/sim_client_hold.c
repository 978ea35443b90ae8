/* A client with a lock: it counts the end of its lease as the client library does (from the send of
 * its acquire, or of its latest answered renewal, less 2 %; after a long wait only from a
 * renewal's), writes to the store with its token, renews, releases, on whatever connection it has;
 * or is dead, as far as others can tell. */
#include "lq_frame.h"
#include "lq_mem.h"
#include "sim_client_impl.h"

/* A client that dies with the lock in its hand. */
#define DEAD_PERCENT 12

/* A client that renews in the last moment, so that it meets its own expiry; only of short leases,
 * whose end by the leader's clock can be guessed. */
#define LATE_RENEW_S       2
#define LATE_RENEW_PERCENT 30

/* Writes that take long: the reason for tokens. */
#define SLOW_WRITE_PERCENT 10

/* True time until which a lease is certain that was asked for at `sent_us`. */
static uint64_t certain_until(const struct sim_client *client, uint64_t sent_us, uint8_t lease_s)
{
    return sent_us + (uint64_t)lease_s * 980000 * 1000000 / client->rate_ppm;
}

static void drop(struct sim_client *client, size_t at)
{
    client->holds[at] = client->holds[--client->n_holds];
}

/* It does not hold that any more; it may use the token again all the same. */
static void forget(struct sim_client *client, size_t at)
{
    const struct sim_hold *hold = &client->holds[at];
    unsigned old = client->n_old++ % 4;
    client->old_tokens[old] = hold->token;
    client->old_keys[old] = hold->key;
    drop(client, at);
}

static struct sim_hold *find(struct sim_client *client, uint64_t acquire)
{
    for (size_t i = 0; i < client->n_holds; i++) {
        if (client->holds[i].acquire == acquire) {
            return &client->holds[i];
        }
    }
    return NULL;
}

/* ---- The store. */

static void write_arrives(struct sim *sim, void *argument)
{
    struct sim_write *write = argument;
    (void)sim;
    sim_checks_store_write(write->clients->checks, write->acquire, write->token);
    lq_list_remove(&write->in_clients);
    lq_free(write);
}

/* A client that believes to hold the key writes; how long that takes is nobody's promise. */
static void write_to_store(struct sim_client *client, const struct sim_hold *hold)
{
    struct sim_clients *clients = client->clients;
    uint64_t now_us = sim_now(clients->sim);
    uint64_t way_us = 200 + sim_client_below(clients, 20000);
    struct sim_write *write;
    if (hold->certain_us <= now_us) {
        return;
    }
    if (sim_client_chance(clients, SLOW_WRITE_PERCENT)) {
        way_us = sim_client_below(clients, 10 * SIM_S);
    }
    write = lq_malloc(sizeof *write);
    *write = (struct sim_write){.clients = clients, .acquire = hold->acquire, .token = hold->token};
    lq_list_init(&write->in_clients);
    lq_list_append(&clients->writes, &write->in_clients);
    write->event = sim_at(clients->sim, now_us + way_us, write_arrives, write);
}

/* ---- Renewal. */

/* Never for less than before: a renewal that was lost with its connection may come true later than
 * the next one, and would cut that short. */
static void send_renew(struct sim_client *client, struct sim_hold *hold)
{
    struct sim_link *link = sim_client_link(client);
    uint64_t more_s = hold->lease_s < 20 ? 20 - (uint64_t)hold->lease_s : 0;
    if (link == NULL || hold->is_renewing) {
        return;
    }
    hold->is_renewing = true;
    hold->lease_s = (uint8_t)(hold->lease_s + sim_client_below(client->clients, more_s + 1));
    sim_link_request(link, &(struct sim_pending){.op = LQ_OP_RENEW,
                                                 .lease_s = hold->lease_s,
                                                 .key = hold->key,
                                                 .token = hold->token,
                                                 .acquire = hold->acquire});
    sim_link_flush(link);
}

static void be_certain(struct sim_client *client, struct sim_hold *hold, uint64_t until_us)
{
    hold->certain_us = until_us;
    if (until_us > sim_now(client->clients->sim)) {
        sim_checks_certain(client->clients->checks, hold->acquire, until_us);
        write_to_store(client, hold);
    }
}

void sim_client_renewed(struct sim_client *client, const struct sim_pending *request,
                        bool is_renewed)
{
    struct sim_clients *clients = client->clients;
    struct sim_hold *hold = find(client, request->acquire);
    if (hold == NULL) {
        return; /* released in the meantime */
    }
    hold->is_renewing = false;
    if (!is_renewed) {
        sim_checks_certain(clients->checks, hold->acquire, sim_now(clients->sim));
        forget(client, (size_t)(hold - client->holds));
        return;
    }
    be_certain(client, hold, certain_until(client, request->sent_us, request->lease_s));
    hold->renew_us = sim_client_chance(clients, 50)
                         ? request->sent_us + (uint64_t)request->lease_s * SIM_S / 2
                         : UINT64_MAX;
}

/* ---- From grant to release. */

void sim_client_granted(struct sim_client *client, const struct sim_pending *request,
                        uint64_t token)
{
    struct sim_clients *clients = client->clients;
    uint64_t now_us = sim_now(clients->sim), lease_us = (uint64_t)request->lease_s * SIM_S;
    struct sim_hold *hold;
    if (client->n_holds == client->cap_holds) {
        client->cap_holds = 2 * client->cap_holds + 8;
        client->holds = lq_realloc(client->holds, client->cap_holds, sizeof *client->holds);
    }
    hold = &client->holds[client->n_holds++];
    *hold = (struct sim_hold){.acquire = request->id,
                              .token = token,
                              .key = request->key,
                              .lease_s = request->lease_s,
                              .renew_us = UINT64_MAX};
    hold->release_us = now_us + 1000 + sim_client_below(clients, 300 * SIM_MS);
    if (sim_client_chance(clients, 30)) {
        hold->release_us = now_us + sim_client_below(clients, lease_us * 12 / 10);
        hold->renew_us = sim_client_chance(clients, 60) ? now_us + lease_us / 3 : UINT64_MAX;
    } else if (request->lease_s <= LATE_RENEW_S && sim_client_chance(clients, LATE_RENEW_PERCENT)) {
        hold->renew_us = now_us + lease_us - sim_client_below(clients, 40 * SIM_MS);
        hold->release_us = hold->renew_us + sim_client_below(clients, lease_us);
    }
    be_certain(client, hold, certain_until(client, request->sent_us, request->lease_s));
    if (now_us - request->sent_us > lease_us / 2) {
        send_renew(client, hold);
        hold->release_us += 200 * SIM_MS;
    }
    if (sim_client_chance(clients, DEAD_PERCENT) && !sim_is_calm(clients->sim)) {
        drop(client, client->n_holds - 1);
    }
}

/* Whoever has the token may release, on any connection. */
static struct sim_link *link_for_release(struct sim_client *client)
{
    struct sim_clients *clients = client->clients;
    if (sim_client_chance(clients, 10)) {
        struct sim_client *other = &clients->items[sim_client_below(clients, clients->n)];
        if (other->link != NULL && !other->link->is_ending) {
            return other->link;
        }
    }
    return sim_client_link(client);
}

static bool release(struct sim_client *client, size_t at)
{
    struct sim_clients *clients = client->clients;
    struct sim_hold *hold = &client->holds[at];
    struct sim_link *link = link_for_release(client);
    struct sim_pending request = {
        .op = LQ_OP_RELEASE, .key = hold->key, .token = hold->token, .acquire = hold->acquire};
    if (link == NULL) {
        return false;
    }
    if (sim_client_chance(clients, 50)) {
        write_to_store(client, hold);
    }
    sim_checks_certain(clients->checks, hold->acquire, sim_now(clients->sim));
    sim_link_request(link, &request);
    if (sim_client_chance(clients, 3)) {
        sim_link_request(link, &request); /* once more: N */
    }
    sim_link_flush(link);
    forget(client, at);
    return true;
}

uint64_t sim_client_tend(struct sim_client *client, bool is_last)
{
    uint64_t now_us = sim_now(client->clients->sim), next_us = UINT64_MAX;
    size_t i = 0;
    while (i < client->n_holds) {
        struct sim_hold *hold = &client->holds[i];
        if (hold->release_us <= now_us || is_last) {
            if (release(client, i)) {
                continue; /* another one is in its place */
            }
            hold->release_us = now_us + 200 * SIM_MS;
        } else if (hold->renew_us <= now_us) {
            hold->renew_us = UINT64_MAX;
            send_renew(client, hold);
        }
        next_us = hold->release_us < next_us ? hold->release_us : next_us;
        next_us = hold->renew_us < next_us ? hold->renew_us : next_us;
        i++;
    }
    return next_us;
}
