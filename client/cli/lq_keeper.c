/* The keeper: renews the lock, and sees to it that nothing of the command is left when the lock is
 * not held any more. One loop over five descriptors: the front, children's signals, the result of
 * exec, the server and an alarm.
 *
 * Happy path: start the command; renew at a third of the lease, again and again; the leader ends;
 * what is left of the group is ended; when the group is gone, release, report, end.
 *
 * Failures, each an end of the work with its own times (lq_plan.h): the lease is about to end and
 * no renewal was answered; a renewal was refused; the front is gone. Then TERM, KILL, and the rest
 * of the happy path; unless --on-lost spares the command when the lock is lost. Whatever happens,
 * the lock is released only after the group is gone, with what left it for sessions of its own. */
#include "lq_keeper.h"

#include "lq_check.h"
#include "lq_group.h"
#include "lq_plan.h"
#include "lq_time.h"
#include "lq_wait.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the command leaves behind may still be finishing, as the last process of a pipeline does. */
#define LEFTOVER_PATIENCE_MS 1000
#define LEFTOVER_GRACE_MS    5000

/* Another may hold the lock already, or nobody is there any more who would want the command. */
#define URGENT_GRACE_MS 500

/* Who is ended by KILL may have had a child in that moment, so it is said again and again. */
#define GONE_POLL_MS 20

enum lq_keeper_state {
    KEEPING,   /* the group exists, or will in a moment */
    RELEASING, /* it is gone, or never was */
    OVER,
};

struct lq_keeper {
    struct lq_run *run;
    enum lq_keeper_state state;
    struct lq_group group;
    struct lq_plan plan;
    struct lq_run_report report;
    int link_fd, signal_fd, alarm_fd;
    bool front_gone;
    bool term_passed_on;        /* by the front: the command knows that it should end */
    struct lq_request *renewal; /* under way; NULL: none */
    struct loquet_why trouble;  /* of the last renewal that failed */
    bool ending_leftover;
};

/* Copies the reason, once: the first one is the cause of the others. */
static void set_why(struct lq_keeper *keeper, const char *why)
{
    if (keeper->report.why[0] == '\0') {
        (void)snprintf(keeper->report.why, sizeof keeper->report.why, "%s", why);
    }
}

/* ---- The front. */

static void tell(struct lq_keeper *keeper, enum lq_run_kind kind, int number)
{
    struct lq_run_message message = {.kind = kind, .number = number};
    int flags = MSG_NOSIGNAL;
    if (kind == LQ_RUN_REPORT || kind == LQ_RUN_LOST) {
        message.report = keeper->report;
    }
    if (kind != LQ_RUN_REPORT) {
        flags |= MSG_DONTWAIT; /* a stopped front must not hold up the renewals */
    }
    (void)send(keeper->link_fd, &message, sizeof message, flags); /* it may be gone: no matter */
}

static void lose_front(struct lq_keeper *keeper)
{
    keeper->front_gone = true;
    /* A run under another run's lock: that lock's TERM has come to us as well, and then KILL to the
     * front. There is no time left to ask again. */
    lq_plan_end(&keeper->plan, lq_time_now_ms(), 0, keeper->term_passed_on ? 0 : URGENT_GRACE_MS);
}

/* A signal that came before the command was started: it never will be. */
static void interrupt_start(struct lq_keeper *keeper, int number)
{
    if (number != SIGTSTP && number != SIGCONT) {
        keeper->report.end = LQ_RUN_INTERRUPTED;
        keeper->report.number = number;
    }
}

/* Takes in what the front says: signals to pass on, or that it is gone. */
static void listen_to_front(struct lq_keeper *keeper)
{
    struct lq_run_message message;

    while (!keeper->front_gone) {
        ssize_t n = recv(keeper->link_fd, &message, sizeof message, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n != (ssize_t)sizeof message) {
            lose_front(keeper);
        } else if (message.kind == LQ_RUN_SIGNAL && keeper->group.id == 0) {
            interrupt_start(keeper, message.number);
        } else if (message.kind == LQ_RUN_SIGNAL) {
            keeper->term_passed_on |= message.number == SIGTERM;
            lq_group_signal(&keeper->group, message.number);
        }
    }
}

/* ---- The lock. */

/* Begins a request under the lock, given up at `by_ms`. */
static struct lq_request *begin(struct lq_keeper *keeper, enum lq_goal goal, uint64_t by_ms)
{
    struct lq_order order = lq_wait_order(goal, &keeper->run->held, by_ms);
    struct lq_request *request;

    order.redial_until_ms = by_ms;
    order.user = goal == LQ_GOAL_RELEASE ? keeper : NULL; /* see step_driver */
    request = lq_driver_submit(keeper->run->driver, &order, &keeper->trouble);
    LQ_CHECK(request != NULL);
    return request;
}

static void renew(struct lq_keeper *keeper)
{
    keeper->plan.renew_ms = LQ_NEVER;
    keeper->trouble.text[0] = '\0';
    keeper->renewal = begin(keeper, LQ_GOAL_RENEW, keeper->plan.lease_kill_ms);
}

/* Why no renewal was confirmed so far. */
static const char *renewal_trouble(struct lq_keeper *keeper)
{
    struct lq_outcome outcome = {.result = LOQUET_CLOSED};

    if (keeper->run->cli->no_renew) {
        return "its lease is over, and was not renewed (--no-renew)";
    }
    if (keeper->renewal != NULL) {
        lq_core_trouble(keeper->renewal, &outcome);
        lq_cluster_explain(&keeper->run->driver->cluster, &outcome, &keeper->trouble);
    }
    return keeper->trouble.text[0] != '\0' ? keeper->trouble.text
                                           : "no renewal was answered in time";
}

static void lose_lock(struct lq_keeper *keeper, const char *why)
{
    keeper->report.lost = true;
    set_why(keeper, why);
}

/* Lost, and the command is not to be ended for it (--on-lost). */
static void spare_command(struct lq_keeper *keeper)
{
    lq_plan_forget_lease(&keeper->plan);
    keeper->report.spared = true;
    if (keeper->run->cli->on_lost == LQ_CLI_SIGNAL) {
        lq_group_end(&keeper->group, SIGTERM);
    }
    tell(keeper, LQ_RUN_LOST, 0);
}

static void take_renewal(struct lq_keeper *keeper, const struct lq_outcome *outcome)
{
    uint32_t lease_s = keeper->run->held.lease_s;
    uint64_t now_ms = lq_time_now_ms();

    keeper->renewal = NULL;
    lq_cluster_explain(&keeper->run->driver->cluster, outcome, &keeper->trouble);
    if (outcome->result == LOQUET_RENEWED) {
        lq_plan_renewed(&keeper->plan, lease_s, outcome->sent_ms, outcome->ends_ms);
    } else if (outcome->result == LOQUET_NOT_HELD) {
        lose_lock(keeper, "the server does not know it as held by us any more");
        if (keeper->run->cli->on_lost != LQ_CLI_KILL) {
            spare_command(keeper);
            return;
        }
        lq_plan_end(&keeper->plan, now_ms, 0, URGENT_GRACE_MS);
    } else {
        lq_plan_retry(&keeper->plan, lease_s, now_ms);
    }
}

static void release(struct lq_keeper *keeper)
{
    uint64_t now_ms = lq_time_now_ms(), by_ms = now_ms + LQ_TRANSPORT_MS;
    uint64_t ends_ms = keeper->plan.ends_ms;

    /* Once the lease is over there is not much to release. */
    if (ends_ms < by_ms) {
        by_ms = ends_ms > now_ms + LQ_UNDO_MS ? ends_ms : now_ms + LQ_UNDO_MS;
    }
    keeper->state = RELEASING;
    (void)begin(keeper, LQ_GOAL_RELEASE, by_ms);
}

static void take_release(struct lq_keeper *keeper, const struct lq_outcome *outcome)
{
    bool not_held = outcome->result == LOQUET_NOT_HELD;

    keeper->report.release = outcome->result;
    keeper->state = OVER;
    if (not_held && outcome->repeated) {
        keeper->report.release = LOQUET_RELEASED; /* by the first try, whose answer was lost */
    } else if (not_held) {
        lose_lock(keeper, "when it was to be released, the server did not know it as held by us");
    } else if (outcome->result != LOQUET_RELEASED) {
        struct loquet_why why;
        lq_cluster_explain(&keeper->run->driver->cluster, outcome, &why);
        set_why(keeper, why.text);
    }
}

static void step_driver(struct lq_keeper *keeper)
{
    struct lq_outcome outcome;

    lq_driver_step(keeper->run->driver);
    while (lq_driver_take(keeper->run->driver, &outcome)) {
        if (outcome.user == keeper) {
            take_release(keeper, &outcome);
        } else if (keeper->state == KEEPING && !keeper->report.spared) {
            take_renewal(keeper, &outcome);
        } /* else it came too late to mean anything: once lost, always lost */
    }
}

/* ---- The command. */

static void start(struct lq_keeper *keeper)
{
    listen_to_front(keeper);
    if (keeper->front_gone || keeper->report.end == LQ_RUN_INTERRUPTED) {
        return;
    }
    if (lq_plan_is_lease_over(&keeper->plan, lq_time_now_ms())) {
        keeper->report.end = LQ_RUN_NOT_STARTED;
        lose_lock(keeper, "its lease was over before the command could be started");
    } else if (!lq_group_start(&keeper->group, keeper->run)) {
        keeper->report.end = LQ_RUN_NO_PROCESS;
        keeper->report.number = errno;
    } else {
        tell(keeper, LQ_RUN_STARTED, keeper->group.id);
    }
}

static void take_leader_end(struct lq_keeper *keeper)
{
    int wait_status = keeper->group.wait_status;
    bool was_told = keeper->report.end == LQ_RUN_NOT_FOUND || keeper->report.end == LQ_RUN_NO_EXEC;

    keeper->ending_leftover = true;
    lq_plan_end(&keeper->plan, lq_time_now_ms(), LEFTOVER_PATIENCE_MS, LEFTOVER_GRACE_MS);
    if (was_told) {
        return;
    }
    keeper->report.end = WIFSIGNALED(wait_status) ? LQ_RUN_KILLED : LQ_RUN_EXITED;
    keeper->report.number =
        WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

/* Looks at what the children did. */
static void attend_children(struct lq_keeper *keeper)
{
    struct lq_group *group = &keeper->group;
    struct signalfd_siginfo info;
    int code;

    while (read(keeper->signal_fd, &info, sizeof info) > 0) {
        /* SIGCHLD says only that there is something to look at. */
    }
    lq_group_reap(group);
    code = lq_group_exec_error(group);
    if (code > 0) {
        keeper->report.end = code == ENOENT ? LQ_RUN_NOT_FOUND : LQ_RUN_NO_EXEC;
        keeper->report.number = code;
    }
    if (group->stopped_by != 0) {
        tell(keeper, LQ_RUN_STOPPED, group->stopped_by);
        group->stopped_by = 0;
    }
    if (group->leader_ended && !keeper->ending_leftover) {
        take_leader_end(keeper);
    }
}

/* Ends the group when its time has come. */
static void act_by_plan(struct lq_keeper *keeper)
{
    uint64_t now_ms = lq_time_now_ms();
    enum lq_plan_act act;

    if (lq_plan_is_lease_over(&keeper->plan, now_ms)) {
        lose_lock(keeper, renewal_trouble(keeper));
        if (keeper->run->cli->on_lost != LQ_CLI_KILL) {
            spare_command(keeper);
        }
    }
    act = lq_plan_next(&keeper->plan, now_ms);
    if (act == LQ_PLAN_GO_ON) {
        return;
    }
    keeper->report.killed = true;
    lq_group_end(&keeper->group, act == LQ_PLAN_KILL ? SIGKILL : SIGTERM);
}

/* ---- The loop. */

static uint64_t due_ms(const struct lq_keeper *keeper)
{
    uint64_t due = lq_driver_due_ms(keeper->run->driver), now_ms = lq_time_now_ms();

    if (keeper->state != KEEPING) {
        return due;
    }
    if (lq_plan_due_ms(&keeper->plan) <= now_ms || keeper->group.leader_ended) {
        due = lq_earlier(due, now_ms + GONE_POLL_MS);
    } else {
        due = lq_earlier(due, lq_plan_due_ms(&keeper->plan));
    }
    return lq_earlier(due, keeper->plan.renew_ms);
}

static void await_events(const struct lq_keeper *keeper)
{
    struct pollfd own[4] = {
        {.fd = keeper->front_gone ? -1 : keeper->link_fd, .events = POLLIN},
        {.fd = keeper->signal_fd, .events = POLLIN},
        {.fd = keeper->group.id == 0 ? -1 : keeper->group.exec_fd, .events = POLLIN},
        {.fd = keeper->alarm_fd, .events = POLLIN},
    };
    lq_alarm_set(keeper->alarm_fd, due_ms(keeper));
    lq_driver_poll(keeper->run->driver, own, 4);
}

static void look_around(struct lq_keeper *keeper)
{
    listen_to_front(keeper);
    attend_children(keeper);
    step_driver(keeper);
    if (keeper->state != KEEPING) {
        return;
    }
    if (keeper->group.gone) {
        release(keeper);
        return;
    }
    act_by_plan(keeper);
    if (keeper->renewal == NULL && !keeper->report.lost &&
        lq_time_now_ms() >= keeper->plan.renew_ms) {
        renew(keeper);
    }
}

void lq_keeper_main(struct lq_run *run, int link_fd)
{
    static struct lq_keeper keeper;
    sigset_t all, child;

    keeper = (struct lq_keeper){
        .run = run, .link_fd = link_fd, .group.exec_fd = -1, .report.release = LOQUET_CLOSED};
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* else orphans of the group were init's to reap */
    LQ_CHECK(sigfillset(&all) == 0 && sigprocmask(SIG_SETMASK, &all, NULL) == 0);
    LQ_CHECK(sigemptyset(&child) == 0 && sigaddset(&child, SIGCHLD) == 0);
    keeper.signal_fd = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
    keeper.alarm_fd = lq_alarm_open();
    lq_plan_init(&keeper.plan, run->held.lease_s, run->held.sent_ms, run->held.ends_ms);
    if (run->cli->no_renew) {
        keeper.plan.renew_ms = LQ_NEVER;
    }
    if (keeper.signal_fd < 0 || keeper.alarm_fd < 0) {
        _exit(LQ_EXIT_SYSTEM); /* the front sees us gone */
    }
    start(&keeper);
    lq_run_let_go();
    lq_run_rename(run);
    if (keeper.group.id == 0) {
        release(&keeper);
    }
    look_around(&keeper);
    while (keeper.state != OVER) {
        await_events(&keeper);
        look_around(&keeper);
    }
    tell(&keeper, LQ_RUN_REPORT, 0);
    _exit(LQ_EXIT_OK);
}
