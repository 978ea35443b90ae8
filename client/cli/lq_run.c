#include "lq_run.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

void lq_run_let_go(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        (void)dup2(fd, STDIN_FILENO);
        (void)dup2(fd, STDOUT_FILENO);
        (void)close(fd);
    }
}

void lq_run_rename(const struct lq_run *run)
{
    char *title = run->cli->title;
    size_t cap = run->cli->title_cap;

    (void)prctl(PR_SET_NAME, "lq-keeper");
    memset(title, 0, cap);
    (void)snprintf(title, cap, "lq-keeper %s", run->held.key);
}

void lq_run_warn(const struct lq_run *run, const struct lq_run_report *report)
{
    if (!run->cli->json) {
        (void)fprintf(stderr, "loquet: the lock '%s' was lost: %s. The command %s\n", run->held.key,
                      report->why,
                      run->cli->on_lost == LQ_CLI_SIGNAL ? "was sent TERM" : "goes on");
    }
}

enum lq_exit lq_run_exit_code(const struct lq_run_report *report)
{
    if (report->lost) {
        return LQ_EXIT_NOT_HELD;
    }
    switch (report->end) {
    case LQ_RUN_EXITED:
        return (enum lq_exit)report->number;
    case LQ_RUN_KILLED:
    case LQ_RUN_INTERRUPTED:
        return LQ_EXIT_SIGNAL + (enum lq_exit)report->number;
    case LQ_RUN_NOT_FOUND:
        return LQ_EXIT_NOT_FOUND;
    case LQ_RUN_NO_EXEC:
        return LQ_EXIT_NOT_EXECUTABLE;
    case LQ_RUN_NO_PROCESS:
        return LQ_EXIT_SYSTEM;
    case LQ_RUN_NOT_STARTED:
        return LQ_EXIT_NOT_HELD;
    }
    return LQ_EXIT_SYSTEM;
}
