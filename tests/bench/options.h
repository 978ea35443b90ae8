/* The command line of lq_bench. */
#ifndef LQ_BENCH_OPTIONS_H
#define LQ_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Exit statuses, the same numbers as the command line client's where the meaning is the same. */
enum lq_bench_exit {
    LQ_BENCH_OK = 0,
    LQ_BENCH_FAILED = 1,       /* the run saw errors, or could not hold what it was asked to */
    LQ_BENCH_USAGE = 64,       /* bad options */
    LQ_BENCH_UNAVAILABLE = 69, /* no connection to the target */
};

enum lq_bench_protocol {
    LQ_BENCH_LOQUET = 0,
    LQ_BENCH_REDIS = 1,
    LQ_BENCH_ECHO = 2,
    LQ_BENCH_ETCD = 3,
    LQ_BENCH_FLOOR = 4,
};

/* Who may choose which key: see keys.h. */
enum lq_bench_sharing {
    LQ_BENCH_OWN = 0,
    LQ_BENCH_SHARED = 1,
};

enum {
    LQ_BENCH_MAX_SERVERS = 8, /* processes of one server, whose CPU is added up */
};

/* Processes of the server, none: its CPU is not in the report. */
struct lq_bench_pids {
    uint32_t n;
    uint32_t pid[LQ_BENCH_MAX_SERVERS];
};

struct lq_bench_options {
    const char *target; /* HOST:PORT[,HOST:PORT...] as given; points into argv */
    const char *listen; /* of the echo server, or of the floor */
    const char *floor;  /* a folder: be the durable floor, with its files there; or NULL */
    uint32_t protocol;  /* enum lq_bench_protocol */
    uint32_t keys;      /* enum lq_bench_sharing */
    uint32_t connections;
    uint32_t depth;   /* requests in flight per connection */
    uint32_t key_set; /* distinct keys; 0: one per slot (own) or one in all (shared) */
    uint32_t key_bytes;
    uint32_t wait_s;
    uint32_t lease_s;
    double duration_s;
    double warmup_s;
    struct lq_bench_pids servers;
    uint32_t hold; /* keys to acquire and keep before anything else */
    uint32_t seed;
    bool then_load;
    bool json;
    bool echo_server;
    bool help;
};

/* Fills *ret from the arguments, defaults included, or prints what is wrong and how to mend it on
 * stderr. Returns 0, or LQ_BENCH_USAGE with *ret unspecified. */
int lq_bench_options_parse(int argc, char **argv, struct lq_bench_options *ret);

/* Prints the help text on stdout. */
void lq_bench_options_help(void);

#endif
