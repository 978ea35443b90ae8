/* Service: whoever is connected to a node that is well is answered in time and keeps its
 * connection, whatever becomes of the others, as long as there is a majority of them. Everything
 * that is forgiven here has its reason in the protocol or in the design, section 6. */
#include "lq_frame.h"
#include "sim_checks_impl.h"

#include <inttypes.h>

/* What happened to a node explains what its clients see for so long. */
#define EXPLAINS_US (UINT64_C(30) * SIM_S)

/* How long an answer may take: a numbered acquire is given up 5 s after its wait, releases and
 * renewals after 10 s without a leader; and the ways there and back. */
#define ACQUIRE_US (UINT64_C(5) * SIM_S)
#define OTHER_US   (UINT64_C(10) * SIM_S)
#define PING_US    (UINT64_C(1) * SIM_S)
#define WAYS_US    (UINT64_C(3) * SIM_S)

/* Between two looks at what is open. */
#define WATCH_US (UINT64_C(500) * SIM_MS)

/* So long may the cluster be without a commit before sessions are closed for it: 5 s of a node
 * whose clock is fast. */
#define OUTAGE_US (UINT64_C(4900) * SIM_MS)

bool sim_service_is_due(const struct sim_checks *checks, uint32_t node, uint64_t us)
{
    const struct sim_observed *observed = &checks->nodes[node];
    if (observed->replica == NULL || observed->serving_us == 0 || observed->serving_us >= us) {
        return false;
    }
    return !observed->had_fault || observed->fault_us + EXPLAINS_US < us;
}

/* Times without a commit. An outage begins with a long one; it goes on through the next ones until
 * commits have kept coming for a moment: what a new leader commits at its election, before its disk
 * stalls, helps nobody whose request it has not got yet. */
#define OUTAGE_BEGINS_US (UINT64_C(1500) * SIM_MS)
#define MOMENT_US        (UINT64_C(300) * SIM_MS)

struct outage {
    uint64_t from_us, to_us; /* both 0: none */
    uint64_t longest_us;     /* the longest one, or the longest time without a commit */
};

static void add_pause(struct outage *outage, uint64_t from_us, uint64_t to_us)
{
    uint64_t us = to_us - from_us;
    if (us >= MOMENT_US && outage->to_us != 0 && from_us - outage->to_us < MOMENT_US) {
        outage->to_us = to_us;
    } else if (us >= OUTAGE_BEGINS_US) {
        outage->from_us = from_us;
        outage->to_us = to_us;
    }
    us = us > outage->to_us - outage->from_us ? us : outage->to_us - outage->from_us;
    outage->longest_us = us > outage->longest_us ? us : outage->longest_us;
}

/* The longest outage since `us`. With a request open there is always something to commit, so this
 * is how long the cluster was out of order, at most. */
static uint64_t outage_since(const struct sim_checks *checks, uint64_t us)
{
    struct outage outage = {0};
    uint64_t from_us = us;
    size_t i = checks->n_entries;
    while (i > 0 &&
           (checks->entries[i - 1].first_us == 0 || checks->entries[i - 1].first_us > us)) {
        i--;
    }
    for (; i < checks->n_entries; i++) {
        uint64_t at_us = checks->entries[i].first_us;
        if (at_us != 0) {
            add_pause(&outage, from_us, at_us);
            from_us = at_us;
        }
    }
    add_pause(&outage, from_us, sim_now(checks->sim));
    return outage.longest_us;
}

/* A session may be closed after an outage of that length while this request is open. */
static uint64_t patience_us(const struct sim_request *request)
{
    uint64_t lease_us = (uint64_t)request->lease_s * SIM_S;
    if (request->op == LQ_OP_RELEASE) {
        return OUTAGE_US;
    }
    /* A grant that was made long ago is renewed before it is told; when that comes too late, the
     * session ends. So it does when half of a renewed lease is over. */
    return lease_us * 9 / 20 < OUTAGE_US ? lease_us * 9 / 20 : OUTAGE_US;
}

void sim_checks_closed(struct sim_checks *checks, uint32_t node, uint64_t since_us, bool is_reset,
                       const uint64_t *open, size_t n_open)
{
    uint64_t now_us = sim_now(checks->sim), patience = UINT64_MAX, oldest_us = now_us;
    if (!sim_service_is_due(checks, node, since_us)) {
        return;
    }
    for (size_t i = 0; i < n_open; i++) {
        const struct sim_request *request = sim_requests_at(checks, open[i]);
        uint64_t us = patience_us(request);
        patience = us < patience ? us : patience;
        oldest_us = request->sent_us < oldest_us ? request->sent_us : oldest_us;
        if (request->is_slow_reader) {
            return;
        }
    }
    if (n_open > 0 && outage_since(checks, oldest_us) >= patience) {
        return;
    }
    sim_fail(checks->sim,
             "service: node %u, which is well, %s a connection with %zu open requests (the oldest "
             "%" PRIu64 " ms old) after %" PRIu64 " ms",
             node, is_reset ? "breaks" : "closes", n_open, (now_us - oldest_us) / SIM_MS,
             (now_us - since_us) / SIM_MS);
}

/* How long this request may take. */
static uint64_t limit_us(const struct sim_request *request)
{
    if (request->op == LQ_OP_ACQUIRE) {
        return (uint64_t)request->wait_s * SIM_S * 102 / 100 + ACQUIRE_US + WAYS_US;
    }
    return (request->op == LQ_OP_PING ? PING_US : OTHER_US) + WAYS_US;
}

void sim_requests_watch(struct sim_checks *checks)
{
    uint64_t now_us = sim_now(checks->sim);
    if (now_us < checks->watched_us + WATCH_US) {
        return;
    }
    checks->watched_us = now_us;
    for (size_t i = 0; i < checks->n_open; i++) {
        const struct sim_request *request = sim_requests_at(checks, checks->open[i]);
        uint64_t late_us = request->sent_us + limit_us(request);
        if (now_us <= late_us || request->is_slow_reader ||
            !sim_service_is_due(checks, request->node, request->connected_us)) {
            continue;
        }
        sim_fail(checks->sim,
                 "service: node %u, which is well, neither answered the %c of %s %" PRIu64
                 " on key %u for %" PRIu64 " ms nor closed the connection",
                 request->node, request->op, request->op == LQ_OP_ACQUIRE ? "owner" : "token",
                 request->op == LQ_OP_ACQUIRE ? request->owner : request->token, request->key,
                 (now_us - request->sent_us) / SIM_MS);
        return;
    }
}
