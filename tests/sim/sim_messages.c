/* Messages between nodes: cut out of what a node sends, put on their way, lost, doubled or damaged
 * where the seed says so, and told in the timeline. */
#include "lq_mem.h"
#include "lq_message.h"
#include "sim_world.h"

#include <inttypes.h>
#include <stdio.h>

/* Flips a bit in an entry of an APPEND: what checksums are for. Anything else in a message is
 * beyond what a node could notice, and beyond what TCP lets through. */
static bool damage(struct sim *sim, struct sim_input *input)
{
    struct lq_message message;
    struct lq_message_entry entry;
    uint64_t skip;
    size_t at;
    if (!lq_message_decode(input->bytes, input->len, &message) ||
        message.kind != LQ_MESSAGE_APPEND || message.count == 0) {
        return false;
    }
    skip = sim_between(sim, 0, message.count - 1);
    do {
        if (!lq_message_next_entry(&message, &entry)) {
            return false;
        }
    } while (skip-- > 0);
    if (entry.len == 0) {
        return false;
    }
    at = (size_t)(entry.bytes - input->bytes) + (size_t)sim_between(sim, 0, entry.len - 1);
    input->bytes[at] ^= (uint8_t)(1U << sim_between(sim, 0, 7));
    input->flag = true;
    return true;
}

static bool strikes(struct sim *sim, unsigned hundredths)
{
    return hundredths > 0 && lq_rand_below(&sim->rand, 10000) < hundredths;
}

static void send_one(struct sim *sim, uint32_t from, uint32_t to, const uint8_t *body, size_t len)
{
    struct sim_network *network = &sim->network;
    struct sim_way *way = &network->ways[from][to];
    unsigned copies = strikes(sim, network->duplication) ? 2 : 1;
    if (strikes(sim, network->loss)) {
        return;
    }
    for (unsigned i = 0; i < copies; i++) {
        struct sim_input *input = sim_input_new(SIM_INPUT_MESSAGE, body, len);
        input->from = input->peer = from;
        input->to = to;
        input->connection = way->connection;
        if (strikes(sim, network->damage) && damage(sim, input)) {
            sim_trace(sim, "%u -> %u  a message is damaged", from, to);
        }
        way->queued_bytes += len;
        sim_network_move(sim, input, !strikes(sim, network->reordering));
    }
}

void sim_network_send(struct sim *sim, uint32_t from, uint32_t to, const uint8_t *bytes, size_t len)
{
    const struct sim_way *way = &sim->network.ways[from][to];
    const uint8_t *body;
    size_t body_len, used;
    if (way->linked == 0 || way->linked != way->connection) {
        return;
    }
    while (len > 0) {
        if (lq_message_unframe(bytes, len, LQ_MESSAGE_MAX, &body, &body_len, &used) !=
            LQ_FRAMED_ONE) {
            sim_fail(sim, "node %u sends what is no whole message", from);
            return;
        }
        send_one(sim, from, to, body, body_len);
        bytes += used;
        len -= used;
    }
}

/* ---- The timeline. */

static void describe_append(const struct lq_message *message, char *ret_text, size_t cap)
{
    (void)snprintf(
        ret_text, cap,
        "append term %" PRIu64 ", %u entries after %" PRIu64 " (term %" PRIu64 "), commit %" PRIu64,
        message->term, message->count, message->prev_index, message->prev_term, message->commit);
}

static void describe_vote(const struct lq_message *message, char *ret_text, size_t cap)
{
    const char *kind = message->is_pre_vote ? "pre-vote" : "vote";
    if (message->kind == LQ_MESSAGE_VOTE) {
        (void)snprintf(ret_text, cap,
                       "asks for a %s: term %" PRIu64 ", last %" PRIu64 " of term %" PRIu64, kind,
                       message->term, message->last_index, message->last_term);
    } else {
        (void)snprintf(ret_text, cap, "%s %s in term %" PRIu64,
                       message->is_granted ? "gives its" : "refuses a", kind, message->term);
    }
}

bool sim_network_describe(const uint8_t *body, size_t len, char *ret_text, size_t cap)
{
    static const char *const names[] = {"?",        "vote",    "vote result", "append",
                                        "appended", "timeout", "open",        "close",
                                        "submit",   "resend",  "outcomes",    "ping",
                                        "removed",  "digest",  "chunk",       "chunk result"};
    struct lq_message message;
    if (!lq_message_decode(body, len, &message) || message.kind == LQ_MESSAGE_PING ||
        message.kind == LQ_MESSAGE_DIGEST) {
        return false;
    }
    if (message.kind == LQ_MESSAGE_VOTE || message.kind == LQ_MESSAGE_VOTE_RESULT) {
        describe_vote(&message, ret_text, cap);
    } else if (message.kind == LQ_MESSAGE_APPEND) {
        describe_append(&message, ret_text, cap);
        return message.count > 0;
    } else if (message.kind == LQ_MESSAGE_APPEND_RESULT) {
        (void)snprintf(ret_text, cap,
                       "has up to %" PRIu64 ", rejects %" PRIu64 " (term %" PRIu64 ")",
                       message.last_index, message.rejected, message.term);
        return message.rejected != 0;
    } else {
        (void)snprintf(ret_text, cap,
                       "%s term %" PRIu64 " incarnation %" PRIu64 " next %" PRIu64
                       " through %" PRIu64 " index %" PRIu64 " offset %" PRIu64 " of %" PRIu64,
                       names[message.kind], message.term, message.incarnation, message.next_seq,
                       message.through, message.index, message.offset, message.total);
    }
    return true;
}
