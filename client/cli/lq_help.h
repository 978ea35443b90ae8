/* Help texts, made from the tables of commands, options and exit codes. */
#ifndef LQ_HELP_H
#define LQ_HELP_H

#include "lq_cli.h"

/* Prints the help of one command, or of loquet when `command` is NULL. */
enum lq_exit lq_help_print(const struct lq_cli_command *command);

#endif
