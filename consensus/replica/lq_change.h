/* Changes of membership and leadership, as the rest of the replica sees them. */
#ifndef LQ_CHANGE_H
#define LQ_CHANGE_H

#include "lq_replica.h"

/* Goes on with what is under way, and with what a full disk or the end of this node asks for. */
void lq_change_turn(struct lq_replica *replica);
uint64_t lq_change_deadline(const struct lq_replica *replica);

/* Whether the leader proposes nothing now: it hands over, or its disk takes no more. */
bool lq_change_stops_proposals(const struct lq_replica *replica);

#endif
