#include "report.h"

#include <jansson.h>
#include <stdio.h>

/* A process that has less than this share of a processor to spare is what bounds the run. */
#define SATURATED 0.95

static const struct {
    const char *name;
    double percent;
} percentiles[] = {{"p50", 50}, {"p95", 95}, {"p99", 99}};

#define N_PERCENTILES (sizeof percentiles / sizeof percentiles[0])

static bool measured(const struct lq_bench_load *load)
{
    return load->usage.seconds > 0;
}

static double per_second(const struct lq_bench_load *load)
{
    return measured(load) ? (double)load->counts.pairs / load->usage.seconds : 0;
}

/* CPU in microseconds per pair; negative if unknown. */
static double per_pair_us(const struct lq_bench_load *load, double cpu_s)
{
    return load->counts.pairs > 0 && cpu_s >= 0 ? cpu_s * 1e6 / (double)load->counts.pairs : -1;
}

static double busy(const struct lq_bench_load *load, double cpu_s)
{
    return measured(load) && cpu_s >= 0 ? cpu_s / load->usage.seconds : -1;
}

/* ---- For people. */

static void print_latency(const char *name, const struct lq_bench_histogram *h)
{
    if (h->count == 0)
        return;
    printf("%-10s", name);
    for (size_t i = 0; i < N_PERCENTILES; i++)
        printf(" %10.1f", (double)lq_bench_histogram_percentile(h, percentiles[i].percent) / 1e3);
    printf(" %10.1f\n", (double)h->max_ns / 1e3);
}

static void print_cpu(const struct lq_bench_load *load)
{
    const struct lq_bench_cpu_usage *u = &load->usage;
    if (load->counts.pairs == 0)
        return;
    printf("CPU µs per pair: client %.2f (%.0f %% busy)", per_pair_us(load, u->client_s),
           busy(load, u->client_s) * 100);
    if (u->server_s >= 0)
        printf(", server %.2f (%.0f %% busy)", per_pair_us(load, u->server_s),
               busy(load, u->server_s) * 100);
    if (u->others_s >= 0)
        printf(", everyone else took %.0f %% of a processor", busy(load, u->others_s) * 100);
    printf("\n");
    if (busy(load, u->client_s) > SATURATED && busy(load, u->server_s) < SATURATED)
        printf("the client has no CPU to spare: this is its speed more than the server's\n");
}

static void print_measured(const struct lq_bench_load *load)
{
    const struct lq_bench_options *o = load->options;
    const struct lq_bench_load_counts *c = &load->counts;
    printf("%s at %s: %u connections x depth %u, %s keys of %u bytes, %u in all, seed %u\n",
           load->driver->name, o->target, o->connections, o->depth,
           o->keys == LQ_BENCH_OWN ? "own" : "shared", o->key_bytes, o->key_set, o->seed);
    printf("%.0f pairs/s (%llu in %.2f s)\n", per_second(load), (unsigned long long)c->pairs,
           load->usage.seconds);
    printf("%-10s", "µs");
    for (size_t i = 0; i < N_PERCENTILES; i++)
        printf(" %10s", percentiles[i].name);
    printf(" %10s\n", "max");
    print_latency("acquire", &c->acquire);
    print_latency("release", &c->release);
    print_latency("hand-over", &c->hand_over);
    print_cpu(load);
    printf("refused: T %llu, B %llu, N %llu\n", (unsigned long long)c->timeouts,
           (unsigned long long)c->busy, (unsigned long long)c->not_held);
}

void lq_bench_report_table(const struct lq_bench_load *load)
{
    if (load->options->hold > 0)
        printf("held %u of %u keys of %u bytes after %.2f s, lease %u s\n", load->held,
               load->options->hold, load->options->key_bytes, load->hold_seconds,
               load->options->lease_s);
    if (measured(load))
        print_measured(load);
    if (load->errors > 0)
        printf("errors: %llu, the first: %s\n", (unsigned long long)load->errors, load->error);
}

/* ---- For machines. */

static json_t *number_or_null(double n)
{
    return n >= 0 ? json_real(n) : json_null();
}

static json_t *latency_json(const struct lq_bench_histogram *h)
{
    json_t *o;
    if (h->count == 0)
        return json_null();
    o = json_pack("{s:I}", "count", (json_int_t)h->count);
    for (size_t i = 0; i < N_PERCENTILES; i++)
        json_object_set_new(
            o, percentiles[i].name,
            json_real((double)lq_bench_histogram_percentile(h, percentiles[i].percent) / 1e3));
    json_object_set_new(o, "max", json_real((double)h->max_ns / 1e3));
    return o;
}

static json_t *shape_json(const struct lq_bench_options *o)
{
    return json_pack("{s:s, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I}", "target", o->target,
                     "connections", (json_int_t)o->connections, "depth", (json_int_t)o->depth,
                     "keys", o->keys == LQ_BENCH_OWN ? "own" : "shared", "key_set",
                     (json_int_t)o->key_set, "key_bytes", (json_int_t)o->key_bytes, "wait_s",
                     (json_int_t)o->wait_s, "lease_s", (json_int_t)o->lease_s, "seed",
                     (json_int_t)o->seed);
}

static void add_measured(json_t *root, const struct lq_bench_load *load)
{
    const struct lq_bench_load_counts *c = &load->counts;
    const struct lq_bench_cpu_usage *u = &load->usage;
    json_object_update_new(
        root, json_pack("{s:f, s:I, s:f, s:o, s:o, s:o}", "seconds", u->seconds, "pairs",
                        (json_int_t)c->pairs, "pairs_per_s", per_second(load), "acquire_us",
                        latency_json(&c->acquire), "release_us", latency_json(&c->release),
                        "hand_over_us", latency_json(&c->hand_over)));
    json_object_update_new(
        root,
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "client_cpu_us_per_pair",
                  number_or_null(per_pair_us(load, u->client_s)), "server_cpu_us_per_pair",
                  number_or_null(per_pair_us(load, u->server_s)), "client_busy",
                  number_or_null(busy(load, u->client_s)), "server_busy",
                  number_or_null(busy(load, u->server_s)), "others_busy",
                  number_or_null(busy(load, u->others_s)), "timeouts", (json_int_t)c->timeouts,
                  "busy", (json_int_t)c->busy, "not_held", (json_int_t)c->not_held));
}

int lq_bench_report_json(const struct lq_bench_load *load)
{
    json_t *root = json_pack("{s:s, s:o, s:I}", "protocol", load->driver->name, "shape",
                             shape_json(load->options), "errors", (json_int_t)load->errors);
    int rv;
    if (load->errors > 0)
        json_object_set_new(root, "first_error", json_string(load->error));
    if (load->options->hold > 0)
        json_object_set_new(
            root, "hold",
            json_pack("{s:I, s:I, s:I, s:f}", "wanted", (json_int_t)load->options->hold, "held",
                      (json_int_t)load->held, "refused", (json_int_t)load->hold_refused, "seconds",
                      load->hold_seconds));
    if (measured(load))
        add_measured(root, load);
    rv = json_dumpf(root, stdout, JSON_REAL_PRECISION(9));
    json_decref(root);
    return rv != 0 || printf("\n") < 0 || fflush(stdout) != 0 ? -1 : 0;
}
