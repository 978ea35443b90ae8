#include "lq_log.h"

#include "lq_check.h"
#include "lq_clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

static enum lq_log_level lowest = LQ_LOG_INFO;

static const char *const names[] = {"debug", "info", "warn", "error"};

void lq_log_set_level(enum lq_log_level level)
{
    lowest = level;
}

int lq_log_level_of(const char *name)
{
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        if (strcmp(name, names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

/* A line being formatted; what does not fit is cut. */
struct line {
    char *bytes;
    size_t len, cap;
};

static void put_char(struct line *line, char c)
{
    if (line->len < line->cap) {
        line->bytes[line->len++] = c;
    }
}

static void put(struct line *line, const char *text)
{
    for (; *text != '\0'; text++) {
        put_char(line, *text);
    }
}

static bool is_plain(char c)
{
    return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
}

static bool needs_quotes(const char *text)
{
    if (*text == '\0') {
        return true;
    }
    while (*text != '\0' && is_plain(*text)) {
        text++;
    }
    return *text != '\0';
}

static void put_value(struct line *line, const char *text)
{
    char escaped[8];
    if (!needs_quotes(text)) {
        put(line, text);
        return;
    }
    put_char(line, '"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            put_char(line, '\\');
            put_char(line, *text);
        } else if (is_plain(*text) || *text == ' ' || *text == '=') {
            put_char(line, *text);
        } else {
            (void)snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned)(unsigned char)*text);
            put(line, escaped);
        }
    }
    put_char(line, '"');
}

static void put_time(struct line *line, uint64_t wall_us)
{
    char text[64];
    struct tm utc;
    time_t seconds = (time_t)(wall_us / 1000000);
    LQ_CHECK(gmtime_r(&seconds, &utc) != NULL);
    LQ_CHECK(strftime(text, sizeof text, "ts=%Y-%m-%dT%H:%M:%S", &utc) > 0);
    put(line, text);
    (void)snprintf(text, sizeof text, ".%03uZ", (unsigned)(wall_us / 1000 % 1000));
    put(line, text);
}

unsigned lq_log_format(char *ret_line, unsigned cap, uint64_t wall_us, enum lq_log_level level,
                       const char *msg, const struct lq_log_field *fields)
{
    struct line line = {.bytes = ret_line, .cap = cap - 1};
    char number[24];
    put_time(&line, wall_us);
    put(&line, " level=");
    put(&line, names[level]);
    put(&line, " msg=");
    put_value(&line, msg);
    for (; fields->key != NULL; fields++) {
        put_char(&line, ' ');
        put(&line, fields->key);
        put_char(&line, '=');
        (void)snprintf(number, sizeof number, "%" PRIu64, fields->number);
        put_value(&line, fields->text == NULL ? number : fields->text);
    }
    line.cap = cap;
    put_char(&line, '\n');
    return (unsigned)line.len;
}

void lq_log_write(enum lq_log_level level, const char *msg, const struct lq_log_field *fields)
{
    char line[LINE_MAX_BYTES];
    unsigned len;
    if (level < lowest) {
        return;
    }
    len = lq_log_format(line, sizeof line, lq_clock_wall_us(), level, msg, fields);
    /* Nothing can be done, or told, when this fails. */
    if (write(STDERR_FILENO, line, len) < 0) {
        return;
    }
}
