/* Inside of the simulated clients: what sim_clients.c, sim_client_act.c, sim_client_hold.c and
 * sim_client_probe.c share. */
#ifndef SIM_CLIENT_IMPL_H
#define SIM_CLIENT_IMPL_H

#include "sim_client_keys.h"
#include "sim_client_link.h"
#include "sim_clients.h"

/* Keys 0 to HOT - 1 are fought over; the last ones belong to the probes, one to each node. */
#define SIM_HOT_KEYS   4
#define SIM_PROBE_KEYS 32

/* The number of a probe in the timeline, and its node's id added. */
#define SIM_PROBE_NUMBER 1000

/* A lock in the hands of a client. */
struct sim_hold {
    uint64_t acquire; /* id of the request */
    uint64_t token;
    uint32_t key;
    uint8_t lease_s;
    bool is_renewing;    /* a K awaits its answer */
    uint64_t certain_us; /* true time until which it is certain to be held, as far as the client
                            knows */
    uint64_t release_us; /* when it lets go */
    uint64_t renew_us;   /* when it renews next; UINT64_MAX: never */
};

struct sim_client {
    struct sim_clients *clients;
    unsigned number;
    uint32_t rate_ppm; /* its clock beside true time, in millionths */
    uint32_t home;     /* the node it likes best */
    uint64_t event;
    uint64_t next_us;   /* its next doing */
    uint64_t resume_us; /* it reads again; 0: it does read */
    struct sim_link *link;
    struct lq_list links; /* all, the present one and those that end */
    struct sim_hold *holds;
    size_t n_holds, cap_holds;
    uint64_t old_tokens[4]; /* of locks it had */
    uint32_t old_keys[4];
    unsigned n_old;
};

/* A write that is on its way to the fenced store. */
struct sim_write {
    struct lq_list in_clients;
    struct sim_clients *clients;
    uint64_t event, acquire, token;
};

struct sim_probe {
    struct sim_clients *clients;
    uint32_t node;
    struct sim_link *link; /* NULL: not under way */
    uint64_t event, token;
    bool is_done;
};

struct sim_clients {
    struct sim *sim;
    struct sim_checks *checks;
    struct lq_rand rand;
    uint64_t last_owner;
    uint64_t think_us; /* between two doings of a client, in the mean */
    unsigned n;
    struct sim_client *items;
    struct lq_list writes;
    uint64_t probe_event;
    unsigned n_probes;
    struct sim_probe probes[SIM_PROBE_KEYS];
    bool has_probed;
};

uint64_t sim_client_below(struct sim_clients *clients, uint64_t n);
bool sim_client_chance(struct sim_clients *clients, unsigned percent);

/* ---- sim_client_act.c: what a client does of its own accord. */

/* One doing. */
void sim_client_act(struct sim_client *client);

/* In the calm part: towards the end. */
void sim_client_wind_up(struct sim_client *client);

/* A connection to send on, new or old; NULL: none to be had now. */
struct sim_link *sim_client_link(struct sim_client *client);

/* ---- sim_client_hold.c: what it does with the locks it has. */

/* An acquire was granted. */
void sim_client_granted(struct sim_client *client, const struct sim_pending *request,
                        uint64_t token);

/* A K was answered. */
void sim_client_renewed(struct sim_client *client, const struct sim_pending *request,
                        bool is_renewed);

/* Does what is due with them, all of them at once if `is_last`; says when more will be. */
uint64_t sim_client_tend(struct sim_client *client, bool is_last);

/* ---- sim_client_probe.c */
void sim_clients_probe(struct sim *sim, void *of_clients);
void sim_clients_end_probes(struct sim_clients *clients);

#endif
