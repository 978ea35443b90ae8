/* Which of two connections with the same peer is kept, how long to wait before dialling again, and
 * what may be logged: the decisions of the links, without clock, socket or random number. */
#ifndef LQ_CONTEST_H
#define LQ_CONTEST_H

#include <stdbool.h>
#include <stdint.h>

/* How long a newcomer waits for what it competes with to end. Longer than any round trip: a peer
 * that gave its own connection up for ours has closed it by then, and the end shows. */
#define LQ_CONTEST_HOLD_MS 1000

/* What comes over the standing link so long after the newcomer's hello shows that it lives: the
 * peer closed it before it dialled, so what is left of a dead one was read by then. */
#define LQ_CONTEST_ALIVE_MS 100

enum lq_contest {
    LQ_CONTEST_TAKE, /* the newcomer becomes the link, and what else there is is closed */
    LQ_CONTEST_WAIT, /* no answer yet: judge again later */
    LQ_CONTEST_DROP, /* what else there is is kept */
};

/* A newcomer: a connection that the peer dialled, its hello has come. */
struct lq_contest_state {
    uint32_t node, peer; /* ids: own, the peer's */
    uint64_t boot;       /* of the newcomer's hello */
    uint64_t waited_ms;  /* since that hello */
    bool is_linked;      /* a link with the peer stands */
    uint64_t link_boot;  /* of its hello */
    bool is_link_alive;  /* see LQ_CONTEST_ALIVE_MS */
    bool is_greeting;    /* own hello said on a connection that this node dialled, no answer yet */
};

/* When both dial at once, both hellos are under way: the connection that the lower id dialled is
 * kept; the higher one takes it and closes its own, the lower one leaves the other unanswered.
 *
 * A peer dials only while it has no link. So if one stands here, the peer has lost it and it ends
 * or is silent; or the peer is a new process, which its boot counter tells; or the newcomer is not
 * from the peer, but somebody repeats what it once said: then the link lives on, and is kept. */
enum lq_contest lq_contest_judge(const struct lq_contest_state *state);

/* Waiting between attempts grows from `min_ms` to `max_ms`: after `delay_ms`, 0 at the start. */
uint64_t lq_backoff_next(uint64_t delay_ms, uint64_t min_ms, uint64_t max_ms);

/* A part of `delay_ms`, from half of it to all, drawn by any number. */
uint64_t lq_backoff_draw(uint64_t delay_ms, uint64_t random);

/* ---- The same trouble is told once in a while. */

#define LQ_LIMITER_ITEMS 16
#define LQ_LIMITER_KEY   64

struct lq_limiter {
    struct {
        char key[LQ_LIMITER_KEY];
        uint64_t until_ms;
    } items[LQ_LIMITER_ITEMS];
};

/* Whether a line about `key` (cut to LQ_LIMITER_KEY - 1) may be logged at `now_ms`: none was in the
 * last `period_ms`, and not about as many other keys as there is room for. If so, it counts. */
bool lq_limiter_allows(struct lq_limiter *limiter, const char *key, uint64_t now_ms,
                       uint64_t period_ms);

#endif
