/* What must hold in every run, whatever happens to the nodes. The world says what the nodes do, the
 * clients what they sent and were told; a check that fails calls sim_fail with its name in front.
 *
 *   log        sim_check_log.c       what one node applies at an index, all nodes apply
 *   model      sim_check_model.c     and it does what a plain lock table would do
 *   leases     sim_check_leases.c    no lease is cut short, no dead holder stays
 *   requests   sim_check_requests.c  what a client is told was committed, once, in its time
 *   store      sim_check_store.c     tokens and certain leases protect what they are to protect
 *   service    sim_check_service.c   a node that is well serves well
 *   nodes      sim_check_nodes.c     leaders, clocks, caps
 *   reports    sim_check_reports.c   what is said to be durable is
 */
#ifndef SIM_CHECKS_H
#define SIM_CHECKS_H

#include "lq_replica.h"
#include "sim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_checks;

struct sim_checks *sim_checks_new(struct sim *sim);

/* NULL is fine. */
void sim_checks_free(struct sim_checks *checks);

/* ---- From the world. */

/* A node was started with this replica, before its first turn. */
void sim_checks_node_started(struct sim_checks *checks, uint32_t node, struct lq_replica *replica);

/* Its replica is about to be freed. `is_crash`: it did not stop in an orderly way. */
void sim_checks_node_stopped(struct sim_checks *checks, uint32_t node, bool is_crash);

/* Something happened to this very node that explains closed connections and late answers there: cut
 * off, paused, its disk stalled or full, removed. To be told when it begins and when it ends. */
void sim_checks_node_fault(struct sim_checks *checks, uint32_t node, const char *what);

/* The node has had a turn. */
void sim_checks_node_turn(struct sim_checks *checks, uint32_t node);

/* A snapshot that the node itself has taken (not one that it received) is complete: its whole file.
 * Equal states have equal bytes, and it must lead back to the state at its index. */
void sim_checks_snapshot(struct sim_checks *checks, uint32_t node, const uint8_t *bytes,
                         size_t len);

/* The end of the run, after its calm part. */
void sim_checks_end(struct sim_checks *checks);

/* ---- From the clients. Keys are numbers here: the digits of each are its name on the wire. */

/* One request of a client that awaits an answer. Filled by the client but for the last part. */
struct sim_request {
    uint64_t id;
    uint8_t op; /* A, R, K, P of enum lq_op */
    uint8_t wait_s, lease_s;
    uint32_t node; /* where it was sent */
    uint32_t key;
    uint64_t owner;        /* A: unique in the run; P: the nonce */
    uint64_t token;        /* R, K */
    uint64_t connected_us; /* when its connection was made */
    uint64_t sent_us;      /* the checks' */
    bool is_cancelled;     /* a C was sent for it, or its connection is being ended by the client */
    bool is_slow_reader;   /* the client does not read all the time: answers may be late */
    /* The checks': */
    uint8_t answer; /* the op of the answer, 0: none so far */
    bool is_given_up;
    uint64_t answered_us;
};

/* A request is sent now; returns its id. */
uint64_t sim_checks_sent(struct sim_checks *checks, const struct sim_request *request);

/* An answer arrived: `op` is that of the frame, `token` that of an A. */
void sim_checks_answered(struct sim_checks *checks, uint64_t id, uint8_t op, uint64_t token);

/* The client's connection ended with this request unanswered. */
void sim_checks_given_up(struct sim_checks *checks, uint64_t id);

/* A C was sent for it, or the client ends its connection in order: T may come early. */
void sim_checks_cancelled(struct sim_checks *checks, uint64_t id);

/* The client could not be answered in time or in order through its own doing: no longer judge that.
 */
void sim_checks_excuse(struct sim_checks *checks, uint64_t id);

/* A connection that its client did not end was ended by the node (`is_reset`: broken, else in
 * order), with `n_open` unanswered requests, the ids at `open`. */
void sim_checks_closed(struct sim_checks *checks, uint32_t node, uint64_t since_us, bool is_reset,
                       const uint64_t *open, size_t n_open);

/* The client of that acquire is certain to hold its key until then (true time), from now on; said
 * again after a renewal. `until_us` now or in the past: it is not any more. */
void sim_checks_certain(struct sim_checks *checks, uint64_t acquire, uint64_t until_us);

/* A write with this token reaches the fenced store. `acquire`: whose grant it is. */
void sim_checks_store_write(struct sim_checks *checks, uint64_t acquire, uint64_t token);

/* A node that should serve did not serve a probe: says why not, or that it may be so. */
void sim_checks_probe_failed(struct sim_checks *checks, uint32_t node, const char *what);

/* Whether this node is a member of the cluster by what was last committed, so that it has to serve.
 */
bool sim_checks_must_serve(const struct sim_checks *checks, uint32_t node);

#endif
