/* Origins: who may send commands, and that each command takes effect exactly once. */
#include "lq_test.h"
#include "support/table_rig.h"

static struct lq_table_rig rig;

static void setup(void)
{
    lq_table_rig_init(&rig);
}

static void teardown(void)
{
    lq_table_rig_done(&rig);
}

#define DO(words, outcomes) ck_assert_str_eq(lq_table_rig_do(&rig, words), outcomes)

START_TEST(an_origin_that_was_never_opened_is_skipped)
{
    DO("A 3/1 0 5 7 k; R 3/1 1 k; K 3/1 5 1 k; C 3/1 1; F 3/1 k",
       "3/1 skipped; 3/1 skipped; 3/1 skipped; 3/1 skipped; 3/1 skipped");
    ck_assert_uint_eq(lq_table_counts(rig.table).keys, 0);
    DO("O 3; A 3/1 0 5 7 k", "3/0 opened; 3/1 granted 1");
}
END_TEST

START_TEST(only_the_next_seq_takes_effect)
{
    DO("A 1/0 0 5 7 k; A 1/2 0 5 7 k; A 1/18446744073709551615 0 5 7 k",
       "1/0 skipped; 1/2 skipped; 1/18446744073709551615 skipped");
    DO("A 1/1 0 5 7 k; A 1/1 0 5 7 k; A 1/3 0 5 7 k; R 1/1 1 k",
       "1/1 granted 1; 1/1 skipped; 1/3 skipped; 1/1 skipped");
    DO("R 1/2 1 k; R 1/2 1 k", "1/2 released; 1/2 skipped");
}
END_TEST

/* A refusal counts as applied; so does what only queued. */
START_TEST(every_outcome_uses_its_seq_up)
{
    DO("A 1/1 0 5 1 k; A 1/2 0 5 2 k; A 1/3 9 5 3 k; R 1/4 9 k; K 1/5 5 9 k; C 1/6 99; F 1/7 j",
       "1/1 granted 1; 1/2 timeout; 1/3 queued; 1/4 not held; 1/5 not held; 1/6 not queued; "
       "1/7 not held");
    DO("A 1/3 9 5 3 k; C 1/8 3; C 1/8 3; R 1/9 1 k",
       "1/3 skipped; 1/3 cancelled; 1/8 skipped; 1/9 released");
}
END_TEST

START_TEST(origins_have_seqs_of_their_own)
{
    DO("A 1/1 0 5 1 a; A 2/1 0 5 2 b; A 2/2 9 5 3 a; A 1/2 9 5 4 a",
       "1/1 granted 1; 2/1 granted 2; 2/2 queued; 1/2 queued");
    DO("C 1/3 2; R 2/3 1 a", "1/2 cancelled; 2/3 released; 2/2 granted 3");
}
END_TEST

START_TEST(opening_the_open_one_again_changes_nothing)
{
    DO("A 1/1 0 5 1 a; A 1/2 9 5 2 a; O 1; A 1/2 9 5 2 a; R 1/3 1 a",
       "1/1 granted 1; 1/2 queued; 1/0 opened; 1/2 skipped; 1/3 released; 1/2 granted 2");
}
END_TEST

START_TEST(a_closed_one_never_comes_back)
{
    DO("Q 1; O 1; A 1/1 0 5 1 a", "1/0 closed; 1/0 refused; 1/1 skipped");
    DO("O 1.2; O 1.1; O 1.2; A 1.2/1 0 5 1 a; A 1.1/2 0 5 1 b",
       "1.2/0 opened; 1/0 refused; 1.2/0 opened; 1.2/1 granted 1; 1/2 skipped");
    DO("Q 1.1; A 1.2/2 0 5 2 b", "1/0 closed; 1.2/2 granted 2");   /* the old one only */
    DO("Q 1.3; A 1.2/3 0 5 2 c", "1.3/0 closed; 1.2/3 granted 3"); /* not yet there */
    DO("O 1.3; O 1.2; A 1.3/1 0 5 2 d", "1.3/0 opened; 1.2/0 refused; 1.3/1 granted 4");
    DO("Q 5; O 5.0; A 5.0/1 0 5 1 e", "5/0 closed; 5.0/0 opened; 5.0/1 granted 5");
}
END_TEST

/* A higher incarnation closes the one before, and begins with seq 1. */
START_TEST(a_new_incarnation_replaces_the_old)
{
    DO("A 1/1 0 5 1 a; A 1/2 9 5 2 a; A 2/1 9 5 3 a; A 1/3 9 5 4 a",
       "1/1 granted 1; 1/2 queued; 2/1 queued; 1/3 queued");
    DO("O 1.9; A 1.9/4 0 5 5 b; C 1/4 2", "1.9/0 opened; 1.9/4 skipped; 1/4 skipped");
    ck_assert_uint_eq(lq_table_counts(rig.table).waiters, 1);
    DO("C 1.9/1 2; C 1.9/2 3; R 1.9/3 1 a",
       "1.9/1 not queued; 1.9/2 not queued; 1.9/3 released; 2/1 granted 2");
}
END_TEST

/* Nothing is handed to the dead; what they hold stays until it is released or expires. */
START_TEST(closing_removes_the_waiters_only)
{
    DO("A 1/1 0 5 1 a; A 1/2 9 5 2 a; A 2/1 9 5 3 a; A 1/3 9 5 4 a; A 2/2 0 5 5 b; A 1/4 9 5 6 b",
       "1/1 granted 1; 1/2 queued; 2/1 queued; 1/3 queued; 2/2 granted 2; 1/4 queued");
    DO("Q 1", "1/0 closed");
    ck_assert_uint_eq(lq_table_counts(rig.table).waiters, 1);
    ck_assert_uint_eq(lq_table_counts(rig.table).keys, 2);
    DO("A 2/3 0 5 7 a; R 2/4 1 a; R 2/5 2 b; R 2/6 3 a",
       "2/3 timeout; 2/4 released; 2/1 granted 3; 2/5 released; 2/6 released");
    ck_assert_uint_eq(lq_table_counts(rig.table).state_bytes, 0);
}
END_TEST

START_TEST(closing_twice_is_closed)
{
    DO("Q 1; Q 1; Q 4; A 1/1 0 5 1 a", "1/0 closed; 1/0 closed; 4/0 closed; 1/1 skipped");
    DO("O 4; A 4/1 0 5 1 a", "4/0 opened; 4/1 granted 1"); /* it was never there */
}
END_TEST

/* Grants of an incarnation that is gone expire and are released like any other. */
START_TEST(grants_outlive_their_origin)
{
    DO("A 1/1 0 1 1 a; A 1/2 0 1 2 b; O 1.2; R 1.2/1 1 a",
       "1/1 granted 1; 1/2 granted 2; 1.2/0 opened; 1.2/1 released");
    ck_assert_str_eq(lq_table_rig_after(&rig, 1001, "X 2 b"), "expired");
}
END_TEST

static Suite *table_origins_suite(void)
{
    Suite *suite = suite_create("table_origins");
    TCase *tcase = tcase_create("origins");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, an_origin_that_was_never_opened_is_skipped);
    tcase_add_test(tcase, only_the_next_seq_takes_effect);
    tcase_add_test(tcase, every_outcome_uses_its_seq_up);
    tcase_add_test(tcase, origins_have_seqs_of_their_own);
    tcase_add_test(tcase, opening_the_open_one_again_changes_nothing);
    tcase_add_test(tcase, a_closed_one_never_comes_back);
    tcase_add_test(tcase, a_new_incarnation_replaces_the_old);
    tcase_add_test(tcase, closing_removes_the_waiters_only);
    tcase_add_test(tcase, closing_twice_is_closed);
    tcase_add_test(tcase, grants_outlive_their_origin);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(table_origins_suite());
}
