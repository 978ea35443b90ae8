/* One request of a client on its way through a node: made by the session when its frame was
 * decoded, handed to the backend, and freed by the hub when its answer came. Each field belongs to
 * one of the two. */
#ifndef LQ_REQUEST_H
#define LQ_REQUEST_H

#include "lq_list.h"
#include "lq_map.h"
#include "lq_spans.h"

#include <stdbool.h>
#include <stdint.h>

struct lq_session;

struct lq_request {
    /* ---- From the frame; nobody changes it, except that an undeliverable grant turns into its own
     * release. */
    uint8_t op; /* enum lq_op: A, R, K or C */
    uint8_t wait_s;
    uint8_t lease_s;
    uint16_t key_len;
    uint64_t owner;
    uint64_t token;

    /* ---- The hub's. */
    bool is_open;               /* an acquire that waits and may be cancelled: in by_owner */
    bool is_cancelled;          /* its cancel is under way */
    bool is_silent;             /* if that succeeds, its session says E instead of T */
    struct lq_session *session; /* NULL: nobody is told the answer */
    struct lq_list in_session; /* the session's open or cancelling requests; or the hub's orphans */
    struct lq_list in_fresh;   /* decoded, not yet handed to the backend */
    union {
        struct lq_map_node by_owner; /* open acquires, for C; the first of several equal ones */
        struct lq_map_node by_token; /* the backend's: numbered renewals */
    };
    struct lq_list same_owner; /* open acquires of the same session, owner and key, oldest first */
    struct lq_span wait; /* open acquires: until their wait ends or their cancel is under way */

    /* ---- The backend's. */
    struct lq_map_node by_seq; /* numbered, and waiting for its outcome */
    struct lq_list in_held;    /* held back, not numbered yet */
    struct lq_list in_timer;   /* by when patience with it ends */
    uint64_t patience_ms;      /* that time */
    uint64_t seq;
    uint8_t backend_state; /* an enum of the backend */
    bool is_overdue;       /* its session was told that nobody knows */
    bool is_followed;      /* a renewal: its session sent more about the same token after it */

    uint8_t key[];
};

/* Whether there is anybody who would hear an answer to it. */
bool lq_request_is_heard(const struct lq_request *request);

#endif
