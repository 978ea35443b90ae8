/* The client's pure core: any number of requests over few connections. Bytes and the time go in;
 * bytes, wishes for connections, the next deadline and outcomes come out. The rules are the seven
 * duties of docs/protocol.md ("Writing a client").
 *
 * A request (its goal) is done in steps, each one frame and its answer; goal ACQUIRE: step A, and
 * after a long wait step K, which confirms the lease. Goals RELEASE, RENEW, PING: one step R, K or
 * P.
 *
 *              output, one byte written                 answer
 *   QUEUED ------------------------------> SENT ------------------------> DONE, or GRANTED (A)
 *     |  ^                                  |  |                             | lq_core_take: the
 * gate |  '--- channel lost (R, K, P) ------'  | deadline (A with a wait)    v | deadline:
 * certainly not sent           v                       in time: DONE, ACQUIRED
 *     '-----> DONE (TIMEOUT, CLOSED)      CANCELLING: C was sent        late: a chore releases that
 *                                              |                        token; DONE, INDETERMINATE
 *                                              | T, B: DONE, definitive
 *                                              | A: a chore releases it; DONE, INDETERMINATE
 *                                              ' margin over: channel closed; DONE, INDETERMINATE
 *
 * A chore is a request of the core's own, of which nobody is told the outcome: the release of a
 * grant that must not be handed over.
 *
 * Channels (lq_channel.h) are connections. One is the common channel: R, K, P and acquires with
 * wait 0 are pipelined over it. Acquires that wait have channels of their own, LQ_CHANNEL_WAITS on
 * each, so that an unanswered one that must be given up by closing its channel (duty 3) takes few
 * with it. All go to one address, the one that last worked (lq_dial.h).
 *
 * The driver (lq_driver.c, lq_uv_driver.c) obeys: it reads before it writes, reads before it calls
 * lq_core_tick, and drains after each of its turns, in this order: lq_core_next_dial,
 * lq_core_next_output, lq_core_next_closed, lq_core_take, lq_core_take_lost. */
#ifndef LQ_CORE_H
#define LQ_CORE_H

#include "loquet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_core;
struct lq_request; /* one request under way */
struct lq_channel; /* one connection */

enum lq_goal { LQ_GOAL_ACQUIRE, LQ_GOAL_RELEASE, LQ_GOAL_RENEW, LQ_GOAL_PING };

/* What last went wrong with a request; lq_explain.h puts it into words. */
enum lq_why {
    LQ_WHY_NOTHING,
    LQ_WHY_DIAL,        /* could not connect */
    LQ_WHY_EOF,         /* the server closed the connection */
    LQ_WHY_BROKEN,      /* reading or writing failed */
    LQ_WHY_GARBAGE,     /* bytes that are no answer */
    LQ_WHY_UNASKED,     /* an answer that belongs to no request */
    LQ_WHY_ERROR_FRAME, /* E: `error_code` */
    LQ_WHY_SILENT,      /* no sign of life */
    LQ_WHY_SLOW,        /* no answer in time */
    LQ_WHY_LATE,        /* a grant came after its deadline and is given back */
    LQ_WHY_LEASE_OVER,  /* a grant's lease ended before it could be confirmed */
    LQ_WHY_NOT_SENT,    /* the deadline came before a connection */
    LQ_WHY_GIVEN_UP,    /* by its caller */
    LQ_WHY_SHUT,        /* the client is being closed */
};

/* What a caller wants. The key is copied. */
struct lq_order {
    enum lq_goal goal;
    const void *key; /* checked with lq_key_is_valid; PING has none */
    size_t key_len;
    uint64_t owner;           /* ACQUIRE: fresh for each */
    uint64_t token;           /* RELEASE, RENEW */
    uint32_t lease_s;         /* ACQUIRE, RENEW: 1 to 255 */
    uint32_t wait_ms;         /* ACQUIRE: 0 to LOQUET_WAIT_MAX; its deadline follows from it */
    uint64_t deadline_ms;     /* others: give up then */
    uint64_t redial_until_ms; /* rounds of failing addresses are repeated until then; 0: one */
    void *user;               /* the caller's, handed back with the outcome */
};

struct lq_outcome {
    enum loquet_result result;
    void *user;
    uint64_t token, owner; /* of the request; ACQUIRED: the granted token */
    uint64_t sent_ms;      /* when the frame that began the lease was sent */
    uint64_t ends_ms;      /* ACQUIRED, RENEWED: conservative end of the lease; else 0 */
    bool repeated;         /* R, K: was sent more than once, so NOT_HELD may be its own doing */
    bool maybe_sent;       /* some byte of the request may have reached a server */
    unsigned n_stray;      /* renewals (K) of it that were sent and not answered: they may be
                              executed yet, and then count from that time */
    enum lq_why why;
    uint8_t error_code; /* ERROR_FRAME: enum lq_wire_error */
    int code;           /* DIAL, BROKEN: errno, 0: no answer */
    size_t address;     /* concerned, or tried last; SIZE_MAX: none */
};

/* A new core without connection, for addresses 0 to n - 1 (at least one). `random` is any number
 * from the system's generator. */
struct lq_core *lq_core_new(size_t n_addresses, uint64_t random);

/* Frees it with all that is under way. Its channels must be closed (lq_core_next_closed after
 * lq_core_shut, or lq_core_drop_all) and its leases ended. NULL is fine. */
void lq_core_free(struct lq_core *core);

/* Other addresses, 0 to n - 1, take the place of the ones so far: names were looked up again.
 * Channels that are open stay. */
void lq_core_set_addresses(struct lq_core *core, size_t n_addresses);

/* True once after all addresses failed in a round: a moment to look names up again. */
bool lq_core_wants_lookup(struct lq_core *core);

/* ---- Requests. */

/* Begins a request. It is the core's; the pointer is good until its outcome was taken. */
struct lq_request *lq_core_submit(struct lq_core *core, const struct lq_order *order,
                                  uint64_t now_ms);

/* The caller gives up its acquire: ends soon, as if its deadline were now. Others of its channel
 * are left alone. Nothing for other goals. Its outcome still comes. */
void lq_core_give_up(struct lq_core *core, struct lq_request *request, uint64_t now_ms);

/* What last went wrong with a request that is under way: sets `why`, `error_code`, `code` and
 * `address` of the outcome, and nothing else. */
void lq_core_trouble(const struct lq_request *request, struct lq_outcome *ret_outcome);

/* The gate: the next request that is over, in the order in which they ended; false when there is
 * none. A grant that comes here after its deadline, or its lease, is not handed over (duty 5). */
bool lq_core_take(struct lq_core *core, uint64_t now_ms, struct lq_outcome *ret_outcome);

/* Begins a chore: gives a grant back that nobody may have. It goes on until the lease is over. */
void lq_core_give_back(struct lq_core *core, const struct lq_order *acquire, uint64_t token,
                       uint64_t now_ms);

/* Ends all: acquires are given up, new orders end with CLOSED, others get LQ_CANCEL_MARGIN_MS,
 * leases are renewed no longer, chores may finish. Idempotent. */
void lq_core_shut(struct lq_core *core, uint64_t now_ms);

/* Whether no request, chore or lease is there: nothing will happen by itself. */
bool lq_core_is_idle(const struct lq_core *core);

/* Whether bytes are waited for, or a connection: somebody must watch the channels. */
bool lq_core_is_waiting(const struct lq_core *core);

/* ---- Channels. */

/* A connection to be made now to `ret_address`; NULL: none. It then counts as being dialled. */
struct lq_channel *lq_core_next_dial(struct lq_core *core, uint64_t now_ms, size_t *ret_address);

/* The connection being dialled is open. */
void lq_core_connected(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms);

/* The connection, open or being dialled, is gone; `code` is an errno or 0. It will come out of
 * lq_core_next_closed. */
void lq_core_lost(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms,
                  enum lq_why why, int code);

/* An open channel that has bytes to write and is not known to be full; NULL: none. */
struct lq_channel *lq_core_next_output(struct lq_core *core);

/* The bytes to write now, at most LQ_CHANNEL_OUT_MAX; `ret_len` 0: none. Frames of which not one
 * byte was written are made anew by each call: the wire wait of an acquire is that of now (duty 2),
 * and what is past its deadline is not sent (duty 3). */
const uint8_t *lq_core_output(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms,
                              size_t *ret_len);

/* `len` (at least 1) of them went to the kernel. */
void lq_core_wrote(struct lq_core *core, struct lq_channel *channel, size_t len);

/* The kernel takes no more: not offered by lq_core_next_output until lq_core_writable. */
void lq_core_full(struct lq_core *core, struct lq_channel *channel);
void lq_core_writable(struct lq_core *core, struct lq_channel *channel);

/* Whether lq_core_writable is waited for. */
bool lq_core_is_full(const struct lq_channel *channel);

/* Where to receive bytes of an open channel, at least one; then say how many came. The channel may
 * be closed by them: lq_core_is_open. */
uint8_t *lq_core_space(struct lq_core *core, struct lq_channel *channel, size_t *ret_cap);
void lq_core_received(struct lq_core *core, struct lq_channel *channel, size_t len,
                      uint64_t now_ms);
bool lq_core_is_open(const struct lq_channel *channel);

/* A channel that the core has done with, and forgets by this call: the driver closes its socket.
 * NULL: none. */
struct lq_channel *lq_core_next_closed(struct lq_core *core, void **ret_io);

/* All channels count as closed, as after a fork; what was sent on them ends as when they were lost.
 */
void lq_core_drop_all(struct lq_core *core, uint64_t now_ms);

/* What the driver keeps with a channel; NULL at first. */
void lq_core_set_io(struct lq_channel *channel, void *io);
void *lq_core_io(const struct lq_channel *channel);

/* ---- Time. */

void lq_core_tick(struct lq_core *core, uint64_t now_ms);

/* When lq_core_tick should be called next, or LQ_NEVER; 0: now. */
uint64_t lq_core_due_ms(const struct lq_core *core);

/* ---- Leases that are kept (lq_lease.h). */

/* One lock that is renewed; the caller's memory, its fields the core's. */
struct lq_lease;

/* What is known of the lease of a lock that is held. */
struct lq_known {
    uint64_t sent_ms; /* when it began, at the earliest */
    uint64_t ends_ms; /* its conservative end */
    uint32_t stray_s; /* the shortest lease of a stray renewal, which may begin at any time yet, in
                         place of a longer one; UINT32_MAX: there is none */
};

/* Renews the lock from now on. The key is copied. */
void lq_core_keep(struct lq_core *core, struct lq_lease *lease, const struct lq_order *lock,
                  const struct lq_known *known);

/* The caller renews the lock that is kept, for a lease that may be shorter: until `lost_ms` is
 * LQ_NEVER again, it is not renewed by itself, and counts as lost then at the latest. */
void lq_core_cap(struct lq_core *core, struct lq_lease *lease, uint64_t lost_ms);

/* No longer. Nothing when it is not kept. */
void lq_core_unkeep(struct lq_core *core, struct lq_lease *lease);

/* The next lease that was lost, which is not kept any more; NULL: none. */
struct lq_lease *lq_core_take_lost(struct lq_core *core, uint64_t now_ms,
                                   enum loquet_loss *ret_loss);

#endif
