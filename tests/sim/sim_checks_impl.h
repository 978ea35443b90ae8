/* Inside of the checks: what sim_checks.c and sim_check_*.c share. */
#ifndef SIM_CHECKS_IMPL_H
#define SIM_CHECKS_IMPL_H

#include "lq_buffer.h"
#include "lq_check.h"
#include "sim_check_index.h"
#include "sim_check_model.h"
#include "sim_check_store.h"
#include "sim_checks.h"

/* What was applied at an index, as the first node to do so applied it. */
struct sim_entry {
    size_t at, len;   /* in `applied`: commands and outcomes, one after the other */
    bool is_known;    /* somebody applied it, or began to */
    bool is_complete; /* and all of it */
    bool has_digest;
    uint64_t digest;   /* of the table afterwards */
    uint64_t first_us; /* when it was first applied to its end */
    uint64_t stamp_ms;
};

/* A digest that was taken of a snapshot's bytes. */
struct sim_picture {
    uint64_t index, hash;
    uint32_t node;
};

/* What the checks know of an acquire, by its owner. */
struct sim_acquire {
    enum sim_fact_kind fact; /* the latest, 0: nothing was committed */
    uint64_t token;
};

/* A grant, by its token; or a token that nobody was given. */
struct sim_grant {
    uint64_t token;
    uint64_t acquire; /* id of the request, 0: never granted */
    uint32_t key;
    uint8_t lease_s; /* as of the last grant or renewal */
    /* When that began: its stamp was made between these two moments of true time. */
    uint64_t lower_us, upper_us;
    bool is_told;                  /* the client was told A */
    bool is_release_told;          /* somebody was told R */
    unsigned n_releases;           /* R that were sent */
    uint64_t release_us, renew_us; /* when the first R, and the first K, was sent; 0: none */
    enum sim_fact_kind end;        /* how it ended, 0: it has not */
    uint64_t end_us;
    uint64_t renewed_us; /* the latest RENEWED, 0: none; and the like */
    uint64_t not_released_us, not_renewed_us;
};

/* A node, over all of its lives. */
struct sim_observed {
    struct sim_checks *checks;
    uint32_t node;
    struct lq_replica *replica; /* NULL: down */
    uint64_t started_us;
    uint64_t serving_us; /* since when it has served, in this life; 0: not yet */
    uint64_t fault_us;   /* the latest of its own faults */
    bool had_fault;
    bool is_infected; /* it may have its state from a node that was damaged on purpose */
    uint64_t index;   /* the latest applied, or being applied */
    size_t at;        /* bytes of that entry that were applied so far */
    bool is_between;  /* all of it was */
    uint64_t commit_index, durable_index; /* as of its latest turn */
    unsigned n_turns;
    /* While it leads: since when, with which table time. */
    bool is_leading;
    uint64_t lead_term, lead_us, lead_table_ms;
};

struct sim_checks {
    struct sim *sim;
    struct sim_observed nodes[SIM_MODEL_NODES];

    /* ---- sim_check_log.c */
    struct lq_buffer applied;
    struct lq_buffer scratch;
    struct sim_entry *entries; /* by index */
    size_t n_entries, cap_entries;
    uint64_t last_index; /* the highest that was applied completely */
    uint64_t last_us;    /* when */
    uint64_t last_stamp_ms;
    struct sim_model model;
    struct sim_picture *pictures;
    size_t n_pictures, cap_pictures;

    /* ---- sim_check_requests.c. Requests by id, from 1 on. */
    struct sim_request *requests;
    struct sim_acquire *acquires; /* beside them */
    size_t n_requests, cap_requests;
    struct sim_index by_owner;
    struct sim_grant *grants; /* item 0 is nobody's */
    size_t n_grants, cap_grants;
    struct sim_index by_token;
    uint64_t *open; /* ids of requests that await their answer */
    size_t n_open, cap_open;

    /* ---- sim_check_leases.c */
    uint64_t lower_us;     /* entries applied from now on were stamped after this moment */
    uint64_t disturbed_us; /* the latest disturbance of any node */
    bool is_disturbed;     /* there was one */
    /* By key: the grant whose lease was seen to have ended, and the table time then. */
    uint64_t due_tokens[SIM_KEYS], due_ms[SIM_KEYS];

    /* ---- sim_check_nodes.c */
    struct sim_index leaders; /* by term */
    uint64_t term;            /* the highest in which a node led */
    uint64_t term_us, term_table_ms;

    struct sim_store store;
    uint64_t watched_us; /* when open requests were last looked at */
};

/* The observer of a node's replica: lq_replica_on_applied; its context is a struct sim_observed. */
void sim_log_applied(void *context, uint64_t index, const struct lq_stamp *stamp,
                     const struct lq_command *command, const struct lq_outcome *outcomes,
                     size_t n_outcomes);

/* Whether the state of that node may be damaged: on purpose, so no check blames it for that. */
bool sim_log_is_damaged(const struct sim_checks *checks, uint32_t node);

/* Compares a node that has jumped ahead, by a snapshot, with what is known of that index. */
void sim_log_compare(struct sim_observed *node, uint64_t index);

/* A fact came out of the model: the first application of its entry, now. */
void sim_requests_fact(struct sim_checks *checks, const struct sim_fact *fact);

/* A command of a client is about to be applied for the first time. */
void sim_requests_command(struct sim_checks *checks, const struct lq_command *command);

/* Open requests that should have been answered long ago. */
void sim_requests_watch(struct sim_checks *checks);

/* The grant of this token, made if needed. */
struct sim_grant *sim_requests_grant(struct sim_checks *checks, uint64_t token);

/* The request of that id. */
struct sim_request *sim_requests_at(struct sim_checks *checks, uint64_t id);

void sim_leases_fact(struct sim_checks *checks, const struct sim_fact *fact);

/* An entry was applied to its end for the first time. */
void sim_leases_entry(struct sim_checks *checks, const struct sim_entry *entry);
void sim_leases_end(struct sim_checks *checks);

/* A request that was sent at that time is in the log from now on. */
void sim_leases_heard(struct sim_checks *checks, uint64_t sent_us);

void sim_nodes_turn(struct sim_observed *node);

/* sim_check_reports.c: what the node told of its disk. */
void sim_nodes_check_reports(const struct sim_observed *node);

/* An entry is applied for the first time, by this node: a majority must have it on their disks. */
void sim_nodes_committed(struct sim_observed *node, uint64_t index);

/* Whether nothing that happened to that very node since `us` explains a fault of its service. */
bool sim_service_is_due(const struct sim_checks *checks, uint32_t node, uint64_t us);

#endif
