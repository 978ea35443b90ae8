#include "lq_config.h"

#include "lq_address.h"
#include "lq_check.h"
#include "lq_limits.h"
#include "lq_log.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    KIND_ADDRESS, /* HOST:PORT */
    KIND_TEXT,
    KIND_LEVEL,  /* of the log */
    KIND_NUMBER, /* decimal */
    KIND_BYTES,  /* decimal, perhaps with K, M or G */
    KIND_SWITCH, /* a flag without value; true or false elsewhere */
};

struct lq_option {
    const char *name;
    const char *argument; /* how --help calls the value; NULL for a switch */
    const char *help;
    const char *initial; /* the default, as it would be written */
    size_t offset;       /* in struct lq_config */
    uint64_t min, max;   /* of numbers */
    enum kind kind;
    bool is_flag_only; /* makes no sense in a file or in the environment */
};

#define AT(field)   offsetof(struct lq_config, field)
#define TO_TEXT(x)  #x
#define TEXT_OF(x)  TO_TEXT(x)
#define COUNT_MAX   UINT64_C(1000000000)
#define SECONDS_MAX UINT64_C(86400)

static const struct lq_option options[] = {
    {"listen", "HOST:PORT", "address for clients; port 0 takes a free one and logs it",
     "127.0.0.1:7311", AT(listen), 0, 0, KIND_ADDRESS, false},
    {"config", "FILE", "read options from this file, too", "", AT(config), 0, 0, KIND_TEXT, true},
    {"quarantine", "S",
     "grant nothing for the first S seconds, since a restart forgets locks whose holders go on; "
     "use the longest lease of your clients",
     "0", AT(quarantine_s), 0, SECONDS_MAX, KIND_NUMBER, false},
    {"sweep-ms", "MS", "period in which expired keys that nobody waits for are removed",
     TEXT_OF(LQ_SWEEP_MS_DEFAULT), AT(sweep_ms), 1, 1000 * SECONDS_MAX, KIND_NUMBER, false},
    {"max-keys", "N", "keys held at once; a new key beyond it is answered busy",
     TEXT_OF(LQ_KEYS_DEFAULT), AT(max_keys), 1, COUNT_MAX, KIND_NUMBER, false},
    {"max-waiters-per-key", "N", "waiters on one key; one more is answered busy",
     TEXT_OF(LQ_WAITERS_PER_KEY_DEFAULT), AT(max_waiters_per_key), 1, COUNT_MAX, KIND_NUMBER,
     false},
    {"max-waiters", "N", "waiters on all keys; one more is answered busy",
     TEXT_OF(LQ_WAITERS_DEFAULT), AT(max_waiters), 1, COUNT_MAX, KIND_NUMBER, false},
    {"max-state-bytes", "BYTES", "memory of the lock table; beyond it is answered busy", "2G",
     AT(max_state_bytes), 4096, UINT64_C(1) << 40, KIND_BYTES, false},
    {"max-requests", "N", "open requests of one connection; an acquire beyond it is answered busy",
     TEXT_OF(LQ_REQUESTS_DEFAULT), AT(max_requests), 1, COUNT_MAX, KIND_NUMBER, false},
    {"max-unread-bytes", "BYTES",
     "answers that a client has not read yet before nothing more is read from it", "64M",
     AT(max_unread_bytes), 4096, UINT64_C(1) << 40, KIND_BYTES, false},
    {"max-unread-total-bytes", "BYTES",
     "the same for all clients together; those with unread answers are not read from then", "1G",
     AT(max_unread_total_bytes), 4096, UINT64_C(1) << 40, KIND_BYTES, false},
    {"unread-timeout", "S", "a client that reads nothing for so long is disconnected",
     TEXT_OF(LQ_UNREAD_TIMEOUT_S_DEFAULT), AT(unread_timeout_s), 1, SECONDS_MAX, KIND_NUMBER,
     false},
    {"max-connections", "N", "clients at once; more are left waiting (0: by file descriptor limit)",
     "0", AT(max_connections), 0, COUNT_MAX, KIND_NUMBER, false},
    {"log-level", "LEVEL", "debug, info, warn or error", "info", AT(log_level), 0, 0, KIND_LEVEL,
     false},
    {"turn-stats", NULL, "measure the CPU time of loop turns; logged on SIGUSR1 and at the end",
     "false", AT(turn_stats), 0, 0, KIND_SWITCH, false},
    {"check-config", NULL, "check all options, then exit", "false", AT(check_config), 0, 0,
     KIND_SWITCH, true},
    {"help", NULL, "print this", "false", AT(help), 0, 0, KIND_SWITCH, true},
    {"version", NULL, "print the version", "false", AT(version), 0, 0, KIND_SWITCH, true},
};

/* What getopt_long returns for the first option; above all characters. */
#define FLAG_BASE 256

#define N_OPTIONS (sizeof options / sizeof *options)

bool lq_config_fail(struct lq_config_error *ret_error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(ret_error->text, sizeof ret_error->text, format, arguments);
    va_end(arguments);
    return false;
}

/* Whether `key`, as a file has it, is the option `name`. */
static bool is_key_of(const char *key, const char *name)
{
    for (; *key != '\0' && *name != '\0'; key++, name++) {
        if (*key != (*name == '-' ? '_' : *name)) {
            return false;
        }
    }
    return *key == *name;
}

const struct lq_option *lq_config_find(const char *key)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (!options[i].is_flag_only && is_key_of(key, options[i].name)) {
            return &options[i];
        }
    }
    return NULL;
}

/* ---- Values. */

/* Reads a decimal number with, for bytes, one suffix. False when it is none or does not fit. */
static bool parse_number(const char *value, bool takes_suffix, uint64_t *ret_number)
{
    static const char suffixes[] = "KMG";
    const char *suffix;
    unsigned shift = 0;
    char *end;
    errno = 0;
    *ret_number = strtoull(value, &end, 10);
    if (errno != 0 || end == value || !isdigit((unsigned char)value[0])) {
        return false;
    }
    suffix = *end == '\0' ? NULL : strchr(suffixes, *end);
    if (suffix != NULL && takes_suffix) {
        shift = 10 * (unsigned)(suffix - suffixes + 1);
        end++;
    }
    if (*end != '\0' || *ret_number > UINT64_MAX >> shift) {
        return false;
    }
    *ret_number <<= shift;
    return true;
}

static bool set_number(uint64_t *field, const struct lq_option *option, const char *value,
                       const char *where, struct lq_config_error *ret_error)
{
    bool is_bytes = option->kind == KIND_BYTES;
    uint64_t number;
    if (!parse_number(value, is_bytes, &number) || number < option->min || number > option->max) {
        return lq_config_fail(
            ret_error,
            "%s: '%s' is not a number from %" PRIu64 " to %" PRIu64 "%s (%s; default %s)", where,
            value, option->min, option->max, is_bytes ? ", perhaps with K, M or G" : "",
            option->help, option->initial);
    }
    *field = number;
    return true;
}

static bool set_switch(bool *field, const char *value, const char *where,
                       struct lq_config_error *ret_error)
{
    if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0) {
        return lq_config_fail(ret_error, "%s: '%s' is neither true nor false", where, value);
    }
    *field = value[0] == 't';
    return true;
}

static bool set_text(char field[LQ_CONFIG_TEXT], const struct lq_option *option, const char *value,
                     const char *where, struct lq_config_error *ret_error)
{
    struct lq_address address;
    size_t len = strlen(value);
    if (option->kind == KIND_ADDRESS && !lq_address_parse(value, &address)) {
        return lq_config_fail(ret_error,
                              "%s: '%s' is not HOST:PORT, such as 127.0.0.1:7311 or [::1]:7311",
                              where, value);
    }
    if (option->kind == KIND_LEVEL && lq_log_level_of(value) < 0) {
        return lq_config_fail(ret_error, "%s: '%s' is not one of debug, info, warn, error", where,
                              value);
    }
    if (len >= LQ_CONFIG_TEXT) {
        return lq_config_fail(ret_error, "%s: longer than %d bytes", where, LQ_CONFIG_TEXT - 1);
    }
    memcpy(field, value, len + 1);
    return true;
}

bool lq_config_set(struct lq_config *config, const struct lq_option *option, const char *value,
                   const char *where, struct lq_config_error *ret_error)
{
    void *field = (char *)config + option->offset;
    switch (option->kind) {
    case KIND_ADDRESS:
    case KIND_TEXT:
    case KIND_LEVEL:
        return set_text(field, option, value, where, ret_error);
    case KIND_NUMBER:
    case KIND_BYTES:
        return set_number(field, option, value, where, ret_error);
    case KIND_SWITCH:
        return set_switch(field, value, where, ret_error);
    }
    return false;
}

/* ---- Sources. */

static void set_defaults(struct lq_config *config)
{
    struct lq_config_error error;
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        LQ_CHECK(lq_config_set(config, &options[i], options[i].initial, "default", &error));
    }
}

/* The variable of an option: LOQUETD_ and its name in capitals, `-` as `_`. */
static void variable_name(const struct lq_option *option, char ret_name[LQ_CONFIG_TEXT])
{
    size_t at = (size_t)snprintf(ret_name, LQ_CONFIG_TEXT, "LOQUETD_%s", option->name);
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
    char name[LQ_CONFIG_TEXT];
    for (; environment != NULL && *environment != NULL; environment++) {
        size_t len = strcspn(*environment, "=");
        bool is_known = strncmp(*environment, prefix, sizeof prefix - 1) != 0;
        for (size_t i = 0; i < N_OPTIONS && !is_known; i++) {
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
    char name[LQ_CONFIG_TEXT];
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const char *value;
        if (options[i].is_flag_only) {
            continue;
        }
        variable_name(&options[i], name);
        value = find_variable(environment, name);
        if (value != NULL && !lq_config_set(config, &options[i], value, name, ret_error)) {
            return false;
        }
    }
    return true;
}

static void long_options(struct option ret_options[N_OPTIONS + 1])
{
    memset(ret_options, 0, (N_OPTIONS + 1) * sizeof *ret_options);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        ret_options[i].name = options[i].name;
        ret_options[i].has_arg = options[i].kind == KIND_SWITCH ? no_argument : required_argument;
        ret_options[i].val =
            FLAG_BASE + (int)i; /* each its own, else an ambiguous abbreviation is not seen */
    }
}

static bool read_flags(struct lq_config *config, int argc, char *const argv[],
                       struct lq_config_error *ret_error)
{
    struct option flags[N_OPTIONS + 1];
    char where[LQ_CONFIG_TEXT];
    int found;
    long_options(flags);
    optind = 0; /* from the start, however often this is called */
    opterr = 0;
    while ((found = getopt_long(argc, argv, ":", flags, NULL)) >= FLAG_BASE) {
        const struct lq_option *option = &options[found - FLAG_BASE];
        const char *value = optarg == NULL ? "true" : optarg;
        (void)snprintf(where, sizeof where, "--%s", option->name);
        if (!lq_config_set(config, option, value, where, ret_error)) {
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
           read_flags(ret_config, argc, argv, ret_error);
}

void lq_config_print_help(void)
{
    (void)printf("loquetd, the Loquet lock server\n\n"
                 "usage: loquetd [options]\n\n"
                 "Without options: a lock server in memory, one process, on 127.0.0.1:7311.\n\n");
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct lq_option *option = &options[i];
        (void)printf("  --%s%s%s\n        %s", option->name, option->argument == NULL ? "" : " ",
                     option->argument == NULL ? "" : option->argument, option->help);
        if (option->kind != KIND_SWITCH && option->initial[0] != '\0') {
            (void)printf(" (default %s)", option->initial);
        }
        (void)printf("\n");
    }
    (void)printf(
        "\nEach option is also a key in the file (libconfig syntax: sweep_ms = 5000;) and a\n"
        "variable (LOQUETD_SWEEP_MS=5000). Flags win over variables, variables over the file.\n"
        "Signals: TERM, INT, HUP: stop; USR1: log statistics.\n"
        "Exit status: 0 stopped by a signal; 64 wrong options; 1 anything else.\n");
}
