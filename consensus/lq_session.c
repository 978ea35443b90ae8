#include "lq_session.h"

#include "lq_check.h"
#include "lq_hub_impl.h"
#include "lq_limits.h"
#include "lq_mem.h"

#include <string.h>

struct lq_session *lq_session_new(struct lq_hub *hub, void *link)
{
    struct lq_session *session = lq_calloc(1, sizeof *session);
    session->hub = hub;
    session->link = link;
    session->id = ++hub->last_session_id;
    session->by_stall.place = LQ_HEAP_OUT;
    lq_list_init(&session->in_touched);
    lq_list_init(&session->in_progress);
    lq_list_init(&session->in_stalled);
    lq_list_init(&session->requests);
    lq_list_init(&session->cancelling);
    lq_list_append(&hub->sessions, &session->in_hub);
    hub->n_sessions++;
    return session;
}

void *lq_session_link(const struct lq_session *session)
{
    return session->link;
}

void lq_session_touch(struct lq_session *session)
{
    if (lq_list_is_empty(&session->in_touched) && session->state != LQ_SESSION_GONE) {
        lq_list_append(&session->hub->touched, &session->in_touched);
    }
}

void lq_session_schedule_progress(struct lq_session *session)
{
    if (lq_list_is_empty(&session->in_progress)) {
        lq_list_append(&session->hub->progress, &session->in_progress);
    }
}

/* ---- Output. */

/* Whether nothing but its unread answers keeps this session from going on. */
static bool is_stalled(const struct lq_session *session)
{
    const struct lq_hub *hub = session->hub;
    bool is_too_much = session->out.unread >= hub->options.unread_max;
    bool is_last = session->state == LQ_SESSION_FINISHED;
    if (session->state == LQ_SESSION_ABORTED || session->state == LQ_SESSION_GONE) {
        return false;
    }
    return is_too_much || ((is_last || hub->is_over_total) && session->out.unread > 0);
}

static void unwatch_stall(struct lq_session *session)
{
    lq_list_remove(&session->in_stalled);
    if (lq_heap_holds(&session->by_stall)) {
        lq_heap_remove(&session->hub->stalls, &session->by_stall);
    }
}

/* Watches over a client that does not read: the time runs while it is stalled. Events carry no
 * time, so it runs from the coming turn. */
void lq_session_watch(struct lq_session *session)
{
    if (!is_stalled(session)) {
        unwatch_stall(session);
    } else if (!lq_heap_holds(&session->by_stall) && lq_list_is_empty(&session->in_stalled)) {
        lq_list_append(&session->hub->stalled, &session->in_stalled);
    }
}

static void count_answer(struct lq_hub *hub, const struct lq_frame *answer)
{
    hub->counters.granted += answer->op == LQ_OP_ACQUIRE;
    hub->counters.timeouts += answer->op == LQ_OP_TIMEOUT;
    hub->counters.busy += answer->op == LQ_OP_BUSY;
}

void lq_session_put(struct lq_session *session, const struct lq_frame *answer)
{
    struct lq_hub *hub = session->hub;
    if (!lq_session_is_heard(session)) {
        return;
    }
    hub->unread_total += lq_outbuf_put(&session->out, &hub->chunks, answer);
    count_answer(hub, answer);
    lq_session_watch(session);
    lq_session_touch(session);
}

size_t lq_session_views(const struct lq_session *session, struct lq_view *ret_views, size_t n)
{
    return lq_outbuf_views(&session->out, ret_views, n);
}

void lq_session_wrote(struct lq_session *session, size_t len)
{
    struct lq_hub *hub = session->hub;
    lq_outbuf_wrote(&session->out, &hub->chunks, len);
    hub->unread_total -= len;
    if (len > 0 && session->out.unread < hub->options.unread_max) {
        unwatch_stall(session); /* it does read: from the beginning */
    }
    lq_session_watch(session);
}

enum lq_session_wish lq_session_wish(const struct lq_session *session)
{
    if (session->state == LQ_SESSION_ABORTED) {
        return LQ_WISH_ABORT;
    }
    return session->state == LQ_SESSION_FINISHED ? LQ_WISH_CLOSE : LQ_WISH_SERVE;
}

/* ---- Input. */

bool lq_session_wants_input(const struct lq_session *session)
{
    const struct lq_hub *hub = session->hub;
    if (session->state != LQ_SESSION_OPEN || session->is_held_back ||
        session->out.unread >= hub->options.unread_max) {
        return false;
    }
    return session->out.unread == 0 || !hub->is_over_total;
}

/* Takes one frame, or returns false when it must wait for a free place. */
static bool take_frame(struct lq_session *session, const struct lq_frame *frame)
{
    struct lq_hub *hub = session->hub;
    bool is_full = session->n_open >= hub->options.requests_max;
    if (frame->op == LQ_OP_PING) {
        lq_session_put(session, &(struct lq_frame){.op = LQ_OP_PING, .owner = frame->owner});
    } else if (frame->op == LQ_OP_CANCEL || !is_full) {
        lq_requests_add(hub, session, frame);
    } else if (frame->op == LQ_OP_ACQUIRE) {
        lq_session_put(session, &(struct lq_frame){.op = LQ_OP_BUSY,
                                                   .owner = frame->owner,
                                                   .key = frame->key,
                                                   .key_len = frame->key_len});
    } else {
        return false;
    }
    hub->counters.requests++;
    hub->n_taken_in++;
    return true;
}

/* Decodes and takes whole frames; returns how many bytes they were. What comes after a bad frame is
 * never looked at. */
static size_t take_frames(struct lq_session *session, const uint8_t *bytes, size_t len)
{
    size_t at = 0, used = 0;
    struct lq_frame frame;
    while (at < len) {
        switch (lq_request_decode(bytes + at, len - at, &frame, &used)) {
        case LQ_DECODED_MORE:
            return at;
        case LQ_DECODED_BAD:
            session->hub->counters.errors++;
            lq_session_end(session, frame.code);
            return len;
        case LQ_DECODED_FRAME:
            if (!take_frame(session, &frame)) {
                session->is_held_back = true;
                return at;
            }
            at += used;
            break;
        }
    }
    return at;
}

/* The usual rest is the beginning of a frame; a longer one was held back, which is rare. */
static void keep(struct lq_session *session, const uint8_t *bytes, size_t len)
{
    LQ_CHECK(session->carry == NULL);
    if (len == 0) {
        return;
    }
    session->carry = len <= LQ_FRAME_MAX ? lq_pool_get(&session->hub->carries) : lq_malloc(len);
    memcpy(session->carry, bytes, len);
    session->carry_len = len;
}

static void forget_carry(struct lq_session *session)
{
    if (session->carry == NULL) {
        return;
    }
    if (session->carry_len <= LQ_FRAME_MAX) {
        lq_pool_put(&session->hub->carries, session->carry);
    } else {
        lq_free(session->carry);
    }
    session->carry = NULL;
    session->carry_len = 0;
}

/* Puts the kept bytes and these together in the hub's scratch space; returns the sum of their
 * lengths. */
static size_t join_carry(struct lq_session *session, const uint8_t *bytes, size_t len)
{
    uint8_t *scratch = session->hub->scratch;
    size_t kept = session->carry_len;
    LQ_CHECK(kept <= LQ_SCRATCH_BYTES && len <= LQ_SCRATCH_BYTES - kept);
    memcpy(scratch, session->carry, kept);
    if (len > 0) {
        memcpy(scratch + kept, bytes, len);
    }
    forget_carry(session);
    return kept + len;
}

void lq_session_input(struct lq_session *session, const uint8_t *bytes, size_t len)
{
    size_t used;
    LQ_CHECK(len <= LQ_READ_BYTES);
    if (session->state != LQ_SESSION_OPEN || session->is_held_back) {
        LQ_CHECK(!session->is_held_back || session->state != LQ_SESSION_OPEN);
        return;
    }
    if (session->carry != NULL) {
        len = join_carry(session, bytes, len);
        bytes = session->hub->scratch;
    }
    used = take_frames(session, bytes, len);
    keep(session, bytes + used, len - used);
}

/* Takes up again what was held back, once a place is free. An end of input may have come meanwhile.
 */
static void resume(struct lq_session *session)
{
    size_t len, used;
    if (!session->is_held_back || session->n_open >= session->hub->options.requests_max) {
        return;
    }
    session->is_held_back = false;
    len = join_carry(session, NULL, 0);
    used = take_frames(session, session->hub->scratch, len);
    keep(session, session->hub->scratch + used, len - used);
    lq_session_touch(session);
}

void lq_session_eof(struct lq_session *session)
{
    LQ_CHECK(!session->is_held_back);
    lq_session_end(session, 0);
}

/* ---- Ending. */

static void finish(struct lq_session *session)
{
    const char *text = lq_wire_error_text(session->error);
    if (session->error != 0) {
        lq_session_put(session, &(struct lq_frame){.op = LQ_OP_ERROR,
                                                   .code = session->error,
                                                   .key = (const uint8_t *)text,
                                                   .key_len = (uint16_t)strlen(text)});
    }
    session->state = LQ_SESSION_FINISHED;
    lq_session_watch(session);
    forget_carry(session);
    lq_session_touch(session);
}

void lq_session_end(struct lq_session *session, uint8_t error)
{
    if (session->state != LQ_SESSION_OPEN) {
        return;
    }
    session->state = LQ_SESSION_ENDING;
    session->error = error;
    lq_session_schedule_progress(session);
}

void lq_session_abort(struct lq_session *session)
{
    LQ_CHECK(session->state != LQ_SESSION_ABORTED && session->state != LQ_SESSION_GONE);
    session->state = LQ_SESSION_ABORTED;
    lq_session_watch(session);
    lq_session_touch(session);
}

/* The bytes stay in the hub's account until they are dropped: memory that a dead client left behind
 * counts. */
static void forget_begun(struct lq_session *session)
{
    size_t before = session->out.unread;
    lq_outbuf_forget_begun(&session->out);
    session->hub->unread_total -= before - session->out.unread;
}

void lq_session_stop(struct lq_session *session)
{
    if (session->state == LQ_SESSION_OPEN || session->state == LQ_SESSION_ENDING) {
        session->error = LQ_WIRE_SHUTTING_DOWN;
        finish(session);
    }
}

void lq_session_closed(struct lq_session *session)
{
    LQ_CHECK(session->state != LQ_SESSION_GONE);
    session->state = LQ_SESSION_GONE;
    session->link = NULL;
    session->hub->n_sessions--;
    lq_list_remove(&session->in_touched);
    lq_session_watch(session);
    forget_begun(session);
    forget_carry(session);
    lq_session_schedule_progress(session);
}

void lq_session_request_done(struct lq_session *session)
{
    LQ_CHECK(session->n_open > 0);
    session->n_open--;
    if (session->state != LQ_SESSION_OPEN || session->is_held_back) {
        lq_session_schedule_progress(session);
    }
}

/* Releases what was granted to a connection that is gone and can't have heard of it. */
static uint64_t take_back_unsent(struct lq_session *session, uint64_t budget)
{
    struct lq_hub *hub = session->hub;
    size_t before = session->out.unread;
    struct lq_frame answer;
    while (lq_outbuf_take_grant(&session->out, &hub->chunks, &budget, &answer)) {
        lq_requests_take_back(hub, &answer);
    }
    hub->unread_total -= before - session->out.unread;
    return budget;
}

static void go_on_ending(struct lq_session *session)
{
    if (session->n_open == 0) {
        finish(session);
    } else if (!lq_list_is_empty(&session->requests)) {
        lq_session_schedule_progress(
            session); /* the budget was too small; else the last answer calls again */
    }
}

static void go_on_leaving(struct lq_session *session)
{
    if (session->n_open == 0 && session->out.unread == 0) {
        lq_session_free(session);
    } else if (!lq_list_is_empty(&session->requests) || session->out.unread > 0) {
        lq_session_schedule_progress(session);
    }
}

uint64_t lq_session_progress(struct lq_session *session, uint64_t budget)
{
    budget--;
    switch (session->state) {
    case LQ_SESSION_OPEN:
        resume(session);
        break;
    case LQ_SESSION_ENDING:
        budget = lq_requests_cancel_all(session, budget);
        go_on_ending(session);
        break;
    case LQ_SESSION_GONE:
        budget = take_back_unsent(session, lq_requests_cancel_all(session, budget));
        go_on_leaving(session);
        break;
    case LQ_SESSION_FINISHED:
    case LQ_SESSION_ABORTED: /* lq_session_closed follows */
        break;
    }
    return budget;
}

void lq_session_free(struct lq_session *session)
{
    session->hub->unread_total -= session->out.unread;
    lq_list_remove(&session->in_hub);
    lq_list_remove(&session->in_touched);
    lq_list_remove(&session->in_progress);
    unwatch_stall(session);
    lq_outbuf_done(&session->out, &session->hub->chunks);
    forget_carry(session);
    lq_free(session);
}
