/* Names that are looked up again when no address answers: in a thread of its own, since a resolver
 * may take as long as it likes and leases must be renewed meanwhile. A client that is closed does
 * not wait for it; the thread then ends by itself. */
#ifndef LQ_LOOKUP_H
#define LQ_LOOKUP_H

#include "lq_client.h"

/* Begins, unless that is under way; what is found goes to the driver. With the client's mutex. */
void lq_lookup_start(struct loquet_client *client);

/* What is under way will not touch the client any more. With its mutex, which is given back
 * meanwhile. */
void lq_lookup_forget(struct loquet_client *client);

#endif
