/* A client's connection: two streams of bytes, each with its latency, and at the server's end what
 * the kernel and the loop do there. The session is asked and told exactly as by a real shell:
 * written means taken by the kernel, whether the client ever reads it or not.
 *
 * It ends for each side by itself: for the client when it closes, vanishes, or was told; for the
 * server when its session is closed, or the process died. Then, and with nothing on its way any
 * more, it is freed. */
#include "sim_conn.h"

#include "lq_buffer.h"
#include "lq_limits.h"
#include "lq_mem.h"
#include "sim_world.h"

#include <string.h>

enum way { TO_SERVER, TO_CLIENT, N_WAYS };

enum what { BYTES, END, RESET };

/* Something on its way. */
struct chunk {
    struct lq_list in_conn;
    struct sim_conn *conn;
    enum way way;
    enum what what;
    size_t len;
    uint8_t bytes[];
};

struct sim_conn {
    struct sim *sim;
    struct sim_node *node;
    struct lq_list in_world, in_node, in_ready;
    struct lq_list chunks;
    uint64_t latency_us, last_us[N_WAYS];
    /* the client's end */
    const struct sim_conn_events *events;
    void *client;
    bool is_client_done;
    bool is_reading;
    uint64_t window;       /* while it does not read: what the kernel still takes */
    struct lq_buffer held; /* taken, and not yet read */
    bool holds_end;
    bool is_resuming; /* it reads again as soon as it has taken what is held */
    /* the server's end */
    struct lq_session *session;
    bool is_server_done;
    struct lq_buffer in; /* arrived, from `in_at` on not yet read */
    size_t in_at;
    bool has_end, was_told_end, has_reset;
    bool is_blocked; /* the kernel took only a part, and will take more in a moment */
};

static void free_conn(struct sim_conn *conn)
{
    lq_list_remove(&conn->in_world);
    lq_list_remove(&conn->in_node);
    lq_list_remove(&conn->in_ready);
    lq_buffer_done(&conn->held);
    lq_buffer_done(&conn->in);
    lq_free(conn);
}

static void free_if_over(struct sim_conn *conn)
{
    if (conn->is_client_done && conn->is_server_done && lq_list_is_empty(&conn->chunks)) {
        free_conn(conn);
    }
}

void sim_conn_free_all(struct sim *sim)
{
    struct lq_list *link;
    while ((link = lq_list_take(&sim->conns)) != NULL) {
        struct sim_conn *conn = LQ_CONTAINER(link, struct sim_conn, in_world);
        while ((link = lq_list_take(&conn->chunks)) != NULL) {
            lq_free(LQ_CONTAINER(link, struct chunk, in_conn));
        }
        free_conn(conn);
    }
}

/* ---- The way between. */

static void on_chunk(struct sim *sim, void *argument);

static void send_after(struct sim_conn *conn, enum way way, enum what what, uint64_t delay_us)
{
    struct chunk *chunk = lq_malloc(sizeof *chunk);
    *chunk = (struct chunk){.conn = conn, .way = way, .what = what};
    lq_list_append(&conn->chunks, &chunk->in_conn);
    (void)sim_at(conn->sim, conn->sim->now_us + delay_us, on_chunk, chunk);
}

static uint64_t draw_arrival(struct sim_conn *conn, enum way way)
{
    uint64_t us = conn->sim->now_us + conn->latency_us +
                  lq_rand_below(&conn->sim->rand, conn->latency_us / 2 + 1);
    if (us < conn->last_us[way]) {
        us = conn->last_us[way];
    }
    conn->last_us[way] = us;
    return us;
}

static void send(struct sim_conn *conn, enum way way, enum what what, const void *bytes, size_t len)
{
    struct chunk *chunk = lq_malloc(sizeof *chunk + len);
    *chunk = (struct chunk){.conn = conn, .way = way, .what = what, .len = len};
    if (len > 0) {
        memcpy(chunk->bytes, bytes, len);
    }
    lq_list_append(&conn->chunks, &chunk->in_conn);
    (void)sim_at(conn->sim, draw_arrival(conn, way), on_chunk, chunk);
}

static void make_ready(struct sim_conn *conn)
{
    if (!conn->is_server_done && conn->node->is_up) {
        lq_list_remove(&conn->in_ready);
        lq_list_append(&conn->node->ready, &conn->in_ready);
        sim_node_wake(conn->node);
    }
}

static void arrive_at_server(struct sim_conn *conn, const struct chunk *chunk)
{
    if (conn->is_server_done) {
        if (!conn->is_client_done && (conn->node->is_up || !conn->node->is_silent)) {
            send(conn, TO_CLIENT, RESET, NULL, 0); /* of a life before, or closed */
        }
        return;
    }
    lq_buffer_add(&conn->in, chunk->bytes, chunk->len);
    conn->has_end = conn->has_end || chunk->what == END;
    conn->has_reset = conn->has_reset || chunk->what == RESET;
    make_ready(conn);
}

static void arrive_at_client(struct sim_conn *conn, const struct chunk *chunk)
{
    if (conn->is_client_done) {
        return;
    }
    if (chunk->what == RESET) {
        conn->events->on_reset(conn->client);
        conn->is_client_done = true;
    } else if (!conn->is_reading) {
        lq_buffer_add(&conn->held, chunk->bytes, chunk->len);
        conn->holds_end = conn->holds_end || chunk->what == END;
    } else if (chunk->what == END) {
        conn->events->on_eof(conn->client);
        conn->is_client_done = true;
    } else {
        conn->events->on_bytes(conn->client, chunk->bytes, chunk->len);
    }
}

static void on_chunk(struct sim *sim, void *argument)
{
    struct chunk *chunk = argument;
    struct sim_conn *conn = chunk->conn;
    sim_note_hash(sim, chunk->len << 8 ^ (uint64_t)chunk->what << 1 ^ chunk->way);
    if (chunk->way == TO_SERVER) {
        arrive_at_server(conn, chunk);
    } else {
        arrive_at_client(conn, chunk);
    }
    lq_list_remove(&chunk->in_conn);
    lq_free(chunk);
    free_if_over(conn);
}

/* ---- The client's end. */

struct sim_conn *sim_connect(struct sim *sim, uint32_t node, const struct sim_conn_events *events,
                             void *client)
{
    struct sim_conn *conn;
    if (!sim->nodes[node].is_up) {
        return NULL;
    }
    conn = lq_calloc(1, sizeof *conn);
    conn->sim = sim;
    conn->node = &sim->nodes[node];
    conn->events = events;
    conn->client = client;
    conn->is_reading = true;
    conn->latency_us = sim_between(sim, 50, 1000);
    lq_list_init(&conn->in_ready);
    lq_list_init(&conn->chunks);
    lq_buffer_init(&conn->held);
    lq_buffer_init(&conn->in);
    lq_list_append(&sim->conns, &conn->in_world);
    lq_list_append(&conn->node->conns, &conn->in_node);
    send(conn, TO_SERVER, BYTES, NULL, 0); /* that it is there */
    return conn;
}

void sim_conn_send(struct sim_conn *conn, const void *bytes, size_t len)
{
    send(conn, TO_SERVER, BYTES, bytes, len);
}

void sim_conn_send_eof(struct sim_conn *conn)
{
    send(conn, TO_SERVER, END, NULL, 0);
}

/* What was held comes before whatever is on its way. */
static void on_resume(struct sim *sim, void *argument)
{
    struct chunk *chunk = argument;
    struct sim_conn *conn = chunk->conn;
    struct lq_buffer held = conn->held;
    (void)sim;
    lq_list_remove(&chunk->in_conn);
    lq_free(chunk);
    if (conn->is_resuming && !conn->is_client_done) {
        conn->is_resuming = false;
        conn->is_reading = true;
        lq_buffer_init(&conn->held);
        if (held.len > 0) {
            conn->events->on_bytes(conn->client, held.bytes, held.len);
        }
        if (conn->holds_end && conn->is_reading && !conn->is_client_done) {
            conn->holds_end = false;
            conn->is_client_done = true;
            conn->events->on_eof(conn->client);
        }
        lq_buffer_done(&held);
        make_ready(conn);
    }
    free_if_over(conn);
}

void sim_conn_set_window(struct sim_conn *conn, uint64_t bytes)
{
    struct chunk *chunk;
    conn->is_reading = conn->is_resuming = false;
    conn->window = bytes;
    if (bytes != UINT64_MAX) {
        return;
    }
    if (conn->held.len == 0 && !conn->holds_end) {
        conn->is_reading = true;
        make_ready(conn);
        return;
    }
    conn->is_resuming = true;
    chunk = lq_malloc(sizeof *chunk);
    *chunk = (struct chunk){.conn = conn};
    lq_list_append(&conn->chunks, &chunk->in_conn);
    (void)sim_at(conn->sim, conn->sim->now_us, on_resume, chunk);
}

void sim_conn_close(struct sim_conn *conn)
{
    conn->is_client_done = true;
    send(conn, TO_SERVER, RESET, NULL, 0);
}

void sim_conn_vanish(struct sim_conn *conn)
{
    conn->is_client_done = true;
    conn->is_reading = false;
    conn->window = 0;
    send_after(conn, TO_SERVER, RESET, LQ_VANISHED_MS * SIM_MS);
}

/* ---- The server's end. */

static void close_server(struct sim_conn *conn, enum what what)
{
    lq_session_closed(conn->session);
    conn->session = NULL;
    conn->is_server_done = true;
    lq_list_remove(&conn->in_ready);
    lq_list_remove(&conn->in_node);
    send(conn, TO_CLIENT, what, NULL, 0);
}

/* One read, as large as the loop's buffer or smaller. */
static void read_once(struct sim_conn *conn)
{
    size_t len = conn->in.len - conn->in_at;
    size_t most = sim_percent(conn->sim, 5) ? (size_t)sim_between(conn->sim, 1, 40) : LQ_READ_BYTES;
    len = len < most ? len : most;
    lq_session_input(conn->session, conn->in.bytes + conn->in_at, len);
    conn->in_at += len;
    if (conn->in_at == conn->in.len) {
        conn->in.len = conn->in_at = 0;
    }
}

static void read_conn(struct sim_conn *conn)
{
    if (conn->session == NULL) {
        conn->session = lq_session_new(conn->node->hub, conn);
    }
    if (lq_session_wants_input(conn->session) && conn->in.len > conn->in_at) {
        read_once(conn);
    }
    while (conn->has_reset && lq_session_wants_input(conn->session) && conn->in.len > conn->in_at) {
        read_once(conn);
    }
    if (conn->has_reset) {
        close_server(conn, RESET);
        return;
    }
    if (conn->has_end && !conn->was_told_end && conn->in.len == conn->in_at &&
        lq_session_wants_input(conn->session)) {
        conn->was_told_end = true;
        lq_session_eof(conn->session);
    }
}

void sim_conn_read_all(struct sim_node *node)
{
    struct lq_list ready, *link;
    lq_list_init(&ready);
    lq_list_splice(&ready, &node->ready);
    while ((link = lq_list_take(&ready)) != NULL) {
        struct sim_conn *conn = LQ_CONTAINER(link, struct sim_conn, in_ready);
        read_conn(conn);
        if (!conn->is_server_done) {
            lq_list_append(&node->served, &conn->in_ready);
        }
    }
}

static void on_writable(struct sim *sim, void *argument)
{
    struct chunk *chunk = argument;
    struct sim_conn *conn = chunk->conn;
    (void)sim;
    lq_list_remove(&chunk->in_conn);
    lq_free(chunk);
    conn->is_blocked = false;
    make_ready(conn);
    free_if_over(conn);
}

/* Now and then the kernel has room for a part only. */
static size_t room_of(struct sim_conn *conn)
{
    struct chunk *chunk;
    if (conn->is_blocked) {
        return 0;
    }
    if (!conn->is_reading) {
        return conn->window < SIZE_MAX ? (size_t)conn->window : SIZE_MAX;
    }
    if (!sim_percent(conn->sim, 2)) {
        return SIZE_MAX;
    }
    conn->is_blocked = true;
    chunk = lq_malloc(sizeof *chunk);
    *chunk = (struct chunk){.conn = conn};
    lq_list_append(&conn->chunks, &chunk->in_conn);
    (void)sim_at(conn->sim, conn->sim->now_us + sim_between(conn->sim, 1, 20) * SIM_MS, on_writable,
                 chunk);
    return (size_t)sim_between(conn->sim, 0, 30);
}

/* Writes what the kernel takes; tells whether anything is left. */
static bool write_conn(struct sim_conn *conn)
{
    struct lq_view view;
    size_t room, len;
    if (lq_session_views(conn->session, &view, 1) == 0) {
        return false;
    }
    room = room_of(conn);
    while (room > 0 && lq_session_views(conn->session, &view, 1) > 0) {
        len = view.len < room ? view.len : room;
        send(conn, TO_CLIENT, BYTES, view.bytes, len);
        lq_session_wrote(conn->session, len);
        room -= len;
        if (!conn->is_reading) {
            conn->window -= len;
        }
    }
    return lq_session_views(conn->session, &view, 1) > 0;
}

static void serve(struct sim_conn *conn)
{
    enum lq_session_wish wish = lq_session_wish(conn->session);
    bool has_more;
    if (wish == LQ_WISH_ABORT) {
        close_server(conn, RESET);
        return;
    }
    has_more = write_conn(conn);
    if (wish == LQ_WISH_CLOSE && !has_more) {
        close_server(conn, END);
        return;
    }
    if (conn->has_reset ||
        (lq_session_wants_input(conn->session) &&
         (conn->in.len > conn->in_at || (conn->has_end && !conn->was_told_end)))) {
        make_ready(conn);
    }
}

void sim_conn_serve_all(struct sim_node *node)
{
    struct lq_session *session;
    struct lq_list *link;
    while ((session = lq_hub_take_touched(node->hub)) != NULL) {
        serve(lq_session_link(session));
    }
    while ((link = lq_list_take(&node->served)) != NULL) {
        serve(LQ_CONTAINER(link, struct sim_conn, in_ready));
    }
}

void sim_conn_flush_all(struct sim_node *node)
{
    for (struct lq_list *at = node->conns.next; at != &node->conns; at = at->next) {
        struct sim_conn *conn = LQ_CONTAINER(at, struct sim_conn, in_node);
        struct lq_view view;
        while (conn->session != NULL && conn->is_blocked && conn->is_reading &&
               lq_session_views(conn->session, &view, 1) > 0) {
            send(conn, TO_CLIENT, BYTES, view.bytes, view.len);
            lq_session_wrote(conn->session, view.len);
        }
    }
}

void sim_conn_node_died(struct sim_node *node, enum sim_death death)
{
    struct lq_list *link;
    while ((link = lq_list_take(&node->conns)) != NULL) {
        struct sim_conn *conn = LQ_CONTAINER(link, struct sim_conn, in_node);
        conn->session = NULL;
        conn->is_server_done = true;
        lq_list_remove(&conn->in_ready);
        if (conn->is_client_done) {
            free_if_over(conn);
        } else if (death == SIM_DEATH_PROCESS) {
            send(conn, TO_CLIENT, RESET, NULL, 0);
        } else {
            send_after(conn, TO_CLIENT, RESET, LQ_VANISHED_MS * SIM_MS);
        }
    }
}
