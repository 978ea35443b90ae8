/* What the replicated heart costs: pairs of acquire and release through the log of three replicas
 * in one thread, without sockets, files and waiting.
 *
 * usage: bench_replica [--repeat N] [--pairs N] [--keys N] [--batch N] [--from leader|all]
 *                      [--through backend|sessions] [--held] [--snapshot-entries N] [--seed N]
 *                      [--profile] [--json]
 *   --batch (64) workers, each with one request at a time on an own one of --keys (100,000) keys of
 *   32 bytes, make --pairs (500,000) pairs; all of them at the leader, or spread over the nodes.
 *   Since a batch is answered as a whole, it is also what an entry of the log holds.
 *   --through sessions: with frames of the protocol through hub and sessions, one of each node,
 *   instead of bare requests to their backend. --held: all keys are held, and a pair is release and
 *   acquire; otherwise only those that workers have. --snapshot-entries: one is taken after so many
 *   entries, and as many are kept behind it (0: none, the whole log stays in memory). --profile:
 *   also tells which part of a turn took which share. The virtual clock goes on by 1 ms per entry.
 *   Times are of the CPU, of all three replicas and the clients; medians of --repeat (5) runs, each
 *   with a new cluster; one more goes ahead of them and is not counted.
 */
#include "heart_load.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GOAL_PAIRS 300000
#define REPEAT_MAX 1000

struct options {
    uint64_t repeat, pairs, keys, batch, snapshot_entries, seed;
    bool from_all, with_sessions, held, profile, json;
};

struct run {
    double pair_ns, pairs_per_s, entries_per_s, commands_per_entry;
};

struct result {
    struct run median;
    double slowest, fastest; /* pairs/s */
    uint64_t n_snapshots;
    double part_ns[2][HEART_PARTS]; /* of a pair; median run or not, the last one */
    double written_bytes, sent_bytes, writes, sends;
};

static uint64_t cpu_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* ---- One run. */

static void sweep_until(struct heart *heart, const struct heart_load *load, uint64_t pairs)
{
    while (load->pairs < pairs) {
        uint64_t before = load->pairs;
        for (int i = 0; i < 1000 && load->pairs < pairs; i++) {
            heart_sweep(heart);
        }
        heart_must(load->pairs > before, "no pair within a second of the virtual clock");
    }
}

static uint64_t applied(struct heart *heart)
{
    return lq_replica_status(heart_leader(heart)->replica).applied_index;
}

static void note_parts(const struct heart *heart, double pairs, struct result *result)
{
    for (int role = 0; role < 2; role++) {
        for (int part = 0; part < HEART_PARTS; part++) {
            result->part_ns[role][part] = (double)heart->part_ns[role][part] / pairs;
        }
    }
    result->n_snapshots = heart->n_snapshots;
    result->written_bytes = (double)heart->written_bytes / pairs;
    result->writes = (double)heart->n_written / pairs;
    result->sent_bytes = (double)heart->sent_bytes / pairs;
    result->sends = (double)heart->n_sent / pairs;
}

static void begin_counting(struct heart *heart, const struct options *options)
{
    memset(heart->part_ns, 0, sizeof heart->part_ns);
    heart->n_snapshots = heart->n_written = heart->written_bytes = 0;
    heart->n_sent = heart->sent_bytes = 0;
    heart->is_profiling = options->profile;
}

static struct run run(const struct options *options, uint64_t seed, struct result *result)
{
    struct heart heart;
    struct heart_load load;
    struct heart_options heart_options = {.snapshot_entries = options->snapshot_entries,
                                          .seed = (uint32_t)seed,
                                          .with_hubs = options->with_sessions,
                                          .requests_max = options->batch};
    struct heart_load_options load_options = {.n_workers = (uint32_t)options->batch,
                                              .n_keys = (uint32_t)options->keys,
                                              .from_all = options->from_all,
                                              .with_sessions = options->with_sessions,
                                              .held = options->held,
                                              .seed = seed};
    uint64_t begun_ns, begun_pairs, begun_entries;
    double seconds, pairs, entries;
    heart_start(&heart, &heart_options);
    heart_load_start(&load, &heart, &load_options);
    sweep_until(&heart, &load, load.n_to_fill + options->pairs / 10);
    begin_counting(&heart, options);
    begun_pairs = load.pairs;
    begun_entries = applied(&heart);
    begun_ns = cpu_ns();
    sweep_until(&heart, &load, begun_pairs + options->pairs);
    seconds = (double)(cpu_ns() - begun_ns) / 1e9;
    pairs = (double)(load.pairs - begun_pairs);
    entries = (double)(applied(&heart) - begun_entries);
    note_parts(&heart, pairs, result);
    heart_settle(&heart);
    heart_end(&heart);
    heart_load_end(&load);
    return (struct run){.pair_ns = seconds / pairs * 1e9,
                        .pairs_per_s = pairs / seconds,
                        .entries_per_s = entries / seconds,
                        .commands_per_entry = 2 * pairs / entries};
}

static int by_speed(const void *left, const void *right)
{
    double a = ((const struct run *)left)->pairs_per_s;
    double b = ((const struct run *)right)->pairs_per_s;
    return (a > b) - (a < b);
}

static struct result measure(const struct options *options)
{
    struct result result = {0};
    struct run runs[REPEAT_MAX];
    (void)run(options, options->seed, &result); /* has the kernel give the memory of the others */
    for (uint64_t i = 0; i < options->repeat; i++) {
        runs[i] = run(options, options->seed + i, &result);
    }
    qsort(runs, options->repeat, sizeof *runs, by_speed);
    result.median = runs[options->repeat / 2];
    result.slowest = runs[0].pairs_per_s;
    result.fastest = runs[options->repeat - 1].pairs_per_s;
    return result;
}

/* ---- Report. */

static const char *const part_names[HEART_PARTS] = {
    [HEART_BEGIN] = "begin", [HEART_RECEIVE] = "receive", [HEART_CLIENTS] = "clients",
    [HEART_FLUSH] = "flush", [HEART_WRITTEN] = "written", [HEART_CARRY] = "effects"};

static void print_parts(const struct result *result)
{
    static const char *const roles[] = {"both followers", "leader"};
    printf("ns of a pair in the last run:\n");
    for (int role = 1; role >= 0; role--) {
        printf("  %-15s", roles[role]);
        for (int part = 0; part < HEART_PARTS; part++) {
            printf(" %s %.0f", part_names[part], result->part_ns[role][part]);
        }
        printf("\n");
    }
    printf("a pair in the last run: %.3f writes of %.0f bytes in all, %.3f sends of %.0f bytes in "
           "all\n",
           result->writes, result->written_bytes, result->sends, result->sent_bytes);
}

static void print_text(const struct options *options, const struct result *result)
{
    const struct run *median = &result->median;
    printf("from %s, %s, %" PRIu64 " keys%s, %" PRIu64 " workers, %" PRIu64 " runs of %" PRIu64
           " pairs\n",
           options->from_all ? "all nodes" : "the leader",
           options->with_sessions ? "through sessions" : "bare requests", options->keys,
           options->held ? " held" : "", options->batch, options->repeat, options->pairs);
    printf("pairs/s of CPU: %.0f (%.0f to %.0f; goal: at least %d), %.0f ns a pair, %.0f "
           "entries/s, %.1f commands an entry, %" PRIu64 " snapshots in the last run\n",
           median->pairs_per_s, result->slowest, result->fastest, GOAL_PAIRS, median->pair_ns,
           median->entries_per_s, median->commands_per_entry, result->n_snapshots);
    if (options->profile) {
        print_parts(result);
    }
}

static void print_json(const struct options *options, const struct result *result)
{
    const struct run *median = &result->median;
    printf("{\"from\": \"%s\", \"through\": \"%s\", \"held\": %s, \"keys\": %" PRIu64
           ", \"batch\": %" PRIu64 ", \"repeat\": %" PRIu64 ", \"pairs\": %" PRIu64 ", ",
           options->from_all ? "all" : "leader", options->with_sessions ? "sessions" : "backend",
           options->held ? "true" : "false", options->keys, options->batch, options->repeat,
           options->pairs);
    printf("\"pairs_per_s\": %.0f, \"slowest\": %.0f, \"fastest\": %.0f, \"pair_ns\": %.1f, ",
           median->pairs_per_s, result->slowest, result->fastest, median->pair_ns);
    printf("\"entries_per_s\": %.0f, \"commands_per_entry\": %.2f, \"snapshots\": %" PRIu64 "}\n",
           median->entries_per_s, median->commands_per_entry, result->n_snapshots);
}

/* ---- Options. */

__attribute__((noreturn)) static void misuse(const char *what)
{
    (void)fprintf(stderr, "bench_replica: %s; see the head of bench_replica.c\n", what);
    exit(64);
}

static uint64_t number(const char *text)
{
    char *rest = NULL;
    unsigned long long value = text == NULL ? 0 : strtoull(text, &rest, 10);
    if (text == NULL || *text < '0' || *text > '9' || *rest != '\0') {
        misuse("a decimal number is missing");
    }
    return value;
}

/* Which of the two words it is: false for the first. */
static bool second_of(const char *text, const char *first, const char *second)
{
    if (text == NULL || (strcmp(text, first) != 0 && strcmp(text, second) != 0)) {
        misuse("a choice is none");
    }
    return strcmp(text, second) == 0;
}

static bool parse_number(struct options *options, char ***at)
{
    struct {
        const char *name;
        uint64_t *value;
    } numbers[] = {{"--repeat", &options->repeat},
                   {"--pairs", &options->pairs},
                   {"--keys", &options->keys},
                   {"--batch", &options->batch},
                   {"--snapshot-entries", &options->snapshot_entries},
                   {"--seed", &options->seed}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(**at, numbers[i].name) == 0) {
            *numbers[i].value = number(*++*at);
            return true;
        }
    }
    return false;
}

static struct options parse(char **arguments)
{
    struct options options = {.repeat = 5, .pairs = 500000, .keys = 100000, .batch = 64, .seed = 1};
    for (char **at = arguments + 1; *at != NULL; at++) {
        if (parse_number(&options, &at)) {
            continue;
        }
        if (strcmp(*at, "--from") == 0) {
            options.from_all = second_of(*++at, "leader", "all");
        } else if (strcmp(*at, "--through") == 0) {
            options.with_sessions = second_of(*++at, "backend", "sessions");
        } else if (strcmp(*at, "--held") == 0) {
            options.held = true;
        } else if (strcmp(*at, "--profile") == 0) {
            options.profile = true;
        } else if (strcmp(*at, "--json") == 0) {
            options.json = true;
        } else {
            misuse("an unknown option");
        }
    }
    if (options.repeat < 1 || options.repeat > REPEAT_MAX || options.pairs < 10 ||
        options.batch < 1 || options.keys > UINT32_MAX || options.keys < 2 * options.batch) {
        misuse("needs 1 to 1000 runs, at least 10 pairs, and twice as many keys as workers");
    }
    return options;
}

int main(int argc, char **argv)
{
    struct options options = parse(argv);
    struct result result;
    (void)argc;
    /* As loquetd has it, see server/main.c. */
    (void)mallopt(M_MXFAST, 0);
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, -1);
    (void)mallopt(M_TOP_PAD, 1 << 20);
    result = measure(&options);
    (options.json ? print_json : print_text)(&options, &result);
    return EXIT_SUCCESS;
}
