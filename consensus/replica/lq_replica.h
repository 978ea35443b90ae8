/* A node of a cluster without its sockets, files and clock: log, raft, table time, origins, lock
 * table, snapshots and membership behind one set of events and effects. The shell (server/, or the
 * simulator) tells it what happened and carries out what it asks for, in order.
 *
 * A turn:
 *   1. lq_replica_wake(now)              the time
 *   2. events                            links, messages, writes that are durable, requests
 *   3. lq_replica_turn                   timers that are due: after a pause, what came in it counts
 *   4. lq_hub_turn(now)                  sessions: their backend is lq_replica_backend
 *   5. lq_replica_flush                  what was gathered in the turn goes out as one batch
 *   6. lq_replica_take until false       the effects
 * The next turn is due when something happens, at the latest at lq_hub_deadline, which includes
 * lq_replica_deadline.
 *
 * Life: lq_recovery reads what the disk holds; lq_replica_new starts from it. The first batch
 * raises the boot counter; once it is durable lq_replica_boot is not 0 and links may be made.
 * A STOP effect ends it: the process says why and exits.
 *
 * All times are ms of the node's own clock, which never goes back. */
#ifndef LQ_REPLICA_H
#define LQ_REPLICA_H

#include "lq_backend.h"
#include "lq_journal.h"
#include "lq_members.h"
#include "lq_message.h"
#include "lq_recovery.h"
#include "lq_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_replica;

struct lq_replica_options {
    uint64_t cluster; /* id, not 0: nodes of other clusters are not talked to */
    uint32_t node;    /* this node's id, not 0 */
    /* Only for the first start of a new cluster: its members, the same at all of them. Empty for a
     * node that is added later. Ignored when the disk holds anything. */
    struct lq_members bootstrap;
    struct lq_caps caps; /* used while this node leads */
    uint8_t secret[16];  /* keys hash maps; random */
    uint32_t seed;       /* random: of delays, and of a new disk's boot counter */
    uint32_t heartbeat_ms;
    uint32_t election_ms;       /* silence before an election: this to twice this */
    uint32_t origin_timeout_ms; /* a silent node's waiters leave the queues after this */
    uint64_t segment_bytes;     /* of journal files */
    uint32_t entry_bytes;       /* of commands in one entry; the same at all nodes */
    uint64_t snapshot_entries;  /* a snapshot is taken after so many entries */
    uint64_t snapshot_bytes;    /* or so many bytes of entries */
    uint64_t trailing_entries;  /* kept behind a snapshot, for followers that lag a little */
    uint64_t outbox_bytes;      /* commands that wait for their outcome; beyond it requests wait */
};

/* The defaults of everything but ids, members, secret and seed. */
void lq_replica_defaults(struct lq_replica_options *options);

/* What is wrong with the options, in words for the operator, or NULL. */
const char *lq_replica_options_fault(const struct lq_replica_options *options);

/* Starts a node from what `recovery` found, and takes that over; `recovery` is good for
 * lq_recovery_free only afterwards. Its verdict must not be a refusal, and the options be sound. */
struct lq_replica *lq_replica_new(const struct lq_replica_options *options,
                                  struct lq_recovery *recovery, uint64_t now_ms);

/* NULL is fine. The hub over its backend is freed first. */
void lq_replica_free(struct lq_replica *replica);

/* ---- Events. */

/* Begins a turn; may be called again in it. */
void lq_replica_wake(struct lq_replica *replica, uint64_t now_ms);

/* After the events: what is due by now. */
void lq_replica_turn(struct lq_replica *replica);

enum lq_link_verdict {
    LQ_LINK_OK,
    LQ_LINK_WRONG_CLUSTER,
    LQ_LINK_WRONG_NODE, /* the hello was meant for another node, or came from one we do not ask */
    LQ_LINK_NOT_MEMBER, /* the peer was removed; tell it with a REMOVED message, then close */
    LQ_LINK_LOST_DISK,  /* the peer is blank although it was here before: it must rejoin under a
                           new id */
    LQ_LINK_OLD_DISK,   /* the peer's boot counter went back: its disk is a copy */
    LQ_LINK_OLD_LIFE,   /* a hello of an earlier life of the peer than the linked one */
};

/* A connection with a peer stands, whoever made it, and this is its hello. OK: it is the link to
 * that node from now on; the shell closes an earlier one. Anything else: close it. */
enum lq_link_verdict lq_replica_link_up(struct lq_replica *replica, const struct lq_hello *hello);

/* The link to that node broke, and no other stands. `is_refused`: a new connection was refused, so
 * its process is gone; may be told later than the break. */
void lq_replica_link_down(struct lq_replica *replica, uint32_t node, bool is_refused);

/* Bytes wait in the queue to that node: while it is full only what is small and new is sent. */
void lq_replica_link_full(struct lq_replica *replica, uint32_t node, bool is_full);

/* A message came over the link of that node. The body is not trusted. False: it is no message; the
 * link is to be closed. */
bool lq_replica_receive(struct lq_replica *replica, uint32_t node, const uint8_t *body, size_t len);

/* The disk answers, see the effects. */
void lq_replica_allocated(struct lq_replica *replica, uint64_t salt); /* random, not 0 */
void lq_replica_no_room(struct lq_replica *replica);
void lq_replica_segment_ready(struct lq_replica *replica);
void lq_replica_written(struct lq_replica *replica);
void lq_replica_deleted(struct lq_replica *replica);
void lq_replica_snapshot_finished(struct lq_replica *replica, bool is_incoming);
void lq_replica_snapshot_failed(struct lq_replica *replica, bool is_incoming); /* no room */
void lq_replica_snapshot_loaded(struct lq_replica *replica, const uint8_t *bytes, size_t len);
void lq_replica_snapshot_read(struct lq_replica *replica, uint64_t offset, const uint8_t *bytes,
                              size_t len); /* len 0: it could not be read */

/* This node is about to stop in an orderly way: it hands leadership over and closes its origin.
 * lq_replica_has_left tells when that is done, or there is nobody to tell. */
void lq_replica_leave(struct lq_replica *replica);
bool lq_replica_has_left(const struct lq_replica *replica);

/* ---- Effects. */

enum lq_effect_kind {
    /* A file of `len` zero bytes under a temporary name, allocated. Then lq_replica_allocated; or
     * lq_replica_no_room, and it is asked again later. */
    LQ_EFFECT_ALLOCATE,
    /* That file becomes a segment: steps 2 to 4 of lq_journal_begin_segment, `write` being the
     * header and `seal` the seal. Then lq_replica_segment_ready. */
    LQ_EFFECT_SEGMENT,
    /* `write` is to be written and made durable. Then lq_replica_written. One at a time. */
    LQ_EFFECT_WRITE,
    /* Segment `number` is removed, its directory made durable. Then lq_replica_deleted. */
    LQ_EFFECT_DELETE,
    /* `bytes`, whole messages, go to `node`; dropped when there is no link. */
    LQ_EFFECT_SEND,
    /* The link of `node` is to be closed: `text` says why. */
    LQ_EFFECT_UNLINK,
    /* `bytes` belong at `offset` of the temporary file of `snapshot`; offset 0 begins it anew. If
     * there is no room: lq_replica_snapshot_failed, and what else comes for this file is ignored
     * until it is begun anew. */
    LQ_EFFECT_SNAPSHOT_WRITE,
    /* That file is complete: durable, then renamed to its name, its directory made durable. Then
     * lq_replica_snapshot_finished; or lq_replica_snapshot_failed. */
    LQ_EFFECT_SNAPSHOT_FINISH,
    /* The temporary file of `snapshot` is of no use any more. */
    LQ_EFFECT_SNAPSHOT_DROP,
    /* The finished file of `snapshot` is of no use any more. (What stood beside the accepted
     * one at the start is the shell's to remove: the next older one may stay until the next start.)
     */
    LQ_EFFECT_SNAPSHOT_DELETE,
    /* The whole temporary file of the incoming `snapshot`, which is verified before it is finished:
     * lq_replica_snapshot_loaded. */
    LQ_EFFECT_SNAPSHOT_LOAD,
    /* `len` bytes at `offset` of the finished file of `snapshot`: lq_replica_snapshot_read. */
    LQ_EFFECT_SNAPSHOT_READ,
    /* For the log of the shell. */
    LQ_EFFECT_NOTE,
    /* Stop the process; `text` says why. Nothing else follows. */
    LQ_EFFECT_STOP,
};

/* Which snapshot; its file name is made of these. An incoming one has a temporary file of its own
 * until it is finished. */
struct lq_snapshot_name {
    uint64_t index, term;
    bool is_incoming;
};

enum lq_note {
    LQ_NOTE_FOLLOWER = 1,       /* a: term, b: the leader, 0 if unknown */
    LQ_NOTE_CANDIDATE = 2,      /* a: term */
    LQ_NOTE_LEADER = 3,         /* a: term */
    LQ_NOTE_SERVING = 4,        /* a: incarnation: clients are served from now on */
    LQ_NOTE_CLOSED = 5,         /* a: incarnation: this node's origin was closed */
    LQ_NOTE_MEMBERS = 6,        /* a: index: other members */
    LQ_NOTE_SNAPSHOT = 7,       /* a: index of a snapshot taken */
    LQ_NOTE_INSTALLED = 8,      /* a: index of a snapshot installed */
    LQ_NOTE_ORIGIN_DEAD = 9,    /* a: node whose origin is being closed by this leader */
    LQ_NOTE_FULL = 10,          /* the disk is full */
    LQ_NOTE_ROOM = 11,          /* and has room again */
    LQ_NOTE_SKIP = 12,          /* no waiting for the timeout: a: the leader whose process is gone;
                                   0: none was up when this node started */
    LQ_NOTE_CHANGE_FAILED = 13, /* a: the node that was to be promoted, replaced or to lead, and did
                                   not get there in time; b: enum lq_change_kind */
};

struct lq_effect {
    enum lq_effect_kind kind;
    uint32_t node;
    uint64_t number;
    uint64_t offset;
    const uint8_t *bytes; /* valid until the next call of lq_replica_take */
    size_t len;
    struct lq_journal_write write, seal; /* their bytes are valid until the disk's answer */
    struct lq_snapshot_name snapshot;
    enum lq_note note;
    uint64_t a, b;
    const char *text;
};

/* Ends the turn's gathering. */
void lq_replica_flush(struct lq_replica *replica);

/* Fills the next effect, or returns false. */
bool lq_replica_take(struct lq_replica *replica, struct lq_effect *ret_effect);

/* When the next turn is due without any event: ms, 0 for at once, LQ_NEVER. */
uint64_t lq_replica_deadline(const struct lq_replica *replica);

/* ---- Membership and leadership. On the leader; elsewhere NOT_LEADER. Each is safe to repeat: what
 * is already so is DONE. */

enum lq_change_result {
    LQ_CHANGE_DONE,       /* already so */
    LQ_CHANGE_STARTED,    /* under way; lq_replica_members tells when it is so */
    LQ_CHANGE_BUSY,       /* another one is under way */
    LQ_CHANGE_NOT_LEADER, /* ask lq_replica_status().leader */
    LQ_CHANGE_INVALID,    /* no such member, an address in use, the last voter, ... */
};

enum lq_change_kind {
    LQ_CHANGE_ADD,      /* as a standby; needs the address */
    LQ_CHANGE_PROMOTE,  /* a standby that has caught up becomes a voter */
    LQ_CHANGE_DEMOTE,   /* a voter becomes a standby */
    LQ_CHANGE_REMOVE,   /* a member is none any more; its origin is closed */
    LQ_CHANGE_TRANSFER, /* leadership to that voter, 0: to the one that is furthest */
};

enum lq_change_result lq_replica_change(struct lq_replica *replica, enum lq_change_kind kind,
                                        uint32_t node, const char *address);

/* Puts `new_node` at `address` in the place of `old_node`, one step after the other: it is added,
 * catches up, becomes a voter if the old one was, and then the old one is removed. Where the new
 * one has the address of the old one, that is removed first. Whoever leads goes on where the last
 * leader was when it is asked again; if the old one is gone by then, the new one becomes a voter.
 * Removing the new node gives it up. DONE once all of it is so. */
enum lq_change_result lq_replica_replace(struct lq_replica *replica, uint32_t old_node,
                                         uint32_t new_node, const char *address);

/* ---- Reading. */

enum lq_replica_role {
    LQ_REPLICA_WAITING, /* blank: not yet part of a cluster */
    LQ_REPLICA_FOLLOWER,
    LQ_REPLICA_CANDIDATE,
    LQ_REPLICA_LEADER,
};

struct lq_replica_status {
    enum lq_replica_role role;
    bool is_serving; /* requests of clients are taken into the log: the origin is open */
    bool is_full;    /* the disk is */
    uint32_t leader; /* 0: unknown */
    uint64_t term;
    uint64_t boot;        /* durable boot counter; 0: not durable yet */
    uint64_t incarnation; /* of the own origin */
    uint64_t first_index, last_index, durable_index, commit_index, applied_index;
    uint64_t snapshot_index;
    uint64_t table_ms;
    uint64_t outbox_bytes, held_requests; /* numbered commands; requests without a number yet */
    uint64_t log_bytes;
    uint64_t queued_bytes; /* effects not taken yet */
};

struct lq_replica_status lq_replica_status(const struct lq_replica *replica);

/* Why a client's request could not be committed through this node now, in words, or NULL if it
 * could, as far as one can know: it takes requests, those before were committed, and the leader has
 * answered it within an election timeout or so; or it leads, and so has a majority. */
const char *lq_replica_not_ready(struct lq_replica *replica);

/* Another node as this one sees it. */
struct lq_replica_peer {
    bool is_linked;
    uint64_t boot;        /* of the life that is, or was, linked */
    uint64_t echo_age_ms; /* since the latest ping was sent that it has answered; LQ_NEVER: none */
    uint64_t match_index; /* on the leader: what it is known to have; else 0 */
};

/* Fills it, or returns false when this node knows nothing of it. */
bool lq_replica_peer(struct lq_replica *replica, uint32_t node, struct lq_replica_peer *ret_peer);

/* The members in force here (the newest that are in the log, committed or not). */
const struct lq_members *lq_replica_members(const struct lq_replica *replica);

/* What to say at the head of a link to that node. Only once the boot counter is durable. */
struct lq_hello lq_replica_hello(const struct lq_replica *replica, uint32_t to);

/* For tests and tools: called for each command that this node applies from now on, with its
 * outcomes, before anybody hears of them; and once per entry with `command` NULL, when all of it
 * was applied. The commands of a snapshot are not seen. */
typedef void lq_replica_on_applied(void *context, uint64_t index, const struct lq_stamp *stamp,
                                   const struct lq_command *command,
                                   const struct lq_outcome *outcomes, size_t n_outcomes);
void lq_replica_observe(struct lq_replica *replica, lq_replica_on_applied *on_applied,
                        void *context);

/* The sessions' backend. */
struct lq_backend *lq_replica_backend(struct lq_replica *replica);

const struct lq_table *lq_replica_table(const struct lq_replica *replica);

#endif
