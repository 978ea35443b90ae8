/* A hub over the backend of simple mode, with virtual time and clients made of bytes: what a server
 * does with sockets, done in memory. Each client has bytes on their way to the server, which come
 * in as the session wants input, and the answers that its session made, which leave as the window
 * of its imagined kernel allows. Nothing here judges: see session_text.h for tests by hand,
 * session_watch.h for those that draw. */
#ifndef LQ_SESSION_RIG_H
#define LQ_SESSION_RIG_H

#include "lq_hub.h"
#include "lq_local.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Virtual time begins here: not 0, and no round number. */
#define LQ_RIG_START_MS UINT64_C(1000007)

/* A window that never fills up. */
#define LQ_RIG_OPEN_WINDOW UINT64_MAX

struct lq_rig_options {
    struct lq_hub_options hub;
    struct lq_local_options local;
};

enum lq_rig_end {
    LQ_RIG_CONNECTED,
    LQ_RIG_CLOSED,  /* by the server, after its last answer */
    LQ_RIG_ABORTED, /* by the server, because this client did not read */
    LQ_RIG_BROKEN,  /* by the client or the network */
};

/* Bytes in a row, owned. */
struct lq_rig_bytes {
    uint8_t *at;
    size_t len, cap;
};

struct lq_rig_client {
    struct lq_rig *rig;
    struct lq_session *session; /* NULL once the connection ended */
    enum lq_rig_end end;
    struct lq_rig_bytes requests; /* all that were sent */
    size_t arrived;               /* bytes of them that the session was given */
    bool has_eof;                 /* an end of input follows the last of them */
    bool had_eof;                 /* which the session was told */
    struct lq_rig_bytes answers;  /* all that the session made */
    size_t delivered;             /* bytes of them that the kernel took */
    size_t heard;                 /* bytes of them that the test has looked at */
    uint64_t window;              /* bytes that the kernel takes yet */
    struct lq_rig_bytes text;     /* see session_text.h */
};

struct lq_rig {
    struct lq_backend *backend;
    struct lq_hub *hub;
    uint64_t now_ms;
    struct lq_rig_client **clients; /* all, the ended ones too */
    size_t n_clients;
};

/* The defaults of the server, except: the first token is 1, and the secrets are fixed. */
struct lq_rig_options lq_rig_defaults(void);

/* NULL: the defaults. Free with lq_rig_free. */
struct lq_rig *lq_rig_new(const struct lq_rig_options *options);

/* Frees hub, backend and clients, whatever state they are in. */
void lq_rig_free(struct lq_rig *rig);

/* A new client; the rig's. */
struct lq_rig_client *lq_rig_connect(struct lq_rig *rig);

void lq_rig_send(struct lq_rig_client *client, const void *bytes, size_t len);

/* Nothing more will be sent: a half-close. */
void lq_rig_send_eof(struct lq_rig_client *client);

/* The connection breaks now; bytes still on their way are lost. */
void lq_rig_break(struct lq_rig_client *client);

/* From now on the kernel takes `len` bytes more, and takes them at once as far as there are any. */
void lq_rig_set_window(struct lq_rig_client *client, uint64_t len);

/* One turn as the server does it: reads while input is wanted and the turn has room, acts, writes.
 */
void lq_rig_turn(struct lq_rig *rig);

/* Whether another turn is due at this instant. */
bool lq_rig_is_busy(const struct lq_rig *rig);

/* Turns at this instant until nothing more is to be done in it. */
void lq_rig_go(struct lq_rig *rig);

/* Lets `ms` pass, with turns only when the hub asked for them, and goes on to the end of that
 * instant. */
void lq_rig_advance(struct lq_rig *rig, uint64_t ms);

/* Shuts down: the hub's last turn, E 6 for all, and what leaves of it. */
void lq_rig_stop(struct lq_rig *rig);

struct lq_table_counts lq_rig_counts(const struct lq_rig *rig);

/* The token that holds a key as the table has it, expired or not; 0 when it is not registered. */
uint64_t lq_rig_holder(const struct lq_rig *rig, const void *key, size_t key_len);

void lq_rig_append(struct lq_rig_bytes *bytes, const void *from, size_t len);

#endif
