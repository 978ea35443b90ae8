/* The server at work: turns of its loop, connections that the kernel may not report, signals. How
 * it begins is in lq_server_start.c, how it stops in lq_server_stop.c. */
#include "lq_server.h"

#include "lq_check.h"
#include "lq_clock.h"
#include "lq_local.h"
#include "lq_log.h"
#include "lq_mem.h"
#include "lq_server_impl.h"

#include <signal.h>

/* The loop's timers stand still while the machine is suspended; our deadlines do not. So it never
 * sleeps for longer. */
#define SLEEP_MAX_MS 1000

/* How often watched connections are looked at. */
#define WATCH_MS 1000

/* Who was written to is believed to be there for so long. */
#define UNHEARD_MS 4000

/* ---- Turns. */

static void close_lingering(struct lq_server *server, uint64_t now_ms)
{
    while (!lq_list_is_empty(&server->lingering) && server->n_calls < LQ_TURN_CALLS) {
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

static bool has_failed(const struct lq_server *server)
{
    return server->node != NULL && lq_node_has_failed(server->node);
}

/* What came in, and what is due. A node that failed in here has nothing more to say to clients. */
static void work(struct lq_server *server, uint64_t now_ms)
{
    struct lq_session *session;
    if (server->node != NULL) {
        lq_node_begin(server->node, now_ms);
    }
    lq_hub_turn(server->hub, now_ms);
    if (server->node != NULL) {
        lq_node_end(server->node);
    }
    server->n_calls = 0;
    while (server->n_calls < LQ_TURN_CALLS && !has_failed(server) &&
           (session = lq_hub_take_touched(server->hub)) != NULL) {
        lq_link_serve(lq_session_link(session));
    }
}

static void turn(struct lq_server *server)
{
    uint64_t now_ms = lq_clock_ms();
    if (uv_is_closing((uv_handle_t *)&server->check)) {
        return;
    }
    if (!has_failed(server)) {
        work(server, now_ms);
    }
    lq_mem_settle();
    server->n_calls = 0;
    close_lingering(server, now_ms);
    lq_server_go_on_stopping(server, now_ms);
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

/* The turn comes after polling, so that after a pause of the process what came in meanwhile counts
 * before timeouts do. */
static void on_timer(uv_timer_t *timer)
{
    struct lq_server *server = LQ_CONTAINER(timer, struct lq_server, timer);
    LQ_CHECK(uv_idle_start(&server->idle, on_idle) == 0);
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* its presence is enough: polling returns at once, and the check follows */
}

/* ---- Connections that the kernel may not report. */

static bool needs_watch(const struct lq_link *link)
{
    return link->is_blocked || link->interest == 0 || link->is_unheard;
}

/* A connection in use, whose client has time to say something before the kernel is asked. */
static bool can_be_left(const struct lq_link *link)
{
    return !link->is_blocked && link->interest != 0 &&
           uv_now(&link->server->loop) < link->unheard_since_ms + UNHEARD_MS;
}

static void look_at(struct lq_link *link)
{
    if (lq_stream_has_vanished(&link->stream)) {
        lq_link_close(link);
    } else if (link->is_unheard && lq_stream_is_all_acknowledged(&link->stream)) {
        link->is_unheard = false;
    }
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
        } else if (!can_be_left(link)) {
            look_at(link);
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

/* ---- Loop. */

void lq_server_log_counters(const struct lq_server *server, const char *msg)
{
    struct lq_hub_counters counters = lq_hub_counters(server->hub);
    struct lq_table_counts table = lq_table_counts(
        server->node != NULL ? lq_node_table(server->node) : lq_local_table(server->backend));
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
        lq_server_log_counters(server, "statistics");
        lq_turns_log(&server->turns);
    } else {
        lq_server_stop(server, signum);
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

void lq_server_init_loop(struct lq_server *server)
{
    LQ_CHECK(uv_loop_init(&server->loop) == 0);
    LQ_CHECK(uv_check_init(&server->loop, &server->check) == 0);
    LQ_CHECK(uv_idle_init(&server->loop, &server->idle) == 0);
    LQ_CHECK(uv_timer_init(&server->loop, &server->timer) == 0);
    LQ_CHECK(uv_timer_init(&server->loop, &server->watch) == 0);
    LQ_CHECK(uv_check_start(&server->check, on_check) == 0);
    watch_signals(server);
}

void lq_server_close(struct lq_server *server)
{
    lq_listener_stop(&server->listener);
    if (server->node != NULL) {
        lq_node_close(server->node);
    }
    uv_close((uv_handle_t *)&server->check, NULL);
    uv_close((uv_handle_t *)&server->idle, NULL);
    uv_close((uv_handle_t *)&server->timer, NULL);
    uv_close((uv_handle_t *)&server->watch, NULL);
    for (size_t i = 0; i < sizeof server->signals / sizeof *server->signals; i++) {
        uv_close((uv_handle_t *)&server->signals[i], NULL);
    }
}
