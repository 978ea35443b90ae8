/* The hub: all sessions of a node, their requests and their backend. Events of the connections are
 * queued as they come; a turn acts on them once: what is due first, then the requests in their
 * order, then endings and timeouts. */
#ifndef LQ_HUB_H
#define LQ_HUB_H

#include "lq_backend.h"
#include "lq_session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_hub_options {
    uint64_t requests_max; /* open requests of one connection; at least 1 */
    uint64_t
        unread_max; /* unread answers of one connection, in bytes, before its reading is paused */
    uint64_t unread_total_max;  /* of all together, before those with unread answers are paused */
    uint64_t unread_timeout_ms; /* paused for so long without coming below: aborted */
    uint8_t secret[16];         /* keys the hash map of owners */
};

/* What happened since the hub was made. */
struct lq_hub_counters {
    uint64_t requests;   /* frames decoded, all kinds */
    uint64_t granted;    /* answers A made */
    uint64_t timeouts;   /* answers T made */
    uint64_t busy;       /* answers B made */
    uint64_t errors;     /* frames E made for a bad frame */
    uint64_t taken_back; /* grants released because nothing of their A could be written */
};

/* Makes a hub over a backend, which stays the caller's and must outlive it. */
struct lq_hub *lq_hub_new(const struct lq_hub_options *options, struct lq_backend *backend);

/* Frees the hub with all its sessions and requests; NULL is fine. Nothing is answered or released.
 */
void lq_hub_free(struct lq_hub *hub);

/* One turn at `now_ms`, which never decreases. Afterwards take the touched sessions. */
void lq_hub_turn(struct lq_hub *hub, uint64_t now_ms);

/* The next session that has something to write or whose wish may have changed, or NULL when all
 * were taken. */
struct lq_session *lq_hub_take_touched(struct lq_hub *hub);

/* Frames taken in since the latest turn: the shell acts before they become too many (LQ_TURN_WORK).
 */
uint64_t lq_hub_taken_in(const struct lq_hub *hub);

/* When the next turn is due without any event: ms, 0 for at once, LQ_NEVER. */
uint64_t lq_hub_deadline(const struct lq_hub *hub);

/* A last turn at `now_ms`, then E 6 (shutting down) for all sessions: it is in their out buffers
 * when this returns. What still waits stays unanswered, and a grant among it is released. */
void lq_hub_stop(struct lq_hub *hub, uint64_t now_ms);

/* Sessions that are not gone. */
uint64_t lq_hub_n_sessions(const struct lq_hub *hub);

struct lq_hub_counters lq_hub_counters(const struct lq_hub *hub);

#endif
