/* One connection of a simulated client, from its first to its last byte: encodes requests, decodes
 * answers, finds the request that each belongs to, tells the checks. Its user hears of answers and
 * of the end.
 *
 * A link lives until its end was told (by the node, or by a reset), or until it is closed, vanishes
 * or is freed by its user. */
#ifndef SIM_CLIENT_LINK_H
#define SIM_CLIENT_LINK_H

#include "lq_buffer.h"
#include "lq_list.h"
#include "sim_checks.h"

/* A request that awaits its answer. */
struct sim_pending {
    uint64_t id; /* the checks' */
    uint8_t op, wait_s, lease_s;
    bool is_cancelled;
    uint32_t key;
    uint64_t owner, token;
    uint64_t acquire; /* R, K: id of the acquire whose grant it is about; 0: of none */
    uint64_t sent_us;
};

struct sim_link;

struct sim_link_user {
    /* `token`: that of an A. */
    void (*on_answer)(struct sim_link *link, const struct sim_pending *request, uint8_t op,
                      uint64_t token);
    /* The connection is over, and the link is gone when this returns. */
    void (*on_over)(struct sim_link *link);
};

struct sim_link {
    struct lq_list in_list; /* the user's */
    struct sim *sim;
    struct sim_checks *checks;
    const struct sim_link_user *user;
    void *owner; /* the user's */
    struct sim_conn *conn;
    uint32_t node;
    unsigned number; /* of the client, for the timeline */
    uint64_t since_us;
    bool is_ending; /* its client sent the eof, or bytes that make the node end it */
    bool is_slow;   /* its client does not read all the time */
    struct lq_buffer in, out;
    struct sim_pending *pending; /* in the order sent */
    size_t n_pending, cap_pending;
};

/* Connects; NULL: refused. */
struct sim_link *sim_link_open(struct sim *sim, struct sim_checks *checks, uint32_t node,
                               const struct sim_link_user *user, void *owner, unsigned number);

/* Gathers a request: op, wait_s, lease_s, key, owner, token and acquire are the caller's. Returns
 * its id. Nothing is gathered on a link that is ending. */
uint64_t sim_link_request(struct sim_link *link, const struct sim_pending *request);

/* Gathers the cancel of a pending acquire. */
void sim_link_cancel(struct sim_link *link, struct sim_pending *request);

/* Gathers bytes that are no frame. */
void sim_link_garbage(struct sim_link *link);

/* Sends what was gathered. */
void sim_link_flush(struct sim_link *link);

/* The client says that it will send no more. */
void sim_link_half_close(struct sim_link *link);

/* The client reads `bytes` more, or UINT64_MAX: always. */
void sim_link_window(struct sim_link *link, uint64_t bytes);

/* The client closes hard, or its host vanishes; the link is freed. */
void sim_link_close(struct sim_link *link);
void sim_link_vanish(struct sim_link *link);

#endif
