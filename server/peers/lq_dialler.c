/* Attempts to reach a peer.
 *
 *   planned -> resolving -> connecting -> greeting -> the link stands
 *      ^           |            |  next address  |
 *      +-----------+------------+----------------+     each failure waits longer, with jitter
 *
 * The name is resolved at each attempt, so that a peer may move; numbers take no detour through
 * threads. When a link breaks, the first attempt follows at once: that its port is refused is how
 * the node learns, in a moment, that the peer's process is gone. It is told so only if not one of
 * the addresses led to anything else than a refusal. */
#include "lq_check.h"
#include "lq_clock.h"
#include "lq_heap.h"
#include "lq_links_impl.h"
#include "lq_log.h"
#include "lq_mem.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* `peer` is NULL when nobody wants the outcome any more. */
struct lq_resolving {
    uv_getaddrinfo_t request;
    struct lq_links *links;
    struct lq_links_peer *peer;
};

static void try_next(struct lq_links_peer *peer);

/* ---- When. */

void lq_dial_later(struct lq_links_peer *peer, uint64_t delay_ms)
{
    peer->dial.delay_ms = delay_ms;
    peer->dial.at_ms = LQ_NEVER;
    if (peer->is_member) {
        peer->dial.at_ms = lq_clock_ms() + lq_backoff_draw(delay_ms, lq_links_random(peer->links));
        lq_links_wake_at(peer->links, peer->dial.at_ms);
    }
}

static uint64_t next_delay(const struct lq_links_peer *peer)
{
    const struct lq_links_options *options = &peer->links->options;
    return lq_backoff_next(peer->dial.delay_ms, options->retry_min_ms, options->retry_max_ms);
}

/* A link that breaks as soon as it is made is not made again in a hurry. */
void lq_dial_again(struct lq_links_peer *peer)
{
    uint64_t now_ms = lq_clock_ms(), calm_ms = peer->links->options.retry_max_ms;
    if (now_ms >= peer->since_ms + calm_ms) {
        peer->dial.delay_ms = 0;
    }
    if (peer->dial.quick_ms == 0 || now_ms >= peer->dial.quick_ms + calm_ms) {
        peer->dial.quick_ms = now_ms;
        lq_dial_later(peer, 0);
    } else {
        lq_dial_later(peer, next_delay(peer));
    }
}

/* ---- The end of an attempt. */

static void drop_infos(struct lq_links_peer *peer)
{
    if (peer->dial.infos != NULL) {
        freeaddrinfo(peer->dial.infos);
    }
    peer->dial.infos = peer->dial.next = NULL;
}

void lq_dial_stop(struct lq_links_peer *peer)
{
    struct lq_dial *dial = &peer->dial;
    dial->at_ms = LQ_NEVER;
    drop_infos(peer);
    if (dial->resolving != NULL) {
        dial->resolving->peer = NULL;
        (void)uv_cancel((uv_req_t *)&dial->resolving->request); /* too late: it ends by itself */
        dial->resolving = NULL;
    }
    if (dial->conn != NULL) {
        lq_conn_close(dial->conn);
    }
}

/* Every address failed. What is new is logged. */
static void give_up(struct lq_links_peer *peer, const char *why)
{
    drop_infos(peer);
    peer->is_refused_due = peer->dial.saw_refused && !peer->dial.saw_other;
    if (strcmp(peer->text, why) != 0) {
        lq_log(LQ_LOG_INFO, "cannot reach a node", LQ_NUMBER("node", peer->node),
               LQ_TEXT("address", peer->address), LQ_TEXT("why", why));
    }
    lq_links_note(peer, why);
    lq_dial_later(peer, next_delay(peer));
    lq_links_note_due(peer->links);
}

void lq_dial_failed(struct lq_links_peer *peer, enum lq_end end, const char *why)
{
    if (end == LQ_END_RESET) {
        peer->dial.saw_refused = true;
    } else {
        peer->dial.saw_other = true;
    }
    if (peer->dial.next == NULL) {
        give_up(peer, why);
    } else {
        try_next(peer);
    }
}

/* ---- Connecting. */

/* Whether this host has no way there at all: such an address tells nothing of the peer. */
static bool is_pointless(int error)
{
    return error == ENETUNREACH || error == EAFNOSUPPORT || error == EADDRNOTAVAIL;
}

static void note_error(struct lq_links_peer *peer, int error)
{
    if (error == ECONNREFUSED || error == ECONNRESET) {
        peer->dial.saw_refused = true;
    } else if (!is_pointless(error)) {
        peer->dial.saw_other = true;
    }
}

/* Begins to connect; NULL with errno when that fails at once. */
static struct lq_conn *connect_to(struct lq_links *links, const struct addrinfo *info)
{
    int error, fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct lq_conn *conn;
    if (fd < 0) {
        return NULL;
    }
    if (connect(fd, info->ai_addr, info->ai_addrlen) != 0 && errno != EINPROGRESS) {
        error = errno;
        (void)close(fd);
        errno = error;
        return NULL;
    }
    conn = lq_conn_new(links, fd, LQ_CONN_CONNECTING, info->ai_addr, info->ai_addrlen);
    errno = ENOBUFS;
    return conn;
}

static void try_next(struct lq_links_peer *peer)
{
    int error = 0;
    while (peer->dial.next != NULL) {
        const struct addrinfo *info = peer->dial.next;
        struct lq_conn *conn = connect_to(peer->links, info);
        error = errno;
        peer->dial.next = info->ai_next;
        if (conn != NULL) {
            conn->peer = peer;
            peer->dial.conn = conn;
            return;
        }
        note_error(peer, error);
    }
    give_up(peer, strerror(error));
}

/* A port in the range that the kernel takes for outgoing connections may be answered by the dialler
 * itself, when nobody listens there. */
static bool is_own_echo(int fd)
{
    struct sockaddr_storage here, there;
    socklen_t here_len = sizeof here, there_len = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &here_len) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_len) == 0 && here_len == there_len &&
           memcmp(&here, &there, here_len) == 0;
}

void lq_dial_connected(struct lq_conn *conn)
{
    struct lq_links_peer *peer = conn->peer;
    struct lq_links *links = conn->links;
    int error = 0;
    socklen_t len = sizeof error;
    LQ_CHECK(getsockopt(conn->stream.fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0);
    if (error == 0 && is_own_echo(conn->stream.fd)) {
        error = ECONNREFUSED;
    }
    if (error == 0) {
        lq_conn_move(conn, LQ_CONN_GREETING, lq_clock_ms() + LQ_GREETING_MS);
        links->user.wake(links->user.context);
        if (conn->state == LQ_CONN_GREETING) {
            lq_greet_say(conn, peer->node);
        }
        return;
    }
    lq_conn_close(conn);
    note_error(peer, error);
    if (peer->dial.next == NULL) {
        give_up(peer, strerror(error));
    } else {
        try_next(peer);
    }
}

/* ---- Resolving. */

static void take_infos(struct lq_links_peer *peer, struct addrinfo *infos)
{
    peer->dial.infos = peer->dial.next = infos;
    try_next(peer);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *infos)
{
    struct lq_resolving *resolving = LQ_CONTAINER(request, struct lq_resolving, request);
    struct lq_links *links = resolving->links;
    struct lq_links_peer *peer = resolving->peer;
    char why[sizeof peer->text];
    lq_free(resolving);
    if (peer == NULL) {
        uv_freeaddrinfo(infos);
    } else {
        peer->dial.resolving = NULL;
        if (status == 0) {
            take_infos(peer, infos);
        } else {
            (void)snprintf(why, sizeof why, "cannot resolve its name: %s", uv_strerror(status));
            give_up(peer, why);
        }
        lq_links_settle(links);
    }
    lq_links_release(links);
}

static void resolve(struct lq_links_peer *peer, const struct lq_address *address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *infos;
    struct lq_resolving *resolving;
    int status;
    if (getaddrinfo(address->host, address->port, &hints, &infos) == 0) {
        take_infos(peer, infos);
        return;
    }
    hints.ai_flags = 0;
    resolving = lq_calloc(1, sizeof *resolving);
    resolving->links = peer->links;
    resolving->peer = peer;
    status = uv_getaddrinfo(peer->links->loop, &resolving->request, on_resolved, address->host,
                            address->port, &hints);
    if (status != 0) {
        lq_free(resolving);
        give_up(peer, uv_strerror(status));
        return;
    }
    peer->links->n_open++;
    peer->dial.resolving = resolving;
}

void lq_dial_start(struct lq_links_peer *peer)
{
    struct lq_links *links = peer->links;
    struct lq_dial *dial = &peer->dial;
    struct lq_address address;
    links->user.wake(links->user.context);
    dial->at_ms = LQ_NEVER;
    if (links->is_closing || !peer->is_member || peer->link != NULL || dial->conn != NULL ||
        dial->resolving != NULL) {
        return;
    }
    if (!links->user.can_greet(links->user.context)) {
        lq_dial_later(peer, links->options.retry_min_ms);
        return;
    }
    dial->saw_refused = dial->saw_other = false;
    if (lq_address_parse(peer->address, &address)) {
        resolve(peer, &address);
    } else {
        give_up(peer, "its address is not of the form HOST:PORT");
    }
}
