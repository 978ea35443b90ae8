/* What the tests of links share: nodes with real links in one loop, a user that follows a script
 * and notes what it is told, peers made of plain sockets, and the log. */
#ifndef TEST_LINKS_RIG_H
#define TEST_LINKS_RIG_H

#include "lq_clock.h"
#include "lq_links_impl.h"
#include "lq_test.h"
#include "support/hot_assert.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define NODES   4 /* ids 1 to 3; place 0 is not used */
#define CLUSTER UINT64_C(0xC1)

/* Free ports that a test takes, those of its nodes included. */
#define RIG_PORTS 16

/* Nothing here takes so long on its own. */
#define PATIENCE_MS 20000

struct rig;

/* What one node was told of another. */
struct told {
    unsigned ups, downs, refused_downs, refusals, messages;
    bool is_linked, is_full;
    enum lq_link_verdict refusal; /* the last one */
    uint64_t boot;                /* of the last hello */
    uint32_t next;                /* number of the message that comes next */
    uint64_t down_ms, refused_down_ms;
};

struct node {
    struct rig *rig;
    struct lq_links *links;
    uint32_t id;
    uint64_t boot, cluster;
    unsigned port;
    bool cannot_greet;
    enum lq_link_verdict verdicts[NODES + 1]; /* of `up`, by peer */
    struct told told[NODES + 1];              /* by peer; others at the end */
    bool is_woken;
    uint32_t unlink_at; /* a message with this number makes it unlink its sender; 0: none */
};

struct rig {
    uv_loop_t loop;
    uv_timer_t ticker; /* lets conditions be looked at */
    struct node nodes[NODES];
    unsigned inside; /* calls of lq_links_* that run: the user must not be called */
    int log_fd;
    const char *host; /* that all nodes listen on */
    struct lq_rand rand;
    int marks[RIG_PORTS]; /* of the ports that free_port gave */
    unsigned n_marks;
};

/* ---- The user. */

static inline struct told *told_by(struct node *node, uint32_t peer)
{
    return &node->told[peer < NODES ? peer : NODES];
}

static inline void user_wake(void *context)
{
    struct node *node = context;
    LQ_HOT_ASSERT(node->rig->inside == 0);
    node->is_woken = true;
}

/* Every call is announced by one of wake. */
static inline struct node *announced(void *context)
{
    struct node *node = context;
    LQ_HOT_ASSERT(node->rig->inside == 0);
    LQ_HOT_ASSERT(node->is_woken);
    node->is_woken = false;
    return node;
}

static inline bool user_can_greet(void *context)
{
    struct node *node = context;
    LQ_HOT_ASSERT(node->rig->inside == 0);
    return !node->cannot_greet;
}

static inline struct lq_hello hello_of(const struct node *node, uint32_t to)
{
    return (struct lq_hello){
        .cluster = node->cluster, .from = node->id, .to = to, .boot = node->boot};
}

static inline struct lq_hello user_hello(void *context, uint32_t to)
{
    return hello_of(context, to);
}

static inline enum lq_link_verdict user_up(void *context, const struct lq_hello *hello)
{
    struct node *node = announced(context);
    struct told *told = told_by(node, hello->from);
    enum lq_link_verdict verdict = node->verdicts[hello->from < NODES ? hello->from : NODES];
    if (hello->cluster != node->cluster) {
        return LQ_LINK_WRONG_CLUSTER;
    }
    if (hello->to != node->id) {
        return LQ_LINK_WRONG_NODE;
    }
    if (hello->boot < told->boot) {
        return LQ_LINK_OLD_LIFE;
    }
    if (verdict == LQ_LINK_OK) {
        told->ups++;
        told->is_linked = true;
        told->is_full = false;
        told->boot = hello->boot;
        told->next = 0;
    }
    return verdict;
}

static inline void user_down(void *context, uint32_t peer, bool is_refused)
{
    struct node *node = announced(context);
    struct told *told = told_by(node, peer);
    if (is_refused) {
        LQ_HOT_ASSERT(!told->is_linked); /* the break was told before */
        told->refused_downs++;
        told->refused_down_ms = lq_clock_ms();
    } else {
        LQ_HOT_ASSERT(told->is_linked);
        told->downs++;
        told->down_ms = lq_clock_ms();
    }
    told->is_linked = false;
}

static inline void user_full(void *context, uint32_t peer, bool is_full)
{
    struct told *told = told_by(announced(context), peer);
    LQ_HOT_ASSERT(told->is_linked && told->is_full != is_full);
    told->is_full = is_full;
}

static inline void user_refused(void *context, uint32_t peer, enum lq_link_verdict reason)
{
    struct told *told = told_by(announced(context), peer);
    LQ_HOT_ASSERT(reason != LQ_LINK_OK);
    told->refusals++;
    told->refusal = reason;
}

/* A body of `len` bytes, at least 8, with a number; any other is no message. */
static inline void fill_body(uint8_t *ret_body, size_t len, uint32_t number)
{
    uint32_t parts[2] = {number, (uint32_t)len};
    memcpy(ret_body, parts, sizeof parts);
    memset(ret_body + sizeof parts, (int)(number * 7 + 1), len - sizeof parts);
}

static inline bool user_message(void *context, uint32_t peer, const uint8_t *body, size_t len)
{
    struct node *node = announced(context);
    struct told *told = told_by(node, peer);
    uint32_t parts[2];
    LQ_HOT_ASSERT(told->is_linked);
    if (len < sizeof parts) {
        return false;
    }
    memcpy(parts, body, sizeof parts);
    if (parts[1] != len || parts[0] != told->next) {
        return false;
    }
    for (size_t i = sizeof parts; i < len; i++) {
        if (body[i] != (uint8_t)(parts[0] * 7 + 1)) {
            return false;
        }
    }
    told->next++;
    told->messages++;
    if (node->unlink_at != 0 && parts[0] == node->unlink_at) {
        lq_links_unlink(node->links, peer, "the test wants it"); /* as a turn inside of wake does */
        told->is_linked = false;
    }
    return true;
}

/* ---- Nodes. */

static inline void node_start(struct node *node)
{
    const struct lq_links_user user = {.context = node,
                                       .wake = user_wake,
                                       .can_greet = user_can_greet,
                                       .hello = user_hello,
                                       .up = user_up,
                                       .down = user_down,
                                       .full = user_full,
                                       .message = user_message,
                                       .refused = user_refused};
    struct lq_links_options options;
    char address[32];
    lq_links_defaults(&options);
    options.node = node->id;
    options.cluster = node->cluster;
    node->boot++;
    memset(node->told, 0, sizeof node->told);
    (void)snprintf(address, sizeof address, "%s:%u", node->rig->host, node->port);
    node->links = lq_links_new(&node->rig->loop, &options, &user);
    LQ_HOT_ASSERT(lq_links_listen(node->links, address));
}

static inline void node_stop(struct node *node)
{
    if (node->links != NULL) {
        lq_links_close(node->links);
        node->links = NULL;
    }
}

static inline void add_member_at(struct lq_members *members, uint32_t node, const char *host,
                                 unsigned port)
{
    char address[64];
    (void)snprintf(address, sizeof address, "%s:%u", host, port);
    LQ_HOT_ASSERT(lq_members_add(members, node, address, LQ_ROLE_VOTER));
}

static inline void add_member(struct lq_members *members, uint32_t node, unsigned port)
{
    add_member_at(members, node, "127.0.0.1", port);
}

static inline void node_set_members(struct node *node, const struct lq_members *members)
{
    node->rig->inside++;
    lq_links_set_members(node->links, members);
    node->rig->inside--;
}

/* The first `n` nodes of the rig as members. */
static inline void node_join(struct node *node, uint32_t n)
{
    struct lq_members members = {.n = 0};
    for (uint32_t id = 1; id <= n; id++) {
        add_member_at(&members, id, node->rig->host, node->rig->nodes[id].port);
    }
    node_set_members(node, &members);
}

/* Sends a message without flushing. */
static inline void node_send(struct node *node, uint32_t to, size_t len, uint32_t number)
{
    uint8_t *frame = malloc(len + 4);
    uint32_t head = htonl((uint32_t)len);
    memcpy(frame, &head, sizeof head);
    fill_body(frame + 4, len, number);
    node->rig->inside++;
    lq_links_send(node->links, to, frame, len + 4);
    node->rig->inside--;
    free(frame);
}

static inline void node_flush(struct node *node)
{
    node->rig->inside++;
    lq_links_flush(node->links);
    node->rig->inside--;
}

/* ---- The loop. */

static inline void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/* A port that nobody uses, below those that the kernel gives to outgoing connections. A UDP socket
 * bound to it marks it as promised: whoever has a port's, in any process here, has the port. */
static inline unsigned free_port(struct rig *rig)
{
    LQ_HOT_ASSERT(rig->n_marks < RIG_PORTS);
    for (;;) {
        struct sockaddr_in address = {.sin_family = AF_INET};
        unsigned port = 12000 + (unsigned)lq_rand_below(&rig->rand, 18000);
        int mark = socket(AF_INET, SOCK_DGRAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
        bool is_free;
        address.sin_port = htons((uint16_t)port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        is_free = bind(mark, (struct sockaddr *)&address, sizeof address) == 0 &&
                  bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
        close(fd);
        if (is_free) {
            rig->marks[rig->n_marks++] = mark;
            return port;
        }
        close(mark);
    }
}

/* `seed` alone would give the ports of another process of the same run. */
static inline void rig_init(struct rig *rig, uint64_t seed, uint64_t stream)
{
    memset(rig, 0, sizeof *rig);
    rig->host = "127.0.0.1";
    rig->rand = lq_rand_of(seed + (uint64_t)getpid(), stream);
    ck_assert(uv_loop_init(&rig->loop) == 0);
    ck_assert(uv_timer_init(&rig->loop, &rig->ticker) == 0);
    ck_assert(uv_timer_start(&rig->ticker, on_tick, 1, 2) == 0);
    rig->log_fd = memfd_create("log", 0);
    ck_assert(rig->log_fd >= 0 && dup2(rig->log_fd, STDERR_FILENO) >= 0);
    for (uint32_t id = 1; id < NODES; id++) {
        rig->nodes[id] = (struct node){.rig = rig, .id = id, .boot = 100, .cluster = CLUSTER};
        rig->nodes[id].port = free_port(rig);
    }
}

static inline void rig_done(struct rig *rig)
{
    for (uint32_t id = 1; id < NODES; id++) {
        node_stop(&rig->nodes[id]);
    }
    uv_close((uv_handle_t *)&rig->ticker, NULL);
    ck_assert(uv_run(&rig->loop, UV_RUN_DEFAULT) == 0);
    ck_assert(uv_loop_close(&rig->loop) == 0);
    close(rig->log_fd);
    while (rig->n_marks > 0) {
        close(rig->marks[--rig->n_marks]);
    }
}

/* How many log lines have this text. */
static inline unsigned log_lines(const struct rig *rig, const char *text)
{
    static char bytes[1 << 20];
    ssize_t len = pread(rig->log_fd, bytes, sizeof bytes - 1, 0);
    unsigned n = 0;
    bytes[len > 0 ? len : 0] = '\0';
    for (char *line = strtok(bytes, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        n += strstr(line, text) != NULL;
    }
    return n;
}

/* All of the log goes to the standard output. */
static inline void log_show(const struct rig *rig)
{
    char bytes[4096];
    ssize_t len;
    for (off_t at = 0; (len = pread(rig->log_fd, bytes, sizeof bytes, at)) > 0; at += len) {
        (void)fwrite(bytes, 1, (size_t)len, stdout);
    }
    (void)fflush(stdout);
}

/* Runs the loop until the condition, an expression, holds. */
#define RUN_UNTIL(rig, condition)                                                                  \
    do {                                                                                           \
        uint64_t end_ms_ = lq_clock_ms() + PATIENCE_MS;                                            \
        while (!(condition)) {                                                                     \
            if (lq_clock_ms() > end_ms_) {                                                         \
                log_show(rig);                                                                     \
                ck_abort_msg("never came: %s", #condition);                                        \
            }                                                                                      \
            uv_run(&(rig)->loop, UV_RUN_ONCE);                                                     \
        }                                                                                          \
    } while (0)

static inline void run_for(struct rig *rig, uint64_t ms)
{
    uint64_t end_ms = lq_clock_ms() + ms;
    RUN_UNTIL(rig, lq_clock_ms() >= end_ms);
}

static inline unsigned count_conns(const struct node *node)
{
    unsigned n = 0;
    for (struct lq_list *at = node->links->conns.next; at != &node->links->conns; at = at->next) {
        n++;
    }
    return n;
}

/* The link between the two stands at both ends, is the same, and there is nothing else. */
static inline bool are_linked(const struct node *a, const struct node *b)
{
    const struct lq_links_peer *from_a = lq_links_find(a->links, b->id);
    const struct lq_links_peer *from_b = lq_links_find(b->links, a->id);
    struct sockaddr_in here = {0}, there = {0};
    socklen_t here_len = sizeof here, there_len = sizeof there;
    if (from_a == NULL || from_b == NULL || from_a->link == NULL || from_b->link == NULL) {
        return false;
    }
    return getsockname(from_a->link->stream.fd, (struct sockaddr *)&here, &here_len) == 0 &&
           getpeername(from_b->link->stream.fd, (struct sockaddr *)&there, &there_len) == 0 &&
           here.sin_port == there.sin_port && from_a->dial.conn == NULL &&
           from_b->dial.conn == NULL && a->links->n_held == 0 && b->links->n_held == 0;
}

/* ---- Peers made of plain sockets. */

static inline int raw_connect(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

static inline int raw_listen(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    ck_assert(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 100) == 0);
    return fd;
}

static inline void raw_send(int fd, const void *bytes, size_t len)
{
    ck_assert(send(fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len);
}

static inline void raw_hello(int fd, const struct lq_hello *hello)
{
    struct lq_buffer out;
    lq_buffer_init(&out);
    lq_hello_put(&out, hello);
    raw_send(fd, out.bytes, out.len);
    lq_buffer_done(&out);
}

/* Whether the other side has closed; reads and drops what came before. */
static inline bool raw_is_closed(int fd)
{
    char bytes[4096];
    ssize_t n;
    do {
        n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    } while (n > 0);
    return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* How many bytes lie there to be read. */
static inline size_t raw_waiting(int fd)
{
    uint8_t bytes[4096];
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_PEEK);
    return n > 0 ? (size_t)n : 0;
}

#endif
