#include "lq_out.h"
#include "lq_wait.h"

#include <signal.h>
#include <unistd.h>

static bool print(const struct lq_cli *cli, const struct loquet_ticket *ticket)
{
    char end[64];

    if (cli->json) {
        json_t *object = lq_out_object(cli, "acquired");
        lq_out_set_text(object, "key", ticket->key);
        lq_out_set_token(object, ticket->token);
        lq_out_set_number(object, "lease_s", ticket->lease_s);
        lq_out_set_end(object, ticket->ends_ms);
        return lq_out_print(stdout, object);
    }
    lq_out_end_text(ticket->ends_ms, end, sizeof end);
    (void)printf("acquired %s\ntoken %llu\nlease %u s, ends %s\n", ticket->key,
                 (unsigned long long)ticket->token, ticket->lease_s, end);
    return fflush(stdout) == 0;
}

/* Nobody will ever know the token: the lock would only be in the way. */
static enum lq_exit give_back(const struct lq_cli *cli, struct lq_driver *driver,
                              const struct loquet_ticket *ticket)
{
    (void)lq_wait_release(driver, ticket, LQ_UNDO_MS);
    return lq_out_fail(cli, "output", LQ_EXIT_OUTPUT,
                       "the token could not be written, so '%s' was released again", ticket->key);
}

enum lq_exit lq_cmd_acquire(const struct lq_cli *cli)
{
    static struct lq_driver driver;
    struct lq_signals signals;
    struct loquet_ticket ticket;
    uint64_t sent_ms;
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
    code = lq_wait_acquire(cli, &driver, &signals, &ticket, &sent_ms);
    if (code == LQ_EXIT_OK && !print(cli, &ticket)) {
        code = give_back(cli, &driver, &ticket);
    }
    lq_driver_close(&driver);
    (void)close(signals.fd);
    return code;
}
