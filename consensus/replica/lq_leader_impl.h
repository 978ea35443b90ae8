/* Inside of the leader's part: what its files share. Nobody else includes this. */
#ifndef LQ_LEADER_IMPL_H
#define LQ_LEADER_IMPL_H

#include "lq_replica_impl.h"

#include <string.h>

/* Outcomes in one message. */
#define LQ_OUTCOMES_MAX 8192

/* A segment of an origin that waits for its entry. */
struct lq_piece {
    struct lq_list in_gathered;
    size_t len;
    uint8_t bytes[];
};

/* Sends a peer what its origin is owed. */
void lq_lead_pay(struct lq_replica *replica, struct lq_peer *peer);

/* Asks for what was not taken for want of room, once there is some. */
void lq_lead_ask_again(struct lq_replica *replica);

/* Whether one more entry may be proposed now. */
bool lq_lead_has_room(const struct lq_replica *replica);

/* Proposes one entry with what is due and what was gathered, as far as it fits; perhaps empty. */
void lq_lead_propose(struct lq_replica *replica);

/* Whether an entry is due only to keep table time in the log. */
bool lq_lead_is_idle_due(const struct lq_replica *replica);

#endif
