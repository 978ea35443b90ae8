/* How the lock table alone does with few and with many locks: time of a pair of acquire and
 * release, the longest slice of a turn's work while it grows, shrinks and expires, and memory of a
 * lock.
 *
 * usage: bench_table [--few N] [--many N] [--most N] [--pairs N] [--seed N] [--json]
 *   Pairs are timed with --few (10,000) and --many (1,000,000) locks held; the table then grows to
 *   --most (1,100,000) and is emptied, once by releases and once by expiry. Times are of the CPU.
 */
#include "lq_limits.h"
#include "lq_mem.h"
#include "lq_table.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KEY_LEN 32
#define SLICE   LQ_TURN_WORK
#define BLOCKS  21 /* of pairs, each timed by itself */

struct options {
    uint64_t few, many, most, pairs, seed;
    bool json;
};

/* A lock that is held: the number of its key, and its token. */
struct slot {
    uint64_t key;
    uint64_t token;
};

struct bench {
    struct lq_table *table;
    struct lq_outcomes outcomes;
    struct lq_stamp stamp;
    struct lq_origin_id origin;
    uint64_t seq;
    uint64_t seed;
    struct slot *slots;
    uint64_t n_held;
    uint64_t last_key;
};

/* How long slices of a turn's work took. */
struct slices {
    double longest_ms;
    double usual_ms; /* 99 of 100 are shorter: what a busy machine adds to a few is not in it */
};

struct result {
    double few_ns, many_ns;
    struct slices grow, release, expire;
    double heap_bytes_many, rss_bytes_many;
    double heap_bytes_most, rss_bytes_most;
};

/* ---- Clock and memory. */

static uint64_t cpu_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static uint64_t rss_bytes(void)
{
    char line[128], *second = NULL; /* the second number is the resident one, in pages */
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        if (fgets(line, sizeof line, file) != NULL) {
            second = strchr(line, ' ');
        }
        (void)fclose(file);
    }
    return second == NULL ? 0 : strtoul(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- Keys: made from a number when needed, so that the bench itself touches little memory. */

static uint64_t mix(uint64_t z)
{
    z += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static void make_key(const struct bench *bench, uint64_t number, uint8_t ret_key[KEY_LEN])
{
    static const char digits[] = "0123456789abcdef";
    uint64_t words[2] = {mix(number ^ bench->seed), number};
    for (int i = 0; i < KEY_LEN; i++) {
        ret_key[i] = (uint8_t)digits[words[i / 16] >> (4 * (i % 16)) & 15];
    }
}

/* ---- Operations. */

static void apply(struct bench *bench, struct lq_command *command)
{
    command->origin = bench->origin;
    command->seq = ++bench->seq;
    bench->outcomes.count = 0;
    lq_table_apply(bench->table, command, &bench->stamp, &bench->outcomes);
}

static void must(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "bench_table: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

static void acquire(struct bench *bench, uint64_t at, uint8_t lease_s)
{
    struct slot *slot = &bench->slots[at];
    uint8_t key[KEY_LEN];
    struct lq_command command = {
        .type = LQ_COMMAND_ACQUIRE, .lease_s = lease_s, .key_len = KEY_LEN, .owner = 1, .key = key};
    slot->key = ++bench->last_key;
    make_key(bench, slot->key, key);
    apply(bench, &command);
    must(bench->outcomes.items[0].kind == LQ_OUTCOME_GRANTED, "an acquire was not granted");
    slot->token = bench->outcomes.items[0].token;
}

static void release(struct bench *bench, uint64_t at)
{
    const struct slot *slot = &bench->slots[at];
    uint8_t key[KEY_LEN];
    struct lq_command command = {
        .type = LQ_COMMAND_RELEASE, .key_len = KEY_LEN, .token = slot->token, .key = key};
    make_key(bench, slot->key, key);
    apply(bench, &command);
    must(bench->outcomes.items[0].kind == LQ_OUTCOME_RELEASED, "a release was refused");
}

static void expire(struct bench *bench)
{
    struct lq_command command;
    must(lq_table_due(bench->table, LQ_WHICH_ALL, bench->stamp.time_ms, &command),
         "nothing is due");
    bench->outcomes.count = 0;
    lq_table_apply(bench->table, &command, &bench->stamp, &bench->outcomes);
}

/* ---- Phases. */

static void begin(struct bench *bench, const struct options *options)
{
    const uint8_t secret[16] = {7};
    *bench = (struct bench){.origin = {.node = 1, .incarnation = 1}, .seed = options->seed};
    bench->stamp.caps = (struct lq_caps){UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    bench->table = lq_table_new_alone(secret, 1);
    lq_outcomes_init(&bench->outcomes);
    bench->slots = malloc(options->most * sizeof *bench->slots);
    must(bench->slots != NULL, "out of memory");
    memset(bench->slots, 1, options->most * sizeof *bench->slots); /* resident from the beginning */
    lq_table_apply(bench->table,
                   &(struct lq_command){.type = LQ_COMMAND_ORIGIN_OPEN, .origin = bench->origin},
                   &bench->stamp, &bench->outcomes);
}

static void end(struct bench *bench)
{
    lq_table_free(bench->table);
    lq_outcomes_done(&bench->outcomes);
    free(bench->slots);
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* `n` times `step`, in slices as a turn makes them. Time passes a little with each. */
static struct slices in_slices(struct bench *bench, uint64_t n, void (*step)(struct bench *bench))
{
    size_t n_slices = (size_t)(n / SLICE) + 1, at = 0;
    double *slices_ms = calloc(n_slices, sizeof *slices_ms);
    struct slices slices;
    must(slices_ms != NULL, "out of memory");
    for (uint64_t done = 0; done < n; at++) {
        uint64_t begun_ns = cpu_ns(), slice = n - done < SLICE ? n - done : SLICE;
        for (uint64_t i = 0; i < slice; i++) {
            step(bench);
        }
        lq_mem_settle(); /* as the server does in each turn */
        slices_ms[at] = (double)(cpu_ns() - begun_ns) / 1e6;
        done += slice;
        bench->stamp.time_ms++;
    }
    qsort(slices_ms, at, sizeof *slices_ms, by_value);
    slices = (struct slices){.longest_ms = at == 0 ? 0 : slices_ms[at - 1],
                             .usual_ms = slices_ms[at * 99 / 100]};
    free(slices_ms);
    return slices;
}

static void grow_step(struct bench *bench)
{
    acquire(bench, bench->n_held, (uint8_t)(1 + bench->n_held % LQ_SECONDS_MAX));
    bench->n_held++;
}

static void shrink_step(struct bench *bench)
{
    release(bench, --bench->n_held);
}

static void expire_step(struct bench *bench)
{
    expire(bench);
    bench->n_held--;
}

static uint64_t draw_slot(const struct bench *bench, uint64_t i)
{
    return mix(i ^ bench->seed) % bench->n_held;
}

/* Nanoseconds of a pair while `n_held` locks are held: one of them, at random, makes room for a new
 * key. The median of some blocks, since others use the machine, too. The bench looks ahead to its
 * own next slot: that memory is not the table's. */
static double time_pairs(struct bench *bench, uint64_t n)
{
    double blocks[BLOCKS];
    uint64_t i = 0;
    for (uint64_t block = 0; block < BLOCKS; block++) {
        uint64_t begun_ns = cpu_ns(), begun = i;
        for (; i < (block + 1) * n / BLOCKS; i++) {
            uint64_t at = draw_slot(bench, i);
            __builtin_prefetch(&bench->slots[draw_slot(bench, i + 4)], 1);
            release(bench, at);
            acquire(bench, at, (uint8_t)(1 + i % LQ_SECONDS_MAX));
        }
        blocks[block] = (double)(cpu_ns() - begun_ns) / (double)(i - begun);
    }
    qsort(blocks, BLOCKS, sizeof *blocks, by_value);
    return blocks[BLOCKS / 2];
}

static void measure(struct bench *bench, const struct options *options, struct result *result)
{
    double heap = (double)heap_bytes(), rss = (double)rss_bytes();
    double most = (double)options->most, many = (double)options->many;
    (void)in_slices(bench, options->few, grow_step);
    (void)time_pairs(bench, options->pairs / 10);
    result->few_ns = time_pairs(bench, options->pairs);
    (void)in_slices(bench, options->many - options->few, grow_step);
    result->heap_bytes_many = ((double)heap_bytes() - heap) / many;
    result->rss_bytes_many = ((double)rss_bytes() - rss) / many;
    (void)time_pairs(bench, options->pairs / 10);
    result->many_ns = time_pairs(bench, options->pairs);
    (void)in_slices(bench, options->most - options->many, grow_step);
    result->heap_bytes_most = ((double)heap_bytes() - heap) / most;
    result->rss_bytes_most = ((double)rss_bytes() - rss) / most;
    result->release = in_slices(bench, options->most, shrink_step);
    result->grow = in_slices(bench, options->most, grow_step);
    bench->stamp.time_ms += UINT64_C(1000) * (LQ_SECONDS_MAX + 1);
    result->expire = in_slices(bench, options->most, expire_step);
}

/* ---- Report. */

static void print_slices(const char *what, struct slices slices)
{
    printf("slices of %d operations while %s, CPU: longest %.2f ms, 99 of 100 below %.2f ms (goal: "
           "at most 10)\n",
           SLICE, what, slices.longest_ms, slices.usual_ms);
}

static void print_text(const struct options *options, const struct result *result)
{
    unsigned long long few = options->few, many = options->many, most = options->most;
    printf("a pair of acquire and release, CPU: %.0f ns with %llu locks, %.0f ns with %llu; ratio "
           "%.2f (goal: at most 4)\n",
           result->few_ns, few, result->many_ns, many, result->many_ns / result->few_ns);
    print_slices("growing", result->grow);
    print_slices("releasing", result->release);
    print_slices("expiring", result->expire);
    printf("bytes of a lock with a key of %d: heap %.1f, resident %.1f with %llu; heap %.1f, "
           "resident %.1f with %llu (goals: 160, 200)\n",
           KEY_LEN, result->heap_bytes_many, result->rss_bytes_many, many, result->heap_bytes_most,
           result->rss_bytes_most, most);
}

static void print_json(const struct options *options, const struct result *result)
{
    unsigned long long few = options->few, many = options->many, most = options->most;
    printf("{\"few\": %llu, \"many\": %llu, \"most\": %llu, ", few, many, most);
    printf("\"few_ns\": %.1f, \"many_ns\": %.1f, \"ratio\": %.3f, ", result->few_ns,
           result->many_ns, result->many_ns / result->few_ns);
    printf("\"grow_ms\": %.3f, \"grow_p99_ms\": %.3f, ", result->grow.longest_ms,
           result->grow.usual_ms);
    printf("\"release_ms\": %.3f, \"release_p99_ms\": %.3f, ", result->release.longest_ms,
           result->release.usual_ms);
    printf("\"expire_ms\": %.3f, \"expire_p99_ms\": %.3f, ", result->expire.longest_ms,
           result->expire.usual_ms);
    printf("\"heap_bytes_many\": %.1f, \"rss_bytes_many\": %.1f, ", result->heap_bytes_many,
           result->rss_bytes_many);
    printf("\"heap_bytes_most\": %.1f, \"rss_bytes_most\": %.1f}\n", result->heap_bytes_most,
           result->rss_bytes_most);
}

static uint64_t number(const char *text)
{
    char *rest = NULL;
    unsigned long long value = text == NULL ? 0 : strtoull(text, &rest, 10);
    if (text == NULL || *text < '0' || *text > '9' || *rest != '\0') {
        (void)fprintf(stderr, "bench_table: a decimal number is missing\n");
        exit(64);
    }
    return value;
}

static struct options parse(char **arguments)
{
    struct options options = {
        .few = 10000, .many = 1000000, .most = 1100000, .pairs = 1000000, .seed = 1};
    struct {
        const char *name;
        uint64_t *value;
    } numbers[] = {{"--few", &options.few},
                   {"--many", &options.many},
                   {"--most", &options.most},
                   {"--pairs", &options.pairs},
                   {"--seed", &options.seed}};
    for (char **at = arguments + 1; *at != NULL; at++) {
        size_t i = 0;
        while (i < 5 && strcmp(*at, numbers[i].name) != 0) {
            i++;
        }
        if (i < 5) {
            *numbers[i].value = number(*++at);
        } else if (strcmp(*at, "--json") == 0) {
            options.json = true;
        } else {
            (void)fprintf(stderr, "bench_table: unknown option %s; see the head of bench_table.c\n",
                          *at);
            exit(64);
        }
    }
    if (options.few < 1 || options.few > options.many || options.many > options.most ||
        options.pairs < 10 * BLOCKS) {
        (void)fprintf(stderr,
                      "bench_table: needs 1 <= few <= many <= most and at least 210 pairs\n");
        exit(64);
    }
    return options;
}

int main(int argc, char **argv)
{
    struct options options = parse(argv);
    struct result result = {0};
    struct bench bench;
    (void)argc;
    begin(&bench, &options);
    measure(&bench, &options, &result);
    end(&bench);
    (options.json ? print_json : print_text)(&options, &result);
    return EXIT_SUCCESS;
}
