/* The network between nodes: one connection per pair, as each of its ends sees it, messages on
 * their way, directions that are blocked, and what goes wrong beyond that. */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include "sim_node.h"

/* What node `a` has of node `b`, and the way from a to b. */
struct sim_way {
    uint64_t connection;      /* as the kernel of a sees it; 0: none */
    uint64_t linked;          /* the connection that the process of a was told of and accepted */
    bool was_refused;         /* told since the latest break */
    bool may_refuse;          /* there was a connection, so a refusal means something */
    bool is_blocked;          /* nothing gets through from a to b */
    bool is_full;             /* the process of a was told so */
    uint64_t broken_since_us; /* the connection is of no use since then; 0: it is fine */
    uint64_t last_us;         /* arrival of the latest message: none overtakes it */
    uint64_t queued_bytes;
    uint32_t latency_us;
    struct lq_list held; /* messages that wait for the way to be open */
};

struct sim_network {
    struct sim_way ways[SIM_NODES_MAX + 1][SIM_NODES_MAX + 1];
    uint64_t n_connections;
    struct lq_list moving; /* all inputs on their way */
    uint32_t jitter_us;
    /* beyond what a TCP connection does, in hundredths of a percent */
    unsigned loss, duplication, reordering, damage;
    bool drops_blocked; /* what meets a blocked way is lost rather than sent again */
};

void sim_network_init(struct sim_network *network, struct sim *sim);
void sim_network_done(struct sim_network *network);

/* Sends whole messages; dropped when there is no link. */
void sim_network_send(struct sim *sim, uint32_t from, uint32_t to, const uint8_t *bytes,
                      size_t len);

/* The process of `node` heard of a connection: its verdict decides. */
void sim_network_link_up(struct sim *sim, struct sim_node *node, const struct sim_input *input);

/* The process of `node` closes its link to `peer`. */
void sim_network_close(struct sim *sim, uint32_t node, uint32_t peer);

/* The process of `node` is gone; the others are told unless its machine is gone too. */
void sim_network_died(struct sim *sim, uint32_t node, enum sim_death death);

void sim_network_block(struct sim *sim, uint32_t from, uint32_t to, bool is_blocked);

/* Puts an input on its way, from `from` to `to`, to arrive in order or at a time of its own. */
void sim_network_move(struct sim *sim, struct sim_input *input, bool is_in_order);

/* A message was taken or lost: the bytes on its way are fewer. Does nothing for other inputs. */
void sim_network_leave(struct sim *sim, const struct sim_input *input);

/* For the timeline: what a message says, when it is worth a line; else returns false. */
bool sim_network_describe(const uint8_t *body, size_t len, char *ret_text, size_t cap);

#endif
