/* The life of a connection.
 *
 *   CONNECTING -> GREETING -+-> UP -> LINGERING -> CLOSED
 *                           |
 *      WAITING -> HELD -----+          (each may end as CLOSED)
 *
 * It is read as long as it is open, so its end is always seen. What was sent before an end is
 * delivered before the end is told, also when it is writing that fails first. */
#include "lq_check.h"
#include "lq_clock.h"
#include "lq_heap.h"
#include "lq_limits.h"
#include "lq_links_impl.h"
#include "lq_log.h"
#include "lq_mem.h"

#include <string.h>

static void on_event(uv_poll_t *poll, int status, int events);

struct lq_conn *lq_conn_new(struct lq_links *links, int fd, enum lq_conn_state state,
                            const struct sockaddr *address, socklen_t len)
{
    struct lq_conn *conn = lq_calloc(1, sizeof *conn);
    conn->links = links;
    lq_stream_tcp_init(&conn->stream, fd);
    if (uv_poll_init_socket(links->loop, &conn->poll, fd) != 0) {
        conn->stream.ops->close(&conn->stream);
        lq_free(conn);
        return NULL;
    }
    links->n_open++;
    lq_buffer_init(&conn->in);
    lq_outqueue_init(&conn->out);
    lq_address_format(address, len, conn->address);
    lq_list_append(&links->conns, &conn->in_conns);
    conn->state = state;
    conn->is_dialled = state == LQ_CONN_CONNECTING;
    lq_conn_move(conn, state, lq_clock_ms() + (conn->is_dialled ? LQ_CONNECT_MS : LQ_GREETING_MS));
    return conn;
}

static void on_closed(uv_handle_t *handle)
{
    struct lq_conn *conn = LQ_CONTAINER(handle, struct lq_conn, poll);
    struct lq_links *links = conn->links;
    lq_buffer_done(&conn->in);
    lq_outqueue_done(&conn->out);
    lq_free(conn);
    lq_links_release(links);
}

/* No peer knows it any more. */
static void detach(struct lq_conn *conn)
{
    if (conn->peer == NULL) {
        return;
    }
    if (conn->peer->link == conn) {
        conn->peer->link = NULL;
    }
    if (conn->peer->dial.conn == conn) {
        conn->peer->dial.conn = NULL;
    }
    conn->peer = NULL;
}

static void count_held(struct lq_conn *conn, enum lq_conn_state next)
{
    if (conn->state == LQ_CONN_HELD) {
        conn->links->n_held--;
    }
    if (next == LQ_CONN_HELD) {
        conn->links->n_held++;
    }
}

void lq_conn_close(struct lq_conn *conn)
{
    if (conn->state == LQ_CONN_CLOSED) {
        return;
    }
    detach(conn);
    count_held(conn, LQ_CONN_CLOSED);
    conn->state = LQ_CONN_CLOSED;
    lq_list_remove(&conn->in_conns);
    uv_close((uv_handle_t *)&conn->poll, on_closed);
    conn->stream.ops->close(&conn->stream);
}

/* ---- States. */

static void ask(struct lq_conn *conn)
{
    int interest = conn->state == LQ_CONN_CONNECTING ? 0 : UV_READABLE;
    if (conn->state == LQ_CONN_CONNECTING || conn->out.len > 0) {
        interest |= UV_WRITABLE;
    }
    if (interest != conn->interest) {
        conn->interest = interest;
        LQ_CHECK(uv_poll_start(&conn->poll, interest, on_event) == 0);
    }
}

void lq_conn_move(struct lq_conn *conn, enum lq_conn_state state, uint64_t deadline_ms)
{
    LQ_CHECK(conn->state != LQ_CONN_CLOSED);
    count_held(conn, state);
    conn->state = state;
    conn->deadline_ms = deadline_ms;
    lq_links_wake_at(conn->links, deadline_ms);
    ask(conn);
}

void lq_conn_host(const struct lq_conn *conn, char ret_host[LQ_ADDRESS_TEXT])
{
    char *colon;
    memcpy(ret_host, conn->address, LQ_ADDRESS_TEXT);
    colon = strrchr(ret_host, ':');
    if (colon != NULL) {
        *colon = '\0';
    }
}

static bool may_log(struct lq_conn *conn)
{
    char host[LQ_ADDRESS_TEXT];
    lq_conn_host(conn, host);
    return lq_limiter_allows(&conn->links->bad_frames, host, lq_clock_ms(), LQ_BAD_FRAME_LOG_MS);
}

/* The link ended. */
static void lose(struct lq_conn *conn, enum lq_end end, const char *why)
{
    struct lq_links_peer *peer = conn->peer;
    peer->is_down_due = true;
    lq_links_note(peer, why);
    if (end != LQ_END_BAD || may_log(conn)) {
        lq_log(LQ_LOG_WARN, "link down", LQ_NUMBER("node", peer->node),
               LQ_TEXT("address", conn->address), LQ_TEXT("why", why));
    }
    lq_conn_close(conn);
    if (end == LQ_END_BAD) {
        lq_dial_later(peer, conn->links->options.retry_max_ms);
    } else {
        lq_dial_again(peer);
    }
    peer->since_ms = lq_clock_ms();
    lq_links_note_due(conn->links);
}

/* Nobody's connection ended. Who says nothing and leaves is not worth a line. */
static void lose_nameless(struct lq_conn *conn, enum lq_end end, const char *why)
{
    bool is_quiet = (end == LQ_END_CLOSED || end == LQ_END_RESET || end == LQ_END_BROKEN) &&
                    (conn->in.len == 0 || conn->state == LQ_CONN_HELD);
    if (!is_quiet && may_log(conn)) {
        lq_log(LQ_LOG_WARN, "closed a connection to the port for peers",
               LQ_TEXT("address", conn->address), LQ_TEXT("why", why));
    }
    lq_conn_close(conn);
}

void lq_conn_end(struct lq_conn *conn, enum lq_end end, const char *why)
{
    struct lq_links_peer *peer = conn->peer;
    switch (conn->state) {
    case LQ_CONN_CONNECTING:
    case LQ_CONN_GREETING:
        lq_conn_close(conn);
        lq_dial_failed(peer, end, why);
        break;
    case LQ_CONN_WAITING:
    case LQ_CONN_HELD:
        lose_nameless(conn, end, why);
        break;
    case LQ_CONN_UP:
        lose(conn, end, why);
        break;
    case LQ_CONN_LINGERING:
        lq_conn_close(conn);
        break;
    case LQ_CONN_CLOSED:
        break;
    }
}

/* ---- Writing. */

/* Whether the kernel took something. */
static bool write_once(struct lq_conn *conn)
{
    struct lq_view views[LQ_STREAM_VIEWS];
    size_t n = lq_outqueue_views(&conn->out, views, LQ_STREAM_VIEWS), len = 0;
    if (n == 0) {
        return false;
    }
    if (conn->stream.ops->write(&conn->stream, views, n, &len) == LQ_STREAM_BROKEN) {
        lq_outqueue_done(&conn->out);
        conn->is_broken = true;
        conn->deadline_ms = 0;
        lq_links_wake_at(conn->links, 0);
        return false;
    }
    conn->sent_bytes += len;
    lq_outqueue_wrote(&conn->out, len);
    return len > 0;
}

/* Full is noted after writing: what leaves at once does not count. */
static void watch_full(struct lq_conn *conn)
{
    const struct lq_links_options *options = &conn->links->options;
    if (conn->out.len >= options->full_bytes) {
        conn->is_full = true;
    } else if (conn->out.len < options->full_bytes / 4) {
        conn->is_full = false;
    }
    if (conn->state == LQ_CONN_UP && conn->is_full != conn->peer->is_told_full) {
        lq_links_note_due(conn->links);
    }
}

void lq_conn_write(struct lq_conn *conn)
{
    (void)write_once(conn);
    ask(conn);
    watch_full(conn);
}

void lq_conn_flush(struct lq_conn *conn)
{
    if ((conn->interest & UV_WRITABLE) == 0) { /* else the loop writes when it can */
        (void)write_once(conn);
        ask(conn);
    }
    watch_full(conn);
}

void lq_conn_linger(struct lq_conn *conn)
{
    while (write_once(conn)) {
    }
    lq_outqueue_done(&conn->out);
    conn->stream.ops->shutdown(&conn->stream);
    detach(conn);
    lq_conn_move(conn, LQ_CONN_LINGERING, lq_clock_ms() + LQ_LINGER_MS);
}

/* ---- Events. */

void lq_conn_expire(struct lq_conn *conn)
{
    if (conn->is_broken) {
        lq_conn_read_rest(conn);
        return;
    }
    switch (conn->state) {
    case LQ_CONN_CONNECTING:
        lq_conn_end(conn, LQ_END_SILENT, "nothing answers at its address");
        break;
    case LQ_CONN_GREETING:
    case LQ_CONN_WAITING:
        lq_conn_end(conn, LQ_END_SILENT, "it did not say hello in time");
        break;
    case LQ_CONN_LINGERING:
        lq_conn_close(conn);
        break;
    case LQ_CONN_UP:
    case LQ_CONN_HELD: /* lq_greet_judge looks after them */
    case LQ_CONN_CLOSED:
        break;
    }
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct lq_conn *conn = LQ_CONTAINER(poll, struct lq_conn, poll);
    struct lq_links *links = conn->links;
    if (conn->state == LQ_CONN_CONNECTING) {
        lq_dial_connected(conn);
    } else if (status < 0) {
        lq_conn_read_rest(conn);
    } else {
        if ((events & UV_WRITABLE) != 0) {
            lq_conn_write(conn);
        }
        if ((events & UV_READABLE) != 0) {
            lq_conn_read(conn);
        }
    }
    if (links->has_due || links->n_held > 0) {
        lq_links_settle(links);
    }
}
