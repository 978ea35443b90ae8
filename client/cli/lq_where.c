#include "lq_where.h"

#include "lq_out.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_ENDPOINTS "127.0.0.1:7311"
#define DEFAULT_ADMIN     "127.0.0.1:7313"

#define ERROR_MAX 256

const char *lq_where_endpoints(const struct lq_cli *cli)
{
    const char *text = cli->endpoints != NULL ? cli->endpoints : getenv("LOQUET_ENDPOINTS");
    return text == NULL || *text == '\0' ? DEFAULT_ENDPOINTS : text;
}

/* It becomes part of a URL, in which these would mean something. */
static bool is_plain(const char *host)
{
    return host[strcspn(host, "/?#@%\\\"<>")] == '\0';
}

bool lq_where_admins(const struct lq_cli *cli, struct lq_endpoints *ret_admins)
{
    const char *origin = cli->admin != NULL ? cli->admin_origin : "LOQUET_ADMIN";
    const char *text = cli->admin != NULL ? cli->admin : getenv("LOQUET_ADMIN");
    char why[ERROR_MAX];
    text = text == NULL || *text == '\0' ? DEFAULT_ADMIN : text;
    if (!lq_endpoints_parse(ret_admins, text, LQ_CLI_ADMIN_PORT, why, sizeof why)) {
        (void)lq_out_fail(cli, "invalid", LQ_EXIT_USAGE, "%s: %s", origin, why);
        return false;
    }
    for (size_t i = 0; i < ret_admins->n; i++) {
        if (!is_plain(ret_admins->items[i].host)) {
            (void)lq_out_fail(cli, "invalid", LQ_EXIT_USAGE, "%s: '%.80s' is no name of a host",
                              origin, ret_admins->items[i].host);
            return false;
        }
    }
    return true;
}

enum lq_exit lq_where_fail(const struct lq_cli *cli, enum loquet_result result, const char *why)
{
    const char *origin = cli->endpoints != NULL ? cli->endpoints_origin : "LOQUET_ENDPOINTS";
    if (result == LOQUET_INVALID) {
        return lq_out_fail(cli, "invalid", LQ_EXIT_USAGE, "%s: %s", origin, why);
    }
    return lq_out_fail(cli, "closed", LQ_EXIT_UNAVAILABLE,
                       "%s. Check the name in %s, or give an address", why, origin);
}
