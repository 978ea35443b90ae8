/* All sockets and files are made before the nodes are: so there are no ports to agree on and no
 * connections to wait for. Each node then keeps its own and closes the others', so that the end of
 * one is seen by all. */
#include "floor.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "floor_journal.h"
#include "floor_node.h"
#include "net.h"
#include "options.h"

struct floor {
    struct lq_bench_floor_seat seats[LQ_BENCH_FLOOR_NODES];
    pid_t pids[LQ_BENCH_FLOOR_NODES];
    char addresses[LQ_BENCH_FLOOR_NODES][LQ_BENCH_ADDRESS_SIZE];
};

/* Two connected sockets over TCP, as between machines. */
static int connect_pair(int *ret_one, int *ret_other)
{
    char error[256], address[LQ_BENCH_ADDRESS_SIZE];
    int listener = lq_bench_net_listen("127.0.0.1:0", error, sizeof error);
    int one = -1, other = -1;
    if (listener >= 0 && lq_bench_net_name(listener, address, sizeof address) == 0)
        one = lq_bench_net_connect(address, error, sizeof error);
    if (one >= 0)
        other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (listener >= 0)
        close(listener);
    if (other < 0 || lq_bench_net_tune(other) != 0)
        return -1;
    *ret_one = one;
    *ret_other = other;
    return 0;
}

static int make_journal(const char *folder, unsigned number)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/floor-%u", folder, number);
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return lq_bench_floor_journal_make(path);
}

static int furnish(struct floor *floor, const char *folder, const char *listen_address)
{
    char error[256];
    for (unsigned i = 0; i < LQ_BENCH_FLOOR_NODES; i++) {
        struct lq_bench_floor_seat *seat = &floor->seats[i];
        seat->listener = lq_bench_net_listen(listen_address, error, sizeof error);
        if (seat->listener < 0) {
            (void)fprintf(stderr, "lq_bench: %s\n", error);
            return LQ_BENCH_UNAVAILABLE;
        }
        seat->journal = make_journal(folder, i);
        if (seat->journal < 0 ||
            lq_bench_net_name(seat->listener, floor->addresses[i], LQ_BENCH_ADDRESS_SIZE) != 0) {
            (void)fprintf(stderr, "lq_bench: the floor in %s: %s\n", folder, strerror(errno));
            return LQ_BENCH_FAILED;
        }
    }
    for (unsigned i = 0; i < LQ_BENCH_FLOOR_FOLLOWERS; i++) {
        struct lq_bench_floor_seat *leader = &floor->seats[0], *follower = &floor->seats[i + 1];
        if (connect_pair(&leader->logs[i], &follower->logs[0]) != 0 ||
            connect_pair(&leader->relays[i], &follower->relays[0]) != 0) {
            (void)fprintf(stderr, "lq_bench: the links of the floor: %s\n", strerror(errno));
            return LQ_BENCH_FAILED;
        }
    }
    return 0;
}

static void close_seat(unsigned number, const struct lq_bench_floor_seat *seat)
{
    unsigned links = number == 0 ? LQ_BENCH_FLOOR_FOLLOWERS : 1;
    close(seat->listener);
    close(seat->journal);
    for (unsigned i = 0; i < links; i++) {
        close(seat->logs[i]);
        close(seat->relays[i]);
    }
}

/* The child's side of a fork: a node for as long as the parent lives. */
static void be_node(const struct floor *floor, unsigned number, pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(LQ_BENCH_FAILED);
    for (unsigned i = 0; i < LQ_BENCH_FLOOR_NODES; i++)
        if (i != number)
            close_seat(i, &floor->seats[i]);
    lq_bench_floor_node_run(number, &floor->seats[number]);
    _exit(LQ_BENCH_FAILED);
}

static int start(struct floor *floor)
{
    pid_t parent = getpid();
    for (unsigned i = 0; i < LQ_BENCH_FLOOR_NODES; i++) {
        floor->pids[i] = fork();
        if (floor->pids[i] < 0) {
            (void)fprintf(stderr, "lq_bench: the nodes of the floor: %s\n", strerror(errno));
            return LQ_BENCH_FAILED;
        }
        if (floor->pids[i] == 0)
            be_node(floor, i, parent);
    }
    for (unsigned i = 0; i < LQ_BENCH_FLOOR_NODES; i++)
        close_seat(i, &floor->seats[i]);
    (void)fprintf(stderr, "level=info msg=listening address=%s,%s,%s pids=%d,%d,%d\n",
                  floor->addresses[0], floor->addresses[1], floor->addresses[2], floor->pids[0],
                  floor->pids[1], floor->pids[2]);
    return 0;
}

/* Waits for a signal that ends us, or for the end of a node, which only comes when something is
 * wrong. */
static int wait_for_end(const sigset_t *ends)
{
    int signal_number;
    if (sigwait(ends, &signal_number) != 0 || signal_number == SIGCHLD)
        return LQ_BENCH_FAILED;
    return LQ_BENCH_OK;
}

static void stop(const struct floor *floor)
{
    for (unsigned i = 0; i < LQ_BENCH_FLOOR_NODES; i++) {
        if (floor->pids[i] > 0) {
            (void)kill(floor->pids[i], SIGKILL);
            (void)waitpid(floor->pids[i], NULL, 0);
        }
    }
}

int lq_bench_floor_run(const char *folder, const char *listen_address)
{
    static struct floor floor;
    sigset_t ends;
    int rv;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGCHLD);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &ends, NULL); /* the nodes too: they are ended by SIGKILL */
    rv = furnish(&floor, folder, listen_address);
    if (rv == 0)
        rv = start(&floor);
    if (rv == 0)
        rv = wait_for_end(&ends);
    stop(&floor);
    return rv;
}
