/* Tickets of the blocking client: all is guarded by their client's mutex, or never changes. */
#ifndef LQ_TICKET_H
#define LQ_TICKET_H

#include "lq_client.h"
#include "lq_hold.h"

struct loquet_ticket {
    struct loquet_client *client; /* NULL: closed */
    struct lq_list in_client;
    struct lq_hold hold;
    struct lq_list in_lost; /* waits for its callback */
    loquet_lost_fn *on_lost;
    void *context;
    enum loquet_loss loss;
};

/* A new ticket of this client, of whose lease nothing is known. With the mutex. */
struct loquet_ticket *lq_ticket_new(struct loquet_client *client, const char *key, size_t key_len,
                                    uint64_t token);

/* Its lease, which was kept, is lost. With the mutex. */
void lq_ticket_lose(struct loquet_ticket *ticket, enum loquet_loss loss);

/* None of the client's leases is kept any longer, and nobody is told of losses. With the mutex. */
void lq_ticket_let_go_all(struct loquet_client *client);

/* Its client ends: it can only be freed from now on. With the mutex. */
void lq_ticket_detach(struct loquet_ticket *ticket);

#endif
