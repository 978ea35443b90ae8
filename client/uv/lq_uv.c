#include "lq_uv.h"

#include "lq_check.h"
#include "lq_mem.h"
#include "lq_time.h"

#include <stdio.h>
#include <unistd.h>

/* ---- Sockets. */

struct lq_uv_socket {
    uv_poll_t poll;
    struct loquet_uv *client;
    struct lq_link *link; /* NULL: done with */
    int fd;
};

static void forget_handle(struct loquet_uv *client)
{
    client->n_handles--;
    if (client->n_handles == 0) {
        loquet_uv_closed_fn *on_closed = client->on_closed;
        void *context = client->context;
        (void)close(client->alarm_fd);
        lq_free(client);
        if (on_closed != NULL) {
            on_closed(context);
        }
    }
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
    struct lq_uv_socket *socket = LQ_CONTAINER(poll, struct lq_uv_socket, poll);

    (void)status; /* reading it will tell */
    (void)events;
    if (socket->link != NULL) {
        lq_driver_ready(socket->link);
        lq_uv_wake(socket->client);
    }
}

static void *begin_watch(void *context, struct lq_link *link, int fd)
{
    struct loquet_uv *client = context;
    struct lq_uv_socket *socket = lq_malloc(sizeof *socket);

    *socket = (struct lq_uv_socket){.client = client, .link = link, .fd = fd};
    LQ_CHECK(uv_poll_init(client->loop, &socket->poll, fd) == 0);
    uv_unref((uv_handle_t *)&socket->poll);
    client->n_handles++;
    return socket;
}

static void want_events(void *watcher, short events)
{
    struct lq_uv_socket *socket = watcher;
    int wanted =
        ((events & POLLIN) != 0 ? UV_READABLE : 0) | ((events & POLLOUT) != 0 ? UV_WRITABLE : 0);

    LQ_CHECK(uv_poll_start(&socket->poll, wanted, on_socket) == 0);
}

static void socket_closed(uv_handle_t *handle)
{
    struct lq_uv_socket *socket = LQ_CONTAINER(handle, struct lq_uv_socket, poll);
    struct loquet_uv *client = socket->client;

    (void)close(socket->fd);
    lq_free(socket);
    forget_handle(client);
}

static void end_watch(void *watcher, int fd)
{
    struct lq_uv_socket *socket = watcher;

    LQ_CHECK(socket->fd == fd);
    socket->link = NULL;
    uv_close((uv_handle_t *)&socket->poll, socket_closed);
}

/* ---- Turns. */

static void ignore_idle(uv_idle_t *idle)
{
    (void)idle; /* that it is active is all that is wanted of it */
}

static void on_check(uv_check_t *check);

void lq_uv_wake(struct loquet_uv *client)
{
    if (!client->handles_closing) {
        (void)uv_idle_start(&client->idle, ignore_idle);
        (void)uv_check_start(&client->check, on_check);
    }
}

static void on_alarm(uv_poll_t *poll, int status, int events)
{
    struct loquet_uv *client = LQ_CONTAINER(poll, struct loquet_uv, alarm);

    (void)status;
    (void)events;
    lq_uv_wake(client); /* the turn sets it anew */
}

static void set_alarm(struct loquet_uv *client)
{
    uint64_t due_ms = lq_earlier(lq_driver_due_ms(&client->driver), client->close_by_ms);

    if (due_ms < client->alarm_ms || client->alarm_ms <= lq_time_now_ms()) {
        client->alarm_ms = due_ms;
        lq_alarm_set(client->alarm_fd, due_ms);
    }
}

static void deliver_refused(struct loquet_uv *client)
{
    struct lq_list refused, *member;

    lq_list_init(&refused);
    lq_list_splice(&refused, &client->refused); /* callbacks may add others: later */
    while ((member = lq_list_take(&refused)) != NULL) {
        struct lq_outcome outcome = {.result = LOQUET_INVALID};
        lq_uv_wait_end(LQ_CONTAINER(member, struct loquet_uv_wait, in_refused), &outcome);
    }
}

/* Calls all callbacks that are due. They may call anything. */
static void deliver(struct loquet_uv *client)
{
    struct lq_core *core = client->driver.cluster.core;
    struct lq_outcome outcome;
    struct lq_lease *lease;
    enum loquet_loss loss;

    deliver_refused(client);
    while (lq_driver_take(&client->driver, &outcome)) {
        if (outcome.user != NULL) {
            lq_uv_wait_end(outcome.user, &outcome);
        }
    }
    while ((lease = lq_core_take_lost(core, lq_time_now_ms(), &loss)) != NULL) {
        lq_uv_ticket_lose(LQ_CONTAINER(lease, struct loquet_uv_ticket, hold.lease), loss);
    }
}

static void handle_closed(uv_handle_t *handle)
{
    forget_handle(handle->data);
}

static void close_handle(struct loquet_uv *client, uv_handle_t *handle)
{
    handle->data = client;
    uv_close(handle, handle_closed);
}

/* Nothing is under way any more, or it takes too long. */
static void close_handles(struct loquet_uv *client)
{
    client->handles_closing = true;
    while (!lq_list_is_empty(&client->tickets)) {
        struct loquet_uv_ticket *ticket =
            LQ_CONTAINER(client->tickets.next, struct loquet_uv_ticket, in_client);
        lq_list_remove(&ticket->in_client);
        ticket->client = NULL;
    }
    lq_uv_lookup_forget(client);
    lq_driver_done(&client->driver);
    close_handle(client, (uv_handle_t *)&client->alarm);
    close_handle(client, (uv_handle_t *)&client->idle);
    close_handle(client, (uv_handle_t *)&client->check);
}

static void keep_loop_alive(struct loquet_uv *client)
{
    bool idle = client->n_waits == 0 && lq_core_is_idle(client->driver.cluster.core);

    if (idle && !client->closing) {
        uv_unref((uv_handle_t *)&client->alarm);
    } else {
        uv_ref((uv_handle_t *)&client->alarm);
    }
}

static void on_check(uv_check_t *check)
{
    struct loquet_uv *client = LQ_CONTAINER(check, struct loquet_uv, check);
    struct lq_core *core = client->driver.cluster.core;

    (void)uv_idle_stop(&client->idle);
    (void)uv_check_stop(&client->check);
    lq_driver_turn(&client->driver);
    deliver(client);
    if (lq_core_wants_lookup(core)) {
        lq_uv_lookup_start(client);
    }
    if (client->closing && client->n_waits == 0 &&
        (lq_core_is_idle(core) || lq_time_now_ms() >= client->close_by_ms)) {
        close_handles(client);
        return;
    }
    set_alarm(client);
    keep_loop_alive(client);
}

/* ---- Opening and closing. */

static bool open_alarm(struct loquet_uv *client)
{
    client->alarm_fd = lq_alarm_open();
    if (client->alarm_fd < 0) {
        return false;
    }
    LQ_CHECK(uv_poll_init(client->loop, &client->alarm, client->alarm_fd) == 0);
    LQ_CHECK(uv_poll_start(&client->alarm, UV_READABLE, on_alarm) == 0);
    LQ_CHECK(uv_idle_init(client->loop, &client->idle) == 0);
    LQ_CHECK(uv_check_init(client->loop, &client->check) == 0);
    uv_unref((uv_handle_t *)&client->alarm);
    client->n_handles = 3;
    return true;
}

static struct loquet_uv *make(uv_loop_t *loop)
{
    struct loquet_uv *client = lq_calloc(1, sizeof *client);

    client->loop = loop;
    client->alarm_ms = client->close_by_ms = LQ_NEVER;
    client->watch = (struct lq_watch){
        .context = client, .begin = begin_watch, .want = want_events, .end = end_watch};
    lq_list_init(&client->refused);
    lq_list_init(&client->tickets);
    lq_driver_init(&client->driver);
    client->driver.watch = &client->watch;
    return client;
}

struct loquet_uv *loquet_uv_open(uv_loop_t *loop, const char *endpoints, struct loquet_why *ret_why)
{
    struct lq_endpoints parsed;
    struct loquet_why unused, *why = ret_why == NULL ? &unused : ret_why;
    struct loquet_uv *client;
    size_t n_names;

    why->endpoint[0] = '\0';
    if (!lq_endpoints_parse(&parsed, endpoints, LQ_ENDPOINTS_PORT, why->text, sizeof why->text)) {
        return NULL;
    }
    client = make(loop);
    if (!open_alarm(client)) {
        (void)snprintf(why->text, sizeof why->text, "no file descriptor left");
        lq_driver_done(&client->driver);
        lq_free(client);
        return NULL;
    }
    n_names = lq_endpoints_resolve_numbers(&parsed);
    lq_driver_resolved(&client->driver, &parsed);
    if (n_names > 0) {
        lq_uv_lookup_start(client);
    }
    why->text[0] = '\0';
    return client;
}

void loquet_uv_close(struct loquet_uv *client, loquet_uv_closed_fn *on_closed, void *context)
{
    struct lq_list *tickets = &client->tickets;

    LQ_CHECK(!client->closing);
    client->closing = true;
    client->on_closed = on_closed;
    client->context = context;
    client->close_by_ms = lq_time_now_ms() + LQ_CLOSE_MS;
    for (struct lq_list *at = tickets->next; at != tickets; at = at->next) {
        struct loquet_uv_ticket *ticket = LQ_CONTAINER(at, struct loquet_uv_ticket, in_client);
        lq_hold_unkeep(&ticket->hold, client->driver.cluster.core);
    }
    lq_core_shut(client->driver.cluster.core, lq_time_now_ms());
    lq_uv_wake(client);
}
