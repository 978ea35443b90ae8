#include "load.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "keys.h"
#include "net.h"

/* Silence for this long beyond every wait means that the server lost a request. */
#define PATIENCE_S 10

void lq_bench_load_error(struct lq_bench_load *load, const char *format, ...)
{
    if (load->errors++ == 0) {
        va_list ap;
        va_start(ap, format);
        (void)vsnprintf(load->error, sizeof load->error, format, ap);
        va_end(ap);
    }
}

/* ---- The loop. */

static void lose(struct lq_bench_load *load, struct lq_bench_conn *conn)
{
    lq_bench_load_error(load, "connection %u: %s", (unsigned)(conn - load->conns), conn->error);
    load->active -= conn->active;
    conn->active = 0;
    load->live--;
}

static void serve(struct lq_bench_load *load, struct lq_bench_conn *conn, uint32_t events)
{
    int rv = 0;
    if (events & ~(uint32_t)EPOLLOUT) {
        rv = lq_bench_conn_receive(conn);
        if (rv == 0) {
            load->last_answer_ns = lq_bench_net_now_ns();
            rv = load->driver->take_answers(conn, load->last_answer_ns);
        }
    }
    if (rv == 0)
        rv = lq_bench_conn_flush(conn);
    if (rv != 0)
        lose(load, conn);
}

/* One turn: waits for something to read, at most until the given time. Returns the time then. */
static uint64_t turn(struct lq_bench_load *load, uint64_t until_ns)
{
    struct epoll_event events[256];
    uint64_t now_ns = lq_bench_net_now_ns();
    int timeout_ms = until_ns > now_ns ? (int)((until_ns - now_ns) / 1000000U) + 1 : 0;
    int n = epoll_wait(load->epoll, events, 256, timeout_ms);
    if (n < 0 && errno != EINTR)
        lq_bench_load_error(load, "epoll: %s", strerror(errno));
    for (int i = 0; i < n; i++)
        serve(load, events[i].data.ptr, events[i].events);
    return lq_bench_net_now_ns();
}

static void start_all(struct lq_bench_load *load)
{
    uint32_t depth = load->options->depth;
    load->last_answer_ns = lq_bench_net_now_ns();
    for (uint32_t i = 0; i < load->n_slots; i++) {
        struct lq_bench_conn *conn = load->slots[i].conn;
        if (conn->fd < 0)
            continue;
        if (load->phase != LQ_BENCH_PHASE_HOLD || load->next_held < load->options->hold)
            lq_bench_load_start(load, &load->slots[i], load->last_answer_ns);
        if (i % depth == depth - 1 && lq_bench_conn_flush(conn) != 0)
            lose(load, conn);
    }
}

/* Turns until no request is in flight, or the server is silent for too long. */
static void finish(struct lq_bench_load *load)
{
    uint64_t patience_ns = (PATIENCE_S + (uint64_t)load->options->wait_s) * 1000000000U;
    while (load->active > 0) {
        uint64_t now_ns = turn(load, load->last_answer_ns + patience_ns);
        if (now_ns >= load->last_answer_ns + patience_ns && load->active > 0) {
            lq_bench_load_error(load,
                                "%u requests have no answer %.0f s after the last answer came",
                                load->active, (double)patience_ns / 1e9);
            return;
        }
    }
}

static void set_kind(struct lq_bench_load *load, enum lq_bench_key_kind kind)
{
    for (uint32_t i = 0; i < load->n_slots; i++)
        lq_bench_key_write(load->slots[i].text, load->options->key_bytes, kind, 0);
}

void lq_bench_load_hold(struct lq_bench_load *load)
{
    uint64_t begin_ns = lq_bench_net_now_ns();
    load->phase = LQ_BENCH_PHASE_HOLD;
    set_kind(load, LQ_BENCH_KEY_HELD);
    start_all(load);
    finish(load);
    load->hold_seconds = (double)(lq_bench_net_now_ns() - begin_ns) / 1e9;
}

static uint64_t turn_for(struct lq_bench_load *load, uint64_t now_ns, double seconds)
{
    uint64_t end_ns = now_ns + (uint64_t)(seconds * 1e9);
    while (now_ns < end_ns && load->live > 0)
        now_ns = turn(load, end_ns);
    return now_ns;
}

void lq_bench_load_measure(struct lq_bench_load *load)
{
    const struct lq_bench_options *o = load->options;
    struct lq_bench_cpu_stamp begin;
    uint64_t now_ns;
    load->phase = LQ_BENCH_PHASE_WARMUP;
    set_kind(load, LQ_BENCH_KEY_LOAD);
    start_all(load);
    now_ns = turn_for(load, lq_bench_net_now_ns(), o->warmup_s);
    begin = lq_bench_cpu_now(&o->servers);
    load->phase = LQ_BENCH_PHASE_MEASURE;
    turn_for(load, now_ns, o->duration_s);
    load->usage = lq_bench_cpu_between(begin, lq_bench_cpu_now(&o->servers));
    load->phase = LQ_BENCH_PHASE_DRAIN;
    finish(load);
}

/* ---- Life. */

static int fail(struct lq_bench_load *load, const char *why)
{
    (void)snprintf(load->error, sizeof load->error, "%s", why);
    return -1;
}

static int allocate(struct lq_bench_load *load)
{
    const struct lq_bench_options *o = load->options;
    load->n_slots = o->connections * o->depth;
    load->conns = calloc(o->connections, sizeof *load->conns);
    load->slots = calloc(load->n_slots, sizeof *load->slots);
    load->texts = calloc(load->n_slots, o->key_bytes);
    if (o->keys == LQ_BENCH_SHARED && load->driver->hands_over) {
        load->keys = calloc(o->key_set, sizeof *load->keys);
        if (load->keys == NULL)
            return fail(load, "out of memory");
    }
    if (load->conns == NULL || load->slots == NULL || load->texts == NULL)
        return fail(load, "out of memory");
    for (uint32_t i = 0; i < o->connections; i++) {
        load->conns[i].fd = -1;
        load->conns[i].load = load;
    }
    for (uint32_t i = 0; i < load->n_slots; i++) {
        struct lq_bench_slot *slot = &load->slots[i];
        slot->id = i;
        slot->owner = i;
        slot->conn = &load->conns[i / o->depth];
        slot->text = load->texts + (size_t)i * o->key_bytes;
    }
    return 0;
}

/* Room for all answers that can come, within reason: the rest is read in the next turn. */
static size_t input_bytes(const struct lq_bench_load *load)
{
    size_t one = load->driver->answer_bytes(load), all = one * load->options->depth;
    if (all < 4096)
        return 4096;
    return all < 65536 ? all : 65536;
}

static int connect_all(struct lq_bench_load *load)
{
    const struct lq_bench_options *o = load->options;
    const struct lq_bench_driver *driver = load->driver;
    char target[LQ_BENCH_ADDRESS_SIZE];
    for (uint32_t i = 0; i < o->connections; i++) {
        struct lq_bench_conn *conn = &load->conns[i];
        int rv;
        if (lq_bench_net_nth(o->target, i, target, sizeof target) != 0)
            return fail(load, "an address in --target is too long");
        rv = lq_bench_conn_open(conn, target, load->epoll, input_bytes(load),
                                driver->request_bytes(load) * o->depth);
        if (rv == 0 && driver->attach != NULL)
            rv = driver->attach(conn);
        if (rv != 0)
            return fail(load, conn->error);
        load->live++;
    }
    return 0;
}

int lq_bench_load_init(struct lq_bench_load *load, const struct lq_bench_options *options)
{
    static const struct lq_bench_driver *const drivers[] = {
        [LQ_BENCH_LOQUET] = &lq_bench_driver_loquet, [LQ_BENCH_REDIS] = &lq_bench_driver_redis,
        [LQ_BENCH_ECHO] = &lq_bench_driver_echo,     [LQ_BENCH_ETCD] = &lq_bench_driver_etcd,
        [LQ_BENCH_FLOOR] = &lq_bench_driver_floor,
    };
    memset(load, 0, sizeof *load);
    load->options = options;
    load->driver = drivers[options->protocol];
    load->random = options->seed;
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (load->epoll < 0)
        return fail(load, strerror(errno));
    if (allocate(load) != 0 || load->driver->init(load) != 0)
        return -1;
    return connect_all(load);
}

void lq_bench_load_done(struct lq_bench_load *load)
{
    const struct lq_bench_driver *driver = load->driver;
    for (uint32_t i = 0; load->conns != NULL && i < load->options->connections; i++) {
        if (driver->detach != NULL)
            driver->detach(&load->conns[i]);
        lq_bench_conn_close(&load->conns[i]);
    }
    driver->done(load);
    if (load->epoll >= 0)
        close(load->epoll);
    free(load->conns);
    free(load->slots);
    free(load->texts);
    free(load->keys);
}
