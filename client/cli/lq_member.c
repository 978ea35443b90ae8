/* How a change is made. Only the leader makes changes, and each is safe to repeat. So, in rounds:
 *
 *   POST to one node after the other, the one that led last first, until one is the leader
 *     done      -> is it in effect? see below
 *     started   -> next round
 *     busy      -> next round
 *     refused   -> over
 *     nobody    -> perhaps there is an election: next round, but not for long
 *
 * "done" tells what the leader's log says, which a change of leader could still undo. It is in
 * effect when the log is committed as far as it was then, by a leader of the same term: a leader
 * never takes anything out of its own log. So after "done" the leader's status is read: `term` of
 * two in a row is the same, and so that of the "done" between them; `pledge` is the end of the log
 * afterwards; when a later commit index has reached it, the change is in effect. */
#include "lq_member.h"

#include "lq_columns.h"
#include "lq_http.h"
#include "lq_reply.h"
#include "lq_time.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Between rounds: a change of an idle cluster takes a few ms, one that copies a table takes long.
 */
#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 500

/* How long nobody may lead, or say anything clear, before that is no election any more. */
#define GRACE_MS 4000

struct run {
    const struct lq_member_change *change;
    struct lq_member_outcome *outcome;
    size_t at; /* whom to ask first */
    bool is_begun, is_maybe, is_told;
    uint64_t began_ms;
    uint64_t term, pledge; /* see above; 0: none */
    uint64_t lost_ms;      /* since when a node leads that does not answer; 0: none does */
};

/* What one round came to. */
struct round {
    enum lq_reply_kind kind; /* STRANGE: no answer that counts */
    size_t n_answered;
    uint32_t leader;      /* somebody says that this node leads; 0: nobody does */
    bool is_leader_asked; /* but it is among those that answered, so things are on the move */
    uint32_t asked[LQ_ENDPOINTS_MAX];
};

__attribute__((format(printf, 2, 3))) static void say(struct run *run, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(run->outcome->message, sizeof run->outcome->message, format, arguments);
    va_end(arguments);
    lq_columns_clean(run->outcome->message);
}

/* ---- A round. */

static void take_reply(struct run *run, struct round *round, size_t at, struct lq_http_call *call)
{
    struct lq_reply_change reply = lq_reply_change(call->status, call->json);
    char address[LQ_ENDPOINT_TEXT_MAX];
    lq_endpoints_text(run->change->admins, at, address, sizeof address);
    if (call->status == 0 || reply.kind == LQ_REPLY_STRANGE) {
        /* Behind an odd answer may be a proxy that handed the request on. */
        run->is_maybe = run->is_maybe || call->maybe || call->status != 0;
        say(run, "%s: %s", address,
            call->reason[0] == '\0' ? "answered something else: is that a loquetd's admin port?"
                                    : call->reason);
        return;
    }
    round->asked[round->n_answered++] = reply.node;
    round->kind = reply.kind;
    if (reply.kind == LQ_REPLY_NOT_LEADER) {
        round->leader = reply.leader != 0 ? reply.leader : round->leader;
        return;
    }
    run->at = at;
    if (reply.message != NULL) {
        say(run, "%s", reply.message);
    }
}

/* Asks one after the other until somebody takes it or refuses. */
static struct round ask_round(struct run *run)
{
    struct round round = {.kind = LQ_REPLY_STRANGE};
    size_t n = run->change->admins->n, first = run->at;
    for (size_t i = 0; i < n; i++) {
        struct lq_http_call call = {.body = run->change->body};
        size_t at = (first + i) % n;
        lq_http_perform(run->change->admins, at, run->change->path, &call, 1);
        take_reply(run, &round, at, &call);
        lq_http_done(&call);
        if (round.kind != LQ_REPLY_STRANGE && round.kind != LQ_REPLY_NOT_LEADER) {
            break;
        }
    }
    for (size_t i = 0; i < round.n_answered; i++) {
        round.is_leader_asked = round.is_leader_asked || round.asked[i] == round.leader;
    }
    return round;
}

/* ---- Is it in effect? */

/* Takes in the status of the node that answered last. True: it is in effect. */
static bool take_status(struct run *run, const struct lq_reply_status *status)
{
    bool leads = lq_reply_leads(status);
    (void)snprintf(run->outcome->cluster_id, sizeof run->outcome->cluster_id, "%s",
                   status->cluster_id);
    lq_columns_clean(run->outcome->cluster_id);
    run->outcome->leader = leads ? status->node : status->leader;
    if (!leads || status->term != run->term) {
        run->term = leads ? status->term : 0;
        run->pledge = 0;
        return false;
    }
    if (run->pledge == 0) {
        run->pledge = status->last_index;
    }
    return status->commit_index >= run->pledge;
}

static bool ask_status(struct run *run)
{
    struct lq_http_call call = {0};
    struct lq_reply_status status;
    bool is_in_effect = false;
    lq_http_perform(run->change->admins, run->at, "/v1/status", &call, 1);
    if (call.status == 200 && lq_reply_status(call.json, &status)) {
        is_in_effect = take_status(run, &status);
    }
    lq_http_done(&call);
    return is_in_effect;
}

/* ---- What comes of it. */

static bool end(struct run *run, enum lq_member_end end)
{
    run->outcome->end = end;
    return true;
}

static void tell_begun(struct run *run)
{
    if (!run->is_told && run->change->on_begun != NULL) {
        run->change->on_begun(run->change->context, run->outcome->cluster_id);
    }
    run->is_told = true;
}

/* The leader has begun, or found it done. */
static bool follow(struct run *run, const struct round *round)
{
    bool is_in_effect;
    run->is_begun = true;
    run->lost_ms = 0;
    if (round->kind == LQ_REPLY_DONE && run->change->transfer_to != 0) {
        run->outcome->leader = run->change->transfer_to;
        return end(run, LQ_MEMBER_IN_EFFECT);
    }
    is_in_effect = ask_status(run) && round->kind == LQ_REPLY_DONE;
    if (round->kind != LQ_REPLY_DONE) {
        run->pledge = 0;
    }
    tell_begun(run);
    if (is_in_effect) {
        return end(run, LQ_MEMBER_IN_EFFECT);
    }
    return run->change->wait_ms == 0 && end(run, LQ_MEMBER_BEGUN);
}

static void say_where(struct run *run, uint32_t leader)
{
    say(run,
        "node %" PRIu32 " leads, and did not answer or is not among those asked: give its admin "
        "address with --admin or LOQUET_ADMIN",
        leader);
}

/* It was begun, but for a while now who leads is not among those that answer: waiting leads to
 * nothing. */
static bool is_lost(struct run *run, const struct round *round)
{
    uint64_t now_ms = lq_time_now_ms();
    if (round->leader == 0 || round->is_leader_asked) {
        run->lost_ms = 0;
        return false;
    }
    say_where(run, round->leader);
    if (run->lost_ms == 0) {
        run->lost_ms = now_ms;
    }
    return now_ms - run->lost_ms >= GRACE_MS;
}

/* Nobody took it. */
static bool miss(struct run *run, const struct round *round)
{
    bool all_answered = round->n_answered == run->change->admins->n;
    uint64_t waited_ms = lq_time_now_ms() - run->began_ms;
    bool is_over = run->change->wait_ms == 0 || waited_ms >= GRACE_MS;
    run->pledge = run->term = 0;
    run->outcome->leader = round->leader;
    if (round->leader != 0 && round->leader == run->change->transfer_to) {
        return end(run, LQ_MEMBER_IN_EFFECT);
    }
    if (run->is_begun) { /* we wait: without waiting it would be over */
        return is_lost(run, round) && end(run, LQ_MEMBER_UNKNOWN);
    }
    if (run->is_maybe) {
        return is_over && end(run, LQ_MEMBER_UNKNOWN);
    }
    if (round->n_answered == 0) {
        return end(run, LQ_MEMBER_UNREACHABLE);
    }
    if (round->leader == 0) {
        say(run, "no leader is known (is more than half of the voters up?)");
    } else {
        say_where(run, round->leader);
    }
    if (is_over || (all_answered && round->leader != 0 && !round->is_leader_asked)) {
        return end(run, LQ_MEMBER_NO_LEADER);
    }
    return false;
}

/* Acts upon a round; true: it is over. */
static bool conclude(struct run *run, const struct round *round)
{
    switch (round->kind) {
    case LQ_REPLY_DONE:
    case LQ_REPLY_STARTED:
        return follow(run, round);
    case LQ_REPLY_BUSY:
        run->pledge = run->term = 0;
        return run->change->wait_ms == 0 && end(run, LQ_MEMBER_BUSY);
    case LQ_REPLY_REFUSED:
        return end(run, LQ_MEMBER_REFUSED);
    case LQ_REPLY_NOT_LEADER:
    case LQ_REPLY_STRANGE:
        break;
    }
    return miss(run, round);
}

/* The time is over. */
static void give_up(struct run *run, const struct round *round)
{
    if (run->is_begun || run->is_maybe) {
        (void)end(run, LQ_MEMBER_UNKNOWN);
    } else {
        (void)end(run, round->kind == LQ_REPLY_BUSY ? LQ_MEMBER_BUSY : LQ_MEMBER_NO_LEADER);
    }
}

static void pause_for(uint64_t pause_ms)
{
    struct timespec pause = {.tv_sec = (time_t)(pause_ms / 1000),
                             .tv_nsec = (long)(pause_ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL);
}

void lq_member_make(const struct lq_member_change *change, struct lq_member_outcome *ret_outcome)
{
    struct run run = {.change = change, .outcome = ret_outcome, .began_ms = lq_time_now_ms()};
    uint64_t pause_ms = PAUSE_MIN_MS;
    *ret_outcome = (struct lq_member_outcome){.end = LQ_MEMBER_UNKNOWN};
    for (;;) {
        struct round round = ask_round(&run);
        uint64_t waited_ms;
        if (conclude(&run, &round)) {
            return;
        }
        waited_ms = lq_time_now_ms() - run.began_ms;
        if (waited_ms >= change->wait_ms) {
            give_up(&run, &round);
            return;
        }
        pause_for(pause_ms < change->wait_ms - waited_ms ? pause_ms : change->wait_ms - waited_ms);
        pause_ms = pause_ms * 3 / 2 < PAUSE_MAX_MS ? pause_ms * 3 / 2 : PAUSE_MAX_MS;
    }
}
