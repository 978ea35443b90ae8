/* Sessions under whatever a few clients may do, drawn at random: all requests, in pieces; equal
 * owners; guessed tokens; bad bytes; ends and breaks in every state; clients that do not read;
 * small caps; time in all steps. support/session_watch.h says what must hold.
 *
 * LQ_OPS: how many actions. LQ_SEED: the seed. */
#include "lq_frame.h"
#include "lq_limits.h"
#include "lq_test.h"
#include "support/session_watch.h"

#include <stdio.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OPS_DEFAULT 30000
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OPS_DEFAULT 30000
#endif
#endif
#ifndef OPS_DEFAULT
#define OPS_DEFAULT 300000
#endif

/* Actions on one server before it is given up for a new one. */
#define EPISODE 400

static const char ops[] = "ATBRKNPE";
static const char *const keys[] = {
    "k", "j",
    ("a rather longer key, for the second size of request, which begins beyond "
     "64 bytes")};
#define N_KEYS (sizeof keys / sizeof *keys)

struct run {
    struct lq_rand rand;
    struct lq_rig *rig;
    struct lq_watch *watch;
    size_t n_clients; /* at a time */
    uint64_t n_keys;
    uint64_t last_owner;
    uint64_t seen[256];
    uint64_t taken_back;
    uint64_t aborted;
};

static uint64_t below(struct run *run, uint64_t n)
{
    return lq_rand_below(&run->rand, n);
}

static bool chance(struct run *run, uint64_t percent)
{
    return below(run, 100) < percent;
}

static uint64_t pick(struct run *run, const uint64_t *values, size_t n)
{
    return values[below(run, n)];
}

#define PICK(run, ...)                                                                             \
    pick(run, (const uint64_t[]){__VA_ARGS__},                                                     \
         sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* ---- Servers. */

static struct lq_rig_options draw_options(struct run *run)
{
    struct lq_rig_options options = lq_rig_defaults();
    if (chance(run, 40)) {
        return options;
    }
    options.hub.requests_max = PICK(run, 1, 2, 3, 8, 65536, 65536);
    options.hub.unread_max = PICK(run, 40, 100, 20000, 1000000, 1000000);
    options.hub.unread_total_max = PICK(run, 60, 300, 1000000, 1000000);
    options.hub.unread_timeout_ms = PICK(run, 1, 1000, 30000);
    options.local.sweep_ms = PICK(run, 30, 300, 5000, 5000);
    options.local.quarantine_s = PICK(run, 0, 0, 0, 1, 5);
    options.local.caps.keys = PICK(run, 1, 2, 1000, 1000);
    options.local.caps.waiters_per_key = PICK(run, 1, 3, 1000, 1000);
    options.local.caps.waiters = PICK(run, 0, 4, 1000, 1000);
    return options;
}

static void begin(struct run *run)
{
    struct lq_rig_options options = draw_options(run);
    run->n_clients = 1 + below(run, 6);
    run->n_keys = 1 + below(run, N_KEYS);
    run->rig = lq_rig_new(&options);
    run->watch = lq_watch_new(run->rig, options.hub.requests_max);
}

static void check(const struct run *run, const char *fault)
{
    if (fault != NULL) {
        ck_abort_msg("%s, at %llu ms", fault, (unsigned long long)run->rig->now_ms);
    }
}

static void end(struct run *run)
{
    if (chance(run, 20)) {
        check(run, lq_watch_stop(run->watch));
    }
    if (chance(run, 80)) {
        check(run, lq_watch_finish(run->watch));
    }
    for (const char *op = ops; *op != '\0'; op++) {
        run->seen[(uint8_t)*op] += lq_watch_seen(run->watch, (uint8_t)*op);
    }
    for (size_t i = 0; i < run->rig->n_clients; i++) {
        run->aborted += run->rig->clients[i]->end == LQ_RIG_ABORTED;
    }
    run->taken_back += lq_hub_counters(run->rig->hub).taken_back;
    lq_watch_free(run->watch);
    lq_rig_free(run->rig); /* in whatever state */
}

/* ---- What clients do. */

/* One that is connected, or a new one. */
static struct lq_rig_client *draw_client(struct run *run)
{
    size_t n = run->rig->n_clients, first = n < run->n_clients ? 0 : n - run->n_clients;
    struct lq_rig_client *client = NULL;
    if (n >= run->n_clients) {
        client = run->rig->clients[first + below(run, run->n_clients)];
    }
    if (client == NULL || client->session == NULL) {
        client = lq_rig_connect(run->rig);
    }
    return client;
}

static uint64_t draw_token(struct run *run, const char *key)
{
    uint64_t token = lq_rig_holder(run->rig, key, strlen(key));
    return chance(run, 75) ? token : lq_rig_counts(run->rig).last_token + 1 - below(run, 4);
}

static struct lq_frame draw_request(struct run *run)
{
    const char *key = keys[below(run, run->n_keys)];
    struct lq_frame frame = {.op = (uint8_t) "AAAARRKCP"[below(run, 9)],
                             .wait_s = (uint8_t)PICK(run, 0, 1, 2, 3, 255),
                             .lease_s = (uint8_t)PICK(run, 1, 1, 2, 3, 255),
                             .owner = chance(run, 20) ? below(run, 4) : ++run->last_owner,
                             .token = draw_token(run, key),
                             .key = (const uint8_t *)key,
                             .key_len = (uint16_t)strlen(key)};
    if (frame.op == LQ_OP_CANCEL && chance(run, 90)) {
        frame.owner -= frame.owner > 4 ? below(run, 4) : 0;
    }
    frame.key_len = frame.op == LQ_OP_PING ? 0 : frame.key_len;
    return frame;
}

static void send_requests(struct run *run, struct lq_rig_client *client)
{
    for (uint64_t n = 1 + below(run, 5); n > 0; n--) {
        uint8_t bytes[LQ_FRAME_MAX];
        struct lq_frame frame = draw_request(run);
        size_t len = lq_request_encode(&frame, bytes, sizeof bytes);
        if (chance(run, 1)) {
            bytes[below(run, len)] ^= (uint8_t)(1 + below(run, 255));
        }
        lq_rig_send(client, bytes, len);
    }
}

/* A request in two pieces with a turn between them. */
static void send_in_pieces(struct run *run, struct lq_rig_client *client)
{
    uint8_t bytes[LQ_FRAME_MAX];
    struct lq_frame frame = draw_request(run);
    size_t len = lq_request_encode(&frame, bytes, sizeof bytes), first = 1 + below(run, len - 1);
    lq_rig_send(client, bytes, first);
    check(run, lq_watch_turn(run->watch));
    lq_rig_send(client, bytes + first, len - first);
}

/* To a moment at which something may be due, or one ms beside it. */
static void pass_time(struct run *run)
{
    uint64_t deadline_ms = lq_hub_deadline(run->rig->hub), now_ms = run->rig->now_ms;
    uint64_t ms = below(run, 1500);
    if (chance(run, 60) && deadline_ms > now_ms && deadline_ms - now_ms < 300000) {
        ms = deadline_ms - now_ms + below(run, 3) - 1;
    }
    if (chance(run, 20)) { /* no turn comes in time */
        run->rig->now_ms += ms;
        check(run, lq_watch_turn(run->watch));
    } else {
        check(run, lq_watch_advance(run->watch, ms));
    }
}

static void act(struct run *run)
{
    struct lq_rig_client *client = draw_client(run);
    uint64_t draw = below(run, 100);
    if (draw < 50) {
        send_requests(run, client);
    } else if (draw < 58) {
        send_in_pieces(run, client);
    } else if (draw < 62) {
        lq_rig_set_window(client, PICK(run, 0, 1, 5, 23, 100, LQ_RIG_OPEN_WINDOW));
    } else if (draw < 64) {
        lq_rig_break(client);
    } else if (draw < 66) {
        lq_rig_send_eof(client);
    } else if (draw < 80) {
        pass_time(run);
    } else if (draw < 90) {
        check(run, lq_watch_go(run->watch));
    } else {
        check(run, lq_watch_turn(run->watch));
    }
}

static void tell(const struct run *run)
{
    printf("answers:");
    for (const char *op = ops; *op != '\0'; op++) {
        printf(" %c %llu", *op, (unsigned long long)run->seen[(uint8_t)*op]);
    }
    printf("; grants taken back %llu; clients aborted %llu\n", (unsigned long long)run->taken_back,
           (unsigned long long)run->aborted);
}

START_TEST(holds_whatever_clients_do)
{
    uint64_t n = lq_test_number("LQ_OPS", OPS_DEFAULT);
    struct run run = {.rand = lq_rand_of(lq_test_seed(), 1)};
    for (uint64_t i = 0; i < n; i++) {
        if (i % EPISODE == 0) {
            begin(&run);
        }
        act(&run);
        if (i % EPISODE == EPISODE - 1 || i + 1 == n) {
            end(&run);
        }
    }
    tell(&run);
    for (const char *op = ops; *op != '\0' && n >= OPS_DEFAULT / 10; op++) {
        ck_assert_msg(run.seen[(uint8_t)*op] > 0, "answer %c was never met", *op);
    }
    ck_assert(n < OPS_DEFAULT / 10 || (run.taken_back > 0 && run.aborted > 0));
}
END_TEST

static Suite *session_random_suite(void)
{
    Suite *suite = suite_create("session_random");
    TCase *tcase = tcase_create("random");
    tcase_set_timeout(tcase, 0); /* as long as LQ_OPS asks for */
    tcase_add_test(tcase, holds_whatever_clients_do);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(session_random_suite());
}
