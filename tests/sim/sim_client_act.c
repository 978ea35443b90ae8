/* What a client does of its own accord: one thing at a time, drawn from a list with weights. */
#include "lq_frame.h"
#include "lq_mem.h"
#include "sim_client_impl.h"

#define BURST_MAX 20

static uint64_t below(struct sim_client *client, uint64_t n)
{
    return sim_client_below(client->clients, n);
}

static bool chance(struct sim_client *client, unsigned percent)
{
    return sim_client_chance(client->clients, percent);
}

/* ---- Connections. */

static void on_answer(struct sim_link *link, const struct sim_pending *request, uint8_t op,
                      uint64_t token)
{
    struct sim_client *client = link->owner;
    if (op == LQ_OP_ACQUIRE) {
        sim_client_granted(client, request, token);
    } else if (request->op == LQ_OP_RENEW) {
        sim_client_renewed(client, request, op == LQ_OP_RENEW);
    }
}

/* Renewals that were lost with a connection are asked for again some time. */
static void forget_renewals(struct sim_client *client)
{
    for (size_t i = 0; i < client->n_holds; i++) {
        client->holds[i].is_renewing = false;
    }
}

static void on_over(struct sim_link *link)
{
    struct sim_client *client = link->owner;
    if (client->link == link) {
        client->link = NULL;
        client->resume_us = 0;
        forget_renewals(client);
    }
}

static void read_on(struct sim_client *client)
{
    if (client->resume_us != 0) {
        client->resume_us = 0;
        sim_link_window(client->link, UINT64_MAX);
    }
}

static const struct sim_link_user user = {.on_answer = on_answer, .on_over = on_over};

struct sim_link *sim_client_link(struct sim_client *client)
{
    struct sim_clients *clients = client->clients;
    uint32_t node = client->home;
    if (client->link != NULL && client->link->is_ending) {
        client->link = NULL; /* it comes to its end by itself */
    }
    if (client->link != NULL) {
        return client->link;
    }
    if (!chance(client, 70)) {
        node = (uint32_t)(1 + below(client, sim_n_nodes(clients->sim)));
    }
    client->link =
        sim_link_open(clients->sim, clients->checks, node, &user, client, client->number);
    if (client->link == NULL) {
        client->home = (uint32_t)(1 + below(client, sim_n_nodes(clients->sim)));
        return NULL;
    }
    lq_list_append(&client->links, &client->link->in_list);
    return client->link;
}

/* ---- Doings. Each gathers; the caller flushes. */

static void acquire(struct sim_client *client, uint32_t key, uint8_t wait_s)
{
    uint8_t lease_s = (uint8_t)(1 + (chance(client, 60) ? below(client, 5) : below(client, 20)));
    sim_link_request(client->link, &(struct sim_pending){.op = LQ_OP_ACQUIRE,
                                                         .wait_s = wait_s,
                                                         .lease_s = lease_s,
                                                         .key = key,
                                                         .owner = ++client->clients->last_owner});
}

static uint32_t hot_key(struct sim_client *client)
{
    return (uint32_t)below(client, SIM_HOT_KEYS);
}

static uint32_t cold_key(struct sim_client *client)
{
    return (uint32_t)(SIM_HOT_KEYS + below(client, SIM_KEYS - SIM_HOT_KEYS - SIM_PROBE_KEYS));
}

static void acquire_hot(struct sim_client *client)
{
    acquire(client, hot_key(client), (uint8_t)(chance(client, 25) ? 0 : 1 + below(client, 20)));
}

static void acquire_cold(struct sim_client *client)
{
    acquire(client, cold_key(client), (uint8_t)(chance(client, 50) ? 0 : 1 + below(client, 3)));
}

static void burst(struct sim_client *client)
{
    uint64_t n = 3 + below(client, BURST_MAX - 2);
    for (uint64_t i = 0; i < n; i++) {
        bool is_hot = chance(client, 40);
        acquire(client, is_hot ? hot_key(client) : cold_key(client), (uint8_t)below(client, 3));
    }
}

static void cancel(struct sim_client *client)
{
    struct sim_link *link = client->link;
    for (size_t i = 0; i < link->n_pending; i++) {
        struct sim_pending *request = &link->pending[i];
        if (request->op == LQ_OP_ACQUIRE && request->wait_s > 0 && chance(client, 50)) {
            sim_link_cancel(link, request);
            return;
        }
    }
}

static void ping(struct sim_client *client)
{
    sim_link_request(client->link, &(struct sim_pending){.op = LQ_OP_PING,
                                                         .owner = ++client->clients->last_owner});
}

/* A token that holds nothing any more, or never did. */
static void use_old_token(struct sim_client *client)
{
    struct sim_pending request = {.op = chance(client, 50) ? LQ_OP_RELEASE : LQ_OP_RENEW,
                                  .lease_s = 3,
                                  .key = cold_key(client),
                                  .token = UINT64_C(1) << 62};
    if (client->n_old > 0 && chance(client, 80)) {
        unsigned at = (unsigned)below(client, client->n_old < 4 ? client->n_old : 4);
        request.token = client->old_tokens[at];
        request.key = client->old_keys[at];
    }
    if (request.op == LQ_OP_RELEASE) {
        request.lease_s = 0;
    }
    sim_link_request(client->link, &request);
}

static void close_hard(struct sim_client *client)
{
    struct sim_link *link = client->link;
    client->link = NULL;
    client->resume_us = 0;
    forget_renewals(client);
    sim_link_flush(link);
    if (chance(client, 35)) {
        sim_link_vanish(link);
    } else {
        sim_link_close(link);
    }
    client->home = (uint32_t)(1 + below(client, sim_n_nodes(client->clients->sim)));
}

static void half_close(struct sim_client *client)
{
    read_on(client);
    sim_link_half_close(client->link);
    client->link = NULL;
    forget_renewals(client);
}

static void stop_reading(struct sim_client *client)
{
    client->resume_us = sim_now(client->clients->sim) + 500 * SIM_MS + below(client, 8 * SIM_S);
    sim_link_window(client->link, chance(client, 50) ? 0 : below(client, 200));
}

static void send_garbage(struct sim_client *client)
{
    read_on(client);
    sim_link_garbage(client->link);
}

static const struct {
    unsigned weight;
    void (*act)(struct sim_client *client);
} doings[] = {
    {400, acquire_hot}, {350, acquire_cold}, {20, burst},      {60, cancel},
    {40, ping},         {40, use_old_token}, {30, close_hard}, {15, half_close},
    {15, stop_reading}, {4, send_garbage},
};

static unsigned total_weight(void)
{
    unsigned total = 0;
    for (size_t i = 0; i < sizeof doings / sizeof *doings; i++) {
        total += doings[i].weight;
    }
    return total;
}

void sim_client_act(struct sim_client *client)
{
    uint64_t draw = below(client, total_weight());
    size_t i = 0;
    while (draw >= doings[i].weight) {
        draw -= doings[i++].weight;
    }
    if (client->resume_us <= sim_now(client->clients->sim)) {
        read_on(client);
    }
    if (sim_client_link(client) == NULL) {
        return;
    }
    doings[i].act(client);
    if (client->link != NULL) {
        sim_link_flush(client->link);
    }
}

/* ---- The end. */

void sim_client_wind_up(struct sim_client *client)
{
    struct sim_link *link = client->link;
    if (link == NULL || link->is_ending) {
        return;
    }
    read_on(client);
    for (size_t i = 0; i < link->n_pending; i++) {
        struct sim_pending *request = &link->pending[i];
        if (request->op == LQ_OP_ACQUIRE && !request->is_cancelled && chance(client, 30)) {
            sim_link_cancel(link, request);
        }
    }
    sim_link_flush(link);
    if (link->n_pending == 0 && client->n_holds == 0) {
        half_close(client);
    }
}
