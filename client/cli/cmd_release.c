#include "lq_call.h"
#include "lq_out.h"

static enum lq_exit print(const struct lq_cli *cli, const struct lq_held *held)
{
    if (cli->json) {
        json_t *object = lq_out_object(cli, "released");
        lq_out_set_text(object, "key", held->key);
        lq_out_set_token(object, held->token);
        return lq_out_print(stdout, object) ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
    }
    (void)printf("released %s\n", held->key);
    return fflush(stdout) == 0 ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
}

enum lq_exit lq_cmd_release(const struct lq_cli *cli)
{
    struct lq_held held;
    struct lq_call_answer answer;
    enum lq_exit code;

    if (!lq_call_held(cli, &held)) {
        return LQ_EXIT_USAGE;
    }
    code = lq_call(cli, LQ_GOAL_RELEASE, &held, &answer);
    return code == LQ_EXIT_OK ? print(cli, &held) : code;
}
