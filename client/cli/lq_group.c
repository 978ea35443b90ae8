#include "lq_group.h"

#include "lq_check.h"
#include "lq_kin.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: becomes the command. All signals are blocked until the last moment, so the terminal
 * does not stop us for taking it, and what is sent to the group meets the command. */
__attribute__((noreturn)) static void become_command(const struct lq_run *run, pid_t parent,
                                                     int exec_fd)
{
    int code;

    (void)setpgid(0, 0);
    if (run->foreground) {
        (void)tcsetpgrp(run->tty_fd, getpid());
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(LQ_EXIT_SYSTEM); /* it died before that took effect */
    }
    lq_signals_restore(run->signals);
    (void)execvp(run->argv[0], run->argv);
    code = errno;
    (void)!write(exec_fd, &code, sizeof code);
    _exit(LQ_EXIT_NOT_EXECUTABLE);
}

bool lq_group_start(struct lq_group *group, const struct lq_run *run)
{
    pid_t parent = getpid(), child;
    int fds[2];

    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
        return false;
    }
    child = fork();
    if (child == 0) {
        become_command(run, parent, fds[1]);
    }
    (void)close(fds[1]);
    if (child < 0) {
        int code = errno;
        (void)close(fds[0]);
        errno = code;
        return false;
    }
    (void)setpgid(child, child); /* whoever comes first: the group exists when we return */
    *group = (struct lq_group){.id = child, .exec_fd = fds[0]};
    return true;
}

int lq_group_exec_error(struct lq_group *group)
{
    int code = 0;
    ssize_t n;

    if (group->exec_fd < 0) {
        return 0;
    }
    n = read(group->exec_fd, &code, sizeof code);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return -1;
    }
    (void)close(group->exec_fd);
    group->exec_fd = -1;
    return n == (ssize_t)sizeof code ? code : 0;
}

static void take_status(struct lq_group *group, int wait_status)
{
    if (WIFSTOPPED(wait_status)) {
        group->stopped_by = WSTOPSIG(wait_status);
    } else {
        group->wait_status = wait_status;
        group->leader_ended = true;
    }
}

void lq_group_reap(struct lq_group *group)
{
    int wait_status;
    pid_t pid;

    while ((pid = waitpid(-1, &wait_status, WNOHANG | WUNTRACED)) > 0) {
        if (pid == group->id && !group->leader_ended) {
            take_status(group, wait_status);
        }
    }
    if (group->leader_ended && pid < 0 && errno == ECHILD) {
        group->gone = true; /* no child, so no descendant */
    }
}

void lq_group_signal(const struct lq_group *group, int number)
{
    if (group->id == 0 || group->gone) {
        return;
    }
    if (group->leader_ended) {
        lq_kin_signal(number, 0); /* the group's number may be another's by now */
        return;
    }
    if (kill(-group->id, number) != 0 && errno == ESRCH) {
        (void)kill(group->id, number); /* it moved to another group */
    }
}

static void signal_all(const struct lq_group *group, int number)
{
    lq_group_signal(group, number);
    if (!group->leader_ended) {
        lq_kin_signal(number, group->id);
    }
}

void lq_group_end(const struct lq_group *group, int number)
{
    if (group->id == 0 || group->gone) {
        return;
    }
    signal_all(group, number);
    if (number != SIGKILL) { /* which needs no waking */
        signal_all(group, SIGCONT);
    }
}
