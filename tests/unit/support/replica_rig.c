#include "replica_rig.h"

#include "lq_check.h"
#include "lq_mem.h"
#include "lq_test.h"
#include "replica_disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum input_kind {
    INPUT_UP,
    INPUT_DOWN,
    INPUT_MESSAGE,
};

struct input {
    struct lq_list in_inbox;
    enum input_kind kind;
    uint32_t from;
    uint64_t due_ms;
    struct lq_hello hello;
    size_t len;
    uint8_t bytes[];
};

static const uint8_t secret[16] = "hashed like this";

/* Each node's clock shows something else. */
static uint64_t own_ms(const struct lq_nodes *nodes, uint32_t id)
{
    return nodes->now_ms + UINT64_C(100000) * id;
}

/* ---- Beginning and end. */

void lq_nodes_init(struct lq_nodes *nodes, unsigned n)
{
    *nodes = (struct lq_nodes){.now_ms = 1000, .latency_ms = 1};
    lq_replica_defaults(&nodes->options);
    nodes->options.cluster = 7;
    nodes->options.segment_bytes = 64 * LQ_SECTOR;
    nodes->options.entry_bytes = 8192;
    memcpy(nodes->options.secret, secret, sizeof secret);
    for (uint32_t id = 1; id <= LQ_NODES_MAX; id++) {
        char address[16];
        nodes->nodes[id].id = id;
        lq_list_init(&nodes->nodes[id].inbox);
        (void)snprintf(address, sizeof address, "node%u:1", id);
        if (id <= n) {
            LQ_CHECK(lq_members_add(&nodes->options.bootstrap, id, address, LQ_ROLE_VOTER));
        }
    }
}

static void drop_inbox(struct lq_nodes_node *node)
{
    struct lq_list *member;
    while ((member = lq_list_take(&node->inbox)) != NULL) {
        lq_free(LQ_CONTAINER(member, struct input, in_inbox));
    }
}

static void end_client(struct lq_rig_client *client, enum lq_rig_end how)
{
    client->session = NULL;
    client->end = how;
}

static void stop_process(struct lq_nodes *nodes, struct lq_nodes_node *node)
{
    for (size_t i = 0; i < nodes->n_clients; i++) {
        if (nodes->client_of[i] == node->id && nodes->clients[i]->session != NULL) {
            end_client(nodes->clients[i], LQ_RIG_BROKEN);
        }
    }
    lq_hub_free(node->hub);
    lq_replica_free(node->replica);
    node->hub = NULL;
    node->replica = NULL;
    node->n_pending = 0;
    drop_inbox(node);
}

void lq_nodes_done(struct lq_nodes *nodes)
{
    for (uint32_t id = 1; id <= LQ_NODES_MAX; id++) {
        stop_process(nodes, &nodes->nodes[id]);
        lq_nodes_wipe(&nodes->nodes[id]);
    }
    for (size_t i = 0; i < nodes->n_clients; i++) {
        free(nodes->clients[i]->requests.at);
        free(nodes->clients[i]->answers.at);
        free(nodes->clients[i]->text.at);
        lq_free(nodes->clients[i]);
    }
}

/* ---- Links and messages. */

static void put_input(struct lq_nodes_node *to, struct input input, const uint8_t *bytes)
{
    struct input *queued = lq_malloc(sizeof *queued + input.len);
    *queued = input;
    if (input.len > 0) {
        memcpy(queued->bytes, bytes, input.len);
    }
    lq_list_init(&queued->in_inbox);
    lq_list_append(&to->inbox, &queued->in_inbox);
}

void lq_nodes_kill(struct lq_nodes *nodes, uint32_t id)
{
    stop_process(nodes, &nodes->nodes[id]);
    for (uint32_t other = 1; other <= LQ_NODES_MAX; other++) {
        struct lq_nodes_node *peer = &nodes->nodes[other];
        nodes->nodes[id].is_linked[other] = false;
        if (peer->is_linked[id]) {
            peer->is_linked[id] = false;
            put_input(peer,
                      (struct input){.kind = INPUT_DOWN, .from = id, .due_ms = nodes->now_ms + 1},
                      NULL);
        }
    }
}

static bool can_link(const struct lq_nodes_node *node)
{
    return node->replica != NULL && !node->is_paused && lq_replica_status(node->replica).boot != 0;
}

static void make_links(struct lq_nodes *nodes)
{
    for (uint32_t a = 1; a <= LQ_NODES_MAX; a++) {
        for (uint32_t b = a + 1; b <= LQ_NODES_MAX; b++) {
            struct lq_nodes_node *one = &nodes->nodes[a], *two = &nodes->nodes[b];
            if (one->is_linked[b] || !can_link(one) || !can_link(two)) {
                continue;
            }
            one->is_linked[b] = two->is_linked[a] = true;
            put_input(one,
                      (struct input){
                          .kind = INPUT_UP, .from = b, .hello = lq_replica_hello(two->replica, a)},
                      NULL);
            put_input(two,
                      (struct input){
                          .kind = INPUT_UP, .from = a, .hello = lq_replica_hello(one->replica, b)},
                      NULL);
        }
    }
}

static void send_one(struct lq_nodes *nodes, uint32_t from, uint32_t to, const uint8_t *body,
                     size_t len)
{
    struct input input = {.kind = INPUT_MESSAGE,
                          .from = from,
                          .due_ms = nodes->now_ms + nodes->latency_ms,
                          .len = len};
    enum lq_nodes_fate fate = LQ_NODES_PASS;
    struct lq_message message;
    ck_assert(lq_message_decode(body, len, &message));
    if (nodes->is_cut[from][to] || !nodes->nodes[from].is_linked[to]) {
        return;
    }
    if (nodes->filter != NULL) {
        fate = nodes->filter(from, to, &message);
    }
    if (fate == LQ_NODES_DROP) {
        return;
    }
    input.due_ms += fate == LQ_NODES_LATE ? 5 : 0;
    put_input(&nodes->nodes[to], input, body);
    if (fate == LQ_NODES_TWICE) {
        put_input(&nodes->nodes[to], input, body);
    }
}

static void send_all(struct lq_nodes *nodes, uint32_t from, const struct lq_effect *effect)
{
    const uint8_t *at = effect->bytes, *body;
    size_t left = effect->len, len, used;
    while (left > 0) {
        ck_assert_int_eq(lq_message_unframe(at, left, LQ_MESSAGE_MAX, &body, &len, &used),
                         LQ_FRAMED_ONE);
        send_one(nodes, from, effect->node, body, len);
        at += used;
        left -= used;
    }
}

static void act_on(struct lq_nodes_node *node, const struct input *input)
{
    switch (input->kind) {
    case INPUT_UP:
        ck_assert_int_eq(lq_replica_link_up(node->replica, &input->hello), LQ_LINK_OK);
        break;
    case INPUT_DOWN:
        lq_replica_link_down(node->replica, input->from, true);
        break;
    case INPUT_MESSAGE:
        ck_assert(lq_replica_receive(node->replica, input->from, input->bytes, input->len));
        break;
    }
}

static bool has_input(const struct lq_nodes *nodes, const struct lq_nodes_node *node)
{
    for (const struct lq_list *at = node->inbox.next; at != &node->inbox; at = at->next) {
        if (LQ_CONTAINER(at, const struct input, in_inbox)->due_ms <= nodes->now_ms) {
            return true;
        }
    }
    return node->n_pending > 0 && !node->holds_disk;
}

static void act_on_all(const struct lq_nodes *nodes, struct lq_nodes_node *node)
{
    struct lq_list *at = node->inbox.next, *next;
    for (; at != &node->inbox; at = next) {
        struct input *input = LQ_CONTAINER(at, struct input, in_inbox);
        next = at->next;
        if (input->due_ms <= nodes->now_ms) {
            lq_list_remove(at);
            act_on(node, input);
            lq_free(input);
        }
    }
}

/* ---- Clients. */

struct lq_rig_client *lq_nodes_connect(struct lq_nodes *nodes, uint32_t id)
{
    struct lq_rig_client *client = lq_calloc(1, sizeof *client);
    LQ_CHECK(nodes->n_clients < LQ_NODES_CLIENTS && nodes->nodes[id].hub != NULL);
    client->window = LQ_RIG_OPEN_WINDOW;
    client->session = lq_session_new(nodes->nodes[id].hub, client);
    nodes->client_of[nodes->n_clients] = id;
    nodes->clients[nodes->n_clients++] = client;
    return client;
}

void lq_nodes_break(struct lq_nodes *nodes, struct lq_rig_client *client)
{
    (void)nodes;
    lq_session_closed(client->session);
    end_client(client, LQ_RIG_BROKEN);
}

static bool is_readable(const struct lq_rig_client *client)
{
    return client->session != NULL && client->arrived < client->requests.len &&
           lq_session_wants_input(client->session);
}

static bool read_clients(struct lq_nodes *nodes, uint32_t id)
{
    bool was_any = false;
    for (size_t i = 0; i < nodes->n_clients; i++) {
        struct lq_rig_client *client = nodes->clients[i];
        if (nodes->client_of[i] == id && is_readable(client)) {
            lq_session_input(client->session, client->requests.at + client->arrived,
                             client->requests.len - client->arrived);
            client->arrived = client->requests.len;
            was_any = true;
        }
    }
    return was_any;
}

static bool is_asked(const struct lq_nodes *nodes, uint32_t id)
{
    for (size_t i = 0; i < nodes->n_clients; i++) {
        if (nodes->client_of[i] == id && is_readable(nodes->clients[i])) {
            return true;
        }
    }
    return false;
}

static void serve(struct lq_rig_client *client)
{
    struct lq_view views[16];
    size_t n;
    while (client->window == LQ_RIG_OPEN_WINDOW &&
           (n = lq_session_views(client->session, views, 16)) > 0) {
        size_t len = 0;
        for (size_t i = 0; i < n; i++) {
            lq_rig_append(&client->answers, views[i].bytes, views[i].len);
            len += views[i].len;
        }
        lq_session_wrote(client->session, len);
        client->delivered += len;
    }
    if (lq_session_wish(client->session) != LQ_WISH_SERVE) {
        enum lq_session_wish wish = lq_session_wish(client->session);
        lq_session_closed(client->session);
        end_client(client, wish == LQ_WISH_CLOSE ? LQ_RIG_CLOSED : LQ_RIG_ABORTED);
    }
}

/* ---- Turns. */

static void take_effects(struct lq_nodes *nodes, struct lq_nodes_node *node)
{
    struct lq_effect effect;
    while (lq_replica_take(node->replica, &effect)) {
        if (effect.kind == LQ_EFFECT_SEND) {
            send_all(nodes, node->id, &effect);
        } else if (effect.kind == LQ_EFFECT_NOTE) {
            node->notes[effect.note]++;
        } else if (effect.kind == LQ_EFFECT_STOP) {
            (void)snprintf(node->stop_text, sizeof node->stop_text, "%s", effect.text);
            ck_assert_msg(node->may_stop, "node %u stops: %s", node->id, effect.text);
            lq_nodes_kill(nodes, node->id);
            return;
        } else if (effect.kind != LQ_EFFECT_UNLINK) {
            lq_nodes_ask_disk(node, &effect);
        }
    }
}

void lq_nodes_start(struct lq_nodes *nodes, uint32_t id)
{
    struct lq_nodes_node *node = &nodes->nodes[id];
    struct lq_replica_options options = nodes->options;
    struct lq_rig_options rig = lq_rig_defaults();
    struct lq_recovery *recovery;
    LQ_CHECK(node->replica == NULL);
    recovery = lq_nodes_recover(node, options.cluster, secret);
    options.node = id;
    options.seed = (uint32_t)lq_test_seed() + 1000 * id + (uint32_t)nodes->now_ms;
    if (lq_members_find(&options.bootstrap, id) == NULL) {
        options.bootstrap.n = 0; /* one that is added later */
    }
    node->replica = lq_replica_new(&options, recovery, own_ms(nodes, id));
    lq_recovery_free(recovery);
    node->hub = lq_hub_new(&rig.hub, lq_replica_backend(node->replica));
    take_effects(nodes, node);
}

static void turn(struct lq_nodes *nodes, struct lq_nodes_node *node)
{
    struct lq_session *session;
    lq_replica_wake(node->replica, own_ms(nodes, node->id));
    if (!node->holds_disk) {
        lq_nodes_run_disk(nodes, node);
    }
    act_on_all(nodes, node);
    (void)read_clients(nodes, node->id);
    lq_replica_turn(node->replica);
    lq_hub_turn(node->hub, own_ms(nodes, node->id));
    while ((session = lq_hub_take_touched(node->hub)) != NULL) {
        serve(lq_session_link(session));
    }
    lq_replica_flush(node->replica);
    take_effects(nodes, node);
}

static bool is_due(const struct lq_nodes *nodes, const struct lq_nodes_node *node)
{
    return node->replica != NULL && !node->is_paused &&
           (has_input(nodes, node) || is_asked(nodes, node->id) ||
            lq_hub_deadline(node->hub) <= own_ms(nodes, node->id));
}

/* Whatever is to be done at this instant. */
static void settle(struct lq_nodes *nodes)
{
    int rounds = 0;
    bool was_any;
    do {
        was_any = false;
        make_links(nodes);
        for (uint32_t id = 1; id <= LQ_NODES_MAX; id++) {
            if (is_due(nodes, &nodes->nodes[id])) {
                turn(nodes, &nodes->nodes[id]);
                was_any = true;
            }
        }
        ck_assert_msg(++rounds < 1000, "a deadline that is always due");
    } while (was_any);
}

void lq_nodes_advance(struct lq_nodes *nodes, uint64_t ms)
{
    settle(nodes);
    for (uint64_t i = 0; i < ms; i++) {
        nodes->now_ms++;
        settle(nodes);
    }
}

/* ---- Reading. */

struct lq_replica_status lq_nodes_status(const struct lq_nodes *nodes, uint32_t id)
{
    LQ_CHECK(nodes->nodes[id].replica != NULL);
    return lq_replica_status(nodes->nodes[id].replica);
}

uint32_t lq_nodes_leader(const struct lq_nodes *nodes)
{
    uint64_t term = 0;
    uint32_t leader = 0;
    for (uint32_t id = 1; id <= LQ_NODES_MAX; id++) {
        if (nodes->nodes[id].replica != NULL) {
            struct lq_replica_status status = lq_nodes_status(nodes, id);
            if (status.role == LQ_REPLICA_LEADER && status.term > term) {
                term = status.term;
                leader = id;
            }
        }
    }
    return leader;
}

static bool all_serve(const struct lq_nodes *nodes, unsigned n)
{
    for (uint32_t id = 1; id <= n; id++) {
        if (!lq_nodes_status(nodes, id).is_serving) {
            return false;
        }
    }
    return lq_nodes_leader(nodes) != 0;
}

uint32_t lq_nodes_form(struct lq_nodes *nodes, unsigned n)
{
    for (uint32_t id = 1; id <= n; id++) {
        lq_nodes_start(nodes, id);
    }
    for (int i = 0; i < 3000 && !all_serve(nodes, n); i++) {
        lq_nodes_advance(nodes, 1);
    }
    ck_assert(all_serve(nodes, n));
    return lq_nodes_leader(nodes);
}

void lq_nodes_lead(struct lq_nodes *nodes, uint32_t id)
{
    for (int i = 0; i < 3000 && lq_nodes_leader(nodes) != id; i++) {
        uint32_t leader = lq_nodes_leader(nodes);
        if (leader != 0) {
            (void)lq_replica_change(nodes->nodes[leader].replica, LQ_CHANGE_TRANSFER, id, NULL);
        }
        lq_nodes_advance(nodes, 1);
    }
    ck_assert_uint_eq(lq_nodes_leader(nodes), id);
    lq_nodes_advance(nodes, 100);
}

void lq_nodes_cut(struct lq_nodes *nodes, uint32_t id, bool is_cut)
{
    for (uint32_t other = 1; other <= LQ_NODES_MAX; other++) {
        nodes->is_cut[id][other] = nodes->is_cut[other][id] = is_cut;
    }
}

uint64_t lq_nodes_holder(const struct lq_nodes *nodes, uint32_t id, const char *key)
{
    struct lq_command expire;
    return lq_table_key_due(lq_replica_table(nodes->nodes[id].replica), (const uint8_t *)key,
                            strlen(key), UINT64_MAX, &expire)
               ? expire.token
               : 0;
}

uint64_t lq_nodes_waiters(const struct lq_nodes *nodes, uint32_t id)
{
    return lq_table_counts(lq_replica_table(nodes->nodes[id].replica)).waiters;
}
