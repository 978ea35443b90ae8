/* Links with the other nodes: one TCP connection per pair, dialled by either, re-made as long as
 * the peer is a member. A link carries whole messages (lq_message.h) in both directions, each
 * direction headed by a HELLO.
 *
 *   dialling -> greeting (hello sent) -> up -> down -> dialling again, with backoff and jitter
 *   accepted -> waits for hello -> up
 *
 * The dialler says hello first. The accepting side judges it; if it is right, it answers with its
 * own and the link is up; if not, it answers with a REFUSAL frame which says why, and closes. When
 * both dial at once, the connection that the node with the lower id dialled is kept. A connection
 * of a later life of the peer replaces the link; one of the same life does so when the link has
 * ended, or has been silent for a second: else somebody repeats what the peer once said.
 *
 * Nothing that arrives is trusted: frames are bounded before they are allocated, a connection that
 * says nothing right in time is closed, connections without a hello are few. A bad frame closes the
 * link and makes one line in the log, at most one per address and second. */
#ifndef LQ_LINKS_H
#define LQ_LINKS_H

#include "lq_members.h"
#include "lq_message.h"
#include "lq_replica.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct lq_links;

/* What the links need of the node. Called from the loop only, never inside of a call of lq_links_*;
 * the first call of a round of the loop is announced by `wake`. */
struct lq_links_user {
    void *context;
    void (*wake)(void *context);
    /* What to say to that node; only asked once `can_greet` is true. */
    bool (*can_greet)(void *context);
    struct lq_hello (*hello)(void *context, uint32_t to);
    /* A connection with the sender of this hello is about to be the link, in place of an earlier
     * one if there is one. Anything but OK: it is refused, and an earlier one stays. */
    enum lq_link_verdict (*up)(void *context, const struct lq_hello *hello);
    /* The link broke. `is_refused`: an attempt to make a new one was refused, so its process is
     * gone; told after the break, and for each such attempt. Never told of a link that `up` was
     * asked to replace, or that lq_links_unlink closed. */
    void (*down)(void *context, uint32_t node, bool is_refused);
    /* Much waits for that node to read; or little again. */
    void (*full)(void *context, uint32_t node, bool is_full);
    /* False: it is no message. */
    bool (*message)(void *context, uint32_t node, const uint8_t *body, size_t len);
    /* A node refused this one, whichever of the two dialled: its reason. */
    void (*refused)(void *context, uint32_t node, enum lq_link_verdict reason);
};

struct lq_links_options {
    uint32_t node; /* own id */
    uint64_t cluster;
    uint32_t retry_min_ms, retry_max_ms; /* of dialling, grows between them; jitter is added */
    uint64_t full_bytes;                 /* queued to a peer before it is called full */
    uint64_t queue_max_bytes;            /* beyond it the link is closed */
};

/* The defaults of everything but node and cluster. */
void lq_links_defaults(struct lq_links_options *options);

/* No link yet, and no port. Options and user are copied; the node's id must not be 0. Freed by
 * lq_links_close. */
struct lq_links *lq_links_new(uv_loop_t *loop, const struct lq_links_options *options,
                              const struct lq_links_user *user);

/* Listens for peers on HOST:PORT; false when that fails, which was logged. Port 0 takes a free one.
 * Logs "listening for peers" with the address. */
bool lq_links_listen(struct lq_links *links, const char *address);

/* From now on these are dialled (but this node itself); links with others stay as they are, but are
 * not made again. An address that changed breaks the link. */
void lq_links_set_members(struct lq_links *links, const struct lq_members *members);

/* Queues whole messages; dropped when there is no link. Nothing is written before
 * lq_links_flush. */
void lq_links_send(struct lq_links *links, uint32_t node, const uint8_t *bytes, size_t len);

/* Closes a link after what is queued was given to the kernel, as far as it takes it at once. */
void lq_links_unlink(struct lq_links *links, uint32_t node, const char *text);

/* The end of a turn: writes once to each link that has something queued. */
void lq_links_flush(struct lq_links *links);

/* Of one peer, for status. */
struct lq_link_status {
    bool is_up;
    bool is_full;
    uint64_t queued_bytes;
    uint64_t sent_bytes, received_bytes; /* over this link */
    uint64_t since_ms;                   /* lq_clock_ms when it came up, or went down */
    char text[128];                      /* why it is not up, in words; "" if it is */
};

/* Also of a node that is neither member nor linked: it is not up. */
struct lq_link_status lq_links_status(const struct lq_links *links, uint32_t node);

/* Closes everything; the loop has to run once more, and the memory is freed from there. No more
 * calls of the user. */
void lq_links_close(struct lq_links *links);

#endif
