#include "lq_columns.h"
#include "lq_http.h"
#include "lq_out.h"
#include "lq_reply.h"
#include "lq_where.h"

#include <inttypes.h>
#include <string.h>

#define NO_STATUS "answered something else: is that a loquetd's admin port?"

static const struct lq_column columns[] = {
    {"ADMIN", false},      {"NODE", true},    {"NAME", false},  {"ROLE", false},
    {"TERM", true},        {"LEADER", true},  {"READY", false}, {"COMMIT", true},
    {"APPLIED", true},     {"MEMBERS", true}, {"KEYS", true},   {"WAITERS", true},
    {"CONNECTIONS", true},
};

#define N_COLUMNS (sizeof columns / sizeof *columns)

/* What one node said, if anything. */
struct answer {
    struct lq_http_call call;
    struct lq_reply_status status;
    bool is_good;
    char admin[LQ_ENDPOINT_TEXT_MAX];
};

/* What all of them together mean. */
struct summary {
    size_t n, n_answered;
    uint64_t term;
    uint32_t leader; /* in the highest term that anybody knows; 0: unknown */
    const char *cluster_id;
    bool is_one_cluster; /* all that answered are of the same, which is that one */
};

/* Why an answer is no status: in the node's own words, if it has some. */
static void explain(struct lq_http_call *call)
{
    const char *message = json_string_value(json_object_get(call->json, "message"));
    if (call->reason[0] == '\0') {
        (void)snprintf(call->reason, sizeof call->reason, "%s",
                       message == NULL ? NO_STATUS : message);
    }
}

static void ask(const struct lq_endpoints *admins, struct answer *answers)
{
    struct lq_http_call calls[LQ_ENDPOINTS_MAX] = {0};
    lq_http_perform(admins, 0, "/v1/status", calls, admins->n);
    for (size_t i = 0; i < admins->n; i++) {
        struct answer *answer = &answers[i];
        answer->call = calls[i];
        lq_endpoints_text(admins, i, answer->admin, sizeof answer->admin);
        answer->is_good = calls[i].status == 200 && lq_reply_status(calls[i].json, &answer->status);
        if (!answer->is_good) {
            explain(&answer->call);
        }
    }
}

static struct summary sum_up(const struct answer *answers, size_t n)
{
    struct summary summary = {.n = n, .is_one_cluster = true};
    for (size_t i = 0; i < n; i++) {
        const struct lq_reply_status *status = &answers[i].status;
        if (!answers[i].is_good) {
            continue;
        }
        summary.n_answered++;
        summary.is_one_cluster =
            summary.is_one_cluster &&
            (summary.cluster_id == NULL || strcmp(summary.cluster_id, status->cluster_id) == 0);
        summary.cluster_id = status->cluster_id;
        if (status->term > summary.term) {
            summary.term = status->term;
            summary.leader = 0;
        }
        if (status->term == summary.term && status->leader != 0) {
            summary.leader = status->leader;
        }
    }
    return summary;
}

static enum lq_exit code_of(const struct summary *summary)
{
    if (summary->n_answered == 0) {
        return LQ_EXIT_UNAVAILABLE;
    }
    return summary->n_answered == summary->n && summary->leader != 0 && summary->is_one_cluster
               ? LQ_EXIT_OK
               : LQ_EXIT_DEGRADED;
}

/* ---- For people. */

static void fill_row(const struct answer *answer, struct lq_row *row)
{
    const struct lq_reply_status *status = &answer->status;
    const uint64_t counts[] = {status->commit_index, status->applied_index, status->n_members,
                               status->keys,         status->waiters,       status->connections};
    lq_columns_set(row->cells[0], "%s", answer->admin);
    if (!answer->is_good) {
        lq_columns_set(row->note, "%s", answer->call.reason);
        return;
    }
    lq_columns_set(row->cells[1], "%" PRIu32, status->node);
    lq_columns_set(row->cells[2], "%s", status->name);
    lq_columns_set(row->cells[3], "%s", status->role);
    lq_columns_set(row->cells[4], "%" PRIu64, status->term);
    lq_columns_set(row->cells[5], "-");
    if (status->leader != 0) {
        lq_columns_set(row->cells[5], "%" PRIu32, status->leader);
    }
    lq_columns_set(row->cells[6], "%s", status->is_ready ? "yes" : "no");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        lq_columns_set(row->cells[7 + i], "%" PRIu64, counts[i]);
    }
}

static void print_not_ready(const struct answer *answers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char reason[LQ_CELL_MAX];
        if (answers[i].is_good && !answers[i].status.is_ready) {
            lq_columns_set(reason, "%s", answers[i].status.not_ready);
            (void)printf("node %" PRIu32 " is not ready%s%s\n", answers[i].status.node,
                         reason[0] == '\0' ? "" : ": ", reason);
        }
    }
}

static void print_text(const struct answer *answers, const struct summary *summary)
{
    static struct lq_row rows[LQ_ENDPOINTS_MAX];
    char cluster_id[LQ_CELL_MAX];
    for (size_t i = 0; i < summary->n; i++) {
        fill_row(&answers[i], &rows[i]);
    }
    lq_columns_print(stdout, columns, N_COLUMNS, rows, summary->n);
    print_not_ready(answers, summary->n);
    if (!summary->is_one_cluster) {
        (void)printf("these are nodes of different clusters\n");
    } else if (summary->cluster_id != NULL) {
        lq_columns_set(cluster_id, "%s", summary->cluster_id);
        (void)printf("cluster %s\n", cluster_id);
    }
    if (summary->leader != 0) {
        (void)printf("node %" PRIu32 " leads in term %" PRIu64 "; %zu of %zu answered\n",
                     summary->leader, summary->term, summary->n_answered, summary->n);
    } else {
        (void)printf("no leader is known; %zu of %zu answered\n", summary->n_answered, summary->n);
    }
}

/* ---- For machines. */

static bool print_json(const struct lq_cli *cli, const struct answer *answers,
                       const struct summary *summary)
{
    static const char *const results[] = {"ok", "degraded", "unavailable"};
    enum lq_exit code = code_of(summary);
    json_t *object = lq_out_object(cli, results[code == LQ_EXIT_OK         ? 0
                                                : code == LQ_EXIT_DEGRADED ? 1
                                                                           : 2]);
    json_t *nodes = json_array();
    for (size_t i = 0; i < summary->n; i++) {
        json_t *node = json_object();
        lq_out_set_text(node, "admin", answers[i].admin);
        if (answers[i].is_good) {
            (void)json_object_set(node, "status", answers[i].call.json);
        } else {
            lq_out_set_text(node, "reason", answers[i].call.reason);
        }
        (void)json_array_append_new(nodes, node);
    }
    (void)json_object_set_new(object, "leader",
                              summary->leader == 0 ? json_null() : json_integer(summary->leader));
    lq_out_set_number(object, "answered", summary->n_answered);
    lq_out_set_number(object, "exit", (uint64_t)code);
    (void)json_object_set_new(object, "nodes", nodes);
    return lq_out_print(stdout, object);
}

enum lq_exit lq_cmd_status(const struct lq_cli *cli)
{
    static struct answer answers[LQ_ENDPOINTS_MAX];
    static struct lq_endpoints admins;
    struct summary summary;
    bool is_written;
    if (!lq_where_admins(cli, &admins)) {
        return LQ_EXIT_USAGE;
    }
    ask(&admins, answers);
    summary = sum_up(answers, admins.n);
    if (cli->json) {
        is_written = print_json(cli, answers, &summary);
    } else {
        print_text(answers, &summary);
        is_written = fflush(stdout) == 0;
    }
    for (size_t i = 0; i < admins.n; i++) {
        lq_http_done(&answers[i].call);
    }
    return is_written ? code_of(&summary) : LQ_EXIT_OUTPUT;
}
