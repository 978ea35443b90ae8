/* The backend of simple mode: one lock table in this process, every request applied at once. Expiry
 * is lazy: a key past its deadline is taken over by the next acquire, handed on in time if somebody
 * waits, or swept away (docs/protocol.md, "Expiry"). */
#ifndef LQ_LOCAL_H
#define LQ_LOCAL_H

#include "lq_backend.h"
#include "lq_table.h"

#include <stdint.h>

struct lq_local_options {
    struct lq_caps caps;
    uint64_t sweep_ms; /* period of the sweep; at least 1 */
    uint64_t
        quarantine_s; /* nothing is granted before this much time has passed; 0: no quarantine */
    uint64_t first_token; /* at least 1; must be above every token given by an earlier run */
    uint8_t secret[16];   /* keys the hash map */
};

/* Makes a backend whose time begins at `now_ms`. Free with lq_local_free, after all requests were
 * answered or dropped. */
struct lq_backend *lq_local_new(const struct lq_local_options *options, uint64_t now_ms);

/* NULL is fine. Requests that it still holds are forgotten, not freed. */
void lq_local_free(struct lq_backend *backend);

/* Its table, to be read. */
const struct lq_table *lq_local_table(const struct lq_backend *backend);

#endif
