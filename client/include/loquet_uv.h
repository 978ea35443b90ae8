/* loquet_uv.h - the client of loquet.h for programs that run a libuv loop: nothing blocks, no
 * thread is started, and everything must be called in the thread of the loop.
 *
 *     static void on_acquired(void *context, enum loquet_result result,
 *                             struct loquet_uv_ticket *ticket, const struct loquet_why *why)
 *     {
 *         if (result == LOQUET_ACQUIRED) {
 *             loquet_uv_keep(ticket, on_lost, context);
 *             begin_to_work(context, ticket);
 *         }
 *     }
 *
 *     struct loquet_uv *client = loquet_uv_open(loop, "10.0.0.1,10.0.0.2,10.0.0.3", NULL);
 *     struct loquet_request nightly = {.key = "nightly", .wait_ms = 10000, .lease_s = 30};
 *     loquet_uv_acquire(client, &nightly, on_acquired, context);
 *
 * A callback never runs inside the call that asked for it. Each request has exactly one callback,
 * the last ones before that of loquet_uv_close. Callbacks may call anything here, loquet_uv_close
 * and loquet_uv_ticket_free included.
 *
 * Results, keys, waits, leases and their meaning, forks and memory are those of loquet.h. Link with
 * -lloquet_uv -lloquet (pkg-config loquet-uv; CMake: find_package(loquet), loquet::uv). */
#ifndef LOQUET_UV_H
#define LOQUET_UV_H

#include <loquet.h>
#include <uv.h>

#ifdef __cplusplus
extern "C" {
#endif

struct loquet_uv;        /* a client on a loop */
struct loquet_uv_ticket; /* a lock that was acquired */
struct loquet_uv_wait;   /* an acquire under way */

/* A new client, see loquet_open; names are looked up in the background. The client keeps the loop
 * alive only while something is under way or kept. NULL: the text is wrong, or no descriptor is
 * left.
 */
struct loquet_uv *loquet_uv_open(uv_loop_t *loop, const char *endpoints,
                                 struct loquet_why *ret_why);

/* A client is closed, and freed. */
typedef void loquet_uv_closed_fn(void *context);

/* Ends a client: what is under way ends as loquet_close says, then `on_closed` (or NULL) is called
 * and all is freed, but for tickets, which can only be freed. Once. */
void loquet_uv_close(struct loquet_uv *client, loquet_uv_closed_fn *on_closed, void *context);

/* ACQUIRED: `ticket` is the callback's, to be freed with loquet_uv_ticket_free; else NULL. `why` is
 * valid during the call. */
typedef void loquet_uv_acquired_fn(void *context, enum loquet_result result,
                                   struct loquet_uv_ticket *ticket, const struct loquet_why *why);

/* Acquires a lock; `request->cancel` must be NULL. The request and its key are copied. What is
 * returned is good for loquet_uv_give_up until the callback runs. */
struct loquet_uv_wait *loquet_uv_acquire(struct loquet_uv *client,
                                         const struct loquet_request *request,
                                         loquet_uv_acquired_fn *on_done, void *context);

/* Gives up one acquire: its callback comes within 0.5 s, see loquet_cancel_fire. */
void loquet_uv_give_up(struct loquet_uv_wait *wait);

/* A release or renewal is over. `why` is valid during the call. */
typedef void loquet_uv_done_fn(void *context, enum loquet_result result,
                               const struct loquet_why *why);

/* Releases a lock, see loquet_release. `on_done` (or NULL) is told the result. The ticket may be
 * freed before. */
void loquet_uv_release(struct loquet_uv_ticket *ticket, loquet_uv_done_fn *on_done, void *context);

/* Makes the lease end `lease_s` seconds from now, see loquet_renew. `on_done` (or NULL) is told the
 * result. The ticket may be freed before. */
void loquet_uv_renew(struct loquet_uv_ticket *ticket, uint32_t lease_s, loquet_uv_done_fn *on_done,
                     void *context);

/* `round_trip_us`, in microseconds, counts when the result is ALIVE. */
typedef void loquet_uv_alive_fn(void *context, enum loquet_result result, uint64_t round_trip_us,
                                const struct loquet_why *why);

/* Asks a server for a sign of life, see loquet_ping. */
void loquet_uv_ping(struct loquet_uv *client, loquet_uv_alive_fn *on_done, void *context);

/* A lock that is kept is lost, or may be. It may free the ticket. */
typedef void loquet_uv_lost_fn(struct loquet_uv_ticket *ticket, enum loquet_loss loss,
                               void *context);

/* Renews the lock by itself from now on, see loquet_keep. */
bool loquet_uv_keep(struct loquet_uv_ticket *ticket, loquet_uv_lost_fn *on_lost, void *context);

/* A ticket for a lock that another process acquired, see loquet_ticket_make. */
struct loquet_uv_ticket *loquet_uv_ticket_make(struct loquet_uv *client, const char *key,
                                               size_t key_len, uint64_t token);

/* Frees a ticket, before or after its client is closed; requests about it go on. NULL is fine. See
 * loquet_ticket_free. */
void loquet_uv_ticket_free(struct loquet_uv_ticket *ticket);

/* The fencing token, see loquet_ticket_token. */
uint64_t loquet_uv_ticket_token(const struct loquet_uv_ticket *ticket);

/* The number of the attempt, see loquet_ticket_owner. */
uint64_t loquet_uv_ticket_owner(const struct loquet_uv_ticket *ticket);

/* The key, zero-terminated, see loquet_ticket_key. */
const char *loquet_uv_ticket_key(const struct loquet_uv_ticket *ticket, size_t *ret_len);

/* The lease last asked for, see loquet_ticket_lease_s. */
uint32_t loquet_uv_ticket_lease_s(const struct loquet_uv_ticket *ticket);

/* The conservative end of the lease, see loquet_ticket_ends_ms. */
uint64_t loquet_uv_ticket_ends_ms(const struct loquet_uv_ticket *ticket);

/* Whether the lock is certainly held now, see loquet_ticket_is_held. */
bool loquet_uv_ticket_is_held(const struct loquet_uv_ticket *ticket);

#ifdef __cplusplus
}
#endif

#endif
