/* What options of a cluster mean together. */
#include "lq_address.h"
#include "lq_option.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* An option of the other mode would do nothing, and nobody would notice. */
static bool check_mode(const struct lq_config *config, struct lq_config_error *ret_error)
{
    size_t n;
    const struct lq_option *options = lq_options(&n);
    bool is_offline = config->recover[0] != '\0' || config->restore[0] != '\0';
    for (size_t i = 0; i < n; i++) {
        if ((config->given >> i & 1) == 0) {
            continue;
        }
        if (options[i].group == LQ_GROUP_CLUSTER && config->node_id == 0 && !is_offline) {
            return lq_config_fail(ret_error,
                                  "--%s: this is for a node of a cluster; give its number, too: "
                                  "--node-id 1",
                                  options[i].name);
        }
        if (options[i].group == LQ_GROUP_SIMPLE && config->node_id != 0) {
            return lq_config_fail(ret_error,
                                  "--%s: this is for a single server; a node of a cluster (with "
                                  "--node-id) needs no such thing: leave it out",
                                  options[i].name);
        }
    }
    return true;
}

/* Whether others can connect to it: it has a port, and is not "any address of this host". */
static bool is_reachable(const char *text)
{
    struct lq_address address;
    return lq_address_parse(text, &address) && strtoul(address.port, NULL, 10) != 0 &&
           strcmp(address.host, "0.0.0.0") != 0 && strcmp(address.host, "::") != 0;
}

/* ---- The first members. */

static int by_id(const void *a, const void *b)
{
    const struct lq_member *left = a, *right = b;
    return (left->node > right->node) - (left->node < right->node);
}

/* Reads ID=HOST:PORT; false when it is none. */
static bool read_member(const char *text, size_t len, uint32_t *ret_node,
                        char ret_address[LQ_ADDRESS_MAX + 1])
{
    const char *equals = memchr(text, '=', len);
    unsigned long long node;
    char *end;
    size_t address_len;
    if (equals == NULL || text[0] < '1' || text[0] > '9') {
        return false;
    }
    node = strtoull(text, &end, 10);
    address_len = len - (size_t)(equals + 1 - text);
    if (end != equals || node > UINT32_MAX || address_len > LQ_ADDRESS_MAX) {
        return false;
    }
    memcpy(ret_address, equals + 1, address_len);
    ret_address[address_len] = '\0';
    *ret_node = (uint32_t)node;
    return is_reachable(ret_address);
}

static bool read_members(struct lq_config *config, struct lq_config_error *ret_error)
{
    const char *at = config->initial_cluster;
    char address[LQ_ADDRESS_MAX + 1];
    uint32_t node;
    while (*at != '\0') {
        size_t len = strcspn(at, ",");
        if (!read_member(at, len, &node, address)) {
            return lq_config_fail(ret_error,
                                  "--initial-cluster: '%.*s' is not ID=HOST:PORT, as others reach "
                                  "it, such as 1=10.0.0.1:7312",
                                  (int)len, at);
        }
        if (!lq_members_add(&config->first_members, node, address, LQ_ROLE_VOTER)) {
            return lq_config_fail(ret_error,
                                  "--initial-cluster: '%.*s': its id or address is there twice, or "
                                  "there are more than %d members",
                                  (int)len, at, LQ_MEMBERS_MAX);
        }
        at += len;
        at += *at == ',' ? 1 : 0;
    }
    qsort(config->first_members.items, config->first_members.n, sizeof(struct lq_member), by_id);
    return true;
}

/* ---- Checks. */

static bool check_founding(const struct lq_config *config, struct lq_config_error *ret_error)
{
    const struct lq_member *self =
        lq_members_find(&config->first_members, (uint32_t)config->node_id);
    if (config->bootstrap && config->first_members.n == 0) {
        return lq_config_fail(ret_error, "--bootstrap: needs --initial-cluster, the first members "
                                         "of the cluster");
    }
    if (config->bootstrap && config->cluster_id[0] != '\0') {
        return lq_config_fail(ret_error,
                              "--cluster-id: is for joining a cluster; leave it out with "
                              "--bootstrap, which founds one");
    }
    if (config->bootstrap && self == NULL) {
        return lq_config_fail(ret_error,
                              "--initial-cluster: node %u, which this is (--node-id), is not in it",
                              (unsigned)config->node_id);
    }
    if (self != NULL && strcmp(self->address, config->peer) != 0) {
        return lq_config_fail(ret_error,
                              "--peer: '%s' is not the address that --initial-cluster has for node "
                              "%u: '%s'",
                              config->peer, (unsigned)config->node_id, self->address);
    }
    return true;
}

static bool check_timings(const struct lq_config *config, struct lq_config_error *ret_error)
{
    if (config->election_ms < 3 * config->heartbeat_ms) {
        return lq_config_fail(ret_error, "--election-ms: must be at least three times "
                                         "--heartbeat-ms, or leaders are replaced for nothing");
    }
    if (config->origin_timeout_ms < 2 * config->election_ms) {
        return lq_config_fail(ret_error, "--origin-timeout-ms: must be at least twice "
                                         "--election-ms, or an election ends waits");
    }
    if (config->segment_bytes % 512 != 0) {
        return lq_config_fail(ret_error, "--segment-bytes: must be a multiple of 512");
    }
    return true;
}

static bool check_offline(const struct lq_config *config, struct lq_config_error *ret_error)
{
    bool is_rebirth = config->recover[0] != '\0' || config->restore[0] != '\0';
    int n =
        (config->inspect[0] != '\0') + (config->recover[0] != '\0') + (config->restore[0] != '\0');
    if (n > 1) {
        return lq_config_fail(ret_error, "--inspect, --recover, --restore: one at a time");
    }
    if (config->json && config->inspect[0] == '\0') {
        return lq_config_fail(ret_error, "--json: only goes with --inspect");
    }
    if (!is_rebirth) {
        return config->to[0] == '\0' ||
               lq_config_fail(ret_error, "--to: only goes with --recover and --restore");
    }
    if (config->to[0] == '\0' || config->node_id == 0 || !is_reachable(config->peer)) {
        return lq_config_fail(ret_error,
                              "%s: needs --to DIR, --node-id N and --peer HOST:PORT of "
                              "the node in the new cluster",
                              config->recover[0] != '\0' ? "--recover" : "--restore");
    }
    return true;
}

bool lq_config_check_cluster(struct lq_config *config, struct lq_config_error *ret_error)
{
    bool is_serving = config->inspect[0] == '\0' && config->recover[0] == '\0' &&
                      config->restore[0] == '\0' && config->node_id != 0;
    if (!check_mode(config, ret_error) || !read_members(config, ret_error) ||
        !check_offline(config, ret_error)) {
        return false;
    }
    if (!is_serving) {
        return true;
    }
    if (config->data_dir[0] == '\0') {
        return lq_config_fail(ret_error, "--data-dir: a node of a cluster needs one");
    }
    if (!is_reachable(config->peer)) {
        return lq_config_fail(ret_error,
                              "--peer: a node of a cluster needs an address, with a port, that the "
                              "other nodes reach it by; 0.0.0.0 is for --peer-listen");
    }
    return check_founding(config, ret_error) && check_timings(config, ret_error);
}

/* ---- The id. */

uint64_t lq_config_founded_id(const struct lq_config *config)
{
    struct lq_buffer bytes;
    uint64_t id;
    lq_buffer_init(&bytes);
    lq_members_encode(&config->first_members, &bytes);
    id = XXH3_64bits_withSeed(bytes.bytes, bytes.len,
                              XXH3_64bits(config->cluster_name, strlen(config->cluster_name)));
    lq_buffer_done(&bytes);
    return id == 0 ? 1 : id;
}

uint64_t lq_config_cluster_id(const struct lq_config *config)
{
    return config->cluster_id[0] == '\0' ? 0 : strtoull(config->cluster_id, NULL, 16);
}
