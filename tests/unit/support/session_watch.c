#include "session_watch.h"

#include "lq_check.h"
#include "lq_frame.h"
#include "lq_limits.h"
#include "session_asks.h"
#include "session_grants.h"

#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 1000

struct watched {
    struct lq_rig_client *client;
    struct lq_asks asks;
    size_t n_checked;  /* bytes of its answers */
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
        lq_asks_done(&watch->clients[i].asks);
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

/* ---- Answers. */

static void note_granted(struct lq_watch *watch, const struct watched *watched,
                         const struct lq_ask *ask)
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
    struct lq_ask ask;
    watch->seen[answer->op]++;
    if (watched->is_over) {
        return "an answer after E";
    }
    if (answer->op == LQ_OP_ERROR) {
        watched->is_over = true;
        return answer->code == watched->asks.fault ||
                       (watch->is_stopping && answer->code == LQ_WIRE_SHUTTING_DOWN)
                   ? NULL
                   : "an E that has no reason";
    }
    if (!lq_asks_take(&watched->asks, answer, now_ms, &ask)) {
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
    for (size_t i = 0; i < watched->asks.n; i++) {
        lq_grants_lost(&watch->grants, watched->asks.items[i].frame.token);
    }
}

/* Input is held back, or was until this turn: when it is executed can't be told from outside. */
static bool was_held_back(const struct watched *watched)
{
    for (size_t i = 0; i < watched->asks.n; i++) {
        if (lq_ask_is_quick(&watched->asks.items[i])) {
            return true;
        }
    }
    return !lq_session_wants_input(watched->client->session);
}

static bool is_judged(const struct watched *watched)
{
    return watched->client->session != NULL && !watched->is_loose && !watched->is_over &&
           watched->asks.fault == 0 && !watched->client->had_eof;
}

/* Nobody who came before one that was granted now, and still may wait, is still waiting. */
static const char *check_fifo(const struct lq_watch *watch, const struct watched *watched)
{
    for (size_t i = 0; i < watched->asks.n; i++) {
        const struct lq_ask *ask = &watched->asks.items[i];
        const uint8_t *key = lq_ask_key(&watched->asks, ask);
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
    for (size_t i = 0; i < watched->asks.n; i++) {
        n_open += watched->asks.items[i].frame.op != LQ_OP_PING;
        if (watched->asks.items[i].must_cancel) {
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
            lq_asks_init(&watch->clients[i].asks, rig->clients[i]);
        }
        watch->n_clients = rig->n_clients;
    }
}

/* Looks at what happened in this instant. */
static const char *look(struct lq_watch *watch)
{
    const char *fault = NULL;
    for (size_t i = 0; i < watch->n_clients; i++) {
        lq_asks_read(&watch->clients[i].asks, watch->rig->now_ms, &watch->last_order);
    }
    for (size_t i = 0; i < watch->n_clients && fault == NULL; i++) {
        fault = check_answers(watch, &watch->clients[i]);
    }
    for (size_t i = 0; i < watch->n_clients && fault == NULL; i++) {
        fault = check_client(watch, &watch->clients[i]);
    }
    return fault != NULL ? fault : lq_grants_judge(&watch->grants, watch->rig->now_ms);
}

const char *lq_watch_turn(struct lq_watch *watch)
{
    find_clients(watch);
    watch->n_granted = 0;
    lq_rig_turn(watch->rig);
    return look(watch);
}

const char *lq_watch_stop(struct lq_watch *watch)
{
    find_clients(watch);
    watch->n_granted = 0;
    watch->is_stopping = true;
    lq_rig_stop(watch->rig);
    return look(watch);
}

/* ---- Longer spans. */

/* In an instant in which nothing more is to be done, only waits are open, and none is over. */
static const char *check_quiet(const struct lq_watch *watch)
{
    for (size_t i = 0; i < watch->n_clients; i++) {
        const struct watched *watched = &watch->clients[i];
        bool is_served =
            watched->client->session != NULL && lq_session_wants_input(watched->client->session);
        if (watched->client->session != NULL && watched->client->had_eof && watched->asks.n > 0) {
            return "a request without answer at the end of input";
        }
        for (size_t j = 0; j < watched->asks.n && is_served; j++) {
            const struct lq_ask *ask = &watched->asks.items[j];
            if (lq_ask_is_quick(ask) && !ask->has_twin) {
                return "a request without answer";
            }
            if (is_judged(watched) && !ask->has_twin && lq_ask_end_ms(ask) <= watch->rig->now_ms) {
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
    bool is_bad = watched->asks.fault != 0;
    if (watched->client->end == LQ_RIG_CONNECTED) {
        return "a session that does not end";
    }
    if (watched->client->end == LQ_RIG_CLOSED && is_bad && !watched->is_over) {
        return "a fault without E";
    }
    for (size_t i = 0; i < watched->asks.n && watched->client->end == LQ_RIG_CLOSED; i++) {
        const struct lq_ask *ask = &watched->asks.items[i];
        bool is_told_apart = !watched->is_loose && !ask->has_twin;
        if (!watched->is_over || (is_told_apart && lq_ask_is_quick(ask))) {
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
    if (fault == NULL && (lq_hub_n_sessions(rig->hub) > 0 || lq_hub_taken_in(rig->hub) > 0 ||
                          lq_hub_deadline(rig->hub) != UINT64_MAX)) {
        fault = "something is left in the hub";
    }
    if (fault == NULL && (lq_rig_counts(rig).keys > 0 || lq_rig_counts(rig).waiters > 0 ||
                          lq_rig_counts(rig).state_bytes > 0)) {
        fault = "something is left in the table";
    }
    return fault;
}
