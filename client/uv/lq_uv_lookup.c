/* Looks names up in libuv's thread pool, all at once. The answers are put together when the last
 * one has come; a name that is not found now keeps the addresses that it had. A client that is
 * closed meanwhile waits for none of it: what is under way then ends by itself. */
#include "lq_mem.h"
#include "lq_uv.h"

struct name {
    uv_getaddrinfo_t request;
    struct lq_uv_lookup *lookup;
    struct addrinfo *found; /* NULL: nothing */
};

struct lq_uv_lookup {
    struct loquet_uv *client; /* NULL: closed */
    size_t n, n_pending;
    struct name names[LQ_ENDPOINTS_MAX];
};

static void finish(struct lq_uv_lookup *lookup)
{
    struct loquet_uv *client = lookup->client;

    if (client != NULL) {
        struct lq_endpoints endpoints = client->driver.cluster.endpoints;
        endpoints.n_addresses = 0;
        for (size_t i = 0; i < lookup->n; i++) {
            if (lookup->names[i].found != NULL) {
                lq_endpoints_add(&endpoints, i, lookup->names[i].found);
            } else {
                lq_endpoints_add_old(&endpoints, i, &client->driver.cluster.endpoints);
            }
        }
        client->lookup = NULL;
        lq_driver_resolved(&client->driver, &endpoints);
        lq_uv_wake(client);
    }
    for (size_t i = 0; i < lookup->n; i++) {
        uv_freeaddrinfo(lookup->names[i].found);
    }
    lq_free(lookup);
}

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct name *name = LQ_CONTAINER(request, struct name, request);

    name->found = status == 0 ? found : NULL;
    if (--name->lookup->n_pending == 0) {
        finish(name->lookup);
    }
}

void lq_uv_lookup_start(struct loquet_uv *client)
{
    const struct lq_endpoints *endpoints = &client->driver.cluster.endpoints;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct lq_uv_lookup *lookup;

    if (client->lookup != NULL || client->closing) {
        return;
    }
    lookup = lq_calloc(1, sizeof *lookup);
    lookup->client = client;
    lookup->n = endpoints->n;
    for (size_t i = 0; i < endpoints->n; i++) {
        struct name *name = &lookup->names[i];
        name->lookup = lookup;
        if (uv_getaddrinfo(client->loop, &name->request, on_found, endpoints->items[i].host,
                           endpoints->items[i].port, &hints) == 0) {
            lookup->n_pending++;
        }
    }
    if (lookup->n_pending == 0) {
        lq_free(lookup);
    } else {
        client->lookup = lookup;
    }
}

void lq_uv_lookup_forget(struct loquet_uv *client)
{
    if (client->lookup != NULL) {
        client->lookup->client = NULL;
        client->lookup = NULL;
    }
}
