/* The table of options and how a value is put into struct lq_config. For lq_config*.c alone. */
#ifndef LQ_OPTION_H
#define LQ_OPTION_H

#include "lq_config.h"

#include <stddef.h>

enum lq_option_kind {
    LQ_OPTION_ADDRESS, /* HOST:PORT, or empty */
    LQ_OPTION_TEXT,
    LQ_OPTION_LIST,   /* a long text */
    LQ_OPTION_LEVEL,  /* of the log */
    LQ_OPTION_ID,     /* 16 hexadecimal digits, or empty */
    LQ_OPTION_NUMBER, /* decimal */
    LQ_OPTION_BYTES,  /* decimal, perhaps with K, M or G */
    LQ_OPTION_SWITCH, /* a flag without value; true or false elsewhere */
};

/* What an option is for; --help prints them apart. */
enum lq_option_group {
    LQ_GROUP_BOTH,    /* modes */
    LQ_GROUP_SIMPLE,  /* mode only */
    LQ_GROUP_CLUSTER, /* mode only: refused without --node-id */
    LQ_GROUP_OFFLINE, /* does something else than serving */
};

struct lq_option {
    const char *name;
    const char *argument; /* how --help calls the value; NULL for a switch */
    const char *help;
    const char *initial; /* the default, as it would be written */
    size_t offset;       /* in struct lq_config */
    uint64_t min, max;   /* of numbers */
    enum lq_option_kind kind;
    enum lq_option_group group;
    bool is_flag_only; /* makes no sense in a file or in the environment */
};

/* All options; `ret_n` is their number. */
const struct lq_option *lq_options(size_t *ret_n);

/* The option with that key in a file; NULL when there is none. */
const struct lq_option *lq_option_find(const char *key);

/* Sets an option that was found at `where` ("--sweep-ms", "FILE:3: sweep_ms"). */
bool lq_option_set(struct lq_config *config, const struct lq_option *option, const char *value,
                   const char *where, struct lq_config_error *ret_error);

/* Reads a file into `config`. */
bool lq_config_read_file(struct lq_config *config, const char *path,
                         struct lq_config_error *ret_error);

/* Checks what only makes sense together, and fills config->first_members. */
bool lq_config_check_cluster(struct lq_config *config, struct lq_config_error *ret_error);

/* Formats an error; always returns false. */
__attribute__((format(printf, 2, 3))) bool lq_config_fail(struct lq_config_error *ret_error,
                                                          const char *format, ...);

#endif
