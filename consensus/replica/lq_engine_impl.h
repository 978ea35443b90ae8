/* Inside of the engine: what its files share. Nobody else includes this. */
#ifndef LQ_ENGINE_IMPL_H
#define LQ_ENGINE_IMPL_H

#include "lq_engine.h"

#include <raft.h>

/* What is sent to a peer while its answers fail to come, see lq_engine_send.c. */
struct lq_engine_peer {
    uint32_t node;
    bool is_full;
    bool is_answered;     /* since `sent_ms` */
    uint64_t sent_end;    /* index of the last entry that was sent */
    uint64_t sent_ms;     /* when the last ones were */
    uint64_t told_commit; /* the commit index that it was told last */
};

struct lq_engine {
    struct raft raft;
    struct lq_engine_options options;
    struct lq_engine_user user;
    struct lq_log *log;
    bool is_started;
    const char *fault;
    char fault_text[128];
    uint64_t now_ms;
    uint64_t skipped_ms;   /* raft's clock is that much ahead of the node's */
    uint64_t last_beat_ms; /* when a leader's timer was last run */
    bool is_beating;       /* a leader's timer is being run: a heartbeat goes out, needed or not */
    uint64_t commit;       /* the highest seen: raft's own can fall */
    struct lq_members members;
    const struct raft_server *members_from; /* what `members` was copied from, and when */
    uint64_t members_uncommitted, members_committed;
    struct raft_snapshot_metadata installing;
    uint64_t keep_from; /* the log need not keep what is at or below this */
    struct lq_engine_peer peers[LQ_MEMBERS_MAX];
    size_t n_peers;
    /* While a step runs: the checksums of the entries that it may keep. */
    const struct raft_entry *step_entries;
    const uint64_t *step_checks;
    size_t n_step_entries;
    const void *borrowed; /* bytes of a submission: not raft's to free */
};

/* Runs one step of raft and hands on what it asks for; returns raft's code, and sets the fault when
 * it is one that can't happen. `is_refusable`: a submission may be refused. */
int lq_engine_step(struct lq_engine *engine, struct raft_event *event, bool is_refusable);

void lq_engine_fail(struct lq_engine *engine, const char *what, const char *why);

/* Fills a raft configuration; free with raft_configuration_close. */
void lq_engine_configuration(const struct lq_members *members,
                             struct raft_configuration *ret_configuration);

struct lq_engine_peer *lq_engine_peer(struct lq_engine *engine, uint32_t node);

/* Hands on a message of raft. */
void lq_engine_send(struct lq_engine *engine, const struct raft_message *from);

/* This node's role changed: what it sent before says nothing about what peers have. */
void lq_engine_forget_sent(struct lq_engine *engine);

/* Tells the sender's bookkeeping that `node` answered. */
void lq_engine_answered(struct lq_engine *engine, uint32_t node);

/* The sole voter gets a new term before it elects itself, which raft does without one. */
void lq_engine_raise_term(struct lq_engine *engine);
bool lq_engine_is_sole_voter(const struct lq_engine *engine);

#endif
