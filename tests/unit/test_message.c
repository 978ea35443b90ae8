/* Messages between nodes: what is written is read back, field by field and item by item; nothing
 * cut off, lengthened or changed where a value is fixed is accepted; counts and lengths that lie
 * are not believed; and a decoder never reads beyond the bytes that it has. The bytes themselves
 * are in tests/golden/messages.json. */
#include "lq_mem.h"
#include "lq_message.h"
#include "lq_test.h"

#include <signal.h>
#include <string.h>

#define KINDS     15
#define ITEMS_MAX 6
#define BYTES_MAX 200

/* Where things stand in a body. */
#define NUMBERS_AT  28
#define COUNT_AT    (NUMBERS_AT + 32) /* APPEND */
#define ENTRY_AT    (COUNT_AT + 4)
#define LEN_AT      (ENTRY_AT + 17)
#define OUTCOMES_AT (NUMBERS_AT + 24) /* OUTCOMES: its count */

static uint64_t seed;

/* A message with all that it points to. */
struct sample {
    struct lq_message message;
    struct lq_message_entry entries[ITEMS_MAX];
    struct lq_message_outcome outcomes[ITEMS_MAX];
    uint8_t bytes[ITEMS_MAX][BYTES_MAX];
};

static uint64_t draw_number(struct lq_rand *rand)
{
    static const uint64_t limits[] = {0, 1, UINT32_MAX, UINT64_MAX};
    return lq_rand_below(rand, 4) == 0 ? limits[lq_rand_below(rand, 4)] : lq_rand_next(rand);
}

static bool draw_bool(struct lq_rand *rand)
{
    return lq_rand_below(rand, 2) == 1;
}

static void draw_entries(struct lq_rand *rand, struct sample *sample)
{
    sample->message.count = (uint32_t)lq_rand_below(rand, ITEMS_MAX + 1);
    for (uint32_t i = 0; i < sample->message.count; i++) {
        sample->entries[i] = (struct lq_message_entry){
            .term = draw_number(rand),
            .check = draw_number(rand),
            .type = (uint8_t)lq_rand_next(rand),
            .len = (uint32_t)lq_rand_below(rand, BYTES_MAX + 1),
            .bytes = sample->bytes[i],
        };
    }
}

static void draw_outcomes(struct lq_rand *rand, struct sample *sample)
{
    sample->message.count = (uint32_t)lq_rand_below(rand, ITEMS_MAX + 1);
    for (uint32_t i = 0; i < sample->message.count; i++) {
        sample->outcomes[i] = (struct lq_message_outcome){
            .kind = (uint8_t)(1 + lq_rand_below(rand, 15)),
            .lease_s = (uint8_t)lq_rand_next(rand),
            .seq = draw_number(rand),
            .token = draw_number(rand),
            .stamp_ms = draw_number(rand),
        };
    }
}

/* The members that a kind has, as lq_message.h documents them: every number of it, in any order. */
static const struct {
    size_t numbers[6];
} members[KINDS + 1] = {
#define AT(member) offsetof(struct lq_message, member)
    [LQ_MESSAGE_VOTE] = {{AT(term), AT(last_index), AT(last_term)}},
    [LQ_MESSAGE_VOTE_RESULT] = {{AT(term)}},
    [LQ_MESSAGE_APPEND] = {{AT(term), AT(prev_index), AT(prev_term), AT(commit)}},
    [LQ_MESSAGE_APPEND_RESULT] = {{AT(term), AT(rejected), AT(last_index)}},
    [LQ_MESSAGE_TIMEOUT_NOW] = {{AT(term), AT(last_index), AT(last_term)}},
    [LQ_MESSAGE_OPEN] = {{AT(incarnation)}},
    [LQ_MESSAGE_CLOSE] = {{AT(incarnation)}},
    [LQ_MESSAGE_SUBMIT] = {{AT(term)}},
    [LQ_MESSAGE_RESEND] = {{AT(term), AT(incarnation), AT(next_seq)}},
    [LQ_MESSAGE_OUTCOMES] = {{AT(term), AT(incarnation), AT(through)}},
    [LQ_MESSAGE_PING] = {{0}},
    [LQ_MESSAGE_REMOVED] = {{AT(index)}},
    [LQ_MESSAGE_DIGEST] = {{AT(index), AT(digest)}},
    [LQ_MESSAGE_CHUNK] = {{AT(term), AT(index), AT(index_term), AT(total), AT(check), AT(offset)}},
    [LQ_MESSAGE_CHUNK_RESULT] = {{AT(term), AT(index), AT(check), AT(offset)}},
#undef AT
};

static void draw(struct lq_rand *rand, uint8_t kind, struct sample *sample)
{
    struct lq_message *message = &sample->message;
    lq_rand_fill(rand, sample->bytes[0], sizeof sample->bytes);
    *message = (struct lq_message){.kind = kind};
    message->time_ms = draw_number(rand);
    message->ping_ms = draw_number(rand);
    message->echo_ms = draw_number(rand);
    for (size_t i = 0; i < 6 && members[kind].numbers[i] != 0; i++) {
        uint64_t number = draw_number(rand);
        memcpy((uint8_t *)message + members[kind].numbers[i], &number, sizeof number);
    }
    message->is_pre_vote =
        (kind == LQ_MESSAGE_VOTE || kind == LQ_MESSAGE_VOTE_RESULT) && draw_bool(rand);
    message->is_disrupting = kind == LQ_MESSAGE_VOTE && draw_bool(rand);
    message->is_granted = kind == LQ_MESSAGE_VOTE_RESULT && draw_bool(rand);
    message->is_refused = kind == LQ_MESSAGE_CHUNK_RESULT && draw_bool(rand);
    if (kind == LQ_MESSAGE_APPEND) {
        draw_entries(rand, sample);
    }
    if (kind == LQ_MESSAGE_OUTCOMES) {
        draw_outcomes(rand, sample);
    }
    if (kind == LQ_MESSAGE_SUBMIT || kind == LQ_MESSAGE_CHUNK) {
        message->bytes = sample->bytes[0];
        message->len = lq_rand_below(rand, sizeof sample->bytes + 1);
    }
}

static void put(struct lq_buffer *out, const struct sample *sample)
{
    uint8_t kind = sample->message.kind;
    lq_message_put(out, &sample->message, kind == LQ_MESSAGE_APPEND ? sample->entries : NULL,
                   kind == LQ_MESSAGE_OUTCOMES ? sample->outcomes : NULL);
}

static bool has_bytes(uint8_t kind)
{
    return kind == LQ_MESSAGE_SUBMIT || kind == LQ_MESSAGE_CHUNK;
}

/* Plain functions, without assertions inside: Check takes long for each one. */
static bool is_equal(const struct lq_message *got, const struct lq_message *wanted)
{
    /* All numbers lie side by side, those that the kind does not have too: they are 0. */
    size_t numbers = offsetof(struct lq_message, count) - offsetof(struct lq_message, time_ms);
    return got->kind == wanted->kind && got->is_pre_vote == wanted->is_pre_vote &&
           got->is_disrupting == wanted->is_disrupting && got->is_granted == wanted->is_granted &&
           got->is_refused == wanted->is_refused && got->count == wanted->count &&
           memcmp(&got->time_ms, &wanted->time_ms, numbers) == 0 && got->len == wanted->len &&
           (got->len == 0 || memcmp(got->bytes, wanted->bytes, got->len) == 0);
}

static bool has_entries(struct lq_message *got, const struct sample *wanted)
{
    struct lq_message_entry entry;
    for (uint32_t i = 0; i < wanted->message.count; i++) {
        const struct lq_message_entry *next = &wanted->entries[i];
        if (!lq_message_next_entry(got, &entry) || entry.term != next->term ||
            entry.check != next->check || entry.type != next->type || entry.len != next->len ||
            memcmp(entry.bytes, next->bytes, entry.len) != 0) {
            return false;
        }
    }
    return !lq_message_next_entry(got, &entry);
}

static bool has_outcomes(struct lq_message *got, const struct sample *wanted)
{
    struct lq_message_outcome outcome;
    for (uint32_t i = 0; i < wanted->message.count; i++) {
        const struct lq_message_outcome *next = &wanted->outcomes[i];
        if (!lq_message_next_outcome(got, &outcome) || outcome.kind != next->kind ||
            outcome.lease_s != next->lease_s || outcome.seq != next->seq ||
            outcome.token != next->token || outcome.stamp_ms != next->stamp_ms) {
            return false;
        }
    }
    return !lq_message_next_outcome(got, &outcome);
}

/* Writes a decoded message again and compares it with the body that it came from. */
static bool is_same_again(struct lq_message message, const uint8_t *body, size_t len)
{
    bool is_append = message.kind == LQ_MESSAGE_APPEND;
    bool is_outcomes = message.kind == LQ_MESSAGE_OUTCOMES;
    struct lq_message_entry *entries =
        is_append ? lq_calloc((size_t)message.count + 1, sizeof *entries) : NULL;
    struct lq_message_outcome *outcomes =
        is_outcomes ? lq_calloc((size_t)message.count + 1, sizeof *outcomes) : NULL;
    struct lq_buffer out;
    bool is_same = true;
    for (uint32_t i = 0; i < message.count && is_same; i++) {
        is_same = is_append ? lq_message_next_entry(&message, &entries[i])
                            : lq_message_next_outcome(&message, &outcomes[i]);
    }
    lq_buffer_init(&out);
    lq_message_put(&out, &message, entries, outcomes);
    is_same = is_same && out.len == LQ_MESSAGE_LEN_BYTES + len &&
              memcmp(out.bytes + LQ_MESSAGE_LEN_BYTES, body, len) == 0;
    lq_buffer_done(&out);
    lq_free(entries);
    lq_free(outcomes);
    return is_same;
}

/* Decodes the body in memory of exactly its size, so that a sanitizer sees a read beyond. What is
 * refused leaves the output as it was, what is accepted is written the same again. */
static bool accepts(const uint8_t *body, size_t len)
{
    struct lq_message message = {.kind = UINT8_MAX};
    uint8_t *bytes = lq_malloc(len + (len == 0));
    bool is_accepted, is_right;
    memcpy(bytes, body, len);
    is_accepted = lq_message_decode(bytes, len, &message);
    is_right = is_accepted ? is_same_again(message, bytes, len) : message.kind == UINT8_MAX;
    lq_free(bytes);
    if (!is_right) {
        ck_abort_msg("%s",
                     is_accepted ? "accepted, but written otherwise" : "refused, but given out");
    }
    return is_accepted;
}

/* A drawn message as bytes; the body begins behind the length. */
static struct sample *drawn(struct lq_rand *rand, uint8_t kind, struct lq_buffer *out)
{
    static struct sample sample;
    lq_buffer_init(out);
    draw(rand, kind, &sample);
    put(out, &sample);
    return &sample;
}

START_TEST(what_is_written_is_read)
{
    struct lq_rand rand = lq_rand_of(seed, 1);
    for (uint64_t round = 0; round < lq_test_number("LQ_OPS", 20000); round++) {
        uint8_t kind = (uint8_t)(1 + round % KINDS);
        struct lq_buffer out;
        struct sample *sample = drawn(&rand, kind, &out);
        const uint8_t *body;
        size_t body_len, used;
        struct lq_message message;
        ck_assert(lq_message_unframe(out.bytes, out.len, LQ_MESSAGE_MAX, &body, &body_len, &used) ==
                      LQ_FRAMED_ONE &&
                  used == out.len && body_len == out.len - LQ_MESSAGE_LEN_BYTES);
        ck_assert_msg(lq_message_decode(body, body_len, &message) &&
                          is_equal(&message, &sample->message) &&
                          (kind != LQ_MESSAGE_APPEND || has_entries(&message, sample)) &&
                          (kind != LQ_MESSAGE_OUTCOMES || has_outcomes(&message, sample)),
                      "a message of kind %u", kind);
        lq_buffer_done(&out);
    }
}
END_TEST

/* The bytes of SUBMIT and CHUNK end where the body ends: those may be cut, all else may not. */
START_TEST(cut_off_or_longer_bodies_are_refused)
{
    struct lq_rand rand = lq_rand_of(seed, 2);
    for (unsigned round = 0; round < 5 * KINDS; round++) {
        uint8_t kind = (uint8_t)(1 + round % KINDS);
        struct lq_buffer out;
        struct sample *sample = drawn(&rand, kind, &out);
        size_t whole, fixed;
        lq_buffer_add(&out, "", 1);
        whole = out.len - LQ_MESSAGE_LEN_BYTES - 1;
        fixed = whole - sample->message.len;
        for (size_t len = 0; len <= whole + 1; len++) {
            bool is_whole = len == whole || (has_bytes(kind) && len >= fixed);
            ck_assert_msg(accepts(out.bytes + LQ_MESSAGE_LEN_BYTES, len) == is_whole,
                          "kind %u with %zu of %zu bytes", kind, len, whole);
        }
        lq_buffer_done(&out);
    }
}
END_TEST

START_TEST(reserved_bytes_must_be_zero)
{
    struct lq_rand rand = lq_rand_of(seed, 3);
    for (uint8_t kind = 1; kind <= KINDS; kind++) {
        struct lq_buffer out;
        (void)drawn(&rand, kind, &out);
        for (size_t bit = 8; bit < 32; bit++) {
            uint8_t *at = out.bytes + LQ_MESSAGE_LEN_BYTES + bit / 8;
            *at = (uint8_t)(1U << bit % 8);
            ck_assert(!accepts(out.bytes + LQ_MESSAGE_LEN_BYTES, out.len - LQ_MESSAGE_LEN_BYTES));
            *at = 0;
        }
        ck_assert(accepts(out.bytes + LQ_MESSAGE_LEN_BYTES, out.len - LQ_MESSAGE_LEN_BYTES));
        lq_buffer_done(&out);
    }
}
END_TEST

START_TEST(unknown_flags_are_refused)
{
    static const struct {
        uint8_t kind, known;
    } flagged[] = {{LQ_MESSAGE_VOTE, 3}, {LQ_MESSAGE_VOTE_RESULT, 3}, {LQ_MESSAGE_CHUNK_RESULT, 1}};
    struct lq_rand rand = lq_rand_of(seed, 4);
    for (size_t i = 0; i < sizeof flagged / sizeof *flagged; i++) {
        struct lq_buffer out;
        (void)drawn(&rand, flagged[i].kind, &out);
        for (unsigned flags = 0; flags <= UINT8_MAX; flags++) {
            out.bytes[out.len - 1] = (uint8_t)flags; /* they come last */
            ck_assert_int_eq(
                accepts(out.bytes + LQ_MESSAGE_LEN_BYTES, out.len - LQ_MESSAGE_LEN_BYTES),
                (flags & ~(unsigned)flagged[i].known) == 0);
        }
        lq_buffer_done(&out);
    }
}
END_TEST

START_TEST(unknown_kinds_are_refused)
{
    for (unsigned kind = 0; kind <= UINT8_MAX; kind++) {
        for (size_t len = NUMBERS_AT; len < 100; len++) {
            uint8_t body[100] = {(uint8_t)kind};
            ck_assert(!accepts(body, len) || (kind >= 1 && kind <= KINDS));
        }
    }
}
END_TEST

/* ---- Counts and lengths that lie: four bytes of an APPEND of two entries or an OUTCOMES of two
 * outcomes are changed. */

static const struct {
    size_t at;
    const char *why;
    uint32_t value;
    uint8_t kind;
} lies[] = {
    {COUNT_AT, "entries that nobody counted", 0, LQ_MESSAGE_APPEND},
    {COUNT_AT, "an entry too few", 1, LQ_MESSAGE_APPEND},
    {COUNT_AT, "an entry too many", 3, LQ_MESSAGE_APPEND},
    {COUNT_AT, "entries without end", UINT32_MAX, LQ_MESSAGE_APPEND},
    {LEN_AT, "an entry cut to nothing", 0, LQ_MESSAGE_APPEND},
    {LEN_AT, "an entry cut by a byte", 39, LQ_MESSAGE_APPEND},
    {LEN_AT, "an entry longer by a byte", 41, LQ_MESSAGE_APPEND},
    {LEN_AT, "an entry that takes in the next one", 101, LQ_MESSAGE_APPEND},
    {LEN_AT, "an entry without end", UINT32_MAX, LQ_MESSAGE_APPEND},
    {OUTCOMES_AT, "outcomes that nobody counted", 0, LQ_MESSAGE_OUTCOMES},
    {OUTCOMES_AT, "an outcome too few", 1, LQ_MESSAGE_OUTCOMES},
    {OUTCOMES_AT, "an outcome too many", 3, LQ_MESSAGE_OUTCOMES},
    {OUTCOMES_AT, "outcomes without end", UINT32_MAX, LQ_MESSAGE_OUTCOMES},
    {OUTCOMES_AT + 4, "an outcome of kind 0", 0, LQ_MESSAGE_OUTCOMES},
    {OUTCOMES_AT + 4, "an outcome of kind 16", UINT32_C(16) << 24, LQ_MESSAGE_OUTCOMES},
    {OUTCOMES_AT + 30, "a second outcome of kind 255", UINT32_MAX, LQ_MESSAGE_OUTCOMES},
};

START_TEST(lies_are_refused)
{
    struct sample sample = {.message = {.kind = lies[_i].kind, .count = 2},
                            .entries = {{.len = 40}, {.len = 40}},
                            .outcomes = {{.kind = 1}, {.kind = 15}}};
    struct lq_buffer out;
    struct lq_writer writer;
    sample.entries[0].bytes = sample.entries[1].bytes = sample.bytes[0];
    lq_buffer_init(&out);
    put(&out, &sample);
    ck_assert(accepts(out.bytes + LQ_MESSAGE_LEN_BYTES, out.len - LQ_MESSAGE_LEN_BYTES));
    writer = lq_writer_of(out.bytes + LQ_MESSAGE_LEN_BYTES + lies[_i].at, 4);
    lq_write_u32(&writer, lies[_i].value);
    ck_assert_msg(!accepts(out.bytes + LQ_MESSAGE_LEN_BYTES, out.len - LQ_MESSAGE_LEN_BYTES),
                  "%s: accepted", lies[_i].why);
    lq_buffer_done(&out);
}
END_TEST

START_TEST(an_entry_takes_what_is_said)
{
    struct sample sample = {.message = {.kind = LQ_MESSAGE_APPEND}};
    struct lq_buffer out;
    lq_buffer_init(&out);
    sample.entries[0] = (struct lq_message_entry){.len = 17, .bytes = sample.bytes[0]};
    put(&out, &sample);
    ck_assert_uint_eq(out.len, LQ_MESSAGE_LEN_BYTES + ENTRY_AT);
    out.len = 0;
    sample.message.count = 1;
    put(&out, &sample);
    ck_assert_uint_eq(out.len, LQ_MESSAGE_LEN_BYTES + ENTRY_AT + lq_message_entry_bytes(17));
    lq_buffer_done(&out);
}
END_TEST

/* ---- The largest body. */

static void put_submit(struct lq_buffer *out, size_t len)
{
    struct lq_message message = {.kind = LQ_MESSAGE_SUBMIT, .len = len};
    uint8_t *bytes = lq_calloc(len, 1);
    message.bytes = bytes;
    lq_message_put(out, &message, NULL, NULL);
    lq_free(bytes);
}

START_TEST(the_largest_body_is_read)
{
    struct lq_buffer out;
    lq_buffer_init(&out);
    put_submit(&out, LQ_MESSAGE_MAX - NUMBERS_AT - 8);
    ck_assert_uint_eq(out.len, LQ_MESSAGE_LEN_BYTES + LQ_MESSAGE_MAX);
    ck_assert(accepts(out.bytes + LQ_MESSAGE_LEN_BYTES, LQ_MESSAGE_MAX));
    lq_buffer_add(&out, "", 1);
    ck_assert(!accepts(out.bytes + LQ_MESSAGE_LEN_BYTES, LQ_MESSAGE_MAX + 1));
    lq_buffer_done(&out);
}
END_TEST

START_TEST(a_larger_body_is_a_bug)
{
    struct lq_buffer out;
    lq_buffer_init(&out);
    put_submit(&out, LQ_MESSAGE_MAX - NUMBERS_AT - 7);
}
END_TEST

/* ---- Bytes that only look like messages. */

START_TEST(changed_bytes_are_refused_or_written_the_same)
{
    struct lq_rand rand = lq_rand_of(seed, 5);
    for (uint64_t round = 0; round < lq_test_number("LQ_OPS", 20000); round++) {
        struct lq_buffer out;
        uint8_t kind = (uint8_t)(1 + lq_rand_below(&rand, KINDS));
        (void)drawn(&rand, kind, &out);
        for (uint64_t i = lq_rand_below(&rand, 4); i < 4; i++) {
            size_t at = LQ_MESSAGE_LEN_BYTES + lq_rand_below(&rand, out.len - LQ_MESSAGE_LEN_BYTES);
            out.bytes[at] = (uint8_t)(out.bytes[at] ^ 1U << lq_rand_below(&rand, 8));
        }
        (void)accepts(out.bytes + LQ_MESSAGE_LEN_BYTES, out.len - LQ_MESSAGE_LEN_BYTES);
        lq_buffer_done(&out);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("message");
    TCase *tests = tcase_create("message");
    seed = lq_test_seed();
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, what_is_written_is_read);
    tcase_add_test(tests, cut_off_or_longer_bodies_are_refused);
    tcase_add_test(tests, reserved_bytes_must_be_zero);
    tcase_add_test(tests, unknown_flags_are_refused);
    tcase_add_test(tests, unknown_kinds_are_refused);
    tcase_add_loop_test(tests, lies_are_refused, 0, (int)(sizeof lies / sizeof *lies));
    tcase_add_test(tests, an_entry_takes_what_is_said);
    tcase_add_test(tests, the_largest_body_is_read);
    tcase_add_test_raise_signal(tests, a_larger_body_is_a_bug, SIGABRT);
    tcase_add_test(tests, changed_bytes_are_refused_or_written_the_same);
    suite_add_tcase(suite, tests);
    return lq_test_run(suite);
}
