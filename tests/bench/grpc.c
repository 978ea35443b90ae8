#include "grpc.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* A header whose bytes stay where they are: libnghttp2 only reads them, though its type does not
 * say so. */
static nghttp2_nv header(const char *name, const char *value)
{
    nghttp2_nv nv = {
        .name = (uint8_t *)(uintptr_t)name,
        .namelen = strlen(name),
        .value = (uint8_t *)(uintptr_t)value,
        .valuelen = strlen(value),
        .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE,
    };
    return nv;
}

static void list(struct lq_bench_grpc_call *call)
{
    struct lq_bench_grpc *grpc = call->grpc;
    if (call->is_listed)
        return;
    call->is_listed = true;
    call->next = NULL;
    if (grpc->last != NULL)
        grpc->last->next = call;
    else
        grpc->first = call;
    grpc->last = call;
}

static void unlist_first(struct lq_bench_grpc *grpc)
{
    struct lq_bench_grpc_call *call = grpc->first;
    call->is_listed = false;
    grpc->first = call->next;
    if (grpc->first == NULL)
        grpc->last = NULL;
}

/* ---- What libnghttp2 calls: it decides how many parameters there are. */

/* NOLINTBEGIN(readability-function-size) */

/* The room that is left in the output is enough for all requests of the connection's slots and
 * more. */
static ssize_t write_bytes(nghttp2_session *session, const uint8_t *bytes, size_t len, int flags,
                           void *user)
{
    struct lq_bench_grpc *grpc = user;
    (void)session;
    (void)flags;
    if (len > (size_t)(grpc->conn->out + grpc->conn->out_size - grpc->out))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    memcpy(grpc->out, bytes, len);
    grpc->out += len;
    return (ssize_t)len;
}

static ssize_t read_message(nghttp2_session *session, int32_t id, uint8_t *ret, size_t size,
                            uint32_t *ret_flags, nghttp2_data_source *source, void *user)
{
    struct lq_bench_grpc_call *call = source->ptr;
    size_t n = call->out_len < size ? call->out_len : size;
    (void)session;
    (void)id;
    (void)user;
    if (n == 0 && call->is_stream)
        return NGHTTP2_ERR_DEFERRED;
    memcpy(ret, call->out, n);
    call->out_len -= n;
    memmove(call->out, call->out + n, call->out_len);
    if (call->out_len == 0 && !call->is_stream)
        *ret_flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t len, void *user)
{
    struct lq_bench_grpc_call *call = nghttp2_session_get_stream_user_data(session, id);
    (void)flags;
    (void)user;
    if (call == NULL)
        return 0;
    if (len > sizeof call->in - call->in_len)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    memcpy(call->in + call->in_len, bytes, len);
    call->in_len += len;
    list(call);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    static const char wanted[] = "grpc-status";
    struct lq_bench_grpc_call *call =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    (void)flags;
    (void)user;
    if (call != NULL && name_len == sizeof wanted - 1 && memcmp(name, wanted, name_len) == 0) {
        call->status = 0;
        for (size_t i = 0; i < value_len && i < 3; i++)
            call->status = call->status * 10 + (value[i] - '0');
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    struct lq_bench_grpc_call *call = nghttp2_session_get_stream_user_data(session, id);
    (void)error;
    (void)user;
    if (call != NULL) {
        call->is_over = true;
        list(call);
    }
    return 0;
}

/* NOLINTEND(readability-function-size) */

/* ---- Life. */

static int open_session(struct lq_bench_grpc *grpc)
{
    nghttp2_session_callbacks *callbacks;
    int rv = nghttp2_session_callbacks_new(&callbacks);
    if (rv != 0)
        return rv;
    nghttp2_session_callbacks_set_send_callback(callbacks, write_bytes);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    rv = nghttp2_session_client_new(&grpc->session, callbacks, grpc);
    nghttp2_session_callbacks_del(callbacks);
    return rv;
}

/* Lets libnghttp2 write what it has, behind what the output holds already. */
static int pump(struct lq_bench_grpc *grpc)
{
    struct lq_bench_conn *conn = grpc->conn;
    int rv;
    grpc->out = conn->out + conn->out_len;
    rv = nghttp2_session_send(grpc->session);
    if (rv != 0)
        return lq_bench_conn_fail(conn, "HTTP/2: %s", nghttp2_strerror(rv));
    conn->out_len = (size_t)(grpc->out - conn->out);
    return 0;
}

int lq_bench_grpc_init(struct lq_bench_grpc *grpc, struct lq_bench_conn *conn)
{
    static const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
    int rv;
    grpc->conn = conn;
    rv = open_session(grpc);
    if (rv == 0)
        rv = nghttp2_submit_settings(grpc->session, NGHTTP2_FLAG_NONE, settings, 1);
    if (rv != 0)
        return lq_bench_conn_fail(conn, "HTTP/2: %s", nghttp2_strerror(rv));
    return pump(grpc);
}

void lq_bench_grpc_done(struct lq_bench_grpc *grpc)
{
    nghttp2_session_del(grpc->session);
    grpc->session = NULL;
}

/* ---- Out. */

uint8_t *lq_bench_grpc_message(struct lq_bench_grpc_call *call)
{
    return call->out + call->out_len + LQ_BENCH_GRPC_PREFIX_BYTES;
}

static int open_stream(struct lq_bench_grpc *grpc, struct lq_bench_grpc_call *call)
{
    const nghttp2_nv headers[] = {
        header(":method", "POST"),        header(":scheme", "http"),
        header(":path", call->path),      header(":authority", "lq-bench"),
        header("te", "trailers"),         header("content-type", "application/grpc"),
        header("user-agent", "lq-bench"),
    };
    const nghttp2_data_provider data = {.source.ptr = call, .read_callback = read_message};
    call->grpc = grpc;
    call->status = -1;
    call->is_over = false;
    call->in_at = call->in_len = 0;
    call->id = nghttp2_submit_request(grpc->session, NULL, headers,
                                      sizeof headers / sizeof headers[0], &data, call);
    return call->id < 0 ? call->id : 0;
}

uint8_t *lq_bench_grpc_send(struct lq_bench_grpc *grpc, struct lq_bench_grpc_call *call, size_t len,
                            uint8_t *out)
{
    uint8_t *prefix = call->out + call->out_len;
    uint32_t wire_len = htobe32((uint32_t)len);
    int rv;
    prefix[0] = 0; /* not compressed */
    memcpy(prefix + 1, &wire_len, sizeof wire_len);
    call->out_len += LQ_BENCH_GRPC_PREFIX_BYTES + len;
    if (call->id == 0)
        rv = open_stream(grpc, call);
    else
        rv = nghttp2_session_resume_data(grpc->session, call->id);
    grpc->out = out;
    if (rv == 0)
        rv = nghttp2_session_send(grpc->session);
    if (rv == 0)
        return grpc->out;
    (void)lq_bench_conn_fail(grpc->conn, "HTTP/2: %s", nghttp2_strerror(rv));
    return out;
}

/* ---- In. */

int lq_bench_grpc_receive(struct lq_bench_grpc *grpc)
{
    struct lq_bench_conn *conn = grpc->conn;
    ssize_t n = nghttp2_session_mem_recv(grpc->session, conn->in, conn->in_len);
    if (n < 0)
        return lq_bench_conn_fail(conn, "HTTP/2: %s", nghttp2_strerror((int)n));
    conn->in_len = 0;
    if (pump(grpc) != 0)
        return -1;
    if (!nghttp2_session_want_read(grpc->session)) /* faulty bytes end it without an error */
        return lq_bench_conn_fail(conn, "HTTP/2: the session has ended");
    return 0;
}

/* The first message of the call's input that was not handed out; false if it is not all there. */
static bool take_message(struct lq_bench_grpc_call *call, const uint8_t **ret, size_t *ret_len)
{
    const uint8_t *at = call->in + call->in_at;
    size_t left = call->in_len - call->in_at;
    uint32_t len;
    if (left < LQ_BENCH_GRPC_PREFIX_BYTES)
        return false;
    memcpy(&len, at + 1, sizeof len);
    len = be32toh(len);
    if (len > left - LQ_BENCH_GRPC_PREFIX_BYTES)
        return false;
    call->in_at += LQ_BENCH_GRPC_PREFIX_BYTES + len;
    *ret = at + LQ_BENCH_GRPC_PREFIX_BYTES;
    *ret_len = len;
    return true;
}

/* A stream's messages count as they come; what was handed out makes room for those after it. */
static bool next_of_stream(struct lq_bench_grpc_call *call, const uint8_t **ret, size_t *ret_len)
{
    if (call->is_over) {
        (void)lq_bench_conn_fail(call->grpc->conn, "%s ended with status %d", call->path,
                                 call->status);
        return false;
    }
    if (take_message(call, ret, ret_len))
        return true;
    call->in_len -= call->in_at;
    memmove(call->in, call->in + call->in_at, call->in_len);
    call->in_at = 0;
    return false;
}

/* A unary call's message counts once the call is over and went well. */
static bool next_of_unary(struct lq_bench_grpc_call *call, const uint8_t **ret, size_t *ret_len)
{
    if (!call->is_over)
        return false;
    call->id = 0;
    call->is_over = false;
    if (call->status == 0 && take_message(call, ret, ret_len))
        return true;
    (void)lq_bench_conn_fail(call->grpc->conn, "%s ended with status %d", call->path, call->status);
    return false;
}

struct lq_bench_grpc_call *lq_bench_grpc_next(struct lq_bench_grpc *grpc, const uint8_t **ret,
                                              size_t *ret_len)
{
    while (grpc->first != NULL && grpc->conn->fd >= 0) {
        struct lq_bench_grpc_call *call = grpc->first;
        if (call->is_stream && next_of_stream(call, ret, ret_len))
            return call; /* and it may have more */
        unlist_first(grpc);
        if (!call->is_stream && next_of_unary(call, ret, ret_len))
            return call;
    }
    return NULL;
}
