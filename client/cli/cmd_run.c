#include "lq_front.h"
#include "lq_out.h"
#include "lq_wait.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- What is said at the end. */

/* One word for how the run ended. */
static const char *result_word(const struct lq_run_report *report)
{
    if (report->lost) {
        return "lost";
    }
    switch (report->end) {
    case LQ_RUN_EXITED:
        return "exited";
    case LQ_RUN_KILLED:
        return "killed";
    case LQ_RUN_NOT_FOUND:
        return "not_found";
    case LQ_RUN_NO_EXEC:
        return "not_executable";
    case LQ_RUN_NO_PROCESS:
        return "system";
    case LQ_RUN_INTERRUPTED:
        return "interrupted";
    case LQ_RUN_NOT_STARTED:
        return "lost";
    }
    return "system";
}

/* Writes what a person should know about the command and the lock; nothing when all went well. */
static void describe_end(const struct lq_run *run, const struct lq_run_report *report,
                         char *ret_text, size_t cap)
{
    const char *key = run->held.key, *command = run->argv[0];

    ret_text[0] = '\0';
    if (report->lost) {
        const char *then = report->end == LQ_RUN_NOT_STARTED ? "The command was not started"
                           : report->killed                  ? "The command was ended"
                           : report->spared                  ? "The command went on without it"
                                            : "The command had ended by then, or did by itself";
        (void)snprintf(ret_text, cap, "the lock '%s' was lost: %s. %s", key, report->why, then);
        return;
    }
    switch (report->end) {
    case LQ_RUN_NOT_FOUND:
        (void)snprintf(ret_text, cap, "'%s' was not found: check its name and PATH", command);
        break;
    case LQ_RUN_NO_EXEC:
        (void)snprintf(ret_text, cap, "'%s' cannot be executed: %s", command,
                       strerrordesc_np(report->number));
        break;
    case LQ_RUN_NO_PROCESS:
        (void)snprintf(ret_text, cap, "'%s' was not started, no process can be had: %s", command,
                       strerrordesc_np(report->number));
        break;
    case LQ_RUN_INTERRUPTED:
        (void)snprintf(ret_text, cap, "'%s' was not started: signal %s", command,
                       lq_signals_name(report->number));
        break;
    case LQ_RUN_EXITED:
    case LQ_RUN_KILLED:
    case LQ_RUN_NOT_STARTED:
        break;
    }
}

/* Writes what became of the release; nothing when it was confirmed, or had no sense any more. */
static void describe_release(const struct lq_run *run, const struct lq_run_report *report,
                             char *ret_text, size_t cap)
{
    ret_text[0] = '\0';
    if (report->release != LOQUET_RELEASED && report->release != LOQUET_NOT_HELD && !report->lost) {
        (void)snprintf(
            ret_text, cap,
            "the release of '%s' is not confirmed: %s. The lock is free again in %" PRIu32
            " s at the latest",
            run->held.key, report->why, run->held.lease_s);
    }
}

static void print_json(const struct lq_run *run, const struct lq_run_report *report,
                       const char *end, const char *release)
{
    json_t *object = lq_out_object(run->cli, result_word(report));

    lq_out_set_text(object, "key", run->held.key);
    lq_out_set_token(object, run->held.token);
    if (report->end == LQ_RUN_EXITED) {
        lq_out_set_number(object, "status", (uint64_t)report->number);
    } else if (report->end == LQ_RUN_KILLED || report->end == LQ_RUN_INTERRUPTED) {
        lq_out_set_text(object, "signal", lq_signals_name(report->number));
    }
    lq_out_set_text(object, "release", loquet_result_text(report->release));
    if (end[0] != '\0' || release[0] != '\0') {
        lq_out_set_text(object, "message", end[0] != '\0' ? end : release);
    }
    lq_out_set_number(object, "exit", (uint64_t)lq_run_exit_code(report));
    (void)lq_out_print(stderr, object);
}

static enum lq_exit say(const struct lq_run *run, const struct lq_run_report *report)
{
    char end[1600], release[1600];

    describe_end(run, report, end, sizeof end);
    describe_release(run, report, release, sizeof release);
    if (run->cli->json) {
        print_json(run, report, end, release);
    } else {
        if (end[0] != '\0' && !report->spared) {
            (void)fprintf(stderr, "loquet: %s\n", end);
        }
        if (release[0] != '\0') {
            (void)fprintf(stderr, "loquet: %s\n", release);
        }
    }
    return lq_run_exit_code(report);
}

/* ---- The run. */

static bool export_lock(const struct lq_held *held)
{
    char token[24];
    (void)snprintf(token, sizeof token, "%" PRIu64, held->token);
    return setenv("LOQUET_KEY", held->key, 1) == 0 && setenv("LOQUET_TOKEN", token, 1) == 0;
}

enum lq_exit lq_cmd_run(const struct lq_cli *cli)
{
    static struct lq_driver driver;
    struct lq_signals signals;
    struct lq_run run = {.cli = cli, .driver = &driver, .signals = &signals};
    struct lq_run_report report;
    enum lq_exit code;

    lq_driver_init(&driver);
    code = lq_wait_set_endpoints(cli, &driver);
    if (code != LQ_EXIT_OK) {
        return code;
    }
    if (!lq_signals_init(&signals)) {
        return lq_out_fail(cli, "system", LQ_EXIT_SYSTEM, "no file descriptor left");
    }
    code = lq_wait_acquire(cli, &driver, &signals, &run.held);
    if (code != LQ_EXIT_OK) {
        return code;
    }
    run.argv = cli->arguments + 1;
    if (!export_lock(&run.held) || !lq_front_run(&run, &report)) {
        int error = errno;
        (void)lq_wait_release(&driver, &run.held, LQ_UNDO_MS);
        return lq_out_fail(cli, "system", LQ_EXIT_SYSTEM, "'%s' was not started: %s", run.argv[0],
                           strerrordesc_np(error));
    }
    return say(&run, &report);
}
