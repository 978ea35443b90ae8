/* Watches over a session rig: which requests each client's session was given, which answers it
 * made, and whether they go together as docs/protocol.md has it, whatever was drawn. In particular:
 * each request is answered once, with an answer that fits; T comes neither early nor late nor
 * without reason; R and K of one token are answered in their order; queues are FIFO; E comes last
 * and for a reason; and what session_grants.h says. */
#ifndef LQ_SESSION_WATCH_H
#define LQ_SESSION_WATCH_H

#include "session_rig.h"

struct lq_watch;

struct lq_watch *lq_watch_new(struct lq_rig *rig, uint64_t requests_max);
void lq_watch_free(struct lq_watch *watch);

/* ---- Each returns what is wrong, or NULL. Use these instead of the rig's own ones. */

/* One turn. */
const char *lq_watch_turn(struct lq_watch *watch);

/* Turns at this instant until nothing more is to be done; then nothing may be overdue. */
const char *lq_watch_go(struct lq_watch *watch);

/* Lets `ms` pass with turns where the hub asks for them. */
const char *lq_watch_advance(struct lq_watch *watch, uint64_t ms);

/* Ends everything: all clients end their input and read what there is, and time passes until
 * nothing is held. Then nothing may be left. */
const char *lq_watch_finish(struct lq_watch *watch);

/* Shuts down: E 6 is expected from now on. */
const char *lq_watch_stop(struct lq_watch *watch);

/* How many answers were seen with this op. */
uint64_t lq_watch_seen(const struct lq_watch *watch, uint8_t op);

#endif
