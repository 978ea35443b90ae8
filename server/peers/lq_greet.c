/* Hello and refusal: who the other side is, and whether it becomes the link.
 *
 * Of a connection that came in, the hello is held until it can be answered: this node knows its own
 * boot counter, and no other connection with the same peer has to be waited for (lq_contest.h).
 * Then the node judges it. The answer is the own hello, and the link stands; or a refusal. Of a
 * connection that was dialled, the answer is judged at once, since the other side has decided. */
#include "lq_check.h"
#include "lq_clock.h"
#include "lq_heap.h"
#include "lq_links_impl.h"
#include "lq_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define REJOIN                                                                                     \
    "rejoin under a new node id: on another node `loquet member replace OLD NEW ADDRESS`, and "    \
    "start here with an empty data directory, the new node-id and the cluster-id"

/* A verdict on the wire, and in words for the operators of both sides. */
static const struct {
    enum lq_link_verdict verdict;
    uint8_t reason;
    const char *told_there; /* by the one that refuses */
    const char *told_here;  /* by the one that is refused */
    const char *advice;     /* what to do there */
} words[] = {
    {LQ_LINK_WRONG_CLUSTER, LQ_REFUSAL_WRONG_CLUSTER, "it is of another cluster",
     "the node there is of another cluster",
     "compare initial-cluster and cluster-id of both nodes, and the address"},
    {LQ_LINK_WRONG_NODE, LQ_REFUSAL_WRONG_NODE, "it means another node, or is not known here",
     "the node there has another id than was expected, or does not know this one",
     "compare the addresses of the members with the node-id of both nodes"},
    {LQ_LINK_NOT_MEMBER, LQ_REFUSAL_NOT_MEMBER, "it was removed from the cluster",
     "this node was removed from the cluster",
     "stop it; it can only come back under a new node id, with an empty data directory"},
    {LQ_LINK_LOST_DISK, LQ_REFUSAL_LOST_DISK, "it was here before and came back blank",
     "this node's disk was lost or emptied", REJOIN},
    {LQ_LINK_OLD_DISK, LQ_REFUSAL_OLD_DISK, "its data directory is an old copy",
     "this node's data directory is a copy, or was restored from a backup", REJOIN},
    {LQ_LINK_OLD_LIFE, LQ_REFUSAL_OLD_LIFE, "a later life of it was here",
     "the node there has met a later life of this node",
     "look for another process that uses this node's id"},
};

#define N_WORDS (sizeof words / sizeof *words)

void lq_greet_say(struct lq_conn *conn, uint32_t to)
{
    struct lq_links *links = conn->links;
    struct lq_hello hello = links->user.hello(links->user.context, to);
    struct lq_buffer bytes;
    lq_buffer_init(&bytes);
    lq_hello_put(&bytes, &hello);
    lq_outqueue_add(&conn->out, bytes.bytes, bytes.len);
    lq_buffer_done(&bytes);
    lq_conn_write(conn);
}

/* Says why and ends. */
static void refuse(struct lq_conn *conn, uint8_t reason, const char *text)
{
    struct lq_links *links = conn->links;
    const struct lq_refusal refusal = {.reason = reason, .cluster = links->options.cluster};
    struct lq_buffer bytes;
    char key[LQ_LIMITER_KEY], host[LQ_ADDRESS_TEXT];
    lq_conn_host(conn, host);
    (void)snprintf(key, sizeof key, "%" PRIu32 " %u %.40s", conn->hello.from, reason, host);
    if (lq_limiter_allows(&links->refusals, key, lq_clock_ms(), LQ_REFUSED_LOG_MS)) {
        lq_log(LQ_LOG_WARN, "refused a node", LQ_NUMBER("node", conn->hello.from),
               LQ_TEXT("address", conn->address), LQ_TEXT("why", text));
    }
    lq_buffer_init(&bytes);
    lq_refusal_put(&bytes, &refusal);
    lq_outqueue_add(&conn->out, bytes.bytes, bytes.len);
    lq_buffer_done(&bytes);
    lq_conn_linger(conn);
}

static void refuse_verdict(struct lq_conn *conn, enum lq_link_verdict verdict)
{
    for (size_t i = 0; i < N_WORDS; i++) {
        if (words[i].verdict == verdict) {
            refuse(conn, words[i].reason, words[i].told_there);
            return;
        }
    }
    LQ_BUG("a verdict without words");
}

/* The node has accepted it: it is the link. */
static void establish(struct lq_conn *conn)
{
    struct lq_links_peer *peer = lq_links_get(conn->links, conn->hello.from);
    struct lq_conn *older = peer->link;
    if (peer->dial.conn == conn) {
        peer->dial.conn = NULL;
    }
    lq_dial_stop(peer);
    if (older != NULL) {
        lq_conn_close(older);
    }
    peer->link = conn;
    conn->peer = peer;
    peer->is_down_due = peer->is_refused_due = peer->is_told_full = false;
    peer->verdict_due = LQ_LINK_OK;
    peer->text[0] = '\0';
    peer->since_ms = conn->heard_ms = lq_clock_ms();
    lq_conn_move(conn, LQ_CONN_UP, LQ_NEVER);
    lq_log(LQ_LOG_INFO, "link up", LQ_NUMBER("node", peer->node), LQ_TEXT("address", conn->address),
           LQ_TEXT("dialled_by", conn->is_dialled ? "this node" : "the peer"),
           LQ_TEXT("replaces", older == NULL ? "nothing" : "an older link"));
    if (!conn->is_dialled) {
        lq_greet_say(conn, peer->node);
    }
}

/* Asks the node. False: the connection is gone meanwhile. */
static bool ask_node(struct lq_conn *conn, enum lq_link_verdict *ret_verdict)
{
    struct lq_links_user *user = &conn->links->user;
    enum lq_conn_state state = conn->state;
    user->wake(user->context);
    if (conn->state != state) {
        return false;
    }
    *ret_verdict = user->up(user->context, &conn->hello);
    return conn->state == state;
}

/* ---- A connection that was dialled. */

/* A peer that refused this node, in whatever way. */
static void note_refused(struct lq_links_peer *peer, const char *address,
                         const struct lq_refusal *refusal)
{
    struct lq_links *links = peer->links;
    char key[LQ_LIMITER_KEY], cluster[20];
    for (size_t i = 0; i < N_WORDS; i++) {
        if (words[i].reason != refusal->reason) {
            continue;
        }
        peer->verdict_due = words[i].verdict;
        lq_links_note(peer, words[i].told_here);
        (void)snprintf(key, sizeof key, "by %" PRIu32, peer->node);
        (void)snprintf(cluster, sizeof cluster, "%016" PRIx64, refusal->cluster);
        if (lq_limiter_allows(&links->refusals, key, lq_clock_ms(), LQ_REFUSED_LOG_MS)) {
            lq_log(LQ_LOG_ERROR, "refused by a node", LQ_NUMBER("node", peer->node),
                   LQ_TEXT("address", address), LQ_TEXT("its_cluster", cluster),
                   LQ_TEXT("why", words[i].told_here), LQ_TEXT("advice", words[i].advice));
        }
    }
    lq_links_note_due(links);
}

static void take_refusal(struct lq_conn *conn, const struct lq_refusal *refusal)
{
    struct lq_links_peer *peer = conn->peer;
    const struct lq_links_options *options = &conn->links->options;
    uint64_t again_ms = options->retry_max_ms;
    if (refusal->reason == LQ_REFUSAL_ANOTHER) {
        again_ms =
            lq_backoff_next(peer->dial.delay_ms, options->retry_min_ms, options->retry_max_ms);
    }
    note_refused(peer, conn->address, refusal);
    lq_dial_stop(peer);
    lq_dial_later(peer, again_ms);
}

static void take_answer(struct lq_conn *conn, const struct lq_hello *hello)
{
    struct lq_links_peer *peer = conn->peer;
    enum lq_link_verdict verdict = LQ_LINK_OK;
    conn->hello = *hello;
    if (hello->from != peer->node) {
        lq_conn_end(conn, LQ_END_BAD, "another node answers at its address");
    } else if (!ask_node(conn, &verdict)) {
        return;
    } else if (verdict == LQ_LINK_OK) {
        establish(conn);
    } else {
        lq_links_note(peer, "this node does not accept it");
        refuse_verdict(conn, verdict);
        lq_dial_stop(peer);
        lq_dial_later(peer, conn->links->options.retry_max_ms);
    }
}

/* ---- Connections that came in. */

void lq_greet_first(struct lq_conn *conn, const uint8_t *body, size_t len)
{
    struct lq_hello hello;
    struct lq_refusal refusal;
    bool is_hello = lq_hello_decode(body, len, &hello);
    if (conn->is_dialled && is_hello) {
        take_answer(conn, &hello);
    } else if (conn->is_dialled && lq_refusal_decode(body, len, &refusal)) {
        take_refusal(conn, &refusal);
    } else if (is_hello) {
        conn->hello = hello;
        conn->hello_ms = lq_clock_ms();
        lq_conn_move(conn, LQ_CONN_HELD, conn->hello_ms);
    } else {
        lq_conn_end(conn, LQ_END_BAD, "it sent what is no hello");
    }
}

bool lq_greet_is_refused(struct lq_conn *conn, const uint8_t *body, size_t len)
{
    struct lq_links_peer *peer = conn->peer;
    struct lq_refusal refusal;
    char address[LQ_ADDRESS_TEXT];
    if (conn->is_dialled || !lq_refusal_decode(body, len, &refusal)) {
        return false;
    }
    memcpy(address, conn->address, sizeof address);
    lq_conn_end(conn, LQ_END_CLOSED, "it does not accept this node");
    note_refused(peer, address, &refusal);
    lq_dial_later(peer, peer->links->options.retry_max_ms);
    return true;
}

static enum lq_contest contest(const struct lq_conn *conn, uint64_t now_ms)
{
    const struct lq_links *links = conn->links;
    const struct lq_links_peer *peer = lq_links_find(links, conn->hello.from);
    const struct lq_conn *link = peer == NULL ? NULL : peer->link;
    const struct lq_conn *dialled = peer == NULL ? NULL : peer->dial.conn;
    return lq_contest_judge(&(struct lq_contest_state){
        .node = links->options.node,
        .peer = conn->hello.from,
        .boot = conn->hello.boot,
        .waited_ms = now_ms - conn->hello_ms,
        .is_linked = link != NULL,
        .link_boot = link == NULL ? 0 : link->hello.boot,
        .is_link_alive = link != NULL && link->heard_ms >= conn->hello_ms + LQ_CONTEST_ALIVE_MS,
        .is_greeting = dialled != NULL && dialled->state == LQ_CONN_GREETING,
    });
}

/* It is this node's turn to decide. */
static void decide(struct lq_conn *conn)
{
    struct lq_links_peer *peer = lq_links_find(conn->links, conn->hello.from);
    enum lq_link_verdict verdict = LQ_LINK_OK;
    if (peer != NULL) {
        peer->dial.delay_ms = 0; /* it is there */
    }
    if (!ask_node(conn, &verdict)) {
        return;
    }
    if (verdict == LQ_LINK_OK) {
        establish(conn);
    } else {
        refuse_verdict(conn, verdict);
    }
}

static void judge(struct lq_conn *conn, uint64_t now_ms)
{
    switch (contest(conn, now_ms)) {
    case LQ_CONTEST_TAKE:
        decide(conn);
        break;
    case LQ_CONTEST_WAIT:
        lq_conn_move(conn, LQ_CONN_HELD, now_ms + LQ_JUDGE_MS);
        break;
    case LQ_CONTEST_DROP:
        refuse(conn, LQ_REFUSAL_ANOTHER, "the link with that node stands and lives");
        break;
    }
}

/* One that was not judged in this round yet. */
static struct lq_conn *next_held(const struct lq_links *links, uint64_t now_ms)
{
    for (struct lq_list *at = links->conns.next; at != &links->conns; at = at->next) {
        struct lq_conn *conn = LQ_CONTAINER(at, struct lq_conn, in_conns);
        if (conn->state == LQ_CONN_HELD && conn->deadline_ms <= now_ms) {
            return conn;
        }
    }
    return NULL;
}

/* Each is found anew: whichever is judged, any other may be closed by it. */
void lq_greet_judge(struct lq_links *links)
{
    uint64_t now_ms = lq_clock_ms();
    struct lq_conn *conn;
    bool can_greet;
    links->user.wake(links->user.context);
    can_greet = links->user.can_greet(links->user.context);
    for (struct lq_list *at = links->conns.next; at != &links->conns; at = at->next) {
        conn = LQ_CONTAINER(at, struct lq_conn, in_conns);
        if (conn->state == LQ_CONN_HELD) {
            conn->deadline_ms = now_ms;
        }
    }
    while ((conn = next_held(links, now_ms)) != NULL) {
        if (can_greet) {
            judge(conn, now_ms);
        } else if (now_ms - conn->hello_ms >= LQ_GREETING_MS) {
            lq_conn_close(conn);
        } else {
            lq_conn_move(conn, LQ_CONN_HELD, now_ms + LQ_JUDGE_MS);
        }
    }
}
