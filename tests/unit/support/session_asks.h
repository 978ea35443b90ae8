/* The requests of one client that have had no answer yet, read from the bytes that its session was
 * given, and which of them an answer is for. */
#ifndef LQ_SESSION_ASKS_H
#define LQ_SESSION_ASKS_H

#include "lq_frame.h"
#include "session_rig.h"

struct lq_ask {
    struct lq_frame frame; /* without its key */
    size_t key_at;         /* offset in the client's requests */
    uint64_t order;        /* of arrival, among all clients */
    uint64_t at_ms;        /* of arrival */
    uint8_t lease_s;  /* what it surely is granted: of twins that were open together, the least */
    bool has_twin;    /* same owner and key as another: which of them was answered can't be told */
    bool may_cancel;  /* a C named it: T may come at any time */
    bool must_cancel; /* and had no other to name: it must be answered in this turn */
};

struct lq_asks {
    const struct lq_rig_client *client;
    size_t n_read;        /* bytes of its requests */
    struct lq_ask *items; /* in the order of arrival */
    size_t n, cap;
    uint8_t fault; /* the code of its faulty frame, behind which nothing counts; or 0 */
};

void lq_asks_init(struct lq_asks *asks, const struct lq_rig_client *client);
void lq_asks_done(struct lq_asks *asks);

/* Reads what the session was given since the last time, as arrived at `now_ms`; `last_order` counts
 * up. */
void lq_asks_read(struct lq_asks *asks, uint64_t now_ms, uint64_t *last_order);

/* Removes the one that this answer may be for at `now_ms`; false when there is none. A T is for one
 * whose wait is over, or that may end before. Of R, K and N the oldest with that token and key is
 * given, whatever it asked for. */
bool lq_asks_take(struct lq_asks *asks, const struct lq_frame *answer, uint64_t now_ms,
                  struct lq_ask *ret_ask);

const uint8_t *lq_ask_key(const struct lq_asks *asks, const struct lq_ask *ask);

/* When its wait is over. */
uint64_t lq_ask_end_ms(const struct lq_ask *ask);

/* Whether it is answered in the turn that executes it. */
bool lq_ask_is_quick(const struct lq_ask *ask);

#endif
