#include "table_rig.h"

#include "lq_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lq_caps lq_table_rig_no_caps(void)
{
    return (struct lq_caps){.keys = UINT64_MAX,
                            .waiters_per_key = UINT64_MAX,
                            .waiters = UINT64_MAX,
                            .state_bytes = UINT64_MAX};
}

void lq_table_rig_init(struct lq_table_rig *rig)
{
    static const uint8_t secret[16] = {1, 2, 3};
    *rig = (struct lq_table_rig){.stamp = {.time_ms = 1000, .caps = lq_table_rig_no_caps()}};
    rig->table = lq_table_new(secret, 1);
    lq_outcomes_init(&rig->outcomes);
    LQ_CHECK(strcmp(lq_table_rig_do(rig, "O 1; O 2"), "1/0 opened; 2/0 opened") == 0);
}

void lq_table_rig_done(struct lq_table_rig *rig)
{
    lq_outcomes_done(&rig->outcomes);
    lq_table_free(rig->table);
}

/* ---- Commands. */

/* A test that can't say what it means is wrong: stop at once. */
static const char *word(const char **at)
{
    const char *start = *at + strspn(*at, " ");
    *at = start + strcspn(start, " ;");
    LQ_CHECK(*at > start);
    return start;
}

static uint64_t number(const char **at)
{
    char *end = NULL;
    uint64_t value = strtoull(word(at), &end, 10);
    LQ_CHECK(end == *at);
    return value;
}

static void key(const char **at, struct lq_command *command)
{
    command->key = (const uint8_t *)word(at);
    command->key_len = (uint16_t)(*at - (const char *)command->key);
}

static void origin(struct lq_table_rig *rig, const char **at, struct lq_command *command)
{
    char *end = NULL;
    command->origin.node = (uint32_t)strtoul(word(at), &end, 10);
    command->origin.incarnation = *end == '.' ? strtoull(end + 1, &end, 10) : 1;
    if (*end == '/') {
        command->seq = strtoull(end + 1, &end, 10);
    } else if (command->type != LQ_COMMAND_ORIGIN_OPEN &&
               command->type != LQ_COMMAND_ORIGIN_CLOSE) {
        LQ_CHECK(command->origin.node < LQ_TABLE_RIG_NODES);
        command->seq = ++rig->seqs[command->origin.node];
    }
    LQ_CHECK(end == *at);
}

static enum lq_command_type type_of(char letter)
{
    static const char letters[] = "ARKCXOQF"; /* in the order of enum lq_command_type */
    const char *found = strchr(letters, letter);
    LQ_CHECK(letter != '\0' && found != NULL);
    return (enum lq_command_type)(found - letters + 1);
}

static struct lq_command command_of(struct lq_table_rig *rig, const char **at)
{
    struct lq_command command = {.type = (uint8_t)type_of(*word(at))};
    enum lq_command_type type = (enum lq_command_type)command.type;
    if (type != LQ_COMMAND_EXPIRE) {
        origin(rig, at, &command);
    }
    if (type == LQ_COMMAND_ACQUIRE) {
        command.wait_s = (uint8_t)number(at);
    }
    if (type == LQ_COMMAND_ACQUIRE || type == LQ_COMMAND_RENEW) {
        command.lease_s = (uint8_t)number(at);
    }
    if (type == LQ_COMMAND_ACQUIRE) {
        command.owner = number(at);
    }
    if (type == LQ_COMMAND_RELEASE || type == LQ_COMMAND_RENEW || type == LQ_COMMAND_EXPIRE) {
        command.token = number(at);
    }
    if (type == LQ_COMMAND_CANCEL) {
        command.target = number(at);
    } else if (type != LQ_COMMAND_ORIGIN_OPEN && type != LQ_COMMAND_ORIGIN_CLOSE) {
        key(at, &command);
    }
    return command;
}

/* ---- Outcomes. */

static const char *name_of(uint8_t kind)
{
    static const char *const names[] = {"?",         "granted",    "queued",   "timeout",
                                        "busy",      "released",   "not held", "renewed",
                                        "cancelled", "not queued", "skipped",  "opened",
                                        "refused",   "closed",     "expired",  "stale"};
    LQ_CHECK(kind >= 1 && kind < sizeof names / sizeof *names);
    return names[kind];
}

__attribute__((format(printf, 2, 3))) static void write_words(struct lq_table_rig *rig,
                                                              const char *format, ...)
{
    size_t len = strlen(rig->text);
    va_list arguments;
    int added;
    va_start(arguments, format);
    added = vsnprintf(rig->text + len, sizeof rig->text - len, format, arguments);
    va_end(arguments);
    LQ_CHECK(added >= 0 && (size_t)added < sizeof rig->text - len);
}

static void write_outcome(struct lq_table_rig *rig, const struct lq_outcome *outcome)
{
    write_words(rig, "%s", rig->text[0] == '\0' ? "" : "; ");
    if (outcome->origin.node != 0) {
        write_words(rig, "%" PRIu32, outcome->origin.node);
        if (outcome->origin.incarnation != 1) {
            write_words(rig, ".%" PRIu64, outcome->origin.incarnation);
        }
        write_words(rig, "/%" PRIu64 " ", outcome->seq);
    }
    write_words(rig, "%s", name_of(outcome->kind));
    if (outcome->kind == LQ_OUTCOME_GRANTED) {
        write_words(rig, " %" PRIu64, outcome->token);
    }
}

const char *lq_table_rig_do(struct lq_table_rig *rig, const char *words)
{
    rig->text[0] = '\0';
    for (const char *at = words; *at != '\0'; at += strspn(at, "; ")) {
        struct lq_command command = command_of(rig, &at);
        rig->outcomes.count = 0;
        lq_table_apply(rig->table, &command, &rig->stamp, &rig->outcomes);
        LQ_CHECK(lq_table_digest(rig->table) == lq_table_digest_recomputed(rig->table));
        for (size_t i = 0; i < rig->outcomes.count; i++) {
            write_outcome(rig, &rig->outcomes.items[i]);
        }
    }
    return rig->text;
}

const char *lq_table_rig_after(struct lq_table_rig *rig, uint64_t ms, const char *words)
{
    rig->stamp.time_ms += ms;
    return lq_table_rig_do(rig, words);
}

const char *lq_table_rig_due(struct lq_table_rig *rig, enum lq_which which)
{
    struct lq_command expire;
    rig->text[0] = '\0';
    if (lq_table_due(rig->table, which, rig->stamp.time_ms, &expire)) {
        LQ_CHECK(expire.type == LQ_COMMAND_EXPIRE);
        write_words(rig, "%" PRIu64 " %.*s", expire.token, expire.key_len,
                    (const char *)expire.key);
    }
    return rig->text;
}
