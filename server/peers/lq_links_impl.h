/* Inside of the links: what the files of this folder share. Nobody else includes this.
 *
 *   lq_links     the set: members, sending, what the node has to be told, the timer
 *   lq_conn      one connection: bytes in and out, states, how it ends
 *   lq_greet     hello, refusal, which connection is kept
 *   lq_dialler   attempts to reach a peer
 *   lq_port      the port on which peers come in
 *
 * The user is called from the loop only. So whatever may happen inside of a call of lq_links_*
 * merely notes what is due, and has the timer tell it. And whoever calls the user goes on as if
 * anything may have happened meanwhile, since a turn of the node may run in there: connections and
 * peers that are closed stay in memory until their callback is over. */
#ifndef LQ_LINKS_IMPL_H
#define LQ_LINKS_IMPL_H

#include "lq_address.h"
#include "lq_buffer.h"
#include "lq_contest.h"
#include "lq_links.h"
#include "lq_list.h"
#include "lq_outqueue.h"
#include "lq_stream.h"

/* ---- Limits. */

/* A first SYN that was lost is sent again after 1 s. */
#define LQ_CONNECT_MS 2000

/* Until the hello of the other side is there. A frozen peer that wakes up answers at once. */
#define LQ_GREETING_MS 5000

/* Connections that are no link and were not dialled here; the oldest makes room. */
#define LQ_NAMELESS_MAX 64

/* How often newcomers that wait are judged again, when nothing else happens. */
#define LQ_JUDGE_MS 20

/* Read from one peer in one round of the loop, and at a time. */
#define LQ_ROUND_BYTES ((size_t)256 << 10)
#define LQ_PIECE_BYTES ((size_t)64 << 10)

/* The same trouble is logged again after. */
#define LQ_BAD_FRAME_LOG_MS 1000
#define LQ_REFUSED_LOG_MS   10000

struct lq_links_peer;

/* ---- One connection. */

enum lq_conn_state {
    LQ_CONN_CONNECTING, /* dialled; not connected yet */
    LQ_CONN_GREETING,   /* dialled; hello said, the answer is awaited */
    LQ_CONN_WAITING,    /* came in; its hello is awaited */
    LQ_CONN_HELD,       /* came in; its hello is there, the answer not decided yet */
    LQ_CONN_UP,         /* the link */
    LQ_CONN_LINGERING,  /* shut down; what still comes is dropped until the other side closes too */
    LQ_CONN_CLOSED,
};

/* How a connection ends. */
enum lq_end {
    LQ_END_CLOSED, /* by the other side */
    LQ_END_RESET,  /* by the kernel of the other side: nobody is there */
    LQ_END_BROKEN, /* in any other way */
    LQ_END_SILENT, /* its time is over */
    LQ_END_BAD,    /* it sent what it may not */
};

struct lq_conn {
    struct lq_links *links;
    struct lq_list in_conns;
    struct lq_links_peer *peer; /* GREETING, CONNECTING, UP; else NULL */
    struct lq_stream stream;
    uv_poll_t poll;
    enum lq_conn_state state;
    bool is_dialled;
    bool is_broken;    /* writing failed: what still can be read is, then it ends */
    bool has_messages; /* UP: a message has come */
    bool is_full;
    int interest;           /* what `poll` asks for */
    uint64_t deadline_ms;   /* of its state, or LQ_NEVER */
    uint64_t hello_ms;      /* when the hello of the other side came */
    uint64_t heard_ms;      /* UP: when something last came */
    struct lq_hello hello;  /* HELD, UP: of the other side */
    struct lq_buffer in;    /* read, not taken yet: less than one frame between reads */
    struct lq_outqueue out; /* to be written */
    uint64_t sent_bytes, received_bytes;
    char address[LQ_ADDRESS_TEXT];
};

/* Takes over a descriptor in the state CONNECTING or WAITING. NULL when the loop can't watch it: it
 * was closed. */
struct lq_conn *lq_conn_new(struct lq_links *links, int fd, enum lq_conn_state state,
                            const struct sockaddr *address, socklen_t len);

/* Moves to a state that has until `deadline_ms`, and asks the kernel for what it needs. */
void lq_conn_move(struct lq_conn *conn, enum lq_conn_state state, uint64_t deadline_ms);

/* Writes what is queued, once; what the kernel does not take follows when it does. When that fails,
 * the end of the connection comes from the loop, after what can still be read. */
void lq_conn_write(struct lq_conn *conn);

/* The same unless it waits for the kernel already. For the end of a turn. */
void lq_conn_flush(struct lq_conn *conn);

/* Writes what is queued as far as the kernel takes it at once, says that no more comes, and reads
 * until the other side closes. It belongs to no peer from here on. */
void lq_conn_linger(struct lq_conn *conn);

/* What its end means to others depends on the state: tells them, logs what is worth it, and closes.
 * `why` in words. */
void lq_conn_end(struct lq_conn *conn, enum lq_end end, const char *why);

/* Its address without the port: who connects again comes from another one. */
void lq_conn_host(const struct lq_conn *conn, char ret_host[LQ_ADDRESS_TEXT]);

/* Its deadline has passed. From the loop. */
void lq_conn_expire(struct lq_conn *conn);

/* Closes at once, without a word to anybody. */
void lq_conn_close(struct lq_conn *conn);

/* ---- lq_conn_read.c */

/* Reads what is there, up to LQ_ROUND_BYTES, and takes the frames. May call the user. */
void lq_conn_read(struct lq_conn *conn);

/* It is over, whatever the reason: takes what was sent before, and ends it. May call the user. */
void lq_conn_read_rest(struct lq_conn *conn);

/* ---- One peer: a member, or a stranger as long as it is linked. */

struct lq_resolving;

/* Attempts to reach it. */
struct lq_dial {
    struct lq_resolving *resolving; /* its name is being resolved */
    struct addrinfo *infos, *next;  /* its addresses; the next one to be tried */
    struct lq_conn *conn;           /* the one being tried */
    uint64_t at_ms;                 /* the next attempt; LQ_NEVER: one runs, or none is wanted */
    uint64_t delay_ms;              /* the last wait before one */
    uint64_t quick_ms;              /* the last one without a wait, 0: never */
    bool saw_refused, saw_other;    /* what came of the addresses tried so far */
};

struct lq_links_peer {
    struct lq_links *links;
    struct lq_list in_peers;
    uint32_t node;
    bool is_member;
    char address[LQ_ADDRESS_MAX + 1]; /* "": unknown */
    struct lq_conn *link;             /* NULL: none stands */
    struct lq_dial dial;
    /* What the user has to be told. */
    bool is_down_due, is_refused_due;
    enum lq_link_verdict verdict_due; /* OK: none */
    bool is_told_full;
    uint64_t since_ms;
    char text[128]; /* why no link stands */
};

/* A failure of the link or of an attempt, for status. */
void lq_links_note(struct lq_links_peer *peer, const char *why);

/* ---- The set. */

struct lq_links {
    uv_loop_t *loop;
    struct lq_links_options options;
    struct lq_links_user user;
    struct lq_list peers;
    struct lq_list conns; /* all that are not closed, the oldest first */
    uv_timer_t timer;
    uint64_t timer_ms; /* when it goes off, or LQ_NEVER */
    uv_poll_t port;
    int port_fd;         /* -1: not listening */
    uint64_t port_at_ms; /* accepting goes on, LQ_NEVER: it does */
    uint64_t random;
    bool is_closing;
    bool has_due;    /* something is to be told, or an attempt to be begun */
    unsigned n_held; /* connections that are HELD */
    unsigned n_open; /* handles and requests whose callback is still to come */
    struct lq_limiter bad_frames, refusals;
};

struct lq_links_peer *lq_links_find(const struct lq_links *links, uint32_t node);

/* The peer, made as a stranger unless it is there. */
struct lq_links_peer *lq_links_get(struct lq_links *links, uint32_t node);

/* Something is due: lq_links_settle follows, at the latest from the timer. */
void lq_links_note_due(struct lq_links *links);

/* Tells the user all that is due, judges newcomers, begins attempts. From the loop. */
void lq_links_settle(struct lq_links *links);

/* The timer goes off at `at_ms` at the latest. */
void lq_links_wake_at(struct lq_links *links, uint64_t at_ms);

/* A handle or request is done; the last one frees the links that are closing. */
void lq_links_release(struct lq_links *links);

uint64_t lq_links_random(struct lq_links *links);

/* ---- lq_greet.c */

/* Queues and writes the own hello. */
void lq_greet_say(struct lq_conn *conn, uint32_t to);

/* The body that a connection WAITING or GREETING began with. May call the user. */
void lq_greet_first(struct lq_conn *conn, const uint8_t *body, size_t len);

/* Judges all connections that are HELD. May call the user. */
void lq_greet_judge(struct lq_links *links);

/* Whether this first message over a link that came in is the refusal of a dialler; if so, the link
 * has ended. */
bool lq_greet_is_refused(struct lq_conn *conn, const uint8_t *body, size_t len);

/* ---- lq_dialler.c */

/* Begins an attempt, unless one runs or a link stands. From the loop. */
void lq_dial_start(struct lq_links_peer *peer);

/* The connection of an attempt is connected, or not. */
void lq_dial_connected(struct lq_conn *conn);

/* It ended before it became a link, and is closed already: the next address is tried. */
void lq_dial_failed(struct lq_links_peer *peer, enum lq_end end, const char *why);

/* Ends an attempt, if one runs, without an outcome, and plans no other. */
void lq_dial_stop(struct lq_links_peer *peer);

/* Plans the next attempt after `delay_ms`, less a part drawn at random. */
void lq_dial_later(struct lq_links_peer *peer, uint64_t delay_ms);

/* Plans the first attempt after a link ended that had stood since peer->since_ms. */
void lq_dial_again(struct lq_links_peer *peer);

/* ---- lq_port.c */

/* Goes on accepting after a pause whose end has come. */
void lq_port_resume(struct lq_links *links);

void lq_port_close(struct lq_links *links);

#endif
