#include "lq_call.h"
#include "lq_out.h"

static enum lq_exit print(const struct lq_cli *cli, const struct loquet_ticket *ticket)
{
    if (cli->json) {
        json_t *object = lq_out_object(cli, "released");
        lq_out_set_text(object, "key", ticket->key);
        lq_out_set_token(object, ticket->token);
        return lq_out_print(stdout, object) ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
    }
    (void)printf("released %s\n", ticket->key);
    return fflush(stdout) == 0 ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
}

enum lq_exit lq_cmd_release(const struct lq_cli *cli)
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
    result = loquet_release(client, &ticket);
    code = result == LOQUET_RELEASED ? print(cli, &ticket) : lq_call_explain(cli, client, result);
    loquet_free(client);
    return code;
}
