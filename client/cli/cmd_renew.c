#include "lq_call.h"
#include "lq_out.h"

static enum lq_exit print(const struct lq_cli *cli, const struct lq_held *held)
{
    char end[64];

    if (cli->json) {
        json_t *object = lq_out_object(cli, "renewed");
        lq_out_set_text(object, "key", held->key);
        lq_out_set_token(object, held->token);
        lq_out_set_number(object, "lease_s", held->lease_s);
        lq_out_set_end(object, held->ends_ms);
        return lq_out_print(stdout, object) ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
    }
    lq_out_end_text(held->ends_ms, end, sizeof end);
    (void)printf("renewed %s\nlease %u s, ends %s\n", held->key, held->lease_s, end);
    return fflush(stdout) == 0 ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
}

enum lq_exit lq_cmd_renew(const struct lq_cli *cli)
{
    struct lq_held held;
    struct lq_call_answer answer;
    enum lq_exit code;

    if (!lq_call_held(cli, &held)) {
        return LQ_EXIT_USAGE;
    }
    code = lq_call(cli, LQ_GOAL_RENEW, &held, &answer);
    if (code != LQ_EXIT_OK) {
        return code;
    }
    held.ends_ms = answer.outcome.ends_ms;
    return print(cli, &held);
}
