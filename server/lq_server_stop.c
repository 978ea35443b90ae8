/* How a server stops after a signal, a step per turn as soon as each is done:
 *
 *   SERVING -> HANDING_OVER   a leader hands leadership over, while its clients are still served
 *           -> DISMISSING     E 6 to every client; STOP_MS for them to take their last answers
 *           -> LEAVING        the node's origin is closed, so that nobody waits for its clients
 *           -> closed
 *
 * Simple mode goes from SERVING to DISMISSING, and from there to its end. A node that failed is
 * closed at once, from wherever it is. */
#include "lq_clock.h"
#include "lq_log.h"
#include "lq_server_impl.h"

#include <signal.h>
#include <string.h>

/* How long clients have to take their last answers. A promise of one second, less some. */
#define STOP_MS 300

/* How often a step looks whether it is done. */
#define STEP_MS 10

static void dismiss(struct lq_server *server, uint64_t now_ms)
{
    server->stop = LQ_STOP_DISMISSING;
    server->stop_at_ms = now_ms + STOP_MS;
    lq_listener_stop(&server->listener);
    lq_hub_stop(server->hub, now_ms);
}

void lq_server_stop(struct lq_server *server, int signum)
{
    uint64_t now_ms = lq_clock_ms();
    if (server->stop != LQ_STOP_SERVING) {
        return;
    }
    lq_log(LQ_LOG_INFO, "stopping", LQ_TEXT("signal", sigabbrev_np(signum)),
           LQ_NUMBER("connections", server->n_links));
    if (server->node == NULL) {
        dismiss(server, now_ms);
        return;
    }
    server->stop = LQ_STOP_HANDING_OVER;
    server->stop_at_ms = now_ms;
    lq_node_hand_over(server->node);
}

/* Closes connections, as many as a turn may; true when there are none left. */
static bool close_links(struct lq_server *server)
{
    while (!lq_list_is_empty(&server->links) && server->n_calls < LQ_TURN_CALLS) {
        lq_link_close(LQ_CONTAINER(server->links.next, struct lq_link, in_links));
    }
    return lq_list_is_empty(&server->links);
}

static void hand_over(struct lq_server *server, uint64_t now_ms)
{
    if (lq_node_has_handed_over(server->node)) {
        dismiss(server, now_ms);
    } else {
        server->stop_at_ms = now_ms + STEP_MS;
    }
}

static void end_dismissing(struct lq_server *server, uint64_t now_ms)
{
    if ((now_ms < server->stop_at_ms && !lq_list_is_empty(&server->links)) ||
        !close_links(server)) {
        return;
    }
    if (server->node == NULL) {
        lq_server_close(server);
        return;
    }
    server->stop = LQ_STOP_LEAVING;
    server->stop_at_ms = now_ms;
    lq_node_leave(server->node);
}

static void leave(struct lq_server *server, uint64_t now_ms)
{
    if (lq_node_has_left(server->node)) {
        lq_server_close(server);
    } else {
        server->stop_at_ms = now_ms + STEP_MS;
    }
}

void lq_server_go_on_stopping(struct lq_server *server, uint64_t now_ms)
{
    if (server->node != NULL && lq_node_has_failed(server->node)) {
        lq_listener_stop(&server->listener);
        if (close_links(server)) {
            lq_server_close(server);
        } else {
            server->stop_at_ms =
                now_ms; /* the rest in the next turn, which nothing else may bring */
        }
        return;
    }
    switch (server->stop) {
    case LQ_STOP_SERVING:
        break;
    case LQ_STOP_HANDING_OVER:
        hand_over(server, now_ms);
        break;
    case LQ_STOP_DISMISSING:
        end_dismissing(server, now_ms);
        break;
    case LQ_STOP_LEAVING:
        leave(server, now_ms);
        break;
    }
}
