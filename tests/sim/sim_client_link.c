#include "sim_client_link.h"

#include "lq_check.h"
#include "lq_frame.h"
#include "lq_limits.h"
#include "lq_mem.h"
#include "sim_client_keys.h"

#include <inttypes.h>
#include <string.h>

/* A node may hold releases and renewals back, by not reading on, while so many requests of a
 * connection are open; what comes then may take as long as those. */
#define HELD_BACK 4

static void free_link(struct sim_link *link)
{
    for (size_t i = 0; i < link->n_pending; i++) {
        sim_checks_given_up(link->checks, link->pending[i].id);
    }
    lq_list_remove(&link->in_list);
    lq_buffer_done(&link->in);
    lq_buffer_done(&link->out);
    lq_free(link->pending);
    lq_free(link);
}

/* ---- Answers. */

static bool is_answer_to(const struct sim_pending *request, const struct lq_frame *frame,
                         uint32_t key)
{
    switch (request->op) {
    case LQ_OP_ACQUIRE:
        return (frame->op == LQ_OP_ACQUIRE || frame->op == LQ_OP_TIMEOUT ||
                frame->op == LQ_OP_BUSY) &&
               request->owner == frame->owner && request->key == key;
    case LQ_OP_PING:
        return frame->op == LQ_OP_PING && request->owner == frame->owner;
    default: /* R and K of one token are answered in their order */
        return (frame->op == LQ_OP_RELEASE || frame->op == LQ_OP_RENEW ||
                frame->op == LQ_OP_NOT_HELD) &&
               request->token == frame->token && request->key == key;
    }
}

/* What E says: fine if the client asked for it, or the node is stopping. */
static void on_error(struct sim_link *link, const struct lq_frame *frame)
{
    if (frame->code == LQ_WIRE_SHUTTING_DOWN) {
        link->is_ending = true;
        return;
    }
    if (!link->is_ending) {
        sim_fail(link->sim, "frames: node %u answers E %u to a client that kept the rules",
                 link->node, frame->code);
    }
}

static void on_frame(struct sim_link *link, const struct lq_frame *frame)
{
    uint32_t key = frame->key_len > 0 ? sim_key_of(frame->key, frame->key_len) : 0;
    if (frame->op == LQ_OP_ERROR) {
        on_error(link, frame);
        return;
    }
    for (size_t i = 0; i < link->n_pending; i++) {
        struct sim_pending request = link->pending[i];
        if (!is_answer_to(&request, frame, key)) {
            continue;
        }
        link->n_pending--;
        memmove(&link->pending[i], &link->pending[i + 1],
                (link->n_pending - i) * sizeof *link->pending);
        sim_trace(link->sim,
                  "    client %u: %c for %c owner %" PRIu64 " key %u token %" PRIu64
                  " from node %u",
                  link->number, frame->op, request.op, request.owner, request.key, frame->token,
                  link->node);
        sim_checks_answered(link->checks, request.id, frame->op, frame->token);
        if (!sim_has_failed(link->sim)) {
            link->user->on_answer(link, &request, frame->op, frame->token);
        }
        return;
    }
    sim_fail(link->sim,
             "frames: node %u answers %c owner %" PRIu64 " token %" PRIu64
             " key %u, which nothing awaits",
             link->node, frame->op, frame->owner, frame->token, key);
}

static void on_bytes(void *argument, const uint8_t *bytes, size_t len)
{
    struct sim_link *link = argument;
    struct lq_frame frame;
    size_t at = 0, used = 0;
    lq_buffer_add(&link->in, bytes, len);
    while (at < link->in.len && !sim_has_failed(link->sim)) {
        enum lq_decoded decoded =
            lq_answer_decode(link->in.bytes + at, link->in.len - at, &frame, &used);
        if (decoded == LQ_DECODED_MORE) {
            break;
        }
        if (decoded == LQ_DECODED_BAD) {
            sim_fail(link->sim, "frames: node %u sends what is no answer", link->node);
            return;
        }
        on_frame(link, &frame);
        at += used;
    }
    memmove(link->in.bytes, link->in.bytes + at, link->in.len - at);
    link->in.len -= at;
}

/* ---- The end. */

static void end(struct sim_link *link, bool is_reset)
{
    uint64_t *open = lq_calloc(link->n_pending + 1, sizeof *open);
    sim_trace(link->sim, "    client %u: connection to node %u %s with %zu open requests",
              link->number, link->node, is_reset ? "is broken" : "was closed", link->n_pending);
    for (size_t i = 0; i < link->n_pending; i++) {
        open[i] = link->pending[i].id;
    }
    link->conn = NULL;
    if (!link->is_ending && !link->is_slow) {
        sim_checks_closed(link->checks, link->node, link->since_us, is_reset, open,
                          link->n_pending);
    }
    lq_free(open);
    link->user->on_over(link);
    free_link(link);
}

static void on_eof(void *argument)
{
    end(argument, false);
}

static void on_reset(void *argument)
{
    end(argument, true);
}

/* ---- Requests. */

struct sim_link *sim_link_open(struct sim *sim, struct sim_checks *checks, uint32_t node,
                               const struct sim_link_user *user, void *owner, unsigned number)
{
    static const struct sim_conn_events events = {
        .on_bytes = on_bytes, .on_eof = on_eof, .on_reset = on_reset};
    struct sim_link *link = lq_calloc(1, sizeof *link);
    *link = (struct sim_link){.sim = sim,
                              .checks = checks,
                              .user = user,
                              .owner = owner,
                              .node = node,
                              .number = number,
                              .since_us = sim_now(sim)};
    lq_list_init(&link->in_list);
    link->conn = sim_connect(sim, node, &events, link);
    if (link->conn == NULL) {
        lq_free(link);
        return NULL;
    }
    return link;
}

static void gather(struct sim_link *link, const struct lq_frame *frame)
{
    uint8_t bytes[LQ_FRAME_MAX];
    size_t len = lq_request_encode(frame, bytes, sizeof bytes);
    LQ_CHECK(len > 0);
    lq_buffer_add(&link->out, bytes, len);
}

static struct lq_frame frame_of(const struct sim_pending *request, uint8_t name[SIM_KEY_NAME])
{
    struct lq_frame frame = {.op = request->op, .owner = request->owner, .token = request->token};
    frame.wait_s = request->wait_s;
    frame.lease_s = request->lease_s;
    if (request->op != LQ_OP_PING) {
        frame.key_len = (uint16_t)sim_key_name(request->key, name);
        frame.key = name;
    }
    return frame;
}

uint64_t sim_link_request(struct sim_link *link, const struct sim_pending *request)
{
    uint8_t name[SIM_KEY_NAME];
    struct lq_frame frame = frame_of(request, name);
    struct sim_pending *kept;
    LQ_CHECK(!link->is_ending);
    if (link->n_pending == link->cap_pending) {
        link->cap_pending = 2 * link->cap_pending + 16;
        link->pending = lq_realloc(link->pending, link->cap_pending, sizeof *link->pending);
    }
    kept = &link->pending[link->n_pending++];
    *kept = *request;
    kept->sent_us = sim_now(link->sim);
    kept->id = sim_checks_sent(
        link->checks,
        &(struct sim_request){.op = request->op,
                              .wait_s = request->wait_s,
                              .lease_s = request->lease_s,
                              .node = link->node,
                              .connected_us = link->since_us,
                              .key = request->key,
                              .owner = request->owner,
                              .token = request->token,
                              .is_slow_reader = link->is_slow || link->n_pending >= HELD_BACK});
    sim_trace(link->sim,
              "    client %u: sends %c owner %" PRIu64 " key %u token %" PRIu64
              " wait %u lease %u to node %u",
              link->number, request->op, request->owner, request->key, request->token,
              request->wait_s, request->lease_s, link->node);
    gather(link, &frame);
    return kept->id;
}

void sim_link_cancel(struct sim_link *link, struct sim_pending *request)
{
    uint8_t name[SIM_KEY_NAME];
    LQ_CHECK(request->op == LQ_OP_ACQUIRE && !link->is_ending);
    sim_trace(link->sim, "    client %u: sends C owner %" PRIu64 " key %u to node %u", link->number,
              request->owner, request->key, link->node);
    request->is_cancelled = true;
    sim_checks_cancelled(link->checks, request->id);
    gather(link, &(struct lq_frame){.op = LQ_OP_CANCEL,
                                    .owner = request->owner,
                                    .key_len = (uint16_t)sim_key_name(request->key, name),
                                    .key = name});
}

/* Whatever waits is answered T now, or not at all. */
static void begin_to_end(struct sim_link *link)
{
    link->is_ending = true;
    for (size_t i = 0; i < link->n_pending; i++) {
        sim_checks_cancelled(link->checks, link->pending[i].id);
    }
}

void sim_link_garbage(struct sim_link *link)
{
    static const char garbage[] = "GET / HTTP/1.1\r\n\r\n";
    sim_trace(link->sim, "    client %u: sends garbage to node %u", link->number, link->node);
    lq_buffer_add(&link->out, garbage, sizeof garbage - 1);
    begin_to_end(link);
}

void sim_link_flush(struct sim_link *link)
{
    if (link->out.len > 0) {
        sim_conn_send(link->conn, link->out.bytes, link->out.len);
        link->out.len = 0;
    }
}

void sim_link_half_close(struct sim_link *link)
{
    sim_trace(link->sim, "    client %u: half-closes to node %u with %zu open requests",
              link->number, link->node, link->n_pending);
    sim_link_flush(link);
    begin_to_end(link);
    sim_conn_send_eof(link->conn);
}

void sim_link_window(struct sim_link *link, uint64_t bytes)
{
    if (bytes != UINT64_MAX) {
        link->is_slow = true;
        for (size_t i = 0; i < link->n_pending; i++) {
            sim_checks_excuse(link->checks, link->pending[i].id);
        }
    }
    sim_conn_set_window(link->conn, bytes);
}

void sim_link_close(struct sim_link *link)
{
    sim_trace(link->sim, "    client %u: closes to node %u with %zu open requests", link->number,
              link->node, link->n_pending);
    sim_conn_close(link->conn);
    free_link(link);
}

void sim_link_vanish(struct sim_link *link)
{
    sim_trace(link->sim, "    client %u: vanishes from node %u with %zu open requests",
              link->number, link->node, link->n_pending);
    sim_conn_vanish(link->conn);
    free_link(link);
}
