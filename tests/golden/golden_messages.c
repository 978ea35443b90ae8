/* Runs the golden vectors of messages between nodes (README.md beside this file) against protocol/:
 * golden_messages FILE... Prints what fails, then "N passed, N failed". */
#include "golden.h"
#include "lq_message.h"

#include <stdlib.h>
#include <string.h>

#define ITEMS_MAX 8

/* A message from JSON, and what it points to. */
struct expected {
    struct lq_message message;
    struct lq_message_entry entries[ITEMS_MAX];
    struct lq_message_outcome outcomes[ITEMS_MAX];
    struct golden_bytes bytes[ITEMS_MAX];
};

/* ---- From JSON. Fields have been checked by check_messages.py. */

static const char *const kinds[] = {
    [LQ_MESSAGE_VOTE] = "VOTE",
    [LQ_MESSAGE_VOTE_RESULT] = "VOTE_RESULT",
    [LQ_MESSAGE_APPEND] = "APPEND",
    [LQ_MESSAGE_APPEND_RESULT] = "APPEND_RESULT",
    [LQ_MESSAGE_TIMEOUT_NOW] = "TIMEOUT_NOW",
    [LQ_MESSAGE_OPEN] = "OPEN",
    [LQ_MESSAGE_CLOSE] = "CLOSE",
    [LQ_MESSAGE_SUBMIT] = "SUBMIT",
    [LQ_MESSAGE_RESEND] = "RESEND",
    [LQ_MESSAGE_OUTCOMES] = "OUTCOMES",
    [LQ_MESSAGE_PING] = "PING",
    [LQ_MESSAGE_REMOVED] = "REMOVED",
    [LQ_MESSAGE_DIGEST] = "DIGEST",
    [LQ_MESSAGE_CHUNK] = "CHUNK",
    [LQ_MESSAGE_CHUNK_RESULT] = "CHUNK_RESULT",
};

static uint8_t kind_of(const json_t *json)
{
    const char *name = json_string_value(json_object_get(json, "kind"));
    for (size_t kind = 1; kind < sizeof kinds / sizeof *kinds; kind++) {
        if (name != NULL && strcmp(name, kinds[kind]) == 0) {
            return (uint8_t)kind;
        }
    }
    golden_give_up(name == NULL ? "a message" : name, "no such kind");
}

/* 0 when there is no such field. */
static uint64_t number_of(const json_t *json, const char *field)
{
    const json_t *value = json_object_get(json, field);
    return value == NULL ? 0 : strtoull(json_string_value(value), NULL, 16);
}

static uint32_t small_of(const json_t *json, const char *field)
{
    return (uint32_t)json_integer_value(json_object_get(json, field));
}

static void flags_of(const json_t *json, struct lq_message *message)
{
    uint32_t flags = small_of(json, "flags");
    bool is_first = (flags & 1) != 0, is_second = (flags & 2) != 0;
    if (message->kind == LQ_MESSAGE_VOTE || message->kind == LQ_MESSAGE_VOTE_RESULT) {
        message->is_pre_vote = is_first;
    }
    message->is_disrupting = message->kind == LQ_MESSAGE_VOTE && is_second;
    message->is_granted = message->kind == LQ_MESSAGE_VOTE_RESULT && is_second;
    message->is_refused = message->kind == LQ_MESSAGE_CHUNK_RESULT && is_first;
}

static void items_of(const json_t *json, struct expected *expected)
{
    const json_t *entries = json_object_get(json, "entries"), *item;
    const json_t *outcomes = json_object_get(json, "outcomes");
    size_t i;
    expected->message.count = (uint32_t)(json_array_size(entries) + json_array_size(outcomes));
    if (expected->message.count > ITEMS_MAX) {
        golden_give_up("a message", "more items than this program has room for");
    }
    json_array_foreach(entries, i, item)
    {
        golden_append_hex(&expected->bytes[i], "an entry", json_object_get(item, "bytes"));
        expected->entries[i] = (struct lq_message_entry){
            .term = number_of(item, "term"),
            .check = number_of(item, "check"),
            .type = (uint8_t)small_of(item, "type"),
            .len = (uint32_t)expected->bytes[i].len,
            .bytes = expected->bytes[i].at,
        };
    }
    json_array_foreach(outcomes, i, item)
    {
        expected->outcomes[i] = (struct lq_message_outcome){
            .kind = (uint8_t)small_of(item, "kind"),
            .lease_s = (uint8_t)small_of(item, "lease"),
            .seq = number_of(item, "seq"),
            .token = number_of(item, "token"),
            .stamp_ms = number_of(item, "stamp_ms"),
        };
    }
}

static void message_of(const json_t *json, struct expected *ret_expected)
{
    struct lq_message *message = &ret_expected->message;
    *message = (struct lq_message){
        .kind = kind_of(json),
        .time_ms = number_of(json, "time_ms"),
        .ping_ms = number_of(json, "ping_ms"),
        .echo_ms = number_of(json, "echo_ms"),
        .term = number_of(json, "term"),
        .last_index = number_of(json, "last_index"),
        .last_term = number_of(json, "last_term"),
        .prev_index = number_of(json, "prev_index"),
        .prev_term = number_of(json, "prev_term"),
        .commit = number_of(json, "commit"),
        .rejected = number_of(json, "rejected"),
        .incarnation = number_of(json, "incarnation"),
        .next_seq = number_of(json, "next_seq"),
        .through = number_of(json, "through"),
        .index = number_of(json, "index"),
        .index_term = number_of(json, "index_term"),
        .digest = number_of(json, "digest"),
        .total = number_of(json, "total"),
        .check = number_of(json, "check"),
        .offset = number_of(json, json_object_get(json, "next") == NULL ? "offset" : "next"),
    };
    flags_of(json, message);
    items_of(json, ret_expected);
    if (json_object_get(json, "bytes") != NULL) {
        golden_append_hex(&ret_expected->bytes[0], "a message", json_object_get(json, "bytes"));
        message->bytes = ret_expected->bytes[0].at;
        message->len = ret_expected->bytes[0].len;
    }
}

/* ---- One vector. */

/* What is expected where the bytes come in. */
enum place {
    PLACE_HELLO,
    PLACE_REFUSAL,
    PLACE_MESSAGE,
};

static enum place place_of(const char *name)
{
    if (strcmp(name, "hello") == 0) {
        return PLACE_HELLO;
    }
    return strcmp(name, "refusal") == 0 ? PLACE_REFUSAL : PLACE_MESSAGE;
}

static size_t max_at(enum place place)
{
    switch (place) {
    case PLACE_HELLO:
        return LQ_HELLO_BYTES - LQ_MESSAGE_LEN_BYTES;
    case PLACE_REFUSAL:
        return LQ_REFUSAL_BYTES - LQ_MESSAGE_LEN_BYTES;
    case PLACE_MESSAGE:
        return LQ_MESSAGE_MAX;
    }
    golden_give_up("a vector", "no such place");
}

/* Whether a decoder of that place takes the body. */
static bool is_taken(enum place place, const uint8_t *body, size_t len)
{
    struct lq_hello hello;
    struct lq_refusal refusal;
    struct lq_message message;
    switch (place) {
    case PLACE_HELLO:
        return lq_hello_decode(body, len, &hello);
    case PLACE_REFUSAL:
        return lq_refusal_decode(body, len, &refusal);
    case PLACE_MESSAGE:
        return lq_message_decode(body, len, &message);
    }
    golden_give_up("a vector", "no such place");
}

static bool is_same(const struct lq_buffer *out, const struct golden_bytes *bytes)
{
    return out->len == bytes->len && memcmp(out->bytes, bytes->at, bytes->len) == 0;
}

static const char *check_hello(const struct golden_bytes *bytes, const json_t *json)
{
    const struct lq_hello expected = {.is_blank = small_of(json, "flags") == 1,
                                      .is_fresh = small_of(json, "flags") == 2,
                                      .cluster = number_of(json, "cluster"),
                                      .from = small_of(json, "from"),
                                      .to = small_of(json, "to"),
                                      .boot = number_of(json, "boot")};
    struct lq_hello hello;
    struct lq_buffer out;
    bool is_encoded;
    lq_buffer_init(&out);
    lq_hello_put(&out, &expected);
    is_encoded = is_same(&out, bytes);
    lq_buffer_done(&out);
    if (!is_encoded) {
        return "encoded to other bytes";
    }
    if (!lq_hello_decode(bytes->at + LQ_MESSAGE_LEN_BYTES, bytes->len - LQ_MESSAGE_LEN_BYTES,
                         &hello)) {
        return "refused";
    }
    return hello.is_blank == expected.is_blank && hello.is_fresh == expected.is_fresh &&
                   hello.cluster == expected.cluster && hello.from == expected.from &&
                   hello.to == expected.to && hello.boot == expected.boot
               ? NULL
               : "decoded to other fields";
}

static const char *check_refusal(const struct golden_bytes *bytes, const json_t *json)
{
    const struct lq_refusal expected = {.reason = (uint8_t)small_of(json, "reason"),
                                        .cluster = number_of(json, "cluster")};
    struct lq_refusal refusal;
    struct lq_buffer out;
    bool is_encoded;
    lq_buffer_init(&out);
    lq_refusal_put(&out, &expected);
    is_encoded = is_same(&out, bytes);
    lq_buffer_done(&out);
    if (!is_encoded) {
        return "encoded to other bytes";
    }
    if (!lq_refusal_decode(bytes->at + LQ_MESSAGE_LEN_BYTES, bytes->len - LQ_MESSAGE_LEN_BYTES,
                           &refusal)) {
        return "refused";
    }
    return refusal.reason == expected.reason && refusal.cluster == expected.cluster
               ? NULL
               : "decoded to other fields";
}

/* Encoded, these fields must give these bytes. */
static bool encodes(const struct expected *expected, const struct golden_bytes *bytes)
{
    uint8_t kind = expected->message.kind;
    struct lq_buffer out;
    bool is_encoded;
    lq_buffer_init(&out);
    lq_message_put(&out, &expected->message, kind == LQ_MESSAGE_APPEND ? expected->entries : NULL,
                   kind == LQ_MESSAGE_OUTCOMES ? expected->outcomes : NULL);
    is_encoded = is_same(&out, bytes);
    lq_buffer_done(&out);
    return is_encoded;
}

static const char *check_message(const struct golden_bytes *bytes, const json_t *json)
{
    static struct expected expected, decoded;
    struct lq_message *message = &decoded.message;
    size_t numbers = offsetof(struct lq_message, count) - offsetof(struct lq_message, time_ms);
    memset(&expected, 0, sizeof expected);
    memset(&decoded, 0, sizeof decoded);
    message_of(json, &expected);
    if (!encodes(&expected, bytes)) {
        return "encoded to other bytes";
    }
    if (!lq_message_decode(bytes->at + LQ_MESSAGE_LEN_BYTES, bytes->len - LQ_MESSAGE_LEN_BYTES,
                           message)) {
        return "refused";
    }
    if (memcmp(&message->time_ms, &expected.message.time_ms, numbers) != 0 ||
        message->count != expected.message.count) {
        return "decoded to other numbers";
    }
    for (uint32_t i = 0; i < message->count; i++) {
        if (!(message->kind == LQ_MESSAGE_APPEND
                  ? lq_message_next_entry(message, &decoded.entries[i])
                  : lq_message_next_outcome(message, &decoded.outcomes[i]))) {
            return "decoded to fewer items";
        }
    }
    return encodes(&decoded, bytes) ? NULL : "decoded to other flags, bytes or items";
}

static const char *check_refused(enum place place, const struct golden_bytes *bytes)
{
    const uint8_t *body;
    size_t len, used;
    switch (lq_message_unframe(bytes->at, bytes->len, max_at(place), &body, &len, &used)) {
    case LQ_FRAMED_BAD:
        return NULL;
    case LQ_FRAMED_MORE:
        return "waits for more";
    case LQ_FRAMED_ONE:
        break;
    }
    return is_taken(place, body, len) ? "accepted" : NULL;
}

/* Of a frame, every part must need more. */
static const char *check_parts(const struct golden_bytes *bytes, size_t longest)
{
    for (size_t len = 0; len <= longest; len++) {
        const uint8_t *body;
        size_t body_len, used;
        if (lq_message_unframe(bytes->at, len, LQ_MESSAGE_MAX, &body, &body_len, &used) !=
            LQ_FRAMED_MORE) {
            return "decided too early";
        }
    }
    return NULL;
}

static const char *check_vector(const struct golden_bytes *bytes, const json_t *vector)
{
    const json_t *hello = json_object_get(vector, "hello");
    const json_t *refusal = json_object_get(vector, "refusal");
    const json_t *message = json_object_get(vector, "message");
    const json_t *refused = json_object_get(vector, "refused");
    const char *fault;
    if (refused != NULL) {
        return check_refused(place_of(json_string_value(refused)), bytes);
    }
    if (hello == NULL && refusal == NULL && message == NULL) {
        return json_is_true(json_object_get(vector, "more")) ? check_parts(bytes, bytes->len)
                                                             : "expects nothing";
    }
    fault = check_parts(bytes, bytes->len - 1);
    if (fault != NULL) {
        return fault;
    }
    if (hello != NULL) {
        return check_hello(bytes, hello);
    }
    return refusal != NULL ? check_refusal(bytes, refusal) : check_message(bytes, message);
}

static void run_file(const char *path)
{
    json_t *root = golden_load(path);
    const json_t *vector;
    size_t i;
    json_array_foreach(json_object_get(root, "vectors"), i, vector)
    {
        const char *name = json_string_value(json_object_get(vector, "name"));
        struct golden_bytes bytes = {.len = 0};
        golden_append_hex(&bytes, name, json_object_get(vector, "hex"));
        golden_count("message", name, check_vector(&bytes, vector));
    }
    json_decref(root);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        run_file(argv[i]);
    }
    return golden_close();
}
