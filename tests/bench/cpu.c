#include "cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "net.h"

static uint64_t read_clock(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t) != 0)
        return 0;
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* The CPU clock of another process: all its threads, those that ended too, in nanoseconds where
 * /proc/PID/stat counts hundredths of a second. */
static uint64_t process_ns(pid_t pid)
{
    clockid_t clock;
    if (clock_getcpuclockid(pid, &clock) != 0)
        return 0;
    return read_clock(clock);
}

static uint64_t all_ns(const struct lq_bench_pids *servers)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < servers->n; i++) {
        uint64_t ns = process_ns((pid_t)servers->pid[i]);
        if (ns == 0)
            return 0;
        sum += ns;
    }
    return sum;
}

/* The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, in ticks. */
static uint64_t machine_ns(void)
{
    enum { IDLE = 3, IOWAIT = 4, FIELDS = 8 };
    char line[256], *at = line + sizeof "cpu" - 1;
    uint64_t ticks = 0;
    FILE *f = fopen("/proc/stat", "re");
    if (f == NULL)
        return 0;
    if (fgets(line, sizeof line, f) == NULL)
        line[0] = '\0';
    (void)fclose(f);
    if (strncmp(line, "cpu ", 4) != 0)
        return 0;
    for (int i = 0; i < FIELDS; i++) {
        uint64_t n = strtoull(at, &at, 10);
        if (i != IDLE && i != IOWAIT)
            ticks += n;
    }
    return ticks * (1000000000U / (uint64_t)sysconf(_SC_CLK_TCK));
}

struct lq_bench_cpu_stamp lq_bench_cpu_now(const struct lq_bench_pids *servers)
{
    struct lq_bench_cpu_stamp s = {
        .wall_ns = lq_bench_net_now_ns(),
        .client_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID),
        .server_ns = all_ns(servers),
        .machine_ns = machine_ns(),
    };
    return s;
}

struct lq_bench_cpu_usage lq_bench_cpu_between(struct lq_bench_cpu_stamp begin,
                                               struct lq_bench_cpu_stamp end)
{
    struct lq_bench_cpu_usage u = {
        .seconds = (double)(end.wall_ns - begin.wall_ns) / 1e9,
        .client_s = (double)(end.client_ns - begin.client_ns) / 1e9,
        .server_s = -1,
        .others_s = -1,
    };
    if (begin.server_ns > 0 && end.server_ns >= begin.server_ns)
        u.server_s = (double)(end.server_ns - begin.server_ns) / 1e9;
    if (u.server_s >= 0 && begin.machine_ns > 0 && end.machine_ns > 0) {
        double all_s = (double)(end.machine_ns - begin.machine_ns) / 1e9;
        double ours_s = u.client_s + u.server_s;
        u.others_s =
            all_s > ours_s ? all_s - ours_s : 0; /* ticks are coarse: it may come out below */
    }
    return u;
}
