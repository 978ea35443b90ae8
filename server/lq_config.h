/* Options of loquetd: from flags, environment, and a configuration file (in this order of
 * precedence), all described by one table in lq_options.c. A key `sweep-ms` is the flag --sweep-ms,
 * the variable LOQUETD_SWEEP_MS, and the key sweep_ms in the file (libconfig syntax). */
#ifndef LQ_CONFIG_H
#define LQ_CONFIG_H

#include "lq_members.h"

#include <stdbool.h>
#include <stdint.h>

#define LQ_CONFIG_TEXT  256
#define LQ_CONFIG_LIST  5120 /* the first members, with addresses of any length */
#define LQ_CONFIG_ID    17
#define LQ_CONFIG_ERROR 640

struct lq_config {
    char listen[LQ_CONFIG_TEXT]; /* HOST:PORT */
    char config[LQ_CONFIG_TEXT]; /* the file, or empty */
    char log_level[LQ_CONFIG_TEXT];
    uint64_t sweep_ms;
    uint64_t quarantine_s;
    uint64_t max_keys;
    uint64_t max_waiters_per_key;
    uint64_t max_waiters;
    uint64_t max_state_bytes;
    uint64_t max_requests;
    uint64_t max_unread_bytes;
    uint64_t max_unread_total_bytes;
    uint64_t unread_timeout_s;
    uint64_t max_connections; /* 0: what the file descriptor limit allows */
    bool turn_stats;
    char user[LQ_CONFIG_TEXT]; /* NAME[:GROUP] to become; empty: stay */

    /* Cluster mode. */
    uint64_t node_id; /* 0: simple mode */
    char name[LQ_CONFIG_TEXT];
    char peer[LQ_CONFIG_TEXT];        /* as the others dial it */
    char peer_listen[LQ_CONFIG_TEXT]; /* empty: the same */
    char admin[LQ_CONFIG_TEXT];       /* empty: none */
    char data_dir[LQ_CONFIG_TEXT];
    char initial_cluster[LQ_CONFIG_LIST];
    char cluster_name[LQ_CONFIG_TEXT];
    char cluster_id[LQ_CONFIG_ID];
    bool bootstrap;
    uint64_t heartbeat_ms, election_ms, origin_timeout_ms;
    uint64_t segment_bytes, entry_bytes, outbox_bytes;
    uint64_t snapshot_entries, snapshot_bytes, trailing_entries;
    struct lq_members first_members; /* initial_cluster, read; sorted by id; all of them voters */

    /* Instead of serving. */
    char inspect[LQ_CONFIG_TEXT], recover[LQ_CONFIG_TEXT], restore[LQ_CONFIG_TEXT];
    char to[LQ_CONFIG_TEXT];
    bool json;
    bool check_config;
    bool help;
    bool version;

    uint64_t given; /* by position in the table: which options were set, wherever */
};

/* Why the configuration was refused: names the key, where it stands, and what would be right. */
struct lq_config_error {
    char text[LQ_CONFIG_ERROR];
};

/* Reads all sources. False: `ret_error` says why. `environment` looks like environ(7). */
bool lq_config_read(struct lq_config *ret_config, int argc, char *const argv[],
                    char *const environment[], struct lq_config_error *ret_error);

/* The text of --help. */
void lq_config_print_help(void);

/* The id of the cluster that `first_members` found under that name: not 0, and another one when a
 * member's id or address or the name differs. */
uint64_t lq_config_founded_id(const struct lq_config *config);

/* `cluster_id` as a number; 0: none was given. */
uint64_t lq_config_cluster_id(const struct lq_config *config);

#endif
