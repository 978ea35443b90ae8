/* Inside of the replica: its parts, and what they ask of each other. Nobody else includes this. */
#ifndef LQ_REPLICA_IMPL_H
#define LQ_REPLICA_IMPL_H

#include "lq_change.h"
#include "lq_cluster_clock.h"
#include "lq_effects.h"
#include "lq_engine.h"
#include "lq_heap.h"
#include "lq_list.h"
#include "lq_log.h"
#include "lq_map.h"
#include "lq_replay.h"
#include "lq_replica.h"
#include "lq_replica_limits.h"
#include "lq_snapshot.h"
#include "lq_store.h"

#include <string.h>

/* ---- Peers (lq_peers.c). */

/* The sending side of a snapshot transfer (lq_transfer.c). */
struct lq_sending {
    bool is_active;
    struct lq_snapshot_name name;
    uint64_t total, check;
    uint64_t wanted;   /* offset of the piece that the peer wants next */
    bool is_reading;   /* that piece is being read */
    uint64_t sent_ms;  /* when a piece was sent last */
    uint64_t moved_ms; /* when the peer asked for a new piece last */
};

struct lq_peer {
    uint32_t node;
    bool is_linked;
    bool is_full;
    bool is_refused;          /* not linked, and its process is gone */
    bool is_new;              /* blank or fresh, as its hello said */
    bool was_blank;           /* as its hello said */
    bool was_member;          /* of members that were applied here */
    uint64_t boot;            /* of the life that is, or was, linked */
    uint64_t ping_ms;         /* its latest ping, to be echoed */
    uint64_t echoed_ms;       /* the latest of our pings that it has answered */
    uint64_t sent_ms;         /* when a message was made for it last */
    uint64_t told_removed_ms; /* when it was told last that it is no member */
    uint64_t heard_loop;      /* when one came last, in loop time (lq_replica.loop_ms) */
    uint64_t refused_loop;
    struct lq_buffer ready; /* messages that may leave */
    struct lq_buffer held;  /* messages that wait for term and vote to be durable */
    /* What this leader owes the peer's origin. */
    struct lq_message_outcome *outcomes;
    size_t n_outcomes, outcomes_cap;
    uint64_t outcomes_of; /* the incarnation that they are for */
    bool has_progress;
    struct lq_sending sending;
    uint64_t refused_until_ms; /* it refused a snapshot: no other before this */
};

/* ---- Elections that need not wait (lq_skip.c). */

struct lq_skip {
    bool is_on;
    bool is_waking;       /* it has just started, and has not heard of a leader yet */
    bool has_started;     /* that is why, rather than a leader that died */
    uint32_t dead_leader; /* whose process is gone, 0 if that is not known */
    uint32_t last_vote;   /* as the disk had it at the start */
    uint64_t at_ms;       /* when to try the next */
};

/* ---- This node's origin (lq_home.c): its clients' commands on their way through the log. */

/* Commands of one turn, encoded as a segment: what is sent to the leader, again if need be. */
struct lq_parcel {
    struct lq_list in_outbox;
    uint64_t first_seq, last_seq;
    bool is_handed; /* to the present leader */
    struct lq_buffer segment;
};

enum { LQ_HOME_TIMERS = 3 };

struct lq_home {
    struct lq_origin_id id; /* incarnation 0: the boot counter is not durable yet */
    bool is_open;
    uint64_t asked_ms;        /* when OPEN was asked for last */
    uint64_t last_seq;        /* of the last command numbered */
    uint64_t through;         /* commands up to this one were applied */
    uint64_t told_ms;         /* when `through` last grew, or a parcel was handed on */
    uint64_t resent_ms;       /* when the leader last asked for parcels again */
    struct lq_list outbox;    /* struct lq_parcel */
    struct lq_parcel *parcel; /* the last one, while it may grow: not handed on yet */
    bool has_more;            /* to be handed on in the next turn */
    bool is_ragged;           /* not handed on are others than the last ones */
    uint64_t outbox_bytes;
    struct lq_map by_seq; /* numbered requests without their last answer */
    struct lq_list held;  /* requests without a number, in their order */
    struct lq_list
        changes; /* numbered releases and renewals, in their order: so they are answered */
    uint64_t n_held;
    struct lq_list timers[LQ_HOME_TIMERS]; /* requests by when patience ends, see lq_home_timer */
    struct lq_answer *answers;
    size_t n_answers, answers_cap, n_taken;
    uint64_t handed_term; /* the leader's term to which parcels are handed */
    uint32_t handed_to;
};

/* ---- The leader's part (lq_leader.c). */

struct lq_cursor {
    struct lq_origin_id id;
    uint64_t last_seq; /* of what was taken into entries or is gathered */
    bool is_dropped;   /* more came, for which there was no room */
};

struct lq_lead {
    bool is_leading;
    bool is_ready;        /* all of earlier terms was applied */
    uint64_t first_index; /* of this term's first entry, 0: not proposed yet */
    uint64_t proposed;    /* index of the latest entry of ours */
    uint64_t proposed_ms;
    uint64_t expires_index;  /* of the latest entry with drained expiries */
    struct lq_list gathered; /* struct lq_piece: segments of origins, in the order in which they
                                came */
    uint64_t gathered_bytes;
    struct lq_cursor cursors[LQ_MEMBERS_MAX];
    size_t n_cursors;
    /* Openings and closings to be proposed. */
    struct lq_command orders[2 * LQ_MEMBERS_MAX];
    size_t n_orders;
    struct lq_buffer entry; /* being put together */
};

/* ---- Snapshots of our own, and those that come (lq_snapshots.c, lq_transfer.c). */

struct lq_taking {
    struct lq_snapshot *snapshot; /* NULL: none is being taken */
    struct lq_snapfile_writer *writer;
    struct lq_snapshot_name name;
    uint64_t members_index;
    struct lq_members members;
    uint64_t offset;
    uint64_t total, check;
    bool is_finishing; /* all is written, not yet durable */
    bool is_dropped;   /* of no use any more when it is */
    uint64_t retry_ms; /* there was no room for one: not before this */
    struct lq_buffer state, file;
};

struct lq_receiving {
    bool is_active;
    uint32_t from;
    struct lq_snapshot_name name;
    uint64_t total, check;
    uint64_t have;
    bool is_loading;   /* all is written, being read to be verified */
    bool is_finishing; /* verified, being made durable */
};

/* A snapshot that is durable. */
struct lq_finished {
    struct lq_snapshot_name name;
    uint64_t total, check;
    uint64_t members_index;
    struct lq_members members;
};

struct lq_snapshots {
    struct lq_taking taking;
    struct lq_receiving receiving;
    struct lq_finished newest;       /* index 0: none */
    struct lq_snapshot_name before;  /* the one before it, which is kept as well */
    struct lq_snapshot_name retired; /* and before that: removed once `newest` is marked */
    struct lq_finished incoming;     /* loaded, and offered to raft */
    struct lq_table *restored;       /* its state */
    bool is_marking;                 /* `newest` waits for its mark in the journal */
    uint64_t mark_position;          /* of that record */
    bool is_installing;              /* the mark is that of an installed one */
    uint64_t bytes_at;               /* bytes applied when the last snapshot was begun */
    bool is_compacting;              /* the log has more to free */
    bool is_reading;                 /* a piece for a peer is being read */
    uint32_t reading_for;
};

struct lq_digest_at {
    uint64_t index, digest;
};

struct lq_seen_digest {
    uint32_t node;
    struct lq_digest_at kept[LQ_DIGESTS_KEPT];
};

struct lq_replica {
    struct lq_backend backend; /* first: the sessions' backend */
    struct lq_replica_options options;
    uint64_t now_ms;
    uint64_t loop_ms; /* time in which this node's loop ran: a pause counts little */
    uint64_t random;
    struct lq_effects effects;
    struct lq_buffer leaving; /* messages that the shell has taken last */
    struct lq_engine *engine;
    struct lq_log log;
    struct lq_store store;
    struct lq_cluster_clock clock;
    struct lq_table *table;
    struct lq_replay replay; /* of the log into the table; the members as applied */
    const char *stop;        /* why this node stops; told once */
    bool is_stop_told;
    char stop_text[256];

    bool is_formed;         /* it has a term: raft runs */
    uint64_t boot;          /* of this life */
    uint64_t boot_position; /* of its record */
    uint64_t hold_position; /* of the latest record that messages wait for */

    uint64_t applied;
    uint64_t applied_bytes;               /* of all entries applied, ever */
    uint64_t n_commands;                  /* applied, ever */
    uint64_t turn_commands, turn_applied; /* where applying ends for this turn */
    uint64_t removed_ms;                  /* when this node saw itself removed, 0: it is a member */

    enum lq_engine_role role; /* as told last */
    uint64_t term;
    uint32_t leader;
    struct lq_skip skip;

    struct lq_peer peers[LQ_MEMBERS_MAX + LQ_STRANGERS_MAX];
    size_t n_peers;
    uint64_t watched_loop; /* when the leader looked for dead origins last */
    struct lq_home home;
    struct lq_lead lead;
    struct lq_snapshots snapshots;
    struct lq_seen_digest digests[LQ_MEMBERS_MAX];
    size_t n_digests;

    uint32_t promoting;  /* a standby that catches up to become a voter */
    bool is_catching_up; /* raft was asked */
    struct {
        uint32_t old_node, new_node; /* 0: nothing is being replaced */
        char address[LQ_ADDRESS_MAX + 1];
    } replacing;
    uint32_t transfer_to; /* leadership goes there as soon as it can */
    uint64_t transfer_until_ms;
    bool is_leaving;
    uint64_t leaving_until_ms;

    lq_replica_on_applied *on_applied;
    void *on_applied_context;
};

/* ---- lq_replica.c */

/* The node must stop: `format` says why. */
__attribute__((format(printf, 2, 3))) void lq_replica_stop(struct lq_replica *replica,
                                                           const char *format, ...);

/* From `low` to `high`. */
uint64_t lq_replica_random(struct lq_replica *replica, uint64_t low, uint64_t high);
/* Looks whether role, term or leader changed, and acts on it. To be called after the engine was. */
void lq_replica_watch_role(struct lq_replica *replica);

/* Puts a record into the journal that messages wait for. */
void lq_replica_put_held(struct lq_replica *replica, const struct lq_journal_record *record);

/* Starts raft over what the log holds. */
void lq_replica_start_engine(struct lq_replica *replica, uint64_t term, uint64_t vote);

/* The stamp of the last entry in the log that has one, or the time of the state. */
uint64_t lq_replica_last_stamp(const struct lq_replica *replica);

/* Table time as this node has it now. */
uint64_t lq_replica_table_ms(const struct lq_replica *replica);

/* ---- lq_peers.c */

/* The peer, or NULL when it was never linked and is no member. */
struct lq_peer *lq_peer_find(struct lq_replica *replica, uint32_t node);
struct lq_peer *lq_peer_get(struct lq_replica *replica, uint32_t node);

/* Whether this node knows that the peer was here before with another disk. */
bool lq_peer_lost_disk(const struct lq_replica *replica, const struct lq_peer *peer);

/* Makes a message for a peer, with the time, its ping and ours. Dropped when it is not linked.
 * `is_held`: it must not leave before term and vote are durable. */
void lq_peer_send(struct lq_replica *replica, struct lq_peer *peer,
                  const struct lq_message *message, const struct lq_message_entry *entries,
                  const struct lq_message_outcome *outcomes, bool is_held);

/* Lets go what was held, once it may leave. */
void lq_peers_release(struct lq_replica *replica);

/* Pings, elections that need not wait, in each turn. */
void lq_peers_turn(struct lq_replica *replica);
uint64_t lq_peers_deadline(const struct lq_replica *replica);

/* Forms the cluster once all its first members have met blank. */
void lq_peers_try_to_form(struct lq_replica *replica);

void lq_peers_free(struct lq_replica *replica);

/* ---- lq_skip.c */

/* The leader's process is gone. */
void lq_skip_leader_died(struct lq_replica *replica);

/* Raft begins, with the vote that the disk has. */
void lq_skip_start(struct lq_replica *replica, uint64_t vote);

/* There is a leader. */
void lq_skip_end(struct lq_replica *replica);

void lq_skip_turn(struct lq_replica *replica);
uint64_t lq_skip_deadline(const struct lq_replica *replica);

/* ---- lq_apply.c */

/* Applies what is committed, as far as the turn has room; lq_apply_renew ends a turn. */
void lq_apply(struct lq_replica *replica);
void lq_apply_renew(struct lq_replica *replica);

/* The state is that of the newest snapshot, or empty: what comes is applied to it. */
void lq_apply_begin(struct lq_replica *replica);

/* The same for a snapshot that was installed on a node that runs: its members may be others. */
void lq_apply_install(struct lq_replica *replica);

bool lq_apply_has_more(const struct lq_replica *replica);

/* The same, and nothing speaks against applying it now. */
bool lq_apply_can(const struct lq_replica *replica);

/* A digest of another voter came. */
void lq_apply_digest(struct lq_replica *replica, uint32_t node, uint64_t index, uint64_t digest);

/* ---- lq_home.c */

void lq_home_init(struct lq_replica *replica);
void lq_home_done(struct lq_replica *replica);
extern const struct lq_backend_ops lq_home_ops;

/* An outcome for the own origin, from the own table or from the leader. */
void lq_home_outcome(struct lq_replica *replica, const struct lq_outcome *outcome);

/* Commands up to `seq` were applied somewhere where it counts. */
void lq_home_applied(struct lq_replica *replica, uint64_t seq);

/* The leader expects `next_seq`. */
void lq_home_resend(struct lq_replica *replica, uint64_t next_seq);

/* Looks at what the table says of the own origin, after an entry with orders. */
void lq_home_look(struct lq_replica *replica);

/* Another state was installed: looks up every request in it. */
void lq_home_reinstalled(struct lq_replica *replica);

/* Opens, hands on, hands on again, gives up: what is due. */
void lq_home_turn(struct lq_replica *replica);
void lq_home_flush(struct lq_replica *replica);
uint64_t lq_home_deadline(const struct lq_replica *replica);

/* Whether commands can be numbered now. */
bool lq_home_is_serving(const struct lq_replica *replica);

/* ---- lq_home_requests.c: requests and their answers. */

void lq_home_answer(struct lq_replica *replica, struct lq_request *request,
                    enum lq_answer_kind kind, uint64_t token);
void lq_home_drop_numbered(struct lq_replica *replica);
uint64_t lq_home_patience(const struct lq_replica *replica);

/* Numbers a command and puts it into the outbox; returns its number. */
uint64_t lq_home_number(struct lq_replica *replica, struct lq_command *command);

/* ---- lq_leader.c */

void lq_lead_init(struct lq_replica *replica);
void lq_lead_done(struct lq_replica *replica);
void lq_lead_begin(struct lq_replica *replica); /* elected */
void lq_lead_end(struct lq_replica *replica);   /* no longer */

/* A segment of `node`'s origin. False: the bytes are no such segment. */
bool lq_lead_submit(struct lq_replica *replica, uint32_t node, const uint8_t *bytes, size_t len);
void lq_lead_open(struct lq_replica *replica, struct lq_origin_id id);
void lq_lead_close(struct lq_replica *replica, struct lq_origin_id id);
void lq_lead_applied(struct lq_replica *replica);
void lq_lead_turn(struct lq_replica *replica);
void lq_lead_flush(struct lq_replica *replica);
uint64_t lq_lead_deadline(const struct lq_replica *replica);
/* Proposes an entry now, whether there is something to put into it or not. */
void lq_lead_propose_empty(struct lq_replica *replica);

/* Owes an outcome to the origin of another node. */
void lq_lead_owe(struct lq_replica *replica, const struct lq_outcome *outcome);

/* ---- lq_snapshots.c */

void lq_snapshots_done(struct lq_replica *replica);
void lq_snapshots_turn(struct lq_replica *replica);
bool lq_snapshots_are_busy(const struct lq_replica *replica);

/* Whether the log has grown to twice of what a snapshot should have cut off. */
bool lq_snapshots_are_overdue(const struct lq_replica *replica);
void lq_snapshots_durable(struct lq_replica *replica); /* more records are */
void lq_snapshots_abort(struct lq_replica *replica);

/* `finished` is the newest from now on; its mark goes into the journal. */
void lq_snapshots_use(struct lq_replica *replica, const struct lq_finished *finished,
                      enum lq_journal_kind mark);

/* ---- lq_transfer.c */

void lq_transfer_want(struct lq_replica *replica, uint32_t node, struct lq_log_point point);
void lq_transfer_chunk(struct lq_replica *replica, uint32_t node, const struct lq_message *chunk);
void lq_transfer_result(struct lq_replica *replica, uint32_t node,
                        const struct lq_message *message);
void lq_transfer_turn(struct lq_replica *replica);
void lq_transfer_finished(struct lq_replica *replica);
void lq_transfer_failed(struct lq_replica *replica);
bool lq_transfer_is_pinned(const struct lq_replica *replica);
void lq_transfer_install(struct lq_replica *replica, struct lq_log_point point);
uint64_t lq_transfer_deadline(const struct lq_replica *replica);

#endif
