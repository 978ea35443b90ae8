/* CPU time of this process, of a server (which may be several processes) and of the rest of the
 * machine, over an interval. */
#ifndef LQ_BENCH_CPU_H
#define LQ_BENCH_CPU_H

#include <stdint.h>

#include "options.h"

struct lq_bench_cpu_stamp {
    uint64_t wall_ns, client_ns, server_ns;
    uint64_t machine_ns; /* all processors, time stolen by a hypervisor included */
};

struct lq_bench_cpu_usage {
    double seconds; /* wall */
    double client_s;
    double server_s; /* negative: not known */
    double others_s; /* all other processes: what disturbed the run; negative: not known */
};

/* Reads the clocks. `servers` are the server's processes: if there are none, or one of them can't
 * be read, server_ns is 0. */
struct lq_bench_cpu_stamp lq_bench_cpu_now(const struct lq_bench_pids *servers);

struct lq_bench_cpu_usage lq_bench_cpu_between(struct lq_bench_cpu_stamp begin,
                                               struct lq_bench_cpu_stamp end);

#endif
