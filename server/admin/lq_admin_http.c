/* Requests and answers as libmicrohttpd has them. It calls `on_request` once when the head of a
 * request is there, then with each piece of its body, then once more: then it is answered. */
#include "lq_admin_impl.h"
#include "lq_check.h"
#include "lq_clock.h"
#include "lq_mem.h"

#include <stdlib.h>
#include <string.h>

/* The body of a request as it comes in. */
struct input {
    size_t len; /* of all that came, kept or not */
    char body[LQ_ADMIN_BODY_MAX];
};

static const char *header_of(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* ---- Answers. */

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    LQ_CHECK(MHD_add_response_header(response, name, value) == MHD_YES);
}

/* Queues an answer and frees what it owns. MHD_NO closes the connection. */
static enum MHD_Result reply(struct MHD_Connection *connection, struct lq_admin_answer answer)
{
    char *text;
    size_t len;
    struct MHD_Response *response;
    enum MHD_Result result;
    if (answer.json == NULL) {
        text = lq_malloc(strlen(answer.text) + 2);
        len = (size_t)(stpcpy(text, answer.text) - text);
    } else {
        text = json_dumps(answer.json, JSON_INDENT(2));
        LQ_CHECK(text != NULL);
        len = strlen(text);
        text = lq_realloc(text, len + 2, 1);
    }
    text[len++] = '\n';
    response = MHD_create_response_from_buffer_with_free_callback(len, text, lq_free);
    LQ_CHECK(response != NULL);
    add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
               answer.json == NULL ? "text/plain" : "application/json");
    add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (answer.allow[0] != '\0') {
        add_header(response, MHD_HTTP_HEADER_ALLOW, answer.allow);
    }
    result = MHD_queue_response(connection, answer.status, response);
    MHD_destroy_response(response);
    json_decref(answer.json);
    return result;
}

static struct lq_admin_answer too_long(void)
{
    return lq_admin_fault(MHD_HTTP_CONTENT_TOO_LARGE, "too_large",
                          "the body has more than %d bytes", LQ_ADMIN_BODY_MAX);
}

static struct lq_admin_answer answer_to(struct lq_admin *admin, struct MHD_Connection *connection,
                                        struct lq_admin_request *request)
{
    const char *host = header_of(connection, MHD_HTTP_HEADER_HOST);
    request->view = admin->user.view(admin->user.context);
    if (!lq_admin_host_is_known(host, admin->address.host, request->view->members)) {
        return lq_admin_fault(MHD_HTTP_FORBIDDEN, "host",
                              "this server is not known as '%s': use its IP address, or the host "
                              "that its admin or peer address has",
                              host);
    }
    if (request->body_len > LQ_ADMIN_BODY_MAX) {
        return too_long();
    }
    request->content_type = header_of(connection, MHD_HTTP_HEADER_CONTENT_TYPE);
    return lq_admin_answer(request);
}

/* ---- Requests. */

/* The head of a request is there. A body that is announced as far too long is not even read. */
static enum MHD_Result begin(struct MHD_Connection *connection, void **ret_input)
{
    const char *length = header_of(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (length != NULL && strtoull(length, NULL, 10) > LQ_ADMIN_DISCARD_MAX) {
        return reply(connection, too_long());
    }
    *ret_input = lq_calloc(1, sizeof(struct input));
    return MHD_YES;
}

static enum MHD_Result take(struct input *input, const char *bytes, size_t len)
{
    if (input->len < LQ_ADMIN_BODY_MAX) {
        size_t room = LQ_ADMIN_BODY_MAX - input->len;
        memcpy(input->body + input->len, bytes, len < room ? len : room);
    }
    input->len += len;
    return input->len <= LQ_ADMIN_DISCARD_MAX ? MHD_YES : MHD_NO;
}

/* libmicrohttpd's signature. NOLINTNEXTLINE(readability-function-size) */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *bytes, size_t *bytes_left, void **request_context)
{
    struct lq_admin *admin = context;
    struct input *input = *request_context;
    struct lq_admin_request request = {.user = &admin->user, .method = method, .path = path};
    (void)version;
    if (input == NULL) {
        return begin(connection, request_context);
    }
    if (*bytes_left > 0) {
        size_t len = *bytes_left;
        *bytes_left = 0;
        return take(input, bytes, len);
    }
    request.body = input->body;
    request.body_len = input->len;
    return reply(connection, answer_to(admin, connection, &request));
}

/* ---- What becomes of connections. */

static void on_answered(void *context, struct MHD_Connection *connection, void **request_context,
                        enum MHD_RequestTerminationCode code)
{
    struct lq_admin *admin = context;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct lq_admin_link *link = info->socket_context;
    lq_free(*request_context);
    *request_context = NULL;
    if (code == MHD_REQUEST_TERMINATED_COMPLETED_OK && !lq_list_is_empty(&link->in_links)) {
        lq_list_remove(&link->in_links);
        link->since_ms = lq_clock_ms();
        lq_list_append(&admin->links, &link->in_links);
    }
}

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct lq_admin *admin = context;
    struct lq_admin_link *link = *socket_context;
    switch (code) {
    case MHD_CONNECTION_NOTIFY_STARTED:
        link = lq_calloc(1, sizeof *link);
        link->since_ms = lq_clock_ms();
        link->fd =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        lq_list_append(&admin->links, &link->in_links);
        admin->n_links++;
        *socket_context = link;
        return;
    case MHD_CONNECTION_NOTIFY_CLOSED:
        lq_list_remove(&link->in_links);
        lq_free(link);
        admin->n_links--;
        lq_admin_listen_resume(admin);
        return;
    }
}

struct MHD_Daemon *lq_admin_http_start(struct lq_admin *admin)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, on_request, admin,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, admin, MHD_OPTION_NOTIFY_COMPLETED,
        on_answered, admin, MHD_OPTION_CONNECTION_LIMIT, (unsigned)LQ_ADMIN_LINKS_MAX,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, LQ_ADMIN_LINK_BYTES, MHD_OPTION_END);
}
