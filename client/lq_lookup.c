#include "lq_lookup.h"

#include "lq_check.h"
#include "lq_mem.h"

#include <stdatomic.h>
#include <sys/prctl.h>

/* Its mutex is taken before the client's. */
struct lq_lookup {
    pthread_mutex_t mutex;
    struct loquet_client *client; /* NULL: closed */
    atomic_int n_owners;          /* the thread, and who makes it forget the client */
    struct lq_endpoints endpoints;
};

static void disown(struct lq_lookup *lookup)
{
    if (atomic_fetch_sub(&lookup->n_owners, 1) == 1) {
        (void)pthread_mutex_destroy(&lookup->mutex);
        lq_free(lookup);
    }
}

static void hand_over(struct lq_lookup *lookup, bool found)
{
    struct loquet_client *client = lookup->client;

    lq_client_lock(client);
    client->lookup = NULL;
    if (found && !client->closing) {
        lq_driver_resolved(&client->driver, &lookup->endpoints);
        lq_client_turn(client);
    }
    lq_client_unlock(client);
}

static void *look_up(void *argument)
{
    struct lq_lookup *lookup = argument;
    char unused[256];
    bool found;

    (void)prctl(PR_SET_NAME, "loquet-names");
    found = lq_endpoints_resolve(&lookup->endpoints, unused, sizeof unused);
    LQ_CHECK(pthread_mutex_lock(&lookup->mutex) == 0);
    if (lookup->client != NULL) {
        hand_over(lookup, found);
    }
    LQ_CHECK(pthread_mutex_unlock(&lookup->mutex) == 0);
    disown(lookup);
    return NULL;
}

void lq_lookup_start(struct loquet_client *client)
{
    struct lq_lookup *lookup;
    pthread_t thread;

    if (client->lookup != NULL || client->closing) {
        return;
    }
    lookup = lq_malloc(sizeof *lookup);
    LQ_CHECK(pthread_mutex_init(&lookup->mutex, NULL) == 0);
    lookup->client = client;
    lookup->endpoints = client->driver.cluster.endpoints;
    atomic_init(&lookup->n_owners, 1);
    if (lq_client_start_thread(&thread, look_up, lookup) != 0) {
        disown(lookup); /* there will be another occasion */
        return;
    }
    (void)pthread_detach(thread);
    client->lookup = lookup;
}

void lq_lookup_forget(struct loquet_client *client)
{
    struct lq_lookup *lookup = client->lookup;

    if (lookup == NULL) {
        return;
    }
    atomic_fetch_add(&lookup->n_owners, 1);
    LQ_CHECK(pthread_mutex_unlock(&client->mutex) == 0);
    LQ_CHECK(pthread_mutex_lock(&lookup->mutex) == 0);
    lookup->client = NULL;
    LQ_CHECK(pthread_mutex_unlock(&lookup->mutex) == 0);
    disown(lookup);
    lq_client_lock(client);
    client->lookup = NULL;
}
