/* Effects wait in their order until the shell takes them. */
#include "lq_effects.h"
#include "lq_mem.h"
#include "lq_test.h"

#include <string.h>

static struct lq_effects effects;

static void set_up(void)
{
    lq_effects_init(&effects);
}

static void tear_down(void)
{
    lq_effects_done(&effects);
}

START_TEST(come_out_in_their_order)
{
    struct lq_effect effect = {.number = 99};
    for (uint64_t i = 0; i < 100; i++) {
        lq_effects_put(&effects, &(struct lq_effect){.kind = LQ_EFFECT_DELETE, .number = i});
    }
    for (uint64_t i = 0; i < 100; i++) {
        ck_assert(lq_effects_take(&effects, &effect));
        ck_assert_int_eq(effect.kind, LQ_EFFECT_DELETE);
        ck_assert_uint_eq(effect.number, i);
    }
    effect.number = 7;
    ck_assert(!lq_effects_take(&effects, &effect));
    ck_assert_uint_eq(effect.number, 7); /* untouched */
}
END_TEST

START_TEST(bytes_are_copied_and_stay_until_the_next_is_taken)
{
    struct lq_effect effect;
    uint8_t *bytes = lq_malloc(5);
    memcpy(bytes, "hello", 5);
    lq_effects_put(&effects, &(struct lq_effect){.kind = LQ_EFFECT_SEND, .bytes = bytes, .len = 5});
    lq_free(bytes);
    ck_assert_uint_eq(effects.bytes, 5);
    ck_assert(lq_effects_take(&effects, &effect));
    ck_assert_uint_eq(effects.bytes, 0);
    lq_effects_note(&effects, LQ_NOTE_FULL, 1, 2); /* while the bytes are being looked at */
    ck_assert_uint_eq(effect.len, 5);
    ck_assert_mem_eq(effect.bytes, "hello", 5);
    ck_assert(lq_effects_take(&effects, &effect));
    ck_assert_int_eq(effect.note, LQ_NOTE_FULL);
    ck_assert_uint_eq(effect.a, 1);
    ck_assert_uint_eq(effect.b, 2);
}
END_TEST

START_TEST(bytes_that_are_moved_leave_an_empty_buffer)
{
    struct lq_effect effect;
    struct lq_buffer bytes = {0};
    lq_buffer_add(&bytes, "abc", 3);
    lq_effects_move(&effects, &(struct lq_effect){.kind = LQ_EFFECT_SEND, .node = 4}, &bytes);
    ck_assert_uint_eq(bytes.len, 0);
    lq_buffer_add(&bytes, "other", 5); /* good for use again */
    lq_buffer_done(&bytes);
    ck_assert(lq_effects_take(&effects, &effect));
    ck_assert_uint_eq(effect.node, 4);
    ck_assert_uint_eq(effect.len, 3);
    ck_assert_mem_eq(effect.bytes, "abc", 3);
}
END_TEST

/* A length that is no length of bytes, such as what is to be read, stays. */
START_TEST(a_length_without_bytes_stays)
{
    struct lq_effect effect;
    lq_effects_put(&effects, &(struct lq_effect){.kind = LQ_EFFECT_SNAPSHOT_READ, .len = 77});
    ck_assert(lq_effects_take(&effects, &effect));
    ck_assert_uint_eq(effect.len, 77);
    ck_assert_ptr_null(effect.bytes);
}
END_TEST

START_TEST(what_is_not_taken_is_freed)
{
    lq_effects_put(&effects, &(struct lq_effect){.bytes = (const uint8_t *)"left", .len = 4});
    lq_effects_put(&effects, &(struct lq_effect){.bytes = (const uint8_t *)"behind", .len = 6});
    ck_assert(lq_effects_take(&effects, &(struct lq_effect){0}));
}
END_TEST

static Suite *effects_suite(void)
{
    Suite *suite = suite_create("effects");
    TCase *tcase = tcase_create("effects");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, come_out_in_their_order);
    tcase_add_test(tcase, bytes_are_copied_and_stay_until_the_next_is_taken);
    tcase_add_test(tcase, bytes_that_are_moved_leave_an_empty_buffer);
    tcase_add_test(tcase, a_length_without_bytes_stays);
    tcase_add_test(tcase, what_is_not_taken_is_freed);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(effects_suite());
}
