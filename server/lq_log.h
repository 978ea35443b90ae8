/* Log lines in logfmt on standard error: ts=... level=... msg=... and fields. One line per event,
 * written with one system call, so that lines of several processes do not mix. */
#ifndef LQ_LOG_H
#define LQ_LOG_H

#include <stdint.h>

enum lq_log_level {
    LQ_LOG_DEBUG,
    LQ_LOG_INFO,
    LQ_LOG_WARN,
    LQ_LOG_ERROR,
};

/* One field; made by LQ_TEXT or LQ_NUMBER. `key` NULL ends a list. */
struct lq_log_field {
    const char *key;
    const char *text; /* NULL: `number` counts */
    uint64_t number;
};

#define LQ_TEXT(name, value)                                                                       \
    (struct lq_log_field)                                                                          \
    {                                                                                              \
        .key = (name), .text = (value)                                                             \
    }
#define LQ_NUMBER(name, value)                                                                     \
    (struct lq_log_field)                                                                          \
    {                                                                                              \
        .key = (name), .number = (value)                                                           \
    }

/* Logs `msg` with at least one field: lq_log(LQ_LOG_INFO, "listening", LQ_TEXT("address", a)).
 * Values with blanks, quotes or bytes outside printable ASCII are quoted and escaped; a line is cut
 * at 2 KiB. */
#define lq_log(level, msg, ...)                                                                    \
    lq_log_write(level, msg, (const struct lq_log_field[]){__VA_ARGS__, {.key = NULL}})

void lq_log_write(enum lq_log_level level, const char *msg, const struct lq_log_field *fields);

/* Lines below this level are dropped; INFO at the start. */
void lq_log_set_level(enum lq_log_level level);

/* The level of that name, or -1. */
int lq_log_level_of(const char *name);

/* Formats a line with its line feed into `ret_line` and returns its length; for lq_log_write and
 * for tests. */
unsigned lq_log_format(char *ret_line, unsigned cap, uint64_t wall_us, enum lq_log_level level,
                       const char *msg, const struct lq_log_field *fields);

#endif
