/* Runs the golden vectors (README.md beside this file) against protocol/: golden_frames FILE...
 * Prints what fails, then "N passed, N failed". */
#include "golden.h"
#include "lq_props.h"

#include <stdlib.h>
#include <string.h>

/* ---- From JSON. Strings have been checked by check_golden.py; what is wrong here ends the run. */

static uint64_t number_of(const json_t *frame, const char *field)
{
    const json_t *value = json_object_get(frame, field);
    return value == NULL ? 0 : strtoull(json_string_value(value), NULL, 16);
}

static uint8_t byte_of(const json_t *frame, const char *field)
{
    return (uint8_t)json_integer_value(json_object_get(frame, field));
}

static struct lq_frame frame_of(const json_t *json)
{
    const json_t *key = json_object_get(json, "key");
    const json_t *nonce = json_object_get(json, "nonce");
    struct lq_frame frame = {
        .op = (uint8_t)json_string_value(json_object_get(json, "op"))[0],
        .wait_s = byte_of(json, "wait"),
        .lease_s = byte_of(json, "lease"),
        .code = byte_of(json, "code"),
        .token = number_of(json, "token"),
        .owner = number_of(json, nonce == NULL ? "owner" : "nonce"),
    };
    if (key == NULL) {
        key = json_object_get(json, "text");
    }
    frame.key = (const uint8_t *)json_string_value(key);
    frame.key_len = (uint16_t)json_string_length(key);
    return frame;
}

/* ---- One vector. */

static const char *check_frame(const struct lq_direction *direction,
                               const struct golden_bytes *bytes, const json_t *json)
{
    const struct lq_frame expected = frame_of(json);
    struct lq_frame frame;
    uint8_t encoded[LQ_FRAME_MAX];
    size_t used = 0;

    if (direction->decode(bytes->at, bytes->len, &frame, &used) != LQ_DECODED_FRAME ||
        used != bytes->len) {
        return "not decoded as one whole frame";
    }
    if (!lq_props_equal(&frame, &expected)) {
        return "decoded to other fields";
    }
    if (direction->encode(&expected, encoded, sizeof encoded) != bytes->len ||
        memcmp(encoded, bytes->at, bytes->len) != 0) {
        return "encoded to other bytes";
    }
    return NULL;
}

static const char *check_error(const struct lq_direction *direction,
                               const struct golden_bytes *bytes, uint8_t code)
{
    struct lq_frame frame;
    size_t used;

    if (direction->decode(bytes->at, bytes->len, &frame, &used) != LQ_DECODED_BAD) {
        return "taken as valid";
    }
    return frame.code == code ? NULL : "another error code";
}

static const char *check_more(const struct lq_direction *direction,
                              const struct golden_bytes *bytes)
{
    struct lq_frame frame;
    size_t used;

    return direction->decode(bytes->at, bytes->len, &frame, &used) == LQ_DECODED_MORE
               ? NULL
               : "decided too early";
}

static const char *check_vector(const struct lq_direction *direction,
                                const struct golden_bytes *bytes, const json_t *vector)
{
    const json_t *frame = json_object_get(vector, "frame");
    const json_t *error = json_object_get(vector, "error");
    const char *fault = lq_props_fault(direction, bytes->at, bytes->len);

    if (fault != NULL) {
        return fault;
    }
    if (frame != NULL) {
        return check_frame(direction, bytes, frame);
    }
    if (error != NULL) {
        return check_error(direction, bytes, (uint8_t)json_integer_value(error));
    }
    return json_is_true(json_object_get(vector, "more")) ? check_more(direction, bytes)
                                                         : "expects nothing";
}

/* ---- Streams: the named vectors one behind the other. */

static const json_t *vector_named(const json_t *vectors, const char *name)
{
    size_t i;
    const json_t *vector;

    json_array_foreach(vectors, i, vector)
    {
        if (strcmp(json_string_value(json_object_get(vector, "name")), name) == 0) {
            return vector;
        }
    }
    golden_give_up(name, "a stream names no vector");
}

/* Decodes frame by frame; a fault or an unfinished frame ends the stream. */
static const char *check_stream(const struct lq_direction *direction, const json_t *vectors,
                                const json_t *stream)
{
    struct golden_bytes bytes = {.len = 0};
    size_t at = 0, i;
    const json_t *name;

    json_array_foreach(json_object_get(stream, "of"), i, name)
    {
        const json_t *vector = vector_named(vectors, json_string_value(name));
        golden_append_hex(&bytes, json_string_value(name), json_object_get(vector, "hex"));
    }
    json_array_foreach(json_object_get(stream, "of"), i, name)
    {
        const json_t *vector = vector_named(vectors, json_string_value(name));
        const json_t *json = json_object_get(vector, "frame"),
                     *error = json_object_get(vector, "error");
        struct lq_frame frame, expected;
        size_t used = 0;
        enum lq_decoded decoded = direction->decode(bytes.at + at, bytes.len - at, &frame, &used);

        if (json == NULL) {
            enum lq_decoded end = error == NULL ? LQ_DECODED_MORE : LQ_DECODED_BAD;
            return decoded == end ? lq_props_fault(direction, bytes.at, bytes.len)
                                  : "ended otherwise";
        }
        expected = frame_of(json);
        if (decoded != LQ_DECODED_FRAME || !lq_props_equal(&frame, &expected)) {
            return json_string_value(name);
        }
        at += used;
    }
    return at == bytes.len ? lq_props_fault(direction, bytes.at, bytes.len) : "bytes were left";
}

static void run_file(const char *path)
{
    json_t *root = golden_load(path);
    const struct lq_direction *direction = &lq_requests;
    const json_t *vectors = json_object_get(root, "vectors"), *item;
    size_t i;

    if (strcmp(json_string_value(json_object_get(root, "direction")), "answer") == 0) {
        direction = &lq_answers;
    }
    json_array_foreach(vectors, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        struct golden_bytes bytes = {.len = 0};
        golden_append_hex(&bytes, name, json_object_get(item, "hex"));
        golden_count(direction->name, name, check_vector(direction, &bytes, item));
    }
    json_array_foreach(json_object_get(root, "streams"), i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        golden_count("stream", name, check_stream(direction, vectors, item));
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
