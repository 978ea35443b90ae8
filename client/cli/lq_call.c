#include "lq_call.h"

#include "lq_args.h"
#include "lq_out.h"
#include "lq_time.h"
#include "lq_wait.h"

#include <string.h>

bool lq_call_held(const struct lq_cli *cli, struct lq_held *ret_held)
{
    const char *key = cli->arguments[0], *text = cli->arguments[1];
    uint64_t token;

    if (!lq_args_token(text, &token)) {
        (void)lq_out_fail(cli, "invalid", LQ_EXIT_USAGE,
                          "'%.100s' is no token: it is the decimal number that acquire printed",
                          text);
        return false;
    }
    *ret_held =
        (struct lq_held){.token = token, .lease_s = cli->lease_s, .key_len = (uint32_t)strlen(key)};
    memcpy(ret_held->key, key, ret_held->key_len);
    return true;
}

/* Says why the request was not done. */
static enum lq_exit explain(const struct lq_cli *cli, enum loquet_result result, const char *why)
{
    const char *name = cli->command->name;

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

/* Runs the request, and for a ping once more: the first one connects, the second one is measured.
 */
static bool run(struct lq_driver *driver, enum lq_goal goal, const struct lq_held *held,
                struct lq_call_answer *ret_answer)
{
    int n = goal == LQ_GOAL_PING ? 2 : 1;
    struct lq_order order = lq_wait_order(goal, held, lq_time_now_ms() + LQ_TRANSPORT_MS);
    uint64_t began_us = 0;

    ret_answer->outcome.result = LOQUET_ALIVE;
    for (int i = 0; i < n && lq_exit_of(ret_answer->outcome.result) == LQ_EXIT_OK; i++) {
        began_us = lq_time_now_us();
        if (!lq_wait_run(driver, &order, &ret_answer->outcome)) {
            return false;
        }
    }
    ret_answer->round_trip_us = lq_time_now_us() - began_us;
    lq_cluster_explain(&driver->cluster, &ret_answer->outcome, &ret_answer->why);
    return true;
}

enum lq_exit lq_call(const struct lq_cli *cli, enum lq_goal goal, const struct lq_held *held,
                     struct lq_call_answer *ret_answer)
{
    static struct lq_driver driver;
    enum lq_exit code;

    lq_driver_init(&driver);
    code = lq_wait_set_endpoints(cli, &driver);
    if (code != LQ_EXIT_OK) {
        return code;
    }
    if (!run(&driver, goal, held, ret_answer)) {
        code = lq_out_fail(cli, "system", LQ_EXIT_SYSTEM, "no file descriptor left");
    } else if (lq_exit_of(ret_answer->outcome.result) != LQ_EXIT_OK) {
        code = explain(cli, ret_answer->outcome.result, ret_answer->why.text);
    }
    lq_driver_done(&driver);
    return code;
}
