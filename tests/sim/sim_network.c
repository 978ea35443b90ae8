/* A connection of a pair has a number, and two ends. Each end knows it for itself: one may have
 * lost it, or have a newer one, while the other still sends. What arrives for a connection that the
 * receiver does not have is answered with a reset. Dialling goes on as long as an end has none.
 *
 * TCP sends again what a blocked way swallows, so messages wait there until the way is open, or the
 * connection is given up after some 12 seconds, by each end for itself. In some runs they are lost
 * instead, but never a hello: an end that does not get it would have no link, and the other one
 * would never learn of that. */
#include "sim_network.h"

#include "lq_mem.h"
#include "lq_message.h"
#include "sim_world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TICK_US  (50 * SIM_MS)
#define GIVE_UP  (12 * SIM_S) /* of a connection through which nothing gets */
#define FULL     (256 * 1024) /* bytes on one way before its sender is told */
#define NOT_FULL (64 * 1024)

static void on_tick(struct sim *sim, void *argument);

static struct sim_way *way_of(struct sim *sim, uint32_t from, uint32_t to)
{
    return &sim->network.ways[from][to];
}

static bool is_open(struct sim *sim, uint32_t a, uint32_t b)
{
    return !way_of(sim, a, b)->is_blocked && !way_of(sim, b, a)->is_blocked;
}

void sim_network_init(struct sim_network *network, struct sim *sim)
{
    uint32_t base_us = (uint32_t)(100U << sim_between(sim, 0, 5));
    bool is_wide = sim_percent(sim, 10);
    network->jitter_us = (uint32_t)sim_between(sim, 0, base_us);
    lq_list_init(&network->moving);
    for (uint32_t a = 0; a <= SIM_NODES_MAX; a++) {
        for (uint32_t b = 0; b <= SIM_NODES_MAX; b++) {
            struct sim_way *way = &network->ways[a][b];
            lq_list_init(&way->held);
            way->latency_us = base_us;
            if (is_wide) {
                way->latency_us += (uint32_t)sim_between(sim, 0, 20) * 1000;
            }
        }
    }
    (void)sim_at(sim, 0, on_tick, NULL);
}

static void free_list(struct lq_list *list)
{
    struct lq_list *link;
    while ((link = lq_list_take(list)) != NULL) {
        lq_free(LQ_CONTAINER(link, struct sim_input, in_list));
    }
}

void sim_network_done(struct sim_network *network)
{
    free_list(&network->moving);
    for (uint32_t a = 0; a <= SIM_NODES_MAX; a++) {
        for (uint32_t b = 0; b <= SIM_NODES_MAX; b++) {
            free_list(&network->ways[a][b].held);
        }
    }
}

static uint64_t draw_latency(struct sim *sim, const struct sim_way *way)
{
    uint64_t us = way->latency_us;
    if (sim->network.jitter_us > 0) {
        us += lq_rand_below(&sim->rand, sim->network.jitter_us);
    }
    return us;
}

/* ---- Inputs on their way. */

static void on_arrival(struct sim *sim, void *argument);

void sim_network_move(struct sim *sim, struct sim_input *input, bool is_in_order)
{
    struct sim_way *way = way_of(sim, input->from, input->to);
    uint64_t us = sim->now_us + draw_latency(sim, way);
    if (is_in_order && us < way->last_us) {
        us = way->last_us;
    }
    if (is_in_order) {
        way->last_us = us;
    }
    lq_list_append(&sim->network.moving, &input->in_list);
    (void)sim_at(sim, us, on_arrival, input);
}

static struct sim_input *new_input(enum sim_input_kind kind, uint32_t from, uint32_t to,
                                   uint64_t connection)
{
    struct sim_input *input = sim_input_new(kind, NULL, 0);
    input->from = input->peer = from;
    input->to = to;
    input->connection = connection;
    return input;
}

/* The kernel of `node` has lost the connection that it had with `peer`. */
static void break_end(struct sim *sim, uint32_t node, uint32_t peer)
{
    struct sim_way *way = way_of(sim, node, peer);
    struct sim_input *input;
    if (way->connection == 0) {
        return;
    }
    way->connection = 0;
    way->was_refused = false;
    way->may_refuse = true;
    way->broken_since_us = 0;
    input = sim_input_new(SIM_INPUT_LINK_DOWN, NULL, 0);
    input->peer = peer;
    sim_node_input(&sim->nodes[node], input);
}

/* Tells the other end that a connection is no more: it learns it if the way is open. */
static void send_reset(struct sim *sim, uint32_t from, uint32_t to, uint64_t connection)
{
    if (connection != 0 && !way_of(sim, from, to)->is_blocked) {
        sim_network_move(sim, new_input(SIM_INPUT_LINK_DOWN, from, to, connection), true);
    }
}

static void set_full(struct sim *sim, uint32_t from, uint32_t to)
{
    struct sim_way *way = way_of(sim, from, to);
    struct sim_input *input;
    bool is_full = way->is_full ? way->queued_bytes > NOT_FULL : way->queued_bytes > FULL;
    if (is_full == way->is_full || !sim->nodes[from].is_up) {
        return;
    }
    way->is_full = is_full;
    input = sim_input_new(SIM_INPUT_LINK_FULL, NULL, 0);
    input->peer = to;
    input->flag = is_full;
    sim_node_input(&sim->nodes[from], input);
}

void sim_network_leave(struct sim *sim, const struct sim_input *input)
{
    if (input->kind == SIM_INPUT_MESSAGE) {
        way_of(sim, input->from, input->to)->queued_bytes -= input->len;
        set_full(sim, input->from, input->to);
    }
}

static void dial(struct sim *sim, uint32_t from, uint32_t to);

/* Nobody takes it: says so, if there is a kernel that can. */
static void bounce(struct sim *sim, struct sim_input *input)
{
    const struct sim_node *node = &sim->nodes[input->to];
    if ((node->is_up || !node->is_silent) && input->kind != SIM_INPUT_LINK_DOWN) {
        send_reset(sim, input->to, input->from, input->connection);
    }
    sim_network_leave(sim, input);
    lq_free(input);
}

static void note_hash(struct sim *sim, const struct sim_input *input)
{
    sim_note_hash(sim, (uint64_t)input->from << 56 ^ (uint64_t)input->to << 48 ^ input->len);
    for (size_t i = 0; i + 8 <= input->len; i += 8) {
        uint64_t word;
        memcpy(&word, input->bytes + i, sizeof word);
        sim_note_hash(sim, word);
    }
}

static void arrive(struct sim *sim, struct sim_input *input)
{
    uint32_t to = input->to, from = input->from;
    if (way_of(sim, to, from)->connection != input->connection) {
        bounce(sim, input);
    } else if (input->kind == SIM_INPUT_LINK_DOWN) {
        break_end(sim, to, from);
        lq_free(input);
        dial(sim, to, from);
    } else {
        note_hash(sim, input);
        sim_node_input(&sim->nodes[to], input);
    }
}

static void on_arrival(struct sim *sim, void *argument)
{
    struct sim_input *input = argument;
    struct sim_way *way = way_of(sim, input->from, input->to);
    lq_list_remove(&input->in_list);
    if (!way->is_blocked) {
        arrive(sim, input);
    } else if (sim->network.drops_blocked && input->kind != SIM_INPUT_LINK_UP) {
        sim_network_leave(sim, input);
        lq_free(input);
    } else {
        lq_list_append(&way->held, &input->in_list);
    }
}

/* ---- Connections. */

/* The hello of one end goes to the other. */
static void say_hello(struct sim *sim, uint32_t from, uint32_t to, uint64_t connection)
{
    struct sim_input *input = new_input(SIM_INPUT_LINK_UP, from, to, connection);
    struct sim_way *way = way_of(sim, from, to);
    input->hello = lq_replica_hello(sim->nodes[from].replica, to);
    way->connection = connection;
    way->broken_since_us = 0;
    way->may_refuse = true;
    sim_network_move(sim, input, true);
}

static bool has_listener(struct sim *sim, uint32_t node)
{
    return sim->nodes[node].is_up && lq_replica_status(sim->nodes[node].replica).boot != 0;
}

static bool knows(struct sim *sim, uint32_t node, uint32_t peer)
{
    return lq_members_find(lq_replica_members(sim->nodes[node].replica), peer) != NULL;
}

/* The answer to a dial, one round trip later: `input` goes from the dialled node to the dialler. */
static void on_dialled(struct sim *sim, void *argument)
{
    struct sim_input *input = argument;
    uint32_t from = input->from, to = input->to; /* from: the dialled one */
    struct sim_way *way = way_of(sim, to, from);
    lq_list_remove(&input->in_list);
    if (way->connection != 0 || !has_listener(sim, to) || !is_open(sim, to, from) ||
        (!sim->nodes[from].is_up && sim->nodes[from].is_silent) || sim->nodes[to].is_paused ||
        sim->nodes[from].is_paused) {
        lq_free(input);
        return;
    }
    if (has_listener(sim, from)) {
        uint64_t connection = ++sim->network.n_connections;
        say_hello(sim, from, to, connection);
        say_hello(sim, to, from, connection);
        lq_free(input);
        return;
    }
    if (way->was_refused || !way->may_refuse) {
        lq_free(input);
        return;
    }
    way->was_refused = true;
    input->kind = SIM_INPUT_LINK_DOWN;
    input->flag = true;
    sim_node_input(&sim->nodes[to], input);
}

static void dial(struct sim *sim, uint32_t from, uint32_t to)
{
    struct sim_way *way = way_of(sim, from, to);
    struct sim_input *input;
    if (way->connection != 0 || !has_listener(sim, from) || sim->nodes[from].is_paused ||
        !is_open(sim, from, to)) {
        return;
    }
    if (!knows(sim, from, to)) {
        return;
    }
    input = new_input(SIM_INPUT_LINK_UP, to, from, 0);
    lq_list_append(&sim->network.moving, &input->in_list);
    (void)sim_at(sim,
                 sim->now_us + draw_latency(sim, way) + draw_latency(sim, way_of(sim, to, from)),
                 on_dialled, input);
}

/* Through such a connection nothing gets, and nobody says so. */
static bool is_broken(struct sim *sim, uint32_t a, uint32_t b)
{
    struct sim_way *way = way_of(sim, a, b);
    return way->connection != 0 &&
           (!is_open(sim, a, b) || way_of(sim, b, a)->connection != way->connection);
}

static void look_at(struct sim *sim, uint32_t a, uint32_t b)
{
    struct sim_way *way = way_of(sim, a, b);
    if (!is_broken(sim, a, b)) {
        way->broken_since_us = 0;
    } else if (way->broken_since_us == 0) {
        way->broken_since_us = sim->now_us;
    } else if (sim->now_us - way->broken_since_us > GIVE_UP) {
        break_end(sim, a, b);
    }
    dial(sim, a, b);
}

static void on_tick(struct sim *sim, void *argument)
{
    (void)argument;
    for (uint32_t a = 1; a <= sim->n_nodes; a++) {
        for (uint32_t b = 1; b <= sim->n_nodes && sim->nodes[a].is_up; b++) {
            if (a != b) {
                look_at(sim, a, b);
            }
        }
    }
    (void)sim_at(sim, sim->now_us + TICK_US, on_tick, NULL);
}

/* A node that is no member any more gets told, then the connection is closed. */
static void tell_removed(struct sim *sim, struct sim_node *node, uint32_t peer, uint64_t connection)
{
    struct lq_replica_status status = lq_replica_status(node->replica);
    struct lq_message message = {
        .kind = LQ_MESSAGE_REMOVED, .time_ms = status.table_ms, .index = status.applied_index};
    struct lq_buffer buffer;
    lq_buffer_init(&buffer);
    lq_message_put(&buffer, &message, NULL, NULL);
    way_of(sim, node->id, peer)->linked = connection;
    sim_network_send(sim, node->id, peer, buffer.bytes, buffer.len);
    lq_buffer_done(&buffer);
}

void sim_network_link_up(struct sim *sim, struct sim_node *node, const struct sim_input *input)
{
    static const char *const verdicts[] = {"ok",        "wrong cluster", "wrong node", "no member",
                                           "lost disk", "old disk",      "old life"};
    struct sim_way *way = way_of(sim, node->id, input->peer);
    enum lq_link_verdict verdict;
    if (way->connection != input->connection) {
        return; /* broken meanwhile */
    }
    way->is_full = false;
    verdict = lq_replica_link_up(node->replica, &input->hello);
    sim_trace(sim, "%u   link with %u (boot %" PRIu64 "%s): %s", node->id, input->peer,
              input->hello.boot, input->hello.is_blank ? ", blank" : "", verdicts[verdict]);
    if (verdict == LQ_LINK_OK) {
        way->linked = input->connection;
        return;
    }
    if (verdict == LQ_LINK_NOT_MEMBER) {
        tell_removed(sim, node, input->peer, input->connection);
    }
    sim_network_close(sim, node->id, input->peer);
    way->may_refuse = false;
}

void sim_network_close(struct sim *sim, uint32_t node, uint32_t peer)
{
    struct sim_way *way = way_of(sim, node, peer);
    send_reset(sim, node, peer, way->connection);
    way->connection = way->linked = 0;
    way->was_refused = true; /* it was not the peer's end */
    way->broken_since_us = 0;
}

void sim_network_died(struct sim *sim, uint32_t node, enum sim_death death)
{
    for (uint32_t peer = 1; peer <= sim->n_nodes; peer++) {
        struct sim_way *way = way_of(sim, node, peer);
        if (death == SIM_DEATH_PROCESS) {
            send_reset(sim, node, peer, way->connection);
        }
        way->connection = way->linked = 0;
        way->was_refused = way->may_refuse = way->is_full = false;
        way->broken_since_us = 0;
    }
}

void sim_network_block(struct sim *sim, uint32_t from, uint32_t to, bool is_blocked)
{
    struct sim_way *way = way_of(sim, from, to);
    struct lq_list *link;
    way->is_blocked = is_blocked;
    if (is_blocked) {
        return;
    }
    /* What was held is sent again, in order, once the kernel's timer tries. */
    if (!lq_list_is_empty(&way->held)) {
        uint64_t again_us = sim->now_us + sim_between(sim, 0, 300) * SIM_MS;
        way->last_us = way->last_us > again_us ? way->last_us : again_us;
    }
    while ((link = lq_list_take(&way->held)) != NULL) {
        sim_network_move(sim, LQ_CONTAINER(link, struct sim_input, in_list), true);
    }
}
