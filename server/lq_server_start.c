/* How a server starts: descriptors, loop, table or node, sessions, listener, signals; and its end.
 */
#include "lq_check.h"
#include "lq_clock.h"
#include "lq_local.h"
#include "lq_log.h"
#include "lq_mem.h"
#include "lq_server_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

/* Descriptors for other things than connections. */
#define DESCRIPTORS_KEPT 32

/* The same, of a node of a cluster: peers, admin, files. */
#define NODE_DESCRIPTORS_KEPT 320

/* Below this many connections the limit is worth a warning. */
#define CONNECTIONS_WANTED 10000

/* Exit status of a node that stopped itself. */
#define EXIT_FAILED 3

/* The number of connections that the descriptor limit, raised as far as it goes, allows. */
static uint64_t raise_descriptor_limit(uint64_t wanted, uint64_t kept)
{
    struct rlimit limit;
    uint64_t allowed;
    LQ_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        lq_log(LQ_LOG_WARN, "cannot raise the file descriptor limit",
               LQ_TEXT("reason", strerror(errno)));
        LQ_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    }
    allowed = limit.rlim_cur > kept ? limit.rlim_cur - kept : 1;
    if (allowed < (wanted == 0 ? CONNECTIONS_WANTED : wanted)) {
        lq_log(LQ_LOG_WARN, "few file descriptors; raise the hard limit (ulimit -Hn, LimitNOFILE)",
               LQ_NUMBER("descriptors", limit.rlim_cur), LQ_NUMBER("connections", allowed));
    }
    return wanted == 0 ? allowed : lq_earlier(wanted, allowed);
}

static void read_secret(uint8_t ret_secret[16])
{
    LQ_CHECK(getrandom(ret_secret, 16, 0) == 16);
}

static struct lq_backend *new_local(const struct lq_config *config)
{
    struct lq_local_options options = {.caps = {.keys = config->max_keys,
                                                .waiters_per_key = config->max_waiters_per_key,
                                                .waiters = config->max_waiters,
                                                .state_bytes = config->max_state_bytes},
                                       .sweep_ms = config->sweep_ms,
                                       .quarantine_s = config->quarantine_s,
                                       .first_token = lq_clock_wall_us()};
    read_secret(options.secret);
    if (config->quarantine_s > 0) {
        lq_log(LQ_LOG_INFO, "in quarantine: nothing is granted yet",
               LQ_NUMBER("seconds", config->quarantine_s));
    }
    return lq_local_new(&options, lq_clock_ms());
}

/* ---- What a node asks of its server. */

static const struct lq_hub *hub_of(void *context)
{
    return ((const struct lq_server *)context)->hub;
}

static uint64_t connections_of(void *context)
{
    return ((const struct lq_server *)context)->n_links;
}

static uint64_t longest_turn_of(void *context)
{
    return ((const struct lq_server *)context)->turns.longest_us;
}

/* The lock table, here or replicated, and the sessions over it. False: the node can't start, which
 * was logged. */
static bool make_core(struct lq_server *server, const struct lq_config *config)
{
    struct lq_hub_options hub = {.requests_max = config->max_requests,
                                 .unread_max = config->max_unread_bytes,
                                 .unread_total_max = config->max_unread_total_bytes,
                                 .unread_timeout_ms = config->unread_timeout_s * 1000};
    struct lq_node_user user = {.context = server,
                                .hub = hub_of,
                                .connections = connections_of,
                                .longest_turn_us = longest_turn_of};
    read_secret(hub.secret);
    if (config->node_id == 0) {
        server->backend = new_local(config);
    } else {
        server->node = lq_node_start(&server->loop, config, &user);
        if (lq_node_has_failed(server->node)) {
            return false;
        }
        server->backend = lq_node_backend(server->node);
    }
    server->hub = lq_hub_new(&hub, server->backend);
    return true;
}

/* Freeing millions of locks one by one takes seconds, and the process ends anyway; only builds that
 * look for leaks do. */
static void free_server(struct lq_server *server)
{
#ifdef LOQUET_FREES_ALL
    lq_hub_free(server->hub);
    if (server->node != NULL) {
        lq_node_free(server->node);
    } else {
        lq_local_free(server->backend);
    }
    lq_free(server);
#else
    (void)server;
#endif
}

static struct lq_server *new_server(const struct lq_config *config)
{
    struct lq_server *server = lq_calloc(1, sizeof *server);
    uint64_t kept = config->node_id == 0 ? DESCRIPTORS_KEPT : NODE_DESCRIPTORS_KEPT;
    lq_list_init(&server->links);
    lq_list_init(&server->lingering);
    lq_list_init(&server->watched);
    server->listener.fd = -1;
    server->stop_at_ms = LQ_NEVER;
    server->max_links = raise_descriptor_limit(config->max_connections, kept);
    lq_server_init_loop(server);
    return server;
}

int lq_server_run(const struct lq_config *config)
{
    struct lq_server *server = new_server(config);
    bool is_started =
        make_core(server, config) && lq_listener_start(&server->listener, server, config->listen);
    int status;
    lq_turns_init(&server->turns, config->turn_stats);
    if (!is_started) {
        lq_server_close(server);
    }
    LQ_CHECK(uv_run(&server->loop, UV_RUN_DEFAULT) == 0);
    LQ_CHECK(uv_loop_close(&server->loop) == 0);
    lq_turns_log(&server->turns);
    if (is_started) {
        lq_server_log_counters(server, "stopped");
    }
    status = !is_started                                                ? 1
             : server->node != NULL && lq_node_has_failed(server->node) ? EXIT_FAILED
                                                                        : 0;
    free_server(server);
    return status;
}
