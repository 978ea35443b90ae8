/* Links between real nodes over the loopback: they come up from either side, carry messages of all
 * sizes in order, and what happens when a peer stops, comes back, moves or is unlinked. */
#include "test_links_rig.h"

#include <signal.h>
#include <sys/wait.h>

static uint64_t seed;
static struct rig rig;

static void setup(void)
{
    rig_init(&rig, seed, 1);
}

static void teardown(void)
{
    rig_done(&rig);
}

/* The first `n` nodes, all linked with each other. */
static void start(uint32_t n)
{
    for (uint32_t id = 1; id <= n; id++) {
        node_start(&rig.nodes[id]);
        node_join(&rig.nodes[id], n);
    }
    for (uint32_t a = 1; a <= n; a++) {
        for (uint32_t b = a + 1; b <= n; b++) {
            RUN_UNTIL(&rig, are_linked(&rig.nodes[a], &rig.nodes[b]));
        }
    }
}

/* One node has the other in its list, the other does not: one dials, both are linked. */
START_TEST(a_link_comes_up_from_either_side)
{
    struct node *dialler = &rig.nodes[_i], *other = &rig.nodes[3 - _i];
    node_start(dialler);
    node_start(other);
    node_join(dialler, 2);
    RUN_UNTIL(&rig, dialler->told[other->id].is_linked && other->told[dialler->id].is_linked);
    ck_assert(are_linked(dialler, other));
    ck_assert_uint_eq(dialler->told[other->id].boot, other->boot);
    ck_assert_uint_eq(other->told[dialler->id].boot, dialler->boot);
    ck_assert(lq_links_status(dialler->links, other->id).is_up);
    ck_assert_str_eq(lq_links_status(dialler->links, other->id).text, "");
    ck_assert_uint_eq(log_lines(&rig, "msg=\"link up\""), 2);
    ck_assert_uint_eq(log_lines(&rig, "dialled_by=\"the peer\""), 1);
}
END_TEST

/* Over IPv4, and over IPv6 where the machine has it. */
START_TEST(three_nodes_are_linked)
{
    const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    if (_i == 1 && fd >= 0 && bind(fd, (const struct sockaddr *)&v6, sizeof v6) == 0) {
        rig.host = "[::1]";
    }
    close(fd);
    start(3);
    for (uint32_t id = 1; id < NODES; id++) {
        ck_assert_uint_eq(count_conns(&rig.nodes[id]), 2);
    }
}
END_TEST

/* A node that does not know its boot counter yet says nothing, and hears nothing. */
START_TEST(nothing_is_said_before_a_node_can_greet)
{
    struct node *a = &rig.nodes[1], *b = &rig.nodes[2];
    node_start(a);
    node_start(b);
    b->cannot_greet = true;
    node_join(a, 2);
    node_join(b, 2);
    run_for(&rig, 100);
    ck_assert(!a->told[2].is_linked && !b->told[1].is_linked);
    b->cannot_greet = false;
    RUN_UNTIL(&rig, are_linked(a, b));
    ck_assert_uint_eq(a->told[2].ups, 1);
}
END_TEST

/* ---- Messages. */

static const size_t sizes[] = {8,     9,       40,     1000,          1,    65536,   65532,
                               65540, 1 << 20, 262144, (4 << 20) - 1, 1000, 4 << 20, 8,
                               300000};

#define N_SIZES (sizeof sizes / sizeof *sizes)

static size_t size_of(size_t i)
{
    return sizes[i] < 8 ? 8 : sizes[i];
}

START_TEST(messages_of_all_sizes_arrive_in_order)
{
    struct node *a = &rig.nodes[1], *b = &rig.nodes[2];
    start(2);
    for (uint32_t i = 0; i < N_SIZES; i++) {
        node_send(a, 2, size_of(i), i);
        node_send(b, 1, size_of(N_SIZES - 1 - i), i);
        if (lq_rand_below(&rig.rand, 2) == 0) {
            node_flush(a);
        }
        if (lq_rand_below(&rig.rand, 2) == 0) {
            node_flush(b);
            uv_run(&rig.loop, UV_RUN_NOWAIT);
        }
    }
    node_flush(a);
    node_flush(b);
    RUN_UNTIL(&rig, a->told[2].messages == N_SIZES && b->told[1].messages == N_SIZES);
    ck_assert_uint_eq(a->told[2].downs + b->told[1].downs, 0);
    ck_assert_uint_eq(lq_links_status(a->links, 2).queued_bytes, 0);
    ck_assert_uint_eq(lq_links_status(a->links, 2).sent_bytes,
                      lq_links_status(b->links, 1).received_bytes);
}
END_TEST

START_TEST(many_small_messages_arrive_in_order)
{
    struct node *a = &rig.nodes[1], *b = &rig.nodes[2];
    uint32_t n = 0, wanted = (uint32_t)lq_test_number("LQ_OPS", 100000);
    start(2);
    while (n < wanted) {
        for (uint64_t i = lq_rand_below(&rig.rand, 300); i > 0; i--) {
            node_send(a, 2, 8 + lq_rand_below(&rig.rand, 300), n++);
        }
        node_flush(a);
        uv_run(&rig.loop, UV_RUN_NOWAIT);
    }
    RUN_UNTIL(&rig, b->told[1].messages == n);
}
END_TEST

/* Nothing is written before the end of the turn, and what has no link is dropped. */
START_TEST(what_is_not_flushed_waits)
{
    struct node *a = &rig.nodes[1], *b = &rig.nodes[2];
    start(2);
    node_send(a, 2, 100, 0);
    node_send(a, 3, 100, 0);
    run_for(&rig, 20);
    ck_assert_uint_eq(b->told[1].messages, 0);
    ck_assert_uint_eq(lq_links_status(a->links, 2).queued_bytes, 104);
    node_flush(a);
    RUN_UNTIL(&rig, b->told[1].messages == 1);
}
END_TEST

/* ---- A peer stops and comes back. */

START_TEST(a_peer_that_stops_is_told_at_once)
{
    struct node *a = &rig.nodes[_i], *b = &rig.nodes[3 - _i];
    struct told *told = &a->told[b->id];
    uint64_t stopped_ms;
    start(2);
    node_send(b, a->id, 5000, 0); /* what it said last is heard */
    node_flush(b);
    node_stop(b);
    stopped_ms = lq_clock_ms();
    RUN_UNTIL(&rig, told->refused_downs > 0);
    ck_assert_uint_eq(told->messages, 1);
    ck_assert_uint_eq(told->downs, 1);
    ck_assert_uint_ge(told->refused_down_ms, told->down_ms);
    /* Bounds for a busy machine; an idle one takes no millisecond. */
    ck_assert_uint_le(told->down_ms - stopped_ms, 500);
    ck_assert_uint_le(told->refused_down_ms - stopped_ms, 500);
    ck_assert(!lq_links_status(a->links, b->id).is_up);
    ck_assert_str_eq(lq_links_status(a->links, b->id).text, "Connection refused");
}
END_TEST

/* Node 2 as a process of its own, which runs until it is killed, or orphaned. */
static pid_t fork_peer(unsigned port)
{
    static struct rig own;
    pid_t parent = getpid(), pid = fork();
    if (pid != 0) {
        return pid;
    }
    rig_init(&own, seed, 2);
    own.nodes[2].port = port;
    node_start(&own.nodes[2]);
    while (getppid() == parent) {
        uv_run(&own.loop, UV_RUN_ONCE);
    }
    _exit(0);
}

/* Idle, and while it has much unread, when the kernel resets its connection. */
START_TEST(a_killed_process_is_told_at_once)
{
    struct node *a = &rig.nodes[1];
    struct told *told = &a->told[2];
    pid_t pid = fork_peer(rig.nodes[2].port);
    uint64_t killed_ms;
    node_start(a);
    node_join(a, 2);
    RUN_UNTIL(&rig, told->is_linked);
    for (uint32_t i = 0; _i == 1 && i < 20; i++) {
        node_send(a, 2, 1 << 20, i);
    }
    node_flush(a);
    told->refused_downs = 0; /* of before it listened */
    killed_ms = lq_clock_ms();
    ck_assert(kill(pid, SIGKILL) == 0);
    RUN_UNTIL(&rig, told->refused_downs > 0);
    (void)printf("told %u ms after the kill\n", (unsigned)(told->refused_down_ms - killed_ms));
    ck_assert_uint_le(told->refused_down_ms - killed_ms, 500);
    ck_assert(waitpid(pid, NULL, 0) == pid);
}
END_TEST

START_TEST(a_peer_that_comes_back_is_linked_again)
{
    struct node *a = &rig.nodes[1], *b = &rig.nodes[2];
    start(2);
    for (unsigned round = 1; round <= 5; round++) {
        uint64_t boot = b->boot;
        node_stop(b);
        if (round % 2 == 0) {
            RUN_UNTIL(&rig, a->told[2].refused_downs > 0);
        }
        node_start(b);
        if (round > 3) {
            node_join(b, 2); /* else only the other one dials */
        }
        a->told[2].refused_downs = 0;
        RUN_UNTIL(&rig, a->told[2].boot > boot && are_linked(a, b));
        node_send(a, 2, 100, 0);
        node_flush(a);
        RUN_UNTIL(&rig, b->told[1].messages == 1);
    }
}
END_TEST

/* A new process may be there before the end of the old one's connection is seen. */
START_TEST(a_new_life_replaces_the_old_link)
{
    struct node *a = &rig.nodes[_i], *b = &rig.nodes[3 - _i];
    struct lq_hello hello;
    int fd;
    start(2);
    hello = hello_of(b, a->id);
    hello.boot++;
    fd = raw_connect(a->port);
    raw_hello(fd, &hello);
    RUN_UNTIL(&rig, a->told[b->id].boot == hello.boot);
    ck_assert_uint_eq(a->told[b->id].ups, 2);
    ck_assert_uint_eq(a->told[b->id].downs, 0); /* a link stood all the time */
    ck_assert_uint_eq(raw_waiting(fd), LQ_HELLO_BYTES);
    close(fd);
}
END_TEST

START_TEST(a_peer_that_was_never_there_is_refused)
{
    struct node *a = &rig.nodes[1];
    node_start(a);
    node_join(a, 3);
    RUN_UNTIL(&rig, a->told[2].refused_downs > 0 && a->told[3].refused_downs > 0);
    ck_assert_uint_eq(a->told[2].downs, 0);
    run_for(&rig, 200);
    ck_assert_uint_eq(log_lines(&rig, "cannot reach a node"), 2); /* however often it tries */
    node_start(&rig.nodes[2]);
    RUN_UNTIL(&rig, are_linked(a, &rig.nodes[2]));
}
END_TEST

/* ---- Unlinking, members, names. */

/* What was queued is given to the kernel first; no `down` comes; and then it is linked again. */
START_TEST(an_unlinked_peer_hears_the_last_words)
{
    struct node *a = &rig.nodes[_i], *b = &rig.nodes[3 - _i];
    start(2);
    node_send(b, a->id, 20000, 0); /* lies unread there: closing at once would reset */
    node_flush(b);
    node_send(a, b->id, 1000, 0);
    rig.inside++;
    lq_links_unlink(a->links, b->id, "a reason");
    rig.inside--;
    a->told[b->id].is_linked = false;
    ck_assert_str_eq(lq_links_status(a->links, b->id).text, "a reason");
    RUN_UNTIL(&rig, b->told[a->id].downs == 1);
    ck_assert_uint_eq(b->told[a->id].messages, 1);
    ck_assert_uint_eq(a->told[b->id].messages, 0);
    RUN_UNTIL(&rig, are_linked(a, b));
    ck_assert_uint_eq(a->told[b->id].downs, 0);
    RUN_UNTIL(&rig, count_conns(a) == 1 && count_conns(b) == 1);
}
END_TEST

/* A turn of the node may run while a message is being taken. */
START_TEST(a_link_may_be_closed_while_it_is_read)
{
    struct node *a = &rig.nodes[1], *b = &rig.nodes[2];
    start(2);
    b->unlink_at = 10;
    for (uint32_t i = 0; i < 30; i++) {
        node_send(a, 2, 100, i);
    }
    node_flush(a);
    RUN_UNTIL(&rig, a->told[2].downs == 1);
    ck_assert_uint_eq(b->told[1].messages, 11);
    ck_assert_uint_eq(b->told[1].downs, 0);
}
END_TEST

START_TEST(a_member_that_is_dropped_keeps_its_link)
{
    struct node *a = &rig.nodes[1], *b = &rig.nodes[2];
    start(2);
    node_join(a, 1);
    node_send(a, 2, 100, 0);
    node_flush(a);
    RUN_UNTIL(&rig, b->told[1].messages == 1);
    node_stop(b);
    RUN_UNTIL(&rig, a->told[2].downs == 1);
    run_for(&rig, 50);
    ck_assert_uint_eq(a->told[2].refused_downs, 0); /* nobody dials it */
    RUN_UNTIL(&rig, lq_links_find(a->links, 2) == NULL);
}
END_TEST

START_TEST(a_member_that_moves_is_linked_anew)
{
    struct node *a = &rig.nodes[1], *b = &rig.nodes[2];
    struct lq_members members = {.n = 0};
    unsigned port = free_port(&rig);
    start(2);
    add_member(&members, 1, a->port);
    add_member(&members, 2, port);
    node_set_members(a, &members);
    RUN_UNTIL(&rig, a->told[2].downs == 1);
    node_stop(b);
    b->port = port;
    node_start(b);
    RUN_UNTIL(&rig, are_linked(a, b));
    ck_assert(lq_links_find(a->links, 2)->link->is_dialled);
}
END_TEST

START_TEST(names_are_resolved)
{
    struct node *a = &rig.nodes[1], *b = &rig.nodes[2];
    struct lq_members members = {.n = 0};
    add_member_at(&members, 2, "localhost", b->port);
    add_member_at(&members, 3, "no-such-host.invalid", b->port);
    node_start(a);
    node_set_members(a, &members);
    RUN_UNTIL(&rig, a->told[2].refused_downs > 0); /* whatever addresses the name has */
    node_start(b);
    RUN_UNTIL(&rig, are_linked(a, b));
    RUN_UNTIL(&rig, log_lines(&rig, "cannot resolve") == 1);
    ck_assert_uint_eq(a->told[3].refused_downs, 0); /* that is no sign of a dead process */
}
END_TEST

/* ---- Closing. */

/* At any moment of setting up, with connections in all states; a sanitizer looks for what is left.
 */
START_TEST(closing_leaves_nothing)
{
    for (int round = 0; round < 60; round++) {
        int fds[3];
        for (uint32_t id = 1; id < NODES; id++) {
            node_start(&rig.nodes[id]);
            node_join(&rig.nodes[id], 3);
            rig.nodes[id].cannot_greet = lq_rand_below(&rig.rand, 6) == 0;
        }
        fds[0] = raw_connect(rig.nodes[1].port);
        fds[1] = raw_connect(rig.nodes[1].port);
        raw_send(fds[1], "x", 1);
        fds[2] = raw_connect(rig.nodes[1].port);
        raw_hello(fds[2], &(struct lq_hello){.cluster = 1, .from = 2, .to = 1, .boot = 1});
        for (uint64_t i = lq_rand_below(&rig.rand, 12); i > 0; i--) {
            uv_run(&rig.loop, UV_RUN_NOWAIT);
        }
        for (uint32_t id = 1; id < NODES; id++) {
            node_send(&rig.nodes[id], id % 3 + 1, 1 << 20, 0);
            node_flush(&rig.nodes[id]);
        }
        for (uint32_t id = 1; id < NODES; id++) {
            node_stop(&rig.nodes[id]);
        }
        for (int i = 0; i < 3; i++) {
            close(fds[i]);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("links");
    TCase *tests = tcase_create("links");
    seed = lq_test_seed();
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, a_link_comes_up_from_either_side, 1, 3);
    tcase_add_loop_test(tests, three_nodes_are_linked, 0, 2);
    tcase_add_test(tests, nothing_is_said_before_a_node_can_greet);
    tcase_add_test(tests, messages_of_all_sizes_arrive_in_order);
    tcase_add_test(tests, many_small_messages_arrive_in_order);
    tcase_add_test(tests, what_is_not_flushed_waits);
    tcase_add_loop_test(tests, a_peer_that_stops_is_told_at_once, 1, 3);
    tcase_add_loop_test(tests, a_killed_process_is_told_at_once, 0, 2);
    tcase_add_test(tests, a_peer_that_comes_back_is_linked_again);
    tcase_add_loop_test(tests, a_new_life_replaces_the_old_link, 1, 3);
    tcase_add_test(tests, a_peer_that_was_never_there_is_refused);
    tcase_add_loop_test(tests, an_unlinked_peer_hears_the_last_words, 1, 3);
    tcase_add_test(tests, a_link_may_be_closed_while_it_is_read);
    tcase_add_test(tests, a_member_that_is_dropped_keeps_its_link);
    tcase_add_test(tests, a_member_that_moves_is_linked_anew);
    tcase_add_test(tests, names_are_resolved);
    tcase_add_test(tests, closing_leaves_nothing);
    suite_add_tcase(suite, tests);
    return lq_test_run(suite);
}
