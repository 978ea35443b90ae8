/* The state digest: it tells states apart by each of their fields, does not depend on what is not
 * state, and is the same on every machine. That the kept digest equals the recomputed one is
 * checked after each command, here by the rig and in test_table_model.c. */
#include "lq_test.h"
#include "support/table_rig.h"

#include <stdio.h>

/* The digest after these commands, at this time. */
static uint64_t digest_at(uint64_t time_ms, const char *words)
{
    struct lq_table_rig rig;
    uint64_t digest;
    lq_table_rig_init(&rig);
    rig.stamp.time_ms = time_ms;
    (void)lq_table_rig_do(&rig, words);
    digest = lq_table_digest(rig.table);
    ck_assert_uint_eq(digest, lq_table_digest_recomputed(rig.table));
    lq_table_rig_done(&rig);
    return digest;
}

#define BASE "A 1 0 5 7 key; A 1 9 6 8 key; A 2 9 7 9 key; A 1 9 8 10 key"

/* Each differs from BASE in one thing. */
static const char *const others[] = {
    "",
    "A 1 0 5 7 kez; A 1 9 6 8 kez; A 2 9 7 9 kez; A 1 9 8 10 kez",  /* key */
    "A 1 0 5 1 key; A 1 9 6 8 key; A 2 9 7 9 key; A 1 9 8 10 key",  /* owner of the holder */
    "A 1 0 4 7 key; A 1 9 6 8 key; A 2 9 7 9 key; A 1 9 8 10 key",  /* its lease */
    "A 1 0 5 7 key; A 1 9 6 1 key; A 2 9 7 9 key; A 1 9 8 10 key",  /* owner of a waiter */
    "A 1 0 5 7 key; A 1 9 5 8 key; A 2 9 7 9 key; A 1 9 8 10 key",  /* its lease */
    "A 1 0 5 7 key; A 2 9 7 9 key; A 1 9 6 8 key; A 1 9 8 10 key",  /* order of the queue */
    "A 1 0 5 7 key; A 1 9 6 8 key; A 1 9 8 10 key; A 2 9 7 9 key",  /* its other end */
    "A 2 0 5 7 key; A 1 9 6 8 key; A 2 9 7 9 key; A 1 9 8 10 key",  /* who was granted */
    "A 1 0 5 7 key; A 1 9 6 8 key; A 2 9 7 9 key",                  /* number of waiters */
    BASE "; A 1 0 5 9 key",                                         /* a seq used up */
    BASE "; A 1 0 5 9 j; R 1 2 j",                                  /* last token */
    BASE "; O 3",                                                   /* an origin more */
    BASE "; Q 3; O 3; Q 3",                                         /* and closed */
    BASE "; O 3.2",                                                 /* its incarnation */
    BASE "; O 3; O 4; A 3 0 5 9 key; A 4 0 5 9 key; A 3 0 5 9 key", /* their seqs */
    BASE "; O 3; O 4; A 3 0 5 9 key; A 4 0 5 9 key; A 4 0 5 9 key",
    BASE "; K 1 6 1 key", /* renewed */
};

START_TEST(tells_states_apart)
{
    uint64_t digests[sizeof others / sizeof *others + 2];
    size_t n = 0;
    digests[n++] = digest_at(1000, BASE);
    digests[n++] = digest_at(1001, BASE);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        digests[n++] = digest_at(1000, others[i]);
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            ck_assert_msg(digests[i] != digests[j], "states %zu and %zu have one digest", i, j);
        }
    }
}
END_TEST

/* Keys registered in another order, or through a queue of another shape, but the same state. */
START_TEST(does_not_depend_on_the_way)
{
    ck_assert_uint_eq(digest_at(1000, "O 4; O 3; O 5"), digest_at(1000, "O 5; O 3; O 4"));
    ck_assert_uint_eq(digest_at(1000, "O 3; Q 3; O 3.2"), digest_at(1000, "O 3.2"));
    ck_assert_uint_eq(digest_at(1000, "A 1 0 5 7 k; A 1 9 5 8 k; C 1 2"),
                      digest_at(1000, "A 1 0 5 7 k; A 1 0 5 8 k; C 1 2"));
    ck_assert_uint_eq(digest_at(1000, "A 1 0 5 7 k; A 1 9 5 8 k; A 2 9 5 9 k; A 1 9 5 9 k; C 1 2"),
                      digest_at(1000, "A 1 0 5 7 k; A 1 0 5 8 k; A 2 9 5 9 k; A 1 9 5 9 k; C 1 2"));
}
END_TEST

/* Refusals that change nothing but seqs; and an expire that does nothing. */
START_TEST(what_has_no_effect_shows_only_in_seqs)
{
    ck_assert_uint_eq(digest_at(1000, BASE), digest_at(1000, BASE "; X 1 key; X 9 key; X 1 j"));
    ck_assert_uint_eq(digest_at(1000, BASE), digest_at(1000, BASE "; A 1/1 0 5 7 k; R 3/1 1 key"));
    ck_assert_uint_eq(digest_at(1000, BASE "; R 1 9 key"), digest_at(1000, BASE "; K 1 5 1 key"));
}
END_TEST

/* Many keys, so that the maps have grown, in two orders and under two secrets. */
START_TEST(does_not_depend_on_secret_or_map)
{
    uint64_t digests[2];
    for (int which = 0; which < 2; which++) {
        const uint8_t secret[16] = {(uint8_t)(which * 77 + 1)};
        struct lq_table *table = lq_table_new(secret, 1);
        struct lq_stamp stamp = {.time_ms = 5, .caps = lq_table_rig_no_caps()};
        struct lq_outcomes outcomes;
        struct lq_command command = {.type = LQ_COMMAND_ORIGIN_OPEN,
                                     .origin = {.node = 7, .incarnation = 3}};
        lq_outcomes_init(&outcomes);
        lq_table_apply(table, &command, &stamp, &outcomes);
        for (int i = 0; i < 3000; i++) {
            char key[16];
            int len = snprintf(key, sizeof key, "%d", i * 7919 % 1000);
            command = (struct lq_command){.type = LQ_COMMAND_ACQUIRE,
                                          .wait_s = 9,
                                          .lease_s = 5,
                                          .key_len = (uint16_t)len,
                                          .origin = command.origin,
                                          .seq = command.seq + 1,
                                          .owner = (uint64_t)i,
                                          .key = (const uint8_t *)key};
            lq_table_apply(table, &command, &stamp, &outcomes);
        }
        digests[which] = lq_table_digest(table);
        ck_assert_uint_eq(digests[which], lq_table_digest_recomputed(table));
        lq_outcomes_done(&outcomes);
        lq_table_free(table);
    }
    ck_assert_uint_eq(digests[0], digests[1]);
}
END_TEST

/* A digest is compared between versions and machines: it must not change unnoticed. */
START_TEST(has_a_fixed_value)
{
    ck_assert_uint_eq(digest_at(1000, BASE), UINT64_C(16026286668612992767));
}
END_TEST

static Suite *table_digest_suite(void)
{
    Suite *suite = suite_create("table_digest");
    TCase *tcase = tcase_create("digest");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, tells_states_apart);
    tcase_add_test(tcase, does_not_depend_on_the_way);
    tcase_add_test(tcase, what_has_no_effect_shows_only_in_seqs);
    tcase_add_test(tcase, does_not_depend_on_secret_or_map);
    tcase_add_test(tcase, has_a_fixed_value);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(table_digest_suite());
}
