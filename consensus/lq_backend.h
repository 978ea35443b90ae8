/* What stands between sessions and lock table: one implementation applies at once (lq_local.h,
 * simple mode), another goes through the replicated log (cluster mode). The hub calls, in each
 * turn: begin, then submit and cancel as needed, then end; after each call it takes the answers
 * that are there. */
#ifndef LQ_BACKEND_H
#define LQ_BACKEND_H

#include "lq_request.h"

#include <stdbool.h>
#include <stdint.h>

enum lq_answer_kind {
    LQ_ANSWER_OPEN,    /* not the last word: the request waits, and may be cancelled from now on */
    LQ_ANSWER_GRANTED, /* acquire: `token` */
    LQ_ANSWER_TIMEOUT, /* acquire with wait 0: definitely not granted */
    LQ_ANSWER_BUSY,    /* acquire: definitely not granted, no room */
    LQ_ANSWER_CANCELLED, /* acquire: definitely not granted, and never will be */
    LQ_ANSWER_RELEASED,
    LQ_ANSWER_RENEWED,
    LQ_ANSWER_NOT_HELD,
    LQ_ANSWER_OVERDUE, /* not the last word: the outcome did not become known in time */
    LQ_ANSWER_LOST,    /* the outcome will never be known: it may have happened or not */
};

/* One answer. Every kind but OPEN and OVERDUE is the last one for its request, and the backend has
 * let go of it. OVERDUE and LOST are told to nobody, since no answer is ever invented: the
 * connection is closed instead. What is granted after an OVERDUE is released. */
struct lq_answer {
    struct lq_request *request;
    enum lq_answer_kind kind;
    uint64_t token;
};

struct lq_backend;

struct lq_backend_ops {
    /* The turn begins at `now_ms` (never less than before): what is due happens, ahead of the
     * turn's requests. */
    void (*begin)(struct lq_backend *backend, uint64_t now_ms);

    /* Takes an acquire, release or renewal; it belongs to the backend until its last answer was
     * taken. */
    void (*submit)(struct lq_backend *backend, struct lq_request *request);

    /* Takes an open acquire back. CANCELLED follows, or GRANTED if that came first. */
    void (*cancel)(struct lq_backend *backend, struct lq_request *request);

    /* The turn's requests are complete: work that can be put off is done now, a slice of it. */
    void (*end)(struct lq_backend *backend);

    /* Fills the next answer, or returns false. */
    bool (*take)(struct lq_backend *backend, struct lq_answer *ret_answer);

    /* When the next turn is due without any input: a time in ms, 0 for at once, or LQ_NEVER. */
    uint64_t (*deadline)(const struct lq_backend *backend);
};

/* The first field of every backend. */
struct lq_backend {
    const struct lq_backend_ops *ops;
};

#endif
