/* Leases, in true time. Stamps are made before an entry is seen and after whatever is in the log
 * ahead of it was sent by a client; between these two moments each lease began. What follows is
 * never wrong: a lease that is called cut short was, and one that is called too long too. */
#include "sim_checks_impl.h"

#include <inttypes.h>

/* True time that a lease may take at most beyond its length, by slow clocks: 1 % and a little. */
#define LONG_US(lease_s) ((uint64_t)(lease_s)*1015200)

/* And at least: fast clocks, read in whole ms. */
#define SHORT_US(lease_s) ((uint64_t)(lease_s)*990000 - 2000)

/* Beyond that, when nothing happened to any node: noticing, one commit on a slow disk, one leader
 * that changed without a reason that the checks know. */
#define LATE_US (UINT64_C(1500) * SIM_MS)

/* After the last thing that happened the cluster is well again within this. */
#define SETTLE_US (UINT64_C(5) * SIM_S)

/* An Expire goes into the log ahead of whatever comes so much later in table time. */
#define OVERDUE_MS 1500

void sim_leases_heard(struct sim_checks *checks, uint64_t sent_us)
{
    if (sent_us > checks->lower_us) {
        checks->lower_us = sent_us;
    }
}

static void begin_lease(struct sim_checks *checks, const struct sim_fact *fact)
{
    struct sim_grant *grant = sim_requests_grant(checks, fact->token);
    grant->lease_s = fact->lease_s;
    grant->lower_us = checks->lower_us;
    grant->upper_us = sim_now(checks->sim);
}

/* Whether nothing has happened to any node since shortly before `us`. */
static bool was_quiet_since(const struct sim_checks *checks, uint64_t us)
{
    return !checks->is_disturbed || checks->disturbed_us + SETTLE_US < us;
}

static void end_lease(struct sim_checks *checks, const struct sim_fact *fact)
{
    const struct sim_grant *grant = sim_requests_grant(checks, fact->token);
    uint64_t now_us = sim_now(checks->sim);
    if (now_us < grant->lower_us + SHORT_US(grant->lease_s)) {
        sim_fail(checks->sim,
                 "leases: that of token %" PRIu64 ", %u s, ends %" PRIu64 " ms after it began",
                 fact->token, grant->lease_s, (now_us - grant->lower_us) / SIM_MS);
    } else if (now_us > grant->upper_us + LONG_US(grant->lease_s) + LATE_US &&
               was_quiet_since(checks, grant->upper_us)) {
        sim_fail(checks->sim,
                 "dead holders: the lease of token %" PRIu64 ", %u s, ends only %" PRIu64
                 " ms after it began",
                 fact->token, grant->lease_s, (now_us - grant->upper_us) / SIM_MS);
    }
}

void sim_leases_fact(struct sim_checks *checks, const struct sim_fact *fact)
{
    if (fact->kind == SIM_FACT_GRANTED || fact->kind == SIM_FACT_RENEWED) {
        begin_lease(checks, fact);
    } else if (fact->kind == SIM_FACT_EXPIRED) {
        end_lease(checks, fact);
    }
}

/* Table time now, at whatever node has most of it. */
static uint64_t latest_table_ms(const struct sim_checks *checks)
{
    uint64_t latest_ms = 0;
    for (uint32_t id = 0; id < SIM_MODEL_NODES; id++) {
        const struct lq_replica *replica = checks->nodes[id].replica;
        uint64_t table_ms = replica == NULL ? 0 : lq_replica_status(replica).table_ms;
        latest_ms = table_ms > latest_ms ? table_ms : latest_ms;
    }
    return latest_ms;
}

/* A lock that the leader should have had expired before it made this entry. It can know of the
 * grant once that was applied, which may be long after it was stamped. */
static bool is_overdue(struct sim_checks *checks, uint32_t key, uint64_t stamp_ms)
{
    const struct sim_model_lock *lock = &checks->model.locks[key];
    uint64_t *due_ms = &checks->due_ms[key];
    if (!lock->is_held || lock->end_ms > stamp_ms) {
        checks->due_tokens[key] = 0;
        return false;
    }
    if (checks->due_tokens[key] != lock->token || *due_ms < checks->term_table_ms) {
        uint64_t table_ms = latest_table_ms(checks);
        checks->due_tokens[key] = lock->token;
        *due_ms = stamp_ms > table_ms ? stamp_ms : table_ms;
    }
    return stamp_ms > *due_ms + OVERDUE_MS;
}

static void find_overdue(struct sim_checks *checks, const struct sim_entry *entry)
{
    for (uint32_t key = 0; key < SIM_KEYS; key++) {
        const struct sim_model_lock *lock = &checks->model.locks[key];
        if (is_overdue(checks, key, entry->stamp_ms)) {
            sim_fail(checks->sim,
                     "dead holders: key %u, token %" PRIu64 " is still held at table time %" PRIu64
                     " although its lease ended at %" PRIu64,
                     key, lock->token, entry->stamp_ms, lock->end_ms);
            return;
        }
    }
}

void sim_leases_entry(struct sim_checks *checks, const struct sim_entry *entry)
{
    uint64_t now_ms = entry->first_us / SIM_MS;
    if (entry->stamp_ms > now_ms + now_ms / 98 + 5) {
        sim_fail(checks->sim,
                 "table time: an entry is stamped %" PRIu64 " ms, ahead of the real %" PRIu64,
                 entry->stamp_ms, now_ms);
    } else if (entry->stamp_ms < checks->last_stamp_ms) {
        sim_fail(checks->sim, "table time: goes back from %" PRIu64 " to %" PRIu64 " ms",
                 checks->last_stamp_ms, entry->stamp_ms);
    } else if (checks->term != 0) {
        find_overdue(checks, entry);
    }
}

void sim_leases_end(struct sim_checks *checks)
{
    uint64_t now_us = sim_now(checks->sim);
    for (uint32_t key = 0; key < SIM_KEYS; key++) {
        const struct sim_model_lock *lock = &checks->model.locks[key];
        const struct sim_grant *grant;
        uint64_t from_us = sim_calm_us(checks->sim) + SETTLE_US;
        if (!lock->is_held) {
            continue;
        }
        grant = sim_requests_grant(checks, lock->token);
        from_us = grant->upper_us > from_us ? grant->upper_us : from_us;
        if (now_us > from_us + LONG_US(grant->lease_s) + LATE_US) {
            sim_fail(checks->sim,
                     "dead holders: key %u is still held at the end by token %" PRIu64
                     ", lease %u s, granted or renewed %" PRIu64 " ms ago",
                     key, lock->token, grant->lease_s, (now_us - grant->upper_us) / SIM_MS);
        }
    }
}
