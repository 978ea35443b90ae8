/* Raft, seen from the replica: the only place that talks to libraft's raft_step. What libraft takes
 * for granted is checked here, since its distribution builds do not: misuse must not reach it, and
 * bytes of peers are not believed. Its known traps are handled here and named in
 * docs/decisions/0012-raft-step.md.
 *
 * Calls return after the effects of the step were handed to the user's functions. Times are ms of
 * the node's clock. */
#ifndef LQ_ENGINE_H
#define LQ_ENGINE_H

#include "lq_log.h"
#include "lq_members.h"
#include "lq_message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The types of log entries; the numbers are raft's. */
enum lq_entry_type {
    LQ_ENTRY_COMMANDS = 1,
    LQ_ENTRY_BARRIER = 2, /* raft's own, at the beginning of a term */
    LQ_ENTRY_MEMBERS = 3,
};

struct lq_engine;

/* What the engine needs done, in the order of the calls. */
struct lq_engine_user {
    void *context;
    /* To be durable before any message leaves. */
    void (*on_term)(void *context, uint64_t term, uint64_t vote);
    /* The log has new entries from `first` to its end, which may replace others; to be made
     * durable. */
    void (*on_entries)(void *context, uint64_t first);
    /* A message for `node`, time and pings not filled in. */
    void (*on_message)(void *context, uint32_t node, const struct lq_message *message,
                       const struct lq_message_entry *entries);
    /* `node` lacks entries that the log has no more: it needs the snapshot at `point`. Said again
     * and again until it has it. */
    void (*on_snapshot_wanted)(void *context, uint32_t node, struct lq_log_point point);
    /* The snapshot that was offered with lq_engine_install replaces everything: the log is empty
     * behind it. To be made durable, then lq_engine_installed. */
    void (*on_install)(void *context, struct lq_log_point point);
};

struct lq_engine_options {
    uint32_t node;
    uint32_t seed;
    uint32_t heartbeat_ms, election_ms;
    size_t message_bytes; /* entries in one message, at most, unless a single one is larger */
};

/* What the node starts from. */
struct lq_engine_start {
    uint64_t term, vote;
    struct lq_log_point snapshot;     /* 0, 0: none */
    const struct lq_members *members; /* those of the snapshot, and the entry that made them */
    uint64_t members_index;
};

struct lq_engine *lq_engine_new(const struct lq_engine_options *options,
                                const struct lq_engine_user *user, struct lq_log *log);
void lq_engine_free(struct lq_engine *engine);

/* Starts it over what `log` holds. */
void lq_engine_start(struct lq_engine *engine, const struct lq_engine_start *start,
                     uint64_t now_ms);

/* Sets the time of the calls to come. */
void lq_engine_set_time(struct lq_engine *engine, uint64_t now_ms);

/* Timers that are due at the present time. */
void lq_engine_tick(struct lq_engine *engine);
uint64_t lq_engine_deadline(const struct lq_engine *engine);

/* A raft message of a peer, whose entries' checksums were verified. A message that makes no sense
 * is ignored. */
void lq_engine_receive(struct lq_engine *engine, uint32_t node, const struct lq_message *message);

/* Entries up to `index` are durable, and are still those of the log. */
void lq_engine_stored(struct lq_engine *engine, uint64_t index);

/* Appends an entry to the log. False: this node can't, now. A leader only. */
bool lq_engine_submit(struct lq_engine *engine, enum lq_entry_type type, const uint8_t *bytes,
                      size_t len);

/* The members of the entry at `index` were applied: to be said for every such entry. */
void lq_engine_configured(struct lq_engine *engine, uint64_t index,
                          const struct lq_members *members);

/* This node's own snapshot at `index` is durable; the log keeps the entries above `keep_from` only,
 * which is at or below `index`. */
void lq_engine_snapshot_taken(struct lq_engine *engine, struct lq_log_point point,
                              uint64_t keep_from, const struct lq_members *members,
                              uint64_t members_index);

/* Frees entries that the log need not keep, some at a time; returns whether there are more. */
bool lq_engine_compact(struct lq_engine *engine);

/* A whole, verified snapshot of the leader is on the disk. True: it is being installed, on_install
 * was called. False: it is of no use. */
bool lq_engine_install(struct lq_engine *engine, uint32_t from, struct lq_log_point point,
                       const struct lq_members *members, uint64_t members_index);
void lq_engine_installed(struct lq_engine *engine);

/* Promotion: `node` is to catch up first. */
void lq_engine_catch_up(struct lq_engine *engine, uint32_t node);

enum lq_catch_up {
    LQ_CATCH_UP_NONE,
    LQ_CATCH_UP_RUNNING,
    LQ_CATCH_UP_ABORTED,
    LQ_CATCH_UP_FINISHED,
};
enum lq_catch_up lq_engine_catch_up_state(const struct lq_engine *engine, uint32_t node);

/* Hands leadership to a voter that has the whole log; false when it can't be, now. */
bool lq_engine_transfer(struct lq_engine *engine, uint32_t node);
bool lq_engine_is_transferring(const struct lq_engine *engine);

/* The queue to that node is full: entries are not sent to it. */
void lq_engine_peer_full(struct lq_engine *engine, uint32_t node, bool is_full);

/* The leader's process is known to be gone: this node follows nobody, so that it gives its pre-vote
 * to whoever asks. */
void lq_engine_forget_leader(struct lq_engine *engine, uint32_t dead_leader);

/* The same, and no waiting for the election timeout, as far as
 * that is safe now. Returns whether an election was begun. */
bool lq_engine_skip_timeout(struct lq_engine *engine);

/* Whether calling it again may help: no leader was found yet, and no real vote is under way. */
bool lq_engine_may_skip(const struct lq_engine *engine, uint32_t dead_leader);

/* ---- Reading. */

enum lq_engine_role {
    LQ_ENGINE_FOLLOWER,
    LQ_ENGINE_CANDIDATE,
    LQ_ENGINE_LEADER,
};

enum lq_engine_role lq_engine_role(const struct lq_engine *engine);
uint64_t lq_engine_term(const struct lq_engine *engine);
uint32_t lq_engine_leader(const struct lq_engine *engine); /* 0: unknown */
uint64_t lq_engine_commit(const struct lq_engine *engine);
uint64_t lq_engine_match(const struct lq_engine *engine, uint32_t node); /* 0: unknown */
uint64_t lq_engine_last_stored(const struct lq_engine *engine);
bool lq_engine_is_installing(const struct lq_engine *engine);
bool lq_engine_can_change(const struct lq_engine *engine);

/* The members in force: of the newest entry that has some, committed or not. */
const struct lq_members *lq_engine_members(const struct lq_engine *engine);

/* Why the node must stop, or NULL. Once this is set, no call does anything. */
const char *lq_engine_fault(const struct lq_engine *engine);

#endif
