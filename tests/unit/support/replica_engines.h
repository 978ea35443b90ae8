/* Engines in memory: raft behind its boundary, with a log each, no disk and no sockets. Messages
 * travel through the real codec, in order, and take a while if they are told to. Writes are durable
 * and entries are applied at once, unless a test holds them back. */
#ifndef LQ_REPLICA_ENGINES_H
#define LQ_REPLICA_ENGINES_H

#include "lq_engine.h"
#include "lq_list.h"

#define LQ_ENGINES_MAX          5
#define LQ_ENGINES_START_MS     UINT64_C(1000)
#define LQ_ENGINES_HEARTBEAT_MS 40
#define LQ_ENGINES_ELECTION_MS  250

/* The messages that are remembered. */
#define LQ_ENGINES_SENT 256

struct lq_engines_sent {
    uint32_t from, to;
    uint64_t ms;
    struct lq_message message; /* without its items */
    size_t bytes;
};

struct lq_engines_node {
    struct lq_engines *all;
    uint32_t id;
    struct lq_engine *engine; /* NULL: down */
    struct lq_log log;
    struct lq_engine_start start; /* a start of it: what would be on its disk */
    struct lq_members members;    /* of the snapshot that `start` names */
    bool holds_writes;            /* the test says what is durable */
    bool holds_changes;           /* applied members are not told to raft */
    uint64_t applied, commit_seen;
    struct lq_members applied_members;
    uint64_t applied_members_index;
    uint64_t n_terms; /* how often term or vote had to be made durable */
    uint64_t n_wanted, n_installs;
    uint32_t wanted_by;
    struct lq_log_point wanted, install;
};

struct lq_engines {
    struct lq_engines_node nodes[LQ_ENGINES_MAX + 1]; /* by id */
    uint64_t now_ms, latency_ms;
    bool is_cut[LQ_ENGINES_MAX + 1][LQ_ENGINES_MAX + 1]; /* from, to: what is sent is lost */
    bool is_mute;                                        /* nothing is delivered: a test feeds */
    struct lq_list flying;
    struct lq_engines_sent sent[LQ_ENGINES_SENT]; /* a ring */
    uint64_t n_sent;
};

/* Voters 1 to `n_voters`, then standbys up to `n_members`, none of them started. Every log holds
 * the entry that makes them members. */
void lq_engines_init(struct lq_engines *engines, unsigned n_voters, unsigned n_members);
void lq_engines_done(struct lq_engines *engines);

/* Starts a node from its log; also again, after a stop. */
void lq_engines_start(struct lq_engines *engines, uint32_t id);
void lq_engines_start_all(struct lq_engines *engines, unsigned n);
void lq_engines_stop(struct lq_engines *engines, uint32_t id);

/* Whatever can happen at this instant: deliveries, writes, applying. */
void lq_engines_settle(struct lq_engines *engines);
void lq_engines_advance(struct lq_engines *engines, uint64_t ms);

/* Advances until one leads and all others that are up follow it; returns its id. */
uint32_t lq_engines_elect(struct lq_engines *engines);

/* Makes that node the leader: elections of the others are held back. */
void lq_engines_elect_node(struct lq_engines *engines, uint32_t id);

bool lq_engines_submit(struct lq_engines *engines, uint32_t id, const char *text);
bool lq_engines_submit_members(struct lq_engines *engines, uint32_t id,
                               const struct lq_members *members);

/* A message of `from`, made by the test, arrives at `to` at once. */
void lq_engines_feed(struct lq_engines *engines, uint32_t to, uint32_t from,
                     const struct lq_message *message, const struct lq_message_entry *entries);

/* Entries for such a message: of one or two letters' text; of members. */
struct lq_message_entry lq_engines_entry(uint64_t index, uint64_t term, const char *text);
struct lq_message_entry lq_engines_members_entry(uint64_t index, uint64_t term,
                                                 const struct lq_members *members,
                                                 struct lq_buffer *bytes);

/* The latest message of that kind from one to the other, or NULL. */
const struct lq_engines_sent *lq_engines_last(const struct lq_engines *engines, uint32_t from,
                                              uint32_t to, enum lq_message_kind kind);

#endif
