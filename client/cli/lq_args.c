#include "lq_args.h"

#include "lq_key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Values. */

/* Reads up to `max` units of which `per_unit` make 1, with decimals as far as they count: "2.5"
 * with 1000 per unit is 2500. */
static bool read_decimal(const char *text, uint64_t per_unit, uint64_t max, uint64_t *ret_value)
{
    uint64_t value = 0, weight = per_unit;
    const char *at = text;

    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (uint64_t)(*at - '0') * per_unit;
        if (value > max) {
            return false;
        }
    }
    if (at == text) {
        return false;
    }
    if (*at == '.' && at[1] != '\0') {
        for (at++; *at >= '0' && *at <= '9' && weight >= 10; at++) {
            weight /= 10;
            value += (uint64_t)(*at - '0') * weight;
        }
    }
    if (*at != '\0' || value > max) {
        return false;
    }
    *ret_value = value;
    return true;
}

static const char *take_wait(struct lq_cli *cli, const char *value)
{
    uint64_t wait_ms;
    if (!read_decimal(value, 1000, LOQUET_WAIT_MAX, &wait_ms)) {
        return "give 0 to 255 seconds, such as 10 or 0.5";
    }
    cli->wait_ms = (uint32_t)wait_ms;
    return NULL;
}

static const char *take_lease(struct lq_cli *cli, const char *value)
{
    uint64_t lease_s;
    if (!read_decimal(value, 1, LOQUET_LEASE_MAX, &lease_s) || lease_s == 0) {
        return "give 1 to 255 whole seconds";
    }
    cli->lease_s = (uint32_t)lease_s;
    return NULL;
}

static const char *take_count(const char *value, uint32_t *ret_count)
{
    uint64_t count;
    if (!read_decimal(value, 1, LQ_CLI_BENCH_MAX, &count) || count == 0) {
        return "give a whole number, 1 to 1000";
    }
    *ret_count = (uint32_t)count;
    return NULL;
}

static const char *take_seconds(struct lq_cli *cli, const char *value)
{
    return take_count(value, &cli->seconds);
}

static const char *take_connections(struct lq_cli *cli, const char *value)
{
    return take_count(value, &cli->connections);
}

static const char *take_key_prefix(struct lq_cli *cli, const char *value)
{
    size_t len = strlen(value);
    cli->key_prefix = value;
    return len <= LQ_CLI_PREFIX_BYTES && lq_key_is_valid((const uint8_t *)value, len)
               ? NULL
               : "give 1 to 900 bytes of UTF-8 without line feed";
}

static const char *take_endpoints(struct lq_cli *cli, const char *value)
{
    cli->endpoints = value;
    cli->endpoints_origin = "--endpoints";
    return *value == '\0' ? "give HOST:PORT[,HOST:PORT...]" : NULL;
}

static const char *take_admin(struct lq_cli *cli, const char *value)
{
    cli->admin = value;
    cli->admin_origin = "--admin";
    return *value == '\0' ? "give HOST:PORT[,HOST:PORT...]" : NULL;
}

static const char *take_config(struct lq_cli *cli, const char *value)
{
    cli->config = value;
    return *value == '\0' ? "give the path of a file; /dev/null is for none" : NULL;
}

static const char *take_no_wait(struct lq_cli *cli, const char *value)
{
    (void)value;
    cli->no_wait = true;
    return NULL;
}

static const char *take_no_renew(struct lq_cli *cli, const char *value)
{
    (void)value;
    cli->no_renew = true;
    return NULL;
}

static const char *take_on_lost(struct lq_cli *cli, const char *value)
{
    static const char *const names[] = {
        [LQ_CLI_KILL] = "kill", [LQ_CLI_SIGNAL] = "signal", [LQ_CLI_WARN] = "warn"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(value, names[i]) == 0) {
            cli->on_lost = (enum lq_cli_on_lost)i;
            return NULL;
        }
    }
    return "give kill, signal or warn";
}

static const char *take_json(struct lq_cli *cli, const char *value)
{
    (void)value;
    cli->json = true;
    cli->no_json = false;
    return NULL;
}

static const char *take_no_json(struct lq_cli *cli, const char *value)
{
    (void)value;
    cli->json = false;
    cli->no_json = true;
    return NULL;
}

static const char *take_help(struct lq_cli *cli, const char *value)
{
    (void)value;
    cli->help = true;
    return NULL;
}

const struct lq_cli_option lq_cli_options[] = {
    {"endpoints", "HOST:PORT[,...]",
     "servers to talk to (default: LOQUET_ENDPOINTS, else as configured, else 127.0.0.1:7311)",
     LQ_CLI_SERVER, take_endpoints},
    {"admin", "HOST:PORT[,...]",
     "admin addresses of the nodes (default: LOQUET_ADMIN, else as configured, else "
     "127.0.0.1:7313)",
     LQ_CLI_ADMIN, take_admin},
    {"wait", "S",
     "wait up to S seconds, 0 to 255: for a lock (default 0: one attempt), or for a change of "
     "members (default 60)",
     LQ_CLI_WAIT, take_wait},
    {"no-wait", NULL, "do not wait until the change is in effect", LQ_CLI_NO_WAIT, take_no_wait},
    {"lease", "S", "length of the lease in seconds, 1 to 255 (default 30)", LQ_CLI_LEASE,
     take_lease},
    {"no-renew", NULL, "do not renew the lease: the command has to be done within it", LQ_CLI_RUN,
     take_no_renew},
    {"on-lost", "kill|signal|warn",
     "when the lock is lost: end the command (default), send it TERM once, or only say so",
     LQ_CLI_RUN, take_on_lost},
    {"seconds", "S", "how long to measure, 1 to 1000 seconds (default 5)", LQ_CLI_BENCH,
     take_seconds},
    {"connections", "N", "clients at once, 1 to 1000 (default 1)", LQ_CLI_BENCH, take_connections},
    {"key-prefix", "TEXT", "what its keys begin with (default loquet-bench)", LQ_CLI_BENCH,
     take_key_prefix},
    {"json", NULL, "print one JSON object instead of text", LQ_CLI_COMMON, take_json},
    {"no-json", NULL, "print text, whatever the configuration says", LQ_CLI_CONFIG, take_no_json},
    {"config", "FILE",
     "read this configuration file (default: LOQUET_CONFIG, else those of the user and the system)",
     LQ_CLI_CONFIG, take_config},
    {"help", NULL, "print this text", LQ_CLI_COMMON, take_help},
    {NULL, NULL, NULL, 0, NULL},
};

bool lq_args_token(const char *text, uint64_t *ret_token)
{
    char *end;
    unsigned long long token;

    errno = 0;
    token = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0) {
        return false;
    }
    *ret_token = token;
    return true;
}

/* ---- Arguments. */

static const char *command_name(const struct lq_cli *cli)
{
    return cli->command == NULL ? "" : cli->command->name;
}

static bool refuse(const struct lq_cli *cli, const char *what, const char *which, const char *fix)
{
    const char *space = cli->command == NULL ? "" : " ";
    (void)fprintf(stderr, "loquet: %s '%s': %s. Try: loquet %s%s--help\n", what, which, fix,
                  command_name(cli), space);
    return false;
}

static const struct lq_cli_option *find_option(const char *name, size_t len)
{
    for (const struct lq_cli_option *option = lq_cli_options; option->name != NULL; option++) {
        if (strlen(option->name) == len && memcmp(option->name, name, len) == 0) {
            return option;
        }
    }
    return NULL;
}

const struct lq_cli_option *lq_args_find(const char *name)
{
    return find_option(name, strlen(name));
}

/* Reads the option argv[*at], and moves *at on when its value is an argument of its own. */
static bool parse_option(struct lq_cli *cli, char **argv, int *at)
{
    const char *given = argv[*at], *text = strcmp(given, "-h") == 0 ? "--help" : given;
    size_t len = strcspn(text, "=");
    const char *value = text[len] == '=' ? text + len + 1 : NULL, *fault;
    const struct lq_cli_option *option = len > 2 ? find_option(text + 2, len - 2) : NULL;

    if (strncmp(text, "--", 2) != 0 || option == NULL) {
        return refuse(cli, "unknown option", given, "a key that begins with - goes behind --");
    }
    cli->used |= option->set;
    if (cli->command != NULL && (cli->command->options & option->set) == 0) {
        return refuse(cli, "option", given, "this command does not take it");
    }
    if (option->value == NULL && value != NULL) {
        return refuse(cli, "option", given, "it takes no value");
    }
    if (option->value != NULL && value == NULL) {
        value = argv[*at + 1];
        if (value == NULL) {
            return refuse(cli, "option", given, "its value is missing");
        }
        ++*at;
    }
    fault = option->take(cli, value);
    return fault == NULL || refuse(cli, "option", given, fault);
}

static bool choose_command(struct lq_cli *cli, const char *name)
{
    for (const struct lq_cli_command *command = lq_cli_commands; command->name != NULL; command++) {
        if (strcmp(command->name, name) == 0) {
            cli->command = command;
            return (cli->used & ~command->options) == 0 ||
                   refuse(cli, "command", name, "it does not take an option given before it");
        }
    }
    return refuse(cli, "unknown command", name, "see the list of commands");
}

/* Checks the arguments that are no options. */
static bool check_arguments(const struct lq_cli *cli)
{
    int n = cli->n_arguments, wanted = cli->command->n_arguments;
    bool is_over = n > wanted + cli->command->n_optional && !cli->command->runs_command;
    const char *key = n > 0 ? cli->arguments[0] : "";

    if (n < wanted || is_over) {
        return refuse(cli, n < wanted ? "too few arguments for" : "too many arguments for",
                      command_name(cli),
                      cli->command->usage[0] == '\0' ? "it takes none" : cli->command->usage);
    }
    if (cli->command->has_key && !lq_key_is_valid((const uint8_t *)key, strlen(key))) {
        return refuse(cli, "key", strlen(key) < 100 ? key : "(long)",
                      "a key is 1 to 1024 bytes of UTF-8 without line feed");
    }
    return true;
}

/* How many bytes the arguments take: the kernel lays them out one after the other. */
static size_t title_cap(int argc, char **argv)
{
    return (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) - argv[0]);
}

bool lq_args_parse(struct lq_cli *ret_cli, int argc, char **argv)
{
    struct lq_cli *cli = ret_cli;
    bool options = true;
    int at;

    *cli = (struct lq_cli){.wait_ms = LQ_CLI_WAIT_MS,
                           .lease_s = LQ_CLI_LEASE_S,
                           .seconds = LQ_CLI_BENCH_S,
                           .connections = 1,
                           .key_prefix = LQ_CLI_PREFIX,
                           .arguments = argv,
                           .title = argv[0],
                           .title_cap = argc > 0 ? title_cap(argc, argv) : 0};
    for (at = 1; at < argc && !cli->help; at++) {
        if (options && strcmp(argv[at], "--") == 0) {
            options = false;
        } else if (options && argv[at][0] == '-' && argv[at][1] != '\0') {
            if (!parse_option(cli, argv, &at)) {
                return false;
            }
        } else if (cli->command == NULL) {
            if (!choose_command(cli, argv[at])) {
                return false;
            }
        } else {
            /* Moves to the front: `argv` is as long as all of them. */
            argv[cli->n_arguments++] = argv[at];
            options = options && !(cli->command->runs_command && cli->n_arguments > 1);
        }
    }
    argv[cli->n_arguments] = NULL;
    if (cli->help) {
        return true;
    }
    if (cli->command == NULL) {
        (void)fputs("loquet: no command. Try: loquet --help\n", stderr);
        return false;
    }
    return check_arguments(cli);
}
