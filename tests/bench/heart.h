/* Three replicas in one thread, for bench_replica. Links, disks and snapshots are memory, and what
 * a replica asks for is done at once: what is left is the cost of the heart itself. */
#ifndef LQ_BENCH_HEART_H
#define LQ_BENCH_HEART_H

#include "lq_buffer.h"
#include "lq_hub.h"
#include "lq_replica.h"

#include <stdbool.h>
#include <stdint.h>

enum { HEART_NODES = 3 };

/* The parts of a turn whose shares are told. */
enum heart_part {
    HEART_BEGIN,   /* lq_replica_turn */
    HEART_RECEIVE, /* lq_replica_receive: decoding, raft, applying */
    HEART_CLIENTS, /* sessions or bare requests, down to numbered commands and up to answers */
    HEART_FLUSH,   /* parcels, entries, messages and the journal's batch */
    HEART_WRITTEN, /* lq_replica_written: raft's answer, applying */
    HEART_CARRY,   /* taking effects, copying messages to their receivers */
    HEART_PARTS,
};

struct heart;
struct heart_node;

/* What the clients of a node do in its turn, between its events and its flush. */
typedef void heart_clients_turn(void *clients, struct heart_node *node);

struct heart_file {
    struct lq_snapshot_name name;
    struct lq_buffer bytes;
};

struct heart_node {
    struct heart *heart;
    uint32_t id;
    struct lq_replica *replica;
    struct lq_hub *hub;                  /* NULL: clients talk to the backend */
    struct lq_buffer inbox[HEART_NODES]; /* by sender: id - 1 */
    struct heart_file own, incoming;     /* snapshots being written */
    struct heart_file newest, second;    /* and finished */
    bool is_leader;                      /* for the shares */
    bool has_more;                       /* its clients have more to say at once */
};

struct heart {
    struct heart_node nodes[HEART_NODES];
    uint64_t now_ms, salt;
    bool is_profiling;
    uint64_t lap_ns;
    uint64_t part_ns[2][HEART_PARTS]; /* of followers; of the leader */
    uint64_t n_snapshots, n_written, written_bytes, n_sent, sent_bytes;
    heart_clients_turn *clients_turn;
    void *clients;
};

struct heart_options {
    uint64_t snapshot_entries; /* 0: none are taken */
    uint32_t seed;
    bool with_hubs;
    uint64_t requests_max; /* of one session */
};

/* Starts the three, links them and waits until they serve. Clients come later, see `clients`. */
void heart_start(struct heart *heart, const struct heart_options *options);
void heart_end(struct heart *heart);

/* The time goes on by a millisecond, and each node has a turn, the leader first. */
void heart_sweep(struct heart *heart);

/* Sweeps without clients until all have applied the same, and checks that they hold the same. */
void heart_settle(struct heart *heart);

struct heart_node *heart_leader(struct heart *heart);

/* Ends the program, with that text. */
__attribute__((noreturn)) void heart_fail(const char *what);

static inline void heart_must(bool condition, const char *what)
{
    if (!condition) {
        heart_fail(what);
    }
}

#endif
