/* What comes from outside is hostile until checked: whatever a stranger sends, its connection is
 * closed with one line in the log, and the links of the others stay as they are. A peer that is
 * refused hears why; one that does not read costs itself. */
#include "test_links_rig.h"

static uint64_t seed;
static struct rig rig;
static struct node *a, *b;

/* Nodes 1 and 2 are linked, and stay so whatever a test does. */
static void setup(void)
{
    rig_init(&rig, seed, 2);
    a = &rig.nodes[1];
    b = &rig.nodes[2];
    node_start(a);
    node_start(b);
    node_join(a, 2);
    node_join(b, 2);
    RUN_UNTIL(&rig, are_linked(a, b));
}

static void teardown(void)
{
    rig_done(&rig);
}

/* The link between the two carries messages, and it is still the first one. */
static void check_unharmed(void)
{
    unsigned number = a->told[2].messages;
    node_send(b, 1, 1000, number);
    node_flush(b);
    RUN_UNTIL(&rig, a->told[2].messages == number + 1);
    ck_assert_uint_eq(a->told[2].ups, 1);
    ck_assert_uint_eq(a->told[2].downs, 0);
    ck_assert_uint_eq(b->told[1].downs, 0);
}

/* ---- Strangers. */

#define HELLO "\0\0\0\x20LQND\1\0\0\0\0\0\0\0\0\0\0\xC1\0\0\0\3\0\0\0\1\0\0\0\0\0\0\0\1"

/* `len` bytes, then the end of the sender's side if `ends`. */
static const struct {
    const char *bytes;
    size_t len;
    bool ends;
    unsigned lines;
} garbage[] = {
#define BYTES(text) text, sizeof(text) - 1
    {BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), false, 1},
    {BYTES("\0\0\0\0"), false, 1},
    {BYTES("\xff\xff\xff\xff"), false, 1},
    {BYTES("\0\x40\0\0"), false, 1}, /* a message may be that long, a hello not */
    {BYTES("\0\0\0\x41"), false, 1},
    {BYTES("\0\0\0\x20LQNE\1\0\0\0\0\0\0\0\0\0\0\xC1\0\0\0\3\0\0\0\1\0\0\0\0\0\0\0\1"), false, 1},
    {BYTES("\0\0\0\x10LQNR\1\4\0\0\0\0\0\0\0\0\0\xC1"), false, 1}, /* refusing, not asked */
    {BYTES("\0\0\0\x20LQND\1\0\0\0\0\0\0"), true, 1},              /* cut off */
    {BYTES("\0"), true, 1},
    {BYTES(""), true, 0}, /* a look whether somebody listens */
    {BYTES(HELLO "more"), false, 1},
    {BYTES(HELLO HELLO), false, 1},
#undef BYTES
};

START_TEST(a_stranger_is_closed_with_one_line)
{
    int fd = raw_connect(a->port);
    unsigned before = log_lines(&rig, "");
    raw_send(fd, garbage[_i].bytes, garbage[_i].len);
    if (garbage[_i].ends) {
        ck_assert(shutdown(fd, SHUT_WR) == 0);
    }
    RUN_UNTIL(&rig, raw_is_closed(fd));
    RUN_UNTIL(&rig, count_conns(a) == 1);
    ck_assert_uint_eq(log_lines(&rig, "") - before, garbage[_i].lines);
    ck_assert_uint_eq(a->told[3].ups, 0);
    check_unharmed();
    close(fd);
}
END_TEST

/* However often it comes back. */
START_TEST(strangers_of_one_address_get_one_line_a_second)
{
    uint64_t begin_ms = lq_clock_ms(), took_s;
    for (int i = 0; i < 200; i++) {
        int fd = raw_connect(a->port);
        uint8_t bytes[100];
        lq_rand_fill(&rig.rand, bytes, sizeof bytes);
        bytes[0] |= 1; /* a length that nothing has */
        raw_send(fd, bytes, sizeof bytes);
        RUN_UNTIL(&rig, raw_is_closed(fd));
        close(fd);
    }
    took_s = (lq_clock_ms() - begin_ms) / LQ_BAD_FRAME_LOG_MS;
    ck_assert_uint_ge(log_lines(&rig, "closed a connection"), 1);
    ck_assert_uint_le(log_lines(&rig, "closed a connection"), took_s + 1);
    check_unharmed();
}
END_TEST

/* More than there may be: the oldest make room, and a peer still gets in. */
START_TEST(a_silent_crowd_keeps_nobody_out)
{
    enum { CROWD = 3 * LQ_NAMELESS_MAX };
    int fds[CROWD];
    unsigned n_closed = 0;
    for (int i = 0; i < CROWD; i++) {
        fds[i] = raw_connect(a->port);
        uv_run(&rig.loop, UV_RUN_NOWAIT);
    }
    RUN_UNTIL(&rig, raw_is_closed(fds[CROWD - LQ_NAMELESS_MAX - 1]));
    for (int i = 0; i < CROWD; i++) {
        n_closed += raw_is_closed(fds[i]);
    }
    ck_assert_uint_eq(n_closed, CROWD - LQ_NAMELESS_MAX);
    node_start(&rig.nodes[3]);
    node_join(&rig.nodes[3], 3);
    RUN_UNTIL(&rig, are_linked(a, &rig.nodes[3]));
    check_unharmed();
    for (int i = 0; i < CROWD; i++) {
        close(fds[i]);
    }
}
END_TEST

/* ---- Silence. All of it in one test: it takes as long as the silence lasts. */

START_TEST(silence_is_closed_in_time)
{
    int silent = raw_connect(a->port), half = raw_connect(a->port), held, mute;
    uint64_t begin_ms = lq_clock_ms();
    struct node *c = &rig.nodes[3];
    raw_send(half, HELLO, 20);
    node_start(c);
    c->cannot_greet = true; /* its own boot counter does not become durable */
    held = raw_connect(c->port);
    raw_hello(held, &(struct lq_hello){.cluster = CLUSTER, .from = 1, .to = 3, .boot = 1});
    node_stop(b); /* somebody else listens in its place, and never says a word */
    RUN_UNTIL(&rig, a->told[2].refused_downs == 1);
    mute = raw_listen(b->port);
    a->told[2].refused_downs = 0;
    RUN_UNTIL(&rig, raw_is_closed(silent) && raw_is_closed(half) && raw_is_closed(held));
    ck_assert_uint_ge(lq_clock_ms() - begin_ms, LQ_GREETING_MS);
    ck_assert_uint_le(lq_clock_ms() - begin_ms, LQ_GREETING_MS + 2000);
    RUN_UNTIL(&rig, log_lines(&rig, "cannot reach a node\" node=2") == 2);
    ck_assert_str_eq(lq_links_status(a->links, 2).text, "it did not say hello in time");
    ck_assert_uint_eq(a->told[2].refused_downs, 0); /* frozen is not dead */
    close(mute);
    close(silent);
    close(half);
    close(held);
}
END_TEST

/* ---- Hellos that lie. */

/* Somebody repeats what node 2 once said. The link lives on: it is kept, also when it stands still
 * for a while. */
START_TEST(a_replayed_hello_changes_nothing)
{
    int fd = raw_connect(a->port);
    struct lq_hello hello = hello_of(b, 1);
    unsigned before = log_lines(&rig, "");
    raw_hello(fd, &hello);
    run_for(&rig, LQ_CONTEST_ALIVE_MS + 50);
    ck_assert(!raw_is_closed(fd));
    check_unharmed();
    RUN_UNTIL(&rig, raw_waiting(fd) == LQ_REFUSAL_BYTES);
    RUN_UNTIL(&rig, raw_is_closed(fd));
    ck_assert_uint_eq(log_lines(&rig, "") - before, 1);
    ck_assert_uint_eq(log_lines(&rig, "refused a node"), 1);
    check_unharmed();
    close(fd);
}
END_TEST

/* A peer whose old connection is silent because its host was gone gets in after a while. */
START_TEST(a_silent_link_is_replaced)
{
    int old = raw_connect(a->port), new;
    struct lq_hello hello = {.cluster = CLUSTER, .from = 3, .to = 1, .boot = 7};
    raw_hello(old, &hello);
    RUN_UNTIL(&rig, a->told[3].ups == 1);
    new = raw_connect(a->port);
    raw_hello(new, &hello);
    RUN_UNTIL(&rig, a->told[3].ups == 2);
    ck_assert_uint_eq(a->told[3].downs, 0);
    RUN_UNTIL(&rig, raw_is_closed(old));
    ck_assert(!raw_is_closed(new));
    check_unharmed();
    close(old);
    close(new);
}
END_TEST

START_TEST(an_earlier_life_is_refused)
{
    int fd = raw_connect(a->port);
    struct lq_hello hello = hello_of(b, 1);
    hello.boot--;
    raw_hello(fd, &hello);
    RUN_UNTIL(&rig, raw_waiting(fd) == LQ_REFUSAL_BYTES);
    RUN_UNTIL(&rig, raw_is_closed(fd));
    check_unharmed();
    close(fd);
}
END_TEST

/* ---- Bad messages over a link. */

static const struct {
    const char *bytes;
    size_t len;
} bad_messages[] = {
#define BYTES(text)                                                                                \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
    BYTES("\0\0\0\x04"
          "abcd"),
    BYTES("\0\0\0\0"),
    BYTES("\0\x40\0\1"),
    BYTES("\xff\xff\xff\xff"),
    BYTES(HELLO),
    BYTES("GET / HTTP/1.1\r\n\r\n"),
#undef BYTES
};

START_TEST(a_bad_message_ends_the_link)
{
    int fd = raw_connect(a->port);
    struct lq_hello hello = {.cluster = CLUSTER, .from = 3, .to = 1, .boot = 7};
    unsigned before;
    raw_hello(fd, &hello);
    RUN_UNTIL(&rig, a->told[3].is_linked && raw_waiting(fd) == LQ_HELLO_BYTES);
    before = log_lines(&rig, "");
    raw_send(fd, bad_messages[_i].bytes, bad_messages[_i].len);
    RUN_UNTIL(&rig, raw_is_closed(fd) && a->told[3].downs == 1);
    ck_assert_uint_eq(log_lines(&rig, "") - before, 1);
    check_unharmed();
    close(fd);
}
END_TEST

/* A length takes no memory: only bytes do. */
START_TEST(an_announced_message_takes_no_room)
{
    int fd = raw_connect(a->port);
    struct lq_hello hello = {.cluster = CLUSTER, .from = 3, .to = 1, .boot = 7};
    raw_hello(fd, &hello);
    RUN_UNTIL(&rig, a->told[3].is_linked);
    raw_send(fd, "\0\x40\0\0 a beginning", 16);
    RUN_UNTIL(&rig, lq_links_status(a->links, 3).received_bytes == LQ_HELLO_BYTES + 16);
    ck_assert_uint_le(lq_links_find(a->links, 3)->link->in.cap, 2 * LQ_PIECE_BYTES);
    check_unharmed();
    close(fd);
}
END_TEST

/* ---- Refusals. */

static const struct {
    enum lq_link_verdict verdict;
    const char *words;
} refusals[] = {
    {LQ_LINK_WRONG_CLUSTER, "node there is of another cluster"},
    {LQ_LINK_WRONG_NODE, "another id"},
    {LQ_LINK_NOT_MEMBER, "this node was removed"},
    {LQ_LINK_LOST_DISK, "loquet member replace"},
    {LQ_LINK_OLD_DISK, "a copy"},
    {LQ_LINK_OLD_LIFE, "has met a later life"},
};

/* The dialler hears why, each time, and logs it once. */
START_TEST(a_refused_dialler_hears_why)
{
    struct node *c = &rig.nodes[3];
    a->verdicts[3] = refusals[_i].verdict;
    node_start(c);
    node_join(c, 1);
    RUN_UNTIL(&rig, c->told[1].refusals >= (_i == 0 ? 3 : 1)); /* each takes a second */
    ck_assert_int_eq(c->told[1].refusal, refusals[_i].verdict);
    ck_assert_uint_eq(log_lines(&rig, "refused by a node"), 1);
    ck_assert_uint_eq(log_lines(&rig, refusals[_i].words), 1);
    ck_assert_uint_eq(log_lines(&rig, "refused a node"), 1);
    ck_assert_uint_eq(c->told[1].ups + c->told[1].downs + c->told[1].refused_downs, 0);
    ck_assert(lq_links_status(c->links, 1).text[0] != '\0');
    check_unharmed();
    if (_i == 0) {
        a->verdicts[3] = LQ_LINK_OK;
        RUN_UNTIL(&rig, are_linked(a, c));
    }
}
END_TEST

/* A node that was dialled hears why too, over the link that it took for good. */
START_TEST(a_dialler_may_refuse_the_answer)
{
    struct node *c = &rig.nodes[3];
    c->verdicts[1] = refusals[_i].verdict;
    node_start(c);
    node_join(c, 1);
    RUN_UNTIL(&rig, a->told[3].refusals > 0);
    ck_assert_int_eq(a->told[3].refusal, refusals[_i].verdict);
    ck_assert_uint_eq(a->told[3].downs, a->told[3].ups);
    ck_assert_uint_eq(log_lines(&rig, "refused by a node"), 1);
    check_unharmed();
}
END_TEST

START_TEST(a_node_of_another_cluster_is_refused)
{
    struct node *c = &rig.nodes[3];
    c->cluster = 0xC2;
    node_start(c);
    node_join(c, 1);
    RUN_UNTIL(&rig, c->told[1].refusals > 0);
    ck_assert_int_eq(c->told[1].refusal, LQ_LINK_WRONG_CLUSTER);
    ck_assert_uint_eq(log_lines(&rig, "its_cluster=00000000000000c1"), 1);
    check_unharmed();
}
END_TEST

/* ---- A peer that does not read. */

START_TEST(a_peer_that_does_not_read_is_full_and_recovers)
{
    int fd = raw_connect(a->port);
    struct lq_hello hello = {.cluster = CLUSTER, .from = 3, .to = 1, .boot = 7};
    uint32_t number = 0;
    raw_hello(fd, &hello);
    RUN_UNTIL(&rig, a->told[3].is_linked);
    while (!a->told[3].is_full) {
        node_send(a, 3, 60000, number++);
        node_flush(a);
        uv_run(&rig.loop, UV_RUN_NOWAIT);
        ck_assert_uint_lt(number, 10000);
    }
    ck_assert(lq_links_status(a->links, 3).is_full);
    ck_assert_uint_ge(lq_links_status(a->links, 3).queued_bytes, 256 << 10);
    check_unharmed();
    RUN_UNTIL(&rig, !raw_is_closed(fd) && !a->told[3].is_full); /* reads what is there */
    RUN_UNTIL(&rig, !raw_is_closed(fd) && lq_links_status(a->links, 3).queued_bytes == 0);
    ck_assert_uint_eq(a->told[3].downs, 0);
    close(fd);
}
END_TEST

START_TEST(a_queue_has_an_end)
{
    int fd = raw_connect(a->port);
    struct lq_hello hello = {.cluster = CLUSTER, .from = 3, .to = 1, .boot = 7};
    uint32_t number = 0;
    raw_hello(fd, &hello);
    RUN_UNTIL(&rig, a->told[3].is_linked);
    while (lq_links_status(a->links, 3).is_up) {
        ck_assert_uint_le(lq_links_status(a->links, 3).queued_bytes, 64 << 20);
        node_send(a, 3, 1 << 20, number++);
        node_flush(a);
        ck_assert_uint_lt(number, 200);
    }
    ck_assert_uint_ge(number, 64);
    ck_assert_uint_eq(a->told[3].downs, 0); /* not inside of a call */
    RUN_UNTIL(&rig, a->told[3].downs == 1);
    ck_assert_uint_eq(log_lines(&rig, "too much waits"), 1);
    check_unharmed();
    close(fd);
}
END_TEST

#define N(table) ((int)(sizeof(table) / sizeof *(table)))

int main(void)
{
    Suite *suite = suite_create("links_hostile");
    TCase *tests = tcase_create("links_hostile");
    seed = lq_test_seed();
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, a_stranger_is_closed_with_one_line, 0, N(garbage));
    tcase_add_test(tests, strangers_of_one_address_get_one_line_a_second);
    tcase_add_test(tests, a_silent_crowd_keeps_nobody_out);
    tcase_add_test(tests, silence_is_closed_in_time);
    tcase_add_test(tests, a_replayed_hello_changes_nothing);
    tcase_add_test(tests, a_silent_link_is_replaced);
    tcase_add_test(tests, an_earlier_life_is_refused);
    tcase_add_loop_test(tests, a_bad_message_ends_the_link, 0, N(bad_messages));
    tcase_add_test(tests, an_announced_message_takes_no_room);
    tcase_add_loop_test(tests, a_refused_dialler_hears_why, 0, N(refusals));
    tcase_add_loop_test(tests, a_dialler_may_refuse_the_answer, 0, N(refusals));
    tcase_add_test(tests, a_node_of_another_cluster_is_refused);
    tcase_add_test(tests, a_peer_that_does_not_read_is_full_and_recovers);
    tcase_add_test(tests, a_queue_has_an_end);
    suite_add_tcase(suite, tests);
    return lq_test_run(suite);
}
