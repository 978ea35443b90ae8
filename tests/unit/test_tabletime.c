/* Table time: three nodes with clocks that differ in rate, logs that follow Raft's rules, messages
 * that are late, leaders that die, come back, or do not know that they are deposed. Real time is in
 * microseconds, so that roundings show. */
#include "lq_cluster_clock.h"
#include "lq_test.h"
#include "support/hot_assert.h"

#include <stdlib.h>
#include <string.h>

#define NODES        3
#define ENTRIES_MAX  300
#define MESSAGES_MAX 48

struct entry {
    uint64_t term, stamp_ms, at_us;
    int64_t least_lead; /* smallest lead_of up to this one */
};

struct log {
    size_t n;
    struct entry entries[ENTRIES_MAX];
};

struct node {
    struct lq_cluster_clock clock;
    struct log log;
    uint64_t term; /* the highest seen */
    uint64_t rate_ppm, offset_us;
    bool is_leading;
    uint64_t heard_term, ping_us;  /* of the leader whose proofs the clock has: the last ping */
    uint64_t good_ms, good_own_ms; /* the last table time of the log's last term, and when */
};

struct message {
    bool is_used;
    size_t to;
    uint64_t arrival_us, term, table_ms, ping_us;
    struct log log; /* as far as it is sent */
};

struct world {
    struct lq_rand rand;
    uint64_t now_us, term;
    struct node nodes[NODES];
    struct message messages[MESSAGES_MAX];
    uint64_t n_changes, n_stamps, n_ages;
};

static uint64_t below(struct world *world, uint64_t n)
{
    return lq_rand_below(&world->rand, n);
}

static uint64_t own_at(const struct node *node, uint64_t at_us)
{
    return (node->offset_us + at_us * node->rate_ppm / 1000000) / 1000;
}

static uint64_t own(const struct world *world, const struct node *node)
{
    return own_at(node, world->now_us);
}

/* How far a stamp is ahead of a clock that is 1 % fast, in units of 10 ns. */
static int64_t lead_of(uint64_t stamp_ms, uint64_t at_us)
{
    return (int64_t)(stamp_ms * 100000) - (int64_t)(at_us * 101);
}

static struct entry *last_of(struct log *log)
{
    return &log->entries[log->n - 1];
}

/* ---- What must hold. */

/* Along the log stamps do not decrease, and from no entry to any later one does table time advance
 * faster than real time, but for 1 % and 2 ms. */
static void stamp(struct world *world, struct node *node)
{
    struct entry *last = last_of(&node->log);
    struct entry entry = {.term = node->term, .at_us = world->now_us};
    int64_t lead;
    if (node->log.n == ENTRIES_MAX) {
        return;
    }
    entry.stamp_ms = lq_cluster_clock_now(&node->clock, own(world, node));
    lead = lead_of(entry.stamp_ms, entry.at_us);
    LQ_HOT_ASSERT(entry.stamp_ms >= last->stamp_ms);
    LQ_HOT_ASSERT(lead - last->least_lead <= 2 * 100000);
    entry.least_lead = lead < last->least_lead ? lead : last->least_lead;
    node->log.entries[node->log.n++] = entry;
    lq_cluster_clock_observe(&node->clock, entry.term, entry.stamp_ms, own(world, node));
    world->n_stamps++;
}

/* The base is at most the delay of the last message and 3 % of the silence behind what a leader
 * said, as long as its entry is the last in the log. */
static void check_loss(const struct world *world, const struct node *node)
{
    uint64_t silence_ms = own(world, node) - node->good_own_ms;
    uint64_t base_ms = lq_cluster_clock_now(&node->clock, own(world, node));
    LQ_HOT_ASSERT(node->good_ms == 0 || base_ms + 2 >= node->good_ms + silence_ms * 97 / 100);
}

/* Of what the present leader stamped and this node has, no age is said to be less than it is, nor
 * much more than what messages allow. */
static void check_ages(struct world *world, struct node *node)
{
    uint64_t own_ms = own(world, node);
    for (size_t i = node->log.n; i > 0 && node->log.n - i < 5; i--) {
        const struct entry *entry = &node->log.entries[i - 1];
        uint64_t age_us = world->now_us - entry->at_us, age_ms;
        if (entry->term != (node->is_leading ? node->term : node->heard_term)) {
            break;
        }
        age_ms = lq_cluster_clock_age(&node->clock, entry->stamp_ms, own_ms);
        if (node->ping_us == 0 && !node->is_leading) {
            LQ_HOT_ASSERT(age_ms == LQ_AGE_UNKNOWN);
            continue;
        }
        LQ_HOT_ASSERT(age_ms * 1000 + 2100 >= age_us / 100 * 99);
        age_us += node->is_leading ? 0 : world->now_us - node->ping_us;
        LQ_HOT_ASSERT(age_ms * 1000 <= age_us + age_us / 20 + 5000);
        world->n_ages++;
    }
}

/* ---- What happens. */

static uint64_t draw_delay(struct world *world)
{
    switch (below(world, 8)) {
    case 0:
        return below(world, 2000000);
    case 1:
        return 0;
    default:
        return 100 + below(world, 3000);
    }
}

static void send(struct world *world, struct node *from, size_t to)
{
    struct message *message = &world->messages[below(world, MESSAGES_MAX)];
    uint64_t echoed_us = below(world, 300000);
    if (message->is_used) {
        return;
    }
    *message = (struct message){.is_used = true, .to = to, .term = from->term, .log = from->log};
    message->arrival_us = world->now_us + draw_delay(world);
    message->table_ms = lq_cluster_clock_now(&from->clock, own(world, from));
    message->ping_us =
        below(world, 4) == 0 || echoed_us >= world->now_us ? 0 : world->now_us - echoed_us;
    if (below(world, 4) == 0) {
        message->log.n = 1 + below(world, from->log.n);
    }
}

/* As Raft does it: a conflict drops the rest, what is there already stays. */
static void take_entries(struct log *log, const struct log *sent)
{
    for (size_t i = 0; i < sent->n; i++) {
        if (i >= log->n || log->entries[i].term != sent->entries[i].term) {
            log->n = i + 1;
            log->entries[i] = sent->entries[i];
        }
    }
}

static void raise_term(struct world *world, struct node *node, uint64_t term)
{
    if (term <= node->term) {
        return;
    }
    node->term = term;
    if (node->is_leading && below(world, 4) != 0) { /* else the clock is to find out by itself */
        lq_cluster_clock_follow(&node->clock, own(world, node));
    }
    node->is_leading = false;
    lq_cluster_clock_forget_leader(&node->clock);
    node->heard_term = node->ping_us = 0;
}

static void take_time(struct world *world, struct node *node, const struct message *message)
{
    uint64_t own_ms = own(world, node), echo_ms = own_at(node, message->ping_us);
    if (last_of(&node->log)->term == message->term) {
        lq_cluster_clock_observe(&node->clock, message->term, message->table_ms, own_ms);
    }
    lq_cluster_clock_hear_leader(&node->clock, message->table_ms,
                                 message->ping_us == 0 ? 0 : echo_ms);
    node->heard_term = message->term;
    node->ping_us = message->ping_us == 0 ? node->ping_us : message->ping_us;
}

static void receive(struct world *world, struct message *message)
{
    struct node *node = &world->nodes[message->to];
    message->is_used = false;
    if (message->term < node->term) {
        return;
    }
    raise_term(world, node, message->term);
    take_entries(&node->log, &message->log);
    take_time(world, node, message);
    node->good_ms = 0; /* then the next election checks nothing */
    if (last_of(&node->log)->term == message->term) {
        node->good_ms = message->table_ms;
        node->good_own_ms = own(world, node);
    }
}

static bool is_behind(struct log *a, struct log *b)
{
    return last_of(a)->term != last_of(b)->term ? last_of(a)->term < last_of(b)->term : a->n < b->n;
}

/* One other node's vote is enough. The old leader may learn of it much later. */
static void elect(struct world *world, size_t who)
{
    struct node *node = &world->nodes[who];
    struct node *voter = &world->nodes[(who + 1 + below(world, NODES - 1)) % NODES];
    const struct entry *last = last_of(&node->log);
    if (is_behind(&node->log, &voter->log)) {
        return;
    }
    world->term++;
    raise_term(world, node, world->term);
    raise_term(world, voter, world->term);
    lq_cluster_clock_observe(&node->clock, last->term, last->stamp_ms, own(world, node));
    lq_cluster_clock_lead(&node->clock, world->term, own(world, node));
    check_loss(world, node);
    node->is_leading = true;
    node->good_ms = 0;
    stamp(world, node);
    world->n_changes++;
}

static void restart(struct world *world, struct node *node)
{
    const struct entry *last = last_of(&node->log);
    lq_cluster_clock_init(&node->clock, last->term, last->stamp_ms, own(world, node));
    node->is_leading = false;
    node->heard_term = node->ping_us = node->good_ms = 0;
}

static void act(struct world *world, struct node *node)
{
    size_t who = (size_t)(node - world->nodes);
    uint64_t choice = below(world, 1000);
    if (choice < 4) {
        elect(world, who);
    } else if (choice < 6) {
        restart(world, node);
    } else if (node->is_leading && choice < 60) {
        stamp(world, node);
    } else if (node->is_leading) {
        send(world, node, (who + 1 + below(world, NODES - 1)) % NODES);
    }
    check_ages(world, node);
}

static void step(struct world *world)
{
    static const uint64_t spans_us[] = {50, 300, 2000, 20000};
    world->now_us += below(world, spans_us[below(world, 4)]);
    if (below(world, 2000) == 0) {
        world->now_us += below(world, 60000000); /* nothing happens for long */
    }
    for (size_t i = 0; i < MESSAGES_MAX; i++) {
        if (world->messages[i].is_used && world->messages[i].arrival_us <= world->now_us) {
            receive(world, &world->messages[i]);
        }
    }
    act(world, &world->nodes[below(world, NODES)]);
}

static void begin(struct world *world, uint64_t seed, uint64_t stream)
{
    static const uint64_t extremes[] = {990000, 1010000};
    *world = (struct world){.rand = lq_rand_of(seed, stream), .now_us = 1000000, .term = 1};
    for (size_t i = 0; i < NODES; i++) {
        struct node *node = &world->nodes[i];
        node->rate_ppm =
            below(world, 2) == 0 ? extremes[below(world, 2)] : 990000 + below(world, 20001);
        node->offset_us = below(world, 1000000000);
        node->term = 1;
        node->log.n = 1; /* the same first entry everywhere */
        node->log.entries[0] =
            (struct entry){.term = 1, .at_us = 1000000, .least_lead = lead_of(0, 1000000)};
        lq_cluster_clock_init(&node->clock, 1, 0, own(world, node));
    }
}

START_TEST(time_never_runs_ahead_nor_back)
{
    struct world *world = malloc(sizeof *world);
    begin(world, lq_test_seed(), (uint64_t)_i);
    for (int i = 0; i < 12000; i++) {
        step(world);
    }
    ck_assert(world->n_changes > 3 && world->n_stamps > 50 && world->n_ages > 50);
    free(world);
}
END_TEST

START_TEST(an_estimate_ages_at_98_hundredths)
{
    struct lq_cluster_clock clock;
    lq_cluster_clock_init(&clock, 1, 5000, 100);
    ck_assert_uint_eq(lq_cluster_clock_now(&clock, 100), 5000);
    ck_assert_uint_eq(lq_cluster_clock_now(&clock, 101), 5000);
    ck_assert_uint_eq(lq_cluster_clock_now(&clock, 1100), 5980);
    lq_cluster_clock_observe(&clock, 1, 5979, 1100);
    ck_assert_uint_eq(lq_cluster_clock_now(&clock, 1200), 6078);
    lq_cluster_clock_observe(&clock, 1, 6100, 1200);
    ck_assert_uint_eq(lq_cluster_clock_now(&clock, 1300), 6198);
    lq_cluster_clock_lead(&clock, 2, 1300);
    ck_assert_uint_eq(lq_cluster_clock_now(&clock, 2300), 7198);
    ck_assert_uint_eq(lq_cluster_clock_age(&clock, 7000, 2300), 198);
    ck_assert_uint_eq(lq_cluster_clock_age(&clock, 8000, 2300), 0);
    lq_cluster_clock_observe(&clock, 2, 9999, 2300); /* a base is never raised */
    ck_assert_uint_eq(lq_cluster_clock_now(&clock, 2300), 7198);
    lq_cluster_clock_init(&clock, 1, 5000, 100);
    lq_cluster_clock_lead(&clock, 2, 200);
    lq_cluster_clock_follow(&clock, 1200);
    lq_cluster_clock_follow(&clock, 1200);
    ck_assert_uint_eq(lq_cluster_clock_now(&clock, 1200), 6098);
    ck_assert_uint_eq(lq_cluster_clock_now(&clock, 1300), 6196);
}
END_TEST

/* What a lease began by goes on, even if another leader's time was ahead. */
START_TEST(the_time_of_the_last_entrys_leader_counts)
{
    struct lq_cluster_clock clock;
    lq_cluster_clock_init(&clock, 5, 100000, 0);
    lq_cluster_clock_observe(&clock, 6, 99000, 10);
    ck_assert_uint_eq(lq_cluster_clock_now(&clock, 10), 99000);
    lq_cluster_clock_lead(&clock, 7, 1010);
    ck_assert_uint_eq(lq_cluster_clock_now(&clock, 1010), 99980);
    lq_cluster_clock_observe(&clock, 8, 50, 1020); /* deposed, and not told */
    lq_cluster_clock_follow(&clock, 1020);
    ck_assert_uint_eq(lq_cluster_clock_now(&clock, 1020), 50);
}
END_TEST

START_TEST(an_age_needs_a_proof)
{
    struct lq_cluster_clock clock;
    lq_cluster_clock_init(&clock, 1, 0, 1000);
    ck_assert_uint_eq(lq_cluster_clock_age(&clock, 0, 1000), LQ_AGE_UNKNOWN);
    lq_cluster_clock_hear_leader(&clock, 500, 0);
    ck_assert_uint_eq(lq_cluster_clock_age(&clock, 0, 1000), LQ_AGE_UNKNOWN);
    lq_cluster_clock_hear_leader(&clock, 500, 9000); /* from the future */
    ck_assert_uint_eq(lq_cluster_clock_age(&clock, 0, 1000), LQ_AGE_UNKNOWN);
    lq_cluster_clock_hear_leader(&clock, 500, 1000); /* and what ends that */
    ck_assert_uint_eq(lq_cluster_clock_age(&clock, 400, 1000), 100);
    ck_assert_uint_eq(lq_cluster_clock_age(&clock, 400, 1100), 203);
    ck_assert_uint_eq(lq_cluster_clock_age(&clock, 4000, 1100), 0);
    lq_cluster_clock_hear_leader(&clock, 700, 1050); /* was long under way: proves less */
    ck_assert_uint_eq(lq_cluster_clock_age(&clock, 400, 1100), 203);
    lq_cluster_clock_hear_leader(&clock, 550, 1050);
    ck_assert_uint_eq(lq_cluster_clock_age(&clock, 400, 1100), 202);
    lq_cluster_clock_forget_leader(&clock);
    ck_assert_uint_eq(lq_cluster_clock_age(&clock, 400, 1100), LQ_AGE_UNKNOWN);
}
END_TEST

/* Leadership goes to and fro, each time right before the own clock of the new leader advances. */
START_TEST(roundings_do_not_add_up)
{
    struct lq_cluster_clock clocks[2];
    uint64_t now_us = 999, table_ms = 0;
    lq_cluster_clock_init(&clocks[0], 0, 0, 0);
    lq_cluster_clock_init(&clocks[1], 0, 0, 0);
    for (uint64_t turn = 0; turn < 1000; turn++) {
        struct lq_cluster_clock *clock = &clocks[turn % 2];
        uint64_t phase_us = turn % 2 * 500;
        uint64_t own_ms = (now_us + phase_us) / 1000, end_ms = (now_us + 500 + phase_us) / 1000;
        lq_cluster_clock_observe(clock, turn, table_ms, own_ms);
        lq_cluster_clock_lead(clock, turn + 1, own_ms);
        table_ms = lq_cluster_clock_now(clock, end_ms);
        lq_cluster_clock_follow(clock, end_ms);
        now_us += 500;
        LQ_HOT_ASSERT(table_ms <= now_us / 1000);
    }
}
END_TEST

/* Peers may say anything: nothing runs over. */
START_TEST(the_largest_numbers_do_no_harm)
{
    struct lq_cluster_clock clock;
    lq_cluster_clock_init(&clock, 1, UINT64_MAX - 1, 10);
    ck_assert_uint_eq(lq_cluster_clock_now(&clock, UINT64_MAX), UINT64_MAX);
    ck_assert_uint_eq(lq_cluster_clock_now(&clock, 0), UINT64_MAX - 1);
    lq_cluster_clock_lead(&clock, 2, 10);
    ck_assert_uint_eq(lq_cluster_clock_now(&clock, UINT64_MAX), UINT64_MAX);
    lq_cluster_clock_follow(&clock, 20);
    lq_cluster_clock_hear_leader(&clock, UINT64_MAX, 1);
    ck_assert_uint_eq(lq_cluster_clock_age(&clock, 0, UINT64_MAX), UINT64_MAX);
    lq_cluster_clock_hear_leader(&clock, 0, UINT64_MAX);
    ck_assert_uint_eq(lq_cluster_clock_age(&clock, UINT64_MAX, UINT64_MAX), 0);
}
END_TEST

static Suite *tabletime_suite(void)
{
    Suite *suite = suite_create("tabletime");
    TCase *tcase = tcase_create("tabletime");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, time_never_runs_ahead_nor_back, 0, 20);
    tcase_add_test(tcase, an_estimate_ages_at_98_hundredths);
    tcase_add_test(tcase, the_time_of_the_last_entrys_leader_counts);
    tcase_add_test(tcase, an_age_needs_a_proof);
    tcase_add_test(tcase, roundings_do_not_add_up);
    tcase_add_test(tcase, the_largest_numbers_do_no_harm);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(tabletime_suite());
}
