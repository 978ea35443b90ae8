#include "session_watch.h"

#include "lq_check.h"
#include "lq_frame.h"
#include "lq_limits.h"
#include "session_grants.h"

#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 1000

/* A request that has had no answer yet. */
struct ask {
    struct lq_frame frame; /* without its key */
    size_t key_at;         /* offset in the client's requests */
    uint64_t order;        /* of arrival, among all */
    uint64_t at_ms;
    uint8_t lease_s;  /* what it surely is granted: of twins that were open together, the least */
    bool has_twin;    /* same owner and key as another: which of them was answered can't be told */
    bool may_cancel;  /* a C named it: T may come at any time */
    bool must_cancel; /* and had no other to name: it must be answered in this turn */
};

struct watched {
    struct lq_rig_client *client;
    size_t n_parsed;  /* bytes of its requests */
    size_t n_checked; /* bytes of its answers */
    struct ask *asks; /* in the order of arrival */
    size_t n_asks, cap_asks;
    uint8_t fault;     /* the code of its faulty frame, or 0 */
    bool is_over;      /* E came */
    bool is_loose;     /* its input stopped at times: times and order are not judged */
    bool is_gone_seen; /* what was lost when it broke is noted */
};

struct lq_watch {
    struct lq_rig *rig;
    uint64_t requests_max;
    struct watched *clients;
    size_t n_clients;
    uint64_t last_order;
    struct lq_grants grants;
    struct {
        const struct lq_rig_client *client;
        size_t key_at;
        uint16_t key_len;
        uint64_t order;
    } * granted; /* in this turn */
    size_t n_granted, cap_granted;
    uint64_t seen[256];
    bool is_stopping;
};

static void *resized(void *memory, size_t count, size_t size)
{
    void *moved = reallocarray(memory, count, size);
    LQ_CHECK(moved != NULL);
    return moved;
}

struct lq_watch *lq_watch_new(struct lq_rig *rig, uint64_t requests_max)
{
    struct lq_watch *watch = resized(NULL, 1, sizeof *watch);
    *watch = (struct lq_watch){.rig = rig, .requests_max = requests_max};
    lq_grants_init(&watch->grants);
    return watch;
}

void lq_watch_free(struct lq_watch *watch)
{
    for (size_t i = 0; i < watch->n_clients; i++) {
        free(watch->clients[i].asks);
    }
    free(watch->clients);
    free(watch->granted);
    lq_grants_done(&watch->grants);
    free(watch);
}

uint64_t lq_watch_seen(const struct lq_watch *watch, uint8_t op)
{
    return watch->seen[op];
}

void lq_watch_stop(struct lq_watch *watch)
{
    watch->is_stopping = true;
    lq_hub_stop(watch->rig->hub);
}

/* ---- Requests. */

static bool has_key(const struct watched *watched, const struct ask *ask,
                    const struct lq_frame *frame)
{
    return ask->frame.key_len == frame->key_len &&
           memcmp(watched->client->requests.at + ask->key_at, frame->key, frame->key_len) == 0;
}

static bool is_acquire_of(const struct watched *watched, const struct ask *ask,
                          const struct lq_frame *frame)
{
    return ask->frame.op == LQ_OP_ACQUIRE && ask->frame.owner == frame->owner &&
           has_key(watched, ask, frame);
}

static void note_cancel(struct watched *watched, const struct lq_frame *frame)
{
    for (size_t i = 0; i < watched->n_asks; i++) {
        struct ask *ask = &watched->asks[i];
        if (is_acquire_of(watched, ask, frame)) {
            ask->may_cancel = true;
            ask->must_cancel = !ask->has_twin;
        }
    }
}

/* Twins are known by it for as long as they are open. `ask` is not among the asks yet. */
static void find_twins(struct watched *watched, struct ask *ask, const uint8_t *key)
{
    struct lq_frame frame = ask->frame;
    frame.key = key;
    for (size_t i = 0; i < watched->n_asks && frame.op == LQ_OP_ACQUIRE; i++) {
        struct ask *other = &watched->asks[i];
        if (is_acquire_of(watched, other, &frame)) {
            other->has_twin = ask->has_twin = true;
            other->must_cancel = false;
            ask->lease_s = other->lease_s < ask->lease_s ? other->lease_s : ask->lease_s;
        }
    }
    for (size_t i = 0; i < watched->n_asks && ask->has_twin; i++) {
        if (is_acquire_of(watched, &watched->asks[i], &frame)) {
            watched->asks[i].lease_s = ask->lease_s;
        }
    }
}

static void note_request(struct lq_watch *watch, struct watched *watched,
                         const struct lq_frame *frame)
{
    struct ask ask = {.frame = *frame,
                      .key_at = (size_t)(frame->key - watched->client->requests.at),
                      .order = ++watch->last_order,
                      .at_ms = watch->rig->now_ms,
                      .lease_s = frame->lease_s};
    if (frame->op == LQ_OP_CANCEL) {
        note_cancel(watched, frame);
        return;
    }
    if (watched->n_asks == watched->cap_asks) {
        watched->cap_asks = 2 * watched->cap_asks + 16;
        watched->asks = resized(watched->asks, watched->cap_asks, sizeof *watched->asks);
    }
    find_twins(watched, &ask, frame->key);
    watched->asks[watched->n_asks++] = ask;
}

/* Reads the requests that the session was given in this turn. */
static void note_requests(struct lq_watch *watch, struct watched *watched)
{
    const struct lq_rig_client *client = watched->client;
    struct lq_frame frame;
    size_t used;
    while (watched->fault == 0) {
        switch (lq_request_decode(client->requests.at + watched->n_parsed,
                                  client->arrived - watched->n_parsed, &frame, &used)) {
        case LQ_DECODED_MORE:
            return;
        case LQ_DECODED_BAD:
            watched->fault = frame.code;
            return;
        case LQ_DECODED_FRAME:
            note_request(watch, watched, &frame);
            watched->n_parsed += used;
        }
    }
}

/* ---- Answers. */

static bool is_answer_to(const struct watched *watched, const struct ask *ask,
                         const struct lq_frame *answer)
{
    uint8_t asked = ask->frame.op;
    switch ((enum lq_op)answer->op) {
    case LQ_OP_ACQUIRE:
    case LQ_OP_TIMEOUT:
    case LQ_OP_BUSY:
        return asked == LQ_OP_ACQUIRE && ask->frame.owner == answer->owner &&
               has_key(watched, ask, answer);
    case LQ_OP_RELEASE:
    case LQ_OP_RENEW:
    case LQ_OP_NOT_HELD: /* the oldest of that token must fit, see take_ask */
        return (asked == LQ_OP_RELEASE || asked == LQ_OP_RENEW) &&
               ask->frame.token == answer->token && has_key(watched, ask, answer);
    case LQ_OP_PING:
        return asked == LQ_OP_PING && ask->frame.owner == answer->owner;
    case LQ_OP_CANCEL:
    case LQ_OP_ERROR:
        break;
    }
    return false;
}

static uint64_t end_of(const struct ask *ask)
{
    return ask->at_ms + 1000 * (uint64_t)ask->frame.wait_s + 1;
}

static bool may_time_out(const struct lq_watch *watch, const struct watched *watched,
                         const struct ask *ask)
{
    return ask->frame.wait_s == 0 || ask->has_twin || ask->may_cancel || watched->client->had_eof ||
           watch->rig->now_ms >= end_of(ask);
}

/* Removes the ask that is answered; false when there is none. */
static bool take_ask(const struct lq_watch *watch, struct watched *watched,
                     const struct lq_frame *answer, struct ask *ret_ask)
{
    for (size_t i = 0; i < watched->n_asks; i++) {
        struct ask *ask = &watched->asks[i];
        if (!is_answer_to(watched, ask, answer) ||
            (answer->op == LQ_OP_TIMEOUT && !may_time_out(watch, watched, ask))) {
            continue;
        }
        *ret_ask = *ask;
        watched->n_asks--;
        memmove(ask, ask + 1, (watched->n_asks - i) * sizeof *ask);
        return true;
    }
    return false;
}

static void note_granted(struct lq_watch *watch, const struct watched *watched,
                         const struct ask *ask)
{
    if (watched->is_loose || ask->has_twin) {
        return;
    }
    if (watch->n_granted == watch->cap_granted) {
        watch->cap_granted = 2 * watch->cap_granted + 16;
        watch->granted = resized(watch->granted, watch->cap_granted, sizeof *watch->granted);
    }
    watch->granted[watch->n_granted].client = watched->client;
    watch->granted[watch->n_granted].key_at = ask->key_at;
    watch->granted[watch->n_granted].key_len = ask->frame.key_len;
    watch->granted[watch->n_granted++].order = ask->order;
}

static const char *check_answer(struct lq_watch *watch, struct watched *watched,
                                const struct lq_frame *answer)
{
    uint64_t now_ms = watch->rig->now_ms;
    struct ask ask;
    watch->seen[answer->op]++;
    if (watched->is_over) {
        return "an answer after E";
    }
    if (answer->op == LQ_OP_ERROR) {
        watched->is_over = true;
        return answer->code == watched->fault ||
                       (watch->is_stopping && answer->code == LQ_WIRE_SHUTTING_DOWN)
                   ? NULL
                   : "an E that has no reason";
    }
    if (!take_ask(watch, watched, answer, &ask)) {
        return answer->op == LQ_OP_TIMEOUT ? "a T that is early, or for no acquire"
                                           : "an answer to no request";
    }
    switch ((enum lq_op)answer->op) {
    case LQ_OP_ACQUIRE:
        note_granted(watch, watched, &ask);
        return lq_grants_granted(&watch->grants, answer->token, answer->key, answer->key_len,
                                 now_ms + 1000 * (uint64_t)ask.lease_s + 1);
    case LQ_OP_RELEASE:
        lq_grants_released(&watch->grants, answer->token);
        return ask.frame.op == LQ_OP_RELEASE ? NULL : "R for a renewal, or out of order";
    case LQ_OP_RENEW:
        lq_grants_renewed(&watch->grants, answer->token, now_ms + 1000 * (uint64_t)ask.lease_s + 1);
        return ask.frame.op == LQ_OP_RENEW ? NULL : "K for a release, or out of order";
    case LQ_OP_TIMEOUT:
    case LQ_OP_BUSY:
    case LQ_OP_NOT_HELD:
    case LQ_OP_PING:
    case LQ_OP_CANCEL:
    case LQ_OP_ERROR:
        break;
    }
    return NULL;
}

static const char *check_answers(struct lq_watch *watch, struct watched *watched)
{
    const struct lq_rig_client *client = watched->client;
    const char *fault = NULL;
    while (fault == NULL && watched->n_checked < client->answers.len) {
        struct lq_frame answer;
        size_t used;
        if (lq_answer_decode(client->answers.at + watched->n_checked,
                             client->answers.len - watched->n_checked, &answer,
                             &used) != LQ_DECODED_FRAME) {
            return "bytes that are no answer";
        }
        fault = check_answer(watch, watched, &answer);
        watched->n_checked += used;
    }
    return fault;
}

/* ---- The end of a turn. */

/* When a connection went: grants of which the kernel took nothing, and tokens that it asked to
 * release or renew without ever being told the outcome. */
static void note_lost(struct lq_watch *watch, const struct watched *watched)
{
    const struct lq_rig_client *client = watched->client;
    struct lq_frame answer;
    size_t used;
    for (size_t at = 0; at < client->answers.len; at += used) {
        LQ_CHECK(lq_answer_decode(client->answers.at + at, client->answers.len - at, &answer,
                                  &used) == LQ_DECODED_FRAME);
        if (answer.op == LQ_OP_ACQUIRE && at >= client->delivered) {
            lq_grants_lost(&watch->grants, answer.token);
        }
    }
    for (size_t i = 0; i < watched->n_asks; i++) {
        lq_grants_lost(&watch->grants, watched->asks[i].frame.token);
    }
}

/* Whether it is answered in the turn that executes it. */
static bool is_quick(const struct ask *ask)
{
    return ask->frame.op != LQ_OP_ACQUIRE || ask->frame.wait_s == 0;
}

/* Input is held back, or was until this turn: when it is executed can't be told from outside. */
static bool was_held_back(const struct watched *watched)
{
    for (size_t i = 0; i < watched->n_asks; i++) {
        if (is_quick(&watched->asks[i])) {
            return true;
        }
    }
    return !lq_session_wants_input(watched->client->session);
}

static bool is_judged(const struct watched *watched)
{
    return watched->client->session != NULL && !watched->is_loose && !watched->is_over &&
           watched->fault == 0 && !watched->client->had_eof;
}

/* Nobody who came before one that was granted now, and still may wait, is still waiting. */
static const char *check_fifo(const struct lq_watch *watch, const struct watched *watched)
{
    for (size_t i = 0; i < watched->n_asks; i++) {
        const struct ask *ask = &watched->asks[i];
        const uint8_t *key = watched->client->requests.at + ask->key_at;
        for (size_t j = 0; j < watch->n_granted && !ask->has_twin && ask->frame.op == LQ_OP_ACQUIRE;
             j++) {
            if (watch->granted[j].key_len == ask->frame.key_len &&
                watch->granted[j].order > ask->order &&
                memcmp(watch->granted[j].client->requests.at + watch->granted[j].key_at, key,
                       ask->frame.key_len) == 0) {
                return "a key granted past the head of its queue";
            }
        }
    }
    return NULL;
}

static const char *check_asks(const struct lq_watch *watch, const struct watched *watched)
{
    uint64_t n_open = 0;
    for (size_t i = 0; i < watched->n_asks; i++) {
        n_open += watched->asks[i].frame.op != LQ_OP_PING;
        if (watched->asks[i].must_cancel) {
            return "a C that took nothing back";
        }
    }
    return n_open > watch->requests_max ? "more open requests than the cap" : NULL;
}

static const char *check_client(struct lq_watch *watch, struct watched *watched)
{
    const char *fault = NULL;
    if (watched->client->session == NULL && !watched->is_gone_seen) {
        note_lost(watch, watched);
        watched->is_gone_seen = true;
    }
    if (watched->client->session != NULL && was_held_back(watched)) {
        watched->is_loose = true;
    }
    if (is_judged(watched)) {
        fault = check_fifo(watch, watched);
        fault = fault == NULL ? check_asks(watch, watched) : fault;
    }
    return fault;
}

static void find_clients(struct lq_watch *watch)
{
    const struct lq_rig *rig = watch->rig;
    if (watch->n_clients < rig->n_clients) {
        watch->clients = resized(watch->clients, rig->n_clients, sizeof *watch->clients);
        for (size_t i = watch->n_clients; i < rig->n_clients; i++) {
            watch->clients[i] = (struct watched){.client = rig->clients[i]};
        }
        watch->n_clients = rig->n_clients;
    }
}

const char *lq_watch_turn(struct lq_watch *watch)
{
    const char *fault = NULL;
    find_clients(watch);
    watch->n_granted = 0;
    lq_rig_turn(watch->rig);
    for (size_t i = 0; i < watch->n_clients; i++) {
        note_requests(watch, &watch->clients[i]);
    }
    for (size_t i = 0; i < watch->n_clients && fault == NULL; i++) {
        fault = check_answers(watch, &watch->clients[i]);
    }
    for (size_t i = 0; i < watch->n_clients && fault == NULL; i++) {
        fault = check_client(watch, &watch->clients[i]);
    }
    return fault != NULL ? fault : lq_grants_judge(&watch->grants, watch->rig->now_ms);
}

/* ---- Longer spans. */

/* In an instant in which nothing more is to be done, only waits are open, and none is over. */
static const char *check_quiet(const struct lq_watch *watch)
{
    for (size_t i = 0; i < watch->n_clients; i++) {
        const struct watched *watched = &watch->clients[i];
        bool is_served =
            watched->client->session != NULL && lq_session_wants_input(watched->client->session);
        for (size_t j = 0; j < watched->n_asks && is_served; j++) {
            const struct ask *ask = &watched->asks[j];
            if (is_quick(ask) && !ask->has_twin) {
                return "a request without answer";
            }
            if (is_judged(watched) && !ask->has_twin && end_of(ask) <= watch->rig->now_ms) {
                return "a wait that is over without answer";
            }
        }
    }
    return NULL;
}

const char *lq_watch_go(struct lq_watch *watch)
{
    const char *fault;
    int turns = 0;
    do {
        fault = lq_watch_turn(watch);
        if (++turns > 100000) {
            return "turns without end";
        }
    } while (fault == NULL && lq_rig_is_busy(watch->rig));
    return fault == NULL ? check_quiet(watch) : fault;
}

const char *lq_watch_advance(struct lq_watch *watch, uint64_t ms)
{
    struct lq_rig *rig = watch->rig;
    uint64_t until_ms = rig->now_ms + ms, deadline_ms;
    const char *fault = NULL;
    while (fault == NULL && (deadline_ms = lq_hub_deadline(rig->hub)) <= until_ms) {
        rig->now_ms = deadline_ms > rig->now_ms ? deadline_ms : rig->now_ms;
        fault = lq_watch_go(watch);
    }
    rig->now_ms = until_ms;
    return fault == NULL ? lq_watch_go(watch) : fault;
}

/* Who ended in peace has all answers; who ended with E lacks only those of acquires that waited. */
static const char *check_ended(const struct watched *watched)
{
    bool is_bad = watched->fault != 0;
    if (watched->client->end == LQ_RIG_CONNECTED) {
        return "a session that does not end";
    }
    if (watched->client->end == LQ_RIG_CLOSED && is_bad && !watched->is_over) {
        return "a fault without E";
    }
    for (size_t i = 0; i < watched->n_asks && watched->client->end == LQ_RIG_CLOSED; i++) {
        const struct ask *ask = &watched->asks[i];
        bool is_told_apart = !watched->is_loose && !ask->has_twin;
        if (!watched->is_over || (is_told_apart && is_quick(ask))) {
            return "a request without answer at the end";
        }
    }
    return NULL;
}

const char *lq_watch_finish(struct lq_watch *watch)
{
    struct lq_rig *rig = watch->rig;
    const char *fault;
    int rounds = 0;
    find_clients(watch);
    for (size_t i = 0; i < watch->n_clients; i++) {
        if (rig->clients[i]->session != NULL) {
            lq_rig_send_eof(rig->clients[i]);
            lq_rig_set_window(rig->clients[i], LQ_RIG_OPEN_WINDOW);
        }
    }
    do { /* as often as waits can stand one behind the other */
        fault = lq_watch_advance(watch, 1000 * (LQ_SECONDS_MAX + UINT64_C(1)));
    } while (fault == NULL && lq_hub_deadline(rig->hub) != UINT64_MAX && ++rounds < ROUNDS_MAX);
    for (size_t i = 0; i < watch->n_clients && fault == NULL; i++) {
        fault = check_ended(&watch->clients[i]);
    }
    if (fault == NULL && (lq_hub_n_sessions(rig->hub) > 0 || lq_hub_backlog(rig->hub) > 0 ||
                          lq_hub_deadline(rig->hub) != UINT64_MAX)) {
        fault = "something is left in the hub";
    }
    if (fault == NULL && (lq_rig_counts(rig).keys > 0 || lq_rig_counts(rig).waiters > 0 ||
                          lq_rig_counts(rig).state_bytes > 0)) {
        fault = "something is left in the table";
    }
    return fault;
}
