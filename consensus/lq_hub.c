/* The order of a turn, and why:
 *   1. what is due in the backend (expiries hand locks on) comes before requests, so that none
 * meets an expired holder;
 *   2. requests in the order of their arrival;
 *   3. sessions that end take back what waits, after the frames that came before their end;
 *   4. waits that are over, last: a grant in the same instant wins;
 *   5. work that can be put off.
 * Every step has a bound; what is left over makes lq_hub_deadline ask for another turn at once. */
#include "lq_hub.h"

#include "lq_check.h"
#include "lq_hub_impl.h"
#include "lq_limits.h"
#include "lq_mem.h"
#include "lq_request.h"

/* Idle pieces kept: for the requests of a busy turn, and an answer each for some hundred
 * connections. */
#define KEEP_REQUESTS 8192
#define KEEP_CHUNKS   512
#define KEEP_CARRIES  512

/* Key bytes for which a request of each size has room. Doubling, so that at most twice the key is
 * taken. */
static const size_t request_key_len[REQUEST_SIZES] = {64, 128, 256, 512, LQ_KEY_MAX};

struct lq_hub *lq_hub_new(const struct lq_hub_options *options, struct lq_backend *backend)
{
    struct lq_hub *hub = lq_calloc(1, sizeof *hub);
    LQ_CHECK(options->requests_max >= 1);
    hub->options = *options;
    hub->backend = backend;
    lq_list_init(&hub->sessions);
    lq_list_init(&hub->touched);
    lq_list_init(&hub->progress);
    lq_list_init(&hub->fresh);
    lq_list_init(&hub->orphans);
    lq_list_init(&hub->stalled);
    lq_map_init(&hub->by_owner, lq_request_owner_hash, hub);
    lq_spans_init(&hub->waits);
    lq_heap_init(&hub->stalls);
    for (int i = 0; i < REQUEST_SIZES; i++) {
        lq_pool_init(&hub->requests[i], offsetof(struct lq_request, key) + request_key_len[i],
                     KEEP_REQUESTS >> i);
    }
    lq_outbuf_pool_init(&hub->chunks, KEEP_CHUNKS);
    lq_pool_init(&hub->carries, LQ_FRAME_MAX, KEEP_CARRIES);
    return hub;
}

static void free_requests(struct lq_hub *hub, struct lq_list *requests)
{
    struct lq_list *member;
    while ((member = lq_list_take(requests)) != NULL) {
        lq_request_free(hub, LQ_CONTAINER(member, struct lq_request, in_session));
    }
}

/* Cancels are in no other list; all others are found through those. */
static void free_fresh_cancels(struct lq_hub *hub)
{
    struct lq_list *member;
    while ((member = lq_list_take(&hub->fresh)) != NULL) {
        struct lq_request *request = LQ_CONTAINER(member, struct lq_request, in_fresh);
        if (lq_list_is_empty(&request->in_session)) {
            lq_request_free(hub, request);
        }
    }
}

static void free_sessions(struct lq_hub *hub)
{
    while (!lq_list_is_empty(&hub->sessions)) {
        struct lq_session *session = LQ_CONTAINER(hub->sessions.next, struct lq_session, in_hub);
        free_requests(hub, &session->requests);
        free_requests(hub, &session->cancelling);
        lq_session_free(session);
    }
}

void lq_hub_free(struct lq_hub *hub)
{
    if (hub == NULL) {
        return;
    }
    free_fresh_cancels(hub);
    free_requests(hub, &hub->orphans);
    free_sessions(hub);
    lq_map_done(&hub->by_owner);
    lq_spans_done(&hub->waits);
    lq_heap_done(&hub->stalls);
    for (int i = 0; i < REQUEST_SIZES; i++) {
        lq_pool_done(&hub->requests[i]);
    }
    lq_pool_done(&hub->chunks);
    lq_pool_done(&hub->carries);
    lq_free(hub);
}

static void progress_sessions(struct lq_hub *hub)
{
    uint64_t budget = LQ_TURN_ENDINGS;
    struct lq_list *member;
    while (budget > 0 && hub->n_fresh < LQ_TURN_ENDINGS &&
           (member = lq_list_take(&hub->progress)) != NULL) {
        budget = lq_session_progress(LQ_CONTAINER(member, struct lq_session, in_progress), budget);
    }
}

/* When the cap on all unread answers is crossed, every session is looked at: some are paused from
 * now, or no more. */
static void watch_total(struct lq_hub *hub)
{
    bool is_over = hub->unread_total >= hub->options.unread_total_max;
    if (is_over == hub->is_over_total) {
        return;
    }
    hub->is_over_total = is_over;
    for (struct lq_list *at = hub->sessions.next; at != &hub->sessions; at = at->next) {
        struct lq_session *session = LQ_CONTAINER(at, struct lq_session, in_hub);
        lq_session_watch(session);
        if (session->out.unread > 0) {
            lq_session_touch(session); /* its reading goes on, or stops */
        }
    }
}

static void watch_stalled(struct lq_hub *hub)
{
    struct lq_list *member;
    while ((member = lq_list_take(&hub->stalled)) != NULL) {
        lq_heap_insert(&hub->stalls, &LQ_CONTAINER(member, struct lq_session, in_stalled)->by_stall,
                       hub->now_ms + hub->options.unread_timeout_ms);
    }
}

static void abort_stalled(struct lq_hub *hub)
{
    for (int i = 0; i < LQ_TURN_ENDINGS && lq_heap_first_ms(&hub->stalls) <= hub->now_ms; i++) {
        lq_session_abort(LQ_CONTAINER(lq_heap_first(&hub->stalls), struct lq_session, by_stall));
    }
}

void lq_hub_turn(struct lq_hub *hub, uint64_t now_ms)
{
    LQ_CHECK(now_ms >= hub->now_ms);
    hub->now_ms = now_ms;
    hub->n_taken_in = 0;
    hub->backend->ops->begin(hub->backend, now_ms);
    lq_requests_take_answers(hub);
    lq_requests_submit(hub);
    progress_sessions(hub);
    lq_requests_time_out(hub);
    hub->backend->ops->end(hub->backend);
    lq_requests_take_answers(hub);
    watch_total(hub);
    watch_stalled(hub);
    abort_stalled(hub);
}

struct lq_session *lq_hub_take_touched(struct lq_hub *hub)
{
    struct lq_list *member = lq_list_take(&hub->touched);
    return member == NULL ? NULL : LQ_CONTAINER(member, struct lq_session, in_touched);
}

uint64_t lq_hub_taken_in(const struct lq_hub *hub)
{
    return hub->n_taken_in;
}

uint64_t lq_hub_deadline(const struct lq_hub *hub)
{
    uint64_t deadline = hub->backend->ops->deadline(hub->backend);
    if (hub->n_fresh > 0 || !lq_list_is_empty(&hub->progress) || !lq_list_is_empty(&hub->stalled)) {
        return 0;
    }
    deadline = lq_earlier(deadline, lq_spans_first_ms(&hub->waits));
    return lq_earlier(deadline, lq_heap_first_ms(&hub->stalls));
}

void lq_hub_stop(struct lq_hub *hub, uint64_t now_ms)
{
    lq_hub_turn(hub, now_ms);
    for (struct lq_list *at = hub->sessions.next; at != &hub->sessions; at = at->next) {
        lq_session_stop(LQ_CONTAINER(at, struct lq_session, in_hub));
    }
}

uint64_t lq_hub_n_sessions(const struct lq_hub *hub)
{
    return hub->n_sessions;
}

struct lq_hub_counters lq_hub_counters(const struct lq_hub *hub)
{
    return hub->counters;
}
