/* The blocking calls of loquet.h: a driver, and poll(2) until its request is over. */
#include "loquet.h"

#include "lq_driver.h"
#include "lq_key.h"
#include "lq_time.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct loquet_client {
    struct lq_driver driver;
    int alarm_fd;
};

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

struct loquet_client *loquet_new(void)
{
    struct loquet_client *client = malloc(sizeof *client);
    if (client == NULL) {
        return NULL;
    }
    client->alarm_fd = lq_alarm_open();
    if (client->alarm_fd < 0) {
        free(client);
        return NULL;
    }
    lq_driver_init(&client->driver);
    return client;
}

void loquet_free(struct loquet_client *client)
{
    if (client == NULL) {
        return;
    }
    lq_driver_close(&client->driver);
    (void)close(client->alarm_fd);
    free(client);
}

enum loquet_result loquet_set_endpoints(struct loquet_client *client, const char *endpoints)
{
    return lq_driver_set_endpoints(&client->driver, endpoints);
}

/* Blocks until the request that was begun is over. */
static struct lq_outcome finish(struct loquet_client *client)
{
    struct lq_outcome outcome;
    while (!lq_driver_step(&client->driver, &outcome)) {
        struct pollfd pollfds[2] = {lq_driver_pollfd(&client->driver),
                                    {.fd = client->alarm_fd, .events = POLLIN}};
        lq_alarm_set(client->alarm_fd, lq_driver_due_ms(&client->driver));
        (void)poll(pollfds, 2, -1); /* whatever it says, the next step looks for itself */
    }
    return outcome;
}

enum loquet_result loquet_acquire(struct loquet_client *client, const char *key, size_t key_len,
                                  uint32_t wait_ms, uint32_t lease_s,
                                  struct loquet_ticket *ret_ticket)
{
    struct lq_outcome outcome;

    if (!lq_driver_acquire(&client->driver, key, key_len, wait_ms, lease_s)) {
        return LOQUET_INVALID;
    }
    outcome = finish(client);
    if (outcome.result == LOQUET_ACQUIRED) {
        (void)loquet_ticket_make(ret_ticket, key, key_len, outcome.token);
        ret_ticket->owner = outcome.owner;
        ret_ticket->ends_ms = outcome.ends_ms;
        ret_ticket->lease_s = lease_s;
    }
    return outcome.result;
}

bool loquet_ticket_make(struct loquet_ticket *ret_ticket, const char *key, size_t key_len,
                        uint64_t token)
{
    if (!lq_key_is_valid((const uint8_t *)key, key_len)) {
        return false;
    }
    *ret_ticket = (struct loquet_ticket){.token = token, .key_len = (uint32_t)key_len};
    memcpy(ret_ticket->key, key, key_len);
    return true;
}

enum loquet_result loquet_release(struct loquet_client *client, const struct loquet_ticket *ticket)
{
    if (!lq_driver_release(&client->driver, ticket, lq_time_now_ms() + LQ_TRANSPORT_MS, 0)) {
        return LOQUET_INVALID;
    }
    return finish(client).result;
}

enum loquet_result loquet_renew(struct loquet_client *client, struct loquet_ticket *ticket,
                                uint32_t lease_s)
{
    uint64_t now_ms = lq_time_now_ms();
    uint64_t earliest_ms = now_ms + (uint64_t)lease_s * 10 * (100 - LQ_LEASE_MARGIN_PERCENT);
    struct lq_outcome outcome;

    if (!lq_driver_renew(&client->driver, ticket, lease_s, now_ms + LQ_TRANSPORT_MS, 0)) {
        return LOQUET_INVALID;
    }
    outcome = finish(client);
    if (outcome.result == LOQUET_RENEWED) {
        ticket->ends_ms = outcome.ends_ms;
        ticket->lease_s = lease_s;
    } else if (outcome.result == LOQUET_INDETERMINATE && earliest_ms < ticket->ends_ms) {
        ticket->ends_ms = earliest_ms; /* a shorter lease may have taken effect */
    }
    return outcome.result;
}

enum loquet_result loquet_ping(struct loquet_client *client, uint64_t *ret_round_trip_us)
{
    uint64_t deadline_ms = lq_time_now_ms() + LQ_TRANSPORT_MS, began_us = 0;
    enum loquet_result result = LOQUET_ALIVE;

    /* The first one connects, the second one is measured. */
    for (int i = 0; i < 2 && result == LOQUET_ALIVE; i++) {
        began_us = lq_time_now_us();
        if (!lq_driver_ping(&client->driver, deadline_ms)) {
            return LOQUET_INVALID;
        }
        result = finish(client).result;
    }
    if (result == LOQUET_ALIVE) {
        *ret_round_trip_us = lq_time_now_us() - began_us;
    }
    return result;
}

const char *loquet_error(const struct loquet_client *client)
{
    return client->driver.error;
}

const char *loquet_endpoint(const struct loquet_client *client)
{
    return client->driver.endpoint;
}
