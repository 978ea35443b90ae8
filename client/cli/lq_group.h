/* The process group of a command, and what left it for groups and sessions of their own, seen from
 * its parent. It is gone when all of them were reaped: the parent must be a child subreaper, and
 * have no other children. Until the leader was reaped and no other process is in the group, its
 * number cannot be given to another, so signals to it never hit a stranger. */
#ifndef LQ_GROUP_H
#define LQ_GROUP_H

#include "lq_run.h"

struct lq_group {
    pid_t id; /* of the group and of its leader; 0: none was started */
    bool leader_ended;
    bool gone;       /* with all descendants */
    int wait_status; /* of the leader, as waitpid gives it; valid when leader_ended */
    int stopped_by;  /* signal that stopped the leader since last asked; 0: none */
    int exec_fd;     /* tells when the command was executed, or why not; -1: it was told */
};

/* Starts run->argv as leader of a new group, killed by the kernel when the calling process ends.
 * Returns false with errno set when no process can be had. */
bool lq_group_start(struct lq_group *group, const struct lq_run *run);

/* When exec_fd is readable: returns 0 when the command runs, -1 when it is not known yet, or the
 * errno of exec. */
int lq_group_exec_error(struct lq_group *group);

/* Looks after children: `leader_ended`, `stopped_by` and `gone` are up to date then. */
void lq_group_reap(struct lq_group *group);

/* Sends a signal to the group, or, once its leader has ended, to all that is left of the command;
 * nothing when it is gone. */
void lq_group_signal(const struct lq_group *group, int number);

/* Sends TERM or KILL to the group and to all descendants that left it, and continues them: a
 * stopped process would not see TERM. */
void lq_group_end(const struct lq_group *group, int number);

#endif
