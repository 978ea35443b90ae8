#include "lq_call.h"

#include "lq_args.h"
#include "lq_out.h"
#include "lq_where.h"

#include <string.h>

struct loquet_client *lq_call_open(const struct lq_cli *cli, enum lq_exit *ret_code)
{
    struct loquet_client *client = loquet_new();
    enum loquet_result result;

    if (client == NULL) {
        *ret_code = lq_out_fail(cli, "system", LQ_EXIT_SYSTEM, "no memory or descriptor left");
        return NULL;
    }
    result = loquet_set_endpoints(client, lq_where_endpoints(cli));
    if (result != LOQUET_ALIVE) {
        *ret_code = lq_where_fail(cli, result, loquet_error(client));
        loquet_free(client);
        return NULL;
    }
    return client;
}

bool lq_call_ticket(const struct lq_cli *cli, struct loquet_ticket *ret_ticket)
{
    const char *key = cli->arguments[0], *text = cli->arguments[1];
    uint64_t token;

    if (!lq_args_token(text, &token)) {
        (void)lq_out_fail(cli, "invalid", LQ_EXIT_USAGE,
                          "'%.100s' is no token: it is the decimal number that acquire printed",
                          text);
        return false;
    }
    return loquet_ticket_make(ret_ticket, key, strlen(key), token);
}

enum lq_exit lq_call_explain(const struct lq_cli *cli, const struct loquet_client *client,
                             enum loquet_result result)
{
    const char *name = cli->command->name, *why = loquet_error(client);

    if (result == LOQUET_NOT_HELD) {
        return lq_out_fail(cli, "not_held", LQ_EXIT_NOT_HELD,
                           "this token does not hold '%s': it was released, or its lease ended",
                           cli->arguments[0]);
    }
    if (result == LOQUET_INDETERMINATE) {
        return lq_out_fail(cli, "indeterminate", LQ_EXIT_UNKNOWN,
                           "it is unknown whether the %s took effect: %s. It can be repeated", name,
                           why);
    }
    if (result == LOQUET_INVALID) {
        return lq_out_fail(cli, "invalid", LQ_EXIT_UNAVAILABLE, "%s was refused: %s", name, why);
    }
    return lq_out_fail(cli, "closed", LQ_EXIT_UNAVAILABLE,
                       "%s was not done: %s. Does loquetd run there? --endpoints or "
                       "LOQUET_ENDPOINTS says where to look",
                       name, why);
}
