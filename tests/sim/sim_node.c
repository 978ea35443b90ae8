#include "sim_checks.h"
#include "sim_conn.h"
#include "sim_world.h"

#include "lq_heap.h"
#include "lq_mem.h"

#include <inttypes.h>
#include <string.h>

/* Turns at the same time without any input, before the replica is said to spin. */
#define IDLE_MAX 2000

/* An orderly stop takes no longer than this. */
#define LEAVE_MAX_US (5 * SIM_S)

/* ---- Time. Rates are within 1 %, so nothing overflows within centuries. */

static uint64_t clock_us(const struct sim_node *node, uint64_t real_us)
{
    return (uint64_t)((int64_t)(real_us + node->clock_offset_us) +
                      (int64_t)real_us * node->rate_ppm / 1000000);
}

static uint64_t clock_ms(const struct sim_node *node)
{
    return clock_us(node, node->sim->now_us) / 1000;
}

uint64_t sim_node_real_us(const struct sim_node *node, uint64_t clock_ms)
{
    uint64_t wanted_us = clock_ms * 1000, real_us;
    if (wanted_us <= clock_us(node, 0)) {
        return 0;
    }
    real_us = (uint64_t)((double)(wanted_us - node->clock_offset_us) /
                         (1.0 + (double)node->rate_ppm / 1e6));
    real_us -= real_us > 2 ? 2 : real_us;
    while (clock_us(node, real_us) < wanted_us) {
        real_us++;
    }
    return real_us;
}

/* ---- Life. */

void sim_node_init(struct sim_node *node, struct sim *sim, uint32_t id)
{
    *node = (struct sim_node){.sim = sim, .id = id, .place = id};
    lq_list_init(&node->inputs);
    lq_list_init(&node->conns);
    lq_list_init(&node->ready);
    lq_list_init(&node->served);
    sim_disk_init(&node->disk, node);
    node->rate_ppm = (int64_t)sim_between(sim, 0, 20000) - 10000;
    node->clock_offset_us = sim_between(sim, 1, 100000) * SIM_S;
    node->loop_us = sim_between(sim, 0, 3) * 50;
    node->serves_first = sim_percent(sim, 50);
    node->disk.latency_us =
        sim->disk_latency_us != 0
            ? sim->disk_latency_us
            : (uint32_t)(50U << sim_between(sim, 0, sim_percent(sim, 20) ? 10 : 6));
}

static void drop_inputs(struct sim_node *node)
{
    struct lq_list *link;
    while ((link = lq_list_take(&node->inputs)) != NULL) {
        struct sim_input *input = LQ_CONTAINER(link, struct sim_input, in_list);
        sim_network_leave(node->sim, input);
        lq_free(input);
    }
}

static void end_process(struct sim_node *node, enum sim_death death)
{
    struct sim *sim = node->sim;
    sim_cancel(sim, node->turn_event);
    node->turn_event = 0;
    node->is_up = node->is_paused = node->is_leaving = node->was_told_to_leave = false;
    node->is_silent = death == SIM_DEATH_MACHINE;
    node->crash_in = 0;
    node->dies_writing = false;
    sim_disk_crash(&node->disk);
    sim_conn_node_died(node, death);
    sim_network_died(sim, node->id, death);
    lq_hub_free(node->hub);
    lq_replica_free(node->replica);
    node->hub = NULL;
    node->replica = NULL;
    drop_inputs(node);
}

void sim_node_done(struct sim_node *node)
{
    if (node->is_up) {
        end_process(node, SIM_DEATH_MACHINE);
    }
    sim_disk_done(&node->disk);
}

void sim_node_crash(struct sim_node *node, enum sim_death death)
{
    if (!node->is_up) {
        return;
    }
    sim_trace(node->sim, "%u   CRASH%s", node->id,
              death == SIM_DEATH_MACHINE ? ", the machine too" : "");
    if (node->sim->checks != NULL) {
        sim_checks_node_stopped(node->sim->checks, node->id, true);
    }
    end_process(node, death);
}

static struct lq_replica_options options_of(struct sim_node *node)
{
    struct lq_replica_options options = node->sim->replica;
    options.node = node->id;
    /* The only first member has nobody to ask whether the cluster exists: an operator names it as
     * such once, not again after its disk was lost. */
    if (node->is_added || (options.bootstrap.n == 1 && node->sim->faults.n_lost > 0)) {
        options.bootstrap.n = 0;
    }
    options.seed = (uint32_t)lq_rand_next(&node->sim->rand);
    lq_rand_fill(&node->sim->rand, options.secret, sizeof options.secret);
    return options;
}

static struct lq_hub *new_hub(struct sim_node *node)
{
    struct lq_hub_options options = {.requests_max = sim_percent(node->sim, 20) ? 4 : 256,
                                     .unread_max = 4096,
                                     .unread_total_max = 1U << 20,
                                     .unread_timeout_ms = 3000};
    lq_rand_fill(&node->sim->rand, options.secret, sizeof options.secret);
    return lq_hub_new(&options, lq_replica_backend(node->replica));
}

/* A start that is refused is the end of the node under this id, if damage explains it. */
static void refuse(struct sim_node *node, const char *text)
{
    sim_trace(node->sim, "%u   refuses to start: %s", node->id, text);
    if (!node->is_flipped) {
        sim_fail(node->sim, "node %u refuses to start on an undamaged disk: %s", node->id, text);
    }
    node->is_gone = true;
}

void sim_node_start(struct sim_node *node)
{
    static const char *const verdicts[] = {"blank", "good", "torn", "corrupt"};
    struct sim *sim = node->sim;
    struct lq_replica_options options;
    struct lq_recovery *recovery;
    enum lq_recovery_verdict verdict;
    sim_cancel(sim, node->start_event);
    node->start_event = 0;
    if (node->is_up || node->is_gone || node->is_rotten) {
        return;
    }
    if (node->is_silent) { /* a machine that boots has a new clock */
        node->clock_offset_us = sim_between(sim, 1, 100000) * SIM_S;
        node->is_silent = false;
    }
    options = options_of(node);
    recovery = sim_disk_recover(&node->disk, options.secret, &verdict);
    sim_trace(sim, "%u   starts, disk %s", node->id, verdicts[verdict]);
    if (verdict == LQ_RECOVERY_CORRUPT) {
        refuse(node, lq_recovery_text(recovery));
        lq_recovery_free(recovery);
        return;
    }
    node->is_up = true;
    node->started_us = sim->now_us;
    node->replica = lq_replica_new(&options, recovery, clock_ms(node));
    lq_recovery_free(recovery);
    node->hub = new_hub(node);
    if (sim->checks != NULL) {
        sim_checks_node_started(sim->checks, node->id, node->replica);
    }
    sim_node_wake(node);
}

static void on_start(struct sim *sim, void *argument)
{
    struct sim_node *node = argument;
    (void)sim;
    node->start_event = 0;
    sim_node_start(node);
}

void sim_node_start_at(struct sim_node *node, uint64_t us)
{
    sim_cancel(node->sim, node->start_event);
    node->start_event = sim_at(node->sim, us, on_start, node);
}

void sim_node_pause(struct sim_node *node)
{
    if (node->is_up && !node->is_paused) {
        sim_trace(node->sim, "%u   is paused", node->id);
        sim_conn_flush_all(node);
        node->is_paused = true;
        sim_cancel(node->sim, node->turn_event);
        node->turn_event = 0;
    }
}

void sim_node_resume(struct sim_node *node)
{
    if (node->is_paused) {
        sim_trace(node->sim, "%u   goes on", node->id);
        node->is_paused = false;
        sim_node_wake(node);
    }
}

void sim_node_leave(struct sim_node *node)
{
    if (node->is_up && !node->is_leaving) {
        sim_trace(node->sim, "%u   is told to stop", node->id);
        node->is_leaving = true;
        node->stop_by_us = node->sim->now_us + LEAVE_MAX_US;
        sim_node_wake(node);
    }
}

void sim_node_end_leave(struct sim_node *node)
{
    sim_trace(node->sim, "%u   has stopped", node->id);
    lq_hub_stop(node->hub, clock_ms(node));
    sim_conn_serve_all(node);
    if (node->sim->checks != NULL) {
        sim_checks_node_stopped(node->sim->checks, node->id, false);
    }
    end_process(node, SIM_DEATH_PROCESS);
    sim_node_start_at(node, node->sim->now_us + sim_between(node->sim, 10, 3000) * SIM_MS);
}

/* ---- When turns are due. */

static void on_turn(struct sim *sim, void *argument)
{
    struct sim_node *node = argument;
    (void)sim;
    node->turn_event = 0;
    sim_node_turn(node, clock_ms(node));
}

static void turn_at(struct sim_node *node, uint64_t us)
{
    if (!node->is_up || node->is_paused || (node->turn_event != 0 && node->turn_us <= us)) {
        return;
    }
    sim_cancel(node->sim, node->turn_event);
    node->turn_us = us;
    node->turn_event = sim_at(node->sim, us, on_turn, node);
}

void sim_node_wake(struct sim_node *node)
{
    node->n_idle = 0;
    turn_at(node, node->sim->now_us + node->loop_us);
}

void sim_node_sleep(struct sim_node *node)
{
    uint64_t deadline_ms = lq_hub_deadline(node->hub), us;
    if (node->is_leaving) {
        turn_at(node, node->sim->now_us + 10 * SIM_MS);
    }
    if (deadline_ms == LQ_NEVER) {
        return;
    }
    us = deadline_ms == 0 ? 0 : sim_node_real_us(node, deadline_ms);
    if (us <= node->sim->now_us) {
        us = node->sim->now_us + 1;
        if (++node->n_idle > IDLE_MAX) {
            sim_fail(node->sim, "node %u spins: its deadline is always over", node->id);
        }
    } else {
        node->n_idle = 0;
    }
    turn_at(node, us);
}

/* ---- What others ask. */

unsigned sim_n_nodes(const struct sim *sim)
{
    return sim->n_nodes;
}

bool sim_node_is_up(const struct sim *sim, uint32_t node)
{
    return sim->nodes[node].is_up;
}

struct lq_replica *sim_node_replica(struct sim *sim, uint32_t node)
{
    return sim->nodes[node].replica;
}

struct lq_hub *sim_node_hub(struct sim *sim, uint32_t node)
{
    return sim->nodes[node].hub;
}

uint64_t sim_node_clock_ms(const struct sim *sim, uint32_t node)
{
    return clock_ms(&sim->nodes[node]);
}

uint64_t sim_node_started_us(const struct sim *sim, uint32_t node)
{
    return sim->nodes[node].started_us;
}

bool sim_node_is_paused(const struct sim *sim, uint32_t node)
{
    return sim->nodes[node].is_paused;
}

bool sim_node_is_rotten(const struct sim *sim, uint32_t node)
{
    return sim->nodes[node].is_rotten;
}
