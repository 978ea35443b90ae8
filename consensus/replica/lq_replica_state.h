/* Inside of the replica: its parts. Nobody else includes this. */
#ifndef LQ_REPLICA_STATE_H
#define LQ_REPLICA_STATE_H

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
    uint64_t grown_ms;        /* when `through` last grew, or the outbox had its first command */
    uint64_t resent_ms;       /* when the leader last asked for parcels again */
    struct lq_list outbox;    /* struct lq_parcel */
    struct lq_parcel *parcel; /* the last one, while it may grow: not handed on yet */
    bool has_more;            /* to be handed on in the next turn */
    bool is_ragged;           /* not handed on are others than the last ones */
    uint64_t outbox_bytes;
    struct lq_map by_seq;   /* numbered requests without their last answer */
    struct lq_map by_token; /* those of them that renew */
    struct lq_list held;    /* requests without a number, in their order */
    struct lq_list changes; /* numbered releases and renewals, to be answered in this order */
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
        bool votes;                  /* the new one is to be a voter */
        uint32_t done_old, done_new; /* what this leader finished last */
    } replacing;
    uint32_t transfer_to; /* leadership goes there as soon as it can */
    uint64_t transfer_until_ms;
    bool is_leaving;
    uint64_t leaving_until_ms;

    lq_replica_on_applied *on_applied;
    void *on_applied_context;
};

#endif
