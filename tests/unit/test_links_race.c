/* Both nodes dial at the same time, over a network with delays: whatever comes first, they keep the
 * same connection, without having had another one for a moment; and the same after it broke. */
#include "test_links_rig.h"

#define DELAY_MAX_MS 8
#define ENDS_MAX     64

static uint64_t seed;
static struct rig rig;
static struct node *a, *b;

/* ---- A network: whatever comes in on one end goes out at the other, some time later. */

struct packet {
    struct packet *next;
    uint64_t due_ms;
    size_t len; /* 0: the end */
    char bytes[256];
};

struct end {
    uv_tcp_t tcp;
    struct end *other;
    struct packet *first, **last; /* on their way from here to the other end */
    uint64_t delay_ms;
    bool is_closed;
};

static struct {
    uv_tcp_t ports[3]; /* that stand for those of nodes 1 and 2 */
    unsigned numbers[3];
    uv_timer_t timer;
    struct end *ends[ENDS_MAX];
    size_t n;
} net;

static void on_end_closed(uv_handle_t *handle)
{
    struct end *end = (struct end *)(void *)handle;
    while (end->first != NULL) {
        struct packet *packet = end->first;
        end->first = packet->next;
        free(packet);
    }
    for (size_t i = 0; i < net.n; i++) {
        if (net.ends[i] == end) {
            net.ends[i] = net.ends[--net.n];
        }
    }
    free(end);
}

static void close_end(struct end *end)
{
    if (end->is_closed) {
        return;
    }
    end->is_closed = true;
    if (end->other != NULL) {
        end->other->other = NULL;
    }
    uv_close((uv_handle_t *)&end->tcp, on_end_closed);
}

static void on_room(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    struct packet *packet = calloc(1, sizeof *packet);
    (void)handle;
    (void)size;
    *buf = uv_buf_init(packet->bytes, sizeof packet->bytes);
}

static void on_bytes(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct end *end = (struct end *)(void *)stream;
    struct packet *packet = (struct packet *)(void *)(buf->base - offsetof(struct packet, bytes));
    packet->len = len > 0 ? (size_t)len : 0;
    packet->due_ms = lq_clock_ms() + end->delay_ms;
    *end->last = packet;
    end->last = &packet->next;
    if (len < 0) {
        uv_read_stop(stream);
    }
}

static void on_network(uv_timer_t *timer)
{
    (void)timer;
    for (size_t i = 0; i < net.n; i++) {
        struct end *end = net.ends[i], *other = end->other;
        while (!end->is_closed && end->first != NULL && end->first->due_ms <= lq_clock_ms()) {
            struct packet *packet = end->first;
            uv_buf_t buf = uv_buf_init(packet->bytes, (unsigned)packet->len);
            end->first = packet->next;
            end->last = end->first == NULL ? &end->first : end->last;
            if (packet->len > 0 && other != NULL) {
                (void)uv_try_write((uv_stream_t *)&other->tcp, &buf, 1); /* it may be gone */
            } else if (packet->len == 0) {
                close_end(end);
                if (other != NULL) {
                    close_end(other);
                }
            }
            free(packet);
        }
    }
}

static struct end *add_end(void)
{
    struct end *end = calloc(1, sizeof *end);
    ck_assert_uint_lt(net.n, ENDS_MAX);
    ck_assert(uv_tcp_init(&rig.loop, &end->tcp) == 0);
    end->last = &end->first;
    end->delay_ms = lq_rand_below(&rig.rand, DELAY_MAX_MS + 1);
    net.ends[net.n++] = end;
    return end;
}

static void on_connected(uv_connect_t *request, int status)
{
    struct end *end = request->data;
    free(request);
    if (status != 0 || end->is_closed || end->other == NULL) {
        close_end(end);
        return;
    }
    ck_assert(uv_read_start((uv_stream_t *)&end->tcp, on_room, on_bytes) == 0);
    ck_assert(uv_read_start((uv_stream_t *)&end->other->tcp, on_room, on_bytes) == 0);
}

static void on_dialled(uv_stream_t *port, int status)
{
    unsigned id = port == (uv_stream_t *)&net.ports[1] ? 1 : 2;
    struct sockaddr_in address;
    struct end *in = add_end(), *out = add_end();
    uv_connect_t *request = calloc(1, sizeof *request);
    ck_assert(status == 0 && uv_accept(port, (uv_stream_t *)&in->tcp) == 0);
    in->other = out;
    out->other = in;
    request->data = out;
    ck_assert(uv_ip4_addr("127.0.0.1", (int)rig.nodes[id].port, &address) == 0);
    ck_assert(uv_tcp_connect(request, &out->tcp, (struct sockaddr *)&address, on_connected) == 0);
}

static void net_start(void)
{
    struct sockaddr_in address;
    ck_assert(uv_timer_init(&rig.loop, &net.timer) == 0);
    ck_assert(uv_timer_start(&net.timer, on_network, 1, 1) == 0);
    for (int id = 1; id <= 2; id++) {
        net.numbers[id] = free_port(&rig);
        ck_assert(uv_ip4_addr("127.0.0.1", (int)net.numbers[id], &address) == 0);
        ck_assert(uv_tcp_init(&rig.loop, &net.ports[id]) == 0);
        ck_assert(uv_tcp_bind(&net.ports[id], (struct sockaddr *)&address, 0) == 0);
        ck_assert(uv_listen((uv_stream_t *)&net.ports[id], 10, on_dialled) == 0);
    }
}

static void net_break(void)
{
    for (size_t i = 0; i < net.n; i++) {
        struct end *other = net.ends[i]->other;
        close_end(net.ends[i]);
        if (other != NULL) {
            close_end(other);
        }
    }
}

static void net_stop(void)
{
    net_break();
    uv_close((uv_handle_t *)&net.timer, NULL);
    uv_close((uv_handle_t *)&net.ports[1], NULL);
    uv_close((uv_handle_t *)&net.ports[2], NULL);
}

/* ---- The nodes on it. */

static void join(struct node *node)
{
    struct lq_members members = {.n = 0};
    add_member(&members, 1, net.numbers[1]);
    add_member(&members, 2, net.numbers[2]);
    node_set_members(node, &members);
}

static void setup(void)
{
    rig_init(&rig, seed, 3);
    a = &rig.nodes[1];
    b = &rig.nodes[2];
    net_start();
}

static void teardown(void)
{
    node_stop(a);
    node_stop(b);
    net_stop();
    rig_done(&rig);
}

/* Both have one connection and no other, which carries messages both ways. */
static void check_linked(unsigned ups)
{
    RUN_UNTIL(&rig, a->told[2].is_linked && b->told[1].is_linked && count_conns(a) == 1 &&
                        count_conns(b) == 1);
    node_send(a, 2, 100, 0);
    node_send(b, 1, 100, 0);
    node_flush(a);
    node_flush(b);
    RUN_UNTIL(&rig, a->told[2].next == 1 && b->told[1].next == 1);
    ck_assert_uint_eq(a->told[2].ups, ups);
    ck_assert_uint_eq(b->told[1].ups, ups);
    ck_assert_uint_eq(a->told[2].downs, ups - 1);
    ck_assert_uint_eq(b->told[1].downs, ups - 1);
    ck_assert_uint_eq(a->told[2].refused_downs + b->told[1].refused_downs, 0);
}

START_TEST(both_dial_at_once)
{
    unsigned by_a = 0, rounds = (unsigned)lq_test_number("LQ_ROUNDS", 150);
    for (unsigned round = 0; round < rounds; round++) {
        struct node *first = lq_rand_below(&rig.rand, 2) == 0 ? a : b;
        struct node *second = first == a ? b : a;
        node_start(a);
        node_start(b);
        join(first);
        if (lq_rand_below(&rig.rand, 3) > 0) {
            run_for(&rig, lq_rand_below(&rig.rand, 2 * DELAY_MAX_MS));
        }
        join(second);
        check_linked(1);
        by_a += lq_links_find(a->links, 2)->link->is_dialled;
        node_stop(a);
        node_stop(b);
        RUN_UNTIL(&rig, net.n == 0);
    }
    ck_assert_uint_gt(by_a, rounds / 10); /* it is not one of them that always wins */
    ck_assert_uint_lt(by_a, rounds);
}
END_TEST

/* The link breaks for both at about the same time, so both dial. */
START_TEST(both_dial_again_at_once)
{
    unsigned rounds = (unsigned)lq_test_number("LQ_ROUNDS", 100);
    for (unsigned round = 0; round < rounds; round++) {
        node_start(a);
        node_start(b);
        join(a);
        join(b);
        check_linked(1);
        net_break();
        RUN_UNTIL(&rig, a->told[2].downs == 1 && b->told[1].downs == 1);
        check_linked(2);
        node_stop(a);
        node_stop(b);
        RUN_UNTIL(&rig, net.n == 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("links_race");
    TCase *tests = tcase_create("links_race");
    seed = lq_test_seed();
    tcase_set_timeout(tests, 180);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, both_dial_at_once);
    tcase_add_test(tests, both_dial_again_at_once);
    suite_add_tcase(suite, tests);
    return lq_test_run(suite);
}
