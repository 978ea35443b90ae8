#include "replica_engines.h"

#include "lq_check.h"
#include "lq_journal.h"
#include "lq_mem.h"
#include "lq_test.h"

#include <stdio.h>
#include <string.h>

/* A message on its way. */
struct flight {
    struct lq_list in_flying;
    uint32_t from, to;
    uint64_t due_ms;
    size_t len;
    uint8_t bytes[];
};

/* ---- What an engine asks for. */

static void on_term(void *context, uint64_t term, uint64_t vote)
{
    struct lq_engines_node *node = context;
    ck_assert_msg(term > node->start.term || (term == node->start.term &&
                                              (node->start.vote == 0 || node->start.vote == vote)),
                  "node %u: term %lu, vote %lu after term %lu, vote %lu", node->id,
                  (unsigned long)term, (unsigned long)vote, (unsigned long)node->start.term,
                  (unsigned long)node->start.vote);
    node->start.term = term;
    node->start.vote = vote;
    node->n_terms++;
}

static void on_entries(void *context, uint64_t first)
{
    struct lq_engines_node *node = context;
    ck_assert_uint_gt(first, node->applied);
    for (uint64_t index = first; index <= lq_log_last(&node->log).index; index++) {
        const struct lq_log_entry *entry = lq_log_at(&node->log, index);
        ck_assert_uint_eq(entry->check, lq_journal_entry_check(index, entry->term, entry->type,
                                                               entry->bytes, entry->len));
    }
}

static void on_message(void *context, uint32_t to, const struct lq_message *message,
                       const struct lq_message_entry *entries)
{
    struct lq_engines_node *node = context;
    struct lq_engines *all = node->all;
    struct lq_engines_sent *sent = &all->sent[all->n_sent++ % LQ_ENGINES_SENT];
    struct lq_buffer frame;
    struct flight *flight;
    lq_buffer_init(&frame);
    lq_message_put(&frame, message, entries, NULL);
    *sent = (struct lq_engines_sent){
        .from = node->id, .to = to, .ms = all->now_ms, .message = *message, .bytes = frame.len};
    if (to >= 1 && to <= LQ_ENGINES_MAX && !all->is_cut[node->id][to] && !all->is_mute) {
        flight = lq_malloc(sizeof *flight + frame.len);
        *flight = (struct flight){
            .from = node->id, .to = to, .due_ms = all->now_ms + all->latency_ms, .len = frame.len};
        memcpy(flight->bytes, frame.bytes, frame.len);
        lq_list_init(&flight->in_flying);
        lq_list_append(&all->flying, &flight->in_flying);
    }
    lq_buffer_done(&frame);
}

static void on_snapshot_wanted(void *context, uint32_t to, struct lq_log_point point)
{
    struct lq_engines_node *node = context;
    node->n_wanted++;
    node->wanted_by = to;
    node->wanted = point;
}

static void on_install(void *context, struct lq_log_point point)
{
    struct lq_engines_node *node = context;
    node->n_installs++;
    node->install = point;
    node->applied = point.index;
}

static void apply(struct lq_engines_node *node)
{
    while (node->engine != NULL && !lq_engine_is_installing(node->engine) &&
           node->applied < lq_engine_commit(node->engine)) {
        const struct lq_log_entry *entry = lq_log_at(&node->log, ++node->applied);
        LQ_CHECK(entry != NULL);
        if (entry->type == LQ_ENTRY_MEMBERS) {
            ck_assert(lq_members_decode(&node->applied_members, entry->bytes, entry->len));
            node->applied_members_index = node->applied;
            if (!node->holds_changes) {
                lq_engine_configured(node->engine, node->applied, &node->applied_members);
            }
        }
    }
}

/* ---- Beginning and end. */

static struct lq_members first_members(unsigned n_voters, unsigned n_members)
{
    struct lq_members members = {0};
    for (uint32_t id = 1; id <= n_members; id++) {
        char address[16];
        (void)snprintf(address, sizeof address, "node%u:1", id);
        ck_assert(lq_members_add(&members, id, address,
                                 id <= n_voters ? LQ_ROLE_VOTER : LQ_ROLE_STANDBY));
    }
    return members;
}

void lq_engines_init(struct lq_engines *engines, unsigned n_voters, unsigned n_members)
{
    struct lq_members members = first_members(n_voters, n_members);
    struct lq_buffer bytes;
    *engines = (struct lq_engines){.now_ms = LQ_ENGINES_START_MS};
    lq_list_init(&engines->flying);
    lq_buffer_init(&bytes);
    if (n_members > 0) {
        lq_members_encode(&members, &bytes);
    }
    for (uint32_t id = 1; id <= LQ_ENGINES_MAX; id++) {
        struct lq_engines_node *node = &engines->nodes[id];
        *node = (struct lq_engines_node){.all = engines, .id = id};
        lq_log_init(&node->log, (struct lq_log_point){0, 0});
        if (id <= n_members) {
            node->start.term = 1;
            lq_log_append(&node->log, 1, LQ_ENTRY_MEMBERS,
                          lq_journal_entry_check(1, 1, LQ_ENTRY_MEMBERS, bytes.bytes, bytes.len),
                          bytes.bytes, bytes.len);
        }
    }
    lq_buffer_done(&bytes);
}

static void drop_flying(struct lq_engines *engines, uint32_t to)
{
    struct lq_list *at = engines->flying.next, *next;
    for (; at != &engines->flying; at = next) {
        struct flight *flight = LQ_CONTAINER(at, struct flight, in_flying);
        next = at->next;
        if (to == 0 || flight->to == to) {
            lq_list_remove(at);
            lq_free(flight);
        }
    }
}

void lq_engines_done(struct lq_engines *engines)
{
    drop_flying(engines, 0);
    for (uint32_t id = 1; id <= LQ_ENGINES_MAX; id++) {
        lq_engine_free(engines->nodes[id].engine);
        lq_log_done(&engines->nodes[id].log);
    }
}

void lq_engines_start(struct lq_engines *engines, uint32_t id)
{
    struct lq_engines_node *node = &engines->nodes[id];
    struct lq_engine_options options = {.node = id,
                                        .seed = (uint32_t)lq_test_seed() + 77 * id,
                                        .heartbeat_ms = LQ_ENGINES_HEARTBEAT_MS,
                                        .election_ms = LQ_ENGINES_ELECTION_MS,
                                        .message_bytes = 4096};
    struct lq_engine_user user = {.context = node,
                                  .on_term = on_term,
                                  .on_entries = on_entries,
                                  .on_message = on_message,
                                  .on_snapshot_wanted = on_snapshot_wanted,
                                  .on_install = on_install};
    LQ_CHECK(node->engine == NULL);
    node->applied = node->commit_seen = node->start.snapshot.index;
    node->start.members = &node->members;
    node->engine = lq_engine_new(&options, &user, &node->log);
    lq_engine_start(node->engine, &node->start, engines->now_ms);
}

void lq_engines_start_all(struct lq_engines *engines, unsigned n)
{
    for (uint32_t id = 1; id <= n; id++) {
        lq_engines_start(engines, id);
    }
}

void lq_engines_stop(struct lq_engines *engines, uint32_t id)
{
    lq_engine_free(engines->nodes[id].engine);
    engines->nodes[id].engine = NULL;
    drop_flying(engines, id);
}

/* ---- Running. */

static void receive(struct lq_engines *engines, uint32_t to, uint32_t from, const uint8_t *bytes,
                    size_t len)
{
    const uint8_t *body;
    size_t body_len, used;
    struct lq_message message;
    ck_assert_int_eq(lq_message_unframe(bytes, len, LQ_MESSAGE_MAX, &body, &body_len, &used),
                     LQ_FRAMED_ONE);
    ck_assert(lq_message_decode(body, body_len, &message));
    if (engines->nodes[to].engine != NULL) {
        lq_engine_receive(engines->nodes[to].engine, from, &message);
    }
}

static bool deliver(struct lq_engines *engines)
{
    bool was_any = false;
    struct lq_list *at = engines->flying.next;
    while (at != &engines->flying &&
           LQ_CONTAINER(at, struct flight, in_flying)->due_ms <= engines->now_ms) {
        struct flight *flight = LQ_CONTAINER(at, struct flight, in_flying);
        lq_list_remove(at);
        receive(engines, flight->to, flight->from, flight->bytes, flight->len);
        lq_free(flight);
        was_any = true;
        at = engines->flying.next;
    }
    return was_any;
}

/* Writes and applies; checks what is always so. */
static void work(struct lq_engines_node *node)
{
    if (node->engine == NULL) {
        return;
    }
    if (!node->holds_writes && lq_log_last(&node->log).index > node->log.base.index) {
        lq_engine_stored(node->engine, lq_log_last(&node->log).index);
    }
    apply(node);
    ck_assert_uint_ge(lq_engine_commit(node->engine), node->commit_seen);
    node->commit_seen = lq_engine_commit(node->engine);
}

void lq_engines_settle(struct lq_engines *engines)
{
    unsigned rounds = 0;
    do {
        for (uint32_t id = 1; id <= LQ_ENGINES_MAX; id++) {
            work(&engines->nodes[id]);
        }
        LQ_CHECK(++rounds < 10000);
    } while (deliver(engines));
}

void lq_engines_advance(struct lq_engines *engines, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        engines->now_ms++;
        for (uint32_t id = 1; id <= LQ_ENGINES_MAX; id++) {
            struct lq_engine *engine = engines->nodes[id].engine;
            if (engine != NULL) {
                lq_engine_set_time(engine, engines->now_ms);
                lq_engine_tick(engine);
            }
        }
        lq_engines_settle(engines);
    }
}

static uint32_t leader_of_all(const struct lq_engines *engines)
{
    uint32_t leader = 0;
    for (uint32_t id = 1; id <= LQ_ENGINES_MAX; id++) {
        const struct lq_engine *engine = engines->nodes[id].engine;
        if (engine == NULL) {
            continue;
        }
        if (lq_engine_leader(engine) == 0 || (leader != 0 && lq_engine_leader(engine) != leader)) {
            return 0;
        }
        leader = lq_engine_leader(engine);
    }
    return leader <= LQ_ENGINES_MAX && engines->nodes[leader].engine != NULL ? leader : 0;
}

uint32_t lq_engines_elect(struct lq_engines *engines)
{
    for (int i = 0; i < 5000 && leader_of_all(engines) == 0; i++) {
        lq_engines_advance(engines, 1);
    }
    ck_assert_uint_ne(leader_of_all(engines), 0);
    return leader_of_all(engines);
}

void lq_engines_elect_node(struct lq_engines *engines, uint32_t id)
{
    ck_assert(lq_engine_skip_timeout(engines->nodes[id].engine));
    lq_engines_settle(engines);
    ck_assert_uint_eq(lq_engines_elect(engines), id);
}

bool lq_engines_submit(struct lq_engines *engines, uint32_t id, const char *text)
{
    return lq_engine_submit(engines->nodes[id].engine, LQ_ENTRY_COMMANDS, (const uint8_t *)text,
                            strlen(text));
}

bool lq_engines_submit_members(struct lq_engines *engines, uint32_t id,
                               const struct lq_members *members)
{
    struct lq_buffer bytes;
    bool is_taken;
    lq_buffer_init(&bytes);
    lq_members_encode(members, &bytes);
    is_taken =
        lq_engine_submit(engines->nodes[id].engine, LQ_ENTRY_MEMBERS, bytes.bytes, bytes.len);
    lq_buffer_done(&bytes);
    return is_taken;
}

/* ---- By hand. */

void lq_engines_feed(struct lq_engines *engines, uint32_t to, uint32_t from,
                     const struct lq_message *message, const struct lq_message_entry *entries)
{
    struct lq_buffer frame;
    lq_buffer_init(&frame);
    lq_message_put(&frame, message, entries, NULL);
    receive(engines, to, from, frame.bytes, frame.len);
    lq_buffer_done(&frame);
}

struct lq_message_entry lq_engines_entry(uint64_t index, uint64_t term, const char *text)
{
    const uint8_t *bytes = (const uint8_t *)text;
    return (struct lq_message_entry){
        .term = term,
        .type = LQ_ENTRY_COMMANDS,
        .len = (uint32_t)strlen(text),
        .bytes = bytes,
        .check = lq_journal_entry_check(index, term, LQ_ENTRY_COMMANDS, bytes, strlen(text))};
}

struct lq_message_entry lq_engines_members_entry(uint64_t index, uint64_t term,
                                                 const struct lq_members *members,
                                                 struct lq_buffer *bytes)
{
    lq_buffer_init(bytes);
    lq_members_encode(members, bytes);
    return (struct lq_message_entry){
        .term = term,
        .type = LQ_ENTRY_MEMBERS,
        .len = (uint32_t)bytes->len,
        .bytes = bytes->bytes,
        .check = lq_journal_entry_check(index, term, LQ_ENTRY_MEMBERS, bytes->bytes, bytes->len)};
}

const struct lq_engines_sent *lq_engines_last(const struct lq_engines *engines, uint32_t from,
                                              uint32_t to, enum lq_message_kind kind)
{
    uint64_t oldest = engines->n_sent > LQ_ENGINES_SENT ? engines->n_sent - LQ_ENGINES_SENT : 0;
    for (uint64_t i = engines->n_sent; i > oldest; i--) {
        const struct lq_engines_sent *sent = &engines->sent[(i - 1) % LQ_ENGINES_SENT];
        if (sent->from == from && sent->to == to && sent->message.kind == kind) {
            return sent;
        }
    }
    return NULL;
}
