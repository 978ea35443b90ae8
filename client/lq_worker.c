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
    loquet_lost_fn *on_lost = ticket->on_lost;
    void *context = ticket->context;
    enum loquet_loss loss = ticket->loss;

    client->informed = ticket;
    begin_work(client);
    on_lost(ticket, loss, context);
    end_work(client);
    client->informed = NULL;
    (void)pthread_cond_broadcast(&client->changed);
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

    (void)prctl(PR_SET_NAME, "loquet");
    lq_client_lock(client);
    while (!client->closing) {
        if (!lq_list_is_empty(&client->lost)) {
            tell_one_lost(client);
        } else if (!client->polling && lq_client_has_to_poll(client)) {
            lq_client_poll(client);
        } else {
            rest(client);
        }
    }
    client->busy = true;
    (void)pthread_cond_broadcast(&client->changed);
    lq_client_unlock(client);
    return NULL;
}
