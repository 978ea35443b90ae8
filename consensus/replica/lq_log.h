/* The log in memory: the entries behind some point, each with its term, type, checksum and bytes.
 * What is on the disk is the journal's matter. Indexes run from base + 1 to last without a gap. */
#ifndef LQ_LOG_H
#define LQ_LOG_H

#include <stddef.h>
#include <stdint.h>

struct lq_log_entry {
    uint64_t term;
    uint64_t check; /* lq_journal_entry_check, as the leader made it */
    uint8_t *bytes; /* the log's */
    uint32_t len;
    uint8_t type; /* raft's entry type */
};

/* A place in the log: the entry there has, or had, this term. 0, 0: before the first entry. */
struct lq_log_point {
    uint64_t index, term;
};

struct lq_log {
    struct lq_log_point base;     /* the entry before the first one */
    struct lq_log_entry *entries; /* a ring */
    size_t cap, first, count;
    uint64_t bytes; /* of all entries, without what holds them */
};

/* An empty log behind `base`. Free with lq_log_done. */
void lq_log_init(struct lq_log *log, struct lq_log_point base);
void lq_log_done(struct lq_log *log);

/* The last entry, or the base when there is none. */
struct lq_log_point lq_log_last(const struct lq_log *log);

/* The term of the entry at `index`, the base included; 0 when the log does not know it. */
uint64_t lq_log_term_of(const struct lq_log *log, uint64_t index);

/* The entry at `index`, valid until the log is changed, or NULL when it is not here. */
const struct lq_log_entry *lq_log_at(const struct lq_log *log, uint64_t index);

/* Appends an entry; its bytes are copied. The term is not below that of the last one. */
void lq_log_append(struct lq_log *log, uint64_t term, uint8_t type, uint64_t check,
                   const uint8_t *bytes, size_t len);

/* Drops the entries from `index`, which is above the base, to the end. */
void lq_log_truncate(struct lq_log *log, uint64_t index);

/* Drops the entries up to and including `index`, which becomes the base. Does nothing when it is at
 * or below the base; it must not be above the last entry. */
void lq_log_compact(struct lq_log *log, uint64_t index);

/* Drops everything: the log is empty behind `base`. */
void lq_log_restart(struct lq_log *log, struct lq_log_point base);

#endif
