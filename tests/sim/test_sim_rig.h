/* A world and three replicas that are stubs, for the tests of the checks: a clock that the test
 * sets, and lock tables that are told to their observers as replicas do it. For one program only.
 */
#ifndef TEST_SIM_RIG_H
#define TEST_SIM_RIG_H

#include "lq_frame.h"
#include "lq_planted.h"
#include "lq_test.h"
#include "sim_checks_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifdef LOQUET_PLANTED
int lq_planted; /* none */
#endif

/* ---- A stub of the world. */

struct sim {
    uint64_t now_us;
    char fault[300]; /* of the first check that failed, else "" */
};

uint64_t sim_now(const struct sim *sim)
{
    return sim->now_us;
}

void sim_trace(struct sim *sim, const char *format, ...)
{
    (void)sim;
    (void)format;
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    va_list arguments;
    if (sim->fault[0] != 0) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(sim->fault, sizeof sim->fault, format, arguments);
    va_end(arguments);
}

bool sim_has_failed(const struct sim *sim)
{
    return sim->fault[0] != 0;
}

uint64_t sim_calm_us(const struct sim *sim)
{
    (void)sim;
    return 60 * SIM_S;
}

bool sim_node_is_rotten(const struct sim *sim, uint32_t node)
{
    (void)sim;
    (void)node;
    return false;
}

bool sim_node_is_expected(const struct sim *sim, uint32_t node)
{
    (void)sim;
    (void)node;
    return true;
}

/* It looks inside of a replica, which there is none of here. */
void sim_nodes_check_reports(const struct sim_observed *node)
{
    (void)node;
}

/* ---- Stubs of replicas. */

struct lq_replica {
    struct lq_table *table;
    struct lq_replica_status status;
    struct lq_members members;
    lq_replica_on_applied *on_applied;
    void *context;
};

void lq_replica_observe(struct lq_replica *replica, lq_replica_on_applied *on_applied,
                        void *context)
{
    replica->on_applied = on_applied;
    replica->context = context;
}

struct lq_replica_status lq_replica_status(const struct lq_replica *replica)
{
    return replica->status;
}

const struct lq_table *lq_replica_table(const struct lq_replica *replica)
{
    return replica->table;
}

const struct lq_members *lq_replica_members(const struct lq_replica *replica)
{
    return &replica->members;
}

void lq_replica_defaults(struct lq_replica_options *options)
{
    *options = (struct lq_replica_options){.outbox_bytes = 1000};
}

/* ---- A cluster of three, with node 1 as its leader. */

#define N_NODES 3

static struct sim sim;
static struct sim_checks *checks;
static struct lq_replica replicas[N_NODES + 1];
static uint64_t last_seq, last_index;

static void setup(void)
{
    static const uint8_t secret[16] = {7};
    sim = (struct sim){.now_us = SIM_S};
    checks = sim_checks_new(&sim);
    last_seq = last_index = 0;
    for (uint32_t id = 1; id <= N_NODES; id++) {
        struct lq_replica *replica = &replicas[id];
        *replica = (struct lq_replica){.table = lq_table_new(secret, 1)};
        for (uint32_t member = 1; member <= N_NODES; member++) {
            char address[8];
            (void)snprintf(address, sizeof address, "n%u:1", member);
            ck_assert(lq_members_add(&replica->members, member, address, LQ_ROLE_VOTER));
        }
        replica->status =
            (struct lq_replica_status){.role = id == 1 ? LQ_REPLICA_LEADER : LQ_REPLICA_FOLLOWER,
                                       .is_serving = true,
                                       .term = 1,
                                       .durable_index = 1000};
        sim_checks_node_started(checks, id, replica);
        sim_checks_node_turn(checks, id);
    }
    sim.now_us += 10 * SIM_S;
}

static void teardown(void)
{
    sim_checks_free(checks);
    for (uint32_t id = 1; id <= N_NODES; id++) {
        lq_table_free(replicas[id].table);
    }
}

static void passes(void)
{
    ck_assert_str_eq(sim.fault, "");
}

static void fails(const char *name)
{
    ck_assert_msg(strstr(sim.fault, name) != NULL, "\"%s\" instead of \"%s\"", sim.fault, name);
}

/* ---- Making entries. */

static struct lq_stamp stamp_now(void)
{
    return (struct lq_stamp){
        .time_ms = sim.now_us / SIM_MS,
        .caps = {.keys = 100, .waiters_per_key = 100, .waiters = 100, .state_bytes = 1 << 20}};
}

/* What a node does with the entry at the next index; `change` may spoil the outcomes. */
static void apply_on(uint32_t id, uint64_t index, const struct lq_command *command,
                     const struct lq_stamp *stamp, void (*change)(struct lq_outcome *outcome))
{
    struct lq_replica *replica = &replicas[id];
    struct lq_outcomes outcomes;
    lq_outcomes_init(&outcomes);
    lq_table_apply(replica->table, command, stamp, &outcomes);
    if (change != NULL) {
        change(&outcomes.items[0]);
    }
    replica->on_applied(replica->context, index, stamp, command, outcomes.items, outcomes.count);
    replica->on_applied(replica->context, index, NULL, NULL, NULL, 0);
    lq_outcomes_done(&outcomes);
}

/* All nodes apply it, at this moment. */
static void apply(struct lq_command command)
{
    struct lq_stamp stamp = stamp_now();
    last_index++;
    for (uint32_t id = 1; id <= N_NODES; id++) {
        apply_on(id, last_index, &command, &stamp, NULL);
    }
}

static struct lq_command command_of(uint8_t type, uint64_t owner, uint64_t token)
{
    static uint8_t name[SIM_KEY_NAME];
    return (struct lq_command){.type = type,
                               .wait_s = type == LQ_COMMAND_ACQUIRE ? 5 : 0,
                               .lease_s = type == LQ_COMMAND_ACQUIRE ? 10 : 0,
                               .key_len = (uint16_t)sim_key_name(3, name),
                               .key = name,
                               .origin = {2, 1},
                               .seq = ++last_seq,
                               .owner = owner,
                               .token = token};
}

static struct lq_command expire_of(uint64_t token)
{
    struct lq_command command = command_of(LQ_COMMAND_EXPIRE, 0, token);
    last_seq--;
    command.origin = (struct lq_origin_id){0, 0};
    command.seq = 0;
    return command;
}

static void open_origin(void)
{
    apply((struct lq_command){.type = LQ_COMMAND_ORIGIN_OPEN, .origin = {2, 1}});
}

static uint64_t send(uint8_t op, uint64_t owner, uint64_t token)
{
    return sim_checks_sent(checks, &(struct sim_request){.op = op,
                                                         .wait_s = 5,
                                                         .lease_s = 10,
                                                         .node = 2,
                                                         .connected_us = sim.now_us,
                                                         .key = 3,
                                                         .owner = owner,
                                                         .token = token});
}

/* An acquire by `owner` that is granted at once. */
static uint64_t hold(uint64_t owner)
{
    uint64_t id = send(LQ_OP_ACQUIRE, owner, 0);
    open_origin();
    sim.now_us += 3 * SIM_MS;
    apply(command_of(LQ_COMMAND_ACQUIRE, owner, 0));
    return id;
}

#endif
