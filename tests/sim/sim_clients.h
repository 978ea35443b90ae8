/* The simulated clients: they speak the real protocol with the nodes, through connections of the
 * world, and behave as badly as clients do: pipeline, half-close, stop reading, cancel, vanish,
 * come back elsewhere, die with a lock in hand. What they are told goes to the checks. In the calm
 * part of a run they come to their end by themselves: they release what they hold and close; then
 * each node that should serve is probed. */
#ifndef SIM_CLIENTS_H
#define SIM_CLIENTS_H

#include "sim.h"

struct sim_checks;
struct sim_clients;

/* Makes the clients, as many as sim_load_per_minute asks for, and schedules their doings. `checks`
 * must outlive them. */
struct sim_clients *sim_clients_start(struct sim *sim, struct sim_checks *checks);

/* Whether all have come to their end and the probes are answered: the run can end. */
bool sim_clients_are_done(const struct sim_clients *clients);

/* Closes what is open, cancels what is scheduled, frees them; NULL is fine. */
void sim_clients_stop(struct sim_clients *clients);

#endif
