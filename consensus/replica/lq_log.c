/* A ring that doubles when it is full, so that dropping at either end moves nothing. */
#include "lq_log.h"

#include "lq_check.h"
#include "lq_mem.h"

#include <stdbool.h>
#include <string.h>

#define CAP_MIN ((size_t)64)

static struct lq_log_entry *slot(const struct lq_log *log, size_t at)
{
    return &log->entries[(log->first + at) & (log->cap - 1)];
}

/* Whether `index` is that of an entry here, in a way that no index makes overflow. */
static bool has(const struct lq_log *log, uint64_t index)
{
    return index > log->base.index && index - log->base.index <= log->count;
}

static void drop(struct lq_log *log, struct lq_log_entry *entry)
{
    log->bytes -= entry->len;
    lq_free(entry->bytes);
    log->count--;
}

void lq_log_init(struct lq_log *log, struct lq_log_point base)
{
    *log = (struct lq_log){.base = base};
}

void lq_log_done(struct lq_log *log)
{
    lq_log_restart(log, log->base);
    lq_free(log->entries);
    lq_log_init(log, log->base);
}

struct lq_log_point lq_log_last(const struct lq_log *log)
{
    if (log->count == 0) {
        return log->base;
    }
    return (struct lq_log_point){log->base.index + log->count, slot(log, log->count - 1)->term};
}

uint64_t lq_log_term_of(const struct lq_log *log, uint64_t index)
{
    const struct lq_log_entry *entry = lq_log_at(log, index);
    if (entry == NULL) {
        return index == log->base.index ? log->base.term : 0;
    }
    return entry->term;
}

const struct lq_log_entry *lq_log_at(const struct lq_log *log, uint64_t index)
{
    return has(log, index) ? slot(log, (size_t)(index - log->base.index - 1)) : NULL;
}

static void grow(struct lq_log *log)
{
    size_t cap = log->cap == 0 ? CAP_MIN : 2 * log->cap;
    size_t to_end = log->cap - log->first; /* entries from the first one to where the ring turns */
    log->entries = lq_realloc(log->entries, cap, sizeof *log->entries);
    if (log->count > to_end) {
        memcpy(log->entries + log->cap, log->entries, (log->count - to_end) * sizeof *log->entries);
    }
    log->cap = cap;
}

void lq_log_append(struct lq_log *log, uint64_t term, uint8_t type, uint64_t check,
                   const uint8_t *bytes, size_t len)
{
    struct lq_log_entry entry = {.term = term, .check = check, .type = type};
    LQ_CHECK(len <= UINT32_MAX && term >= lq_log_last(log).term);
    entry.len = (uint32_t)len;
    entry.bytes = lq_malloc(len);
    if (len > 0) {
        memcpy(entry.bytes, bytes, len);
    }
    if (log->count == log->cap) {
        grow(log);
    }
    *slot(log, log->count) = entry;
    log->count++;
    log->bytes += len;
}

void lq_log_truncate(struct lq_log *log, uint64_t index)
{
    LQ_CHECK(index > log->base.index);
    while (has(log, index)) {
        drop(log, slot(log, log->count - 1));
    }
}

void lq_log_compact(struct lq_log *log, uint64_t index)
{
    LQ_CHECK(index <= log->base.index || has(log, index));
    while (index > log->base.index) {
        struct lq_log_entry *first = slot(log, 0);
        log->base = (struct lq_log_point){log->base.index + 1, first->term};
        drop(log, first);
        log->first = (log->first + 1) & (log->cap - 1);
    }
}

void lq_log_restart(struct lq_log *log, struct lq_log_point base)
{
    while (log->count > 0) {
        drop(log, slot(log, log->count - 1));
    }
    log->first = 0;
    log->base = base;
}
