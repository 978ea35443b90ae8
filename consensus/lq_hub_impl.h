/* Inside of hub and sessions: what lq_hub.c, lq_session.c and lq_requests.c share. Nobody else
 * includes this. */
#ifndef LQ_HUB_IMPL_H
#define LQ_HUB_IMPL_H

#include "lq_hub.h"
#include "lq_limits.h"

/* Where kept bytes and new ones are put together. */
#define LQ_SCRATCH_BYTES (2 * (LQ_READ_BYTES + LQ_FRAME_MAX))

/* Requests come in some sizes, by their key, so that one long key does not make all of them large.
 */
#define REQUEST_SIZES 5

enum lq_session_state {
    LQ_SESSION_OPEN,
    LQ_SESSION_ENDING,   /* no more input; open requests come to their end */
    LQ_SESSION_FINISHED, /* every answer is in `out` */
    LQ_SESSION_ABORTED,  /* nothing more is answered; the shell is to close the connection */
    LQ_SESSION_GONE,     /* the connection is gone; freed when nothing is left to take back */
};

struct lq_session {
    struct lq_hub *hub;
    void *link;
    uint64_t id;
    enum lq_session_state state;
    uint8_t error;     /* ENDING: the code of the E that comes last, or 0 for none */
    bool is_held_back; /* a release or renewal waits in `carry` for a free place */
    struct lq_list in_hub;
    struct lq_list in_touched;
    struct lq_list in_progress;   /* ENDING, GONE; or OPEN with input to be taken up again */
    struct lq_list requests;      /* open, in their order */
    struct lq_list cancelling;    /* open, and taken back already or not to be taken back */
    uint64_t n_open;              /* in both lists; cancels are not counted */
    struct lq_list in_stalled;    /* too much is unread since the latest turn */
    struct lq_heap_node by_stall; /* while too much is unread: when that is overdue */
    uint8_t *carry; /* bytes not decoded yet: the beginning of a frame, or held back */
    size_t carry_len;
    struct lq_outbuf out;
};

struct lq_hub {
    struct lq_hub_options options;
    struct lq_backend *backend;
    uint64_t now_ms; /* of the latest turn */
    uint64_t last_session_id;
    uint64_t n_sessions;
    uint64_t unread_total;
    bool is_over_total; /* as of the latest turn */
    struct lq_hub_counters counters;
    struct lq_list sessions; /* all, the gone ones too */
    struct lq_list touched;
    struct lq_list progress;
    struct lq_list fresh;   /* requests of the coming turn, in their order */
    struct lq_list orphans; /* releases of grants that nobody heard of: no session's */
    uint64_t n_fresh;
    uint64_t n_taken_in; /* frames since the latest turn */
    struct lq_map by_owner;
    struct lq_spans waits;
    struct lq_list stalled; /* sessions whose stall begins with the coming turn */
    struct lq_heap stalls;
    struct lq_pool requests[REQUEST_SIZES];
    struct lq_pool chunks;
    struct lq_pool carries; /* LQ_FRAME_MAX bytes each */
    uint8_t scratch[LQ_SCRATCH_BYTES];
};

/* ---- lq_requests.c: the life of requests between decoding and answer. */

/* The hash of an open acquire in `by_owner`. */
uint64_t lq_request_owner_hash(const struct lq_map_node *node, const void *hub);

/* Makes a request of a decoded frame (A, R, K or C) and queues it for the coming turn. */
void lq_requests_add(struct lq_hub *hub, struct lq_session *session, const struct lq_frame *frame);

/* Hands all queued requests to the backend, in their order, and takes its answers after each. */
void lq_requests_submit(struct lq_hub *hub);

/* Takes whatever answers the backend has. */
void lq_requests_take_answers(struct lq_hub *hub);

/* Cancels acquires whose wait is over, a slice of them. */
void lq_requests_time_out(struct lq_hub *hub);

/* Cancels the open acquires of a session that ends, at most `budget`; returns what is left of the
 * budget. */
uint64_t lq_requests_cancel_all(struct lq_session *session, uint64_t budget);

/* Releases, without telling anybody, the grant that an unsent A announced. */
void lq_requests_take_back(struct lq_hub *hub, const struct lq_frame *grant);

/* Frees a request, for lq_hub_free. */
void lq_request_free(struct lq_hub *hub, struct lq_request *request);

/* ---- lq_session.c */

/* Whether it can still be told an answer: not once the connection is gone or to be closed as it is,
 * or its last frame was made. */
static inline bool lq_session_is_heard(const struct lq_session *session)
{
    return session->state == LQ_SESSION_OPEN || session->state == LQ_SESSION_ENDING;
}

/* Appends an answer; does nothing when it is not heard. */
void lq_session_put(struct lq_session *session, const struct lq_frame *answer);

/* One of its requests has had its last answer. */
void lq_session_request_done(struct lq_session *session);

/* Goes on ending a session: a slice of at most `budget`; returns what is left of it. May free the
 * session. */
uint64_t lq_session_progress(struct lq_session *session, uint64_t budget);

/* Takes no more input; ends with E `error`, or without if 0. Does nothing when it is ending
 * already. */
void lq_session_end(struct lq_session *session, uint8_t error);

/* Has the connection closed without another answer; to be called once, while it is there. */
void lq_session_abort(struct lq_session *session);

/* The server stops: E 6 now, ahead of whatever its open requests would be answered. */
void lq_session_stop(struct lq_session *session);

/* Has lq_session_progress called in this turn or the next. */
void lq_session_schedule_progress(struct lq_session *session);

/* Puts it among those that lq_hub_take_touched gives. */
void lq_session_touch(struct lq_session *session);

/* Begins, or ends, watching over a client that does not read. */
void lq_session_watch(struct lq_session *session);

/* Frees it, whatever state it is in. */
void lq_session_free(struct lq_session *session);

#endif
