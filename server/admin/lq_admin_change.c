/* Changes of membership and leadership: the body of the request is read strictly, the node does
 * what is asked for or refuses, and a refusal is put into words by what the members are. */
#include "lq_admin_impl.h"

#include <inttypes.h>
#include <string.h>

/* ---- Bodies. */

enum field {
    FIELD_NODE = 1,
    FIELD_ADDRESS = 2,
};

struct body {
    uint32_t node; /* 0: not given */
    char address[LQ_ADDRESS_MAX + 1];
};

#define INVALID(...) lq_admin_fault(MHD_HTTP_BAD_REQUEST, "invalid", __VA_ARGS__)

/* What these functions return when all is well: an answer that is none. */
static const struct lq_admin_answer no_fault = {.status = 0};

static struct lq_admin_answer take_node(const json_t *value, struct body *body)
{
    json_int_t node = json_integer_value(value);
    if (!json_is_integer(value) || node < 1 || node > UINT32_MAX) {
        return INVALID("node: a whole number from 1 to %" PRIu32 " is wanted", UINT32_MAX);
    }
    body->node = (uint32_t)node;
    return no_fault;
}

/* Whether a member may have it: see lq_members_add. Port 0 is nowhere to connect to. */
static bool is_address(const char *text)
{
    struct lq_address address;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at <= ' ' || *at > '~') {
            return false;
        }
    }
    return strlen(text) <= LQ_ADDRESS_MAX && lq_address_parse(text, &address) &&
           strspn(address.port, "0") != strlen(address.port);
}

static struct lq_admin_answer take_address(const json_t *value, struct body *body)
{
    const char *text = json_string_value(value);
    if (text == NULL || !is_address(text)) {
        return INVALID("address: \"HOST:PORT\" of the node's peer port is wanted, an IPv6 address "
                       "in brackets");
    }
    memcpy(body->address, text, strlen(text) + 1);
    return no_fault;
}

static struct lq_admin_answer take_field(const char *name, const json_t *value, unsigned fields,
                                         struct body *body)
{
    if (strcmp(name, "node") == 0 && (fields & FIELD_NODE) != 0) {
        return take_node(value, body);
    }
    if (strcmp(name, "address") == 0 && (fields & FIELD_ADDRESS) != 0) {
        return take_address(value, body);
    }
    return INVALID("%s: there is no such field here", name);
}

static struct lq_admin_answer take_fields(json_t *object, unsigned fields, struct body *body)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        struct lq_admin_answer fault = take_field(name, value, fields, body);
        if (fault.status != 0) {
            return fault;
        }
    }
    return no_fault;
}

/* Reads a body that may have `fields`, of which `needed` must be there. An empty one is {}. */
static struct lq_admin_answer read_body(const struct lq_admin_request *request, unsigned fields,
                                        unsigned needed, struct body *ret_body)
{
    struct lq_admin_answer fault = no_fault;
    json_error_t error = {0};
    json_t *object = request->body_len == 0 ? json_object()
                                            : json_loadb(request->body, request->body_len,
                                                         JSON_REJECT_DUPLICATES, &error);
    *ret_body = (struct body){0};
    if (object == NULL) {
        return INVALID("the body is no JSON: %s (line %d, column %d)", error.text, error.line,
                       error.column);
    }
    if (json_is_object(object)) {
        fault = take_fields(object, fields, ret_body);
    } else {
        fault = INVALID("the body: a JSON object is wanted");
    }
    json_decref(object);
    if (fault.status == 0 && (needed & FIELD_NODE) != 0 && ret_body->node == 0) {
        fault = INVALID("node: is missing");
    }
    if (fault.status == 0 && (needed & FIELD_ADDRESS) != 0 && ret_body->address[0] == '\0') {
        fault = INVALID("address: is missing");
    }
    return fault;
}

/* ---- Results. */

static struct lq_admin_answer not_leader(const struct lq_node_view *view)
{
    uint32_t leader = view->replica.leader == view->node ? 0 : view->replica.leader;
    struct lq_admin_answer answer =
        leader == 0
            ? lq_admin_fault(MHD_HTTP_CONFLICT, "not_leader",
                             "node %" PRIu32 " does not lead, and knows of no leader", view->node)
            : lq_admin_fault(MHD_HTTP_CONFLICT, "not_leader",
                             "node %" PRIu32 " does not lead: ask node %" PRIu32 "'s admin address",
                             view->node, leader);
    lq_admin_set_node(answer.json, "node", view->node);
    lq_admin_set_node(answer.json, "leader", leader);
    return answer;
}

static struct lq_admin_answer busy(const struct lq_node_view *view)
{
    struct lq_admin_answer answer =
        lq_admin_fault(MHD_HTTP_CONFLICT, "busy",
                       "another change is under way, or the node is not that far yet: ask again");
    lq_admin_set_node(answer.json, "leader", view->replica.leader);
    return answer;
}

static struct lq_admin_answer result_of(const char *word, unsigned status)
{
    struct lq_admin_answer answer = {.status = status, .json = json_object()};
    lq_admin_set_text(answer.json, "result", word);
    return answer;
}

/* The answer to any result but INVALID, which each change explains itself. */
static struct lq_admin_answer answer_with(const struct lq_admin_request *request,
                                          enum lq_change_result result)
{
    switch (result) {
    case LQ_CHANGE_DONE:
        return result_of("done", MHD_HTTP_OK);
    case LQ_CHANGE_STARTED:
        return result_of("started", MHD_HTTP_ACCEPTED);
    case LQ_CHANGE_BUSY:
        return busy(request->user->view(request->user->context));
    case LQ_CHANGE_NOT_LEADER:
        return not_leader(request->user->view(request->user->context));
    case LQ_CHANGE_INVALID:
        break;
    }
    return INVALID("this change cannot be made");
}

/* ---- Why a change is INVALID. */

static const struct lq_members *members_of(const struct lq_admin_request *request)
{
    return request->user->view(request->user->context)->members;
}

static struct lq_admin_answer explain_node(const struct lq_members *members, uint32_t node)
{
    const struct lq_member *member = lq_members_find(members, node);
    if (member == NULL) {
        return INVALID("node %" PRIu32 " is no member", node);
    }
    return no_fault;
}

/* Why that node can't be added, or put into another's place (0: nobody's), at that address. */
static struct lq_admin_answer explain_add(const struct lq_members *members, uint32_t old_node,
                                          const struct body *body)
{
    const struct lq_member *present = lq_members_find(members, body->node);
    if (present != NULL) {
        return INVALID("node %" PRIu32 " is a member already, with the address %s", body->node,
                       present->address);
    }
    for (size_t i = 0; i < members->n; i++) {
        if (members->items[i].node != old_node &&
            strcmp(members->items[i].address, body->address) == 0) {
            return INVALID("%s is the address of node %" PRIu32 " already", body->address,
                           members->items[i].node);
        }
    }
    if (members->n == LQ_MEMBERS_MAX) {
        return INVALID("there are %d members already, and there can be no more", LQ_MEMBERS_MAX);
    }
    return INVALID("node %" PRIu32 " was a member before: choose an id that was never used here",
                   body->node);
}

/* Why that node can't be taken out of the voters. */
static struct lq_admin_answer explain_loss(const struct lq_members *members, uint32_t node)
{
    struct lq_admin_answer fault = explain_node(members, node);
    if (fault.status != 0) {
        return fault;
    }
    if (lq_members_n_voters(members) == 1) {
        return INVALID("node %" PRIu32 " is the last voter", node);
    }
    return INVALID("without node %" PRIu32
                   " one voter would be left, which does not lead: transfer "
                   "leadership to the one that is to stay first",
                   node);
}

/* ---- Handlers. */

static enum lq_change_result change(const struct lq_admin_request *request,
                                    enum lq_change_kind kind, uint32_t node, const char *address)
{
    return request->user->change(request->user->context, kind, node, address);
}

struct lq_admin_answer lq_admin_add(const struct lq_admin_request *request)
{
    unsigned all = FIELD_NODE | FIELD_ADDRESS;
    struct body body;
    struct lq_admin_answer fault = read_body(request, all, all, &body);
    enum lq_change_result result;
    if (fault.status != 0) {
        return fault;
    }
    result = change(request, LQ_CHANGE_ADD, body.node, body.address);
    return result == LQ_CHANGE_INVALID ? explain_add(members_of(request), 0, &body)
                                       : answer_with(request, result);
}

struct lq_admin_answer lq_admin_promote(const struct lq_admin_request *request)
{
    struct body body;
    struct lq_admin_answer fault = read_body(request, 0, 0, &body);
    enum lq_change_result result;
    if (fault.status != 0) {
        return fault;
    }
    result = change(request, LQ_CHANGE_PROMOTE, request->node, NULL);
    if (result == LQ_CHANGE_INVALID) {
        fault = explain_node(members_of(request), request->node);
    }
    return fault.status != 0 ? fault : answer_with(request, result);
}

static struct lq_admin_answer take_out(const struct lq_admin_request *request,
                                       enum lq_change_kind kind)
{
    struct body body;
    struct lq_admin_answer fault = read_body(request, 0, 0, &body);
    enum lq_change_result result;
    if (fault.status != 0) {
        return fault;
    }
    result = change(request, kind, request->node, NULL);
    return result == LQ_CHANGE_INVALID ? explain_loss(members_of(request), request->node)
                                       : answer_with(request, result);
}

struct lq_admin_answer lq_admin_demote(const struct lq_admin_request *request)
{
    return take_out(request, LQ_CHANGE_DEMOTE);
}

struct lq_admin_answer lq_admin_remove(const struct lq_admin_request *request)
{
    return take_out(request, LQ_CHANGE_REMOVE);
}

struct lq_admin_answer lq_admin_replace(const struct lq_admin_request *request)
{
    unsigned all = FIELD_NODE | FIELD_ADDRESS;
    struct body body;
    struct lq_admin_answer fault = read_body(request, all, all, &body);
    enum lq_change_result result;
    if (fault.status != 0) {
        return fault;
    }
    if (body.node == request->node) {
        return INVALID("node: a node is replaced by one with another id, never used here");
    }
    result = request->user->replace(request->user->context, request->node, body.node, body.address);
    if (result != LQ_CHANGE_INVALID) {
        return answer_with(request, result);
    }
    if (lq_members_find(members_of(request), body.node) == NULL) {
        fault = explain_node(members_of(request), request->node);
    }
    return fault.status != 0 ? fault : explain_add(members_of(request), request->node, &body);
}

struct lq_admin_answer lq_admin_transfer(const struct lq_admin_request *request)
{
    struct body body;
    struct lq_admin_answer fault = read_body(request, FIELD_NODE, 0, &body);
    enum lq_change_result result;
    if (fault.status != 0) {
        return fault;
    }
    result = change(request, LQ_CHANGE_TRANSFER, body.node, NULL);
    if (result != LQ_CHANGE_INVALID) {
        return answer_with(request, result);
    }
    return body.node == 0 ? INVALID("there is no other voter that is linked")
                          : INVALID("node %" PRIu32 " is no voter", body.node);
}
