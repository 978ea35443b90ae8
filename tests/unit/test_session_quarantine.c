/* Quarantine: after a restart nothing is granted until the locks of the run before have surely
 * ended. */
#include "lq_limits.h"
#include "lq_test.h"
#include "support/session_text.h"

static struct lq_rig *rig;
static struct lq_rig_client *a, *b, *c;

/* Begins with a quarantine of 3 s. */
static void begin(uint64_t waiters_max)
{
    struct lq_rig_options options = lq_rig_defaults();
    options.local.quarantine_s = 3;
    options.local.caps.waiters = waiters_max;
    rig = lq_rig_new(&options);
    a = lq_rig_connect(rig);
    b = lq_rig_connect(rig);
    c = lq_rig_connect(rig);
}

static void setup(void)
{
    begin(100);
}

static void teardown(void)
{
    lq_rig_free(rig);
}

START_TEST(quarantine_grants_nothing)
{
    lq_rig_say(a, "A 0 5 1 k; A 1 5 2 k; A 9 5 3 k; R 1 k; K 5 1 k; P 1");
    lq_rig_say(b, "A 9 5 4 k; A 2 5 5 j; A 9 5 6 i");
    lq_rig_go(rig);
    LQ_HEARS(a, "P 1; T 1 k; N 1 k; N 1 k");
    lq_rig_advance(rig, 1001);
    LQ_HEARS(a, "T 2 k");
    lq_rig_advance(rig, 1000);
    LQ_HEARS(b, "T 5 j");
    lq_rig_advance(rig, 999);
    LQ_HEARS(a, "");
    LQ_HEARS(b, "");
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 0);
    lq_rig_advance(rig, 1);
    LQ_HEARS(a, "A 1 3 k");
    LQ_HEARS(b, "A 2 6 i");
    lq_rig_say(c, "R 1 k; A 0 5 1 h");
    lq_rig_go(rig);
    LQ_HEARS(c, "R 1 k; A 4 1 h");
    LQ_HEARS(b, "A 3 4 k");
}
END_TEST

/* Who came out of quarantine into a queue still waits only as long as was asked for. */
START_TEST(quarantine_does_not_lengthen_waits)
{
    lq_rig_say(a, "A 9 50 1 k; A 4 5 2 k; A 9 5 3 k; A 5 5 4 k");
    lq_rig_go(rig);
    lq_rig_advance(rig, 4000);
    LQ_HEARS(a, "A 1 1 k");
    lq_rig_advance(rig, 1);
    LQ_HEARS(a, "T 2 k");
    lq_rig_say(a, "C 3 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "T 3 k");
    lq_rig_advance(rig, 1000);
    LQ_HEARS(a, "T 4 k");
    ck_assert_uint_eq(lq_rig_counts(rig).waiters, 0);
}
END_TEST

START_TEST(quarantined_acquires_can_be_taken_back)
{
    lq_rig_say(a, "A 9 5 1 k; A 9 5 2 k; C 1 k");
    lq_rig_say(b, "A 9 5 3 k");
    lq_rig_send_eof(b);
    lq_rig_say(c, "A 9 5 4 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "T 1 k");
    LQ_HEARS(b, "T 3 k");
    ck_assert_int_eq(b->end, LQ_RIG_CLOSED);
    lq_rig_break(c);
    lq_rig_advance(rig, 3001);
    LQ_HEARS(a, "A 1 2 k");
    lq_rig_say(a, "R 1 k");
    lq_rig_go(rig);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, 0);
    ck_assert_uint_eq(lq_hub_n_sessions(rig->hub), 1);
}
END_TEST

START_TEST(quarantine_holds_the_cap_on_waiters)
{
    teardown();
    begin(2);
    lq_rig_say(a, "A 9 5 1 k; A 9 5 2 k; A 9 5 3 k; A 0 5 4 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "B 3 k; T 4 k");
    lq_rig_say(a, "C 1 k; A 9 5 5 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "T 1 k");
    lq_rig_advance(rig, 3001);
    LQ_HEARS(a, "A 1 2 k");
    lq_rig_say(a, "R 1 k");
    lq_rig_go(rig);
    LQ_HEARS(a, "R 1 k; A 2 5 k");
}
END_TEST

/* More than one turn applies come out in their order, and nobody overtakes them. */
START_TEST(many_leave_quarantine_in_order)
{
    unsigned n = LQ_TURN_EXPIRES + 100;
    struct lq_frame answer;
    teardown();
    begin(100000);
    for (unsigned i = 0; i < n; i++) {
        lq_rig_say(a, "A 255 5 %u key-%u", i, i);
    }
    lq_rig_go(rig);
    rig->now_ms += 3001;
    lq_rig_say(b, "A 9 5 1 key-%u", n - 1);
    lq_rig_turn(rig);
    ck_assert_uint_eq(lq_rig_counts(rig).keys, LQ_TURN_EXPIRES);
    lq_rig_go(rig);
    for (unsigned i = 0; i < n; i++) {
        ck_assert(lq_rig_next(a, &answer));
        ck_assert_uint_eq(answer.op, LQ_OP_ACQUIRE);
        ck_assert_uint_eq(answer.owner, i);
        ck_assert_uint_eq(answer.token, i + 1);
    }
    LQ_HEARS(b, "");
    ck_assert_uint_eq(lq_rig_counts(rig).waiters, 1);
}
END_TEST

static Suite *session_quarantine_suite(void)
{
    Suite *suite = suite_create("session_quarantine");
    TCase *tcase = tcase_create("quarantine");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, quarantine_grants_nothing);
    tcase_add_test(tcase, quarantine_does_not_lengthen_waits);
    tcase_add_test(tcase, quarantined_acquires_can_be_taken_back);
    tcase_add_test(tcase, quarantine_holds_the_cap_on_waiters);
    tcase_add_test(tcase, many_leave_quarantine_in_order);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return lq_test_run(session_quarantine_suite());
}
