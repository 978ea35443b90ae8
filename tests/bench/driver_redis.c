/* Redis as a lock server, the way its documentation describes it: SET key owner NX PX lease, and a
 * script that deletes the key if it still holds that owner. Redis knows no waiting: a key that is
 * held is refused at once, whatever --wait.
 *
 * hiredis formats the two commands and parses the replies. So that the comparison does not pay for
 * the client, each command is formatted once and only key and owner, whose lengths never change,
 * are written into copies of it; and replies become pointers to constants instead of allocated
 * objects. */
#include <hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "load.h"
#include "net.h"

static const char script[] = "if redis.call('get',KEYS[1])==ARGV[1] "
                             "then return redis.call('del',KEYS[1]) else return 0 end";

enum {
    OWNER_BYTES = 16,
};

struct command {
    char *bytes; /* hiredis' memory */
    size_t len, key_at, owner_at;
};

struct redis_state {
    char sha[41];
    char error[128]; /* the text of the last error reply */
    struct command acquire, release;
};

/* What a reply is, told by the address of one of these; the values are never read. */
static int reply_ok, reply_one, reply_zero, reply_nil, reply_error, reply_other;

/* ---- Replies without allocation, for hiredis' reader. Its private data is the state. */

static void *make_string(const redisReadTask *task, char *text, size_t len)
{
    struct redis_state *state = task->privdata;
    if (task->type == REDIS_REPLY_STATUS)
        return &reply_ok;
    if (task->type != REDIS_REPLY_ERROR)
        return &reply_other;
    (void)snprintf(state->error, sizeof state->error, "%.*s", (int)(len < 120 ? len : 120), text);
    return &reply_error;
}

static void *make_array(const redisReadTask *task, int n)
{
    (void)task;
    (void)n;
    return &reply_other;
}

static void *make_integer(const redisReadTask *task, long long n)
{
    (void)task;
    return n == 1 ? &reply_one : n == 0 ? &reply_zero : &reply_other;
}

static void *make_nil(const redisReadTask *task)
{
    (void)task;
    return &reply_nil;
}

static void free_nothing(void *reply)
{
    (void)reply;
}

static redisReplyObjectFunctions functions = {make_string, make_array, make_integer, make_nil,
                                              free_nothing};

/* ---- Commands. */

/* Formats a command around a key of K's and an owner of V's, and finds where they lie. */
static int format_command(struct command *c, int argc, const char **argv, const char *key,
                          const char *owner)
{
    int len = redisFormatCommandArgv(&c->bytes, argc, argv, NULL);
    if (len < 0)
        return -1;
    c->len = (size_t)len;
    c->key_at = (size_t)((char *)memmem(c->bytes, c->len, key, strlen(key)) - c->bytes);
    c->owner_at = (size_t)((char *)memmem(c->bytes, c->len, owner, strlen(owner)) - c->bytes);
    return 0;
}

static int format_both(struct redis_state *state, const struct lq_bench_options *o)
{
    char key[1025], owner[OWNER_BYTES + 1], lease_ms[16];
    const char *acquire[] = {"SET", key, owner, "NX", "PX", lease_ms};
    const char *release[] = {"EVALSHA", state->sha, "1", key, owner};
    memset(key, 'K', o->key_bytes);
    key[o->key_bytes] = '\0';
    memset(owner, 'V', OWNER_BYTES);
    owner[OWNER_BYTES] = '\0';
    (void)snprintf(lease_ms, sizeof lease_ms, "%u", o->lease_s * 1000);
    if (format_command(&state->acquire, 6, acquire, key, owner) != 0)
        return -1;
    return format_command(&state->release, 5, release, key, owner);
}

/* Loads the script over a connection of its own. */
static int load_script(struct lq_bench_load *load, char sha[41])
{
    char host[256], port[6];
    redisContext *c;
    redisReply *reply = NULL;
    int rv = -1;
    if (lq_bench_net_split(load->options->target, host, port) != 0) {
        (void)snprintf(load->error, sizeof load->error, "'%s' is not HOST:PORT",
                       load->options->target);
        return -1;
    }
    c = redisConnect(host, (int)strtol(port, NULL, 10));
    if (c != NULL && c->err == 0)
        reply = redisCommand(c, "SCRIPT LOAD %s", script);
    if (reply != NULL && reply->type == REDIS_REPLY_STRING && reply->len == 40) {
        memcpy(sha, reply->str, 41);
        rv = 0;
    } else {
        (void)snprintf(load->error, sizeof load->error, "%s: %s", load->options->target,
                       reply != NULL && reply->type == REDIS_REPLY_ERROR ? reply->str
                       : c != NULL                                       ? c->errstr
                                                                         : "out of memory");
    }
    if (reply != NULL)
        freeReplyObject(reply);
    if (c != NULL)
        redisFree(c);
    return rv;
}

static int init(struct lq_bench_load *load)
{
    struct redis_state *state = calloc(1, sizeof *state);
    load->driver_state = state;
    if (state != NULL && load_script(load, state->sha) != 0)
        return -1;
    if (state == NULL || format_both(state, load->options) != 0) {
        (void)snprintf(load->error, sizeof load->error, "out of memory");
        return -1;
    }
    return 0;
}

static void done(struct lq_bench_load *load)
{
    struct redis_state *state = load->driver_state;
    if (state == NULL)
        return;
    redisFreeCommand(state->acquire.bytes);
    redisFreeCommand(state->release.bytes);
    free(state);
    load->driver_state = NULL;
}

static size_t request_bytes(const struct lq_bench_load *load)
{
    const struct redis_state *state = load->driver_state;
    return state->acquire.len > state->release.len ? state->acquire.len : state->release.len;
}

static size_t answer_bytes(const struct lq_bench_load *load)
{
    (void)load;
    return 8; /* +OK, :1, :0, $-1; an error is longer, but ends the connection */
}

static uint8_t *put(struct lq_bench_slot *slot, const struct command *c, uint8_t *out)
{
    static const char digits[] = "0123456789abcdef";
    lq_bench_conn_push(slot->conn, slot);
    memcpy(out, c->bytes, c->len);
    memcpy(out + c->key_at, slot->text, slot->conn->load->options->key_bytes);
    for (unsigned i = 0; i < OWNER_BYTES; i++)
        out[c->owner_at + i] = (uint8_t)digits[(slot->owner >> (4 * i)) & 15];
    return out + c->len;
}

static uint8_t *put_acquire(struct lq_bench_slot *slot, uint8_t *out)
{
    const struct redis_state *state = slot->conn->load->driver_state;
    return put(slot, &state->acquire, out);
}

static uint8_t *put_release(struct lq_bench_slot *slot, uint8_t *out)
{
    const struct redis_state *state = slot->conn->load->driver_state;
    return put(slot, &state->release, out);
}

/* ---- Answers: in the order of the requests. */

static int attach(struct lq_bench_conn *conn)
{
    redisReader *reader = redisReaderCreateWithFunctions(&functions);
    if (reader == NULL)
        return lq_bench_conn_fail(conn, "out of memory");
    reader->maxbuf =
        0; /* keep the buffer: without it hiredis frees a large one each time it is empty */
    reader->privdata = conn->load->driver_state;
    conn->reader = reader;
    return 0;
}

static void detach(struct lq_bench_conn *conn)
{
    if (conn->reader != NULL)
        redisReaderFree(conn->reader);
    conn->reader = NULL;
}

/* Tells what the reply says to the slot. Returns 0, or -1 if it is none of the replies to that
 * request. */
static int understand(const struct lq_bench_slot *slot, const void *reply,
                      enum lq_bench_answer *ret)
{
    bool acquiring = slot->state == LQ_BENCH_SLOT_ACQUIRING;
    if (acquiring && reply == &reply_ok)
        *ret = LQ_BENCH_ANSWER_GRANTED;
    else if (acquiring && reply == &reply_nil)
        *ret = LQ_BENCH_ANSWER_TIMEOUT;
    else if (!acquiring && reply == &reply_one)
        *ret = LQ_BENCH_ANSWER_RELEASED;
    else if (!acquiring && reply == &reply_zero)
        *ret = LQ_BENCH_ANSWER_NOT_HELD;
    else
        return -1;
    return 0;
}

static int take_answers(struct lq_bench_conn *conn, uint64_t now_ns)
{
    const struct redis_state *state = conn->load->driver_state;
    redisReader *reader = conn->reader;
    enum lq_bench_answer answer;
    void *reply;
    if (conn->in_len == 0)
        return 0;
    if (redisReaderFeed(reader, (char *)conn->in, conn->in_len) != REDIS_OK)
        return lq_bench_conn_fail(conn, "%s", reader->errstr);
    conn->in_len = 0;
    for (;;) {
        struct lq_bench_slot *slot;
        if (redisReaderGetReply(reader, &reply) != REDIS_OK)
            return lq_bench_conn_fail(conn, "%s", reader->errstr);
        if (reply == NULL)
            return 0;
        slot = lq_bench_conn_pop(conn);
        if (reply == &reply_error)
            return lq_bench_conn_fail(conn, "%s", state->error);
        if (slot == NULL || understand(slot, reply, &answer) != 0)
            return lq_bench_conn_fail(conn, "a reply that fits no command");
        lq_bench_load_answer(conn->load, slot, answer, 0, now_ns);
    }
}

const struct lq_bench_driver lq_bench_driver_redis = {
    .name = "redis",
    .hands_over = false,
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
