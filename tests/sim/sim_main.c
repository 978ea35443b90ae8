/* loquet_sim: whole clusters in one process, each run from one seed. docs/testing.md tells how to
 * read what it prints. */
#include "sim_main.h"

#include "lq_planted.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef LOQUET_PLANTED
#endif

#define SECONDS_DEFAULT 60
#define SEEDS_DEFAULT   100
#define SECONDS_MAX     3600
#define ALARM_S         10

/* Of the C library's allocator, in bytes. */
#define MAPPED_FROM (32 << 20) /* it refuses more */
#define KEPT        (1 << 30)
#define ASKED_FOR   (16 << 20)

static const char *const usage =
    "usage: loquet_sim [options]\n"
    "  --seed N          one seed, in this process, with its timeline if it fails\n"
    "  --seeds N         so many seeds (default 100), in other processes\n"
    "  --first N         the first of them (default: from the clock)\n"
    "  --jobs N          processes that share them (default 1)\n"
    "  --until-fail      stop at the first that fails; without --seeds, go on until then\n"
    "  --quick           do not print the timelines of failures\n"
    "  --nodes N         1 to 7 nodes (default: drawn)\n"
    "  --seconds N       simulated time with faults (default 60)\n"
    "  --profile NAME    faults: none, mix, or one kind (default: drawn):\n"
    "                   ";

static const char *const usage_end =
    "\n"
    "  --verbose         print the timeline as it comes\n"
    "  --repeat-check    run each seed twice and compare\n"
    "  --plant N         a fault of lq_planted.h (in builds with LOQUET_PLANTED)\n"
    "  --failover KIND   measure failover of three nodes: closed or silent\n";

static void print_usage(void)
{
    (void)fputs(usage, stderr);
    for (int fault = 0; fault < SIM_N_FAULTS; fault++) {
        (void)fprintf(stderr, " %s", sim_faults_name((enum sim_fault)fault));
    }
    (void)fputs(usage_end, stderr);
}

/* ---- One seed. */

void sim_main_print_replay(const struct sim_arguments *arguments, uint64_t seed)
{
    const struct sim_options *options = &arguments->options;
    (void)printf("replay: %s --seed %" PRIu64, program_invocation_name, seed);
    if (options->n_nodes != 0) {
        (void)printf(" --nodes %u", options->n_nodes);
    }
    if (options->seconds != SECONDS_DEFAULT) {
        (void)printf(" --seconds %u", options->seconds);
    }
    if (options->profile != NULL) {
        (void)printf(" --profile %s", options->profile);
    }
    if (arguments->plant != 0) {
        (void)printf(" --plant %d", arguments->plant);
    }
    (void)printf("\n");
}

/* A check of the code itself failed while a timeline was kept, or a seed hangs: the timeline
 * explains how it came to that. What is called here need not be safe in a handler: an abort comes
 * out of our own code, and if a late alarm hits the C library while it holds a lock, the next one
 * ends it. */
static void on_abort(int signal_number)
{
    (void)signal(signal_number, SIG_DFL);
    (void)signal(SIGALRM, SIG_DFL);
    (void)alarm(ALARM_S);
    if (sim_trace_running != NULL) {
        const char *what = signal_number == SIGALRM   ? "takes too long"
                           : signal_number == SIGSEGV ? "bad memory access"
                                                      : "aborted";
        /* NOLINTBEGIN(bugprone-signal-handler,cert-sig30-c) */
        sim_trace_print(sim_trace_running);
        (void)printf("FAILED: %s\n", what);
        (void)fflush(stdout);
        /* NOLINTEND(bugprone-signal-handler,cert-sig30-c) */
    }
    (void)raise(signal_number);
}

static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = on_abort, .sa_flags = SA_NODEFER};
    (void)sigaction(SIGABRT, &action, NULL);
    (void)sigaction(SIGALRM, &action, NULL);
#ifndef LOQUET_FREES_ALL /* the sanitizers tell more, then abort */
    (void)sigaction(SIGSEGV, &action, NULL);
#endif
}

static bool run_again(const struct sim_options *options)
{
    struct sim_options again = *options;
    struct sim_result first = sim_run(options), second;
    again.is_traced = true;
    second = sim_run(&again);
    if (first.hash != second.hash || first.has_failed != second.has_failed) {
        (void)printf("FAILED: two runs of a seed differ (%" PRIu64 " and %" PRIu64 " events)\n",
                     first.n_events, second.n_events);
        return false;
    }
    return !first.has_failed;
}

bool sim_main_run(const struct sim_arguments *arguments, uint64_t seed)
{
    struct sim_options options = arguments->options;
    struct sim_result result;
    options.seed = seed;
    if (arguments->is_repeat_check) {
        bool is_good = run_again(&options);
        if (!is_good) {
            sim_main_print_replay(arguments, seed);
        }
        return is_good;
    }
    options.is_silent = !options.is_traced && !options.is_verbose && !arguments->is_quick;
    result = sim_run(&options);
    if (!result.has_failed) {
        return true;
    }
    if (options.is_silent) {
        options.is_silent = false;
        options.is_traced = true; /* once more, with the timeline */
        if (!sim_run(&options).has_failed) {
            (void)printf("FAILED: only at the first of two runs\n");
        }
    }
    sim_main_print_replay(arguments, seed);
    return false;
}

int sim_main_run_one(struct sim_arguments *arguments)
{
    bool is_good;
    arguments->options.is_traced = !arguments->is_repeat_check;
    if (arguments->options.is_traced) {
        watch_signals();
    }
    /* A good run prints nothing, so its timeline is kept only for a failure. */
    is_good = sim_main_run(arguments, arguments->options.seed);
    (void)printf("%d seeds passed, %d failed\n", is_good, !is_good);
    return is_good ? SIM_EXIT_GOOD : SIM_EXIT_FAILED;
}

/* ---- Options. */

static bool read_number(const char *text, uint64_t max, uint64_t *ret_number)
{
    char *end = NULL;
    errno = 0;
    *ret_number = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && *ret_number <= max;
}

static bool read_plant(const char *text, int *ret_plant)
{
    uint64_t number;
#ifdef LOQUET_PLANTED
    if (!read_number(text, LQ_PLANT_LAST, &number)) {
        return false;
    }
    lq_planted = *ret_plant = (int)number;
    return true;
#else
    (void)ret_plant;
    (void)fprintf(stderr, "loquet_sim: built without LOQUET_PLANTED\n");
    return read_number(text, 0, &number);
#endif
}

enum sim_option {
    OPTION_SEED = 1,
    OPTION_SEEDS,
    OPTION_FIRST,
    OPTION_JOBS,
    OPTION_UNTIL_FAIL,
    OPTION_QUICK,
    OPTION_NODES,
    OPTION_SECONDS,
    OPTION_PROFILE,
    OPTION_VERBOSE,
    OPTION_REPEAT_CHECK,
    OPTION_PLANT,
    OPTION_FAILOVER,
};

static const struct option names[] = {
    {"seed", required_argument, NULL, OPTION_SEED},
    {"seeds", required_argument, NULL, OPTION_SEEDS},
    {"first", required_argument, NULL, OPTION_FIRST},
    {"jobs", required_argument, NULL, OPTION_JOBS},
    {"until-fail", no_argument, NULL, OPTION_UNTIL_FAIL},
    {"quick", no_argument, NULL, OPTION_QUICK},
    {"nodes", required_argument, NULL, OPTION_NODES},
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    {"profile", required_argument, NULL, OPTION_PROFILE},
    {"verbose", no_argument, NULL, OPTION_VERBOSE},
    {"repeat-check", no_argument, NULL, OPTION_REPEAT_CHECK},
    {"plant", required_argument, NULL, OPTION_PLANT},
    {"failover", required_argument, NULL, OPTION_FAILOVER},
    {NULL, 0, NULL, 0},
};

static bool take_number(struct sim_arguments *arguments, int option, const char *text)
{
    uint64_t number = 0;
    uint64_t max = option == OPTION_NODES     ? 7
                   : option == OPTION_SECONDS ? SECONDS_MAX
                   : option == OPTION_JOBS    ? 64
                                              : UINT64_MAX;
    if (!read_number(text, max, &number)) {
        return false;
    }
    if (option == OPTION_SEED) {
        arguments->options.seed = number;
        arguments->has_seed = true;
    } else if (option == OPTION_SEEDS) {
        arguments->n_seeds = number;
    } else if (option == OPTION_FIRST) {
        arguments->first = number;
    } else if (option == OPTION_JOBS) {
        arguments->jobs = number == 0 ? 1 : (unsigned)number;
    } else if (option == OPTION_NODES) {
        arguments->options.n_nodes = (unsigned)number;
    } else {
        arguments->options.seconds = (unsigned)number;
    }
    return true;
}

static bool take(struct sim_arguments *arguments, int option, const char *text)
{
    if (option == OPTION_UNTIL_FAIL) {
        arguments->until_fail = true;
    } else if (option == OPTION_QUICK) {
        arguments->is_quick = true;
    } else if (option == OPTION_VERBOSE) {
        arguments->options.is_verbose = true;
    } else if (option == OPTION_REPEAT_CHECK) {
        arguments->is_repeat_check = true;
    } else if (option == OPTION_PROFILE) {
        arguments->options.profile = text;
    } else if (option == OPTION_PLANT) {
        return read_plant(text, &arguments->plant);
    } else if (option == OPTION_FAILOVER) {
        arguments->failover = text;
        return strcmp(text, "closed") == 0 || strcmp(text, "silent") == 0;
    } else {
        return option != '?' && take_number(arguments, option, text);
    }
    return true;
}

static uint64_t seed_from_clock(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec << 20 ^ (uint64_t)now.tv_nsec >> 10) % 1000000000000 * 10000;
}

/* A seed frees all it had and the next one wants as much again: let the process keep it, instead of
 * giving it back to the kernel and asking anew, which clears each page. */
static void keep_freed_memory(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_FROM);
    (void)mallopt(M_TRIM_THRESHOLD, KEPT);
    (void)mallopt(M_TOP_PAD, ASKED_FOR);
}

int main(int argc, char **argv)
{
    struct sim_arguments arguments = {.options = {.seconds = SECONDS_DEFAULT}, .jobs = 1};
    int option;
    keep_freed_memory();
    arguments.first = seed_from_clock();
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (!take(&arguments, option, optarg)) {
            print_usage();
            return SIM_EXIT_USAGE;
        }
    }
    if (optind < argc) {
        print_usage();
        return SIM_EXIT_USAGE;
    }
    if (arguments.n_seeds == 0) {
        arguments.n_seeds = arguments.until_fail ? UINT64_MAX : SEEDS_DEFAULT;
    }
    if (arguments.failover != NULL) {
        return sim_failover_run(&arguments);
    }
    return arguments.has_seed ? sim_main_run_one(&arguments) : sim_workers_run(&arguments);
}
