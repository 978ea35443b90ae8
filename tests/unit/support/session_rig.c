#include "session_rig.h"

#include "lq_check.h"
#include "lq_limits.h"

#include <stdlib.h>
#include <string.h>

/* Turns in one instant after which a hub that always asks for another is taken to be stuck. */
#define TURNS_MAX 100000

/* Views asked for at a time. */
#define N_VIEWS 16

/* Not lq_malloc: lq_mem_allocations then counts those of the server alone. */
static void *resized(void *memory, size_t count, size_t size)
{
    void *moved = reallocarray(memory, count, size);
    LQ_CHECK(moved != NULL);
    return moved;
}

struct lq_rig_options lq_rig_defaults(void)
{
    return (struct lq_rig_options){
        .hub = {.requests_max = LQ_REQUESTS_DEFAULT,
                .unread_max = LQ_UNREAD_BYTES_DEFAULT,
                .unread_total_max = LQ_UNREAD_TOTAL_DEFAULT,
                .unread_timeout_ms = LQ_UNREAD_TIMEOUT_S_DEFAULT * UINT64_C(1000),
                .secret = "owners hashed so"},
        .local = {.caps = {.keys = LQ_KEYS_DEFAULT,
                           .waiters_per_key = LQ_WAITERS_PER_KEY_DEFAULT,
                           .waiters = LQ_WAITERS_DEFAULT,
                           .state_bytes = LQ_STATE_BYTES_DEFAULT},
                  .sweep_ms = LQ_SWEEP_MS_DEFAULT,
                  .first_token = 1,
                  .secret = "keys hashed thus"}};
}

struct lq_rig *lq_rig_new(const struct lq_rig_options *options)
{
    struct lq_rig *rig = resized(NULL, 1, sizeof *rig);
    struct lq_rig_options defaults = lq_rig_defaults();
    if (options == NULL) {
        options = &defaults;
    }
    *rig = (struct lq_rig){.now_ms = LQ_RIG_START_MS};
    rig->backend = lq_local_new(&options->local, rig->now_ms);
    rig->hub = lq_hub_new(&options->hub, rig->backend);
    return rig;
}

void lq_rig_free(struct lq_rig *rig)
{
    lq_hub_free(rig->hub);
    lq_local_free(rig->backend);
    for (size_t i = 0; i < rig->n_clients; i++) {
        free(rig->clients[i]->requests.at);
        free(rig->clients[i]->answers.at);
        free(rig->clients[i]->text.at);
        free(rig->clients[i]);
    }
    free(rig->clients);
    free(rig);
}

struct lq_rig_client *lq_rig_connect(struct lq_rig *rig)
{
    struct lq_rig_client *client = resized(NULL, 1, sizeof *client);
    *client = (struct lq_rig_client){.rig = rig, .window = LQ_RIG_OPEN_WINDOW};
    client->session = lq_session_new(rig->hub, client);
    rig->clients = resized(rig->clients, rig->n_clients + 1, sizeof(struct lq_rig_client *));
    rig->clients[rig->n_clients++] = client;
    return client;
}

void lq_rig_append(struct lq_rig_bytes *bytes, const void *from, size_t len)
{
    if (bytes->cap - bytes->len < len) {
        bytes->cap = 2 * (bytes->len + len);
        bytes->at = resized(bytes->at, bytes->cap, 1);
    }
    if (len > 0) {
        memcpy(bytes->at + bytes->len, from, len);
    }
    bytes->len += len;
}

void lq_rig_send(struct lq_rig_client *client, const void *bytes, size_t len)
{
    lq_rig_append(&client->requests, bytes, len);
}

void lq_rig_send_eof(struct lq_rig_client *client)
{
    client->has_eof = true;
}

static void end(struct lq_rig_client *client, enum lq_rig_end how)
{
    lq_session_closed(client->session);
    client->session = NULL;
    client->end = how;
}

/* ---- Output. */

/* Copies what the session made since the last time. */
static void copy_answers(struct lq_rig_client *client)
{
    struct lq_view views[N_VIEWS];
    size_t n = N_VIEWS, known = client->answers.len - client->delivered;
    struct lq_view *all = views, *more = NULL;
    while (lq_session_views(client->session, all, n) == n) {
        n *= 2;
        more = resized(more, n, sizeof *more);
        all = more;
    }
    n = lq_session_views(client->session, all, n);
    for (size_t i = 0; i < n; i++) {
        size_t skip = known < all[i].len ? known : all[i].len;
        lq_rig_append(&client->answers, all[i].bytes + skip, all[i].len - skip);
        known -= skip;
    }
    LQ_CHECK(known == 0);
    free(more);
}

/* Writes what the window has room for, and obeys the session's wish. */
static void serve(struct lq_rig_client *client)
{
    size_t len;
    if (client->session == NULL) {
        return;
    }
    copy_answers(client);
    len = client->answers.len - client->delivered;
    len = client->window < len ? (size_t)client->window : len;
    if (client->window != LQ_RIG_OPEN_WINDOW) {
        client->window -= len;
    }
    if (len > 0) {
        lq_session_wrote(client->session, len);
    }
    client->delivered += len;
    switch (lq_session_wish(client->session)) {
    case LQ_WISH_SERVE:
        break;
    case LQ_WISH_CLOSE:
        if (client->delivered == client->answers.len) {
            end(client, LQ_RIG_CLOSED);
        }
        break;
    case LQ_WISH_ABORT:
        end(client, LQ_RIG_ABORTED);
        break;
    }
}

void lq_rig_set_window(struct lq_rig_client *client, uint64_t len)
{
    client->window = len;
    serve(client);
}

void lq_rig_break(struct lq_rig_client *client)
{
    if (client->session != NULL) {
        copy_answers(client);
        end(client, LQ_RIG_BROKEN);
    }
}

/* ---- Input. */

/* Whether there is something that the session wants to read. An end of input is noticed by reading,
 * too. */
static bool is_readable(const struct lq_rig_client *client)
{
    return client->session != NULL && (client->arrived < client->requests.len || client->has_eof) &&
           lq_session_wants_input(client->session);
}

/* One read. The bytes come in memory of exactly their size, so that a sanitizer sees a read beyond.
 */
static void read_once(struct lq_rig_client *client)
{
    size_t len = client->requests.len - client->arrived;
    uint8_t *bytes;
    if (len == 0) {
        client->has_eof = false;
        client->had_eof = true;
        lq_session_eof(client->session);
        return;
    }
    len = len < LQ_READ_BYTES ? len : LQ_READ_BYTES;
    bytes = resized(NULL, len, 1);
    memcpy(bytes, client->requests.at + client->arrived, len);
    client->arrived += len;
    lq_session_input(client->session, bytes, len);
    free(bytes);
}

static void read_all(struct lq_rig *rig)
{
    for (size_t i = 0; i < rig->n_clients; i++) {
        if (lq_hub_taken_in(rig->hub) < LQ_TURN_WORK && is_readable(rig->clients[i])) {
            read_once(rig->clients[i]);
        }
    }
}

/* ---- Turns. */

static void serve_touched(struct lq_rig *rig)
{
    struct lq_session *session;
    while ((session = lq_hub_take_touched(rig->hub)) != NULL) {
        serve(lq_session_link(session));
    }
}

void lq_rig_turn(struct lq_rig *rig)
{
    read_all(rig);
    lq_hub_turn(rig->hub, rig->now_ms);
    serve_touched(rig);
}

void lq_rig_stop(struct lq_rig *rig)
{
    lq_hub_stop(rig->hub, rig->now_ms);
    serve_touched(rig);
}

bool lq_rig_is_busy(const struct lq_rig *rig)
{
    for (size_t i = 0; i < rig->n_clients; i++) {
        if (is_readable(rig->clients[i])) {
            return true;
        }
    }
    return lq_hub_deadline(rig->hub) <= rig->now_ms;
}

void lq_rig_go(struct lq_rig *rig)
{
    int turns = 0;
    do {
        lq_rig_turn(rig);
        LQ_CHECK(++turns < TURNS_MAX);
    } while (lq_rig_is_busy(rig));
}

void lq_rig_advance(struct lq_rig *rig, uint64_t ms)
{
    uint64_t until_ms = rig->now_ms + ms, deadline_ms;
    while ((deadline_ms = lq_hub_deadline(rig->hub)) <= until_ms) {
        rig->now_ms = deadline_ms > rig->now_ms ? deadline_ms : rig->now_ms;
        lq_rig_go(rig);
    }
    rig->now_ms = until_ms;
    lq_rig_go(rig);
}

/* ---- Looking at the table. */

struct lq_table_counts lq_rig_counts(const struct lq_rig *rig)
{
    return lq_table_counts(lq_local_table(rig->backend));
}

uint64_t lq_rig_holder(const struct lq_rig *rig, const void *key, size_t key_len)
{
    struct lq_command expire;
    return lq_table_key_due(lq_local_table(rig->backend), key, key_len, UINT64_MAX, &expire)
               ? expire.token
               : 0;
}
