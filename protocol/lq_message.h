/* What nodes tell each other. A link carries one HELLO in each direction, or a REFUSAL in place of
 * the second, then messages; each is a length and a body, that of a message with the same header
 * for all kinds. Numbers are big-endian. */
/* clang-format off */
/*   frame     len u32 of what follows, at most LQ_MESSAGE_MAX | body
 *   hello     magic "LQND" | version u8 = 1 | flags u8 (0, 1: blank, 2: fresh) | reserved u16 = 0 | cluster u64
 *             | from u32 | to u32 | boot u64
 *   refusal   magic "LQNR" | version u8 = 1 | reason u8 (enum lq_refusal_reason) | reserved u16 = 0 | cluster u64
 *   message   kind u8 | reserved u8[3] = 0 | time_ms u64 | ping_ms u64 | echo_ms u64 | by kind:
 *     VOTE           term u64, last_index u64, last_term u64, flags u8 (1: pre-vote, 2: disrupts)
 *     VOTE_RESULT    term u64, flags u8 (1: pre-vote, 2: granted)
 *     APPEND         term u64, prev_index u64, prev_term u64, commit u64, entries u32,
 *                    then each: term u64, check u64, type u8, len u32, bytes
 *     APPEND_RESULT  term u64, rejected u64, last_index u64
 *     TIMEOUT_NOW    term u64, last_index u64, last_term u64
 *     OPEN           incarnation u64
 *     CLOSE          incarnation u64
 *     SUBMIT         term u64, then the bytes of one segment (lq_entry.h)
 *     RESEND         term u64, incarnation u64, next_seq u64
 *     OUTCOMES       term u64, incarnation u64, through u64, outcomes u32,
 *                    then each: kind u8, lease u8, seq u64, token u64, stamp_ms u64
 *     PING           nothing
 *     REMOVED        index u64
 *     DIGEST         index u64, digest u64
 *     CHUNK          term u64, index u64, index_term u64, total u64, check u64, offset u64, bytes
 *     CHUNK_RESULT   term u64, index u64, check u64, next u64, flags u8 (1: refused)
 */
/* clang-format on */
/* The handshake. Who dialled says HELLO and waits. The other side answers
 *
 *   with its own HELLO   the link stands: messages follow in both directions, from the dialler once
 *                        it has read this
 *   with a REFUSAL       it closes; the dialler comes again much later, but for ANOTHER, which
 * means that a connection with this same node is kept and this one was one too many with nothing it
 * has not decided yet; 5 s of this, or any byte of the dialler meanwhile, and the connection is
 * closed
 *
 * A dialler that does not accept the HELLO of the answer says so with a REFUSAL as the first and
 * only frame behind its own HELLO. Nowhere else may a REFUSAL stand. */
/* `time_ms` is the sender's table time; `ping_ms` the sender's own clock, to be echoed; `echo_ms`
 * the latest ping_ms that the sender has from the receiver, 0 if none. They prove how fresh a
 * message is (docs/architecture.md). */
#ifndef LQ_MESSAGE_H
#define LQ_MESSAGE_H

#include "lq_buffer.h"
#include "lq_cursor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Largest body: a batch of entries or a chunk of a snapshot, with room to spare. */
#define LQ_MESSAGE_MAX (UINT32_C(4) << 20)

#define LQ_MESSAGE_LEN_BYTES 4
#define LQ_HELLO_BYTES       (LQ_MESSAGE_LEN_BYTES + 32)
#define LQ_REFUSAL_BYTES     (LQ_MESSAGE_LEN_BYTES + 16)

/* Longest body at the head of a link; what claims more is neither HELLO nor REFUSAL. */
#define LQ_GREETING_MAX 64

/* The sender of a hello: which life of which node it is, and whom it means to talk to. */
struct lq_hello {
    bool is_blank; /* it was never part of a cluster */
    bool is_fresh; /* it is part of one in which nothing happened yet */
    uint64_t cluster;
    uint32_t from, to;
    uint64_t boot; /* the sender's boot counter */
};

/* Why a node is refused; the numbers stand on the wire. */
enum lq_refusal_reason {
    LQ_REFUSAL_WRONG_CLUSTER = 1,
    LQ_REFUSAL_WRONG_NODE = 2,
    LQ_REFUSAL_NOT_MEMBER = 3,
    LQ_REFUSAL_LOST_DISK = 4,
    LQ_REFUSAL_OLD_DISK = 5,
    LQ_REFUSAL_OLD_LIFE = 6,
    LQ_REFUSAL_ANOTHER = 7, /* another connection with the same node is kept */
};

#define LQ_REFUSAL_LAST LQ_REFUSAL_ANOTHER

/* The sender of a refusal: why, and of which cluster it is. */
struct lq_refusal {
    uint8_t reason; /* enum lq_refusal_reason */
    uint64_t cluster;
};

enum lq_message_kind {
    LQ_MESSAGE_VOTE = 1,
    LQ_MESSAGE_VOTE_RESULT = 2,
    LQ_MESSAGE_APPEND = 3,
    LQ_MESSAGE_APPEND_RESULT = 4,
    LQ_MESSAGE_TIMEOUT_NOW = 5,
    LQ_MESSAGE_OPEN = 6,      /* to the leader: open this incarnation of the sender */
    LQ_MESSAGE_CLOSE = 7,     /* to the leader: close it, the sender stops */
    LQ_MESSAGE_SUBMIT = 8,    /* to the leader of that term: commands of the sender */
    LQ_MESSAGE_RESEND = 9,    /* from the leader: it expects next_seq */
    LQ_MESSAGE_OUTCOMES = 10, /* from the leader: what the receiver's commands led to */
    LQ_MESSAGE_PING = 11,
    LQ_MESSAGE_REMOVED = 12,      /* the receiver is no member as of that index */
    LQ_MESSAGE_DIGEST = 13,       /* of the state at that index */
    LQ_MESSAGE_CHUNK = 14,        /* a piece of the snapshot at (index, index_term) */
    LQ_MESSAGE_CHUNK_RESULT = 15, /* the piece wanted next; all were received when it is `total` */
};

/* An entry inside APPEND. */
struct lq_message_entry {
    uint64_t term;
    uint64_t check; /* lq_journal_entry_check */
    uint8_t type;
    uint32_t len;
    const uint8_t *bytes;
};

/* An outcome inside OUTCOMES; the numbers of `kind` are those of enum lq_outcome_kind. */
struct lq_message_outcome {
    uint8_t kind;
    uint8_t lease_s;
    uint64_t seq;
    uint64_t token;
    uint64_t stamp_ms;
};

/* One message. Fields that its kind does not have are 0. Pointers are not owned: they lead into the
 * decoded bytes, or are the caller's. */
struct lq_message {
    uint8_t kind; /* enum lq_message_kind */
    bool is_pre_vote;
    bool is_disrupting;
    bool is_granted;
    bool is_refused;
    uint64_t time_ms, ping_ms, echo_ms;
    uint64_t term;
    uint64_t last_index, last_term; /* VOTE, TIMEOUT_NOW; APPEND_RESULT: last_index */
    uint64_t prev_index, prev_term; /* APPEND */
    uint64_t commit;                /* APPEND */
    uint64_t rejected;              /* APPEND_RESULT */
    uint64_t incarnation;           /* OPEN, CLOSE, RESEND, OUTCOMES */
    uint64_t next_seq;              /* RESEND */
    uint64_t through;               /* OUTCOMES: all commands up to this number were applied */
    uint64_t index;                 /* REMOVED, DIGEST, CHUNK, CHUNK_RESULT */
    uint64_t index_term;            /* CHUNK */
    uint64_t digest;                /* DIGEST */
    uint64_t total, check;          /* CHUNK, CHUNK_RESULT (check): size and checksum of it all */
    uint64_t offset;                /* CHUNK; CHUNK_RESULT: the piece wanted next */
    uint32_t count;                 /* APPEND: entries; OUTCOMES: outcomes */
    const uint8_t *bytes;           /* SUBMIT: a segment; CHUNK: the piece */
    size_t len;
    struct lq_reader items; /* APPEND, OUTCOMES, decoded: read with lq_message_next_* */
};

/* ---- Writing: each appends one whole frame, length included. The bytes that it copies must not be
 * inside `out`. */

/* None of from, to and boot may be 0. */
void lq_hello_put(struct lq_buffer *out, const struct lq_hello *hello);

/* `reason` is one of enum lq_refusal_reason. */
void lq_refusal_put(struct lq_buffer *out, const struct lq_refusal *refusal);

/* For APPEND and OUTCOMES: `entries` or `outcomes` has message->count items; NULL for all other
 * kinds. The body must not become larger than LQ_MESSAGE_MAX. */
void lq_message_put(struct lq_buffer *out, const struct lq_message *message,
                    const struct lq_message_entry *entries,
                    const struct lq_message_outcome *outcomes);

/* What an entry takes inside APPEND, in bytes. */
size_t lq_message_entry_bytes(size_t len);

/* ---- Reading: all of it for bytes that nobody has checked. */

enum lq_framed {
    LQ_FRAMED_ONE,  /* a whole frame: its body is `ret_body` */
    LQ_FRAMED_MORE, /* more bytes are needed */
    LQ_FRAMED_BAD,  /* longer than `max`, or empty: close the link */
};

/* Finds the body of the first frame in `bytes`; ONE: sets `ret_used` to the bytes of the frame. */
enum lq_framed lq_message_unframe(const uint8_t *bytes, size_t len, size_t max,
                                  const uint8_t **ret_body, size_t *ret_body_len, size_t *ret_used);

/* Decodes the body of a hello; false when it is none, or of another version. Here and below the
 * outputs stay untouched unless the function succeeds. */
bool lq_hello_decode(const uint8_t *body, size_t len, struct lq_hello *ret_hello);

/* Decodes the body of a refusal; false when it is none, of another version, or for a reason that is
 * not known. */
bool lq_refusal_decode(const uint8_t *body, size_t len, struct lq_refusal *ret_refusal);

/* Decodes the body of a message, down to the last item: when it returns true, reading the items
 * does not fail. What the bytes of entries, segments and chunks mean is not looked at. A body
 * longer than LQ_MESSAGE_MAX is none. */
bool lq_message_decode(const uint8_t *body, size_t len, struct lq_message *ret_message);

/* Reads the next item of a decoded APPEND or OUTCOMES; false when there is none left. */
bool lq_message_next_entry(struct lq_message *message, struct lq_message_entry *ret_entry);
bool lq_message_next_outcome(struct lq_message *message, struct lq_message_outcome *ret_outcome);

#endif
