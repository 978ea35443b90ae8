/* Reading a connection: frames are found where they were read to, and are taken one after the
 * other. Bytes are kept only as they arrive: a length that was announced takes no memory. */
#include "lq_clock.h"
#include "lq_links_impl.h"

#include <errno.h>
#include <string.h>

/* Before the link stands, no more is read than a greeting. */
#define FIRST_BYTES (LQ_MESSAGE_LEN_BYTES + LQ_GREETING_MAX)

/* Reads of a connection that has ended: what the kernel's buffer holds at most. */
#define LAST_READS 1024

/* A message over the link. */
static void take_message(struct lq_conn *conn, const uint8_t *body, size_t len)
{
    struct lq_links_user *user = &conn->links->user;
    uint32_t node = conn->peer->node;
    bool is_message;
    if (!conn->has_messages && lq_greet_is_refused(conn, body, len)) {
        return;
    }
    conn->has_messages = true;
    user->wake(user->context);
    if (conn->state != LQ_CONN_UP) {
        return;
    }
    is_message = user->message(user->context, node, body, len);
    if (!is_message && conn->state == LQ_CONN_UP) {
        lq_conn_end(conn, LQ_END_BAD, "it sent what is no message");
    }
}

static void take_body(struct lq_conn *conn, const uint8_t *body, size_t len)
{
    if (conn->state == LQ_CONN_UP) {
        take_message(conn, body, len);
    } else {
        lq_greet_first(conn, body, len);
    }
}

static bool is_taking(const struct lq_conn *conn)
{
    return conn->state == LQ_CONN_WAITING || conn->state == LQ_CONN_GREETING ||
           conn->state == LQ_CONN_UP;
}

/* Takes all whole frames, straight from where they were read to. */
static void take_frames(struct lq_conn *conn)
{
    size_t used = 0, len, frame;
    const uint8_t *body;
    enum lq_framed framed = LQ_FRAMED_ONE;
    while (framed == LQ_FRAMED_ONE && is_taking(conn)) {
        size_t max = conn->state == LQ_CONN_UP ? LQ_MESSAGE_MAX : LQ_GREETING_MAX;
        framed = lq_message_unframe(conn->in.bytes + used, conn->in.len - used, max, &body, &len,
                                    &frame);
        if (framed == LQ_FRAMED_ONE) {
            used += frame;
            take_body(conn, body, len);
        }
    }
    if (framed == LQ_FRAMED_BAD) {
        lq_conn_end(conn, LQ_END_BAD, "it sent a length that no frame has");
    } else if (conn->state == LQ_CONN_HELD && conn->in.len > used) {
        lq_conn_end(conn, LQ_END_BAD, "it went on before its hello was answered");
    }
    conn->in.len -= used;
    if (conn->in.len > 0) {
        memmove(conn->in.bytes, conn->in.bytes + used, conn->in.len);
    } else if (conn->in.cap > 4 * LQ_ROUND_BYTES) {
        lq_buffer_done(&conn->in);
    }
}

/* Room for what is read next, at most `max` bytes: the buffer grows when it is full of what has
 * arrived. */
static size_t make_room(struct lq_conn *conn, size_t max)
{
    struct lq_buffer *in = &conn->in;
    size_t base = conn->state == LQ_CONN_UP ? LQ_PIECE_BYTES : FIRST_BYTES;
    size_t kept = in->len, room;
    if (in->cap < base) {
        (void)lq_buffer_extend(in, base - kept);
        in->len = kept;
    }
    room = in->cap > in->len ? in->cap - in->len : in->len;
    return room < max ? room : max;
}

static void end_reading(struct lq_conn *conn, enum lq_stream_result result)
{
    int error = errno; /* left by the failed read */
    if (result == LQ_STREAM_EOF) {
        lq_conn_end(conn, LQ_END_CLOSED,
                    conn->state == LQ_CONN_WAITING ? "it ended in the middle of its hello"
                                                   : "the other side closed it");
    } else if (result == LQ_STREAM_BROKEN) {
        lq_conn_end(conn, error == ECONNRESET || error == EPIPE ? LQ_END_RESET : LQ_END_BROKEN,
                    strerror(error));
    }
}

/* Reads once, at most `max` bytes. Returns how many came, 0 also when it has ended. `ret_is_dry`:
 * there is no more for now. */
static size_t read_once(struct lq_conn *conn, size_t max, bool *ret_is_dry)
{
    size_t room = make_room(conn, max), len = 0, kept = conn->in.len;
    uint8_t *at = lq_buffer_extend(&conn->in, room);
    enum lq_stream_result result = conn->stream.ops->read(&conn->stream, at, room, &len);
    conn->in.len = kept + len;
    *ret_is_dry = len < room;
    if (len == 0) {
        end_reading(conn, result);
        return 0;
    }
    conn->received_bytes += len;
    if (conn->state == LQ_CONN_LINGERING) {
        conn->in.len = 0;
    } else if (conn->state == LQ_CONN_HELD) {
        lq_conn_end(conn, LQ_END_BAD, "it went on before its hello was answered");
    } else {
        conn->heard_ms = lq_clock_ms();
        take_frames(conn);
    }
    return len;
}

void lq_conn_read(struct lq_conn *conn)
{
    bool is_dry = false;
    size_t sum = 0;
    while (conn->state != LQ_CONN_CLOSED && !is_dry && sum < LQ_ROUND_BYTES) {
        sum += read_once(conn, LQ_ROUND_BYTES - sum, &is_dry);
    }
}

void lq_conn_read_rest(struct lq_conn *conn)
{
    bool is_dry = false;
    for (int i = 0; i < LAST_READS && conn->state != LQ_CONN_CLOSED && !is_dry; i++) {
        (void)read_once(conn, LQ_ROUND_BYTES, &is_dry);
    }
    lq_conn_end(conn, LQ_END_BROKEN, "the connection broke");
}
