/* The client's own thread; see lq_client.h. */
#include "lq_check.h"
#include "lq_client.h"
#include "lq_ticket.h"
#include "lq_time.h"

#include <sys/eventfd.h>
#include <sys/prctl.h>

/* Begins something that takes its time, without the mutex. Somebody else polls meanwhile. */
static void begin_work(struct loquet_client *client)
{
    client->busy = true;
    lq_client_unlock(client);
}

static void end_work(struct loquet_client *client)
{
    lq_client_lock(client);
    client->busy = false;
}

static void tell_one_lost(struct loquet_client *client)
{
    struct loquet_ticket *ticket =
        LQ_CONTAINER(lq_list_take(&client->lost), struct loquet_ticket, in_lost);

    client->informed = ticket;
    begin_work(client);
    ticket->on_lost(ticket, ticket->loss, ticket->context);
    end_work(client);
    client->informed = NULL;
    (void)pthread_cond_broadcast(&client->changed);
}

/* Looks all names up again. Those that were found before stay until others are found. */
static void look_up(struct loquet_client *client)
{
    struct lq_endpoints endpoints = client->driver.cluster.endpoints;
    char unused[256];
    bool found;

    client->lookup_due = false;
    client->looking_up = true;
    begin_work(client);
    found = lq_endpoints_resolve(&endpoints, unused, sizeof unused);
    end_work(client);
    client->looking_up = false;
    if (found && !client->closing) {
        lq_driver_resolved(&client->driver, &endpoints);
        lq_client_turn(client);
    }
}

/* Until nudged, or something is due. */
static void rest(struct loquet_client *client)
{
    struct pollfd pollfds[2] = {{.fd = client->nudge_fd, .events = POLLIN},
                                {.fd = client->alarm_fd, .events = POLLIN}};
    eventfd_t unused;

    client->resting = true;
    LQ_CHECK(pthread_mutex_unlock(&client->mutex) == 0);
    (void)poll(pollfds, 2, -1);
    lq_client_lock(client);
    client->resting = false;
    (void)eventfd_read(client->nudge_fd, &unused);
    if (pollfds[1].revents != 0 && !client->closing) {
        lq_client_turn(client);
    }
}

void *lq_worker_main(void *argument)
{
    struct loquet_client *client = argument;
    bool orphaned;

    (void)prctl(PR_SET_NAME, "loquet");
    lq_client_lock(client);
    while (!client->closing) {
        if (client->lookup_due) {
            look_up(client);
        } else if (!lq_list_is_empty(&client->lost)) {
            tell_one_lost(client);
        } else if (!client->polling && lq_client_has_to_poll(client)) {
            lq_client_poll(client);
        } else {
            rest(client);
        }
    }
    client->busy = true;
    orphaned = client->orphaned;
    (void)pthread_cond_broadcast(&client->changed);
    if (orphaned) {
        LQ_CHECK(pthread_mutex_unlock(&client->mutex) == 0);
        lq_client_free(client);
    } else {
        lq_client_unlock(client);
    }
    return NULL;
}
