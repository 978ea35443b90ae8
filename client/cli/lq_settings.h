/* What the configuration files say, for options that were not given. */
#ifndef LQ_SETTINGS_H
#define LQ_SETTINGS_H

#include "lq_cli.h"

/* Fills in what neither an option nor a variable said: from the file of --config, else of
 * LOQUET_CONFIG, else from the user's file and then the system's. Returns LQ_EXIT_USAGE after
 * saying what is wrong in a file, also when nothing of it is needed. Once per process: the texts
 * stay valid for as long as it lives. */
enum lq_exit lq_settings_fill(struct lq_cli *cli);

#endif
