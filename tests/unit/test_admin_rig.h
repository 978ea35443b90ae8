/* What the tests of the admin interface share: one on a free port of the loopback address, a
 * scripted node behind it, and clients on plain sockets. One loop, one thread: whoever waits for
 * something turns the loop until it is so. */
#ifndef TEST_ADMIN_RIG_H
#define TEST_ADMIN_RIG_H

#include "lq_admin_impl.h"
#include "lq_clock.h"
#include "lq_log.h"
#include "lq_mem.h"
#include "lq_test.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 20000 /* in which what must come has to come */
#define TEXT_MAX    65536

struct rig {
    uv_loop_t loop;
    struct lq_admin *admin;
    uint16_t port;
    struct lq_members members;
    struct lq_node_view view;
    /* What changes come to, and the latest of them. */
    enum lq_change_result result;
    unsigned n_changes;
    int kind; /* enum lq_change_kind; -1: a replacement */
    uint32_t node, new_node;
    char address[LQ_ADDRESS_MAX + 1];
};

/* ---- The node. */

static const struct lq_node_view *rig_view(void *context)
{
    return &((struct rig *)context)->view;
}

static void rig_note(struct rig *rig, int kind, uint32_t node, const char *address)
{
    rig->n_changes++;
    rig->kind = kind;
    rig->node = node;
    (void)snprintf(rig->address, sizeof rig->address, "%s", address == NULL ? "" : address);
}

static enum lq_change_result rig_change(void *context, enum lq_change_kind kind, uint32_t node,
                                        const char *address)
{
    struct rig *rig = context;
    rig_note(rig, (int)kind, node, address);
    return rig->result;
}

static enum lq_change_result rig_replace(void *context, uint32_t old_node, uint32_t new_node,
                                         const char *address)
{
    struct rig *rig = context;
    rig_note(rig, -1, old_node, address);
    rig->new_node = new_node;
    return rig->result;
}

static void rig_open_at(struct rig *rig, const char *address)
{
    struct lq_admin_user user = {rig, rig_view, rig_change, rig_replace};
    struct sockaddr_in6 bound = {0};
    socklen_t len = sizeof bound;
    *rig = (struct rig){.result = LQ_CHANGE_STARTED};
    ck_assert(lq_members_add(&rig->members, 1, "node1.example:7312", LQ_ROLE_VOTER));
    ck_assert(lq_members_add(&rig->members, 2, "127.0.0.1:7322", LQ_ROLE_VOTER));
    ck_assert(lq_members_add(&rig->members, 3, "[::1]:7332", LQ_ROLE_STANDBY));
    rig->view = (struct lq_node_view){.node = 1,
                                      .name = "one",
                                      .cluster = 0xfeed,
                                      .members = &rig->members,
                                      .replica = {.role = LQ_REPLICA_LEADER, .leader = 1},
                                      .is_ready = true};
    lq_log_set_level(LQ_LOG_WARN);
    ck_assert_int_eq(uv_loop_init(&rig->loop), 0);
    rig->admin = lq_admin_start(&rig->loop, address, &user);
    ck_assert_ptr_nonnull(rig->admin);
    ck_assert_int_eq(getsockname(rig->admin->fd, (struct sockaddr *)&bound, &len), 0);
    rig->port = ntohs(bound.sin6_port); /* IPv4 has it in the same place */
}

static inline void rig_open(struct rig *rig)
{
    rig_open_at(rig, "127.0.0.1:0");
}

static void rig_close(struct rig *rig)
{
    lq_admin_stop(rig->admin);
    ck_assert_int_eq(uv_run(&rig->loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&rig->loop), 0);
}

static inline void rig_turn(struct rig *rig)
{
    (void)uv_run(&rig->loop, UV_RUN_NOWAIT);
}

/* ---- Clients. */

struct client {
    char bytes[TEXT_MAX];
    size_t len;
    int fd;
    bool is_ended; /* the server closed */
};

static inline void client_open(struct rig *rig, struct client *client)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(rig->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    client->fd = socket(AF_INET, SOCK_STREAM, 0);
    client->len = 0;
    client->is_ended = false;
    ck_assert_int_ge(client->fd, 0);
    ck_assert_int_eq(connect(client->fd, (struct sockaddr *)&to, sizeof to), 0);
    ck_assert_int_eq(fcntl(client->fd, F_SETFL, O_NONBLOCK), 0);
}

static inline void client_close(struct client *client)
{
    (void)close(client->fd);
}

/* Takes in what is there. */
static inline void client_read(struct client *client)
{
    while (!client->is_ended && client->len < TEXT_MAX - 1) {
        ssize_t n = recv(client->fd, client->bytes + client->len, TEXT_MAX - 1 - client->len, 0);
        if (n < 0 && errno == EAGAIN) {
            break;
        }
        client->is_ended = n <= 0;
        client->len += n > 0 ? (size_t)n : 0;
    }
    client->bytes[client->len] = '\0';
}

/* Sends all of it, or until the server closes. */
static inline void client_send(struct rig *rig, struct client *client, const char *bytes,
                               size_t len)
{
    uint64_t until_ms = lq_clock_ms() + PATIENCE_MS;
    while (len > 0 && !client->is_ended) {
        ssize_t n = send(client->fd, bytes, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) {
            return;
        }
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
        rig_turn(rig);
        client_read(client);
        ck_assert_msg(lq_clock_ms() < until_ms, "the server reads nothing more");
    }
}

static inline void client_say(struct rig *rig, struct client *client, const char *text)
{
    client_send(rig, client, text, strlen(text));
}

static inline size_t count_of(const char *text, const char *word)
{
    size_t n = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        n++;
    }
    return n;
}

/* Turns the loop until `n` answers have begun to come. */
static inline void client_await(struct rig *rig, struct client *client, size_t n)
{
    uint64_t until_ms = lq_clock_ms() + PATIENCE_MS;
    do {
        rig_turn(rig);
        client_read(client);
        ck_assert_msg(lq_clock_ms() < until_ms, "waited in vain for an answer: %s", client->bytes);
    } while (count_of(client->bytes, "HTTP/1.1 ") < n);
}

/* Turns the loop until the server closes. */
static inline void client_await_end(struct rig *rig, struct client *client)
{
    uint64_t until_ms = lq_clock_ms() + PATIENCE_MS;
    while (!client->is_ended) {
        rig_turn(rig);
        client_read(client);
        ck_assert_msg(lq_clock_ms() < until_ms, "waited in vain for the end: %s", client->bytes);
    }
}

static inline int status_of(const char *answer)
{
    static const char head[] = "HTTP/1.1 ";
    ck_assert_msg(strncmp(answer, head, strlen(head)) == 0, "no answer: %s", answer);
    return (int)strtol(answer + strlen(head), NULL, 10);
}

static inline const char *body_of(const char *answer)
{
    const char *end = strstr(answer, "\r\n\r\n");
    ck_assert_ptr_nonnull(end);
    return end + 4;
}

#define JSON_TYPE "Content-Type: application/json\r\n"

/* One request on a connection of its own; `headers` are lines with CR LF. The answer is in
 * `client->bytes`; returns its status. */
static inline int ask(struct rig *rig, struct client *client, const char *line, const char *headers,
                      const char *body)
{
    char request[8192];
    (void)snprintf(request, sizeof request,
                   "%s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n%sContent-Length: "
                   "%zu\r\n\r\n%s",
                   line, headers, strlen(body), body);
    client_open(rig, client);
    client_say(rig, client, request);
    client_await_end(rig, client);
    client_close(client);
    return status_of(client->bytes);
}

static inline int get(struct rig *rig, struct client *client, const char *path)
{
    char line[512];
    (void)snprintf(line, sizeof line, "GET %s", path);
    return ask(rig, client, line, "", "");
}

static inline int post(struct rig *rig, struct client *client, const char *path, const char *body)
{
    char line[512];
    (void)snprintf(line, sizeof line, "POST %s", path);
    return ask(rig, client, line, JSON_TYPE, body);
}

/* The JSON of an answer; the caller frees it. */
static inline json_t *json_of(const struct client *client)
{
    json_error_t error;
    json_t *object = json_loads(body_of(client->bytes), JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(object != NULL, "%s in %s", error.text, client->bytes);
    return object;
}

/* Whether the JSON of an answer is that, written with ' for ". */
static inline void assert_json(const json_t *json, const char *wanted)
{
    char text[4096];
    json_error_t error;
    json_t *other;
    char *have;
    (void)snprintf(text, sizeof text, "%s", wanted);
    for (char *at = strchr(text, '\''); at != NULL; at = strchr(at, '\'')) {
        *at = '"';
    }
    other = json_loads(text, JSON_DECODE_ANY, &error);
    ck_assert_msg(other != NULL, "%s in %s", error.text, text);
    have = json_dumps(json, JSON_ENCODE_ANY);
    ck_assert_msg(json_equal(json, other), "%s instead of %s", have, text);
    lq_free(have);
    json_decref(other);
}

#endif
