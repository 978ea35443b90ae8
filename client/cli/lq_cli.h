/* The command line: what was asked for, and the table of commands. One file, cmd_NAME.c, per
 * command. */
#ifndef LQ_CLI_H
#define LQ_CLI_H

#include "loquet.h"
#include "lq_exit.h"

#include <stdbool.h>
#include <stddef.h>

/* Defaults of --wait and --lease. One attempt, and a lease that a crash does not hold up for long.
 */
#define LQ_CLI_WAIT_MS 0
#define LQ_CLI_LEASE_S 30

/* The same of `member`: a standby of usual size has caught up by then. */
#define LQ_CLI_CHANGE_WAIT_MS 60000

/* Defaults and limits of `bench`. The rest of a key is two numbers. */
#define LQ_CLI_BENCH_S      5
#define LQ_CLI_BENCH_MAX    1000 /* connections; also seconds, where a typing error is likelier */
#define LQ_CLI_PREFIX       "loquet-bench"
#define LQ_CLI_PREFIX_BYTES 900

/* The port of an admin address that is given without one. */
#define LQ_CLI_ADMIN_PORT "7313"

struct lq_cli_command;

/* What `run` does to its command when the lock is lost. */
enum lq_cli_on_lost {
    LQ_CLI_KILL,   /* ends it: TERM, then KILL, before the lease can end */
    LQ_CLI_SIGNAL, /* TERM, once: it may finish what it does */
    LQ_CLI_WARN,   /* nothing */
};

/* What was asked for. */
struct lq_cli {
    const struct lq_cli_command *command;
    const char *endpoints, *admin, *config;
    const char *endpoints_origin, *admin_origin; /* where they were found, for messages */
    bool json, no_json, help, no_wait, no_renew;
    enum lq_cli_on_lost on_lost;
    uint32_t wait_ms, lease_s;
    uint32_t seconds, connections; /* bench */
    const char *key_prefix;
    unsigned used; /* options that were given, of enum lq_cli_option_set */
    int n_arguments;
    char **arguments; /* what is not an option; ends with NULL */
    char *title;      /* where the arguments lie, which is what ps(1) shows */
    size_t title_cap;
};

/* Which commands know an option. */
enum lq_cli_option_set {
    LQ_CLI_COMMON = 1, /* --json, --help: all */
    LQ_CLI_SERVER = 2, /* --endpoints */
    LQ_CLI_WAIT = 4,
    LQ_CLI_LEASE = 8,
    LQ_CLI_ADMIN = 16, /* --admin */
    LQ_CLI_NO_WAIT = 32,
    LQ_CLI_RUN = 64,     /* --no-renew, --on-lost */
    LQ_CLI_CONFIG = 128, /* --config, --no-json: those that read configuration files */
    LQ_CLI_BENCH = 256,  /* --seconds, --connections, --key-prefix */
};

struct lq_cli_command {
    const char *name;
    const char *usage;   /* what follows the name and the options: "KEY TOKEN" */
    const char *summary; /* one line */
    const char *details; /* more, for its --help; lines of at most 80 columns */
    unsigned options;    /* of enum lq_cli_option_set */
    int n_arguments;     /* so many; run: at least so many */
    int n_optional;      /* and so many more may follow */
    bool has_key;        /* the first argument is a key */
    bool is_hidden;      /* not for people: neither listed nor completed */
    bool runs_command;   /* arguments from the second on are a command with options of its own */
    /* The first argument's words, when it is one of a few: number `i`, NULL behind the last one. */
    const char *(*action)(size_t i);
    enum lq_exit (*run)(const struct lq_cli *cli);
};

/* All commands; ends with one without name. */
extern const struct lq_cli_command lq_cli_commands[];

enum lq_exit lq_cmd_acquire(const struct lq_cli *cli);
enum lq_exit lq_cmd_release(const struct lq_cli *cli);
enum lq_exit lq_cmd_renew(const struct lq_cli *cli);
enum lq_exit lq_cmd_run(const struct lq_cli *cli);
enum lq_exit lq_cmd_ping(const struct lq_cli *cli);
enum lq_exit lq_cmd_status(const struct lq_cli *cli);
enum lq_exit lq_cmd_member(const struct lq_cli *cli);
enum lq_exit lq_cmd_bench(const struct lq_cli *cli);
enum lq_exit lq_cmd_transfer(const struct lq_cli *cli);
enum lq_exit lq_cmd_version(const struct lq_cli *cli);
enum lq_exit lq_cmd_completion(const struct lq_cli *cli);

/* The actions of `member`, see `action`. */
const char *lq_cmd_member_action(size_t i);

#endif
