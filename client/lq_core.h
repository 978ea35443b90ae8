/* The client's pure core: one request at a time over one connection at a time. Bytes and the time
 * go in; bytes, the wish for a connection, the next deadline and an outcome come out. The rules are
 * the seven duties of docs/protocol.md ("What the official clients owe their callers").
 *
 * A request (its goal) is done in steps, each one frame and its answer:
 *
 *   goal ACQUIRE: step A; after a long wait step K confirms the lease; step R undoes a grant that
 *   must not be handed over. Goals RELEASE, RENEW, PING: one step R, K or P.
 *
 *              output, one byte written                 answer
 *   QUEUED ------------------------------> SENT ------------------------> DONE, or GRANTED (A)
 *     |  ^                                  |  |                             | lq_core_take: the
 * gate |  '--- connection lost (R, K, P) ----'  | deadline (A with a wait)    v | deadline:
 * certainly not sent           v                       in time: DONE, ACQUIRED
 *     '-----> DONE (TIMEOUT, CLOSED)      CANCELLING: C was sent        late: QUEUED, step R
 *                                              | T, B: DONE, definitive
 *                                              | A: QUEUED, step R, ends INDETERMINATE
 *                                              ' margin over, connection lost: DONE, INDETERMINATE
 *
 * The driver (lq_driver.c) obeys: it closes its socket whenever `conn` is LQ_CONN_NONE, connects
 * when lq_core_dial says so, reads before it writes, and reads before it calls lq_core_tick. */
#ifndef LQ_CORE_H
#define LQ_CORE_H

#include "loquet.h"
#include "lq_dial.h"
#include "lq_wire.h"

enum lq_goal { LQ_GOAL_NONE, LQ_GOAL_ACQUIRE, LQ_GOAL_RELEASE, LQ_GOAL_RENEW, LQ_GOAL_PING };

enum lq_phase {
    LQ_PHASE_IDLE,       /* no request */
    LQ_PHASE_QUEUED,     /* this step was certainly not sent on this connection */
    LQ_PHASE_SENT,       /* at least one byte of it may have left */
    LQ_PHASE_CANCELLING, /* step A: C went after it */
    LQ_PHASE_GRANTED,    /* A matched, not yet handed over */
    LQ_PHASE_DONE,       /* the outcome waits to be taken */
};

enum lq_conn { LQ_CONN_NONE, LQ_CONN_DIALLING, LQ_CONN_OPEN };

/* What last went wrong; the driver puts it into words. */
enum lq_why {
    LQ_WHY_NOTHING,
    LQ_WHY_DIAL,        /* could not connect */
    LQ_WHY_EOF,         /* the server closed the connection */
    LQ_WHY_BROKEN,      /* reading or writing failed */
    LQ_WHY_GARBAGE,     /* bytes that are no answer */
    LQ_WHY_UNASKED,     /* an answer that belongs to no request */
    LQ_WHY_ERROR_FRAME, /* E: `error_code` and `error_text` */
    LQ_WHY_SILENT,      /* no sign of life */
    LQ_WHY_SLOW,        /* no answer in time */
    LQ_WHY_LATE,        /* a grant came after its deadline and was given back */
    LQ_WHY_LEASE_OVER,  /* a grant's lease ended before it could be confirmed */
    LQ_WHY_NOT_SENT,    /* the deadline came before a connection */
};

/* What a caller wants. The key is copied. */
struct lq_order {
    enum lq_goal goal;
    const void *key; /* checked with lq_key_is_valid; PING has none */
    size_t key_len;
    uint64_t owner;       /* ACQUIRE: fresh for each */
    uint64_t token;       /* RELEASE, RENEW */
    uint32_t lease_s;     /* ACQUIRE, RENEW: 1 to 255 */
    uint32_t wait_ms;     /* ACQUIRE: 0 to 255,000 */
    uint64_t deadline_ms; /* others: give up then */
    uint64_t
        redial_until_ms; /* rounds of failing addresses are repeated until then; 0: one round */
};

struct lq_outcome {
    enum loquet_result result;
    uint64_t token, owner; /* of the request; ACQUIRED: the granted token */
    uint64_t sent_ms;      /* when the frame that began the lease was sent */
    uint64_t ends_ms;      /* ACQUIRED, RENEWED: conservative end of the lease; else 0 */
    bool repeated;         /* R, K: was sent more than once, so NOT_HELD may be its own doing */
    bool maybe_sent;       /* some byte of the request may have reached a server */
};

struct lq_core {
    enum lq_goal goal;
    enum lq_phase phase;
    enum lq_conn conn;
    enum lq_op step;
    enum lq_why why;
    struct lq_dial dial;
    bool conn_reused;     /* the connection was open when the request began */
    uint64_t deadline_ms; /* of the request */
    uint64_t redial_until_ms;
    uint64_t step_by_ms;   /* of this step, or of CANCELLING's margin */
    uint64_t answer_by_ms; /* step R, K, P: on this connection */
    uint64_t dial_by_ms;
    uint64_t rendered_ms; /* when the step's frame was made */
    uint64_t margin_ms;   /* length of CANCELLING */
    uint32_t wait_ms, lease_s;
    uint16_t key_len;
    uint8_t error_code;
    struct lq_outcome outcome;
    struct lq_wire wire;
    char error_text[128];
    uint8_t key[LQ_KEY_MAX];
};

/* An idle core without connection, for addresses 0 to n - 1. `random` is any number from the
 * system's generator. */
void lq_core_init(struct lq_core *core, size_t n_addresses, uint64_t random);

/* Begins a request; there must be none. */
void lq_core_begin(struct lq_core *core, const struct lq_order *order, uint64_t now_ms);

/* The caller gives up its acquire: ends soon, as if its deadline were now. Nothing otherwise. */
void lq_core_cancel(struct lq_core *core, uint64_t now_ms);

/* Forgets the request. A connection on which it may have been sent is dropped. */
void lq_core_abandon(struct lq_core *core, uint64_t now_ms);

/* True when a connection should be tried now: to `ret_address`. It then counts as being dialled. */
bool lq_core_dial(struct lq_core *core, uint64_t now_ms, size_t *ret_address);

/* The connection being dialled is open. */
void lq_core_connected(struct lq_core *core, uint64_t now_ms);

/* The connection, open or being dialled, is gone. */
void lq_core_lost(struct lq_core *core, uint64_t now_ms, enum lq_why why);

/* The bytes to write now. The wire wait of an acquire is computed here. */
const uint8_t *lq_core_output(struct lq_core *core, uint64_t now_ms, size_t *ret_len);

/* `len` (at least 1) of them went to the kernel. */
void lq_core_wrote(struct lq_core *core, size_t len);

/* Where to receive bytes; then say how many came. */
uint8_t *lq_core_space(struct lq_core *core, size_t *ret_cap);
void lq_core_received(struct lq_core *core, size_t len, uint64_t now_ms);

/* Time went on. */
void lq_core_tick(struct lq_core *core, uint64_t now_ms);

/* When lq_core_tick or lq_core_dial should be called next, or LQ_NEVER. */
uint64_t lq_core_due_ms(const struct lq_core *core);

/* The gate: true when the request is over, with its outcome; the core is idle then. A grant that
 * comes here after its deadline or its lease is not handed over: false, and a release follows. */
bool lq_core_take(struct lq_core *core, uint64_t now_ms, struct lq_outcome *ret_outcome);

#endif
