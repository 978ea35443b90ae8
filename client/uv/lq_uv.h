/* The client on a libuv loop: a driver whose sockets are watched by uv_poll handles.
 *
 * Everything that happens (a call, a socket, the alarm, an answer of the resolver) only asks for a
 * turn. It is done once, behind the poll phase of the same or the next iteration (uv_check); all
 * callbacks are called from there, so never from inside a call.
 *
 * Life: opened; closing from loquet_uv_close on, until nothing is under way or LQ_CLOSE_MS are
 * over; then its handles are closed, and when the last one is, it is freed. A socket is closed when
 * its handle is (libuv still has it in its tables before).
 *
 * The loop is kept alive by one handle, the alarm's, while anything is under way or kept. */
#ifndef LQ_UV_H
#define LQ_UV_H

#include "loquet_uv.h"

#include "lq_driver.h"
#include "lq_hold.h"
#include "lq_list.h"

struct lq_uv_lookup; /* names being looked up */

struct loquet_uv {
    uv_loop_t *loop;
    struct lq_driver driver;
    struct lq_watch watch;
    struct lq_uv_lookup *lookup; /* NULL: none */
    struct lq_list refused;      /* requests that were never begun */
    struct lq_list tickets;
    uv_poll_t alarm;
    uv_idle_t idle; /* makes the loop go round at once */
    uv_check_t check;
    int alarm_fd;
    uint64_t alarm_ms;  /* what it is set to */
    unsigned n_handles; /* that are not closed yet */
    unsigned n_waits;   /* whose callback has not run */
    bool closing, handles_closing, turning;
    uint64_t close_by_ms;
    loquet_uv_closed_fn *on_closed;
    void *context;
};

struct loquet_uv_ticket {
    struct loquet_uv *client; /* NULL: closed */
    struct lq_list in_client;
    struct lq_list waits; /* requests about it */
    struct lq_hold hold;
    loquet_uv_lost_fn *on_lost;
    void *context;
};

/* A request under way, of any kind. */
struct loquet_uv_wait {
    struct loquet_uv *client;
    struct lq_request *request;
    enum lq_goal goal;
    struct loquet_uv_ticket *ticket; /* NULL: freed meanwhile, or a ping */
    struct lq_list in_ticket, in_refused;
    uint32_t lease_s;
    uint64_t began_ms, began_us;
    bool measuring; /* a ping: the second one, which is measured */
    struct loquet_why why;
    loquet_uv_acquired_fn *on_acquired;
    loquet_uv_done_fn *on_done;
    loquet_uv_alive_fn *on_alive;
    void *context;
};

/* Asks for a turn. */
void lq_uv_wake(struct loquet_uv *client);

/* A request is over (lq_uv_waits.c): its callback is called, and it is freed. */
void lq_uv_wait_end(struct loquet_uv_wait *wait, struct lq_outcome *outcome);

/* A lease that was kept is lost. */
void lq_uv_ticket_lose(struct loquet_uv_ticket *ticket, enum loquet_loss loss);

/* A new ticket, of whose lease nothing is known. */
struct loquet_uv_ticket *lq_uv_ticket_new(struct loquet_uv *client, const char *key, size_t key_len,
                                          uint64_t token);

/* Looks all names up, unless that is under way. */
void lq_uv_lookup_start(struct loquet_uv *client);

/* The client does not want to know any more. */
void lq_uv_lookup_forget(struct loquet_uv *client);

#endif
