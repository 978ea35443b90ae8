/* Inside of the server: what lq_server.c, lq_listener.c and lq_link.c share. Nobody else includes
 * this. */
#ifndef LQ_SERVER_IMPL_H
#define LQ_SERVER_IMPL_H

#include "lq_hub.h"
#include "lq_limits.h"
#include "lq_list.h"
#include "lq_node.h"
#include "lq_server.h"
#include "lq_stream.h"
#include "lq_turns.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct lq_listener {
    struct lq_server *server;
    uv_poll_t poll;
    uv_timer_t retry;      /* after running out of descriptors */
    uint64_t next_warn_ms; /* the same trouble is told only now and then */
    int fd;                /* -1: not listening (any more) */
    bool is_paused;        /* as many connections as are allowed */
};

/* System calls for answers in one turn; further ones follow in the next. */
#define LQ_TURN_CALLS (LQ_TURN_WORK / LQ_TURN_CALL_COST)

/* See lq_server_stop.c. */
enum lq_stop_step {
    LQ_STOP_SERVING,
    LQ_STOP_HANDING_OVER,
    LQ_STOP_DISMISSING,
    LQ_STOP_LEAVING,
};

struct lq_server {
    uv_loop_t loop;
    struct lq_node *node;       /* NULL in simple mode */
    struct lq_backend *backend; /* the node's, or simple mode's table */
    struct lq_hub *hub;
    struct lq_listener listener;
    uv_check_t check; /* after polling: the turn */
    uv_idle_t idle;   /* runs while work is left over, so that polling does not wait */
    uv_timer_t timer; /* the next deadline */
    uv_timer_t watch; /* looks at watched connections, while there are some */
    uv_signal_t signals[4];
    struct lq_list links;     /* all connections */
    struct lq_list lingering; /* those that were shut down, the oldest first */
    struct lq_list watched;   /* those that the kernel may not report when they die */
    uint64_t n_links, max_links;
    uint64_t n_calls; /* system calls for connections in this turn */
    enum lq_stop_step stop;
    uint64_t stop_at_ms; /* while stopping: when to go on; else LQ_NEVER */
    struct lq_turns turns;
    uint8_t buffer[LQ_READ_BYTES];
};

/* One client connection. It serves its session; when that is finished it lingers, reading what
 * still comes, so that the last answer is not lost to a reset. */
struct lq_link {
    struct lq_server *server;
    struct lq_stream stream;
    uv_poll_t poll;
    struct lq_session *session; /* NULL: lingering, or closing */
    int interest;               /* what `poll` asks for */
    bool is_half_closed;        /* the client's end of input was seen, but not read yet */
    uint64_t linger_until_ms;
    struct lq_list in_links;
    struct lq_list in_lingering;
    struct lq_list in_watched;
    bool is_blocked; /* its client does not read */
    bool is_unheard; /* was written to, and nothing has come since, not even an acknowledgement */
    uint64_t unheard_since_ms; /* of the loop's clock */
};

/* ---- lq_listener.c */

/* Listens on `address`; false when that fails, which was logged. */
bool lq_listener_start(struct lq_listener *listener, struct lq_server *server, const char *address);

/* A connection was closed: there is room for another. */
void lq_listener_resume(struct lq_listener *listener);

void lq_listener_stop(struct lq_listener *listener);

/* ---- lq_link.c */

/* Serves an accepted connection; owns `fd` from now on. */
void lq_link_open(struct lq_server *server, int fd);

/* After the turn: writes what there is, follows the session's wish, and asks for the next events.
 */
void lq_link_serve(struct lq_link *link);

/* Closes at once, whatever state it is in. */
void lq_link_close(struct lq_link *link);

/* ---- lq_server_stop.c */

/* A signal asks for the end; asking again changes nothing. */
void lq_server_stop(struct lq_server *server, int signum);

/* After a turn: goes on stopping, if that was asked for or the node failed. */
void lq_server_go_on_stopping(struct lq_server *server, uint64_t now_ms);

/* ---- lq_server.c */

void lq_server_init_loop(struct lq_server *server);

/* Closes all handles but those of connections; the loop ends when they are. */
void lq_server_close(struct lq_server *server);

void lq_server_log_counters(const struct lq_server *server, const char *msg);

/* To be called before taking anything in: if this turn has taken in as much as it should, it is
 * acted upon now, within the loop's round of callbacks. (libuv may go through tens of thousands of
 * ready sockets in one round, and refusing them would only make it poll them again at once.) May
 * close any connection. */
void lq_server_make_room(struct lq_server *server);

/* Looks once a second at a connection that is blocked, of which nothing is asked, or which is
 * unheard, as long as that is so. */
void lq_server_watch(struct lq_server *server, struct lq_link *link);

#endif
