/* A change of the members, or of who leads, from the first request until it is in effect. */
#ifndef LQ_MEMBER_H
#define LQ_MEMBER_H

#include "lq_endpoints.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lq_member_change {
    const struct lq_endpoints *admins;
    const char *path, *body; /* of the POST that asks for it */
    uint32_t transfer_to;    /* the node that is to lead; 0: a change of the members */
    uint32_t wait_ms;        /* 0: ask once and do not wait */
    /* Called once, when the leader has begun with it or it is so already. May be NULL. */
    void (*on_begun)(void *context, const char *cluster_id);
    void *context;
};

enum lq_member_end {
    LQ_MEMBER_IN_EFFECT,
    LQ_MEMBER_BEGUN,       /* the leader has begun; or, if we do not wait, it may be so already */
    LQ_MEMBER_BUSY,        /* not begun: the leader has another change to finish first */
    LQ_MEMBER_REFUSED,     /* it cannot be made */
    LQ_MEMBER_NO_LEADER,   /* not begun: none of the nodes that answered leads */
    LQ_MEMBER_UNREACHABLE, /* not begun: no node answered */
    LQ_MEMBER_UNKNOWN,     /* it may have begun, and was not seen in effect */
};

struct lq_member_outcome {
    enum lq_member_end end;
    uint32_t leader;     /* who made it, or leads as far as we were told; 0: unknown */
    char cluster_id[32]; /* "" if unknown */
    char message[400];   /* why, for all ends but IN_EFFECT and BEGUN */
};

/* Asks the nodes until one takes it, then until it is in effect or the time is over. */
void lq_member_make(const struct lq_member_change *change, struct lq_member_outcome *ret_outcome);

#endif
