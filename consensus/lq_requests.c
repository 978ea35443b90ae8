/* The life of a request: made of a frame, queued for the turn (fresh), handed to the backend,
 * perhaps open for a while (an acquire that waits), answered once, freed. Every request but a
 * cancel counts against its connection's cap until then. The three ways out of waiting (grant,
 * timeout, cancel) meet in the backend, which answers once. */
#include "lq_check.h"
#include "lq_hub_impl.h"
#include "lq_limits.h"
#include "lq_mem.h"
#include "lq_request.h"
#include "lq_table.h"

#include <sodium/crypto_shorthash.h>
#include <string.h>

/* ---- Memory. */

static struct lq_pool *pool_for(struct lq_hub *hub, size_t key_len)
{
    for (int i = 0; i < REQUEST_SIZES - 1; i++) {
        if (offsetof(struct lq_request, key) + key_len <= hub->requests[i].size) {
            return &hub->requests[i];
        }
    }
    return &hub->requests[REQUEST_SIZES - 1];
}

static struct lq_request *new_request(struct lq_hub *hub, const struct lq_frame *frame)
{
    struct lq_request *request = lq_pool_get(pool_for(hub, frame->key_len));
    *request = (struct lq_request){.op = frame->op,
                                   .wait_s = frame->wait_s,
                                   .lease_s = frame->lease_s,
                                   .key_len = frame->key_len,
                                   .owner = frame->owner,
                                   .token = frame->token};
    lq_span_init(&request->wait);
    lq_list_init(&request->in_session);
    lq_list_init(&request->in_fresh);
    lq_list_init(&request->same_owner);
    lq_list_init(&request->in_held);
    memcpy(request->key, frame->key, frame->key_len);
    return request;
}

void lq_request_free(struct lq_hub *hub, struct lq_request *request)
{
    lq_pool_put(pool_for(hub, request->key_len), request);
}

/* ---- Open acquires by owner, for C. Equal ones (same connection, owner and key) stand behind the
 * first of them, so that a client that sends many does not lengthen the chains of the map. */

static uint64_t owner_hash(const struct lq_hub *hub, const struct lq_request *request)
{
    uint8_t bytes[2 * sizeof(uint64_t) + LQ_KEY_MAX];
    uint64_t hash;
    memcpy(bytes, &request->session->id, sizeof(uint64_t));
    memcpy(bytes + sizeof(uint64_t), &request->owner, sizeof(uint64_t));
    memcpy(bytes + 2 * sizeof(uint64_t), request->key, request->key_len);
    (void)crypto_shorthash((unsigned char *)&hash, bytes, 2 * sizeof(uint64_t) + request->key_len,
                           hub->options.secret);
    return hash;
}

uint64_t lq_request_owner_hash(const struct lq_map_node *node, const void *hub)
{
    return owner_hash(hub, LQ_CONTAINER(node, const struct lq_request, by_owner));
}

/* The oldest open acquire with the session, owner and key of `like`, which have that hash, or NULL.
 */
static struct lq_request *find_open(const struct lq_hub *hub, const struct lq_request *like,
                                    uint64_t hash)
{
    struct lq_map_node *node = lq_map_chain(&hub->by_owner, hash);
    for (; node != NULL; node = node->next) {
        struct lq_request *request = LQ_CONTAINER(node, struct lq_request, by_owner);
        if (request->session == like->session && request->owner == like->owner &&
            request->key_len == like->key_len &&
            memcmp(request->key, like->key, like->key_len) == 0) {
            return request;
        }
    }
    return NULL;
}

static void list_by_owner(struct lq_hub *hub, struct lq_request *request)
{
    uint64_t hash = owner_hash(hub, request);
    struct lq_request *first = find_open(hub, request, hash);
    if (first != NULL) {
        lq_list_append(&first->same_owner, &request->same_owner);
    } else {
        lq_map_insert(&hub->by_owner, &request->by_owner, hash);
    }
}

static void unlist_by_owner(struct lq_hub *hub, struct lq_request *request)
{
    struct lq_list *next = request->same_owner.next;
    bool is_first = request->by_owner.link != NULL;
    bool has_more = !lq_list_is_empty(&request->same_owner);
    lq_list_remove(&request->same_owner);
    if (is_first) {
        lq_map_remove(&hub->by_owner, &request->by_owner);
    }
    if (is_first && has_more) {
        lq_map_insert(&hub->by_owner, &LQ_CONTAINER(next, struct lq_request, same_owner)->by_owner,
                      owner_hash(hub, request));
    }
}

/* ---- In. */

static void queue(struct lq_hub *hub, struct lq_request *request)
{
    lq_list_append(&hub->fresh, &request->in_fresh);
    hub->n_fresh++;
}

void lq_requests_add(struct lq_hub *hub, struct lq_session *session, const struct lq_frame *frame)
{
    struct lq_request *request = new_request(hub, frame);
    request->session = session;
    if (frame->op != LQ_OP_CANCEL) {
        lq_list_append(&session->requests, &request->in_session);
        session->n_open++;
    }
    queue(hub, request);
}

void lq_requests_take_back(struct lq_hub *hub, const struct lq_frame *grant)
{
    struct lq_request *request = new_request(hub, grant);
    request->op = LQ_OP_RELEASE;
    lq_list_append(&hub->orphans, &request->in_session);
    hub->counters.taken_back++;
    queue(hub, request);
}

/* ---- Out. */

static void end_wait(struct lq_hub *hub, struct lq_request *request)
{
    if (lq_span_is_running(&request->wait)) {
        lq_spans_remove(&hub->waits, &request->wait, request->wait_s);
    }
}

/* The request has had its last answer: it leaves its session and all lists. */
static void forget(struct lq_hub *hub, struct lq_request *request)
{
    struct lq_session *session = request->session;
    end_wait(hub, request);
    if (request->is_open) {
        unlist_by_owner(hub, request);
    }
    lq_list_remove(&request->in_session);
    if (session != NULL) {
        request->session = NULL;
        lq_session_request_done(session);
    }
}

/* Whether there is somebody to tell an answer to. */
static bool is_heard(const struct lq_session *session)
{
    return session != NULL && lq_session_is_heard(session);
}

bool lq_request_is_heard(const struct lq_request *request)
{
    return is_heard(request->session);
}

static enum lq_op answer_op(enum lq_answer_kind kind)
{
    switch (kind) {
    case LQ_ANSWER_GRANTED:
        return LQ_OP_ACQUIRE;
    case LQ_ANSWER_TIMEOUT:
    case LQ_ANSWER_CANCELLED:
        return LQ_OP_TIMEOUT;
    case LQ_ANSWER_BUSY:
        return LQ_OP_BUSY;
    case LQ_ANSWER_RELEASED:
        return LQ_OP_RELEASE;
    case LQ_ANSWER_RENEWED:
        return LQ_OP_RENEW;
    case LQ_ANSWER_NOT_HELD:
        return LQ_OP_NOT_HELD;
    case LQ_ANSWER_OPEN:
    case LQ_ANSWER_OVERDUE:
    case LQ_ANSWER_LOST:
        break;
    }
    LQ_BUG("an answer that nobody is told");
    return LQ_OP_ERROR;
}

static void put_answer(const struct lq_request *request, const struct lq_answer *answer)
{
    bool is_grant = answer->kind == LQ_ANSWER_GRANTED;
    lq_session_put(request->session,
                   &(struct lq_frame){.op = (uint8_t)answer_op(answer->kind),
                                      .owner = request->owner,
                                      .token = is_grant ? answer->token : request->token,
                                      .key = request->key,
                                      .key_len = request->key_len});
}

/* The request will take a while (said again when it comes from quarantine into a queue). If its
 * session began to end since it was decoded, it is taken back in its turn. */
static void on_open(struct lq_hub *hub, struct lq_request *request)
{
    if (request->is_open || request->is_cancelled) {
        return;
    }
    request->is_open = true;
    lq_spans_begin(&hub->waits, &request->wait, hub->now_ms, request->wait_s);
    list_by_owner(hub, request);
    if (request->session->state != LQ_SESSION_OPEN) {
        lq_list_remove(&request->in_session);
        lq_list_append(&request->session->requests, &request->in_session);
        lq_session_schedule_progress(request->session);
    }
}

/* The client can't be told what became of its request, so it is told nothing more: with the end of
 * its connection it knows that it does not know. */
static void on_unknown(const struct lq_request *request)
{
    if (is_heard(request->session)) {
        lq_session_abort(request->session);
    }
}

/* A grant that nobody can hear of becomes its own release; everything else ends here. */
static void on_last(struct lq_hub *hub, const struct lq_answer *answer)
{
    struct lq_request *request = answer->request;
    struct lq_session *session = request->session;
    if (is_heard(session) && !(request->is_silent && answer->kind == LQ_ANSWER_CANCELLED)) {
        put_answer(request, answer);
    }
    forget(hub, request);
    if (answer->kind == LQ_ANSWER_GRANTED && !is_heard(session)) {
        request->op = LQ_OP_RELEASE;
        request->token = answer->token;
        lq_list_append(&hub->orphans, &request->in_session);
        hub->counters.taken_back++;
        queue(hub, request);
        return;
    }
    lq_request_free(hub, request);
}

static void on_answer(struct lq_hub *hub, const struct lq_answer *answer)
{
    switch (answer->kind) {
    case LQ_ANSWER_OPEN:
        on_open(hub, answer->request);
        break;
    case LQ_ANSWER_OVERDUE:
        on_unknown(answer->request);
        break;
    case LQ_ANSWER_LOST:
        on_unknown(answer->request); /* from here on it is not heard */
        on_last(hub, answer);
        break;
    case LQ_ANSWER_GRANTED:
    case LQ_ANSWER_TIMEOUT:
    case LQ_ANSWER_BUSY:
    case LQ_ANSWER_CANCELLED:
    case LQ_ANSWER_RELEASED:
    case LQ_ANSWER_RENEWED:
    case LQ_ANSWER_NOT_HELD:
        on_last(hub, answer);
        break;
    }
}

void lq_requests_take_answers(struct lq_hub *hub)
{
    struct lq_answer answer;
    while (hub->backend->ops->take(hub->backend, &answer)) {
        on_answer(hub, &answer);
    }
}

/* ---- Cancelling. */

static void cancel(struct lq_hub *hub, struct lq_request *request)
{
    struct lq_session *session = request->session;
    lq_list_remove(&request->in_session);
    lq_list_append(&session->cancelling, &request->in_session);
    if (request->is_cancelled) {
        return;
    }
    request->is_cancelled = true;
    end_wait(hub, request);
    unlist_by_owner(hub, request); /* the next C of that name is for another one */
    request->is_open = false;
    hub->backend->ops->cancel(hub->backend, request);
    lq_requests_take_answers(hub);
}

/* C: takes back the open acquire that it names. When there is none, it was answered already. */
static void execute_cancel(struct lq_hub *hub, struct lq_request *request)
{
    struct lq_request *named = find_open(hub, request, owner_hash(hub, request));
    if (named != NULL) {
        cancel(hub, named);
    }
    lq_request_free(hub, request);
}

void lq_requests_submit(struct lq_hub *hub)
{
    struct lq_list batch, *member;
    lq_list_init(&batch);
    lq_list_splice(&batch, &hub->fresh);
    hub->n_fresh = 0;
    while ((member = lq_list_take(&batch)) != NULL) {
        struct lq_request *request = LQ_CONTAINER(member, struct lq_request, in_fresh);
        if (request->op == LQ_OP_CANCEL) {
            execute_cancel(hub, request);
        } else {
            hub->backend->ops->submit(hub->backend, request);
            lq_requests_take_answers(hub);
        }
    }
}

void lq_requests_time_out(struct lq_hub *hub)
{
    for (int i = 0; i < LQ_TURN_TIMEOUTS && lq_spans_first_ms(&hub->waits) <= hub->now_ms; i++) {
        cancel(hub, LQ_CONTAINER(lq_spans_first(&hub->waits), struct lq_request, wait));
    }
}

uint64_t lq_requests_cancel_all(struct lq_session *session, uint64_t budget)
{
    while (budget > 0 && !lq_list_is_empty(&session->requests)) {
        struct lq_request *request =
            LQ_CONTAINER(session->requests.next, struct lq_request, in_session);
        budget--;
        if (request->op == LQ_OP_ACQUIRE && request->is_open) {
            request->is_silent = session->error != 0;
            cancel(session->hub, request);
        } else {
            lq_list_remove(&request->in_session);
            lq_list_append(&session->cancelling, &request->in_session);
        }
    }
    return budget;
}
