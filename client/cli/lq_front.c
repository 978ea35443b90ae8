/* The front of a run: passes signals on, lends the terminal, waits for the keeper's report.
 *
 * Terminal: the shell that started us knows our process group, not the command's. So when the
 * command is stopped (Ctrl-Z), we take the terminal back and stop ourselves the same way; when the
 * shell continues us, we lend the terminal again, if the shell gave it to us, and continue the
 * command. A command without the terminal that asks for it is stopped by the kernel with TTIN or
 * TTOU: we lend it and continue the command, or, if it is not ours to lend, stop as well.
 *
 * If the keeper is gone without a report, we end the group, and release the lock ourselves. */
#include "lq_front.h"

#include "lq_check.h"
#include "lq_keeper.h"
#include "lq_kin.h"
#include "lq_time.h"
#include "lq_tty.h"
#include "lq_wait.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long we wait for a killed group, and how often we look. */
#define GONE_LIMIT_MS 2000
#define GONE_POLL_MS  5

struct lq_front {
    struct lq_run *run;
    struct lq_tty tty;
    int link_fd;
    pid_t keeper;
    pid_t group;       /* 0: not started, as far as the keeper told */
    bool had_children; /* before the command: what is not in its group may be theirs, and is left */
    bool over;
    struct lq_run_report report;
};

static void pass_on(struct lq_front *front, int number)
{
    struct lq_run_message message = {.kind = LQ_RUN_SIGNAL, .number = number};
    (void)send(front->link_fd, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- Job control. */

/* Stops our process group, which is the shell's job. Returns when it was continued, or at once when
 * nobody is there who could continue it (an orphaned group): false. */
static bool stop_ourselves(struct lq_front *front, int number)
{
    bool continued = false;
    sigset_t set, before;
    int seen;

    LQ_CHECK(sigemptyset(&set) == 0 && sigaddset(&set, number) == 0);
    (void)kill(0, number);
    LQ_CHECK(sigprocmask(SIG_UNBLOCK, &set, &before) == 0); /* here we stop */
    LQ_CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    while ((seen = lq_signals_read(front->run->signals)) != 0) {
        if (seen == SIGCONT) {
            continued = true;
        } else {
            pass_on(front, seen);
        }
    }
    return continued;
}

static bool is_terminal_wish(int number)
{
    return number == SIGTTIN || number == SIGTTOU;
}

/* The command was stopped by signal `number`. */
static void follow_stop(struct lq_front *front, int number)
{
    bool had_terminal = front->tty.lent;

    if (is_terminal_wish(number) && !had_terminal && lq_tty_is_ours(&front->tty)) {
        lq_tty_lend(&front->tty, front->group);
        pass_on(front, SIGCONT);
        return;
    }
    if (front->tty.fd < 0 || (number == SIGSTOP && !had_terminal)) {
        return; /* no shell did that: it stays stopped, and the lock held */
    }
    lq_tty_take_back(&front->tty);
    if (!stop_ourselves(front, number == SIGSTOP ? SIGTSTP : number) && is_terminal_wish(number)) {
        pass_on(front, SIGHUP); /* it would ask for ever; the kernel does this to orphaned groups */
    }
    if (had_terminal || is_terminal_wish(number)) {
        lq_tty_lend(&front->tty, front->group);
    }
    pass_on(front, SIGCONT);
}

/* ---- The keeper. */

/* Kills what is left of the command; true when nothing is. The keeper may have been killed before
 * it could tell that it started one, so a group that we do not know is no proof: only to have no
 * child is. Where other children of ours hide that, the command may live for all that we know. */
static bool kill_rest(const struct lq_front *front)
{
    bool no_group = front->group != 0 && kill(-front->group, SIGKILL) != 0 && errno == ESRCH;
    pid_t reaped;

    if (!front->had_children) {
        lq_kin_signal(SIGKILL, front->group);
    }
    do { /* the keeper's children are ours now, and all that come from them */
        reaped = waitpid(-1, NULL, WNOHANG);
    } while (reaped > 0);
    return front->had_children ? no_group : reaped < 0 && errno == ECHILD;
}

/* The keeper is gone without a report (somebody killed it). The kernel kills the command's leader;
 * the rest is ours. */
static void replace_keeper(struct lq_front *front)
{
    struct lq_run *run = front->run;
    uint64_t limit_ms = lq_time_now_ms() + GONE_LIMIT_MS;
    bool gone = kill_rest(front);

    while (!gone && lq_time_now_ms() < limit_ms) {
        (void)poll(NULL, 0, GONE_POLL_MS);
        gone = kill_rest(front);
    }
    front->report = (struct lq_run_report){.end = LQ_RUN_KILLED,
                                           .number = SIGKILL,
                                           .lost = true,
                                           .killed = true,
                                           .release = LOQUET_CLOSED,
                                           .why = "loquet's helper process was killed"};
    if (gone) {
        front->report.release = lq_wait_release(run->driver, &run->held, LQ_UNDO_MS).result;
    }
}

/* Takes in what the keeper says. */
static void listen_to_keeper(struct lq_front *front)
{
    struct lq_run_message message;

    while (!front->over) {
        ssize_t n = recv(front->link_fd, &message, sizeof message, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n != (ssize_t)sizeof message) {
            replace_keeper(front);
            front->over = true;
            return;
        }
        switch (message.kind) {
        case LQ_RUN_STARTED:
            front->group = message.number;
            front->tty.lent = front->run->foreground;
            break;
        case LQ_RUN_STOPPED:
            follow_stop(front, message.number);
            break;
        case LQ_RUN_LOST:
            lq_run_warn(front->run, &message.report);
            break;
        case LQ_RUN_REPORT:
            front->report = message.report;
            front->over = true;
            break;
        case LQ_RUN_SIGNAL:
            break; /* only to the keeper */
        }
    }
}

static void attend(struct lq_front *front)
{
    const struct lq_signals *signals = front->run->signals;

    while (!front->over) {
        struct pollfd pollfds[2] = {{.fd = front->link_fd, .events = POLLIN},
                                    {.fd = signals->fd, .events = POLLIN}};
        int number;
        (void)poll(pollfds, 2, -1);
        while ((number = lq_signals_read(signals)) != 0) {
            pass_on(front, number);
        }
        listen_to_keeper(front);
    }
}

bool lq_front_run(struct lq_run *run, struct lq_run_report *ret_report)
{
    struct lq_front front = {.run = run};
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        return false;
    }
    front.had_children = lq_kin_exist();
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* the keeper's heir: see replace_keeper */
    lq_signals_add_job_control(run->signals);
    lq_tty_init(&front.tty);
    run->tty_fd = front.tty.fd;
    run->foreground = lq_tty_is_wanted(&front.tty);
    front.keeper = fork();
    if (front.keeper == 0) {
        (void)setpgid(0, 0); /* what kills our group must not kill the keeper */
        (void)close(fds[0]);
        lq_keeper_main(run, fds[1]);
    }
    (void)close(fds[1]);
    if (front.keeper < 0) {
        int code = errno;
        (void)close(fds[0]);
        errno = code;
        return false;
    }
    (void)setpgid(front.keeper, front.keeper);
    lq_driver_drop(run->driver);    /* the keeper's now */
    (void)signal(SIGPIPE, SIG_IGN); /* a reader of our messages that left changes no exit code */
    front.link_fd = fds[0];
    lq_run_let_go();
    attend(&front);
    lq_tty_take_back(&front.tty);
    (void)waitpid(front.keeper, NULL, 0);
    *ret_report = front.report;
    return true;
}
