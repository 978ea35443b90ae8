#include "lq_where.h"

#include "lq_out.h"

#include <stdlib.h>

#define DEFAULT_ENDPOINTS "127.0.0.1:7311"

const char *lq_where_endpoints(const struct lq_cli *cli)
{
    const char *text = cli->endpoints != NULL ? cli->endpoints : getenv("LOQUET_ENDPOINTS");
    return text == NULL || *text == '\0' ? DEFAULT_ENDPOINTS : text;
}

enum lq_exit lq_where_fail(const struct lq_cli *cli, enum loquet_result result, const char *why)
{
    const char *origin = cli->endpoints != NULL ? "--endpoints" : "LOQUET_ENDPOINTS";
    if (result == LOQUET_INVALID) {
        return lq_out_fail(cli, "invalid", LQ_EXIT_USAGE, "%s: %s", origin, why);
    }
    return lq_out_fail(cli, "closed", LQ_EXIT_UNAVAILABLE,
                       "%s. Check the name in %s, or give an address", why, origin);
}
