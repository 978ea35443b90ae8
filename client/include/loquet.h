/* loquet.h - the C client of Loquet, a lock service with fair queues, leases and fencing tokens.
 *
 * Blocking calls on a handle. A handle serves one call at a time and belongs to one thread at a
 * time; use several handles for several threads. After fork() the child must not use or free the
 * parent's handles. The library prints nothing, starts no thread, changes no signal and keeps no
 * state outside its handles.
 *
 * Times are milliseconds of CLOCK_BOOTTIME (loquet_now_ms): a suspended machine's leases go on.
 *
 * The token is the protection: hand it to whatever the lock guards, and let that refuse tokens
 * lower than one it has seen. A lease is a promise about time, and a process may be paused at any
 * moment. */
#ifndef LOQUET_H
#define LOQUET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOQUET_KEY_MAX   1024   /* bytes of UTF-8, without line feed */
#define LOQUET_WAIT_MAX  255000 /* milliseconds */
#define LOQUET_LEASE_MAX 255    /* seconds */

enum loquet_result {
    LOQUET_ACQUIRED = 0,      /* the lock is held, until the end of the ticket's lease */
    LOQUET_TIMEOUT = 1,       /* definitely not acquired: the wait is over */
    LOQUET_BUSY = 2,          /* definitely not acquired: the server is at a limit */
    LOQUET_INDETERMINATE = 3, /* may or may not have happened; a lock that nobody was told of ends
                                 with its lease. Do not enter the critical section. */
    LOQUET_CLOSED = 4,        /* definitely not done: no server could be reached */
    LOQUET_INVALID = 5,       /* definitely not done: an argument is wrong, or the server refuses */
    LOQUET_RELEASED = 6,      /* released */
    LOQUET_RENEWED = 7,       /* the lease counts anew */
    LOQUET_NOT_HELD = 8,      /* this token does not hold the key, or no longer */
    LOQUET_ALIVE = 9,         /* a server answered a ping */
};

struct loquet_client;

/* A lock that was acquired. Plain data: copy it as you like, there is nothing to free. */
struct loquet_ticket {
    uint64_t token;               /* fencing token: greater than any granted before */
    uint64_t owner;               /* number of the attempt that acquired it; 0: unknown */
    uint64_t ends_ms;             /* conservative end of the lease; 0: unknown */
    uint32_t lease_s;             /* lease asked for, in seconds; 0: unknown */
    uint32_t key_len;             /* bytes of `key` */
    char key[LOQUET_KEY_MAX + 1]; /* zero-terminated */
};

/* The library's version, "1.2.3". */
const char *loquet_version(void);

/* Milliseconds of CLOCK_BOOTTIME, the clock of `ends_ms`. */
uint64_t loquet_now_ms(void);

/* One word for a result, such as "acquired"; "unknown" for a number that is none. */
const char *loquet_result_text(enum loquet_result result);

/* A new handle without endpoints, or NULL when memory or file descriptors are exhausted. Free it
 * with loquet_free. */
struct loquet_client *loquet_new(void);

/* Closes the handle's connection and frees it; NULL is fine. Locks that are held stay held until
 * they are released or their lease ends. */
void loquet_free(struct loquet_client *client);

/* Sets the servers to talk to: "HOST:PORT[,HOST:PORT...]", at most 16. HOST is a name, an IPv4
 * address or an IPv6 address in brackets; without :PORT it is 7311. Names are looked up here, which
 * may block. They are tried from a random one on; one that works is kept.
 * Returns LOQUET_ALIVE when at least one has an address (nothing was connected yet), LOQUET_INVALID
 * when the text is wrong, LOQUET_CLOSED when no name could be looked up. On failure the handle
 * keeps the endpoints that it had. */
enum loquet_result loquet_set_endpoints(struct loquet_client *client, const char *endpoints);

/* Acquires `key` (`key_len` bytes), waiting at most `wait_ms` milliseconds in the key's queue; 0 is
 * one attempt, with at most 5 s for the network. `lease_s` is 1 to 255 seconds, counted from the
 * grant.
 * ACQUIRED fills `ret_ticket`; nothing else touches it. TIMEOUT, BUSY, CLOSED and INVALID: not
 * acquired. INDETERMINATE: not to be used, see above. With a wait, connecting is retried until its
 * end (then TIMEOUT); with wait 0 each endpoint is tried once. Once a byte of the request may have
 * been sent it is never sent again. Returns at the latest 2.5 s after the wait, or 6.5 s for wait
 * 0.
 *
 *     struct loquet_ticket ticket;
 *     if (loquet_acquire(client, "nightly", 7, 10000, 30, &ticket) == LOQUET_ACQUIRED) {
 *         store_with_fence(ticket.token);
 *         loquet_release(client, &ticket);
 *     }
 */
enum loquet_result loquet_acquire(struct loquet_client *client, const char *key, size_t key_len,
                                  uint32_t wait_ms, uint32_t lease_s,
                                  struct loquet_ticket *ret_ticket);

/* Makes a ticket for a lock that another process acquired, to release or renew it. Returns false,
 * and leaves `ret_ticket` alone, when the key cannot be one. */
bool loquet_ticket_make(struct loquet_ticket *ret_ticket, const char *key, size_t key_len,
                        uint64_t token);

/* Releases a lock. RELEASED, NOT_HELD (it was released before, or its lease ended), INDETERMINATE
 * (sent, not answered within 5 s), CLOSED or INVALID. Repeated by itself on another connection when
 * one breaks; a release that was repeated may find its own first try done and say NOT_HELD. */
enum loquet_result loquet_release(struct loquet_client *client, const struct loquet_ticket *ticket);

/* Makes the lease end `lease_s` seconds from now. RENEWED updates the ticket's `ends_ms` and
 * `lease_s`. NOT_HELD: the lock is lost. INDETERMINATE: `ends_ms` is the earlier of what it was and
 * what it would be. CLOSED or INVALID: nothing changed. Gives up after 5 s. */
enum loquet_result loquet_renew(struct loquet_client *client, struct loquet_ticket *ticket,
                                uint32_t lease_s);

/* Asks a server for a sign of life. ALIVE sets `ret_round_trip_us`, in microseconds, connecting not
 * included. CLOSED: none answered within 5 s. */
enum loquet_result loquet_ping(struct loquet_client *client, uint64_t *ret_round_trip_us);

/* What went wrong in the last call on this handle, in words, without a final full stop; "" when
 * nothing did. Valid until the next call on the handle. */
const char *loquet_error(const struct loquet_client *client);

/* The endpoint, as HOST:PORT, that the last call talked to or tried last; "" before any. Valid
 * until the next call on the handle. */
const char *loquet_endpoint(const struct loquet_client *client);

#ifdef __cplusplus
}
#endif

#endif
