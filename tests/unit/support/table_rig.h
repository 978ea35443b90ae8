/* A lock table to which a test speaks in words:
 *
 *     ck_assert_str_eq(lq_table_rig_do(rig, "A 1 10 5 7 key; R 2 1 key"),
 *                      "1/1 granted 1; 2/1 released");
 *
 * Commands: A origin wait lease owner key, R origin token key, K origin lease token key (renew), C
 * origin target (cancel), F origin key (release by force), X token key (expire), O origin (open), Q
 * origin (close). An origin is NODE[.INCARNATION][/SEQ]; left out, the incarnation is 1, and the
 * seq the next one that the rig has not used for this node. Outcomes stand behind the command
 * (origin/seq) that they are for, a granted one with its token. */
#ifndef LQ_TABLE_RIG_H
#define LQ_TABLE_RIG_H

#include "lq_table.h"

#define LQ_TABLE_RIG_NODES 8

struct lq_table_rig {
    struct lq_table *table;
    struct lq_stamp stamp;       /* of the coming commands; a test may change it */
    struct lq_outcomes outcomes; /* of the last command */
    uint64_t seqs[LQ_TABLE_RIG_NODES];
    char text[4096];
};

/* Caps that are never hit. */
struct lq_caps lq_table_rig_no_caps(void);

/* A table at time 1000 whose first token is 1; origins 1 and 2 are open. */
void lq_table_rig_init(struct lq_table_rig *rig);
void lq_table_rig_done(struct lq_table_rig *rig);

/* Applies commands given as words and returns all their outcomes as words, valid until the next
 * call; also checks that the kept digest equals the recomputed one after each. */
const char *lq_table_rig_do(struct lq_table_rig *rig, const char *words);

/* The same after `ms` have passed. */
const char *lq_table_rig_after(struct lq_table_rig *rig, uint64_t ms, const char *words);

/* "token key" of the lock among those that is due first, "" when none is due now. */
const char *lq_table_rig_due(struct lq_table_rig *rig, enum lq_which which);

#endif
