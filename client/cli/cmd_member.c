/* `loquet member ACTION`, and `loquet transfer` for the one that is needed most: a table of
 * actions, each of which makes the path and body of a request; lq_member.c makes the change. */
#include "lq_args.h"
#include "lq_check.h"
#include "lq_columns.h"
#include "lq_http.h"
#include "lq_member.h"
#include "lq_out.h"
#include "lq_reply.h"
#include "lq_where.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is asked for. */
struct job {
    const struct lq_cli *cli;
    const struct action *action;
    char **arguments; /* behind the action */
    int n_arguments;
    struct lq_endpoints admins;
    uint32_t node;     /* whom it is about; transfer: 0 is for the one that is furthest */
    uint32_t new_node; /* of replace */
    const char *address;
    char path[64];
};

struct action {
    const char *name, *usage;
    int n_min, n_max;   /* arguments behind the name */
    const char *path;   /* of the request */
    const char *verb;   /* the path goes on with the node and this; NULL: it does not */
    const char *effect; /* what the node is or does then */
    enum lq_exit (*run)(struct job *job);
};

/* ---- Arguments. */

static bool read_node(const struct lq_cli *cli, const char *text, uint32_t *ret_node)
{
    uint64_t number;
    if (!lq_args_token(text, &number) || number < 1 || number > UINT32_MAX) {
        (void)lq_out_fail(cli, "invalid", LQ_EXIT_USAGE,
                          "'%.100s' is no node: give its number, 1 to %" PRIu32, text, UINT32_MAX);
        return false;
    }
    *ret_node = (uint32_t)number;
    return true;
}

static bool read_address(const struct lq_cli *cli, const char *text, const char **ret_address)
{
    struct lq_endpoints endpoints;
    char why[200];
    bool is_good = lq_endpoints_parse(&endpoints, text, NULL, why, sizeof why);
    if (!is_good || endpoints.n != 1) {
        (void)lq_out_fail(cli, "invalid", LQ_EXIT_USAGE, "the address of the node's peer port: %s",
                          is_good ? "give one" : why);
        return false;
    }
    *ret_address = text;
    return true;
}

/* Reads what stands behind the name of the action: NODE, NODE ADDRESS, or OLD NEW ADDRESS. */
static bool read_arguments(struct job *job)
{
    const struct lq_cli *cli = job->cli;
    char **arguments = job->arguments;
    int n = job->n_arguments;
    if (n < job->action->n_min || n > job->action->n_max) {
        (void)lq_out_fail(cli, "invalid", LQ_EXIT_USAGE, "too %s arguments: loquet member %s%s%s",
                          n < job->action->n_min ? "few" : "many", job->action->name,
                          job->action->usage[0] == '\0' ? "" : " ", job->action->usage);
        return false;
    }
    return (n < 1 || read_node(cli, arguments[0], &job->node)) &&
           (n < 3 || read_node(cli, arguments[1], &job->new_node)) &&
           (n < 2 || read_address(cli, arguments[n - 1], &job->address));
}

/* The body of the request: what is not in its path. The caller frees it with free(3). */
static char *body_of(const struct job *job)
{
    json_t *object = json_object();
    char *body;
    uint32_t node = job->action->verb != NULL ? job->new_node : job->node;
    if (node != 0) {
        lq_out_set_number(object, "node", node);
    }
    if (job->address != NULL) {
        lq_out_set_text(object, "address", job->address);
    }
    body = json_dumps(object, JSON_COMPACT);
    LQ_CHECK(body != NULL);
    json_decref(object);
    return body;
}

/* ---- What to say. */

/* The node that joins, or 0. */
static uint32_t joining(const struct job *job)
{
    return job->address == NULL ? 0 : job->new_node != 0 ? job->new_node : job->node;
}

/* Printed as soon as it is certain that the node is to join: replace waits for it to start. */
static void print_configuration(void *context, const char *cluster_id)
{
    const struct job *job = context;
    if (job->cli->json || joining(job) == 0) {
        return;
    }
    (void)printf("Start node %" PRIu32 " with an empty data directory, without bootstrap, and with "
                 "this in its\nconfiguration:\n\n"
                 "    node_id = %" PRIu32 ";\n"
                 "    cluster_id = \"%s\";\n"
                 "    peer = \"%s\";\n\n",
                 joining(job), joining(job),
                 cluster_id[0] == '\0' ? "see: loquet status --json" : cluster_id, job->address);
    (void)fflush(stdout);
}

static void set_configuration(json_t *object, const struct job *job, const char *cluster_id)
{
    json_t *configuration = json_object();
    lq_out_set_number(configuration, "node_id", joining(job));
    lq_out_set_text(configuration, "cluster_id", cluster_id);
    lq_out_set_text(configuration, "peer", job->address);
    (void)json_object_set_new(object, "configuration", configuration);
}

static void print_effect(const struct job *job, bool is_in_effect)
{
    (void)printf("%s: node %" PRIu32 " %s", is_in_effect ? "done" : "begun",
                 job->new_node != 0 ? job->new_node : job->node, job->action->effect);
    if (job->new_node != 0) {
        (void)printf(" %" PRIu32, job->node);
    }
    (void)printf("%s\n", is_in_effect ? "" : " soon; repeat the command to see whether it is so");
}

static enum lq_exit print_success(const struct job *job, const struct lq_member_outcome *outcome)
{
    bool is_in_effect = outcome->end == LQ_MEMBER_IN_EFFECT;
    json_t *object;
    if (!job->cli->json) {
        print_effect(job, is_in_effect);
        return fflush(stdout) == 0 ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
    }
    object = lq_out_object(job->cli, is_in_effect ? "done" : "begun");
    lq_out_set_text(object, "action", job->action->name);
    lq_out_set_number(object, "node", job->node);
    if (outcome->leader != 0) {
        lq_out_set_number(object, "leader", outcome->leader);
    }
    if (joining(job) != 0) {
        set_configuration(object, job, outcome->cluster_id);
    }
    return lq_out_print(stdout, object) ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
}

static enum lq_exit print_outcome(const struct job *job, const struct lq_member_outcome *outcome)
{
    const struct lq_cli *cli = job->cli;
    switch (outcome->end) {
    case LQ_MEMBER_IN_EFFECT:
    case LQ_MEMBER_BEGUN:
        return print_success(job, outcome);
    case LQ_MEMBER_BUSY:
        return lq_out_fail(cli, "busy", LQ_EXIT_NOT_ACQUIRED, "%s was not begun: %s",
                           job->action->name, outcome->message);
    case LQ_MEMBER_REFUSED:
        return lq_out_fail(cli, "refused", LQ_EXIT_REFUSED, "%s was refused: %s", job->action->name,
                           outcome->message);
    case LQ_MEMBER_NO_LEADER:
        return lq_out_fail(cli, "no_leader", LQ_EXIT_UNAVAILABLE, "%s was not begun: %s",
                           job->action->name, outcome->message);
    case LQ_MEMBER_UNREACHABLE:
        return lq_out_fail(cli, "unreachable", LQ_EXIT_UNAVAILABLE,
                           "%s was not begun: no node answered. --admin or LOQUET_ADMIN says where "
                           "to look. The last one: %s",
                           job->action->name, outcome->message);
    case LQ_MEMBER_UNKNOWN:
        break;
    }
    return lq_out_fail(cli, "unknown", LQ_EXIT_UNKNOWN,
                       "%s may be under way, but was not seen in effect. See: loquet member list. "
                       "It is safe to repeat it%s%s",
                       job->action->name,
                       outcome->message[0] == '\0' ? "" : ". Last: ", outcome->message);
}

/* ---- Actions. */

static uint32_t wait_of(const struct lq_cli *cli)
{
    if (cli->no_wait) {
        return 0;
    }
    return (cli->used & LQ_CLI_WAIT) != 0 ? cli->wait_ms : LQ_CLI_CHANGE_WAIT_MS;
}

static enum lq_exit run_change(struct job *job)
{
    char *body = body_of(job);
    struct lq_member_outcome outcome;
    struct lq_member_change change = {.admins = &job->admins,
                                      .path = job->path,
                                      .body = body,
                                      .wait_ms = wait_of(job->cli),
                                      .on_begun = print_configuration,
                                      .context = job};
    if (job->action->verb == NULL) {
        (void)snprintf(job->path, sizeof job->path, "%s", job->action->path);
    } else {
        (void)snprintf(job->path, sizeof job->path, "%s/%" PRIu32 "/%s", job->action->path,
                       job->node, job->action->verb);
    }
    if (job->address == NULL && job->action->verb == NULL) {
        change.transfer_to = job->node;
    }
    lq_member_make(&change, &outcome);
    free(body);
    return print_outcome(job, &outcome);
}

/* Asks all nodes for the same. The calls are the caller's to finish. */
static void ask_all(const struct job *job, const char *path,
                    struct lq_http_call ret_calls[LQ_ENDPOINTS_MAX])
{
    memset(ret_calls, 0, LQ_ENDPOINTS_MAX * sizeof *ret_calls);
    lq_http_perform(&job->admins, 0, path, ret_calls, job->admins.n);
}

static void finish_all(const struct job *job, struct lq_http_call *calls)
{
    for (size_t i = 0; i < job->admins.n; i++) {
        lq_http_done(&calls[i]);
    }
}

/* The node that is to lead is chosen here, not by the leader, so that the request can be repeated:
 * the next leader would choose again. */
static enum lq_exit run_transfer(struct job *job)
{
    struct lq_http_call calls[LQ_ENDPOINTS_MAX];
    struct lq_reply_status status;
    bool is_led = false;
    if (job->node != 0) {
        return run_change(job);
    }
    ask_all(job, "/v1/status", calls);
    for (size_t i = 0; i < job->admins.n; i++) {
        if (calls[i].status == 200 && lq_reply_status(calls[i].json, &status) &&
            lq_reply_leads(&status)) {
            is_led = true;
            job->node = lq_reply_furthest(calls[i].json);
        }
    }
    finish_all(job, calls);
    if (!is_led) {
        return lq_out_fail(job->cli, "no_leader", LQ_EXIT_UNAVAILABLE,
                           "transfer was not begun: none of the nodes that answered leads. --admin "
                           "or LOQUET_ADMIN says where to look");
    }
    if (job->node == 0) {
        return lq_out_fail(job->cli, "refused", LQ_EXIT_REFUSED,
                           "transfer was not begun: no other voter is linked with the leader");
    }
    return run_change(job);
}

/* ---- The list. */

static void print_members(const struct lq_reply_members *members)
{
    static const struct lq_column columns[] = {
        {"NODE", true}, {"ADDRESS", false}, {"ROLE", false}, {"LEADS", false}};
    static struct lq_row rows[LQ_REPLY_MEMBERS_MAX];
    for (size_t i = 0; i < members->n; i++) {
        const struct lq_reply_member *member = &members->items[i];
        lq_columns_set(rows[i].cells[0], "%" PRIu32, member->node);
        lq_columns_set(rows[i].cells[1], "%s", member->address);
        lq_columns_set(rows[i].cells[2], "%s", member->role);
        lq_columns_set(rows[i].cells[3], "%s", member->node == members->leader ? "yes" : "");
    }
    lq_columns_print(stdout, columns, sizeof columns / sizeof *columns, rows, members->n);
    if (members->leader != members->node) {
        (void)printf("as node %" PRIu32 " knows them, which does not lead\n", members->node);
    }
}

static enum lq_exit print_list(const struct job *job, const struct lq_reply_members *members,
                               json_t *answer)
{
    json_t *object;
    if (!job->cli->json) {
        print_members(members);
        return fflush(stdout) == 0 ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
    }
    object = lq_out_object(job->cli, "ok");
    lq_out_set_text(object, "action", job->action->name);
    (void)json_object_update_missing(object, answer);
    return lq_out_print(stdout, object) ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
}

/* The leader knows best, else who is in the highest term. */
static bool is_better(const struct lq_reply_members *members, const struct lq_reply_members *best)
{
    bool leads = members->leader == members->node, led = best->leader == best->node;
    return members->term > best->term || (members->term == best->term && leads && !led);
}

static enum lq_exit run_list(struct job *job)
{
    static struct lq_reply_members members[LQ_ENDPOINTS_MAX];
    struct lq_http_call calls[LQ_ENDPOINTS_MAX];
    char first[LQ_ENDPOINT_TEXT_MAX];
    size_t best = LQ_ENDPOINTS_MAX;
    enum lq_exit code;
    ask_all(job, "/v1/members", calls);
    for (size_t i = 0; i < job->admins.n; i++) {
        if (calls[i].status == 200 && lq_reply_members(calls[i].json, &members[i]) &&
            (best == LQ_ENDPOINTS_MAX || is_better(&members[i], &members[best]))) {
            best = i;
        }
    }
    if (best < LQ_ENDPOINTS_MAX) {
        code = print_list(job, &members[best], calls[best].json);
    } else {
        lq_endpoints_text(&job->admins, 0, first, sizeof first);
        code = lq_out_fail(
            job->cli, "unreachable", LQ_EXIT_UNAVAILABLE,
            "no node answered. --admin or LOQUET_ADMIN says where to look. The "
            "first one: %s: %s",
            first, calls[0].reason[0] == '\0' ? "answered something else" : calls[0].reason);
    }
    finish_all(job, calls);
    return code;
}

/* ---- The table. */

#define MEMBERS "/v1/members"

static const struct action actions[] = {
    {"list", "", 0, 0, MEMBERS, NULL, NULL, run_list},
    {"add", "NODE ADDRESS", 2, 2, MEMBERS, NULL, "is a member, as a standby", run_change},
    {"promote", "NODE", 1, 1, MEMBERS, "promote", "is a voter", run_change},
    {"demote", "NODE", 1, 1, MEMBERS, "demote", "is a standby", run_change},
    {"remove", "NODE", 1, 1, MEMBERS, "remove", "is no member", run_change},
    {"replace", "OLD NEW ADDRESS", 3, 3, MEMBERS, "replace", "is a member in the place of node",
     run_change},
    {"transfer", "[NODE]", 0, 1, "/v1/leader/transfer", NULL, "leads", run_transfer},
};

const char *lq_cmd_member_action(size_t i)
{
    return i < sizeof actions / sizeof *actions ? actions[i].name : NULL;
}

/* `arguments` are those behind the action. */
static enum lq_exit run(const struct lq_cli *cli, const char *name, char **arguments)
{
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(actions[i].name, name) == 0) {
            struct job job = {.cli = cli, .action = &actions[i], .arguments = arguments};
            job.n_arguments = cli->n_arguments - (int)(arguments - cli->arguments);
            if (!read_arguments(&job) || !lq_where_admins(cli, &job.admins)) {
                return LQ_EXIT_USAGE;
            }
            return actions[i].run(&job);
        }
    }
    return lq_out_fail(cli, "invalid", LQ_EXIT_USAGE,
                       "unknown action '%.100s'. Try: loquet member --help", name);
}

enum lq_exit lq_cmd_member(const struct lq_cli *cli)
{
    return run(cli, cli->arguments[0], cli->arguments + 1);
}

enum lq_exit lq_cmd_transfer(const struct lq_cli *cli)
{
    return run(cli, "transfer", cli->arguments);
}
