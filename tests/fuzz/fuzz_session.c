/* Any script of events over a few sessions: what must hold is in
 * tests/unit/support/session_watch.h.
 *
 * The input: six bytes choose the server's options, then events follow. Each begins with a byte
 * whose low half says what happens (enum event) and whose high half to which of four clients;
 * further bytes say the rest. A client that ended is replaced by a new one. */
#include "lq_frame.h"
#include "lq_limits.h"
#include "session_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_CLIENTS 4

enum event {
    EVENT_BYTES,   /* n, then n bytes: sent as they are */
    EVENT_REQUEST, /* three bytes that choose a valid request */
    EVENT_WINDOW,  /* n: so many bytes of answers leave; 255: all */
    EVENT_EOF,
    EVENT_BREAK,
    EVENT_TURN,
    EVENT_GO,
    EVENT_TIME,     /* n: 20 n ms pass with turns */
    EVENT_LATE,     /* n: 20 n ms pass without a turn */
    EVENT_DEADLINE, /* to the moment that the hub asked for */
    EVENT_STOP,
    N_EVENTS,
};

struct input {
    const uint8_t *at;
    size_t left;
};

struct play {
    struct input input;
    struct lq_rig *rig;
    struct lq_watch *watch;
    struct lq_rig_client *clients[N_CLIENTS];
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static uint8_t take(struct input *input)
{
    if (input->left == 0) {
        return 0;
    }
    input->left--;
    return *input->at++;
}

static uint64_t choose(struct input *input, const uint64_t values[4])
{
    return values[take(input) % 4];
}

static struct lq_rig_options take_options(struct input *input)
{
    struct lq_rig_options options = lq_rig_defaults();
    options.hub.requests_max = choose(input, (const uint64_t[4]){65536, 1, 2, 5});
    options.hub.unread_max = choose(input, (const uint64_t[4]){100000, 30, 60, 300});
    options.hub.unread_total_max = choose(input, (const uint64_t[4]){100000, 50, 100, 500});
    options.local.sweep_ms = choose(input, (const uint64_t[4]){5000, 100, 300, 700});
    options.local.quarantine_s = choose(input, (const uint64_t[4]){0, 1, 2, 5});
    options.local.caps.waiters = choose(input, (const uint64_t[4]){1000, 0, 1, 3});
    return options;
}

static void check(const char *fault)
{
    if (fault != NULL) {
        (void)fprintf(stderr, "%s\n", fault);
        abort();
    }
}

static void send_bytes(struct input *input, struct lq_rig_client *client)
{
    size_t len = take(input);
    len = len < input->left ? len : input->left;
    lq_rig_send(client, input->at, len);
    input->at += len;
    input->left -= len;
}

static void send_request(struct input *input, struct lq_rig_client *client)
{
    static const char ops[] = "AAARKCP";
    static const uint8_t waits[] = {0, 1, 2, 255}, leases[] = {1, 2, 3, 255};
    static const char *const keys[] = {"k", "key of another length"};
    uint8_t bytes[LQ_FRAME_MAX], kind = take(input), spans = take(input), number = take(input);
    const char *key = keys[kind / 128];
    struct lq_frame frame = {.op = (uint8_t)ops[kind % (sizeof ops - 1)],
                             .wait_s = waits[spans % 4],
                             .lease_s = leases[spans / 4 % 4],
                             .owner = number,
                             .token = number,
                             .key = (const uint8_t *)key,
                             .key_len = (uint16_t)strlen(key)};
    if (spans >= 128) { /* the token of the holder, which is harder to guess */
        frame.token = lq_rig_holder(client->rig, key, strlen(key));
    }
    frame.key_len = frame.op == LQ_OP_PING ? 0 : frame.key_len;
    lq_rig_send(client, bytes, lq_request_encode(&frame, bytes, sizeof bytes));
}

static void set_window(struct input *input, struct lq_rig_client *client)
{
    uint8_t len = take(input);
    lq_rig_set_window(client, len == UINT8_MAX ? LQ_RIG_OPEN_WINDOW : len);
}

static void play_event(struct play *play)
{
    uint8_t head = take(&play->input);
    struct lq_rig_client **client = &play->clients[head / 16 % N_CLIENTS];
    if (*client == NULL || (*client)->session == NULL) {
        *client = lq_rig_connect(play->rig);
    }
    switch ((enum event)(head % 16 % N_EVENTS)) {
    case EVENT_BYTES:
        send_bytes(&play->input, *client);
        break;
    case EVENT_REQUEST:
        send_request(&play->input, *client);
        break;
    case EVENT_WINDOW:
        set_window(&play->input, *client);
        break;
    case EVENT_EOF:
        lq_rig_send_eof(*client);
        break;
    case EVENT_BREAK:
        lq_rig_break(*client);
        break;
    case EVENT_TURN:
        check(lq_watch_turn(play->watch));
        break;
    case EVENT_GO:
        check(lq_watch_go(play->watch));
        break;
    case EVENT_TIME:
        check(lq_watch_advance(play->watch, UINT64_C(20) * take(&play->input)));
        break;
    case EVENT_LATE:
        play->rig->now_ms += UINT64_C(20) * take(&play->input);
        break;
    case EVENT_DEADLINE:
        if (lq_hub_deadline(play->rig->hub) > play->rig->now_ms &&
            lq_hub_deadline(play->rig->hub) != UINT64_MAX) {
            play->rig->now_ms = lq_hub_deadline(play->rig->hub);
        }
        check(lq_watch_turn(play->watch));
        break;
    case EVENT_STOP:
        check(lq_watch_stop(play->watch));
        break;
    case N_EVENTS:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct play play = {.input = {.at = bytes, .left = len}};
    struct lq_rig_options options = take_options(&play.input);
    play.rig = lq_rig_new(&options);
    play.watch = lq_watch_new(play.rig, options.hub.requests_max);
    while (play.input.left > 0) {
        play_event(&play);
    }
    if (len % 8 != 0) { /* else it is freed as it stands */
        check(lq_watch_finish(play.watch));
    }
    lq_watch_free(play.watch);
    lq_rig_free(play.rig);
    return 0;
}
