/* The server's side of the connections of clients. */
#ifndef SIM_CONN_H
#define SIM_CONN_H

#include "sim_node.h"

/* In a turn of the node: gives its sessions what came in, before the hub's turn. */
void sim_conn_read_all(struct sim_node *node);

/* After the hub's turn: writes what the touched sessions have, closes what they wish closed. */
void sim_conn_serve_all(struct sim_node *node);

/* The node is about to be paused: what the kernel would have taken a moment later, it takes now. */
void sim_conn_flush_all(struct sim_node *node);

/* The process of the node is gone: its sessions die with the hub, which is not asked any more.
 * Clients are told, or not, by the kind of death. */
void sim_conn_node_died(struct sim_node *node, enum sim_death death);

/* Frees all connections, at the end of the run. */
void sim_conn_free_all(struct sim *sim);

#endif
