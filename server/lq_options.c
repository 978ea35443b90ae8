/* All options of loquetd. */
#include "lq_limits.h"
#include "lq_option.h"

#define AT(field)   offsetof(struct lq_config, field)
#define TO_TEXT(x)  #x
#define TEXT_OF(x)  TO_TEXT(x)
#define COUNT_MAX   UINT64_C(1000000000)
#define SECONDS_MAX UINT64_C(86400)
#define BYTES_MAX   (UINT64_C(1) << 40)

#define TEXT(name, argument, kind, group, initial, field, help)                                    \
    {                                                                                              \
        name, argument, help, initial, AT(field), 0, 0, kind, group, false                         \
    }
#define NUMBER(name, argument, group, initial, min, max, field, help)                              \
    {                                                                                              \
        name, argument, help, initial, AT(field), min, max, LQ_OPTION_NUMBER, group, false         \
    }
#define BYTES(name, group, initial, min, max, field, help)                                         \
    {                                                                                              \
        name, "BYTES", help, initial, AT(field), min, max, LQ_OPTION_BYTES, group, false           \
    }
#define SWITCH(name, group, is_flag_only, field, help)                                             \
    {                                                                                              \
        name, NULL, help, "false", AT(field), 0, 0, LQ_OPTION_SWITCH, group, is_flag_only          \
    }
#define FLAG(name, argument, group, field, help)                                                   \
    {                                                                                              \
        name, argument, help, "", AT(field), 0, 0, LQ_OPTION_TEXT, group, true                     \
    }

static const struct lq_option options[] = {
    TEXT("listen", "HOST:PORT", LQ_OPTION_ADDRESS, LQ_GROUP_BOTH, "127.0.0.1:7311", listen,
         "address for clients; port 0 takes a free one and logs it"),
    FLAG("config", "FILE", LQ_GROUP_BOTH, config, "read options from this file, too"),
    NUMBER("max-keys", "N", LQ_GROUP_BOTH, TEXT_OF(LQ_KEYS_DEFAULT), 1, COUNT_MAX, max_keys,
           "keys held at once; a new key beyond it is answered busy"),
    NUMBER("max-waiters-per-key", "N", LQ_GROUP_BOTH, TEXT_OF(LQ_WAITERS_PER_KEY_DEFAULT), 1,
           COUNT_MAX, max_waiters_per_key, "waiters on one key; one more is answered busy"),
    NUMBER("max-waiters", "N", LQ_GROUP_BOTH, TEXT_OF(LQ_WAITERS_DEFAULT), 1, COUNT_MAX,
           max_waiters, "waiters on all keys; one more is answered busy"),
    BYTES("max-state-bytes", LQ_GROUP_BOTH, "2G", 4096, BYTES_MAX, max_state_bytes,
          "memory of the lock table; beyond it is answered busy"),
    NUMBER("max-requests", "N", LQ_GROUP_BOTH, TEXT_OF(LQ_REQUESTS_DEFAULT), 1, COUNT_MAX,
           max_requests, "open requests of one connection; an acquire beyond it is answered busy"),
    BYTES("max-unread-bytes", LQ_GROUP_BOTH, "64M", 4096, BYTES_MAX, max_unread_bytes,
          "answers that a client has not read yet before nothing more is read from it"),
    BYTES("max-unread-total-bytes", LQ_GROUP_BOTH, "1G", 4096, BYTES_MAX, max_unread_total_bytes,
          "the same for all clients together; those with unread answers are not read from then"),
    NUMBER("unread-timeout", "S", LQ_GROUP_BOTH, TEXT_OF(LQ_UNREAD_TIMEOUT_S_DEFAULT), 1,
           SECONDS_MAX, unread_timeout_s,
           "a client that reads nothing for so long is disconnected"),
    NUMBER("max-connections", "N", LQ_GROUP_BOTH, "0", 0, COUNT_MAX, max_connections,
           "clients at once; more are left waiting (0: by file descriptor limit)"),
    TEXT("user", "NAME[:GROUP]", LQ_OPTION_TEXT, LQ_GROUP_BOTH, "", user,
         "when started as root: bind the ports, then become this user for good"),
    TEXT("log-level", "LEVEL", LQ_OPTION_LEVEL, LQ_GROUP_BOTH, "info", log_level,
         "debug, info, warn or error"),
    SWITCH("turn-stats", LQ_GROUP_BOTH, false, turn_stats,
           "measure the CPU time of loop turns; logged on SIGUSR1 and at the end"),

    NUMBER("quarantine", "S", LQ_GROUP_SIMPLE, "0", 0, SECONDS_MAX, quarantine_s,
           "grant nothing for the first S seconds, since a restart forgets locks whose holders go "
           "on; use the longest lease of your clients"),
    NUMBER("sweep-ms", "MS", LQ_GROUP_SIMPLE, TEXT_OF(LQ_SWEEP_MS_DEFAULT), 1, 1000 * SECONDS_MAX,
           sweep_ms, "period in which expired keys that nobody waits for are removed"),

    NUMBER("node-id", "N", LQ_GROUP_BOTH, "0", 0, UINT32_MAX, node_id,
           "be node N of a cluster; an id is never used again for another disk (0: simple mode)"),
    TEXT("name", "TEXT", LQ_OPTION_TEXT, LQ_GROUP_CLUSTER, "", name,
         "what people call this node; shown in its status"),
    TEXT("data-dir", "DIR", LQ_OPTION_TEXT, LQ_GROUP_CLUSTER, "", data_dir,
         "where the node keeps its journal and snapshots; made if it does not exist"),
    TEXT("peer", "HOST:PORT", LQ_OPTION_ADDRESS, LQ_GROUP_CLUSTER, "", peer,
         "address of this node for the other nodes: as they reach it"),
    TEXT("peer-listen", "HOST:PORT", LQ_OPTION_ADDRESS, LQ_GROUP_CLUSTER, "", peer_listen,
         "where to listen for them, if that is another address (0.0.0.0:7312, say)"),
    TEXT("admin", "HOST:PORT", LQ_OPTION_ADDRESS, LQ_GROUP_CLUSTER, "127.0.0.1:7313", admin,
         "address of the admin interface, which asks for no password; empty: none"),
    SWITCH("bootstrap", LQ_GROUP_CLUSTER, false, bootstrap,
           "found a new cluster when the data directory is empty; the same at all first members"),
    TEXT("initial-cluster", "LIST", LQ_OPTION_LIST, LQ_GROUP_CLUSTER, "", initial_cluster,
         "with --bootstrap: its first members, ID=HOST:PORT,ID=HOST:PORT,... (peer addresses), the "
         "same at all of them"),
    TEXT("cluster-name", "TEXT", LQ_OPTION_TEXT, LQ_GROUP_CLUSTER, "loquet", cluster_name,
         "with --bootstrap: tells this cluster from others; the same at all first members"),
    TEXT("cluster-id", "HEX", LQ_OPTION_ID, LQ_GROUP_CLUSTER, "", cluster_id,
         "with an empty data directory and without --bootstrap: the cluster to join, as `loquet "
         "status` shows it"),
    NUMBER("heartbeat-ms", "MS", LQ_GROUP_CLUSTER, "40", 1, 60000, heartbeat_ms,
           "how often the leader is heard of at least; the same at all nodes"),
    NUMBER("election-ms", "MS", LQ_GROUP_CLUSTER, "250", 3, 600000, election_ms,
           "a leader that was silent for this to twice this is replaced; the same at all nodes"),
    NUMBER("origin-timeout-ms", "MS", LQ_GROUP_CLUSTER, "5000", 6, 3600000, origin_timeout_ms,
           "the waiters of a node that was silent for so long leave the queues"),
    BYTES("segment-bytes", LQ_GROUP_CLUSTER, "8M", 4096, UINT64_C(1) << 30, segment_bytes,
          "size of a journal file, a multiple of 512"),
    BYTES("entry-bytes", LQ_GROUP_CLUSTER, "64K", 1024, UINT64_C(1) << 20, entry_bytes,
          "most commands that go into one log entry; the same at all nodes"),
    NUMBER("snapshot-entries", "N", LQ_GROUP_CLUSTER, "262144", 1, COUNT_MAX, snapshot_entries,
           "a snapshot is taken after so many log entries"),
    BYTES("snapshot-bytes", LQ_GROUP_CLUSTER, "64M", 4096, BYTES_MAX, snapshot_bytes,
          "or after so many bytes of them"),
    NUMBER("trailing-entries", "N", LQ_GROUP_CLUSTER, "262144", 0, COUNT_MAX, trailing_entries,
           "log entries kept behind a snapshot for nodes that lag a little"),
    BYTES("outbox-bytes", LQ_GROUP_CLUSTER, "16M", 4096, BYTES_MAX, outbox_bytes,
          "requests under way to the leader; beyond it, clients wait"),

    FLAG("inspect", "DIR", LQ_GROUP_OFFLINE, inspect,
         "print what a data directory holds, changing nothing"),
    FLAG("recover", "DIR", LQ_GROUP_OFFLINE, recover,
         "make a new cluster of one node out of a survivor's data directory, when the majority is "
         "lost for good; needs --to, --node-id, --peer"),
    FLAG("restore", "FILE", LQ_GROUP_OFFLINE, restore,
         "the same out of a snapshot file that was put aside"),
    FLAG("to", "DIR", LQ_GROUP_OFFLINE, to, "the new data directory of --recover and --restore"),
    SWITCH("json", LQ_GROUP_OFFLINE, true, json, "let --inspect print JSON"),
    SWITCH("check-config", LQ_GROUP_OFFLINE, true, check_config, "check all options, then exit"),
    SWITCH("help", LQ_GROUP_OFFLINE, true, help, "print this"),
    SWITCH("version", LQ_GROUP_OFFLINE, true, version, "print the version"),
};

const struct lq_option *lq_options(size_t *ret_n)
{
    *ret_n = sizeof options / sizeof *options;
    return options;
}

/* Whether `key`, as a file has it, is the option `name`. */
static bool is_key_of(const char *key, const char *name)
{
    for (; *key != '\0' && *name != '\0'; key++, name++) {
        if (*key != (*name == '-' ? '_' : *name)) {
            return false;
        }
    }
    return *key == *name;
}

const struct lq_option *lq_option_find(const char *key)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (!options[i].is_flag_only && is_key_of(key, options[i].name)) {
            return &options[i];
        }
    }
    return NULL;
}
