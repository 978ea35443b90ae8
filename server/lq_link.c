/* The life of a connection.
 *
 *   serving --- session finished and written ---> lingering --- end of input, or time ---> closed
 *      +------- broken, vanished, or stalled ---------------------------------------------^
 *
 * The kernel is asked level-triggered and never owns bytes of ours beyond its own buffer, so that
 * "how much was given to the kernel" is always known: the fate of an undelivered grant hangs on it.
 */
#include "lq_check.h"
#include "lq_clock.h"
#include "lq_mem.h"
#include "lq_server_impl.h"

static void on_event(uv_poll_t *poll, int status, int events);

void lq_link_open(struct lq_server *server, int fd)
{
    struct lq_link *link = lq_calloc(1, sizeof *link);
    link->server = server;
    lq_stream_tcp_init(&link->stream, fd);
    if (uv_poll_init_socket(&server->loop, &link->poll, fd) != 0) {
        link->stream.ops->close(&link->stream); /* the kernel watches no more descriptors for us */
        lq_free(link);
        return;
    }
    lq_list_init(&link->in_lingering);
    lq_list_init(&link->in_watched);
    lq_list_append(&server->links, &link->in_links);
    server->n_links++;
    link->session = lq_session_new(server->hub, link);
    lq_link_serve(link);
}

static void on_closed(uv_handle_t *handle)
{
    lq_free(LQ_CONTAINER(handle, struct lq_link, poll));
}

void lq_link_close(struct lq_link *link)
{
    struct lq_server *server = link->server;
    if (uv_is_closing((uv_handle_t *)&link->poll)) {
        return;
    }
    if (link->session != NULL) {
        lq_session_closed(link->session);
        link->session = NULL;
    }
    lq_list_remove(&link->in_links);
    lq_list_remove(&link->in_lingering);
    lq_list_remove(&link->in_watched);
    server->n_links--;
    server->n_calls++;
    uv_close((uv_handle_t *)&link->poll, on_closed);
    link->stream.ops->close(&link->stream);
    lq_listener_resume(&server->listener);
}

/* ---- What to ask the kernel for. */

static void set_interest(struct lq_link *link, int interest)
{
    if (interest == link->interest) {
        return;
    }
    link->interest = interest;
    if (interest == 0) {
        LQ_CHECK(uv_poll_stop(&link->poll) == 0);
        lq_server_watch(link->server, link);
    } else {
        LQ_CHECK(uv_poll_start(&link->poll, interest, on_event) == 0);
    }
}

/* While nothing is read, a client that is gone still has to be noticed; one that merely sends no
 * more is not. */
static void update_interest(struct lq_link *link, bool is_blocked)
{
    int interest = is_blocked ? UV_WRITABLE : 0;
    if (lq_session_wants_input(link->session)) {
        interest |= UV_READABLE;
    } else if (!link->is_half_closed) {
        interest |= UV_DISCONNECT;
    }
    set_interest(link, interest);
}

/* ---- Writing. */

static void linger(struct lq_link *link)
{
    lq_session_closed(link->session);
    link->session = NULL;
    link->stream.ops->shutdown(&link->stream);
    link->linger_until_ms = lq_clock_ms() + LQ_LINGER_MS;
    lq_list_append(&link->server->lingering, &link->in_lingering);
    set_interest(link, UV_READABLE);
}

/* Something was written, and nothing shows yet that it arrived. */
static void expect_word(struct lq_link *link)
{
    if (!link->is_unheard) {
        link->is_unheard = true;
        link->unheard_since_ms = uv_now(&link->server->loop);
        lq_server_watch(link->server, link);
    }
}

/* Writes once. OK: nothing is left, or as much went as one call takes. */
static enum lq_stream_result write_once(struct lq_link *link, bool *ret_has_more)
{
    struct lq_view views[LQ_STREAM_VIEWS];
    size_t n = lq_session_views(link->session, views, LQ_STREAM_VIEWS), len = 0;
    enum lq_stream_result result = LQ_STREAM_OK;
    if (n > 0) {
        result = link->stream.ops->write(&link->stream, views, n, &len);
        lq_session_wrote(link->session, len);
        expect_word(link);
    }
    *ret_has_more = lq_session_views(link->session, views, 1) > 0;
    return result;
}

void lq_link_serve(struct lq_link *link)
{
    enum lq_session_wish wish = lq_session_wish(link->session);
    bool has_more = false;
    link->server->n_calls++; /* at the least: whatever is wished takes one */
    if (wish == LQ_WISH_ABORT || write_once(link, &has_more) == LQ_STREAM_BROKEN) {
        lq_link_close(link);
        return;
    }
    link->is_blocked = has_more; /* and so watched, as it was written to */
    if (wish == LQ_WISH_CLOSE && !has_more) {
        linger(link);
        return;
    }
    update_interest(link, has_more);
}

/* ---- Reading. */

/* Reads once; tells whether anything came. May close the connection. */
static bool read_once(struct lq_link *link)
{
    struct lq_server *server = link->server;
    size_t len = 0;
    server->n_calls++;
    switch (link->stream.ops->read(&link->stream, server->buffer, sizeof server->buffer, &len)) {
    case LQ_STREAM_OK:
        link->is_unheard = false;
        lq_session_input(link->session, server->buffer, len);
        break;
    case LQ_STREAM_BLOCKED:
        return false;
    case LQ_STREAM_EOF:
        lq_session_eof(link->session);
        break;
    case LQ_STREAM_BROKEN:
        lq_link_close(link);
        return false;
    }
    if (!lq_session_wants_input(link->session)) {
        update_interest(link, (link->interest & UV_WRITABLE) != 0);
    }
    return len > 0;
}

/* Reads and drops what still comes, until the client closes too. */
static void drain(struct lq_link *link)
{
    struct lq_server *server = link->server;
    size_t len = 0;
    enum lq_stream_result result =
        link->stream.ops->read(&link->stream, server->buffer, sizeof server->buffer, &len);
    server->n_calls++;
    if (result == LQ_STREAM_EOF || result == LQ_STREAM_BROKEN) {
        lq_link_close(link);
    }
}

/* The client's end of input shows while nothing is to be read: is it gone, or will it still read?
 */
static void on_disconnect(struct lq_link *link)
{
    if (lq_stream_is_dead(&link->stream)) {
        lq_link_close(link);
        return;
    }
    link->is_half_closed = true;
    update_interest(link, (link->interest & UV_WRITABLE) != 0);
}

static void on_ready(struct lq_link *link, int events)
{
    if ((events & UV_WRITABLE) != 0) {
        lq_link_serve(link);
    }
    if (link->session != NULL && (events & UV_READABLE) != 0 &&
        lq_session_wants_input(link->session)) {
        (void)read_once(link);
    } else if (link->session != NULL && (events & UV_DISCONNECT) != 0) {
        on_disconnect(link);
    }
}

/* How often a connection in error is read, 8 KiB each: the kernel's buffer may hold that much. */
#define LAST_READS 1024

/* The connection is in error: a reset, as a rule. What the client sent before is in the kernel's
 * buffer still, and is executed as before any other end. */
static void on_error(struct lq_link *link)
{
    for (int i = 0;
         i < LAST_READS && link->session != NULL && lq_session_wants_input(link->session); i++) {
        if (!read_once(link)) {
            break;
        }
        lq_server_make_room(link->server);
    }
    lq_link_close(link);
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct lq_link *link = LQ_CONTAINER(poll, struct lq_link, poll);
    lq_server_make_room(link->server);
    if (uv_is_closing((uv_handle_t *)poll)) {
        return; /* that turn closed it */
    }
    if (status < 0) {
        on_error(link);
    } else if (link->session == NULL) {
        drain(link);
    } else {
        on_ready(link, events);
    }
}
