#include "sim_clients.h"

#include "lq_mem.h"
#include "sim_client_impl.h"

/* What one doing leads to in requests, in the mean: releases and renewals follow from grants. */
#define REQUESTS_PER_DOING_PERCENT 200

/* In the calm part a client looks after its affairs so often. */
#define WIND_UP_US (UINT64_C(300) * SIM_MS)

/* Probes begin so long after the last fault, and so long before the end of the run. */
#define PROBE_AFTER_US  (UINT64_C(12) * SIM_S)
#define PROBE_BEFORE_US (UINT64_C(8) * SIM_S)

uint64_t sim_client_below(struct sim_clients *clients, uint64_t n)
{
    return lq_rand_below(&clients->rand, n);
}

bool sim_client_chance(struct sim_clients *clients, unsigned percent)
{
    return sim_client_below(clients, 100) < percent;
}

/* Times between doings: mostly short, some long. */
static uint64_t draw_think(struct sim_clients *clients)
{
    uint64_t mean_us = clients->think_us;
    return sim_client_chance(clients, 75) ? sim_client_below(clients, mean_us)
                                          : sim_client_below(clients, 5 * mean_us);
}

static void tick(struct sim *sim, void *argument)
{
    struct sim_client *client = argument;
    uint64_t now_us = sim_now(sim), next_us;
    bool is_calm = sim_is_calm(sim);
    client->event = 0;
    if (is_calm) {
        sim_client_tend(client, true);
        sim_client_wind_up(client);
        next_us = now_us + WIND_UP_US;
    } else {
        if (client->next_us <= now_us) {
            sim_client_act(client);
            client->next_us = now_us + 1 + draw_think(client->clients);
        }
        next_us = sim_client_tend(client, false);
        next_us = next_us < client->next_us ? next_us : client->next_us;
        next_us = next_us > now_us ? next_us : now_us + 1;
    }
    if (is_calm && lq_list_is_empty(&client->links) && client->n_holds == 0) {
        return; /* its end */
    }
    /* Grants change what comes next, so it looks again soon. */
    if (next_us > now_us + WIND_UP_US) {
        next_us = now_us + WIND_UP_US;
    }
    client->event = sim_at(sim, next_us, tick, client);
}

static void start_client(struct sim_clients *clients, unsigned number)
{
    struct sim_client *client = &clients->items[number];
    client->clients = clients;
    client->number = number;
    client->rate_ppm = (uint32_t)(990000 + sim_client_below(clients, 20001));
    client->home = (uint32_t)(1 + sim_client_below(clients, sim_n_nodes(clients->sim)));
    client->next_us = sim_now(clients->sim) + draw_think(clients);
    lq_list_init(&client->links);
    client->event = sim_at(clients->sim, client->next_us, tick, client);
}

/* Probes come late enough for the cluster to be well, and early enough to be judged. */
static uint64_t probe_us(const struct sim *sim)
{
    uint64_t us = sim_calm_us(sim) + PROBE_AFTER_US;
    return us + PROBE_BEFORE_US > sim_end_us(sim) ? sim_end_us(sim) - PROBE_BEFORE_US : us;
}

struct sim_clients *sim_clients_start(struct sim *sim, struct sim_checks *checks)
{
    struct sim_clients *clients = lq_calloc(1, sizeof *clients);
    unsigned load = sim_load_per_minute(sim);
    *clients = (struct sim_clients){.sim = sim, .checks = checks};
    clients->rand = lq_rand_of(lq_rand_next(sim_rand(sim)), 1);
    lq_list_init(&clients->writes);
    clients->n = (unsigned)(3 + sim_client_below(clients, 14));
    clients->items = lq_calloc(clients->n, sizeof *clients->items);
    clients->think_us =
        60 * SIM_S * clients->n * REQUESTS_PER_DOING_PERCENT / 100 / (load > 0 ? load : 1);
    for (unsigned i = 0; i < clients->n; i++) {
        start_client(clients, i);
    }
    clients->probe_event = sim_at(sim, probe_us(sim), sim_clients_probe, clients);
    return clients;
}

bool sim_clients_are_done(const struct sim_clients *clients)
{
    for (unsigned i = 0; i < clients->n; i++) {
        if (clients->items[i].event != 0) {
            return false;
        }
    }
    for (unsigned i = 0; i < clients->n_probes; i++) {
        if (!clients->probes[i].is_done || clients->probes[i].link != NULL) {
            return false;
        }
    }
    return clients->has_probed;
}

static void stop_client(struct sim_client *client)
{
    struct lq_list *member;
    sim_cancel(client->clients->sim, client->event);
    while ((member = lq_list_take(&client->links)) != NULL) {
        sim_link_close(LQ_CONTAINER(member, struct sim_link, in_list));
    }
    lq_free(client->holds);
}

void sim_clients_stop(struct sim_clients *clients)
{
    struct lq_list *member;
    if (clients == NULL) {
        return;
    }
    sim_cancel(clients->sim, clients->probe_event);
    sim_clients_end_probes(clients);
    for (unsigned i = 0; i < clients->n; i++) {
        stop_client(&clients->items[i]);
    }
    while ((member = lq_list_take(&clients->writes)) != NULL) {
        struct sim_write *write = LQ_CONTAINER(member, struct sim_write, in_clients);
        sim_cancel(clients->sim, write->event);
        lq_free(write);
    }
    lq_free(clients->items);
    lq_free(clients);
}
