/* Inside of the admin interface: what the files of server/admin share. Nobody else includes this.
 *
 *   lq_admin.c          life, loop, time limits
 *   lq_admin_listen.c   accepting
 *   lq_admin_http.c     requests and answers, as libmicrohttpd has them
 *   lq_admin_host.c     which names of this server a request may use
 *   lq_admin_route.c    method and path -> handler
 *   lq_admin_view.c     handlers that tell
 *   lq_admin_change.c   handlers that change
 *   lq_admin_json.c     values and faults as JSON */
#ifndef LQ_ADMIN_IMPL_H
#define LQ_ADMIN_IMPL_H

#include "lq_address.h"
#include "lq_admin.h"
#include "lq_list.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* Connections at once; one more waits in the kernel's queue. Monitors and people need a few. */
#define LQ_ADMIN_LINKS_MAX 64

/* How long a connection may live without a request that is answered, so that nobody holds a place
 * by saying little or nothing; and the same while all places are taken. */
#define LQ_ADMIN_TIMEOUT_MS 10000
#define LQ_ADMIN_CROWDED_MS 1000

/* The longest body of a request; all that are right are far shorter. */
#define LQ_ADMIN_BODY_MAX 4096

/* A body that is too long is read so far and then refused: an answer in the middle of it could be
 * lost to a reset. Who sends more is not heard out. */
#define LQ_ADMIN_DISCARD_MAX 65536

/* Memory that libmicrohttpd has for one connection: its headers and a piece of its body. */
#define LQ_ADMIN_LINK_BYTES ((size_t)16384)

/* One connection. */
struct lq_admin_link {
    struct lq_list in_links; /* of those that were not cut, the one that is due first at the head */
    uint64_t since_ms;       /* accepted, or its latest request was answered */
    int fd;                  /* libmicrohttpd's */
};

struct lq_admin {
    struct lq_admin_user user;
    struct lq_address address; /* as configured */
    uv_loop_t *loop;
    struct MHD_Daemon *daemon;
    uv_poll_t poll;           /* the daemon's epoll descriptor */
    uv_timer_t timer;         /* what is due next, of everything here */
    uv_poll_t accepting;      /* the listening socket */
    int fd;                   /* the listening socket; -1: none (any more) */
    bool is_accepting;        /* `accepting` runs: there is room, and there are descriptors */
    uint64_t accept_again_ms; /* after running out of descriptors; else LQ_NEVER */
    struct lq_list links;
    size_t n_links; /* those that were cut included */
    uint64_t timeout_ms;
    bool is_running; /* inside of MHD_run */
    unsigned n_open; /* handles of the loop */
};

/* ---- lq_admin.c */

/* Something may be ready: has libmicrohttpd look, and sets the timer for what comes next. */
void lq_admin_run(struct lq_admin *admin);

/* ---- lq_admin_listen.c */

/* Begins to accept on admin->fd, which listens. */
void lq_admin_listen_start(struct lq_admin *admin);

/* There is room for another connection. */
void lq_admin_listen_resume(struct lq_admin *admin);

/* ---- lq_admin_http.c */

/* Has the daemon call what is in this file. NULL when there is no memory or descriptor left. */
struct MHD_Daemon *lq_admin_http_start(struct lq_admin *admin);

/* ---- lq_admin_host.c: pure. */

/* Whether a request with this Host header may be answered: it has none, or names an IP address,
 * localhost, `own` (the host that is listened on) or the host of a member's address. A page of a
 * foreign site whose name was made to point here names that site. */
bool lq_admin_host_is_known(const char *header, const char *own, const struct lq_members *members);

/* ---- lq_admin_route.c */

struct lq_admin_request {
    const struct lq_admin_user *user;
    const struct lq_node_view *view; /* as the request came */
    const char *method;
    const char *path;         /* decoded, without the query */
    const char *content_type; /* NULL: none given */
    const char *body;
    size_t body_len;
    uint32_t node; /* from the path, if it has one */
};

struct lq_admin_answer {
    unsigned status;  /* of HTTP */
    json_t *json;     /* owned by whoever has the answer; NULL: `text` */
    const char *text; /* lives until the next call of the user */
    char allow[32];   /* the methods that this path has, when another was used; else empty */
};

/* Does what is asked for and says what came of it. */
struct lq_admin_answer lq_admin_answer(const struct lq_admin_request *request);

/* ---- lq_admin_view.c */

struct lq_admin_answer lq_admin_livez(const struct lq_admin_request *request);
struct lq_admin_answer lq_admin_readyz(const struct lq_admin_request *request);
struct lq_admin_answer lq_admin_status(const struct lq_admin_request *request);
struct lq_admin_answer lq_admin_members(const struct lq_admin_request *request);

/* ---- lq_admin_change.c */

struct lq_admin_answer lq_admin_add(const struct lq_admin_request *request);
struct lq_admin_answer lq_admin_promote(const struct lq_admin_request *request);
struct lq_admin_answer lq_admin_demote(const struct lq_admin_request *request);
struct lq_admin_answer lq_admin_remove(const struct lq_admin_request *request);
struct lq_admin_answer lq_admin_replace(const struct lq_admin_request *request);
struct lq_admin_answer lq_admin_transfer(const struct lq_admin_request *request);

/* ---- lq_admin_json.c */

/* Put a value into an object. What is no UTF-8 becomes a placeholder, a number above 2^63-1 (such
 * as UINT64_MAX for "never") null. */
void lq_admin_set(json_t *object, const char *name, json_t *value); /* takes `value` over */
void lq_admin_set_text(json_t *object, const char *name, const char *text);
void lq_admin_set_number(json_t *object, const char *name, uint64_t number);
void lq_admin_set_bool(json_t *object, const char *name, bool value);

/* All 64 bits, in decimal, as a string: readers that keep numbers as doubles would round them. */
void lq_admin_set_wide(json_t *object, const char *name, uint64_t number);

/* A node's id, or null for 0. */
void lq_admin_set_node(json_t *object, const char *name, uint32_t node);

/* {"error": error, "message": ...} with that status. */
__attribute__((format(printf, 3, 4))) struct lq_admin_answer
lq_admin_fault(unsigned status, const char *error, const char *format, ...);

#endif
