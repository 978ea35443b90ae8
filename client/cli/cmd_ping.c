#include "lq_call.h"
#include "lq_out.h"

static enum lq_exit print(const struct lq_cli *cli, const char *endpoint, uint64_t round_trip_us)
{
    if (cli->json) {
        json_t *object = lq_out_object(cli, "alive");
        lq_out_set_text(object, "endpoint", endpoint);
        lq_out_set_number(object, "round_trip_us", round_trip_us);
        return lq_out_print(stdout, object) ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
    }
    (void)printf("%s answered in %.3f ms\n", endpoint, (double)round_trip_us / 1000);
    return fflush(stdout) == 0 ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
}

enum lq_exit lq_cmd_ping(const struct lq_cli *cli)
{
    struct lq_call_answer answer;
    enum lq_exit code = lq_call(cli, LQ_GOAL_PING, NULL, &answer);

    return code == LQ_EXIT_OK ? print(cli, answer.why.endpoint, answer.round_trip_us) : code;
}
