#include "lq_reply.h"

#include <string.h>

json_t *lq_reply_parse(const char *text, size_t len)
{
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    if (json != NULL && !json_is_object(json)) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/* ---- Fields. */

static bool take_number(const json_t *object, const char *name, uint64_t *ret_number)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *ret_number = (uint64_t)json_integer_value(value);
    return true;
}

/* The id of a node. */
static bool take_node(const json_t *object, const char *name, uint32_t *ret_node)
{
    uint64_t number;
    if (!take_number(object, name, &number) || number < 1 || number > UINT32_MAX) {
        return false;
    }
    *ret_node = (uint32_t)number;
    return true;
}

/* The same, or null for "unknown". */
static bool take_leader(const json_t *object, uint32_t *ret_node)
{
    if (json_is_null(json_object_get(object, "leader"))) {
        *ret_node = 0;
        return true;
    }
    return take_node(object, "leader", ret_node);
}

static bool take_text(const json_t *object, const char *name, const char **ret_text)
{
    *ret_text = json_string_value(json_object_get(object, name));
    return *ret_text != NULL;
}

static bool take_bool(const json_t *object, const char *name, bool *ret_value)
{
    const json_t *value = json_object_get(object, name);
    *ret_value = json_is_true(value);
    return json_is_boolean(value);
}

/* ---- Status. */

static bool take_texts(const json_t *json, struct lq_reply_status *status)
{
    return take_text(json, "name", &status->name) &&
           take_text(json, "cluster_id", &status->cluster_id) &&
           take_text(json, "role", &status->role) &&
           take_text(json, "not_ready", &status->not_ready) &&
           take_bool(json, "ready", &status->is_ready);
}

static bool take_numbers(const json_t *json, struct lq_reply_status *status)
{
    const json_t *log = json_object_get(json, "log"), *table = json_object_get(json, "table");
    return take_number(json, "term", &status->term) &&
           take_number(json, "connections", &status->connections) &&
           take_number(log, "last_index", &status->last_index) &&
           take_number(log, "commit_index", &status->commit_index) &&
           take_number(log, "applied_index", &status->applied_index) &&
           take_number(table, "keys", &status->keys) &&
           take_number(table, "waiters", &status->waiters);
}

bool lq_reply_status(const json_t *json, struct lq_reply_status *ret_status)
{
    const json_t *members = json_object_get(json, "members");
    ret_status->n_members = json_array_size(members);
    return json_is_array(members) && take_node(json, "node", &ret_status->node) &&
           take_leader(json, &ret_status->leader) && take_texts(json, ret_status) &&
           take_numbers(json, ret_status);
}

bool lq_reply_leads(const struct lq_reply_status *status)
{
    return strcmp(status->role, "leader") == 0;
}

/* ---- Members. */

static bool take_member(const json_t *object, struct lq_reply_member *ret_member)
{
    return take_node(object, "node", &ret_member->node) &&
           take_text(object, "address", &ret_member->address) &&
           take_text(object, "role", &ret_member->role);
}

static bool is_voter(const json_t *json, uint32_t node)
{
    const json_t *members = json_object_get(json, "members");
    struct lq_reply_member member;
    for (size_t i = 0; i < json_array_size(members); i++) {
        if (take_member(json_array_get(members, i), &member) && member.node == node) {
            return strcmp(member.role, "voter") == 0;
        }
    }
    return false;
}

uint32_t lq_reply_furthest(const json_t *json)
{
    const json_t *peers = json_object_get(json, "peers");
    uint64_t best = 0;
    uint32_t found = 0;
    for (size_t i = 0; i < json_array_size(peers); i++) {
        const json_t *peer = json_array_get(peers, i);
        uint64_t match;
        uint32_t node;
        bool is_up;
        if (take_node(peer, "node", &node) && take_bool(peer, "up", &is_up) && is_up &&
            take_number(peer, "match_index", &match) && match > best && is_voter(json, node)) {
            best = match;
            found = node;
        }
    }
    return found;
}

bool lq_reply_members(const json_t *json, struct lq_reply_members *ret_members)
{
    const json_t *list = json_object_get(json, "members");
    ret_members->n = json_array_size(list);
    if (!json_is_array(list) || ret_members->n > LQ_REPLY_MEMBERS_MAX ||
        !take_node(json, "node", &ret_members->node) || !take_leader(json, &ret_members->leader) ||
        !take_number(json, "term", &ret_members->term)) {
        return false;
    }
    for (size_t i = 0; i < ret_members->n; i++) {
        if (!take_member(json_array_get(list, i), &ret_members->items[i])) {
            return false;
        }
    }
    return true;
}

/* ---- Changes. */

static struct lq_reply_change of_kind(enum lq_reply_kind kind)
{
    return (struct lq_reply_change){.kind = kind};
}

static struct lq_reply_change read_result(long status, const char *result)
{
    if (status == 200 && strcmp(result, "done") == 0) {
        return of_kind(LQ_REPLY_DONE);
    }
    if (status == 202 && strcmp(result, "started") == 0) {
        return of_kind(LQ_REPLY_STARTED);
    }
    return of_kind(LQ_REPLY_STRANGE);
}

struct lq_reply_change lq_reply_change(long status, const json_t *json)
{
    struct lq_reply_change change = of_kind(LQ_REPLY_STRANGE);
    const char *result, *error;
    if (take_text(json, "result", &result)) {
        return read_result(status, result);
    }
    if (status < 400 || status > 499 || !take_text(json, "error", &error) ||
        !take_text(json, "message", &change.message)) {
        return of_kind(LQ_REPLY_STRANGE);
    }
    if (status != 409) {
        change.kind = LQ_REPLY_REFUSED;
    } else if (strcmp(error, "busy") == 0) {
        change.kind = LQ_REPLY_BUSY;
    } else if (strcmp(error, "not_leader") == 0) {
        change.kind = LQ_REPLY_NOT_LEADER;
        (void)take_node(json, "node", &change.node);
        (void)take_leader(json, &change.leader);
    }
    return change;
}
