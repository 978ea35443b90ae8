/* Probes: once faults have stopped, a fresh client asks each node for a lock and gives it back. */
#include "lq_frame.h"
#include "sim_client_impl.h"

/* So long after the last fault each node must serve again within that time. */
#define PROBE_LIMIT_US (UINT64_C(5) * SIM_S)

static void over(struct sim_probe *probe)
{
    sim_cancel(probe->clients->sim, probe->event);
    probe->event = 0;
    probe->is_done = true;
}

static void on_answer(struct sim_link *link, const struct sim_pending *request, uint8_t op,
                      uint64_t token)
{
    struct sim_probe *probe = link->owner;
    if (request->op == LQ_OP_ACQUIRE && op == LQ_OP_ACQUIRE) {
        sim_link_request(link, &(struct sim_pending){.op = LQ_OP_RELEASE,
                                                     .key = request->key,
                                                     .token = token,
                                                     .acquire = request->id});
        sim_link_flush(link);
    } else if (op == LQ_OP_RELEASE) {
        over(probe);
        sim_link_half_close(link);
    } else {
        sim_checks_probe_failed(probe->clients->checks, probe->node,
                                request->op == LQ_OP_ACQUIRE ? "it does not grant a free lock"
                                                             : "it does not take a lock back");
    }
}

static void on_over(struct sim_link *link)
{
    struct sim_probe *probe = link->owner;
    probe->link = NULL;
    if (!probe->is_done) {
        sim_checks_probe_failed(probe->clients->checks, probe->node, "it ends the connection");
    }
}

static void on_late(struct sim *sim, void *argument)
{
    struct sim_probe *probe = argument;
    (void)sim;
    probe->event = 0;
    sim_checks_probe_failed(probe->clients->checks, probe->node, "it does not answer within 5 s");
}

static void start(struct sim_clients *clients, uint32_t node)
{
    static const struct sim_link_user user = {.on_answer = on_answer, .on_over = on_over};
    struct sim_probe *probe = &clients->probes[clients->n_probes];
    *probe = (struct sim_probe){.clients = clients, .node = node};
    probe->link =
        sim_link_open(clients->sim, clients->checks, node, &user, probe, SIM_PROBE_NUMBER + node);
    if (probe->link == NULL) {
        sim_checks_probe_failed(clients->checks, node, "it refuses connections");
        return;
    }
    clients->n_probes++;
    probe->event = sim_at(clients->sim, sim_now(clients->sim) + PROBE_LIMIT_US, on_late, probe);
    sim_link_request(probe->link, &(struct sim_pending){.op = LQ_OP_ACQUIRE,
                                                        .wait_s = 1,
                                                        .lease_s = 4,
                                                        .key = SIM_KEYS - SIM_PROBE_KEYS + node,
                                                        .owner = ++clients->last_owner});
    sim_link_flush(probe->link);
}

void sim_clients_probe(struct sim *sim, void *of_clients)
{
    struct sim_clients *clients = of_clients;
    clients->probe_event = 0;
    clients->has_probed = true;
    for (uint32_t node = 1; node <= sim_n_nodes(sim) && node < SIM_PROBE_KEYS; node++) {
        if (sim_checks_must_serve(clients->checks, node) && !sim_node_is_paused(sim, node)) {
            start(clients, node);
        }
    }
    if (clients->n_probes == 0) {
        sim_checks_probe_failed(clients->checks, 0, "no node leads");
    }
}

void sim_clients_end_probes(struct sim_clients *clients)
{
    for (unsigned i = 0; i < clients->n_probes; i++) {
        struct sim_probe *probe = &clients->probes[i];
        sim_cancel(clients->sim, probe->event);
        if (probe->link != NULL) {
            sim_link_close(probe->link);
            probe->link = NULL;
        }
    }
}
