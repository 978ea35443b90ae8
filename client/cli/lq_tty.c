#include "lq_tty.h"

#include "lq_check.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

void lq_tty_init(struct lq_tty *tty)
{
    tty->fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    tty->lent = false;
}

bool lq_tty_is_ours(const struct lq_tty *tty)
{
    return tty->fd >= 0 && tcgetpgrp(tty->fd) == getpgrp();
}

bool lq_tty_is_wanted(const struct lq_tty *tty)
{
    return lq_tty_is_ours(tty) && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

/* A process of a background group may do this only while TTOU is blocked. */
static void set_foreground(const struct lq_tty *tty, pid_t group)
{
    sigset_t ttou, before;

    LQ_CHECK(sigemptyset(&ttou) == 0 && sigaddset(&ttou, SIGTTOU) == 0);
    LQ_CHECK(sigprocmask(SIG_BLOCK, &ttou, &before) == 0);
    (void)tcsetpgrp(tty->fd, group);
    LQ_CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
}

void lq_tty_lend(struct lq_tty *tty, pid_t group)
{
    if (lq_tty_is_ours(tty)) {
        set_foreground(tty, group);
        tty->lent = true;
    }
}

void lq_tty_take_back(struct lq_tty *tty)
{
    if (tty->lent) {
        set_foreground(tty, getpgrp());
        tty->lent = false;
    }
}
