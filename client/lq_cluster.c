#include "lq_cluster.h"

#include "lq_check.h"
#include "lq_explain.h"
#include "lq_key.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static uint64_t random_u64(void)
{
    uint64_t value = 0;
    LQ_CHECK(getrandom(&value, sizeof value, 0) == (ssize_t)sizeof value);
    return value;
}

void lq_cluster_init(struct lq_cluster *cluster)
{
    memset(cluster, 0, sizeof *cluster);
    cluster->owner = random_u64();
}

void lq_cluster_done(struct lq_cluster *cluster)
{
    lq_core_free(cluster->core);
    cluster->core = NULL;
}

void lq_cluster_set(struct lq_cluster *cluster, const struct lq_endpoints *endpoints)
{
    cluster->endpoints = *endpoints;
    if (cluster->core == NULL) {
        cluster->core = lq_core_new(endpoints->n_addresses, random_u64());
    } else {
        lq_core_set_addresses(cluster->core, endpoints->n_addresses);
    }
}

/* What is wrong with an order; NULL: nothing. */
static const char *find_fault(const struct lq_cluster *cluster, const struct lq_order *order)
{
    bool keyed = order->goal != LQ_GOAL_PING;
    bool leased = order->goal == LQ_GOAL_ACQUIRE || order->goal == LQ_GOAL_RENEW;

    if (keyed && !lq_key_is_valid(order->key, order->key_len)) {
        return "a key is 1 to 1024 bytes of UTF-8 without line feed";
    }
    if (leased && (order->lease_s < 1 || order->lease_s > LOQUET_LEASE_MAX)) {
        return "a lease is 1 to 255 seconds";
    }
    if (order->wait_ms > LOQUET_WAIT_MAX) {
        return "a wait is at most 255 seconds";
    }
    return cluster->core == NULL ? "no endpoints were set" : NULL;
}

struct lq_request *lq_cluster_submit(struct lq_cluster *cluster, struct lq_order *order,
                                     uint64_t now_ms, struct loquet_why *ret_why)
{
    const char *fault = find_fault(cluster, order);

    if (fault != NULL) {
        (void)snprintf(ret_why->text, sizeof ret_why->text, "%s", fault);
        ret_why->endpoint[0] = '\0';
        return NULL;
    }
    if (order->goal == LQ_GOAL_ACQUIRE) {
        order->owner = ++cluster->owner;
    }
    return lq_core_submit(cluster->core, order, now_ms);
}

void lq_cluster_explain(const struct lq_cluster *cluster, const struct lq_outcome *outcome,
                        struct loquet_why *ret_why)
{
    const struct lq_endpoints *endpoints = &cluster->endpoints;

    ret_why->text[0] = ret_why->endpoint[0] = '\0';
    if (outcome->address < endpoints->n_addresses) {
        lq_endpoints_text(endpoints, endpoints->addresses[outcome->address].endpoint,
                          ret_why->endpoint, sizeof ret_why->endpoint);
    }
    if (!lq_explain_is_success(outcome->result)) {
        const char *where = ret_why->endpoint[0] != '\0' ? ret_why->endpoint : "a server";
        lq_explain(outcome, where, ret_why->text, sizeof ret_why->text);
    }
}
