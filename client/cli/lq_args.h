/* Reads arguments by the tables of commands and options. */
#ifndef LQ_ARGS_H
#define LQ_ARGS_H

#include "lq_cli.h"

/* An option, as the parser and the help read it. */
struct lq_cli_option {
    const char *name;  /* without dashes */
    const char *value; /* what it takes, for the help; NULL: nothing */
    const char *help;
    unsigned set; /* enum lq_cli_option_set */
    /* Takes the value (NULL for a flag). Returns NULL, or what is wrong with it. */
    const char *(*take)(struct lq_cli *cli, const char *value);
};

/* All options; ends with one without name. */
extern const struct lq_cli_option lq_cli_options[];

/* The option of that name, without dashes; NULL: there is none. */
const struct lq_cli_option *lq_args_find(const char *name);

/* Reads `argv`. Returns false after saying on standard error what is wrong and how to mend it.
 * Options may stand before the command and between its arguments, up to "--"; those of `run` up to
 * the command that it runs. With `help` set the rest was not checked, and the command may be NULL.
 */
bool lq_args_parse(struct lq_cli *ret_cli, int argc, char **argv);

/* Reads a token: a decimal number of 64 bits. */
bool lq_args_token(const char *text, uint64_t *ret_token);

#endif
