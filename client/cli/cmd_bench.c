/* `loquet bench`: how many pairs of acquire and release a server or cluster does for this machine.
 *
 * Each connection is a client of the public library with a thread of its own, which acquires and
 * releases a key of its own as fast as it can, so that nobody waits for anybody. All are connected
 * before the time begins. When it is over, or after INT or TERM, what is under way is still ended,
 * and then told. */
#include "lq_latency.h"
#include "lq_mem.h"
#include "lq_out.h"
#include "lq_time.h"
#include "lq_where.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* After a failure, so that a server that is gone is not dialled in a loop. */
#define PAUSE_NS 10000000

struct worker {
    pthread_t thread;
    struct loquet_client *client;
    const atomic_bool *is_over;
    uint32_t lease_s;
    char key[LOQUET_KEY_MAX + 1];
    struct lq_latency acquire, release; /* what became of the pairs */
    uint64_t n_errors;
    char error[400]; /* the last one */
};

struct bench {
    const struct lq_cli *cli;
    struct worker *workers;
    uint32_t n; /* workers that have a client */
    atomic_bool is_over;
    uint64_t took_us;
};

/* ---- A worker. */

static void note_error(struct worker *worker, const char *what, enum loquet_result result,
                       const struct loquet_why *why)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    worker->n_errors++;
    (void)snprintf(worker->error, sizeof worker->error, "%s: %s%s%s", what,
                   loquet_result_text(result), why->text[0] == '\0' ? "" : ": ", why->text);
    (void)nanosleep(&pause, NULL);
}

static void make_pair(struct worker *worker)
{
    struct loquet_request request = {.key = worker->key, .lease_s = worker->lease_s};
    struct loquet_ticket *ticket;
    struct loquet_why why = {0};
    uint64_t began_us = lq_time_now_us(), held_us;
    enum loquet_result result = loquet_acquire(worker->client, &request, &ticket, &why);

    if (result != LOQUET_ACQUIRED) {
        note_error(worker, "acquire", result, &why);
        return;
    }
    held_us = lq_time_now_us();
    result = loquet_release(ticket, &why);
    if (result == LOQUET_RELEASED) {
        lq_latency_add(&worker->acquire, held_us - began_us);
        lq_latency_add(&worker->release, lq_time_now_us() - held_us);
    } else {
        note_error(worker, "release", result, &why);
    }
    loquet_ticket_free(ticket);
}

static void *work(void *context)
{
    struct worker *worker = context;
    while (!atomic_load(worker->is_over)) {
        make_pair(worker);
    }
    return NULL;
}

/* ---- All of them. */

/* Opens the clients, and lets each of them connect. */
static enum lq_exit open_all(struct bench *bench)
{
    const struct lq_cli *cli = bench->cli;
    static struct lq_endpoints endpoints;
    struct loquet_why why = {0};
    if (!lq_endpoints_parse(&endpoints, lq_where_endpoints(cli), LQ_ENDPOINTS_PORT, why.text,
                            sizeof why.text)) {
        return lq_where_fail(cli, LOQUET_INVALID, why.text);
    }
    for (; bench->n < cli->connections; bench->n++) {
        struct worker *worker = &bench->workers[bench->n];
        enum loquet_result result;
        worker->client = loquet_open(lq_where_endpoints(cli), &why);
        if (worker->client == NULL) {
            return lq_where_fail(cli, LOQUET_CLOSED, why.text);
        }
        result = loquet_ping(worker->client, &(uint64_t){0}, &why);
        if (result != LOQUET_ALIVE) {
            loquet_close(worker->client);
            return lq_out_fail(cli, "closed", LQ_EXIT_UNAVAILABLE,
                               "connection %" PRIu32 " was not made: %s. Does loquetd run there? "
                               "--endpoints or LOQUET_ENDPOINTS says where to look",
                               bench->n + 1, why.text);
        }
        worker->is_over = &bench->is_over;
        worker->lease_s = cli->lease_s;
        (void)snprintf(worker->key, sizeof worker->key, "%s-%ld-%" PRIu32, cli->key_prefix,
                       (long)getpid(), bench->n);
    }
    return LQ_EXIT_OK;
}

/* Lets them work until the time is over, or one of `signals`, which are blocked, arrives. */
static enum lq_exit run_all(struct bench *bench, const sigset_t *signals)
{
    const struct timespec seconds = {.tv_sec = (time_t)bench->cli->seconds};
    uint64_t began_us = lq_time_now_us();
    uint32_t n = 0;
    while (n < bench->n &&
           pthread_create(&bench->workers[n].thread, NULL, work, &bench->workers[n]) == 0) {
        n++;
    }
    if (n == bench->n) {
        (void)sigtimedwait(signals, NULL, &seconds);
    }
    atomic_store(&bench->is_over, true);
    for (uint32_t i = 0; i < n; i++) {
        (void)pthread_join(bench->workers[i].thread, NULL);
    }
    bench->took_us = lq_time_now_us() - began_us;
    return n == bench->n ? LQ_EXIT_OK
                         : lq_out_fail(bench->cli, "system", LQ_EXIT_SYSTEM, "no thread left");
}

/* ---- What came of it. */

static void set_latency(json_t *object, const char *name, const struct lq_latency *latency)
{
    json_t *value = json_object();
    lq_out_set_number(value, "p50_us", lq_latency_percentile(latency, 50));
    lq_out_set_number(value, "p99_us", lq_latency_percentile(latency, 99));
    (void)json_object_set_new(object, name, value);
}

static bool print_json(const struct bench *bench, const struct worker *sum)
{
    json_t *object = lq_out_object(bench->cli, "ok");
    lq_out_set_number(object, "connections", bench->n);
    lq_out_set_number(object, "took_us", bench->took_us);
    lq_out_set_number(object, "pairs", sum->acquire.n);
    lq_out_set_number(object, "pairs_per_s", sum->acquire.n * 1000000 / (bench->took_us + 1));
    set_latency(object, "acquire", &sum->acquire);
    set_latency(object, "release", &sum->release);
    lq_out_set_number(object, "errors", sum->n_errors);
    if (sum->n_errors > 0) {
        lq_out_set_text(object, "message", sum->error);
    }
    return lq_out_print(stdout, object);
}

static void print_latency(const char *name, const struct lq_latency *latency)
{
    (void)printf("%s  p50 %.3f ms  p99 %.3f ms\n", name,
                 (double)lq_latency_percentile(latency, 50) / 1000,
                 (double)lq_latency_percentile(latency, 99) / 1000);
}

static bool print_text(const struct bench *bench, const struct worker *sum)
{
    (void)printf("%" PRIu64 " pairs in %.1f s over %" PRIu32 " connection%s: %" PRIu64 " pairs/s\n",
                 sum->acquire.n, (double)bench->took_us / 1e6, bench->n, bench->n == 1 ? "" : "s",
                 sum->acquire.n * 1000000 / (bench->took_us + 1));
    print_latency("acquire", &sum->acquire);
    print_latency("release", &sum->release);
    (void)printf("%" PRIu64 " errors%s%s\n", sum->n_errors,
                 sum->n_errors == 0 ? "" : ", the last one: ", sum->error);
    return fflush(stdout) == 0;
}

static enum lq_exit tell(const struct bench *bench)
{
    static struct worker sum;
    for (uint32_t i = 0; i < bench->n; i++) {
        const struct worker *worker = &bench->workers[i];
        lq_latency_join(&sum.acquire, &worker->acquire);
        lq_latency_join(&sum.release, &worker->release);
        sum.n_errors += worker->n_errors;
        if (worker->n_errors > 0) {
            memcpy(sum.error, worker->error, sizeof sum.error);
        }
    }
    if (sum.acquire.n == 0 && sum.n_errors > 0) {
        return lq_out_fail(bench->cli, "failed", LQ_EXIT_UNAVAILABLE,
                           "not one pair was made. The last error of %" PRIu64 ": %s", sum.n_errors,
                           sum.error);
    }
    return (bench->cli->json ? print_json(bench, &sum) : print_text(bench, &sum)) ? LQ_EXIT_OK
                                                                                  : LQ_EXIT_OUTPUT;
}

enum lq_exit lq_cmd_bench(const struct lq_cli *cli)
{
    struct bench bench = {.cli = cli};
    sigset_t signals;
    enum lq_exit code;

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    bench.workers = lq_calloc(cli->connections, sizeof *bench.workers);
    code = open_all(&bench);
    if (code == LQ_EXIT_OK) {
        (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
        code = run_all(&bench, &signals);
    }
    if (code == LQ_EXIT_OK) {
        code = tell(&bench);
    }
    for (uint32_t i = 0; i < bench.n; i++) {
        loquet_close(bench.workers[i].client);
    }
    lq_free(bench.workers);
    return code;
}
