#include "lq_signals.h"

#include "lq_check.h"

#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static bool is_ignored(int number)
{
    struct sigaction action;
    LQ_CHECK(sigaction(number, NULL, &action) == 0);
    return action.sa_handler == SIG_IGN;
}

static void add(struct lq_signals *signals, const int *numbers)
{
    for (; *numbers != 0; numbers++) {
        if (!is_ignored(*numbers)) {
            LQ_CHECK(sigaddset(&signals->ours, *numbers) == 0);
        }
    }
    LQ_CHECK(sigprocmask(SIG_BLOCK, &signals->ours, NULL) == 0);
}

bool lq_signals_init(struct lq_signals *signals)
{
    static const int ending[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, 0};

    LQ_CHECK(sigprocmask(SIG_BLOCK, NULL, &signals->before) == 0);
    LQ_CHECK(sigemptyset(&signals->ours) == 0);
    signals->chld_ignored = is_ignored(SIGCHLD);
    LQ_CHECK(signal(SIGCHLD, SIG_DFL) != SIG_ERR); /* else there would be no status to wait for */
    add(signals, ending);
    signals->fd = signalfd(-1, &signals->ours, SFD_NONBLOCK | SFD_CLOEXEC);
    return signals->fd >= 0;
}

void lq_signals_add_job_control(struct lq_signals *signals)
{
    static const int job_control[] = {SIGTSTP, SIGCONT, 0};
    add(signals, job_control);
    LQ_CHECK(signalfd(signals->fd, &signals->ours, 0) == signals->fd);
}

int lq_signals_read(const struct lq_signals *signals)
{
    struct signalfd_siginfo info;
    ssize_t n = read(signals->fd, &info, sizeof info);
    return n == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

void lq_signals_restore(const struct lq_signals *signals)
{
    if (signals->chld_ignored) {
        (void)signal(SIGCHLD, SIG_IGN);
    }
    (void)sigprocmask(SIG_SETMASK, &signals->before, NULL);
}

const char *lq_signals_name(int number)
{
    const char *name = sigabbrev_np(number);
    return name == NULL ? "?" : name;
}
