/* `loquet run` is two processes besides the command:
 *
 *   front   what the user started: signals, terminal, messages, exit code (lq_front.c)
 *     |       ^
 *     | signals to pass on      | started, stopped, report
 *     v       |
 *   keeper  "lq-keeper", a process group of its own: renews the lock, is the parent of the command,
 *     |     ends its group by the clock, releases the lock when the group is gone (lq_keeper.c)
 *     v
 *   command  the leader of a third process group
 *
 * Either one watches the other through their socket: it ends when the other process does, however
 * that happens. If the front is gone (kill -9), the keeper ends the group and releases the lock. If
 * the keeper is gone, the kernel kills the command (PR_SET_PDEATHSIG), and the front the rest of
 * its group. A front that is stopped (Ctrl-Z) does not stop the renewals.
 *
 * This file: what the two share and say to each other. */
#ifndef LQ_RUN_H
#define LQ_RUN_H

#include "lq_cli.h"
#include "lq_driver.h"
#include "lq_held.h"
#include "lq_signals.h"

#include <sys/types.h>

/* One run, as the front prepares it; the keeper inherits it by fork. */
struct lq_run {
    const struct lq_cli *cli;
    struct lq_driver *driver; /* idle; its connections belong to the keeper from the fork on */
    struct lq_signals *signals;
    struct lq_held held;
    char **argv;     /* the command, ends with NULL */
    int tty_fd;      /* controlling terminal, -1: none */
    bool foreground; /* the command gets the terminal from the start */
};

enum lq_run_end {
    LQ_RUN_EXITED,      /* number: status */
    LQ_RUN_KILLED,      /* number: signal */
    LQ_RUN_NOT_FOUND,   /* number: errno of exec */
    LQ_RUN_NO_EXEC,     /* number: errno of exec */
    LQ_RUN_NO_PROCESS,  /* number: errno of fork */
    LQ_RUN_INTERRUPTED, /* before it started; number: signal */
    LQ_RUN_NOT_STARTED, /* the lock was lost before that */
};

/* How a run ended. */
struct lq_run_report {
    enum lq_run_end end;
    int number;
    bool lost;                  /* the lock was lost, or nearly, while it ran */
    bool killed;                /* ... and the command had to be ended */
    bool spared;                /* ... and it went on, as --on-lost asks; was said at once */
    enum loquet_result release; /* RELEASED, or what became of it instead */
    char why[256];              /* why it was lost, or not released */
};

enum lq_run_kind {
    LQ_RUN_SIGNAL,  /* to the keeper: pass on signal `number` */
    LQ_RUN_STARTED, /* to the front: the command's process group is `number` */
    LQ_RUN_STOPPED, /* to the front: the command was stopped by signal `number` */
    LQ_RUN_LOST,    /* to the front: the lock was lost, and the command goes on */
    LQ_RUN_REPORT,  /* to the front: it is over */
};

struct lq_run_message {
    enum lq_run_kind kind;
    int number;
    struct lq_run_report report; /* LOST, REPORT */
};

/* Gives up standard input and output of the calling process. They belong to the command: whoever is
 * at their other ends must see it close them. */
void lq_run_let_go(void);

/* Names the calling process "lq-keeper KEY" in all lists of processes, so that who kills loquet by
 * its name does not kill its keeper as well. The arguments of the command line are gone then. */
void lq_run_rename(const struct lq_run *run);

/* Says on standard error that the lock was lost and the command goes on. */
void lq_run_warn(const struct lq_run *run, const struct lq_run_report *report);

/* The one place that says what `loquet run` exits with. */
enum lq_exit lq_run_exit_code(const struct lq_run_report *report);

#endif
