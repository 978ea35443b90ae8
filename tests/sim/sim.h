/* What the parts of the simulator see of its world: simulated time, nodes, connections of clients,
 * the timeline and the failure of a check. Everything in a run follows from one seed. Simulated
 * real time is `us`, microseconds from 0 on; the nodes' own clocks run a little beside it. */
#ifndef SIM_H
#define SIM_H

#include "lq_replica.h"
#include "lq_test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MS UINT64_C(1000)    /* in us */
#define SIM_S  UINT64_C(1000000) /* in us */

struct sim; /* the world */
struct sim_checks;

/* Real time by now, in us. */
uint64_t sim_now(const struct sim *sim);

/* The world's generator; whoever draws from it changes what others draw later. */
struct lq_rand *sim_rand(struct sim *sim);

/* ---- Events. */

typedef void sim_fn(struct sim *sim, void *argument);

/* Calls `fn` at that time, or as soon as the present event is over; events of the same time come in
 * the order in which they were scheduled. Returns an id for sim_cancel, never 0. */
uint64_t sim_at(struct sim *sim, uint64_t us, sim_fn *fn, void *argument);

/* Takes a scheduled event back; does nothing when it has already come, or for id 0. */
void sim_cancel(struct sim *sim, uint64_t id);

/* ---- The timeline. */

/* Whether lines are wanted: whoever formats something costly for sim_trace asks first. */
bool sim_is_traced(const struct sim *sim);

/* A line of the timeline, with the time in front. Costs nothing unless the run is traced (it is
 * when a failed seed runs again); the latest lines are kept, all are printed with --verbose. */
void sim_trace(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A check failed: the run ends after the present event. Only the first failure counts. */
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sim_has_failed(const struct sim *sim);

/* Whatever is decisive for a run should flow into its fingerprint, which is compared between two
 * runs of a seed (--repeat-check). */
void sim_note_hash(struct sim *sim, uint64_t value);

/* ---- Nodes: ids 1 to sim_n_nodes, those that were added later included. */

unsigned sim_n_nodes(const struct sim *sim);
bool sim_node_is_up(const struct sim *sim, uint32_t node);

/* NULL while the node is down. Of another life of the node when it was restarted. */
struct lq_replica *sim_node_replica(struct sim *sim, uint32_t node);

/* What the node's own clock shows now, in ms. */
uint64_t sim_node_clock_ms(const struct sim *sim, uint32_t node);

/* When the node came up for the last time, in us; and whether it is paused right now. */
uint64_t sim_node_started_us(const struct sim *sim, uint32_t node);
bool sim_node_is_paused(const struct sim *sim, uint32_t node);

/* Faults have stopped: the last part of a run. */
bool sim_is_calm(const struct sim *sim);

/* When faults stop, and when the run ends, in us. */
uint64_t sim_calm_us(const struct sim *sim);
uint64_t sim_end_us(const struct sim *sim);

/* How many requests all clients together should make in a simulated minute. */
unsigned sim_load_per_minute(const struct sim *sim);

/* Whether the node should serve clients in the calm part: it is up, has its disk, and is a member.
 * Others lost their disk or were removed, and stay useless or down. */
bool sim_node_is_expected(const struct sim *sim, uint32_t node);

/* Whether the node's state was damaged on purpose: it must find out and stop, and no check may
 * blame it for its state in the meantime. */
bool sim_node_is_rotten(const struct sim *sim, uint32_t node);

/* The hub of a node that is up, else NULL. */
struct lq_hub *sim_node_hub(struct sim *sim, uint32_t node);

/* The checks of this run, NULL if it has none (see sim_checks.h). */
struct sim_checks *sim_checks_of(struct sim *sim);

/* ---- Connections of clients. Callbacks come out of the event queue, never inside of a call. */

struct sim_conn;

struct sim_conn_events {
    void (*on_bytes)(void *client, const uint8_t *bytes, size_t len);
    void (*on_eof)(void *client);   /* the server closed in order */
    void (*on_reset)(void *client); /* broken */
};

/* Connects to a node. NULL: refused at once, the node is down. Else the connection is usable at
 * once; bytes arrive after a latency. It is the client's until sim_conn_close, sim_conn_vanish, or
 * the return of on_eof or on_reset. */
struct sim_conn *sim_connect(struct sim *sim, uint32_t node, const struct sim_conn_events *events,
                             void *client);

/* Sends bytes, in order; none after the eof. */
void sim_conn_send(struct sim_conn *conn, const void *bytes, size_t len);
void sim_conn_send_eof(struct sim_conn *conn);

/* How many bytes the server's kernel takes from now on while the client reads nothing: they are
 * delivered once it reads again. UINT64_MAX: the client always reads (this is so at first). What
 * is on its way already still arrives. */
void sim_conn_set_window(struct sim_conn *conn, uint64_t bytes);

/* The client closes hard; no callback follows. */
void sim_conn_close(struct sim_conn *conn);

/* The client's host is gone: nothing arrives any more, nobody is told; the server's side is reset
 * after 15 s. No callback follows. */
void sim_conn_vanish(struct sim_conn *conn);

#endif
