/* Which servers to talk to: option, environment, default. */
#ifndef LQ_WHERE_H
#define LQ_WHERE_H

#include "lq_cli.h"

/* The list as text: --endpoints, else LOQUET_ENDPOINTS, else 127.0.0.1:7311. */
const char *lq_where_endpoints(const struct lq_cli *cli);

/* Says why setting that list failed; `why` is the library's reason. Returns the code for it. */
enum lq_exit lq_where_fail(const struct lq_cli *cli, enum loquet_result result, const char *why);

#endif
