/* etcd v3 as a lock server, over gRPC. A connection is one client with one lease, under which its
 * keys live.
 *
 * Own keys: a key is created if it does not exist, and deleted.
 *
 * Shared keys, the recipe of etcd's own Mutex: a waiter makes a key of its own below the lock's
 * (its name ends with the client's lease), and owns the lock when no key there is older. Else it
 * watches the youngest of those before it, and looks again when that is deleted.
 *
 *     CREATING --oldest--> granted <--nobody before it--+
 *         |                                             |
 *         +--somebody is older--> LOOKING --somebody--> WATCHING
 *                                   ^                     |
 *                                   +-------deleted-------+
 *     DELETING --> released, or not held
 *
 * A wait ends only with a grant: the recipe knows no bound. Leases are not renewed but outlast the
 * run. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "etcd_wire.h"
#include "grpc.h"
#include "load.h"

enum {
    NAME_MAX_BYTES =
        1024 + 1 + 16, /* a key of the load, a slash and the lease in hexadecimal digits */
    GRANT_PATIENCE_MS = 10000,
    LEASE_MARGIN_S = 60,
};

static const char path_txn[] = "/etcdserverpb.KV/Txn";
static const char path_range[] = "/etcdserverpb.KV/Range";
static const char path_delete[] = "/etcdserverpb.KV/DeleteRange";
static const char path_watch[] = "/etcdserverpb.Watch/Watch";
static const char path_grant[] = "/etcdserverpb.Lease/LeaseGrant";

enum step {
    CREATING,
    LOOKING,
    WATCHING,
    DELETING,
};

/* A slot's request. Only the path of its call changes from step to step. */
struct attempt {
    struct lq_bench_grpc_call call;
    enum step step;
    int64_t revision; /* of the creation of its key */
    uint8_t name[NAME_MAX_BYTES];
    size_t name_len, prefix_len; /* no prefix: the key is the slot's own */
};

/* A connection's part. With shared keys it has one slot, so one watch is enough. */
struct client {
    struct lq_bench_grpc grpc;
    struct lq_bench_grpc_call granting;
    int64_t lease;
    struct lq_bench_grpc_call watching;
    bool has_watch; /* it has begun, and its key is not deleted yet */
    int64_t watch;
};

static int init(struct lq_bench_load *load)
{
    const struct lq_bench_options *o = load->options;
    if (o->keys == LQ_BENCH_SHARED && o->depth > 1) {
        (void)snprintf(
            load->error, sizeof load->error,
            "etcd with shared keys: the recipe takes one waiter per client, so --depth 1");
        return -1;
    }
    load->driver_state = calloc(load->n_slots, sizeof(struct attempt));
    if (load->driver_state == NULL) {
        (void)snprintf(load->error, sizeof load->error, "out of memory");
        return -1;
    }
    return 0;
}

static void done(struct lq_bench_load *load)
{
    free(load->driver_state);
    load->driver_state = NULL;
}

static size_t request_bytes(const struct lq_bench_load *load)
{
    return 8 * (size_t)load->options->key_bytes + LQ_BENCH_GRPC_EXTRA_BYTES;
}

static size_t answer_bytes(const struct lq_bench_load *load)
{
    return 2 * (size_t)load->options->key_bytes + LQ_BENCH_GRPC_EXTRA_BYTES;
}

/* ---- Requests. */

static struct attempt *attempt_of(const struct lq_bench_slot *slot)
{
    return (struct attempt *)slot->conn->load->driver_state + slot->id;
}

static struct lq_bench_etcd_room room_of(struct lq_bench_grpc_call *call)
{
    struct lq_bench_etcd_room room = {
        .bytes = lq_bench_grpc_message(call),
        .size = sizeof call->out - call->out_len - LQ_BENCH_GRPC_PREFIX_BYTES,
    };
    return room;
}

static struct lq_bench_etcd_key name_of(const struct attempt *a)
{
    struct lq_bench_etcd_key key = {a->name, a->name_len};
    return key;
}

static struct lq_bench_etcd_key prefix_of(const struct attempt *a)
{
    struct lq_bench_etcd_key prefix = {a->name, a->prefix_len};
    return prefix;
}

static void write_name(const struct lq_bench_slot *slot, int64_t lease)
{
    struct attempt *a = attempt_of(slot);
    const struct lq_bench_options *o = slot->conn->load->options;
    memcpy(a->name, slot->text, o->key_bytes);
    a->name_len = o->key_bytes;
    a->prefix_len = 0;
    if (o->keys == LQ_BENCH_SHARED) {
        char digits[17];
        int n = snprintf(digits, sizeof digits, "%llx", (unsigned long long)lease);
        a->name[a->name_len++] = '/';
        a->prefix_len = a->name_len;
        memcpy(a->name + a->name_len, digits, (size_t)n);
        a->name_len += (size_t)n;
    }
}

static uint8_t *send_step(struct lq_bench_slot *slot, enum step step, const char *path, size_t len,
                          uint8_t *out)
{
    struct attempt *a = attempt_of(slot);
    struct client *client = slot->conn->reader;
    a->step = step;
    a->call.owner = slot;
    a->call.path = path;
    return lq_bench_grpc_send(&client->grpc, &a->call, len, out);
}

static uint8_t *put_acquire(struct lq_bench_slot *slot, uint8_t *out)
{
    struct attempt *a = attempt_of(slot);
    int64_t lease = ((const struct client *)slot->conn->reader)->lease;
    size_t len;
    write_name(slot, lease);
    len = lq_bench_etcd_put_create(room_of(&a->call), name_of(a), prefix_of(a), lease);
    return send_step(slot, CREATING, path_txn, len, out);
}

static uint8_t *put_release(struct lq_bench_slot *slot, uint8_t *out)
{
    struct attempt *a = attempt_of(slot);
    size_t len = lq_bench_etcd_put_delete(room_of(&a->call), name_of(a));
    return send_step(slot, DELETING, path_delete, len, out);
}

/* What follows from an answer within an acquire goes out the same way, without the load's part. */
static void moved_out(struct lq_bench_conn *conn, const uint8_t *end)
{
    conn->out_len = (size_t)(end - conn->out);
}

static void look(struct lq_bench_slot *slot)
{
    struct attempt *a = attempt_of(slot);
    struct lq_bench_conn *conn = slot->conn;
    size_t len = lq_bench_etcd_put_before(room_of(&a->call), prefix_of(a), a->revision);
    moved_out(conn, send_step(slot, LOOKING, path_range, len, conn->out + conn->out_len));
}

static void send_watching(struct lq_bench_conn *conn, size_t len)
{
    struct client *client = conn->reader;
    moved_out(conn,
              lq_bench_grpc_send(&client->grpc, &client->watching, len, conn->out + conn->out_len));
}

/* ---- Answers. */

static int strange(struct lq_bench_conn *conn)
{
    return lq_bench_conn_fail(conn, "an answer that fits no request");
}

/* The key is the oldest, or there is no queue. */
static void grant(struct lq_bench_slot *slot, uint64_t now_ns)
{
    lq_bench_load_answer(slot->conn->load, slot, LQ_BENCH_ANSWER_GRANTED,
                         (uint64_t)attempt_of(slot)->revision, now_ns);
}

static int take_created(struct lq_bench_slot *slot, const uint8_t *in, size_t len, uint64_t now_ns)
{
    struct attempt *a = attempt_of(slot);
    struct lq_bench_etcd_created created;
    if (lq_bench_etcd_get_created(in, len, &created) != 0)
        return strange(slot->conn);
    a->revision = created.revision;
    if (a->prefix_len == 0 && !created.succeeded) {
        lq_bench_load_answer(slot->conn->load, slot, LQ_BENCH_ANSWER_TIMEOUT, 0, now_ns);
        return 0;
    }
    if (!created.succeeded || (a->prefix_len > 0 && created.oldest == 0))
        return strange(slot->conn); /* a key of our own name, or not even ours is there */
    if (a->prefix_len == 0 || created.oldest == a->revision)
        grant(slot, now_ns);
    else
        look(slot);
    return 0;
}

static int take_before(struct lq_bench_slot *slot, const uint8_t *in, size_t len, uint64_t now_ns)
{
    struct client *client = slot->conn->reader;
    struct lq_bench_etcd_before before;
    if (lq_bench_etcd_get_before(in, len, &before) != 0)
        return strange(slot->conn);
    if (!before.found) {
        grant(slot, now_ns);
        return 0;
    }
    attempt_of(slot)->step = WATCHING;
    client->watching.owner = slot;
    send_watching(slot->conn,
                  lq_bench_etcd_put_watch(room_of(&client->watching), before.key, before.revision));
    return 0;
}

static int take_deleted(struct lq_bench_slot *slot, const uint8_t *in, size_t len, uint64_t now_ns)
{
    uint64_t count;
    if (lq_bench_etcd_get_deleted(in, len, &count) != 0)
        return strange(slot->conn);
    lq_bench_load_answer(slot->conn->load, slot,
                         count > 0 ? LQ_BENCH_ANSWER_RELEASED : LQ_BENCH_ANSWER_NOT_HELD, 0,
                         now_ns);
    return 0;
}

/* Notices of earlier watches, that their end was received, mean nothing any more. */
static int take_watched(struct lq_bench_slot *slot, const uint8_t *in, size_t len)
{
    struct client *client = slot->conn->reader;
    struct lq_bench_etcd_watched watched;
    if (lq_bench_etcd_get_watched(in, len, &watched) != 0)
        return strange(slot->conn);
    if (watched.created) {
        if (watched.canceled || client->has_watch || attempt_of(slot)->step != WATCHING)
            return strange(slot->conn);
        client->has_watch = true;
        client->watch = watched.watch;
    }
    if (!client->has_watch || watched.watch != client->watch)
        return 0;
    if (watched.canceled)
        return lq_bench_conn_fail(slot->conn, "a watch was cancelled");
    if (watched.deleted) {
        client->has_watch = false;
        send_watching(slot->conn,
                      lq_bench_etcd_put_unwatch(room_of(&client->watching), client->watch));
        look(slot);
    }
    return 0;
}

static int take(struct lq_bench_grpc_call *call, const uint8_t *in, size_t len, uint64_t now_ns)
{
    struct lq_bench_slot *slot = call->owner;
    if (call->is_stream)
        return take_watched(slot, in, len);
    switch (attempt_of(slot)->step) {
    case CREATING:
        return take_created(slot, in, len, now_ns);
    case LOOKING:
        return take_before(slot, in, len, now_ns);
    case DELETING:
        return take_deleted(slot, in, len, now_ns);
    case WATCHING:
        break;
    }
    return strange(slot->conn);
}

static int take_answers(struct lq_bench_conn *conn, uint64_t now_ns)
{
    struct client *client = conn->reader;
    struct lq_bench_grpc_call *call;
    const uint8_t *in;
    size_t len;
    if (lq_bench_grpc_receive(&client->grpc) != 0)
        return -1;
    while ((call = lq_bench_grpc_next(&client->grpc, &in, &len)) != NULL)
        if (take(call, in, len, now_ns) != 0)
            return -1;
    return conn->fd >= 0 ? 0 : -1;
}

/* ---- The lease: asked for with calls that block, before the load begins. */

static int wait_readable(struct lq_bench_conn *conn)
{
    struct pollfd p = {.fd = conn->fd, .events = POLLIN};
    int n = poll(&p, 1, GRANT_PATIENCE_MS);
    if (n > 0 || (n < 0 && errno == EINTR))
        return 0;
    return lq_bench_conn_fail(conn, n == 0 ? "no answer to the request of a lease" : "poll failed");
}

static int exchange(struct client *client, struct lq_bench_conn *conn, const uint8_t **ret,
                    size_t *ret_len)
{
    while (lq_bench_grpc_next(&client->grpc, ret, ret_len) == NULL) {
        if (conn->fd < 0 || lq_bench_conn_flush(conn) != 0 || wait_readable(conn) != 0 ||
            lq_bench_conn_receive(conn) != 0 || lq_bench_grpc_receive(&client->grpc) != 0)
            return -1;
    }
    return 0;
}

static int get_lease(struct client *client, struct lq_bench_conn *conn)
{
    const struct lq_bench_options *o = conn->load->options;
    struct lq_bench_grpc_call *call = &client->granting;
    const uint8_t *in;
    size_t len;
    call->path = path_grant;
    len = lq_bench_etcd_put_grant(room_of(call), o->lease_s + (uint32_t)o->warmup_s +
                                                     (uint32_t)o->duration_s + LEASE_MARGIN_S);
    moved_out(conn, lq_bench_grpc_send(&client->grpc, call, len, conn->out + conn->out_len));
    if (exchange(client, conn, &in, &len) != 0)
        return -1;
    return lq_bench_etcd_get_granted(in, len, &client->lease) == 0 ? 0 : strange(conn);
}

static int attach(struct lq_bench_conn *conn)
{
    struct client *client = calloc(1, sizeof *client);
    conn->reader = client;
    if (client == NULL)
        return lq_bench_conn_fail(conn, "out of memory");
    client->watching.path = path_watch;
    client->watching.is_stream = true;
    if (lq_bench_grpc_init(&client->grpc, conn) != 0)
        return -1;
    return get_lease(client, conn);
}

static void detach(struct lq_bench_conn *conn)
{
    struct client *client = conn->reader;
    if (client == NULL)
        return;
    lq_bench_grpc_done(&client->grpc);
    free(client);
    conn->reader = NULL;
}

const struct lq_bench_driver lq_bench_driver_etcd = {
    .name = "etcd",
    .hands_over = true,
    .init = init,
    .done = done,
    .attach = attach,
    .detach = detach,
    .request_bytes = request_bytes,
    .answer_bytes = answer_bytes,
    .put_acquire = put_acquire,
    .put_release = put_release,
    .take_answers = take_answers,
};
