/* Options of loquetd: from flags, environment, and a configuration file (in this order of
 * precedence), all described by one table in lq_config.c. A key `sweep-ms` is the flag --sweep-ms,
 * the variable LOQUETD_SWEEP_MS, and the key sweep_ms in the file (libconfig syntax). */
#ifndef LQ_CONFIG_H
#define LQ_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#define LQ_CONFIG_TEXT  256
#define LQ_CONFIG_ERROR 512

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
    bool check_config;
    bool help;
    bool version;
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

/* ---- For lq_config_file.c. */

struct lq_option;

/* The option with that key in a file; NULL when there is none. */
const struct lq_option *lq_config_find(const char *key);

/* Sets an option that was found at `where` ("--sweep-ms", "FILE:3: sweep_ms"). */
bool lq_config_set(struct lq_config *config, const struct lq_option *option, const char *value,
                   const char *where, struct lq_config_error *ret_error);

/* Reads a file into `config`. */
bool lq_config_read_file(struct lq_config *config, const char *path,
                         struct lq_config_error *ret_error);

/* Formats an error; always returns false. */
__attribute__((format(printf, 2, 3))) bool lq_config_fail(struct lq_config_error *ret_error,
                                                          const char *format, ...);

#endif
