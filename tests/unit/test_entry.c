/* Log entries: what is written is read back, in any mix of segments; a segment copied into an entry
 * is the same as one written there; and no bytes whatever are read beyond their end or believed
 * without a check. */
#include "lq_entry.h"
#include "lq_key.h"
#include "lq_limits.h"
#include "lq_mem.h"
#include "lq_test.h"

#include <string.h>

static uint64_t seed;

static const struct lq_stamp stamp = {
    .time_ms = UINT64_C(0x0102030405060708),
    .caps = {.keys = 1, .waiters_per_key = 2, .waiters = 3, .state_bytes = UINT64_MAX}};
static const struct lq_origin_id origin = {.node = 7, .incarnation = UINT64_C(0x1122334455667788)};
static const struct lq_origin_id nobody = {0};

static const uint8_t origin_types[] = {LQ_COMMAND_ACQUIRE, LQ_COMMAND_RELEASE, LQ_COMMAND_RENEW,
                                       LQ_COMMAND_CANCEL, LQ_COMMAND_FORCE_RELEASE};
static const uint8_t leader_types[] = {LQ_COMMAND_EXPIRE, LQ_COMMAND_ORIGIN_OPEN,
                                       LQ_COMMAND_ORIGIN_CLOSE};

/* A valid command of that type with every field that it has; `key` is where its key goes. */
static struct lq_command draw(struct lq_rand *rand, uint8_t type, uint8_t key[LQ_KEY_MAX])
{
    struct lq_command command = {.type = type};
    bool has_key = type != LQ_COMMAND_CANCEL && type != LQ_COMMAND_ORIGIN_OPEN &&
                   type != LQ_COMMAND_ORIGIN_CLOSE;
    if (has_key) {
        size_t max = lq_rand_below(rand, 8) == 0 ? LQ_KEY_MAX : 40;
        command.key_len = (uint16_t)(1 + lq_rand_below(rand, max));
        memset(key, 'a' + (int)lq_rand_below(rand, 26), command.key_len);
        command.key = key;
    }
    if (type == LQ_COMMAND_ACQUIRE) {
        command.wait_s = (uint8_t)lq_rand_next(rand);
        command.owner = lq_rand_next(rand);
    }
    if (type == LQ_COMMAND_ACQUIRE || type == LQ_COMMAND_RENEW) {
        command.lease_s = (uint8_t)(1 + lq_rand_below(rand, 255));
    }
    if (type == LQ_COMMAND_RELEASE || type == LQ_COMMAND_RENEW || type == LQ_COMMAND_EXPIRE) {
        command.token = lq_rand_next(rand);
    }
    if (type == LQ_COMMAND_CANCEL) {
        command.target = lq_rand_next(rand);
    }
    if (type == LQ_COMMAND_ORIGIN_OPEN || type == LQ_COMMAND_ORIGIN_CLOSE) {
        command.origin.node = (uint32_t)lq_rand_next(rand);
        command.origin.incarnation = lq_rand_next(rand);
    }
    return command;
}

static void assert_equal(const struct lq_command *got, const struct lq_command *wanted)
{
    ck_assert_uint_eq(got->type, wanted->type);
    ck_assert_uint_eq(got->wait_s, wanted->wait_s);
    ck_assert_uint_eq(got->lease_s, wanted->lease_s);
    ck_assert_uint_eq(got->origin.node, wanted->origin.node);
    ck_assert_uint_eq(got->origin.incarnation, wanted->origin.incarnation);
    ck_assert_uint_eq(got->seq, wanted->seq);
    ck_assert_uint_eq(got->owner, wanted->owner);
    ck_assert_uint_eq(got->token, wanted->token);
    ck_assert_uint_eq(got->target, wanted->target);
    ck_assert_uint_eq(got->key_len, wanted->key_len);
    if (wanted->key_len > 0) {
        ck_assert_mem_eq(got->key, wanted->key, wanted->key_len);
    }
}

#define COMMANDS 200

/* About as many are in an entry; LQ_OPS counts commands. */
#define COMMANDS_USUAL 10

/* What was written, to be compared with what is read. */
struct script {
    struct lq_command commands[COMMANDS];
    uint8_t keys[COMMANDS][LQ_KEY_MAX];
    size_t n;
};

/* Fills a segment of either kind with a few random commands and notes them as they should be read.
 */
static void write_segment(struct lq_buffer *out, struct lq_rand *rand, enum lq_segment_kind kind,
                          uint64_t first_seq, struct script *script)
{
    bool is_origins = kind == LQ_SEGMENT_ORIGIN;
    size_t at =
        lq_segment_begin(out, kind, is_origins ? origin : nobody, is_origins ? first_seq : 0);
    size_t n = 1 + lq_rand_below(rand, 8);
    for (size_t i = 0; i < n; i++) {
        uint8_t type = is_origins ? origin_types[lq_rand_below(rand, sizeof origin_types)]
                                  : leader_types[lq_rand_below(rand, sizeof leader_types)];
        struct lq_command *command = &script->commands[script->n];
        *command = draw(rand, type, script->keys[script->n]);
        if (is_origins) {
            command->origin = origin;
            command->seq = first_seq + i;
        }
        lq_segment_add(out, at, command);
        script->n++;
    }
}

/* An entry of several segments, some written in place, some copied from a buffer of their own. */
static void write_entry(struct lq_buffer *out, struct lq_rand *rand, struct script *script)
{
    size_t n = lq_rand_below(rand, 5);
    script->n = 0;
    lq_entry_begin(out, &stamp);
    for (size_t i = 0; i < n; i++) {
        enum lq_segment_kind kind =
            lq_rand_below(rand, 3) == 0 ? LQ_SEGMENT_LEADER : LQ_SEGMENT_ORIGIN;
        struct lq_buffer copy;
        lq_buffer_init(&copy);
        write_segment(&copy, rand, kind, 1 + lq_rand_below(rand, 1000), script);
        lq_buffer_add(out, copy.bytes, copy.len);
        lq_entry_count_segment(out);
        lq_buffer_done(&copy);
    }
}

START_TEST(what_is_written_is_read)
{
    static struct script script;
    struct lq_rand rand = lq_rand_of(seed, 1);
    for (uint64_t round = 0; round < lq_test_number("LQ_OPS", 20000) / COMMANDS_USUAL; round++) {
        struct lq_buffer out;
        struct lq_commands commands;
        struct lq_command command;
        lq_buffer_init(&out);
        write_entry(&out, &rand, &script);
        ck_assert(lq_entry_open(&commands, out.bytes, out.len));
        ck_assert_mem_eq(&commands.stamp, &stamp, sizeof stamp);
        for (size_t i = 0; i < script.n; i++) {
            ck_assert_int_eq(lq_commands_next(&commands, &command), LQ_COMMANDS_ONE);
            assert_equal(&command, &script.commands[i]);
        }
        ck_assert_int_eq(lq_commands_next(&commands, &command), LQ_COMMANDS_END);
        lq_buffer_done(&out);
    }
}
END_TEST

/* The format is a promise to logs on disks: these bytes must stay what they are. */
START_TEST(the_bytes_are_as_documented)
{
    static const uint8_t wanted[] = {
        1,    0,    0,    0,    0,    0,    0,    1, /* version, segments */
        1,    2,    3,    4,    5,    6,    7,    8, /* time */
        0,    0,    0,    0,    0,    0,    0,    1,    0,    0,    0,    0,    0,    0,
        0,    2, /* caps */
        0,    0,    0,    0,    0,    0,    0,    3,    0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 1,    0,    0,    0,    0,    0,    0,    7, /* kind, node */
        0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,          /* incarnation */
        0,    0,    0,    0,    0,    0,    0,    5,             /* first seq */
        0,    0,    0,    1,    0,    0,    0,    14,            /* commands, len */
        1,    10,   30,   0,    0,    0,    0,    0,    0,    0,    9,    0,    1,    'k'};
    struct lq_command command = {.type = LQ_COMMAND_ACQUIRE,
                                 .wait_s = 10,
                                 .lease_s = 30,
                                 .owner = 9,
                                 .key_len = 1,
                                 .key = (const uint8_t *)"k"};
    struct lq_buffer out;
    lq_buffer_init(&out);
    lq_entry_begin(&out, &stamp);
    lq_segment_add(&out, lq_segment_begin(&out, LQ_SEGMENT_ORIGIN, origin, 5), &command);
    lq_entry_count_segment(&out);
    ck_assert_uint_eq(out.len, sizeof wanted);
    ck_assert_mem_eq(out.bytes, wanted, sizeof wanted);
    lq_buffer_done(&out);
}
END_TEST

/* Reads all; true when the end was reached without a fault. */
static bool reads(const uint8_t *bytes, size_t len)
{
    struct lq_commands commands;
    struct lq_command command;
    enum lq_commands_next next = LQ_COMMANDS_BAD;
    if (lq_entry_open(&commands, bytes, len)) {
        do {
            next = lq_commands_next(&commands, &command);
        } while (next == LQ_COMMANDS_ONE);
    }
    return next == LQ_COMMANDS_END;
}

/* No proper prefix is an entry, and no entry with something behind it. Each is in memory of exactly
 * its size. */
START_TEST(cut_off_or_longer_entries_are_refused)
{
    static struct script script;
    struct lq_rand rand = lq_rand_of(seed, 2);
    struct lq_buffer out;
    lq_buffer_init(&out);
    do {
        out.len = 0;
        write_entry(&out, &rand, &script);
    } while (script.n < 5);
    for (size_t len = 0; len <= out.len + 1; len++) {
        uint8_t *bytes = lq_calloc(len, 1);
        memcpy(bytes, out.bytes, len < out.len ? len : out.len);
        ck_assert_int_eq(reads(bytes, len), len == out.len);
        lq_free(bytes);
    }
    lq_buffer_done(&out);
}
END_TEST

/* One ACQUIRE `k`: a byte of it is changed to something that must be refused. */
static const struct {
    size_t at;
    uint8_t value;
    const char *why;
} faults[] = {
    {0, 2, "an unknown version"},
    {1, 1, "a reserved byte"},
    {48, 3, "an unknown kind of segment"},
    {48, 2, "a leader's segment with an origin"},
    {49, 1, "a reserved byte of a segment"},
    {71, 0, "a first seq of 0"},
    {75, 0, "a segment without commands"},
    {75, 2, "more commands than there are"},
    {75, 15, "more commands than bytes"},
    {76, 1, "a length beyond the end"},
    {79, 13, "a length that cuts a command"},
    {80, 5, "a leader's command from an origin"},
    {80, 9, "an unknown command"},
    {82, 0, "a lease of 0"},
    {91, 4, "a key beyond the end"},
    {92, 0, "an empty key"},
    {93, 0xff, "a key that is not UTF-8"},
    {93, '\n', "a key with a line feed"},
};

START_TEST(faults_are_refused)
{
    struct lq_command command = {
        .type = LQ_COMMAND_ACQUIRE, .lease_s = 1, .key_len = 1, .key = (const uint8_t *)"k"};
    struct lq_buffer out;
    lq_buffer_init(&out);
    lq_entry_begin(&out, &stamp);
    lq_segment_add(&out, lq_segment_begin(&out, LQ_SEGMENT_ORIGIN, origin, 1), &command);
    lq_entry_count_segment(&out);
    ck_assert(reads(out.bytes, out.len));
    out.bytes[faults[_i].at] = faults[_i].value;
    ck_assert_msg(!reads(out.bytes, out.len), "%s was accepted", faults[_i].why);
    lq_buffer_done(&out);
}
END_TEST

START_TEST(sequence_numbers_do_not_run_over)
{
    struct lq_command command = {.type = LQ_COMMAND_CANCEL, .target = 1};
    struct lq_buffer out;
    struct lq_commands commands;
    size_t at;
    lq_buffer_init(&out);
    at = lq_segment_begin(&out, LQ_SEGMENT_ORIGIN, origin, UINT64_MAX);
    lq_segment_add(&out, at, &command);
    ck_assert(!lq_segment_open(&commands, out.bytes, out.len));
    lq_buffer_done(&out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("entry");
    TCase *tests = tcase_create("entry");
    seed = lq_test_seed();
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, what_is_written_is_read);
    tcase_add_test(tests, the_bytes_are_as_documented);
    tcase_add_test(tests, cut_off_or_longer_entries_are_refused);
    tcase_add_loop_test(tests, faults_are_refused, 0, (int)(sizeof faults / sizeof *faults));
    tcase_add_test(tests, sequence_numbers_do_not_run_over);
    suite_add_tcase(suite, tests);
    return lq_test_run(suite);
}
