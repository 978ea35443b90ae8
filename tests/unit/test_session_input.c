/* Bytes into sessions: however they are split, the same happens; faulty frames are answered with
 * their code after what came before them, and nothing behind them is executed. */
#include "lq_limits.h"
#include "lq_test.h"
#include "support/session_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct lq_rig *rig;
static struct lq_rig_client *a, *b;

static void setup(void)
{
    rig = lq_rig_new(NULL);
    a = lq_rig_connect(rig);
    b = lq_rig_connect(rig);
}

static void teardown(void)
{
    lq_rig_free(rig);
}

/* ---- Splits. */

/* All ops, keys of many lengths, header bytes that are line feeds (owner, token and lease 10), and
 * things that depend on their order. The last acquire waits. */
static struct lq_rig_bytes conversation(const char *end, size_t end_len)
{
    struct lq_rig_bytes bytes = {0};
    char words[2 * LQ_KEY_MAX];
    char key[LQ_KEY_MAX + 1];
    memset(key, 'k', sizeof key);
    (void)snprintf(words, sizeof words, "A 0 5 3 %.*s", LQ_KEY_MAX, key);
    lq_rig_encode(&bytes, "A 10 10 723401728380766730 k; P 723401728380766730; R 1 k; K 10 1 k");
    lq_rig_encode(&bytes, words);
    lq_rig_encode(&bytes, "A 9 5 1 j; A 9 5 2 j; C 2 j; C 2 j; K 10 3 j; R 723401728380766730 j");
    lq_rig_encode(&bytes, "A 0 5 9 j; R 3 j; A 0 9 10 j; P 10; A 10 10 10 j");
    lq_rig_append(&bytes, end, end_len);
    return bytes;
}

static const char *const ends[] = {"", "A", "?", "A\x0A\x0A", "R\n\n\n\n\n\n\n\n\n", "P 1234567x"};
#define N_ENDS (sizeof ends / sizeof *ends)

/* What a fresh server answers to the conversation when it comes in the pieces that `cut` names: a
 * piece ends behind each byte whose bit is set; `turns` between them or not. */
static char *answers_to(const struct lq_rig_bytes *bytes, const uint8_t *cut, bool with_turns)
{
    struct lq_rig *fresh = lq_rig_new(NULL);
    struct lq_rig_client *client = lq_rig_connect(fresh);
    char *answers;
    size_t from = 0;
    for (size_t at = 0; at < bytes->len; at++) {
        if (cut[at] != 0 || at + 1 == bytes->len) {
            lq_session_input(client->session, bytes->at + from, at + 1 - from);
            from = at + 1;
            if (with_turns) {
                lq_rig_turn(fresh);
            }
        }
        if (client->session == NULL) {
            break;
        }
    }
    lq_rig_send_eof(client);
    lq_rig_go(fresh);
    answers = strdup(lq_rig_hear(client));
    lq_rig_free(fresh);
    return answers;
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* The answers in an order that does not depend on when they came. */
static char *sorted(char *answers)
{
    char *parts[64], *rest = answers, *text = calloc(1, strlen(answers) + 3), *end = text;
    size_t n = 0;
    for (char *part; n < 64 && (part = strsep(&rest, ";")) != NULL; n++) {
        parts[n] = part + strspn(part, " ");
    }
    qsort(parts, n, sizeof *parts, by_text);
    for (size_t i = 0; i < n; i++) {
        end = stpcpy(stpcpy(end, parts[i]), i + 1 < n ? ";" : "");
    }
    free(answers);
    return text;
}

/* Without turns in between, even the order of the answers is the same. */
START_TEST(any_cut_gives_the_same_answers)
{
    const char *end = ends[_i];
    struct lq_rig_bytes bytes = conversation(end, strlen(end));
    uint8_t *cut = calloc(1, bytes.len);
    char *whole = answers_to(&bytes, cut, false);
    ck_assert_uint_gt(strlen(whole), 100);
    for (size_t at = 0; at < bytes.len; at++) {
        char *answers;
        cut[at] = 1;
        answers = answers_to(&bytes, cut, false);
        ck_assert_str_eq(answers, whole);
        free(answers);
        cut[at] = 0;
    }
    free(whole);
    free(cut);
    free(bytes.at);
}
END_TEST

/* With turns between the pieces they are the same, in some order. */
START_TEST(any_pieces_give_the_same_answers)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    const char *end = ends[_i];
    struct lq_rig_bytes bytes = conversation(end, strlen(end));
    uint8_t *cut = calloc(1, bytes.len);
    char *whole = sorted(answers_to(&bytes, cut, true));
    for (int round = 0; round < 60; round++) {
        uint64_t pieces = 1 + lq_rand_below(&rand, 40);
        char *answers;
        for (size_t at = 0; at < bytes.len; at++) { /* the first round: byte by byte */
            cut[at] = round == 0 || lq_rand_below(&rand, bytes.len) < pieces;
        }
        answers = sorted(answers_to(&bytes, cut, true));
        ck_assert_str_eq(answers, whole);
        free(answers);
    }
    free(whole);
    free(cut);
    free(bytes.at);
}
END_TEST

/* Half a frame for ever costs nothing but itself; its rest makes it whole. */
START_TEST(half_a_frame_waits_for_its_rest)
{
    lq_rig_send(a, "A\0\x05\0\0\0\0\0\0\0\x07ke", 13);
    lq_rig_go(rig);
    lq_rig_say(b, "A 0 5 1 other");
    lq_rig_advance(rig, 1000000);
    LQ_HEARS(a, "");
    LQ_HEARS(b, "A 1 1 other");
    ck_assert(lq_session_wants_input(a->session));
    lq_rig_send(a, "y\n", 2);
    lq_rig_go(rig);
    LQ_HEARS(a, "A 2 7 key");
}
END_TEST

/* ---- Faults. */

/* A faulty frame and the code that answers it. */
struct fault {
    const char *bytes;
    size_t len;
    const char *answer;
};

#define FAULT(literal, code)                                                                       \
    {                                                                                              \
        literal, sizeof(literal) - 1, code                                                         \
    }
#define NUMBER "\0\0\0\0\0\0\0\x01"

static const struct fault faults[] = {
    FAULT("?", "E 1"),
    FAULT("\n", "E 1"),
    FAULT("\0", "E 1"),
    FAULT("\xFF", "E 1"),
    FAULT("a", "E 1"),
    FAULT("T", "E 1"),
    FAULT("B", "E 1"),
    FAULT("N", "E 1"),
    FAULT("E", "E 1"),
    FAULT("A\x01\x01" NUMBER "\n", "E 2"),
    FAULT("R" NUMBER "\n", "E 2"),
    FAULT("K\x01" NUMBER "\n", "E 2"),
    FAULT("C" NUMBER "\n", "E 2"),
    FAULT("P" NUMBER "x", "E 3"),
    FAULT("R" NUMBER "\xFF\n", "E 4"),
    FAULT("A\x01\x01" NUMBER "\xC3\n", "E 4"),
    FAULT("K\x01" NUMBER "\xED\xA0\x80\n", "E 4"),
    FAULT("C" NUMBER "a\xC0\x80\n", "E 4"),
    FAULT("A\x01\0", "E 5"),
    FAULT("K\0", "E 5"),
};
#define N_FAULTS (sizeof faults / sizeof *faults)

/* Whole, or byte by byte with turns between: what came before is answered, then E, then the close;
 * nothing behind it counts. */
START_TEST(a_fault_is_answered_with_its_code)
{
    const struct fault *fault = &faults[_i];
    struct lq_rig_client *clients[] = {a, b};
    for (int i = 0; i < 2; i++) {
        struct lq_rig_client *client = clients[i];
        lq_rig_say(client, "A 0 255 7 k%d", i);
        for (size_t at = 0; at < fault->len; at++) {
            lq_rig_send(client, fault->bytes + at, 1);
            if (i == 1) {
                lq_rig_turn(rig);
            }
        }
        lq_rig_say(client, "R %d k%d; A 0 5 8 never", i + 1, i);
        lq_rig_go(rig);
        ck_assert_str_eq(lq_rig_hear(client) + strlen("A 1 7 k0; "), fault->answer);
        ck_assert_int_eq(client->end, LQ_RIG_CLOSED);
    }
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 2);
    ck_assert_uint_eq(lq_hub_counters(rig->hub).errors, 2);
}
END_TEST

/* Too long as soon as 1025 bytes came without line feed; 1024 are fine. */
START_TEST(a_key_is_too_long_at_1025)
{
    char key[LQ_KEY_MAX + 1];
    memset(key, 'k', sizeof key);
    lq_rig_send(a, "R" NUMBER, 9);
    lq_rig_send(a, key, LQ_KEY_MAX);
    lq_rig_send(b, "R" NUMBER, 9);
    lq_rig_send(b, key, LQ_KEY_MAX);
    lq_rig_go(rig);
    LQ_HEARS(a, "");
    lq_rig_send(a, "k", 1);
    lq_rig_send(b, "\n", 1);
    lq_rig_go(rig);
    LQ_HEARS(a, "E 3");
    ck_assert_uint_eq(lq_rig_hear_count(b, LQ_OP_NOT_HELD), 1);
}
END_TEST

/* What the error says is a line for people. */
START_TEST(an_error_has_a_text)
{
    struct lq_frame answer;
    lq_rig_send(a, "?", 1);
    lq_rig_go(rig);
    ck_assert(lq_rig_next(a, &answer));
    ck_assert_uint_eq(answer.code, LQ_WIRE_UNKNOWN_OP);
    ck_assert_uint_gt(answer.key_len, 10);
}
END_TEST

/* The client's own cancel, ahead of the fault, has its answer; the cancels of the ending have none.
 */
START_TEST(a_cancel_before_a_bad_frame_is_answered)
{
    lq_rig_say(a, "A 0 5 1 k; A 9 5 2 k; A 9 5 3 k; C 2 k");
    lq_rig_send(a, "?", 1);
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k; T 2 k; E 1");
}
END_TEST

/* A grant that the frames before the fault brought about is told, even to its own queue. */
START_TEST(a_grant_before_a_bad_frame_is_answered)
{
    lq_rig_say(a, "A 0 5 1 k; A 9 5 2 k; A 9 5 3 k; R 1 k");
    lq_rig_send(a, "?", 1);
    lq_rig_go(rig);
    LQ_HEARS(a, "A 1 1 k; R 1 k; A 2 2 k; E 1");
    ck_assert_uint_eq(lq_rig_holder(rig, "k", 1), 2);
}
END_TEST

/* A client that sends on after its fault is not read any more. */
START_TEST(input_after_a_fault_is_ignored)
{
    lq_rig_set_window(a, 0);
    lq_rig_send(a, "?", 1);
    lq_rig_go(rig);
    ck_assert(!lq_session_wants_input(a->session));
    lq_session_input(a->session, (const uint8_t *)"P" NUMBER "\n", 10);
    lq_rig_go(rig);
    lq_rig_set_window(a, LQ_RIG_OPEN_WINDOW);
    LQ_HEARS(a, "E 1");
}
END_TEST

static Suite *session_input_suite(void)
{
    Suite *suite = suite_create("session_input");
    TCase *tcase = tcase_create("input");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, any_cut_gives_the_same_answers, 0, (int)N_ENDS);
    tcase_add_loop_test(tcase, any_pieces_give_the_same_answers, 0, (int)N_ENDS);
    tcase_add_test(tcase, half_a_frame_waits_for_its_rest);
    tcase_add_loop_test(tcase, a_fault_is_answered_with_its_code, 0, (int)N_FAULTS);
    tcase_add_test(tcase, a_key_is_too_long_at_1025);
    tcase_add_test(tcase, an_error_has_a_text);
    tcase_add_test(tcase, a_cancel_before_a_bad_frame_is_answered);
    tcase_add_test(tcase, a_grant_before_a_bad_frame_is_answered);
    tcase_add_test(tcase, input_after_a_fault_is_ignored);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(session_input_suite());
}
