#include "lq_admin_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* '#' stands for the id of a node. */
static const struct route {
    const char *method;
    const char *pattern;
    struct lq_admin_answer (*answer)(const struct lq_admin_request *request);
} routes[] = {
    {"GET", "/livez", lq_admin_livez},
    {"GET", "/readyz", lq_admin_readyz},
    {"GET", "/v1/status", lq_admin_status},
    {"GET", "/v1/members", lq_admin_members},
    {"POST", "/v1/members", lq_admin_add},
    {"POST", "/v1/members/#/promote", lq_admin_promote},
    {"POST", "/v1/members/#/demote", lq_admin_demote},
    {"POST", "/v1/members/#/replace", lq_admin_replace},
    {"POST", "/v1/members/#/remove", lq_admin_remove},
    {"DELETE", "/v1/members/#", lq_admin_remove},
    {"POST", "/v1/leader/transfer", lq_admin_transfer},
};

#define N_ROUTES (sizeof routes / sizeof *routes)

/* Reads the digits at `*path` and moves behind them; false when there are none. What is no id of a
 * node (0, or above 32 bits) becomes 0. */
static bool take_node(const char **path, uint32_t *ret_node)
{
    size_t len = strspn(*path, "0123456789");
    uint64_t node = 0;
    for (size_t i = 0; i < len && node <= UINT32_MAX; i++) {
        node = node * 10 + (uint64_t)((*path)[i] - '0');
    }
    *path += len;
    *ret_node = node <= UINT32_MAX ? (uint32_t)node : 0;
    return len > 0;
}

static bool has_node(const struct route *route)
{
    return strchr(route->pattern, '#') != NULL;
}

static bool fits(const struct route *route, const char *path, uint32_t *ret_node)
{
    for (const char *at = route->pattern; *at != '\0'; at++) {
        if (*at == '#') {
            if (!take_node(&path, ret_node)) {
                return false;
            }
        } else if (*at != *path++) {
            return false;
        }
    }
    return *path == '\0';
}

/* A page of a foreign site can make a browser POST to us, but not with this type. (DELETE needs no
 * such care: browsers ask first, and are told nothing that would let them.) */
static bool is_json(const char *content_type)
{
    static const char wanted[] = "application/json";
    const char *rest;
    if (content_type == NULL || strncasecmp(content_type, wanted, strlen(wanted)) != 0) {
        return false;
    }
    rest = content_type + strlen(wanted);
    rest += strspn(rest, " \t");
    return *rest == '\0' || *rest == ';';
}

static void allow(struct lq_admin_answer *answer, const char *method)
{
    size_t len = strlen(answer->allow);
    bool is_get = strcmp(method, "GET") == 0;
    (void)snprintf(answer->allow + len, sizeof answer->allow - len, "%s%s%s", len == 0 ? "" : ", ",
                   method, is_get ? ", HEAD" : "");
}

static struct lq_admin_answer refuse_method(const struct lq_admin_request *request)
{
    struct lq_admin_answer answer = lq_admin_fault(MHD_HTTP_METHOD_NOT_ALLOWED, "method",
                                                   "%s is not for this path", request->method);
    uint32_t node;
    for (size_t i = 0; i < N_ROUTES; i++) {
        if (fits(&routes[i], request->path, &node)) {
            allow(&answer, routes[i].method);
        }
    }
    return answer;
}

static struct lq_admin_answer refuse_path(const struct lq_admin_request *request)
{
    return lq_admin_fault(MHD_HTTP_NOT_FOUND, "not_found",
                          "there is no '%s'. There are /livez, /readyz, /v1/status, /v1/members "
                          "and what docs/operations.md says of changes",
                          request->path);
}

static struct lq_admin_answer call(const struct route *route,
                                   const struct lq_admin_request *request)
{
    if (strcmp(route->method, "POST") == 0 && !is_json(request->content_type)) {
        return lq_admin_fault(MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "content_type",
                              "a POST needs the header Content-Type: application/json");
    }
    if (has_node(route) && request->node == 0) {
        return lq_admin_fault(MHD_HTTP_BAD_REQUEST, "invalid",
                              "the node in the path is a number from 1 to %" PRIu32, UINT32_MAX);
    }
    return route->answer(request);
}

struct lq_admin_answer lq_admin_answer(const struct lq_admin_request *request)
{
    struct lq_admin_request read = *request;
    /* HEAD is GET; libmicrohttpd leaves the body out. */
    const char *method = strcmp(request->method, "HEAD") == 0 ? "GET" : request->method;
    bool is_path = false;
    for (size_t i = 0; i < N_ROUTES; i++) {
        if (fits(&routes[i], request->path, &read.node)) {
            is_path = true;
            if (strcmp(routes[i].method, method) == 0) {
                return call(&routes[i], &read);
            }
        }
    }
    return is_path ? refuse_method(request) : refuse_path(request);
}
