/* lq_bench: a load generator for lock servers. One thread, no allocation once it runs.
 *
 *     options -> [hold keys] -> [warm up, measure, drain] -> report
 *     options -> the echo server, or the durable floor */
#include <stdio.h>
#include <stdlib.h>

#include "echo_server.h"
#include "floor.h"
#include "load.h"
#include "net.h"
#include "options.h"
#include "report.h"

static int run(struct lq_bench_load *load)
{
    const struct lq_bench_options *o = load->options;
    if (o->hold > 0)
        lq_bench_load_hold(load);
    if ((o->hold == 0 || o->then_load) && load->errors == 0) {
        if (o->then_load && !o->json) { /* someone may be waiting for this moment */
            printf("held %u keys, now the load\n", load->held);
            (void)fflush(stdout);
        }
        lq_bench_load_measure(load);
    }
    if (!o->json)
        lq_bench_report_table(load);
    else if (lq_bench_report_json(load) != 0)
        return LQ_BENCH_FAILED;
    return load->errors > 0 || load->held < o->hold ? LQ_BENCH_FAILED : LQ_BENCH_OK;
}

int main(int argc, char **argv)
{
    struct lq_bench_options options;
    struct lq_bench_load *load;
    int rv = lq_bench_options_parse(argc, argv, &options);
    if (rv != 0)
        return rv;
    if (options.help) {
        lq_bench_options_help();
        return LQ_BENCH_OK;
    }
    lq_bench_net_raise_limit();
    if (options.echo_server)
        return lq_bench_echo_server_run(options.listen);
    if (options.floor != NULL)
        return lq_bench_floor_run(options.floor, options.listen);
    load = malloc(sizeof *load);
    if (load == NULL) {
        (void)fprintf(stderr, "lq_bench: out of memory\n");
        return LQ_BENCH_FAILED;
    }
    if (lq_bench_load_init(load, &options) == 0) {
        rv = run(load);
    } else {
        (void)fprintf(stderr, "lq_bench: %s\n", load->error);
        rv = LQ_BENCH_UNAVAILABLE;
    }
    lq_bench_load_done(load);
    free(load);
    return rv;
}
