/* What the answers of all clients together say about locks, and that it is sound: a token is given
 * once; a key's tokens grow; a key has a new holder only after the one before released it, was past
 * its lease, or could not hear of its grant. Answers are noted as a turn made them, in any order,
 * and judged at its end. Tokens are taken to begin at 1. */
#ifndef LQ_SESSION_GRANTS_H
#define LQ_SESSION_GRANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_grant {
    uint64_t deadline_ms;
    bool is_known;    /* an A told of it */
    bool is_released; /* an R told of that */
    bool is_lost;     /* nobody heard of it: the server may have released it */
    bool is_renewed;  /* in this turn */
    uint16_t key_len;
    uint8_t *key; /* owned */
};

/* An answer R (no deadline) or K of this turn. */
struct lq_grant_change {
    uint64_t token;
    uint64_t deadline_ms;
};

struct lq_grants {
    struct lq_grant *by_token;
    size_t n;
    uint64_t *fresh; /* tokens of this turn */
    size_t n_fresh;
    struct lq_grant_change *changes;
    size_t n_changes, cap_changes;
    uint64_t last_token; /* the highest that was told in an earlier turn */
};

void lq_grants_init(struct lq_grants *grants);
void lq_grants_done(struct lq_grants *grants);

/* An answer A. Returns what is not sound, or NULL. */
const char *lq_grants_granted(struct lq_grants *grants, uint64_t token, const uint8_t *key,
                              uint16_t key_len, uint64_t deadline_ms);

/* An answer K. */
void lq_grants_renewed(struct lq_grants *grants, uint64_t token, uint64_t deadline_ms);

/* An answer R. */
void lq_grants_released(struct lq_grants *grants, uint64_t token);

/* Nobody heard of this grant. */
void lq_grants_lost(struct lq_grants *grants, uint64_t token);

/* All answers of a turn at `now_ms` were noted. Returns what is not sound, or NULL. */
const char *lq_grants_judge(struct lq_grants *grants, uint64_t now_ms);

#endif
