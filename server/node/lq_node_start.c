/* How a node begins: who it is, what its disk holds, then replica, disk threads, links and admin
 * interface, in this order; and how all of it ends. */
#include "lq_check.h"
#include "lq_clock.h"
#include "lq_log.h"
#include "lq_mem.h"
#include "lq_node_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static void fill_random(void *ret_bytes, size_t len)
{
    LQ_CHECK(getrandom(ret_bytes, len, 0) == (ssize_t)len);
}

/* ---- Identity. */

static bool refuse(const char *msg, const struct lq_config *config)
{
    lq_log(LQ_LOG_ERROR, msg, LQ_TEXT("data_dir", config->data_dir));
    return false;
}

/* A new data directory gets the identity that the configuration gives it. */
static bool found_or_join(struct lq_node *node, const struct lq_config *config)
{
    node->cluster = config->bootstrap ? lq_config_founded_id(config) : lq_config_cluster_id(config);
    if (node->cluster == 0) {
        return refuse("the data directory is empty. To found a new cluster give --bootstrap and "
                      "--initial-cluster; to join one, add this node there (loquet member add) and "
                      "give its --cluster-id, which `loquet status` shows",
                      config);
    }
    if (!lq_datadir_identify(&node->dir, node->cluster, node->id)) {
        return refuse(node->dir.text, config);
    }
    return true;
}

/* What the directory is wins over the configuration, and a contradiction is told. */
static bool know_identity(struct lq_node *node, const struct lq_config *config)
{
    char text[320];
    uint64_t wanted = lq_config_cluster_id(config);
    if (!node->dir.has_identity) {
        return found_or_join(node, config);
    }
    node->cluster = node->dir.cluster;
    if (node->dir.node != node->id) {
        (void)snprintf(text, sizeof text,
                       "the data directory is that of node %" PRIu32 ", not of node %" PRIu32
                       ": give --node-id %" PRIu32 ", or another --data-dir",
                       node->dir.node, node->id, node->dir.node);
        return refuse(text, config);
    }
    if (wanted != 0 && wanted != node->cluster) {
        (void)snprintf(text, sizeof text,
                       "the data directory belongs to cluster %016" PRIx64
                       ", not to the one of --cluster-id: give another --data-dir, or leave "
                       "--cluster-id out",
                       node->cluster);
        return refuse(text, config);
    }
    return true;
}

/* ---- Recovery and replica. */

static struct lq_replica_options replica_options(const struct lq_node *node,
                                                 const struct lq_config *config)
{
    struct lq_replica_options options;
    lq_replica_defaults(&options);
    options.cluster = node->cluster;
    options.node = node->id;
    if (config->bootstrap) {
        options.bootstrap = config->first_members;
    }
    options.caps = (struct lq_caps){.keys = config->max_keys,
                                    .waiters_per_key = config->max_waiters_per_key,
                                    .waiters = config->max_waiters,
                                    .state_bytes = config->max_state_bytes};
    options.heartbeat_ms = (uint32_t)config->heartbeat_ms;
    options.election_ms = (uint32_t)config->election_ms;
    options.origin_timeout_ms = (uint32_t)config->origin_timeout_ms;
    options.segment_bytes = config->segment_bytes;
    options.entry_bytes = (uint32_t)config->entry_bytes;
    options.snapshot_entries = config->snapshot_entries;
    options.snapshot_bytes = config->snapshot_bytes;
    options.trailing_entries = config->trailing_entries;
    options.outbox_bytes = config->outbox_bytes;
    fill_random(options.secret, sizeof options.secret);
    fill_random(&options.seed, sizeof options.seed);
    return options;
}

static void log_recovery(const struct lq_node *node, enum lq_recovery_verdict verdict,
                         const struct lq_recovery *recovery, uint64_t began_ms)
{
    struct lq_recovery_facts facts = lq_recovery_facts(recovery);
    char cluster[LQ_CONFIG_ID];
    (void)snprintf(cluster, sizeof cluster, "%016" PRIx64, node->cluster);
    if (verdict == LQ_RECOVERY_TORN) {
        lq_log(LQ_LOG_WARN, "the journal ends in a batch that was never finished, nor acknowledged",
               LQ_TEXT("what", node->dir.text));
    } else if (node->dir.text[0] != '\0') {
        lq_log(LQ_LOG_WARN, "a file in the data directory is damaged, and the node can do without",
               LQ_TEXT("what", node->dir.text));
    }
    if (node->dir.passed_over[0] != '\0') {
        lq_log(
            LQ_LOG_WARN,
            "a snapshot is damaged and was passed over; an older one and the log have to do. See "
            "to the disk, and remove the file",
            LQ_TEXT("data_dir", node->dir.path), LQ_TEXT("file", node->dir.passed_over));
    }
    lq_log(LQ_LOG_INFO,
           verdict == LQ_RECOVERY_BLANK ? "starts with an empty data directory"
                                        : "has read its data directory",
           LQ_TEXT("data_dir", node->dir.path), LQ_TEXT("cluster", cluster),
           LQ_NUMBER("node", node->id), LQ_NUMBER("term", facts.term),
           LQ_NUMBER("snapshot", facts.snapshot_index), LQ_NUMBER("last", facts.last_index),
           LQ_NUMBER("ms", lq_clock_ms() - began_ms));
}

static bool make_replica(struct lq_node *node, const struct lq_config *config)
{
    struct lq_replica_options options = replica_options(node, config);
    const char *fault = lq_replica_options_fault(&options);
    uint64_t began_ms = lq_clock_ms();
    enum lq_recovery_verdict verdict;
    struct lq_recovery *recovery;
    if (fault != NULL) {
        return refuse(fault, config);
    }
    recovery = lq_datadir_recover(&node->dir, options.secret, &verdict);
    if (recovery == NULL) {
        return refuse(node->dir.text, config);
    }
    if (verdict == LQ_RECOVERY_CORRUPT) {
        (void)refuse(node->dir.text, config);
        lq_recovery_free(recovery);
        return false;
    }
    log_recovery(node, verdict, recovery, began_ms);
    node->now_ms = node->started_ms = lq_clock_ms();
    node->replica = lq_replica_new(&options, recovery, node->now_ms);
    lq_recovery_free(recovery);
    return true;
}

/* ---- Links: the callbacks. */

static void on_wake(void *context)
{
    lq_node_wake(context);
}

static bool can_greet(void *context)
{
    const struct lq_node *node = context;
    return !node->has_failed && lq_replica_status(node->replica).boot != 0;
}

static struct lq_hello hello(void *context, uint32_t to)
{
    const struct lq_node *node = context;
    return lq_replica_hello(node->replica, to);
}

static enum lq_link_verdict on_up(void *context, const struct lq_hello *hello)
{
    struct lq_node *node = context;
    enum lq_link_verdict verdict = lq_replica_link_up(node->replica, hello);
    if (verdict == LQ_LINK_OK && node->refused_by == hello->from) {
        node->refused_by = 0;
    }
    return verdict;
}

static void on_down(void *context, uint32_t peer, bool is_refused)
{
    struct lq_node *node = context;
    lq_replica_link_down(node->replica, peer, is_refused);
}

static void on_full(void *context, uint32_t peer, bool is_full)
{
    struct lq_node *node = context;
    lq_replica_link_full(node->replica, peer, is_full);
}

static bool on_message(void *context, uint32_t peer, const uint8_t *body, size_t len)
{
    struct lq_node *node = context;
    return lq_replica_receive(node->replica, peer, body, len);
}

static void on_refused(void *context, uint32_t peer, enum lq_link_verdict reason)
{
    struct lq_node *node = context;
    node->refused = reason;
    node->refused_by = peer;
}

static bool make_links(struct lq_node *node, uv_loop_t *loop, const struct lq_config *config)
{
    struct lq_links_user user = {.context = node,
                                 .wake = on_wake,
                                 .can_greet = can_greet,
                                 .hello = hello,
                                 .up = on_up,
                                 .down = on_down,
                                 .full = on_full,
                                 .message = on_message,
                                 .refused = on_refused};
    struct lq_links_options options;
    lq_links_defaults(&options);
    options.node = node->id;
    options.cluster = node->cluster;
    node->links = lq_links_new(loop, &options, &user);
    lq_links_set_members(node->links, lq_replica_members(node->replica));
    return lq_links_listen(node->links,
                           config->peer_listen[0] == '\0' ? config->peer : config->peer_listen);
}

/* ---- Admin interface. */

static enum lq_change_result change(void *context, enum lq_change_kind kind, uint32_t member,
                                    const char *address)
{
    struct lq_node *node = context;
    lq_node_wake(node);
    return lq_replica_change(node->replica, kind, member, address);
}

static enum lq_change_result replace(void *context, uint32_t old_member, uint32_t new_member,
                                     const char *address)
{
    struct lq_node *node = context;
    lq_node_wake(node);
    return lq_replica_replace(node->replica, old_member, new_member, address);
}

static bool make_admin(struct lq_node *node, uv_loop_t *loop, const struct lq_config *config)
{
    struct lq_admin_user user = {
        .context = node, .view = lq_node_look, .change = change, .replace = replace};
    if (config->admin[0] == '\0') {
        return true;
    }
    node->admin = lq_admin_start(loop, config->admin, &user);
    return node->admin != NULL;
}

/* ---- Beginning and end. */

static bool start(struct lq_node *node, uv_loop_t *loop, const struct lq_config *config)
{
    if (!lq_datadir_open(&node->dir, config->data_dir)) {
        return refuse(node->dir.text, config);
    }
    node->is_open = true;
    if (!know_identity(node, config) || !make_replica(node, config)) {
        return false;
    }
    node->disk = lq_disk_start(loop, &node->dir);
    return make_links(node, loop, config) && make_admin(node, loop, config);
}

struct lq_node *lq_node_start(uv_loop_t *loop, const struct lq_config *config,
                              const struct lq_node_user *user)
{
    struct lq_node *node = lq_calloc(1, sizeof *node);
    node->user = *user;
    node->id = (uint32_t)config->node_id;
    memcpy(node->name, config->name, sizeof node->name);
    node->has_failed = !start(node, loop, config);
    if (!node->has_failed) {
        lq_node_end(node);
    }
    return node;
}

void lq_node_close(struct lq_node *node)
{
    lq_admin_stop(node->admin);
    node->admin = NULL;
    if (node->links != NULL) {
        lq_links_close(node->links);
        node->links = NULL;
    }
    if (node->disk != NULL) {
        lq_disk_stop(node->disk);
        node->disk = NULL;
    }
    if (node->is_open) {
        lq_datadir_close(&node->dir);
        node->is_open = false;
    }
}

void lq_node_free(struct lq_node *node)
{
    if (node != NULL) {
        lq_replica_free(node->replica);
        lq_free(node);
    }
}
