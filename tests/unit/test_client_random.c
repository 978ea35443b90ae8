/* The client's core against a model of servers (client_model.h) in virtual time: random requests,
 * and servers and connections that delay, reorder, drop, break, freeze and talk nonsense. What must
 * hold (client_rules.h):
 *
 *   - ACQUIRED comes before the deadline and within the lease of that token, by the server's time;
 *     the end that the caller is told lies within the lease, too.
 *   - What ended with TIMEOUT, BUSY or CLOSED was not granted, and never will be.
 *   - INDETERMINATE had a fault, or a grant that came late.
 *   - Each request has exactly one outcome, in time.
 *   - A grant that reached the client and was not handed over is given back.
 *   - No acquire is sent twice, none after its deadline, each with the wait that was left; C
 *     follows at the deadline; a connection carries at most LQ_CHANNEL_WAITS that wait.
 *   - A kept lease is lost before it ends.
 *
 * Half of the rounds have no faults: there the rules are strictest. LQ_SEEDS: how many hundreds of
 * rounds. LQ_SEED: the seed. LQ_PLANT: a planted fault (lq_client_planted.h), in builds with
 * LOQUET_PLANTED. */
#include "client_wires.h"
#include "lq_client_planted.h"

#include <stdlib.h>

#ifdef LOQUET_PLANTED
#endif

/* Rounds for one of LQ_SEEDS. */
#define ROUNDS 100

static uint64_t seen[LOQUET_ALIVE + 1];
static uint64_t shut_ms;

/* ---- Outcomes. */

/* What the caller does with its lock. */
static void hold(struct call *call, const struct lq_outcome *outcome)
{
    call->told = true;
    call->next_ms = model.now_ms + below(2000);
    if (chance(3) && !shut) {
        struct lq_order lock = call->order;
        lock.token = call->token;
        lq_core_keep(core, &call->lease, &lock,
                     &(struct lq_known){outcome->sent_ms, outcome->ends_ms, UINT32_MAX});
        call->next_ms += below(4000);
    }
}

static void take_outcomes(void)
{
    struct lq_outcome outcome;
    enum loquet_loss loss;
    struct lq_lease *lease;

    while (lq_core_take(core, model.now_ms, &outcome)) {
        struct call *call = outcome.user;
        MUST(!call->done, "two outcomes");
        MUST(model.now_ms <= call->by_ms, "an outcome that comes too late");
        call->done = true;
        call->result = outcome.result;
        seen[outcome.result]++;
        if (call->order.goal == LQ_GOAL_ACQUIRE) {
            check_acquire_outcome(call, &outcome);
            if (outcome.result == LOQUET_ACQUIRED) {
                hold(call, &outcome);
            }
        } else {
            check_other_outcome(call, &outcome);
        }
    }
    while ((lease = lq_core_take_lost(core, model.now_ms, &loss)) != NULL) {
        const struct call *call = LQ_CONTAINER(lease, struct call, lease);
        LQ_HOT_ASSERT(loss == LOQUET_LOSS_POSSIBLE ? model.n_faults > 0 : !is_held(call));
    }
}

/* ---- One turn of the driver. */

static void waste_time(void)
{
    if (chance(8)) {
        model.now_ms += below(chance(10) ? 80 : 15);
    }
}

static void turn(void)
{
    uint64_t due_ms;
    size_t drained = 0;

    for (int i = 0; i < model.n_conns; i++) {
        if (channel_of(i) != NULL) {
            notice(i);
        }
    }
    waste_time();
    due_ms = lq_core_due_ms(core);
    if (due_ms > 0 && due_ms <= model.now_ms) { /* a driver calls it then, and else never */
        lq_core_tick(core, model.now_ms);
    }
    waste_time();
    do {
        drain();
        waste_time();
        take_outcomes();
        MUST(++drained < 100, "something is to be drained for ever");
    } while (lq_core_due_ms(core) == 0);
    for (size_t i = 0; i < model.n_calls; i++) { /* after a turn the clock has had its say */
        const struct call *call = &model.calls[i];
        MUST(call->done || model.now_ms <= call->by_ms, "no outcome in time");
        if (call->lease.state == LQ_LEASE_KEPT) {
            MUST(call->lease.plan.ends_ms <= call->ends_ms, "a lease is thought longer");
            MUST(model.now_ms < call->ends_ms, "a lease ended and was not lost");
        }
    }
}

/* ---- Callers. */

static struct call *new_call(enum lq_goal goal)
{
    struct call *call = &model.calls[model.n_calls];
    call->order = (struct lq_order){.goal = goal, .user = call};
    call->submitted_ms = model.now_ms;
    call->conn = call->wire_conn = -1;
    model.n_calls++;
    return call;
}

static void submit(struct call *call)
{
    call->by_ms = call->deadline_ms + LATE_MS;
    if (call->order.goal == LQ_GOAL_ACQUIRE && call->order.wait_ms > 0) {
        call->by_ms += LQ_ANSWER_MARGIN_MS;
    }
    call->request = lq_core_submit(core, &call->order, model.now_ms);
}

static void begin_acquire(void)
{
    struct call *call = new_call(LQ_GOAL_ACQUIRE);

    call->key = below(MODEL_KEYS);
    call->order.key = model_keys[call->key];
    call->order.key_len = strlen(model_keys[call->key]);
    call->order.owner = MODEL_OWNERS + (uint64_t)(call - model.calls);
    call->order.lease_s = 1 + (uint32_t)below(3);
    call->order.wait_ms = chance(3) ? 0 : 1 + (uint32_t)below(chance(4) ? 30 : 3500);
    call->deadline_ms =
        model.now_ms + (call->order.wait_ms == 0 ? LQ_TRANSPORT_MS : call->order.wait_ms);
    call->order.redial_until_ms = call->order.wait_ms == 0 ? 0 : call->deadline_ms;
    submit(call);
}

static void begin_other(enum lq_goal goal, struct call *of)
{
    struct call *call = new_call(goal);

    if (of != NULL) {
        call->of = of;
        call->key = MODEL_KEYS; /* of no acquire */
        call->order.key = of->order.key;
        call->order.key_len = of->order.key_len;
        call->order.token = of->token;
        call->order.lease_s = of->order.lease_s; /* so that one that comes late shortens nothing */
    }
    call->deadline_ms = call->order.deadline_ms = model.now_ms + LQ_TRANSPORT_MS;
    call->order.redial_until_ms = chance(2) ? 0 : call->deadline_ms;
    submit(call);
}

static void give_up(struct call *call)
{
    uint64_t by_ms = model.now_ms + LQ_CANCEL_MARGIN_MS + LATE_MS;
    call->given_up = true;
    call->by_ms = call->by_ms < by_ms ? call->by_ms : by_ms;
    call->deadline_ms = call->deadline_ms < model.now_ms ? call->deadline_ms : model.now_ms;
    lq_core_give_up(core, call->request, model.now_ms);
}

static void act(void)
{
    if (model.n_calls < MODEL_CALLS / 2 && chance(6)) {
        for (uint64_t n = chance(6) ? 12 : 1; n > 0 && model.n_calls < MODEL_CALLS / 2; n--) {
            begin_acquire();
        }
    }
    for (size_t i = 0; i < model.n_calls; i++) {
        struct call *call = &model.calls[i];
        if (call->order.goal == LQ_GOAL_ACQUIRE && !call->done && chance(400)) {
            give_up(call);
        }
        if (call->told && call->next_ms <= model.now_ms && model.n_calls < MODEL_CALLS) {
            bool release = chance(2);
            call->next_ms = release ? UINT64_MAX : model.now_ms + below(2000);
            if (release) {
                lq_core_unkeep(core, &call->lease);
            }
            if (release || call->lease.state == LQ_LEASE_FREE) {
                begin_other(release ? LQ_GOAL_RELEASE : LQ_GOAL_RENEW, call);
            }
        }
    }
    if (model.n_calls < MODEL_CALLS && chance(100)) {
        begin_other(LQ_GOAL_PING, NULL);
    }
}

/* ---- Rounds. */

static void pass_time(void)
{
    uint64_t due_ms = lq_core_due_ms(core);

    if (due_ms > model.now_ms && chance(3)) {
        model.now_ms += below(60);
    } else {
        model.now_ms += below(8);
    }
}

static void shut_down(void)
{
    shut = true;
    shut_ms = model.now_ms;
    lq_core_shut(core, model.now_ms);
    for (size_t i = 0; i < model.n_calls; i++) {
        uint64_t by_ms = model.now_ms + LQ_CANCEL_MARGIN_MS + LATE_MS;
        struct call *call = &model.calls[i];
        call->by_ms = call->by_ms < by_ms ? call->by_ms : by_ms;
        call->lease.state = LQ_LEASE_FREE;
    }
}

static bool all_done(void)
{
    for (size_t i = 0; i < model.n_calls; i++) {
        if (!model.calls[i].done) {
            return false;
        }
    }
    return true;
}

static void reset(uint64_t round)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), round);

    for (int i = 0; i < model.n_conns; i++) {
        model.conns[i].channel = NULL;
    }
    memset(model.calls, 0, sizeof model.calls);
    model.n_conns = 0;
    model.n_calls = 0;
    model.tokens = model.turns = 0;
    model.rand = rand;
    model.now_ms = 1 + below(1000);
    model.calm = round % 2 == 0;
    model.fault_rarity = 100 + below(3000);
    model.n_faults = 0;
    model.faulty_ms = 0;
    model.n_addresses = 1 + below(MODEL_ADDRESSES);
    memset(model.frozen_ms, 0, sizeof model.frozen_ms);
    memset(model.down_ms, 0, sizeof model.down_ms);
    shut = false;
    core = lq_core_new(model.n_addresses, below(UINT64_MAX));
}

START_TEST(rounds)
{
    uint64_t n = ROUNDS * lq_test_number("LQ_SEEDS", 20);

    for (uint64_t round = 0; round < n; round++) {
        uint64_t shut_in_ms, end_ms;
        reset(round);
        shut_in_ms = model.now_ms + (chance(3) ? below(10000) : 60000);
        end_ms = model.now_ms + 80000;
        while (!(lq_core_is_idle(core) && shut) && model.now_ms < end_ms) {
            serve_all();
            if (!model.calm && model.now_ms < end_ms - 70000 && chance(model.fault_rarity)) {
                break_something();
            }
            turn();
            if (shut) {
                MUST(model.now_ms < shut_ms + LQ_CANCEL_MARGIN_MS + LQ_UNDO_MS + 2 * LATE_MS,
                     "closing takes too long");
            } else if (model.now_ms >= shut_in_ms ||
                       (model.n_calls >= MODEL_CALLS / 2 && all_done() && chance(50))) {
                shut_down();
            } else {
                act();
            }
            pass_time();
        }
        MUST(lq_core_is_idle(core), "never idle");
        drain();
        LQ_HOT_ASSERT(all_done());
        check_given_back();
        lq_core_free(core);
    }
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        MUST(i == LOQUET_INVALID || seen[i] > 0, "a result was never seen, so this proves nothing");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client random");
    TCase *tcase = tcase_create("client random");

#ifdef LOQUET_PLANTED
    lq_planted = (int)lq_test_number("LQ_PLANT", LQ_PLANT_NONE);
#endif
    (void)lq_test_seed();
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, rounds);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
