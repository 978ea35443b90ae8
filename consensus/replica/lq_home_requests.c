/* Requests of sessions at their origin, and their answers.
 *
 *   HELD ---- numbered ----> SENT -- outcome QUEUED --> SENT -- outcome --> answer
 *    |                         |                                  |
 *    cancelled, given up       given up: OVERDUE, and goes on     too old: CONFIRMING -> answer
 *    -> answer                                                    once a new renewal proved it
 *
 * No answer is invented: what is held was never seen by anybody and may be answered here; what has
 * a number is answered by its outcome alone. */
#include "lq_check.h"
#include "lq_frame.h"
#include "lq_home_impl.h"
#include "lq_mem.h"
#include "lq_planted.h"

#include <stdlib.h>

static const uint64_t patience_of[LQ_HOME_TIMERS] = {1000, 5000, 10000};

/* A grant that old is confirmed before it is delivered: 500 ms, or a quarter of its lease. */
#define FRESH_MS 500

void lq_home_answer(struct lq_replica *replica, struct lq_request *request,
                    enum lq_answer_kind kind, uint64_t token)
{
    struct lq_home *home = &replica->home;
    if (home->n_answers == home->answers_cap) {
        home->answers_cap = home->answers_cap == 0 ? 64 : 2 * home->answers_cap;
        home->answers = lq_realloc(home->answers, home->answers_cap, sizeof *home->answers);
    }
    home->answers[home->n_answers++] =
        (struct lq_answer){.request = request, .kind = kind, .token = token};
}

void lq_home_set_timer(struct lq_replica *replica, struct lq_request *request,
                       enum lq_home_timer timer)
{
    lq_list_remove(&request->in_timer);
    if (timer != LQ_HOME_NO_TIMER) {
        request->patience_ms = replica->now_ms + patience_of[timer];
        lq_list_append(&replica->home.timers[timer], &request->in_timer);
    }
}

/* ---- Numbered requests. */

static struct lq_request *find(struct lq_home *home, uint64_t seq)
{
    struct lq_map_node *node = lq_map_chain(&home->by_seq, lq_map_spread(seq));
    for (; node != NULL; node = node->next) {
        struct lq_request *request = LQ_CONTAINER(node, struct lq_request, by_seq);
        if (request->seq == seq) {
            return request;
        }
    }
    return NULL;
}

/* Renewals that wait for their outcome learn of what their sessions send after them. */
static void tell_followed(struct lq_home *home, const struct lq_request *next)
{
    struct lq_map_node *node = lq_map_chain(&home->by_token, lq_map_spread(next->token));
    for (; node != NULL; node = node->next) {
        struct lq_request *before = LQ_CONTAINER(node, struct lq_request, by_token);
        if (before->token == next->token && before->session == next->session) {
            before->is_followed = true;
        }
    }
}

static void list_by_seq(struct lq_home *home, struct lq_request *request, uint64_t seq)
{
    request->seq = seq;
    lq_map_insert(&home->by_seq, &request->by_seq, lq_map_spread(seq));
}

/* The last answer of a numbered request. */
static void finish(struct lq_replica *replica, struct lq_request *request, enum lq_answer_kind kind,
                   uint64_t token)
{
    lq_map_remove(&replica->home.by_seq, &request->by_seq);
    if (request->op == LQ_OP_RENEW) {
        lq_map_remove(&replica->home.by_token, &request->by_token);
    }
    lq_list_remove(&request->in_held);
    lq_home_set_timer(replica, request, LQ_HOME_NO_TIMER);
    lq_home_answer(replica, request, kind, token);
}

static enum lq_command_type command_type(const struct lq_request *request)
{
    switch (request->op) {
    case LQ_OP_ACQUIRE:
        return LQ_COMMAND_ACQUIRE;
    case LQ_OP_RELEASE:
        return LQ_COMMAND_RELEASE;
    default:
        LQ_CHECK(request->op == LQ_OP_RENEW);
        return LQ_COMMAND_RENEW;
    }
}

void lq_home_number_request(struct lq_replica *replica, struct lq_request *request)
{
    struct lq_command command = {.type = (uint8_t)command_type(request),
                                 .wait_s = request->wait_s,
                                 .lease_s = request->lease_s,
                                 .key_len = request->key_len,
                                 .owner = request->owner,
                                 .token = request->token,
                                 .key = request->key};
    bool is_acquire = request->op == LQ_OP_ACQUIRE;
    uint64_t seq = lq_home_number(replica, &command);
    request->backend_state = LQ_HOME_SENT;
    if (LQ_PLANTED(LQ_PLANT_ANSWER_EARLY) && request->op == LQ_OP_RELEASE) {
        lq_home_set_timer(replica, request, LQ_HOME_NO_TIMER);
        lq_home_answer(replica, request, LQ_ANSWER_RELEASED, 0);
        return;
    }
    list_by_seq(&replica->home, request, seq);
    if (!is_acquire) {
        lq_list_append(&replica->home.changes, &request->in_held);
        tell_followed(&replica->home, request);
    }
    if (request->op == LQ_OP_RENEW) {
        lq_map_insert(&replica->home.by_token, &request->by_token, lq_map_spread(request->token));
    }
    lq_home_set_timer(replica, request,
                      !is_acquire            ? LQ_HOME_TIMER_CHANGE
                      : request->wait_s == 0 ? LQ_HOME_TIMER_ACQUIRE
                                             : LQ_HOME_NO_TIMER);
}

/* ---- Outcomes. */

static bool is_fresh(const struct lq_replica *replica, const struct lq_outcome *outcome)
{
    uint64_t quarter_ms = (uint64_t)outcome->lease_s * 250;
    uint64_t age = lq_cluster_clock_age(&replica->clock, outcome->stamp_ms, replica->now_ms);
    return age < (quarter_ms < FRESH_MS ? quarter_ms : FRESH_MS) ||
           LQ_PLANTED(LQ_PLANT_STALE_GRANT);
}

/* Whether enough of a renewed lease is left for "renewed" to be true when it is heard. */
static bool is_worth_telling(const struct lq_replica *replica, const struct lq_outcome *outcome)
{
    uint64_t age = lq_cluster_clock_age(&replica->clock, outcome->stamp_ms, replica->now_ms);
    return age < (uint64_t)outcome->lease_s * 500 || LQ_PLANTED(LQ_PLANT_STALE_GRANT);
}

/* Renews what is too old to be told, so that it is news: again and again, for this renewal may come
 * too late as well, until the request is overdue. Then its session ends, and if it was a grant,
 * nobody heard of it, and it is released. */
static void confirm(struct lq_replica *replica, struct lq_request *request, uint64_t token)
{
    struct lq_command renew = {.type = LQ_COMMAND_RENEW,
                               .lease_s = request->lease_s,
                               .key_len = request->key_len,
                               .token = token,
                               .key = request->key};
    lq_map_remove(&replica->home.by_seq, &request->by_seq);
    request->backend_state = LQ_HOME_CONFIRMING;
    list_by_seq(&replica->home, request, lq_home_number(replica, &renew));
    if (!request->is_overdue && lq_list_is_empty(&request->in_timer)) {
        lq_home_set_timer(replica, request, LQ_HOME_TIMER_ACQUIRE);
    }
}

/* A grant, or its renewal: news only if it is fresh. What nobody hears the hub releases at once. */
static void granted(struct lq_replica *replica, struct lq_request *request,
                    const struct lq_outcome *outcome)
{
    if (!lq_request_is_heard(request) || is_fresh(replica, outcome)) {
        finish(replica, request, LQ_ANSWER_GRANTED, outcome->token);
    } else {
        confirm(replica, request, outcome->token);
    }
}

/* A renewal is news while enough of its lease is left. One that is not, and has others of its
 * session behind it that must be answered after it, can't be repeated: nobody knows what its lease
 * is now. */
static void renewed(struct lq_replica *replica, struct lq_request *request,
                    const struct lq_outcome *outcome)
{
    if (!lq_request_is_heard(request) || is_worth_telling(replica, outcome)) {
        finish(replica, request, LQ_ANSWER_RENEWED, 0);
    } else if (request->is_followed) {
        finish(replica, request, LQ_ANSWER_LOST, 0);
    } else {
        lq_list_remove(&request->in_held);
        lq_list_append(&replica->home.changes, &request->in_held); /* its number is the last */
        confirm(replica, request, request->token);
    }
}

/* Whether a request can have this outcome: what the leader sends is not trusted. */
static bool is_outcome_of(const struct lq_request *request, uint8_t kind)
{
    bool is_acquire = request->op == LQ_OP_ACQUIRE && request->backend_state == LQ_HOME_SENT;
    bool is_release = request->op == LQ_OP_RELEASE;
    switch (kind) {
    case LQ_OUTCOME_GRANTED:
    case LQ_OUTCOME_TIMEOUT:
    case LQ_OUTCOME_BUSY:
    case LQ_OUTCOME_CANCELLED:
        return is_acquire;
    case LQ_OUTCOME_RELEASED:
        return is_release;
    case LQ_OUTCOME_RENEWED:
        return !is_acquire && !is_release;
    case LQ_OUTCOME_NOT_HELD:
        return !is_acquire;
    default:
        return false;
    }
}

void lq_home_outcome(struct lq_replica *replica, const struct lq_outcome *outcome)
{
    struct lq_request *request = find(&replica->home, outcome->seq);
    if (request == NULL || !is_outcome_of(request, outcome->kind)) {
        return; /* it was told before, is of a cancel, or is no last word */
    }
    if (request->op != LQ_OP_ACQUIRE && replica->home.changes.next != &request->in_held) {
        return; /* the one before was not told: the own table will tell both, in their order */
    }
    switch ((enum lq_outcome_kind)outcome->kind) {
    case LQ_OUTCOME_GRANTED:
        granted(replica, request, outcome);
        break;
    case LQ_OUTCOME_TIMEOUT:
        finish(replica, request, LQ_ANSWER_TIMEOUT, 0);
        break;
    case LQ_OUTCOME_BUSY:
        finish(replica, request, LQ_ANSWER_BUSY, 0);
        break;
    case LQ_OUTCOME_RELEASED:
        finish(replica, request, LQ_ANSWER_RELEASED, 0);
        break;
    case LQ_OUTCOME_NOT_HELD:
        finish(replica, request, request->op == LQ_OP_ACQUIRE ? LQ_ANSWER_LOST : LQ_ANSWER_NOT_HELD,
               0);
        break;
    case LQ_OUTCOME_RENEWED:
        if (request->op == LQ_OP_ACQUIRE) {
            granted(replica, request, outcome);
        } else {
            renewed(replica, request, outcome);
        }
        break;
    case LQ_OUTCOME_CANCELLED:
        finish(replica, request, LQ_ANSWER_CANCELLED, 0);
        break;
    case LQ_OUTCOME_QUEUED:
    case LQ_OUTCOME_NOT_QUEUED:
    case LQ_OUTCOME_SKIPPED:
    case LQ_OUTCOME_OPENED:
    case LQ_OUTCOME_REFUSED:
    case LQ_OUTCOME_CLOSED:
    case LQ_OUTCOME_EXPIRED:
    case LQ_OUTCOME_STALE:
        break;
    }
}

/* ---- All numbered requests at once. */

struct all {
    struct lq_request **items;
    size_t n;
};

static void collect(struct lq_map_node *node, void *argument)
{
    struct all *all = argument;
    all->items[all->n++] = LQ_CONTAINER(node, struct lq_request, by_seq);
}

static int by_number(const void *a, const void *b)
{
    const struct lq_request *const *left = a, *const *right = b;
    return ((*left)->seq > (*right)->seq) - ((*left)->seq < (*right)->seq);
}

/* In the order of their numbers; free with lq_free. */
static struct all all_numbered(struct lq_home *home)
{
    struct all all = {.items = lq_calloc(home->by_seq.count + 1, sizeof(struct lq_request *))};
    lq_map_each(&home->by_seq, collect, &all);
    qsort(all.items, all.n, sizeof *all.items, by_number);
    return all;
}

void lq_home_drop_numbered(struct lq_replica *replica)
{
    struct all all = all_numbered(&replica->home);
    for (size_t i = 0; i < all.n; i++) {
        finish(replica, all.items[i], LQ_ANSWER_LOST, 0);
    }
    lq_free(all.items);
}

/* What a snapshot has behind it without telling: the acquire may be waiting or holding; of
 * everything else nobody knows any more. */
static void look_up(struct lq_replica *replica, struct lq_request *request)
{
    struct lq_outcome outcome;
    enum lq_fate fate = LQ_FATE_GONE;
    if (request->op == LQ_OP_ACQUIRE && request->backend_state == LQ_HOME_SENT) {
        fate = lq_table_fate(replica->table, replica->home.id, request->seq, request->key,
                             request->key_len, &outcome);
    }
    if (fate == LQ_FATE_HOLDING) {
        granted(replica, request, &outcome);
    } else if (fate == LQ_FATE_GONE) {
        finish(replica, request, LQ_ANSWER_LOST, 0);
    }
}

void lq_home_reinstalled(struct lq_replica *replica)
{
    struct lq_origin_state state;
    struct all all;
    lq_home_look(replica);
    if (!replica->home.is_open || !lq_table_origin(replica->table, replica->options.node, &state)) {
        return;
    }
    all = all_numbered(&replica->home);
    for (size_t i = 0; i < all.n; i++) {
        if (all.items[i]->seq <= state.last_seq) {
            look_up(replica, all.items[i]);
        }
    }
    lq_free(all.items);
}
