/* What an admin interface answers, checked: whatever listens at that address may answer anything.
 * Pure. docs/operations.md lists the fields. Texts live as long as the JSON that they are from. */
#ifndef LQ_REPLY_H
#define LQ_REPLY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The members of a cluster are at most so many; longer lists are no answer. */
#define LQ_REPLY_MEMBERS_MAX 64

/* The JSON object in a text, or NULL. The caller owns it. */
json_t *lq_reply_parse(const char *text, size_t len);

/* Of GET /v1/status. */
struct lq_reply_status {
    uint32_t node, leader; /* leader 0: unknown */
    const char *name, *cluster_id, *role, *not_ready;
    bool is_ready;
    uint64_t term, last_index, commit_index, applied_index;
    uint64_t keys, waiters, connections;
    size_t n_members;
};

/* False, and `ret_status` undefined, when that is no such answer. */
bool lq_reply_status(const json_t *json, struct lq_reply_status *ret_status);

/* Whether the node says that it leads. */
bool lq_reply_leads(const struct lq_reply_status *status);

/* From the leader's status: the voter, other than itself, that is linked and has the most of the
 * log; 0 if there is none. */
uint32_t lq_reply_furthest(const json_t *json);

struct lq_reply_member {
    uint32_t node;
    const char *address, *role;
};

/* Of GET /v1/members. */
struct lq_reply_members {
    uint32_t node, leader; /* leader 0: unknown */
    uint64_t term;
    size_t n;
    struct lq_reply_member items[LQ_REPLY_MEMBERS_MAX];
};

bool lq_reply_members(const json_t *json, struct lq_reply_members *ret_members);

enum lq_reply_kind {
    LQ_REPLY_DONE,       /* it is so already, as far as this node's log says */
    LQ_REPLY_STARTED,    /* ask again */
    LQ_REPLY_BUSY,       /* not begun: ask again */
    LQ_REPLY_NOT_LEADER, /* ask the leader */
    LQ_REPLY_REFUSED,    /* it cannot be done */
    LQ_REPLY_STRANGE,    /* no answer of an admin interface */
};

/* Of a change. */
struct lq_reply_change {
    enum lq_reply_kind kind;
    uint32_t node;       /* NOT_LEADER: who says so, 0: unknown */
    uint32_t leader;     /* NOT_LEADER: who leads, 0: unknown */
    const char *message; /* BUSY, REFUSED; else NULL */
};

/* `status` is that of HTTP; `json` NULL when there was none. */
struct lq_reply_change lq_reply_change(long status, const json_t *json);

#endif
