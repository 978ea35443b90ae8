/* The life of a server: start (limits, table, hub, listener, signals), turns, and at SIGTERM or
 * SIGINT the end: no more connections, E 6 to every client, then whatever is left after STOP_MS is
 * closed. */
#include "lq_server.h"

#include "lq_check.h"
#include "lq_clock.h"
#include "lq_local.h"
#include "lq_log.h"
#include "lq_mem.h"
#include "lq_server_impl.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

/* How long clients have, after a signal, to take their last answers. A promise of one second, less
 * some. */
#define STOP_MS 300

/* System calls for answers in one turn; further ones follow in the next. */
#define CALLS_MAX (LQ_TURN_WORK / LQ_TURN_CALL_COST)

/* Descriptors for other things than connections. */
#define DESCRIPTORS_KEPT 32

/* Below this many connections the limit is worth a warning. */
#define CONNECTIONS_WANTED 10000

/* The loop's timers stand still while the machine is suspended; our deadlines do not. So it never
 * sleeps for longer. */
#define SLEEP_MAX_MS 1000

/* How often watched connections are looked at. */
#define WATCH_MS 1000

/* ---- Turns. */

static void close_lingering(struct lq_server *server, uint64_t now_ms)
{
    while (!lq_list_is_empty(&server->lingering) && server->n_calls < CALLS_MAX) {
        struct lq_link *link = LQ_CONTAINER(server->lingering.next, struct lq_link, in_lingering);
        if (link->linger_until_ms > now_ms) {
            return;
        }
        lq_link_close(link);
    }
}

static void on_timer(uv_timer_t *timer);
static void on_idle(uv_idle_t *idle);

/* Has the loop wake up at the next deadline, or at once when work is left over. */
static void arm(struct lq_server *server, uint64_t now_ms)
{
    uint64_t at_ms = lq_earlier(lq_hub_deadline(server->hub), server->stop_at_ms);
    if (!lq_list_is_empty(&server->lingering)) {
        at_ms = lq_earlier(
            at_ms,
            LQ_CONTAINER(server->lingering.next, struct lq_link, in_lingering)->linger_until_ms);
    }
    if (at_ms <= now_ms) {
        LQ_CHECK(uv_idle_start(&server->idle, on_idle) == 0);
        return;
    }
    LQ_CHECK(uv_idle_stop(&server->idle) == 0);
    if (at_ms == LQ_NEVER) {
        LQ_CHECK(uv_timer_stop(&server->timer) == 0);
        return;
    }
    uv_update_time(&server->loop);
    LQ_CHECK(
        uv_timer_start(&server->timer, on_timer, lq_earlier(at_ms - now_ms, SLEEP_MAX_MS), 0) == 0);
}

static void close_server(struct lq_server *server);

static void finish_stopping(struct lq_server *server, uint64_t now_ms)
{
    if (server->stop_at_ms == LQ_NEVER ||
        (now_ms < server->stop_at_ms && !lq_list_is_empty(&server->links))) {
        return;
    }
    while (!lq_list_is_empty(&server->links) && server->n_calls < CALLS_MAX) {
        lq_link_close(LQ_CONTAINER(server->links.next, struct lq_link, in_links));
    }
    if (lq_list_is_empty(&server->links)) {
        close_server(server);
    }
}

static void turn(struct lq_server *server)
{
    uint64_t now_ms = lq_clock_ms();
    struct lq_session *session;
    if (uv_is_closing((uv_handle_t *)&server->check)) {
        return;
    }
    lq_hub_turn(server->hub, now_ms);
    server->n_calls = 0;
    while (server->n_calls < CALLS_MAX && (session = lq_hub_take_touched(server->hub)) != NULL) {
        lq_link_serve(lq_session_link(session));
    }
    lq_mem_settle();
    server->n_calls = 0;
    close_lingering(server, now_ms);
    finish_stopping(server, now_ms);
    server->n_calls = 0;
    if (!uv_is_closing((uv_handle_t *)&server->check)) {
        arm(server, now_ms);
    }
    lq_turns_note(&server->turns);
}

void lq_server_make_room(struct lq_server *server)
{
    if (lq_hub_taken_in(server->hub) + server->n_calls * LQ_TURN_CALL_COST >= LQ_TURN_WORK) {
        turn(server);
    }
}

static void on_check(uv_check_t *check)
{
    turn(LQ_CONTAINER(check, struct lq_server, check));
}

static void on_timer(uv_timer_t *timer)
{
    turn(LQ_CONTAINER(timer, struct lq_server, timer));
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* its presence is enough: polling returns at once, and the check follows */
}

/* ---- Connections that the kernel may not report. */

static bool needs_watch(const struct lq_link *link)
{
    return link->is_blocked || link->interest == 0;
}

static void on_watch(uv_timer_t *timer)
{
    struct lq_server *server = LQ_CONTAINER(timer, struct lq_server, watch);
    struct lq_list *at = server->watched.next;
    while (at != &server->watched) {
        struct lq_link *link = LQ_CONTAINER(at, struct lq_link, in_watched);
        at = at->next;
        if (!needs_watch(link)) {
            lq_list_remove(&link->in_watched);
        } else if (lq_stream_has_vanished(&link->stream)) {
            lq_link_close(link);
        }
    }
    if (lq_list_is_empty(&server->watched)) {
        LQ_CHECK(uv_timer_stop(timer) == 0);
    }
}

void lq_server_watch(struct lq_server *server, struct lq_link *link)
{
    if (lq_list_is_empty(&link->in_watched)) {
        lq_list_append(&server->watched, &link->in_watched);
    }
    if (!uv_is_active((uv_handle_t *)&server->watch)) {
        LQ_CHECK(uv_timer_start(&server->watch, on_watch, WATCH_MS, WATCH_MS) == 0);
    }
}

/* ---- Stopping. */

static void stop(struct lq_server *server, int signum)
{
    if (server->stop_at_ms != LQ_NEVER) {
        return;
    }
    lq_log(LQ_LOG_INFO, "stopping", LQ_TEXT("signal", sigabbrev_np(signum)),
           LQ_NUMBER("connections", server->n_links));
    lq_listener_stop(&server->listener);
    lq_hub_stop(server->hub, lq_clock_ms());
    server->stop_at_ms = lq_clock_ms() + STOP_MS;
}

static void log_counters(const struct lq_server *server, const char *msg)
{
    struct lq_hub_counters counters = lq_hub_counters(server->hub);
    struct lq_table_counts table = lq_table_counts(lq_local_table(server->backend));
    lq_log(LQ_LOG_INFO, msg, LQ_NUMBER("requests", counters.requests),
           LQ_NUMBER("granted", counters.granted), LQ_NUMBER("timeouts", counters.timeouts),
           LQ_NUMBER("busy", counters.busy), LQ_NUMBER("errors", counters.errors),
           LQ_NUMBER("taken_back", counters.taken_back), LQ_NUMBER("keys", table.keys),
           LQ_NUMBER("waiters", table.waiters), LQ_NUMBER("connections", server->n_links));
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct lq_server *server = handle->data;
    if (signum == SIGUSR1) {
        log_counters(server, "statistics");
        lq_turns_log(&server->turns);
    } else {
        stop(server, signum);
    }
}

static void close_server(struct lq_server *server)
{
    lq_listener_stop(&server->listener);
    uv_close((uv_handle_t *)&server->check, NULL);
    uv_close((uv_handle_t *)&server->idle, NULL);
    uv_close((uv_handle_t *)&server->timer, NULL);
    uv_close((uv_handle_t *)&server->watch, NULL);
    for (size_t i = 0; i < sizeof server->signals / sizeof *server->signals; i++) {
        uv_close((uv_handle_t *)&server->signals[i], NULL);
    }
}

/* ---- Starting. */

/* The number of connections that the descriptor limit, raised as far as it goes, allows. */
static uint64_t raise_descriptor_limit(uint64_t wanted)
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
    allowed = limit.rlim_cur > DESCRIPTORS_KEPT ? limit.rlim_cur - DESCRIPTORS_KEPT : 1;
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

static void make_core(struct lq_server *server, const struct lq_config *config)
{
    struct lq_local_options local = {.caps = {.keys = config->max_keys,
                                              .waiters_per_key = config->max_waiters_per_key,
                                              .waiters = config->max_waiters,
                                              .state_bytes = config->max_state_bytes},
                                     .sweep_ms = config->sweep_ms,
                                     .quarantine_s = config->quarantine_s,
                                     .first_token = lq_clock_wall_us()};
    struct lq_hub_options hub = {.requests_max = config->max_requests,
                                 .unread_max = config->max_unread_bytes,
                                 .unread_total_max = config->max_unread_total_bytes,
                                 .unread_timeout_ms = config->unread_timeout_s * 1000};
    read_secret(local.secret);
    read_secret(hub.secret);
    server->backend = lq_local_new(&local, lq_clock_ms());
    server->hub = lq_hub_new(&hub, server->backend);
    if (config->quarantine_s > 0) {
        lq_log(LQ_LOG_INFO, "in quarantine: nothing is granted yet",
               LQ_NUMBER("seconds", config->quarantine_s));
    }
}

static void watch_signals(struct lq_server *server)
{
    static const int signums[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof signums / sizeof *signums; i++) {
        LQ_CHECK(uv_signal_init(&server->loop, &server->signals[i]) == 0);
        server->signals[i].data = server;
        LQ_CHECK(uv_signal_start(&server->signals[i], on_signal, signums[i]) == 0);
    }
    (void)signal(SIGPIPE, SIG_IGN); /* standard error may be a pipe whose reader went away */
}

static void init_loop(struct lq_server *server)
{
    LQ_CHECK(uv_loop_init(&server->loop) == 0);
    LQ_CHECK(uv_check_init(&server->loop, &server->check) == 0);
    LQ_CHECK(uv_idle_init(&server->loop, &server->idle) == 0);
    LQ_CHECK(uv_timer_init(&server->loop, &server->timer) == 0);
    LQ_CHECK(uv_timer_init(&server->loop, &server->watch) == 0);
    LQ_CHECK(uv_check_start(&server->check, on_check) == 0);
    watch_signals(server);
}

/* Freeing millions of locks one by one takes seconds, and the process ends anyway; only builds that
 * look for leaks do. */
static void free_server(struct lq_server *server)
{
#ifdef LOQUET_FREES_ALL
    lq_hub_free(server->hub);
    lq_local_free(server->backend);
    lq_free(server);
#else
    (void)server;
#endif
}

int lq_server_run(const struct lq_config *config)
{
    struct lq_server *server = lq_calloc(1, sizeof *server);
    bool is_started;
    lq_list_init(&server->links);
    lq_list_init(&server->lingering);
    lq_list_init(&server->watched);
    server->listener.fd = -1;
    server->stop_at_ms = LQ_NEVER;
    server->max_links = raise_descriptor_limit(config->max_connections);
    init_loop(server);
    make_core(server, config);
    lq_turns_init(&server->turns, config->turn_stats);
    is_started = lq_listener_start(&server->listener, server, config->listen);
    if (!is_started) {
        close_server(server);
    }
    LQ_CHECK(uv_run(&server->loop, UV_RUN_DEFAULT) == 0);
    LQ_CHECK(uv_loop_close(&server->loop) == 0);
    lq_turns_log(&server->turns);
    if (is_started) {
        log_counters(server, "stopped");
    }
    free_server(server);
    return is_started ? 0 : 1;
}
