/* Entries of the log, put into a table: what an entry does to the state is the same whether a node
 * runs or its log is read offline. */
#ifndef LQ_REPLAY_H
#define LQ_REPLAY_H

#include "lq_log.h"
#include "lq_members.h"
#include "lq_table.h"

#include <stdint.h>

/* Told of each command after it was applied, with its outcomes, which are gone afterwards. */
typedef void lq_replay_on_command(void *context, const struct lq_stamp *stamp,
                                  const struct lq_command *command,
                                  const struct lq_outcomes *outcomes);

struct lq_replay {
    struct lq_table *table;    /* not owned */
    struct lq_members members; /* as of the last entry that was applied */
    uint64_t members_index;
    lq_replay_on_command *on_command; /* NULL is fine */
    void *context;
    struct lq_outcomes outcomes; /* of one command */
};

/* Sets up what is to be applied to `table`, in which these were the members. Free with
 * lq_replay_done. */
void lq_replay_init(struct lq_replay *replay, struct lq_table *table,
                    const struct lq_members *members, uint64_t members_index);
void lq_replay_done(struct lq_replay *replay);

enum lq_replay_fault {
    LQ_REPLAY_OK = 0,
    LQ_REPLAY_CHECKSUM = 1, /* it is not what its leader made */
    LQ_REPLAY_TYPE = 2,
    LQ_REPLAY_COMMANDS = 3, /* they make no sense, or their time goes back */
    LQ_REPLAY_MEMBERS = 4,  /* it lists none */
};

/* What is wrong, in words for the operator, to follow "log entry N ". */
const char *lq_replay_fault_text(enum lq_replay_fault fault);

/* Applies the entry at `index`. When it is not OK, a part of its commands may have been applied:
 * the table is of no use any more. */
enum lq_replay_fault lq_replay_entry(struct lq_replay *replay, uint64_t index,
                                     const struct lq_log_entry *entry);

#endif
