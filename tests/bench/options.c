/* One table describes every option: parsing, range checks and the help text all read it. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"

enum kind {
    FLAG,
    NUMBER,  /* uint32_t in [min, max] */
    SECONDS, /* double in [min, max] */
    TEXT,    /* const char * */
    PIDS,    /* struct lq_bench_pids: numbers in [min, max] with commas between them */
    CHOICE,  /* uint32_t: the place of the word in `value`, which lists the words as a|b|c */
};

struct spec {
    const char *name;
    enum kind kind;
    size_t offset;
    uint32_t min, max;
    const char *value; /* how the help text calls the value */
    const char *help;
};

#define AT(field) offsetof(struct lq_bench_options, field)

static const struct spec specs[] = {
    {"target", TEXT, AT(target), 0, 0, "HOST:PORT,...",
     "server to load, or servers in turn (127.0.0.1:7311)"},
    {"protocol", CHOICE, AT(protocol), 0, 0, "loquet|redis|echo|etcd|floor",
     "what it speaks (loquet)"},
    {"connections", NUMBER, AT(connections), 1, 100000, "N", "connections (64)"},
    {"depth", NUMBER, AT(depth), 1, 65536, "N", "requests in flight on each connection (1)"},
    {"keys", CHOICE, AT(keys), 0, 0, "own|shared",
     "each slot its own keys, or all from one set (own)"},
    {"key-set", NUMBER, AT(key_set), 1, 100000000, "N",
     "distinct keys (own: one per slot; shared: 1)"},
    {"key-bytes", NUMBER, AT(key_bytes), LQ_BENCH_KEY_MIN_BYTES, 1024, "N",
     "length of each key (32)"},
    {"wait", NUMBER, AT(wait_s), 0, 255, "S", "wait of each acquire (10)"},
    {"lease", NUMBER, AT(lease_s), 1, 255, "S", "lease of each acquire (60)"},
    {"duration", SECONDS, AT(duration_s), 0, 86400, "S", "measured time (10)"},
    {"warmup", SECONDS, AT(warmup_s), 0, 3600, "S", "time before it that is not measured (1)"},
    {"server-pid", PIDS, AT(servers), 1, 0x7fffffff, "PID,...",
     "report the CPU of these processes too"},
    {"hold", NUMBER, AT(hold), 1, 100000000, "N",
     "acquire N keys and leave them held; then end, or"},
    {"then-load", FLAG, AT(then_load), 0, 0, NULL, "  run the load over that table"},
    {"seed", NUMBER, AT(seed), 0, UINT32_MAX, "N", "of the generator that chooses keys (1)"},
    {"json", FLAG, AT(json), 0, 0, NULL, "one JSON object on stdout instead of the table"},
    {"floor", TEXT, AT(floor), 0, 0, "FOLDER", "be the durable floor instead, its files there, or"},
    {"echo-server", FLAG, AT(echo_server), 0, 0, NULL, "be the echo server instead;"},
    {"listen", TEXT, AT(listen), 0, 0, "HOST:PORT",
     "  where it listens (127.0.0.1:0, a free port)"},
    {"help", FLAG, AT(help), 0, 0, NULL, "this text"},
};

#define N_SPECS (sizeof specs / sizeof specs[0])

static const struct lq_bench_options defaults = {
    .target = "127.0.0.1:7311",
    .listen = "127.0.0.1:0",
    .protocol = LQ_BENCH_LOQUET,
    .keys = LQ_BENCH_OWN,
    .connections = 64,
    .depth = 1,
    .key_bytes = 32,
    .wait_s = 10,
    .lease_s = 60,
    .duration_s = 10,
    .warmup_s = 1,
    .seed = 1,
};

static int bad(const struct spec *spec, const char *text)
{
    (void)fprintf(stderr, "lq_bench: --%s: '%s' is not ", spec->name, text);
    if (spec->kind == CHOICE)
        (void)fprintf(stderr, "one of %s\n", spec->value);
    else
        (void)fprintf(stderr, "a number from %u to %u\n", spec->min, spec->max);
    return LQ_BENCH_USAGE;
}

static int set_number(const struct spec *spec, const char *text, uint32_t *ret)
{
    char *end;
    unsigned long long n;
    errno = 0;
    n = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *text == '-' || n < spec->min || n > spec->max)
        return bad(spec, text);
    *ret = (uint32_t)n;
    return 0;
}

static int set_pids(const struct spec *spec, const char *text, struct lq_bench_pids *ret)
{
    struct lq_bench_pids pids = {0};
    const char *word = text;
    for (;;) {
        char number[16];
        size_t len = strcspn(word, ",");
        if (len >= sizeof number || pids.n == LQ_BENCH_MAX_SERVERS)
            return bad(spec, text);
        memcpy(number, word, len);
        number[len] = '\0';
        if (set_number(spec, number, &pids.pid[pids.n++]) != 0)
            return LQ_BENCH_USAGE;
        if (word[len] == '\0')
            break;
        word += len + 1;
    }
    *ret = pids;
    return 0;
}

static int set_seconds(const struct spec *spec, const char *text, double *ret)
{
    char *end;
    double s = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(s) || s < spec->min || s > spec->max)
        return bad(spec, text);
    *ret = s;
    return 0;
}

static int set_choice(const struct spec *spec, const char *text, uint32_t *ret)
{
    const char *word = spec->value;
    for (uint32_t i = 0; word != NULL; i++) {
        size_t len = strcspn(word, "|");
        if (strlen(text) == len && memcmp(word, text, len) == 0) {
            *ret = i;
            return 0;
        }
        word = word[len] == '|' ? word + len + 1 : NULL;
    }
    return bad(spec, text);
}

static int set(const struct spec *spec, const char *text, struct lq_bench_options *o)
{
    void *field = (char *)o + spec->offset;
    switch (spec->kind) {
    case FLAG:
        *(bool *)field = true;
        return 0;
    case NUMBER:
        return set_number(spec, text, field);
    case SECONDS:
        return set_seconds(spec, text, field);
    case TEXT:
        *(const char **)field = text;
        return 0;
    case PIDS:
        return set_pids(spec, text, field);
    case CHOICE:
        return set_choice(spec, text, field);
    }
    return LQ_BENCH_USAGE;
}

/* What no single option can know. */
static int check_together(struct lq_bench_options *o)
{
    uint64_t slots = (uint64_t)o->connections * o->depth;
    if (slots > LQ_BENCH_KEY_MAX_COUNT) {
        (void)fprintf(stderr,
                      "lq_bench: --connections times --depth is above %u: lower one of them\n",
                      LQ_BENCH_KEY_MAX_COUNT);
        return LQ_BENCH_USAGE;
    }
    if (o->key_set == 0)
        o->key_set = o->keys == LQ_BENCH_OWN ? (uint32_t)slots : 1;
    if (o->keys == LQ_BENCH_OWN && o->key_set < slots) {
        (void)fprintf(
            stderr,
            "lq_bench: --key-set %u: %llu slots with keys of their own need at least as many;"
            " raise it or take --keys shared\n",
            o->key_set, (unsigned long long)slots);
        return LQ_BENCH_USAGE;
    }
    if (o->then_load && o->hold == 0) {
        (void)fprintf(stderr, "lq_bench: --then-load: give --hold N with it, or leave it out\n");
        return LQ_BENCH_USAGE;
    }
    return 0;
}

int lq_bench_options_parse(int argc, char **argv, struct lq_bench_options *ret)
{
    struct option longs[N_SPECS + 1] = {0};
    struct lq_bench_options o = defaults;
    int i, rv;
    for (size_t k = 0; k < N_SPECS; k++) {
        longs[k].name = specs[k].name;
        longs[k].has_arg = specs[k].kind == FLAG ? no_argument : required_argument;
    }
    for (;;) {
        int c = getopt_long(argc, argv, "", longs, &i);
        if (c == -1)
            break;
        if (c != 0) { /* getopt has said what is wrong */
            (void)fprintf(stderr, "lq_bench: --help lists the options\n");
            return LQ_BENCH_USAGE;
        }
        rv = set(&specs[i], optarg, &o);
        if (rv != 0)
            return rv;
    }
    if (optind < argc) {
        (void)fprintf(stderr, "lq_bench: '%s' is not an option: --help lists them\n", argv[optind]);
        return LQ_BENCH_USAGE;
    }
    rv = check_together(&o);
    if (rv == 0)
        *ret = o;
    return rv;
}

void lq_bench_options_help(void)
{
    printf("usage: lq_bench [options]\n"
           "Runs acquire and release in closed loops against a lock server and reports how fast it "
           "was.\n\n");
    for (size_t k = 0; k < N_SPECS; k++) {
        char left[64];
        (void)snprintf(left, sizeof left, "--%s %s", specs[k].name,
                       specs[k].value != NULL ? specs[k].value : "");
        printf("  %-32s %s\n", left, specs[k].help);
    }
    printf(
        "\nExit status: 0, 1 if the run saw errors, 64 for bad options, 69 if it can't connect.\n");
}
