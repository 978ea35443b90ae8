/* The set of links: who is to be linked, what the node has to be told, and the one timer.
 *
 * What happens is noted at its peer and told by lq_links_settle: at the end of the callback in
 * which it happened, or from the timer when it happened inside of a call of the node. In this
 * order: links that broke, newcomers, attempts, what came of them. So a peer whose new connection
 * is there already is never dialled, and a refused attempt is told behind the break. */
#include "lq_check.h"
#include "lq_clock.h"
#include "lq_heap.h"
#include "lq_links_impl.h"
#include "lq_log.h"
#include "lq_mem.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static void on_timer(uv_timer_t *timer);

static struct lq_links_peer *peer_of(struct lq_list *member)
{
    return LQ_CONTAINER(member, struct lq_links_peer, in_peers);
}

/* ---- Life. */

void lq_links_defaults(struct lq_links_options *options)
{
    *options = (struct lq_links_options){
        .retry_min_ms = 20,
        .retry_max_ms = 1000,
        .full_bytes = (uint64_t)256 << 10,
        .queue_max_bytes = (uint64_t)64 << 20,
    };
}

struct lq_links *lq_links_new(uv_loop_t *loop, const struct lq_links_options *options,
                              const struct lq_links_user *user)
{
    struct lq_links *links = lq_calloc(1, sizeof *links);
    LQ_CHECK(options->node != 0 && options->retry_min_ms >= 1 &&
             options->retry_min_ms <= options->retry_max_ms);
    links->loop = loop;
    links->options = *options;
    links->user = *user;
    links->port_fd = -1;
    links->port_at_ms = links->timer_ms = LQ_NEVER;
    lq_list_init(&links->peers);
    lq_list_init(&links->conns);
    LQ_CHECK(getrandom(&links->random, sizeof links->random, 0) == sizeof links->random);
    LQ_CHECK(uv_timer_init(loop, &links->timer) == 0);
    links->n_open = 1;
    return links;
}

static void free_peer(struct lq_links_peer *peer)
{
    lq_list_remove(&peer->in_peers);
    lq_free(peer);
}

void lq_links_release(struct lq_links *links)
{
    links->n_open--;
    if (links->n_open > 0) {
        return;
    }
    while (!lq_list_is_empty(&links->peers)) {
        free_peer(peer_of(links->peers.next));
    }
    lq_free(links);
}

static void on_timer_closed(uv_handle_t *handle)
{
    lq_links_release(LQ_CONTAINER(handle, struct lq_links, timer));
}

void lq_links_close(struct lq_links *links)
{
    if (links->is_closing) {
        return;
    }
    links->is_closing = true;
    for (struct lq_list *at = links->peers.next; at != &links->peers; at = at->next) {
        lq_dial_stop(peer_of(at));
    }
    while (!lq_list_is_empty(&links->conns)) {
        lq_conn_close(LQ_CONTAINER(links->conns.next, struct lq_conn, in_conns));
    }
    lq_port_close(links);
    uv_close((uv_handle_t *)&links->timer, on_timer_closed);
}

/* ---- Peers. */

struct lq_links_peer *lq_links_find(const struct lq_links *links, uint32_t node)
{
    for (struct lq_list *at = links->peers.next; at != &links->peers; at = at->next) {
        if (peer_of(at)->node == node) {
            return peer_of(at);
        }
    }
    return NULL;
}

struct lq_links_peer *lq_links_get(struct lq_links *links, uint32_t node)
{
    struct lq_links_peer *peer = lq_links_find(links, node);
    if (peer == NULL) {
        peer = lq_calloc(1, sizeof *peer);
        peer->links = links;
        peer->node = node;
        peer->dial.at_ms = LQ_NEVER;
        peer->since_ms = lq_clock_ms();
        lq_list_append(&links->peers, &peer->in_peers);
    }
    return peer;
}

void lq_links_note(struct lq_links_peer *peer, const char *why)
{
    (void)snprintf(peer->text, sizeof peer->text, "%s", why);
}

/* A member's address: what was made with another one ends. */
static void set_address(struct lq_links_peer *peer, const char *address)
{
    bool is_other = strcmp(peer->address, address) != 0, was_known = peer->address[0] != '\0';
    if (!is_other) {
        return;
    }
    (void)snprintf(peer->address, sizeof peer->address, "%s", address);
    if (was_known) {
        lq_dial_stop(peer);
        if (peer->link != NULL) {
            lq_conn_end(peer->link, LQ_END_CLOSED, "its address has changed");
        }
    }
}

static void plan(struct lq_links_peer *peer)
{
    const struct lq_dial *dial = &peer->dial;
    if (peer->link == NULL && dial->conn == NULL && dial->resolving == NULL &&
        dial->at_ms == LQ_NEVER) {
        lq_dial_later(peer, 0);
        lq_links_note_due(peer->links);
    }
}

void lq_links_set_members(struct lq_links *links, const struct lq_members *members)
{
    for (struct lq_list *at = links->peers.next; at != &links->peers; at = at->next) {
        struct lq_links_peer *peer = peer_of(at);
        peer->is_member = lq_members_find(members, peer->node) != NULL;
        if (!peer->is_member) {
            lq_dial_stop(peer);
        }
    }
    for (size_t i = 0; i < members->n; i++) {
        const struct lq_member *member = &members->items[i];
        if (member->node != links->options.node) {
            struct lq_links_peer *peer = lq_links_get(links, member->node);
            peer->is_member = true;
            set_address(peer, member->address);
            plan(peer);
        }
    }
}

/* Those that are neither members nor linked are forgotten. */
static void sweep(struct lq_links *links)
{
    struct lq_list *at = links->peers.next;
    while (at != &links->peers) {
        struct lq_links_peer *peer = peer_of(at);
        at = at->next;
        if (!peer->is_member && peer->link == NULL && peer->dial.conn == NULL &&
            !peer->is_down_due && peer->verdict_due == LQ_LINK_OK) {
            free_peer(peer);
        }
    }
}

/* ---- Sending. */

void lq_links_send(struct lq_links *links, uint32_t node, const uint8_t *bytes, size_t len)
{
    struct lq_links_peer *peer = lq_links_find(links, node);
    struct lq_conn *link = peer == NULL ? NULL : peer->link;
    if (link == NULL || link->is_broken) {
        return;
    }
    if (link->out.len + len > links->options.queue_max_bytes) {
        lq_conn_end(link, LQ_END_BROKEN, "too much waits for it to read");
        return;
    }
    lq_outqueue_add(&link->out, bytes, len);
}

void lq_links_unlink(struct lq_links *links, uint32_t node, const char *text)
{
    struct lq_links_peer *peer = lq_links_find(links, node);
    struct lq_conn *link = peer == NULL ? NULL : peer->link;
    if (peer == NULL) {
        return;
    }
    peer->is_down_due = false;
    lq_links_note(peer, text);
    if (link != NULL) {
        lq_log(LQ_LOG_WARN, "link closed", LQ_NUMBER("node", node),
               LQ_TEXT("address", link->address), LQ_TEXT("why", text));
        lq_conn_linger(link);
        peer->since_ms = lq_clock_ms();
        lq_dial_later(peer, links->options.retry_max_ms);
    }
}

void lq_links_flush(struct lq_links *links)
{
    for (struct lq_list *at = links->peers.next; at != &links->peers; at = at->next) {
        struct lq_conn *link = peer_of(at)->link;
        if (link != NULL && link->out.len > 0) {
            lq_conn_flush(link);
        }
    }
}

/* ---- What the node has to be told. */

void lq_links_note_due(struct lq_links *links)
{
    links->has_due = true;
    lq_links_wake_at(links, 0);
}

static void tell_down(struct lq_links_peer *peer)
{
    struct lq_links_user *user = &peer->links->user;
    if (peer->is_down_due && peer->link == NULL) {
        user->wake(user->context);
        if (peer->is_down_due && !peer->links->is_closing) {
            peer->is_down_due = false;
            user->down(user->context, peer->node, false);
        }
    }
}

static void tell_rest(struct lq_links_peer *peer)
{
    struct lq_links_user *user = &peer->links->user;
    bool is_full = peer->link != NULL && peer->link->is_full;
    if (!peer->is_refused_due && peer->verdict_due == LQ_LINK_OK &&
        (peer->link == NULL || is_full == peer->is_told_full)) {
        return;
    }
    user->wake(user->context);
    if (peer->is_refused_due && peer->link == NULL && !peer->links->is_closing) {
        user->down(user->context, peer->node, true);
    }
    peer->is_refused_due = false;
    if (peer->verdict_due != LQ_LINK_OK && !peer->links->is_closing) {
        enum lq_link_verdict verdict = peer->verdict_due;
        peer->verdict_due = LQ_LINK_OK;
        user->refused(user->context, peer->node, verdict);
    }
    if (peer->link != NULL && peer->link->is_full != peer->is_told_full &&
        !peer->links->is_closing) {
        peer->is_told_full = peer->link->is_full;
        user->full(user->context, peer->node, peer->is_told_full);
    }
}

void lq_links_settle(struct lq_links *links)
{
    uint64_t now_ms = lq_clock_ms();
    if (links->is_closing) {
        return;
    }
    links->has_due = false;
    for (struct lq_list *at = links->peers.next; at != &links->peers; at = at->next) {
        tell_down(peer_of(at));
    }
    if (links->n_held > 0 && !links->is_closing) {
        lq_greet_judge(links);
    }
    for (struct lq_list *at = links->peers.next; at != &links->peers; at = at->next) {
        struct lq_links_peer *peer = peer_of(at);
        if (peer->dial.at_ms <= now_ms && !links->is_closing) {
            lq_dial_start(peer);
        }
        tell_rest(peer);
    }
}

/* ---- The timer. */

void lq_links_wake_at(struct lq_links *links, uint64_t at_ms)
{
    uint64_t now_ms;
    if (at_ms >= links->timer_ms || links->is_closing) {
        return;
    }
    now_ms = lq_clock_ms();
    links->timer_ms = at_ms;
    LQ_CHECK(uv_timer_start(&links->timer, on_timer, at_ms > now_ms ? at_ms - now_ms : 0, 0) == 0);
}

/* Expiring one connection may close others: each is found anew. */
static struct lq_conn *next_expired(const struct lq_links *links, uint64_t now_ms)
{
    for (struct lq_list *at = links->conns.next; at != &links->conns; at = at->next) {
        struct lq_conn *conn = LQ_CONTAINER(at, struct lq_conn, in_conns);
        if (conn->deadline_ms <= now_ms && conn->state != LQ_CONN_HELD) {
            return conn;
        }
    }
    return NULL;
}

static void arm(struct lq_links *links)
{
    uint64_t at_ms = links->has_due ? 0 : links->port_at_ms;
    for (struct lq_list *at = links->conns.next; at != &links->conns; at = at->next) {
        at_ms = lq_earlier(at_ms, LQ_CONTAINER(at, struct lq_conn, in_conns)->deadline_ms);
    }
    for (struct lq_list *at = links->peers.next; at != &links->peers; at = at->next) {
        at_ms = lq_earlier(at_ms, peer_of(at)->dial.at_ms);
    }
    lq_links_wake_at(links, at_ms);
}

static void on_timer(uv_timer_t *timer)
{
    struct lq_links *links = LQ_CONTAINER(timer, struct lq_links, timer);
    uint64_t now_ms = lq_clock_ms();
    struct lq_conn *conn;
    links->timer_ms = LQ_NEVER;
    while ((conn = next_expired(links, now_ms)) != NULL) {
        lq_conn_expire(conn);
    }
    if (links->port_at_ms <= now_ms) {
        lq_port_resume(links);
    }
    lq_links_settle(links);
    sweep(links);
    arm(links);
}

/* ---- Reading. */

uint64_t lq_links_random(struct lq_links *links)
{
    links->random = links->random * UINT64_C(6364136223846793005) + 1;
    return links->random >> 33;
}

struct lq_link_status lq_links_status(const struct lq_links *links, uint32_t node)
{
    const struct lq_links_peer *peer = lq_links_find(links, node);
    const struct lq_conn *link = peer == NULL ? NULL : peer->link;
    struct lq_link_status status = {.is_up = link != NULL};
    if (peer == NULL) {
        (void)snprintf(status.text, sizeof status.text, "it is no member");
        return status;
    }
    status.since_ms = peer->since_ms;
    if (link == NULL) {
        (void)snprintf(status.text, sizeof status.text, "%s",
                       peer->text[0] == '\0' ? "not reached yet" : peer->text);
    } else {
        status.is_full = link->is_full;
        status.queued_bytes = link->out.len;
        status.sent_bytes = link->sent_bytes;
        status.received_bytes = link->received_bytes;
    }
    return status;
}
