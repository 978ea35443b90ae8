#include "session_text.h"

#include "lq_check.h"
#include "lq_limits.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 65536

/* ---- Requests. */

/* A test that can't say what it means is wrong: stop at once. */
static const char *word(const char **at)
{
    const char *start = *at + strspn(*at, " ");
    *at = start + strcspn(start, " ;");
    LQ_CHECK(*at > start);
    return start;
}

static uint64_t number(const char **at)
{
    char *end = NULL;
    uint64_t value = strtoull(word(at), &end, 10);
    LQ_CHECK(end == *at);
    return value;
}

static uint8_t seconds(const char **at)
{
    uint64_t value = number(at);
    LQ_CHECK(value <= LQ_SECONDS_MAX);
    return (uint8_t)value;
}

static void key(const char **at, struct lq_frame *frame)
{
    frame->key = (const uint8_t *)word(at);
    frame->key_len = (uint16_t)(*at - (const char *)frame->key);
}

static struct lq_frame request_of(const char **at)
{
    struct lq_frame frame = {.op = (uint8_t)*word(at)};
    switch ((enum lq_op)frame.op) {
    case LQ_OP_ACQUIRE:
        frame.wait_s = seconds(at);
        frame.lease_s = seconds(at);
        frame.owner = number(at);
        key(at, &frame);
        break;
    case LQ_OP_RENEW:
        frame.lease_s = seconds(at);
        frame.token = number(at);
        key(at, &frame);
        break;
    case LQ_OP_RELEASE:
        frame.token = number(at);
        key(at, &frame);
        break;
    case LQ_OP_CANCEL:
        frame.owner = number(at);
        key(at, &frame);
        break;
    case LQ_OP_PING:
        frame.owner = number(at);
        break;
    case LQ_OP_TIMEOUT:
    case LQ_OP_BUSY:
    case LQ_OP_NOT_HELD:
    case LQ_OP_ERROR:
        LQ_CHECK(false && "the op of a request");
    }
    return frame;
}

void lq_rig_encode(struct lq_rig_bytes *bytes, const char *words)
{
    for (const char *at = words; *at != '\0'; at += strspn(at, "; ")) {
        struct lq_frame frame = request_of(&at);
        uint8_t encoded[LQ_FRAME_MAX];
        lq_rig_append(bytes, encoded, lq_request_encode(&frame, encoded, sizeof encoded));
    }
}

void lq_rig_say(struct lq_rig_client *client, const char *format, ...)
{
    static char words[WORDS_MAX];
    va_list arguments;
    int len;
    va_start(arguments, format);
    len = vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    LQ_CHECK(len >= 0 && (size_t)len < sizeof words);
    lq_rig_encode(&client->requests, words);
}

/* ---- Answers. */

bool lq_rig_next(struct lq_rig_client *client, struct lq_frame *ret_answer)
{
    size_t used = 0;
    enum lq_decoded decoded = lq_answer_decode(
        client->answers.at + client->heard, client->delivered - client->heard, ret_answer, &used);
    LQ_CHECK(decoded != LQ_DECODED_BAD);
    client->heard += decoded == LQ_DECODED_FRAME ? used : 0;
    return decoded == LQ_DECODED_FRAME;
}

__attribute__((format(printf, 2, 3))) static void write_words(struct lq_rig_bytes *text,
                                                              const char *format, ...)
{
    char words[LQ_FRAME_MAX + 64];
    va_list arguments;
    int len;
    va_start(arguments, format);
    len = vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    LQ_CHECK(len >= 0 && (size_t)len < sizeof words);
    if (text->len > 0) {
        lq_rig_append(text, "; ", 2);
    }
    lq_rig_append(text, words, (size_t)len);
}

static void write_answer(struct lq_rig_bytes *text, const struct lq_frame *answer)
{
    int len = answer->key_len;
    const char *start = (const char *)answer->key;
    switch ((enum lq_op)answer->op) {
    case LQ_OP_ACQUIRE:
        write_words(text, "A %" PRIu64 " %" PRIu64 " %.*s", answer->token, answer->owner, len,
                    start);
        break;
    case LQ_OP_TIMEOUT:
    case LQ_OP_BUSY:
        write_words(text, "%c %" PRIu64 " %.*s", answer->op, answer->owner, len, start);
        break;
    case LQ_OP_RELEASE:
    case LQ_OP_RENEW:
    case LQ_OP_NOT_HELD:
        write_words(text, "%c %" PRIu64 " %.*s", answer->op, answer->token, len, start);
        break;
    case LQ_OP_PING:
        write_words(text, "P %" PRIu64, answer->owner);
        break;
    case LQ_OP_ERROR:
        write_words(text, "E %u", answer->code);
        break;
    case LQ_OP_CANCEL:
        LQ_CHECK(false && "the op of an answer");
    }
}

const char *lq_rig_hear(struct lq_rig_client *client)
{
    struct lq_frame answer;
    client->text.len = 0;
    while (lq_rig_next(client, &answer)) {
        write_answer(&client->text, &answer);
    }
    if (client->heard < client->delivered) {
        write_words(&client->text, "...");
    }
    lq_rig_append(&client->text, "", 1);
    return (const char *)client->text.at;
}

size_t lq_rig_hear_count(struct lq_rig_client *client, enum lq_op op)
{
    struct lq_frame answer;
    size_t count = 0;
    while (lq_rig_next(client, &answer)) {
        count += answer.op == op;
    }
    return count;
}
