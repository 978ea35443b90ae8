/* Reading of all sources, in their order of precedence. */
#include "lq_check.h"
#include "lq_option.h"

#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

/* What getopt_long returns for the first option; above all characters. */
#define FLAG_BASE 256

/* Room for flags: more than there are options. */
#define FLAGS_MAX 64

/* Name of a variable, or of a flag with its dashes. */
#define NAME_BYTES 64

/* ---- Sources. */

static void set_defaults(struct lq_config *config)
{
    struct lq_config_error error;
    size_t n;
    const struct lq_option *options = lq_options(&n);
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < n; i++) {
        LQ_CHECK(lq_option_set(config, &options[i], options[i].initial, "default", &error));
    }
    config->given = 0;
}

/* The variable of an option: LOQUETD_ and its name in capitals, `-` as `_`. */
static void variable_name(const struct lq_option *option, char ret_name[NAME_BYTES])
{
    size_t at = (size_t)snprintf(ret_name, NAME_BYTES, "LOQUETD_%s", option->name);
    for (size_t i = 0; i < at; i++) {
        ret_name[i] = ret_name[i] == '-' ? '_' : (char)toupper((unsigned char)ret_name[i]);
    }
}

static const char *find_variable(char *const environment[], const char *name)
{
    size_t len = strlen(name);
    for (; environment != NULL && *environment != NULL; environment++) {
        if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=') {
            return *environment + len + 1;
        }
    }
    return NULL;
}

/* A variable with our prefix that is no option is a mistake which nobody would notice. */
static bool refuse_unknown_variables(char *const environment[], struct lq_config_error *ret_error)
{
    static const char prefix[] = "LOQUETD_";
    char name[NAME_BYTES];
    size_t n;
    const struct lq_option *options = lq_options(&n);
    for (; environment != NULL && *environment != NULL; environment++) {
        size_t len = strcspn(*environment, "=");
        bool is_known = strncmp(*environment, prefix, sizeof prefix - 1) != 0;
        for (size_t i = 0; i < n && !is_known; i++) {
            variable_name(&options[i], name);
            is_known = !options[i].is_flag_only && strlen(name) == len &&
                       strncmp(*environment, name, len) == 0;
        }
        if (!is_known) {
            return lq_config_fail(ret_error, "%.*s: no such option; see --help",
                                  (int)(len < LQ_CONFIG_TEXT ? len : LQ_CONFIG_TEXT), *environment);
        }
    }
    return true;
}

static bool read_environment(struct lq_config *config, char *const environment[],
                             struct lq_config_error *ret_error)
{
    char name[NAME_BYTES];
    size_t n;
    const struct lq_option *options = lq_options(&n);
    for (size_t i = 0; i < n; i++) {
        const char *value;
        if (options[i].is_flag_only) {
            continue;
        }
        variable_name(&options[i], name);
        value = find_variable(environment, name);
        if (value != NULL && !lq_option_set(config, &options[i], value, name, ret_error)) {
            return false;
        }
    }
    return true;
}

static void long_options(struct option ret_options[FLAGS_MAX])
{
    size_t n;
    const struct lq_option *options = lq_options(&n);
    LQ_CHECK(n < FLAGS_MAX);
    memset(ret_options, 0, FLAGS_MAX * sizeof *ret_options);
    for (size_t i = 0; i < n; i++) {
        ret_options[i].name = options[i].name;
        ret_options[i].has_arg =
            options[i].kind == LQ_OPTION_SWITCH ? no_argument : required_argument;
        ret_options[i].val =
            FLAG_BASE + (int)i; /* each its own, else an ambiguous abbreviation is not seen */
    }
}

static bool read_flags(struct lq_config *config, int argc, char *const argv[],
                       struct lq_config_error *ret_error)
{
    struct option flags[FLAGS_MAX];
    char where[NAME_BYTES];
    size_t n;
    int found;
    long_options(flags);
    optind = 0; /* from the start, however often this is called */
    opterr = 0;
    while ((found = getopt_long(argc, argv, ":", flags, NULL)) >= FLAG_BASE) {
        const struct lq_option *option = &lq_options(&n)[found - FLAG_BASE];
        const char *value = optarg == NULL ? "true" : optarg;
        (void)snprintf(where, sizeof where, "--%s", option->name);
        if (!lq_option_set(config, option, value, where, ret_error)) {
            return false;
        }
    }
    if (found == ':') {
        return lq_config_fail(ret_error, "%s: needs a value; see --help", argv[optind - 1]);
    }
    if (found != -1) {
        return lq_config_fail(
            ret_error, "%s: no such option, more than one, or one that takes no value; see --help",
            argv[optind - 1]);
    }
    if (optind < argc) {
        return lq_config_fail(ret_error, "'%s': loquetd takes options only; see --help",
                              argv[optind]);
    }
    return true;
}

bool lq_config_read(struct lq_config *ret_config, int argc, char *const argv[],
                    char *const environment[], struct lq_config_error *ret_error)
{
    struct lq_config flags;
    set_defaults(&flags);
    /* First for --config, --help and --version; then again over file and environment. */
    if (!read_flags(&flags, argc, argv, ret_error)) {
        return false;
    }
    if (flags.help || flags.version) {
        *ret_config = flags; /* whatever else is wrong */
        return true;
    }
    set_defaults(ret_config);
    if (flags.config[0] != '\0' && !lq_config_read_file(ret_config, flags.config, ret_error)) {
        return false;
    }
    return refuse_unknown_variables(environment, ret_error) &&
           read_environment(ret_config, environment, ret_error) &&
           read_flags(ret_config, argc, argv, ret_error) &&
           lq_config_check_cluster(ret_config, ret_error);
}

static void print_option(const struct lq_option *option)
{
    (void)printf("  --%s%s%s\n        %s", option->name, option->argument == NULL ? "" : " ",
                 option->argument == NULL ? "" : option->argument, option->help);
    if (option->kind != LQ_OPTION_SWITCH && option->initial[0] != '\0') {
        (void)printf(" (default %s)", option->initial);
    }
    (void)printf("\n");
}

void lq_config_print_help(void)
{
    static const char *const titles[] = {
        [LQ_GROUP_BOTH] = "Options:",
        [LQ_GROUP_SIMPLE] = "Options of a single server:",
        [LQ_GROUP_CLUSTER] = "Options of a node of a cluster, with --node-id:",
        [LQ_GROUP_OFFLINE] = "Instead of serving:",
    };
    size_t n;
    const struct lq_option *options = lq_options(&n);
    (void)printf("loquetd, the Loquet lock server\n\n"
                 "usage: loquetd [options]\n\n"
                 "Without options: a lock server in memory, one process, on 127.0.0.1:7311.\n"
                 "With --node-id: a node of a cluster, which keeps its locks on disk.\n");
    for (int group = LQ_GROUP_BOTH; group <= LQ_GROUP_OFFLINE; group++) {
        (void)printf("\n%s\n", titles[group]);
        for (size_t i = 0; i < n; i++) {
            if ((int)options[i].group == group) {
                print_option(&options[i]);
            }
        }
    }
    (void)printf(
        "\nEach option is also a key in the file (libconfig syntax: sweep_ms = 5000;) and a\n"
        "variable (LOQUETD_SWEEP_MS=5000). Flags win over variables, variables over the file.\n"
        "Signals: TERM, INT, HUP: stop; USR1: log statistics.\n"
        "Exit status: 0 stopped by a signal; 64 wrong options; 1 could not start; 3 a node that\n"
        "stopped itself, because of its disk, damaged state or its removal: the log says why.\n");
}
