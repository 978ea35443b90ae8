#include "heart_load.h"

#include "keys.h"

#include "lq_limits.h"

#include <stdlib.h>
#include <string.h>

#define LEASE_S LQ_SECONDS_MAX
#define WAIT_S  10

static struct heart_clients *clients_of(struct heart_load *load, const struct heart_node *node)
{
    return &load->clients[node->id - 1];
}

/* ---- Workers. */

static void choose_key(struct heart_load *load, struct heart_worker *worker)
{
    worker->is_second = false;
    if (load->n_to_fill > 0) {
        worker->key = --load->n_to_fill;
        worker->is_second = true;
    } else {
        do {
            worker->key = lq_bench_random_below(&load->random, load->n_keys);
        } while (load->keys[worker->key].is_busy);
    }
    load->keys[worker->key].is_busy = true;
}

/* What the worker asks for next: the other thing than what it has. */
static struct lq_frame next_request(const struct heart_load *load,
                                    const struct heart_worker *worker, uint8_t key[HEART_KEY_LEN])
{
    struct lq_frame frame = {.key_len = HEART_KEY_LEN, .key = key};
    lq_bench_key_write(key, HEART_KEY_LEN, LQ_BENCH_KEY_LOAD, worker->key);
    if (load->keys[worker->key].token == 0) {
        frame.op = LQ_OP_ACQUIRE;
        frame.wait_s = WAIT_S;
        frame.lease_s = LEASE_S;
        frame.owner = worker->number + 1;
    } else {
        frame.op = LQ_OP_RELEASE;
        frame.token = load->keys[worker->key].token;
    }
    return frame;
}

/* The answer came: `token` of what was granted, 0 when released. */
static void answered(struct heart_load *load, struct heart_clients *clients,
                     struct heart_worker *worker, uint64_t token)
{
    struct heart_key *key = &load->keys[worker->key];
    heart_must((key->token == 0) == (token != 0), "an answer of the wrong kind");
    key->token = token;
    if (worker->is_second) {
        key->is_busy = false;
        load->pairs++;
        choose_key(load, worker);
    } else {
        worker->is_second = true;
    }
    lq_list_append(&clients->ready, &worker->in_ready);
}

/* ---- Without sessions. */

static void take_answers(struct heart_load *load, struct heart_clients *clients,
                         struct lq_backend *backend)
{
    struct lq_answer answer;
    while (backend->ops->take(backend, &answer)) {
        if (answer.kind != LQ_ANSWER_OPEN) {
            heart_must(answer.kind == LQ_ANSWER_GRANTED || answer.kind == LQ_ANSWER_RELEASED,
                       "a request failed");
            answered(load, clients, &load->workers[answer.request->owner - 1], answer.token);
        }
    }
}

static void submit(struct heart_load *load, struct heart_worker *worker, struct lq_backend *backend)
{
    struct lq_request *request = worker->request;
    struct lq_frame frame = next_request(load, worker, request->key);
    request->op = frame.op;
    request->wait_s = frame.wait_s;
    request->lease_s = frame.lease_s;
    request->token = frame.token;
    backend->ops->submit(backend, request);
}

static void turn_bare(struct heart_load *load, struct heart_clients *clients,
                      struct heart_node *node)
{
    struct lq_backend *backend = lq_replica_backend(node->replica);
    struct lq_list *member;
    backend->ops->begin(backend, node->heart->now_ms);
    take_answers(load, clients, backend);
    while ((member = lq_list_take(&clients->ready)) != NULL) {
        submit(load, LQ_CONTAINER(member, struct heart_worker, in_ready), backend);
        take_answers(load, clients, backend); /* as the hub does after each */
    }
    backend->ops->end(backend);
    take_answers(load, clients, backend);
}

/* ---- Through a session. */

static void say(struct heart_load *load, struct heart_clients *clients)
{
    struct lq_list *member;
    size_t at = 0;
    while ((member = lq_list_take(&clients->ready)) != NULL) {
        struct heart_worker *worker = LQ_CONTAINER(member, struct heart_worker, in_ready);
        uint8_t key[HEART_KEY_LEN], bytes[LQ_FRAME_MAX];
        struct lq_frame frame = next_request(load, worker, key);
        lq_buffer_add(&clients->output, bytes, lq_request_encode(&frame, bytes, sizeof bytes));
        if (frame.op == LQ_OP_RELEASE) {
            lq_list_append(&clients->releases, &worker->in_releases);
        }
    }
    while (at < clients->output.len && lq_session_wants_input(clients->session)) {
        size_t left = clients->output.len - at;
        size_t len = left < LQ_READ_BYTES ? left : LQ_READ_BYTES;
        lq_session_input(clients->session, clients->output.bytes + at, len);
        at += len;
    }
    heart_must(at == clients->output.len, "a session takes no input");
    clients->output.len = 0;
}

static void hear_frame(struct heart_load *load, struct heart_clients *clients,
                       const struct lq_frame *frame)
{
    struct lq_list *member;
    if (frame->op == LQ_OP_ACQUIRE) {
        answered(load, clients, &load->workers[frame->owner - 1], frame->token);
        return;
    }
    heart_must(frame->op == LQ_OP_RELEASE, "a request failed");
    member = lq_list_take(&clients->releases);
    heart_must(member != NULL, "an answer that nobody waits for");
    answered(load, clients, LQ_CONTAINER(member, struct heart_worker, in_releases), 0);
}

static void hear(struct heart_load *load, struct heart_clients *clients)
{
    struct lq_buffer *input = &clients->input;
    struct lq_view view;
    struct lq_frame frame;
    size_t at = 0, used;
    while (lq_session_views(clients->session, &view, 1) > 0) {
        lq_buffer_add(input, view.bytes, view.len);
        lq_session_wrote(clients->session, view.len);
    }
    while (lq_answer_decode(input->bytes + at, input->len - at, &frame, &used) ==
           LQ_DECODED_FRAME) {
        hear_frame(load, clients, &frame);
        at += used;
    }
    heart_must(at == input->len, "an answer is cut off");
    input->len = 0;
}

static void turn_session(struct heart_load *load, struct heart_clients *clients,
                         struct heart_node *node)
{
    if (clients->session != NULL) {
        say(load, clients);
    }
    lq_hub_turn(node->hub, node->heart->now_ms);
    while (lq_hub_take_touched(node->hub) != NULL) {
        hear(load, clients);
    }
    node->has_more = !lq_list_is_empty(&clients->ready);
}

static void on_turn(void *context, struct heart_node *node)
{
    struct heart_load *load = context;
    struct heart_clients *clients = clients_of(load, node);
    if (node->heart->now_ms >= load->late_from_ms) {
        lq_list_splice(&clients->ready, &clients->late);
    }
    (node->hub == NULL ? turn_bare : turn_session)(load, clients, node);
}

/* ---- Beginning and end. */

/* Half of the workers of a node begin a sweep late, so that about as many are acquiring as
 * releasing at any time. Otherwise all would hold a lock, then none, in turns. */
static void start_worker(struct heart_load *load, struct heart_clients *clients,
                         struct heart_worker *worker)
{
    bool is_late = worker->number / HEART_NODES % 2 == 1;
    lq_list_init(&worker->in_releases);
    lq_list_init(&worker->in_ready);
    lq_list_append(is_late ? &clients->late : &clients->ready, &worker->in_ready);
    choose_key(load, worker);
}

static void *allocate(size_t n, size_t bytes)
{
    void *memory = calloc(n, bytes);
    heart_must(memory != NULL, "out of memory");
    return memory;
}

static struct lq_request *new_request(uint32_t number)
{
    struct lq_request *request = allocate(1, sizeof *request + HEART_KEY_LEN);
    request->key_len = HEART_KEY_LEN;
    request->owner = number + 1;
    return request;
}

void heart_load_start(struct heart_load *load, struct heart *heart,
                      const struct heart_load_options *options)
{
    *load = (struct heart_load){.n_workers = options->n_workers,
                                .n_keys = options->n_keys,
                                .n_to_fill = options->held ? options->n_keys : 0,
                                .random = options->seed};
    load->workers = allocate(load->n_workers, sizeof *load->workers);
    load->keys = allocate(load->n_keys, sizeof *load->keys);
    for (int i = 0; i < HEART_NODES; i++) {
        struct heart_clients *clients = &load->clients[i];
        struct heart_node *node = &heart->nodes[i];
        lq_list_init(&clients->ready);
        lq_list_init(&clients->late);
        lq_list_init(&clients->releases);
        if (node->hub != NULL && (options->from_all || node == heart_leader(heart))) {
            clients->session = lq_session_new(node->hub, NULL);
        }
    }
    for (uint32_t i = 0; i < load->n_workers; i++) {
        struct heart_worker *worker = &load->workers[i];
        struct heart_node *node =
            options->from_all ? &heart->nodes[i % HEART_NODES] : heart_leader(heart);
        worker->number = i;
        worker->request = options->with_sessions ? NULL : new_request(i);
        start_worker(load, clients_of(load, node), worker);
    }
    load->late_from_ms = heart->now_ms + 2;
    heart->clients = load;
    heart->clients_turn = on_turn;
}

void heart_load_end(struct heart_load *load)
{
    for (uint32_t i = 0; i < load->n_workers; i++) {
        free(load->workers[i].request);
    }
    for (int i = 0; i < HEART_NODES; i++) {
        lq_buffer_done(&load->clients[i].input);
        lq_buffer_done(&load->clients[i].output);
    }
    free(load->workers);
    free(load->keys);
}
