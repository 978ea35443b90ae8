/* Which servers to talk to: option, environment, configuration file (lq_settings.h), default. */
#ifndef LQ_WHERE_H
#define LQ_WHERE_H

#include "lq_cli.h"
#include "lq_endpoints.h"

/* The list as text: --endpoints, else LOQUET_ENDPOINTS, else of a file, else 127.0.0.1:7311. */
const char *lq_where_endpoints(const struct lq_cli *cli);

/* Reads the admin addresses: --admin, else LOQUET_ADMIN, else of a file, else 127.0.0.1:7313.
 * Without :PORT the port is 7313. False after saying what is wrong; exit with LQ_EXIT_USAGE then.
 */
bool lq_where_admins(const struct lq_cli *cli, struct lq_endpoints *ret_admins);

/* Says why setting that list failed; `why` is the library's reason. Returns the code for it. */
enum lq_exit lq_where_fail(const struct lq_cli *cli, enum loquet_result result, const char *why);

#endif
