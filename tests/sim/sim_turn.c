/* A turn of a node, as lq_replica.h has it: timers, events, sessions, one batch, effects. */
#include "sim_checks.h"
#include "sim_conn.h"
#include "sim_world.h"

#include "lq_mem.h"
#include "lq_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct sim_input *sim_input_new(enum sim_input_kind kind, const uint8_t *bytes, size_t len)
{
    struct sim_input *input = lq_malloc(sizeof *input + len);
    *input = (struct sim_input){.kind = kind, .len = len};
    lq_list_init(&input->in_list);
    if (bytes != NULL) {
        memcpy(input->bytes, bytes, len);
    }
    return input;
}

void sim_node_input(struct sim_node *node, struct sim_input *input)
{
    if (!node->is_up) {
        sim_network_leave(node->sim, input);
        lq_free(input);
        return;
    }
    lq_list_append(&node->inputs, &input->in_list);
    sim_node_wake(node);
}

/* ---- Inputs. */

static void act_on_disk(struct sim_node *node, const struct sim_input *input)
{
    struct lq_replica *replica = node->replica;
    if (input->disk == LQ_EFFECT_ALLOCATE && input->flag) {
        lq_replica_no_room(replica);
    } else if (input->disk == LQ_EFFECT_ALLOCATE) {
        lq_replica_allocated(replica, lq_rand_next(&node->sim->rand) | 1);
    } else if (input->disk == LQ_EFFECT_SEGMENT) {
        lq_replica_segment_ready(replica);
    } else if (input->disk == LQ_EFFECT_WRITE) {
        lq_replica_written(replica);
    } else if (input->disk == LQ_EFFECT_DELETE) {
        lq_replica_deleted(replica);
    } else if (input->flag) {
        lq_replica_snapshot_failed(replica, input->number != 0);
    } else if (input->disk == LQ_EFFECT_SNAPSHOT_FINISH) {
        lq_replica_snapshot_finished(replica, input->number != 0);
    } else if (input->disk == LQ_EFFECT_SNAPSHOT_LOAD) {
        lq_replica_snapshot_loaded(replica, input->bytes, input->len);
    } else if (input->disk == LQ_EFFECT_SNAPSHOT_READ) {
        lq_replica_snapshot_read(replica, input->number, input->bytes, input->len);
    }
}

static void act_on_message(struct sim_node *node, const struct sim_input *input)
{
    struct sim *sim = node->sim;
    char text[SIM_LINE_MAX];
    if (sim->network.ways[node->id][input->peer].linked != input->connection) {
        return;
    }
    if (sim_is_traced(sim) && sim_network_describe(input->bytes, input->len, text, sizeof text)) {
        sim_trace(sim, "%u <- %u  %s%s", node->id, input->peer, text,
                  input->flag ? " (damaged)" : "");
    }
    if (!lq_replica_receive(node->replica, input->peer, input->bytes, input->len)) {
        if (!input->flag) {
            sim_fail(sim, "node %u takes a message of node %u for none", node->id, input->peer);
        }
        sim_network_close(sim, node->id, input->peer);
        lq_replica_link_down(node->replica, input->peer, false);
    }
}

static void act_on_change(struct sim_node *node, const struct sim_input *input)
{
    static const char *const kinds[] = {"add", "promote", "demote", "remove", "transfer to"};
    static const char *const results[] = {"done", "started", "busy", "not leader", "invalid"};
    enum lq_change_kind kind = (enum lq_change_kind)input->number;
    enum lq_change_result result;
    char address[32];
    (void)snprintf(address, sizeof address, "node%u:1", input->peer);
    result =
        lq_replica_change(node->replica, kind, input->peer, kind == LQ_CHANGE_ADD ? address : NULL);
    sim_trace(node->sim, "%u   asked to %s %u: %s", node->id, kinds[kind], input->peer,
              results[result]);
}

static void act_on(struct sim_node *node, const struct sim_input *input)
{
    struct sim_way *way = &node->sim->network.ways[node->id][input->peer];
    switch (input->kind) {
    case SIM_INPUT_LINK_UP:
        sim_network_link_up(node->sim, node, input);
        break;
    case SIM_INPUT_LINK_DOWN:
        if (way->linked == 0 || way->linked != way->connection) {
            sim_trace(node->sim, "%u   link to %u is %s", node->id, input->peer,
                      input->flag ? "refused" : "down");
            way->linked = 0;
            lq_replica_link_down(node->replica, input->peer, input->flag);
        }
        break;
    case SIM_INPUT_LINK_FULL:
        if (way->linked != 0) {
            lq_replica_link_full(node->replica, input->peer, input->flag);
        }
        break;
    case SIM_INPUT_MESSAGE:
        act_on_message(node, input);
        break;
    case SIM_INPUT_DISK:
        act_on_disk(node, input);
        break;
    case SIM_INPUT_CHANGE:
        act_on_change(node, input);
        break;
    }
}

static void act_on_all(struct sim_node *node)
{
    struct lq_list *link;
    if (node->is_leaving && !node->was_told_to_leave) {
        node->was_told_to_leave = true;
        lq_replica_leave(node->replica);
    }
    while ((link = lq_list_take(&node->inputs)) != NULL) {
        struct sim_input *input = LQ_CONTAINER(link, struct sim_input, in_list);
        sim_network_leave(node->sim, input);
        act_on(node, input);
        lq_free(input);
    }
}

/* ---- Effects. */

static void tell_note(struct sim_node *node, const struct lq_effect *effect)
{
    static const struct {
        const char *text;
        bool has_number;
    } notes[] = {
        [LQ_NOTE_FOLLOWER] = {"follower in term", true},
        [LQ_NOTE_CANDIDATE] = {"candidate in term", true},
        [LQ_NOTE_LEADER] = {"LEADER in term", true},
        [LQ_NOTE_SERVING] = {"serves clients, incarnation", true},
        [LQ_NOTE_CLOSED] = {"its own origin is closed, incarnation", true},
        [LQ_NOTE_MEMBERS] = {"other members from entry", true},
        [LQ_NOTE_SNAPSHOT] = {"snapshot taken at entry", true},
        [LQ_NOTE_INSTALLED] = {"snapshot installed at entry", true},
        [LQ_NOTE_ORIGIN_DEAD] = {"closes the origin of node", true},
        [LQ_NOTE_FULL] = {"disk full", false},
        [LQ_NOTE_ROOM] = {"disk has room again", false},
        [LQ_NOTE_SKIP] = {"nobody leads: skips the timeout", false},
    };
    sim_note_hash(node->sim, (uint64_t)effect->note << 32 ^ effect->a << 8 ^ effect->b);
    if (effect->note < 1 || (size_t)effect->note >= sizeof notes / sizeof notes[0]) {
        return;
    }
    if (effect->note == LQ_NOTE_FOLLOWER && effect->b != 0) {
        sim_trace(node->sim, "%u   follower of %" PRIu64 " in term %" PRIu64, node->id, effect->b,
                  effect->a);
    } else if (notes[effect->note].has_number) {
        sim_trace(node->sim, "%u   %s %" PRIu64, node->id, notes[effect->note].text, effect->a);
    } else {
        sim_trace(node->sim, "%u   %s", node->id, notes[effect->note].text);
    }
}

/* The replica has given up. That is right only after something was done to it. */
static void stop(struct sim_node *node, const char *text)
{
    bool is_explained = node->is_wiped || node->is_removed || node->is_rotten || node->is_flipped;
    sim_trace(node->sim, "%u   STOPS: %s", node->id, text);
    if (!is_explained) {
        sim_fail(node->sim, "node %u stops: %s", node->id, text);
    }
    node->is_gone = true;
    if (node->is_rotten && !node->sim->is_calm) {
        sim_operator_replace(node->sim, node->id);
    }
    sim_node_crash(node, SIM_DEATH_PROCESS);
}

/* Whether a crash can leave it half done. */
static bool is_large(const struct lq_effect *effect)
{
    return (effect->kind == LQ_EFFECT_WRITE && effect->write.len > LQ_SECTOR) ||
           effect->kind == LQ_EFFECT_SEGMENT || effect->kind == LQ_EFFECT_DELETE ||
           effect->kind == LQ_EFFECT_SNAPSHOT_FINISH;
}

/* Whether among the messages is a vote for somebody. */
static bool has_vote(const struct lq_effect *effect)
{
    const uint8_t *bytes = effect->bytes, *body;
    size_t len = effect->len, body_len, used;
    struct lq_message message;
    while (len > 0 && lq_message_unframe(bytes, len, LQ_MESSAGE_MAX, &body, &body_len, &used) ==
                          LQ_FRAMED_ONE) {
        if (lq_message_decode(body, body_len, &message) && message.kind == LQ_MESSAGE_VOTE_RESULT &&
            message.is_granted && !message.is_pre_vote) {
            return true;
        }
        bytes += used;
        len -= used;
    }
    return false;
}

static void on_voters_death(struct sim *sim, void *argument)
{
    struct sim_node *node = argument;
    unsigned left = node->dies_voting;
    if (node->is_up) {
        sim_node_crash(node, SIM_DEATH_PROCESS);
        sim_node_start_at(node, sim->now_us + sim_between(sim, 100, 20000));
        node->dies_voting = left;
    }
}

static void on_death(struct sim *sim, void *argument)
{
    struct sim_node *node = argument;
    if (node->is_up) {
        sim_node_crash(node, sim_percent(sim, 70) ? SIM_DEATH_PROCESS : SIM_DEATH_MACHINE);
        sim_node_start_at(node, sim->now_us + sim_between(sim, 1, 3000) * SIM_MS);
        node->dies_writing = sim_percent(sim, 40); /* again, when it catches up */
    }
}

/* Returns false when the process has ended. */
static bool carry_out(struct sim_node *node, const struct lq_effect *effect)
{
    switch (effect->kind) {
    case LQ_EFFECT_SEND:
        sim_network_send(node->sim, node->id, effect->node, effect->bytes, effect->len);
        break;
    case LQ_EFFECT_UNLINK:
        sim_trace(node->sim, "%u   closes the link to %u: %s", node->id, effect->node,
                  effect->text);
        sim_network_close(node->sim, node->id, effect->node);
        break;
    case LQ_EFFECT_NOTE:
        tell_note(node, effect);
        break;
    case LQ_EFFECT_STOP:
        stop(node, effect->text);
        return false;
    case LQ_EFFECT_ALLOCATE:
    case LQ_EFFECT_SEGMENT:
    case LQ_EFFECT_WRITE:
    case LQ_EFFECT_DELETE:
    case LQ_EFFECT_SNAPSHOT_WRITE:
    case LQ_EFFECT_SNAPSHOT_FINISH:
    case LQ_EFFECT_SNAPSHOT_DROP:
    case LQ_EFFECT_SNAPSHOT_DELETE:
    case LQ_EFFECT_SNAPSHOT_LOAD:
    case LQ_EFFECT_SNAPSHOT_READ:
        sim_disk_submit(&node->disk, effect);
        break;
    }
    if (node->dies_writing && !sim_is_calm(node->sim) && is_large(effect) &&
        sim_percent(node->sim, 50)) {
        uint64_t us = sim_between(node->sim, 0, 2 * (uint64_t)node->disk.latency_us);
        node->dies_writing = false;
        (void)sim_at(node->sim, node->sim->now_us + us, on_death, node);
    }
    if (node->dies_voting > 0 && effect->kind == LQ_EFFECT_SEND && has_vote(effect)) {
        node->dies_voting--;
        (void)sim_at(node->sim, node->sim->now_us + sim_between(node->sim, 0, 2000),
                     on_voters_death, node);
    }
    if (node->crash_in > 0 && --node->crash_in == 0) {
        on_death(node->sim, node);
        return false;
    }
    return true;
}

static bool carry_out_all(struct sim_node *node)
{
    struct lq_effect effect;
    while (lq_replica_take(node->replica, &effect)) {
        if (!carry_out(node, &effect)) {
            return false;
        }
    }
    return true;
}

/* ---- The turn. */

void sim_node_turn(struct sim_node *node, uint64_t now_ms)
{
    lq_replica_wake(node->replica, now_ms);
    act_on_all(node);
    sim_conn_read_all(node);
    lq_replica_turn(node->replica);
    lq_hub_turn(node->hub, now_ms);
    lq_replica_flush(node->replica);
    if (node->serves_first) {
        sim_conn_serve_all(node);
    }
    if (!carry_out_all(node)) {
        return;
    }
    sim_conn_serve_all(node);
    if (node->sim->checks != NULL) {
        sim_checks_node_turn(node->sim->checks, node->id);
    }
    if (node->is_leaving &&
        (lq_replica_has_left(node->replica) || node->sim->now_us >= node->stop_by_us)) {
        sim_node_end_leave(node);
        return;
    }
    sim_node_sleep(node);
}
