#include "lq_call.h"
#include "lq_out.h"

static enum lq_exit print(const struct lq_cli *cli, const struct loquet_ticket *ticket)
{
    char end[64];

    if (cli->json) {
        json_t *object = lq_out_object(cli, "renewed");
        lq_out_set_text(object, "key", ticket->key);
        lq_out_set_token(object, ticket->token);
        lq_out_set_number(object, "lease_s", ticket->lease_s);
        lq_out_set_end(object, ticket->ends_ms);
        return lq_out_print(stdout, object) ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
    }
    lq_out_end_text(ticket->ends_ms, end, sizeof end);
    (void)printf("renewed %s\nlease %u s, ends %s\n", ticket->key, ticket->lease_s, end);
    return fflush(stdout) == 0 ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
}

enum lq_exit lq_cmd_renew(const struct lq_cli *cli)
{
    struct loquet_ticket ticket;
    struct loquet_client *client;
    enum loquet_result result;
    enum lq_exit code;

    if (!lq_call_ticket(cli, &ticket)) {
        return LQ_EXIT_USAGE;
    }
    client = lq_call_open(cli, &code);
    if (client == NULL) {
        return code;
    }
    result = loquet_renew(client, &ticket, cli->lease_s);
    code = result == LOQUET_RENEWED ? print(cli, &ticket) : lq_call_explain(cli, client, result);
    loquet_free(client);
    return code;
}
