/* Commands of the lock table: what is put into log entries and applied, in the same order, on every
 * replica. */
#ifndef LQ_COMMAND_H
#define LQ_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

/* Who sent a command: a node, and which of its lives (docs/architecture.md). */
struct lq_origin_id {
    uint32_t node;
    uint64_t incarnation;
};

/* Caps on the table. They come with each command's stamp, so that all replicas use the leader's. */
struct lq_caps {
    uint64_t keys;
    uint64_t waiters_per_key;
    uint64_t waiters;
    uint64_t state_bytes;
};

/* What the leader says about the moment at which a command is applied. */
struct lq_stamp {
    uint64_t time_ms; /* table time; never below that of an earlier stamp */
    struct lq_caps caps;
};

/* The numbers are part of the log's format. */
enum lq_command_type {
    LQ_COMMAND_ACQUIRE = 1,
    LQ_COMMAND_RELEASE = 2,
    LQ_COMMAND_RENEW = 3,
    LQ_COMMAND_CANCEL = 4,        /* take back a queued acquire */
    LQ_COMMAND_EXPIRE = 5,        /* from the leader, not from an origin */
    LQ_COMMAND_ORIGIN_OPEN = 6,   /* from the leader */
    LQ_COMMAND_ORIGIN_CLOSE = 7,  /* from the leader */
    LQ_COMMAND_FORCE_RELEASE = 8, /* an operator's release without the token */
};

/* One command. Fields that its type does not name are 0. */
struct lq_command {
    uint8_t type;               /* enum lq_command_type */
    uint8_t wait_s;             /* ACQUIRE: 0 is never queued; else its origin bounds the waiting */
    uint8_t lease_s;            /* ACQUIRE, RENEW: 1 to 255 */
    uint16_t key_len;           /* all but CANCEL and ORIGIN_*: 1 to LQ_KEY_MAX */
    struct lq_origin_id origin; /* all but EXPIRE */
    uint64_t seq;               /* all that come from an origin: exactly one more than its last */
    uint64_t owner;             /* ACQUIRE */
    uint64_t token;             /* RELEASE, RENEW, EXPIRE */
    uint64_t target;            /* CANCEL: seq of the acquire */
    const uint8_t *key;         /* not owned */
};

/* Whether a command comes from an origin, with a sequence number, rather than from the leader. */
static inline bool lq_command_is_from_origin(uint8_t type)
{
    return type >= LQ_COMMAND_ACQUIRE && type <= LQ_COMMAND_FORCE_RELEASE &&
           type != LQ_COMMAND_EXPIRE && type != LQ_COMMAND_ORIGIN_OPEN &&
           type != LQ_COMMAND_ORIGIN_CLOSE;
}

#endif
