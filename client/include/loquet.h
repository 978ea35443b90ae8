/* loquet.h - the C client of Loquet, a lock service with fair queues, leases and fencing tokens.
 *
 *     struct loquet_client *client = loquet_open("10.0.0.1,10.0.0.2,10.0.0.3", NULL);
 *     struct loquet_request nightly = {.key = "nightly", .wait_ms = 10000, .lease_s = 30};
 *     struct loquet_ticket *ticket;
 *     if (loquet_acquire(client, &nightly, &ticket, NULL) == LOQUET_ACQUIRED) {
 *         loquet_keep(ticket, stop_working, NULL);
 *         work(loquet_ticket_token(ticket));
 *         loquet_release(ticket, NULL);
 *         loquet_ticket_free(ticket);
 *     }
 *     loquet_close(client);
 *
 * The token is the protection: hand it to whatever the lock guards, and let that refuse tokens
 * lower than one it has seen. A lease is a promise about time, and a process may be paused at any
 * moment.
 *
 * Threads: every function may be called from any thread at any time, but for those that free
 * something, which must be the last one on it. A client has one thread of its own, with all signals
 * blocked; callers need no threads beside their own, and any number of them may be in calls at the
 * same time. A thread must not be cancelled (pthread_cancel) while it is in a call. Callbacks run
 * in the client's thread: they must not block, and may call only what says so.
 *
 * Fork: a client does not work in a child process, which must neither use nor close it; open
 * another one there. Its sockets are closed by exec. While a child that did not exec lives, the
 * server can't see by the connection that its parent died; leases end all the same.
 *
 * Signals: a call goes on when a signal handler of its thread returns.
 *
 * Times are milliseconds of CLOCK_BOOTTIME (loquet_now_ms): a suspended machine's leases go on.
 * The library prints nothing, changes no signal, and keeps no state outside of its handles. Where
 * memory is exhausted, it aborts the process: a lock that is forgotten half-way helps nobody.
 *
 * loquet_uv.h has the same for programs that run a libuv loop. Link with -lloquet (pkg-config
 * loquet; CMake: find_package(loquet), loquet::loquet). */
#ifndef LOQUET_H
#define LOQUET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOQUET_VERSION_MAJOR 0
#define LOQUET_VERSION_MINOR 1
#define LOQUET_VERSION_PATCH 0

#define LOQUET_KEY_MAX   1024   /* bytes of UTF-8, without line feed */
#define LOQUET_WAIT_MAX  255000 /* milliseconds */
#define LOQUET_LEASE_MAX 255    /* seconds */

/* What became of a request. */
enum loquet_result {
    LOQUET_ACQUIRED = 0, /* the lock is held, until the end of the ticket's lease */
    LOQUET_TIMEOUT = 1,  /* definitely not acquired: the wait is over, or was given up */
    LOQUET_BUSY = 2,     /* definitely not acquired: the server is at a limit, or has no leader */
    LOQUET_INDETERMINATE = 3, /* may or may not have happened; a lock that nobody was told of ends
                                 with its lease. Do not enter the critical section. */
    LOQUET_CLOSED = 4,        /* definitely not done: no server could be reached, or the client is
                                 being closed */
    LOQUET_INVALID = 5,  /* definitely not done: an argument is wrong, or the server refuses it */
    LOQUET_RELEASED = 6, /* released */
    LOQUET_RENEWED = 7,  /* the lease counts anew */
    LOQUET_NOT_HELD = 8, /* this token does not hold the key, or no longer */
    LOQUET_ALIVE = 9,    /* a server answered a ping */
};

/* Why a lock is reported lost. */
enum loquet_loss {
    LOQUET_LOSS_CERTAIN = 1, /* the server said that this token does not hold the key any more */
    LOQUET_LOSS_POSSIBLE =
        2, /* its lease is about to end by our clock, and no renewal was confirmed */
};

/* What went wrong, in words, for people: to be filled by a call, where the caller wants to know. */
struct loquet_why {
    char text[256];     /* without a final full stop; "" when nothing did */
    char endpoint[280]; /* HOST:PORT of the server concerned, "" if none */
};

/* All connections to one cluster, and what is asked over them. */
struct loquet_client;

/* A lock that was acquired, or an attempt to name one. Belongs to its client. */
struct loquet_ticket;

/* Gives up waits from another thread. */
struct loquet_cancel;

/* The library's version, "1.2.3". */
const char *loquet_version(void);

/* Milliseconds of CLOCK_BOOTTIME, the clock of loquet_ticket_ends_ms. */
uint64_t loquet_now_ms(void);

/* One word for a result, such as "acquired"; "unknown" for a number that is none. */
const char *loquet_result_text(enum loquet_result result);

/* ---- Clients. */

/* A client of the servers "HOST[:PORT][,HOST[:PORT]...]", at most 16. HOST is a name, an IPv4
 * address or an IPv6 address in brackets; without :PORT it is 7311. Names are looked up here, which
 * may block, and again in a thread of its own when no address answers (it may outlive the client,
 * if the system's resolver hangs, and then touches nothing of it). Nothing is connected yet. One
 * server is chosen at random and kept while it works; then another. NULL when the text is wrong, no
 * name could be looked up, or descriptors or threads are exhausted; `ret_why` (or NULL) says what.
 * Free it with loquet_close.
 *
 *     struct loquet_why why;
 *     struct loquet_client *client = loquet_open("locks.example.org:7311", &why);
 *     if (client == NULL) {
 *         fprintf(stderr, "%s\n", why.text);
 *     }
 */
struct loquet_client *loquet_open(const char *endpoints, struct loquet_why *ret_why);

/* Ends a client, and frees it. Calls that other threads have in it end within 2.5 s, waits as if
 * they had been given up, all others with LOQUET_CLOSED or LOQUET_INDETERMINATE, unless they are
 * answered; returns when the last one is over, and its callback, if one runs. No new call may begin
 * meanwhile, not even a loquet_cancel_fire. Locks stay held until their lease ends: release them
 * first. Tickets of the client can only be freed afterwards. No callback runs after the return.
 * NULL is fine. Not from a callback.
 */
void loquet_close(struct loquet_client *client);

/* Asks a server for a sign of life. ALIVE sets `ret_round_trip_us`, in microseconds, connecting not
 * included. CLOSED: none answered within 5 s. */
enum loquet_result loquet_ping(struct loquet_client *client, uint64_t *ret_round_trip_us,
                               struct loquet_why *ret_why);

/* ---- Locks. */

/* What is to be acquired. Set what is not needed to zero. */
struct loquet_request {
    const char *key;              /* UTF-8 */
    size_t key_len;               /* bytes; 0: up to the terminating zero */
    uint32_t wait_ms;             /* how long to wait in the key's queue; 0: one attempt */
    uint32_t lease_s;             /* 1 to 255 seconds, counted from the grant */
    struct loquet_cancel *cancel; /* gives up the wait; NULL: nothing does */
};

/* Acquires a lock. With wait 0 one attempt is made, with at most 5 s for the network.
 * ACQUIRED sets `ret_ticket`, to be freed with loquet_ticket_free; nothing else touches it.
 * TIMEOUT, BUSY, CLOSED and INVALID: not acquired. INDETERMINATE: unknown, do not enter the
 * critical section. With a wait, connecting is retried until its end (then TIMEOUT); with wait 0
 * each server is tried once (then CLOSED). Once a byte of the request may have been sent it is
 * never sent again. Returns at the latest 2.5 s after the wait, or 6.5 s for wait 0. */
enum loquet_result loquet_acquire(struct loquet_client *client,
                                  const struct loquet_request *request,
                                  struct loquet_ticket **ret_ticket, struct loquet_why *ret_why);

/* Releases a lock, and ends its automatic renewal. RELEASED, NOT_HELD (it was released before, or
 * its lease ended), INDETERMINATE (sent, not answered within 5 s), or CLOSED (no server was reached
 * within 5 s). Repeated by itself on
 * another connection where one breaks; NOT_HELD after that means "no longer held": its own first
 * try may have done it. The ticket remains, and knows what it knew. */
enum loquet_result loquet_release(struct loquet_ticket *ticket, struct loquet_why *ret_why);

/* Makes the lease end `lease_s` seconds from now. RENEWED: loquet_ticket_ends_ms is later.
 * NOT_HELD: the lock is lost. INDETERMINATE: the end is the earlier of what it was and what it
 * would be. CLOSED or INVALID: nothing changed. Gives up after 5 s. While it is under way, the lock
 * is not renewed by itself, and a shorter lease counts already. A renewal that was sent and not
 * answered may be executed later, even behind another one: from then on the end is counted as if
 * the shorter of their leases had begun. */
enum loquet_result loquet_renew(struct loquet_ticket *ticket, uint32_t lease_s,
                                struct loquet_why *ret_why);

/* Called in the client's thread, once, when a lock that is kept is lost, or may be. May call the
 * loquet_ticket_ functions but for loquet_ticket_free, and loquet_cancel_fire; must not block. */
typedef void loquet_lost_fn(struct loquet_ticket *ticket, enum loquet_loss loss, void *context);

/* Renews the lock from now on, at a third of its lease, again and again, until it is released,
 * lost, its ticket freed or its client closed. `on_lost` (or NULL) is called when the server says
 * that it is lost, or when no renewal was confirmed a tenth of the lease (0.1 to 1 s) before its
 * end by our clock: then the work must stop. It is not renewed after that. A loss that loquet_renew
 * or loquet_release returns is not told again. False when it is lost already, or kept already, or
 * nothing is known about its lease.
 *
 *     static void stop_working(struct loquet_ticket *ticket, enum loquet_loss loss, void *context)
 *     {
 *         atomic_store((atomic_bool *)context, true);
 *     }
 */
bool loquet_keep(struct loquet_ticket *ticket, loquet_lost_fn *on_lost, void *context);

/* ---- Tickets. */

/* A ticket for a lock that another process acquired, to release or renew it. `key_len` 0: up to the
 * terminating zero. NULL when the key can not be one. Free it with loquet_ticket_free. */
struct loquet_ticket *loquet_ticket_make(struct loquet_client *client, const char *key,
                                         size_t key_len, uint64_t token);

/* Frees a ticket; the lock stays held until it is released or its lease ends, and is renewed no
 * longer. Waits for its callback, if that is running. Not from a callback. NULL is fine. */
void loquet_ticket_free(struct loquet_ticket *ticket);

/* The fencing token: greater than that of any lock granted before. */
uint64_t loquet_ticket_token(const struct loquet_ticket *ticket);

/* The number of the attempt that acquired it, which only correlates logs; 0: unknown. */
uint64_t loquet_ticket_owner(const struct loquet_ticket *ticket);

/* The key, zero-terminated. `ret_len` (or NULL) is its length in bytes. Valid until the ticket is
 * freed.
 */
const char *loquet_ticket_key(const struct loquet_ticket *ticket, size_t *ret_len);

/* The lease last asked for, in seconds; 0: unknown. */
uint32_t loquet_ticket_lease_s(const struct loquet_ticket *ticket);

/* The conservative end of the lease: until then nobody else holds the lock, unless it is released.
 * Counted from the sending of what began the lease, less 2 % for clocks that run at different
 * rates. 0: unknown, or the lock is lost or released. */
uint64_t loquet_ticket_ends_ms(const struct loquet_ticket *ticket);

/* Whether the lock is certainly held now: neither released, nor lost, nor past its end. It may end
 * in the next moment: the token is the protection. */
bool loquet_ticket_is_held(const struct loquet_ticket *ticket);

/* ---- Giving up. */

/* A new one for any number of requests of this client. Free it with loquet_cancel_free.
 *
 *     request.cancel = loquet_cancel_new(client);
 *     ... another thread: loquet_cancel_fire(request.cancel);
 */
struct loquet_cancel *loquet_cancel_new(struct loquet_client *client);

/* All acquires with it, those that wait now and those that come later, are given up: they end
 * within 0.5 s, with TIMEOUT, or INDETERMINATE when the server does not answer (a grant that
 * crosses it is given back). No other request is touched. May be called from a callback.
 * Idempotent. */
void loquet_cancel_fire(struct loquet_cancel *cancel);

/* NULL is fine. No request may be using it. Its client may have been closed. */
void loquet_cancel_free(struct loquet_cancel *cancel);

#ifdef __cplusplus
}
#endif

#endif
