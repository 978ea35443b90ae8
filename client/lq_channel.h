/* One connection, seen from the client: frames in, frames out, what was sent and waits for its
 * answer, and how long the server has been silent. Pure; bounded.
 *
 * The output has two parts. The first is fixed: the rest of a frame that was begun, C and P. Behind
 * it stand the frames of queued requests, made anew for each write; the first byte that is written
 * of one fixes it, and its request counts as sent. */
#ifndef LQ_CHANNEL_H
#define LQ_CHANNEL_H

#include "lq_client_limits.h"
#include "lq_core.h"
#include "lq_frame.h"
#include "lq_heap.h"
#include "lq_list.h"

struct lq_request;

enum lq_channel_kind {
    LQ_CHANNEL_COMMON,  /* for R, K, P and wait 0 */
    LQ_CHANNEL_WAITING, /* for acquires that wait */
};
#define LQ_CHANNEL_N_KINDS 2

enum lq_channel_phase { LQ_CHANNEL_DIALLING, LQ_CHANNEL_OPEN, LQ_CHANNEL_CLOSED };

/* What was sent is found by its number (owner, token, nonce), in lists of which there are so many:
 * answers may come in any order. */
#define LQ_CHANNEL_BUCKETS 64

struct lq_channel {
    struct lq_list link;       /* in the core's list `open` or `closed` */
    struct lq_list ready;      /* in the core's list of that name */
    struct lq_list roomy;      /* in the core's list of that name */
    struct lq_heap_node timer; /* in the core's heap */
    enum lq_channel_kind kind;
    enum lq_channel_phase phase;
    size_t address;   /* SIZE_MAX: not one of the present ones */
    uint64_t attempt; /* in which it was dialled (lq_dial.h) */
    bool is_full;     /* the kernel takes no more */
    bool is_draining; /* takes no new requests; closed when those that it has are over */
    bool has_answered;
    bool is_reused; /* was idle, and has not answered since: it may have been dead for long */
    bool is_idle;   /* counted as such */
    bool ping_open; /* its answer has not come */
    void *io;       /* the driver's */

    uint64_t heard_ms;  /* when the last byte came, or watching began */
    uint64_t pinged_ms; /* when the open P was made */
    uint64_t ping_nonce;
    uint64_t due_ms; /* DIALLING: give up. Idle: close */

    struct lq_list queued; /* assigned to this channel, not one byte written */
    size_t n_queued;
    size_t n_sent;          /* requests in `sent` */
    size_t n_ghosts;        /* ghosts in `sent` */
    size_t n_sent_acquires; /* acquires in `sent`, ghosts included */
    struct lq_list sent[LQ_CHANNEL_BUCKETS];

    size_t in_len, in_used;
    size_t out_len, out_sent, out_fixed;
    uint8_t in[LQ_CHANNEL_IN_MAX];
    uint8_t out[LQ_CHANNEL_OUT_MAX];
};

/* A channel that is being dialled. Freed with lq_free. */
struct lq_channel *lq_channel_new(enum lq_channel_kind kind, size_t address);

/* ---- Requests. */

/* Puts a request at the end of the queue. */
void lq_channel_queue(struct lq_channel *channel, struct lq_request *request);

/* Takes a request, queued, sent or a ghost, away from its channel. */
void lq_channel_remove(struct lq_request *request);

/* Leaves a ghost in the place of a request that was sent, and takes that away. */
void lq_channel_haunt(struct lq_request *request);

/* Makes a request that was sent a ghost. */
void lq_channel_make_ghost(struct lq_request *request);

/* The request that an answer other than P of the channel's own and E belongs to, or NULL. */
struct lq_request *lq_channel_match(struct lq_channel *channel, const struct lq_frame *frame);

/* If one frame alone is unanswered, that of a request: that one; else NULL. */
struct lq_request *lq_channel_only(struct lq_channel *channel);

/* Whether it carries requests that somebody waits for. */
bool lq_channel_is_busy(const struct lq_channel *channel);

/* How many more acquires it may carry. */
size_t lq_channel_room(const struct lq_channel *channel);

/* ---- Bytes out. */

/* Appends a C or P to the fixed part; false when it does not fit. */
bool lq_channel_put(struct lq_channel *channel, const struct lq_frame *frame);

/* Makes the frames of queued requests and tells all bytes to write. Requests that are over are
 * taken away. */
const uint8_t *lq_channel_output(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms,
                                 size_t *ret_len);

/* `len` of those were handed to the kernel: requests count as sent. */
void lq_channel_wrote(struct lq_core *core, struct lq_channel *channel, size_t len);

/* Whether there is anything to write. */
bool lq_channel_has_output(const struct lq_channel *channel);

/* ---- Bytes in. */

/* Where to put received bytes, and how many fit: at least one while every frame that has come was
 * taken with lq_channel_next. */
uint8_t *lq_channel_space(struct lq_channel *channel, size_t *ret_cap);

/* `len` bytes were put there. */
void lq_channel_received(struct lq_channel *channel, size_t len, uint64_t now_ms);

/* The next answer. Its key points into the channel until the next call. */
enum lq_decoded lq_channel_next(struct lq_channel *channel, struct lq_frame *ret_frame);

/* ---- Silence. */

/* Makes a ping, or does nothing when one is open. */
void lq_channel_ping(struct lq_core *core, struct lq_channel *channel, uint64_t now_ms);

/* Takes an answer to it; false when nobody asked. */
bool lq_channel_pong(struct lq_channel *channel, uint64_t nonce);

/* When a silent server is to be pinged, or, with a ping open, given up; LQ_NEVER while nothing is
 * waited for. */
uint64_t lq_channel_silence_ms(const struct lq_channel *channel);

#endif
