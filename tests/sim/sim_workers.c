/* Seeds shared between processes. A worker that aborts, or hangs, takes only its seed with it: that
 * one runs again in a process that keeps a timeline, and another worker goes on. */
#include "sim_main.h"

#include "lq_check.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS_MAX 64

/* A seed that takes so long hangs; the usual one takes a small part of a second. */
#define SEED_MAX_S 300

struct worker {
    pid_t pid;
    bool is_busy;
    uint64_t seed;
};

struct shared {
    atomic_uint_fast64_t next, passed, failed;
    atomic_bool is_over;
    struct worker workers[WORKERS_MAX];
};

static void work(const struct sim_arguments *arguments, struct shared *shared,
                 struct worker *worker)
{
    while (!shared->is_over) {
        uint64_t n = atomic_fetch_add(&shared->next, 1);
        if (n >= arguments->n_seeds) {
            break;
        }
        worker->seed = arguments->first + n;
        worker->is_busy = true;
        (void)alarm(SEED_MAX_S);
        if (sim_main_run(arguments, worker->seed)) {
            shared->passed++;
        } else {
            shared->failed++;
            shared->is_over = arguments->until_fail;
        }
        worker->is_busy = false;
        (void)fflush(stdout);
    }
    exit(SIM_EXIT_GOOD);
}

static void start(const struct sim_arguments *arguments, struct shared *shared,
                  struct worker *worker)
{
    pid_t pid;
    (void)fflush(stdout);
    worker->is_busy = false;
    pid = fork();
    LQ_CHECK(pid >= 0);
    if (pid == 0) {
        work(arguments, shared, worker);
    }
    worker->pid = pid;
}

/* Runs the seed alone, as with --seed, so that it tells how it came to its end. */
static void tell_death(const struct sim_arguments *arguments, uint64_t seed)
{
    (void)printf("seed %" PRIu64 ": the process died\n", seed);
    sim_main_print_replay(arguments, seed);
    (void)fflush(stdout);
    if (!arguments->is_quick) {
        pid_t pid = fork();
        LQ_CHECK(pid >= 0);
        if (pid == 0) {
            struct sim_arguments again = *arguments;
            again.options.seed = seed;
            (void)alarm(SEED_MAX_S);
            exit(sim_main_run_one(&again));
        }
        (void)waitpid(pid, NULL, 0);
    }
}

static struct worker *find(struct shared *shared, unsigned n, pid_t pid)
{
    for (unsigned i = 0; i < n; i++) {
        if (shared->workers[i].pid == pid) {
            return &shared->workers[i];
        }
    }
    return NULL;
}

static void wait_for_all(const struct sim_arguments *arguments, struct shared *shared)
{
    unsigned n_left = arguments->jobs;
    while (n_left > 0) {
        int status = 0;
        pid_t pid = wait(&status);
        struct worker *worker = find(shared, arguments->jobs, pid);
        LQ_CHECK(pid > 0);
        if (worker == NULL) {
            continue;
        }
        if (worker->is_busy) {
            shared->failed++;
            shared->is_over = arguments->until_fail;
            tell_death(arguments, worker->seed);
            start(arguments, shared, worker);
        } else {
            shared->failed += status != 0; /* leaks, as the sanitizers tell at the end */
            n_left--;
        }
    }
}

int sim_workers_run(const struct sim_arguments *arguments)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    LQ_CHECK(shared != MAP_FAILED && arguments->jobs <= WORKERS_MAX);
    (void)setvbuf(stdout, NULL, _IOFBF, 1U << 20);
    (void)printf("seeds from %" PRIu64 "\n", arguments->first);
    for (unsigned i = 0; i < arguments->jobs; i++) {
        start(arguments, shared, &shared->workers[i]);
    }
    wait_for_all(arguments, shared);
    (void)printf("%" PRIuFAST64 " seeds passed, %" PRIuFAST64 " failed\n", shared->passed,
                 shared->failed);
    status = shared->failed == 0 ? SIM_EXIT_GOOD : SIM_EXIT_FAILED;
    (void)munmap(shared, sizeof *shared);
    return status;
}
