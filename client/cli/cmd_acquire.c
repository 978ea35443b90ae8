#include "lq_out.h"
#include "lq_wait.h"

#include <signal.h>
#include <unistd.h>

static bool print(const struct lq_cli *cli, const struct lq_held *held)
{
    char end[64];

    if (cli->json) {
        json_t *object = lq_out_object(cli, "acquired");
        lq_out_set_text(object, "key", held->key);
        lq_out_set_token(object, held->token);
        lq_out_set_number(object, "lease_s", held->lease_s);
        lq_out_set_end(object, held->ends_ms);
        return lq_out_print(stdout, object);
    }
    lq_out_end_text(held->ends_ms, end, sizeof end);
    (void)printf("acquired %s\ntoken %llu\nlease %u s, ends %s\n", held->key,
                 (unsigned long long)held->token, held->lease_s, end);
    return fflush(stdout) == 0;
}

/* Nobody will ever know the token: the lock would only be in the way. */
static enum lq_exit give_back(const struct lq_cli *cli, struct lq_driver *driver,
                              const struct lq_held *held)
{
    (void)lq_wait_release(driver, held, LQ_UNDO_MS);
    return lq_out_fail(cli, "output", LQ_EXIT_OUTPUT,
                       "the token could not be written, so '%s' was released again", held->key);
}

enum lq_exit lq_cmd_acquire(const struct lq_cli *cli)
{
    static struct lq_driver driver;
    struct lq_signals signals;
    struct lq_held held;
    enum lq_exit code;

    lq_driver_init(&driver);
    code = lq_wait_set_endpoints(cli, &driver);
    if (code != LQ_EXIT_OK) {
        return code;
    }
    (void)signal(SIGPIPE, SIG_IGN); /* a reader that left is noticed when writing */
    if (!lq_signals_init(&signals)) {
        return lq_out_fail(cli, "system", LQ_EXIT_SYSTEM, "no file descriptor left");
    }
    code = lq_wait_acquire(cli, &driver, &signals, &held);
    if (code == LQ_EXIT_OK && !print(cli, &held)) {
        code = give_back(cli, &driver, &held);
    }
    lq_driver_done(&driver);
    (void)close(signals.fd);
    return code;
}
