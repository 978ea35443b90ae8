/* What records add up to, against a plain model that keeps the term of every entry. */
#include "test_journal_rig.h"

#define LOG_MAX 4096

struct model {
    uint64_t term, vote, boot, first, last;
    struct lq_journal_point mark;
    uint64_t terms[LOG_MAX]; /* 0: not known */
};

static void model_begin(struct model *model, const struct lq_journal_tail *tail)
{
    *model = (struct model){.term = tail->term,
                            .vote = tail->vote,
                            .boot = tail->boot,
                            .first = tail->last.index + 1,
                            .last = tail->last.index,
                            .mark = tail->mark};
    model->terms[tail->last.index] = tail->last.term;
}

/* The lowest term that an entry at `index` may have. */
static uint64_t term_before(const struct model *model, uint64_t index)
{
    uint64_t known = model->terms[index - 1];
    return known == 0 || model->mark.term > known ? model->mark.term : known;
}

static bool takes_entry(struct model *model, uint64_t index, uint64_t term)
{
    if (index == 0 || index > model->last + 1 || index <= model->mark.index || term == 0 ||
        term > model->term || term < term_before(model, index)) {
        return false;
    }
    memset(model->terms + index, 0, (LOG_MAX - index) * sizeof *model->terms);
    model->terms[index] = term;
    model->last = index;
    model->first = index < model->first ? index : model->first;
    return true;
}

/* The term of the entry is not above that of any behind it. */
static bool fits(const struct model *model, struct lq_journal_point mark)
{
    for (uint64_t i = mark.index; i <= model->last; i++) {
        if (model->terms[i] != 0) {
            return i == mark.index ? model->terms[i] == mark.term : mark.term <= model->terms[i];
        }
    }
    return false;
}

static bool takes_mark(struct model *model, struct lq_journal_point mark, bool is_restart)
{
    if (mark.index == 0 || mark.term == 0 || mark.index < model->mark.index ||
        mark.term < model->mark.term || mark.term > model->term ||
        (mark.index == model->mark.index && mark.term != model->mark.term)) {
        return false;
    }
    if (!is_restart && !fits(model, mark)) {
        return false;
    }
    if (is_restart) {
        memset(model->terms, 0, sizeof model->terms);
        model->terms[mark.index] = mark.term;
        model->last = mark.index;
        model->first = mark.index + 1;
    }
    model->mark = mark;
    return true;
}

static bool takes(struct model *model, const struct lq_journal_record *record)
{
    switch ((enum lq_journal_kind)record->kind) {
    case LQ_JOURNAL_ENTRY:
        return takes_entry(model, record->index, record->term);
    case LQ_JOURNAL_MARK:
    case LQ_JOURNAL_RESTART:
        return takes_mark(model, (struct lq_journal_point){record->index, record->term},
                          record->kind == LQ_JOURNAL_RESTART);
    case LQ_JOURNAL_BOOT:
        if (record->boot <= model->boot) {
            return false;
        }
        model->boot = record->boot;
        return true;
    case LQ_JOURNAL_TERM:
        if (record->term < model->term || record->term == 0 ||
            (record->term == model->term && model->vote != 0 && model->vote != record->vote)) {
            return false;
        }
        model->term = record->term;
        model->vote = record->vote;
        return true;
    }
    return false;
}

static void check_equal(const struct lq_journal_state *state, const struct model *model)
{
    const struct lq_journal_tail *tail = &state->tail;
    LQ_HOT_ASSERT(tail->term == model->term && tail->vote == model->vote);
    LQ_HOT_ASSERT(tail->boot == model->boot);
    LQ_HOT_ASSERT(tail->mark.index == model->mark.index && tail->mark.term == model->mark.term);
    LQ_HOT_ASSERT(state->first_index == model->first && tail->last.index == model->last);
    LQ_HOT_ASSERT(model->last == 0 || tail->last.term == model->terms[model->last]);
    LQ_HOT_ASSERT(state->n_runs <= model->last + 1);
    for (uint64_t i = model->mark.index + 1; i <= model->last; i++) {
        LQ_HOT_ASSERT(term_at(state, i) == model->terms[i]);
    }
    LQ_HOT_ASSERT(lq_journal_tail_is_sound(tail));
}

/* A record with any small numbers, most of which make no sense. */
static struct lq_journal_record draw_any(struct lq_rand *rand, const struct model *model)
{
    uint64_t around = model->last < 6 ? 0 : model->last - 6;
    return (struct lq_journal_record){.kind = (uint8_t)(1 + lq_rand_below(rand, 5)),
                                      .index = around + lq_rand_below(rand, 9),
                                      .term =
                                          model->term + lq_rand_below(rand, 4) - (model->term > 0),
                                      .vote = lq_rand_below(rand, 3),
                                      .boot = model->boot + lq_rand_below(rand, 2)};
}

/* Records at random, sensible or not, from an empty journal or from where deleted segments ended.
 */
START_TEST(equals_a_plain_model_at_random)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), (uint64_t)_i);
    struct lq_journal_tail tail = {.term = 9, .mark = {4, 2}, .last = {30, 5}};
    struct lq_journal_state state;
    struct model *model = malloc(sizeof *model);
    if (_i % 2 == 0) {
        tail = (struct lq_journal_tail){0};
    }
    lq_journal_state_init(&state);
    lq_journal_state_begin(&state, &tail);
    model_begin(model, &tail);
    while (model->last < LOG_MAX - 10) {
        struct lq_journal_record record = lq_rand_below(&rand, 3) == 0
                                              ? draw_any(&rand, model)
                                              : draw_record(&rand, &state, NULL, 0);
        bool is_taken = takes(model, &record);
        LQ_HOT_ASSERT((lq_journal_state_fold(&state, &record) == LQ_JOURNAL_OK) == is_taken);
        check_equal(&state, model);
    }
    lq_journal_state_done(&state);
    free(model);
}
END_TEST

/* ---- The cases that matter, by name. */

static struct lq_journal_state state;

static enum lq_journal_fault entry(uint64_t index, uint64_t term)
{
    return lq_journal_state_fold(
        &state,
        &(struct lq_journal_record){.kind = LQ_JOURNAL_ENTRY, .index = index, .term = term});
}

static enum lq_journal_fault mark(enum lq_journal_kind kind, uint64_t index, uint64_t term)
{
    return lq_journal_state_fold(
        &state, &(struct lq_journal_record){.kind = (uint8_t)kind, .index = index, .term = term});
}

/* Entries 1 to 5 of term 1, 6 to 8 of term 2. */
static void begin(void)
{
    struct lq_journal_record term = {.kind = LQ_JOURNAL_TERM, .term = 9};
    lq_journal_state_init(&state);
    ck_assert_int_eq(lq_journal_state_fold(&state, &term), LQ_JOURNAL_OK);
    for (uint64_t i = 1; i <= 8; i++) {
        ck_assert_int_eq(entry(i, i <= 5 ? 1 : 2), LQ_JOURNAL_OK);
    }
}

static void check_log(uint64_t first, uint64_t last)
{
    ck_assert_uint_eq(state.first_index, first);
    ck_assert_uint_eq(state.tail.last.index, last);
    lq_journal_state_done(&state);
}

START_TEST(a_mark_keeps_the_log)
{
    begin();
    ck_assert_int_eq(mark(LQ_JOURNAL_MARK, 5, 1), LQ_JOURNAL_OK);
    ck_assert_int_eq(mark(LQ_JOURNAL_MARK, 6, 2), LQ_JOURNAL_OK);
    check_log(1, 8);
}
END_TEST

START_TEST(a_restart_drops_the_log)
{
    begin();
    ck_assert(lq_journal_state_has(&state, 5, 1));
    ck_assert(!lq_journal_state_has(&state, 5, 3));
    ck_assert(!lq_journal_state_has(&state, 9, 2));
    ck_assert_int_eq(mark(LQ_JOURNAL_RESTART, 5, 3), LQ_JOURNAL_OK);
    ck_assert(lq_journal_state_has(&state, 5, 3));
    ck_assert(!lq_journal_state_has(&state, 4, 1));
    ck_assert_int_eq(entry(6, 2), LQ_JOURNAL_ENTRY_TERM);
    ck_assert_int_eq(entry(7, 3), LQ_JOURNAL_ENTRY_GAP);
    ck_assert_int_eq(entry(6, 3), LQ_JOURNAL_OK);
    check_log(6, 6);
}
END_TEST

START_TEST(a_restart_can_be_ahead_of_the_log)
{
    begin();
    ck_assert_int_eq(mark(LQ_JOURNAL_RESTART, 100, 7), LQ_JOURNAL_OK);
    check_log(101, 100);
}
END_TEST

/* The first segment that is there begins after 8; 7 and 8 were not committed and are replaced. */
START_TEST(an_entry_can_replace_some_of_a_deleted_segment)
{
    struct lq_journal_tail tail = {.term = 9, .mark = {2, 1}, .last = {8, 2}};
    lq_journal_state_init(&state);
    lq_journal_state_begin(&state, &tail);
    ck_assert_int_eq(entry(7, 4), LQ_JOURNAL_OK);
    ck_assert_int_eq(entry(8, 4), LQ_JOURNAL_OK);
    ck_assert_int_eq(entry(9, 3), LQ_JOURNAL_ENTRY_TERM);
    ck_assert_int_eq(mark(LQ_JOURNAL_MARK, 8, 4), LQ_JOURNAL_OK);
    check_log(7, 8);
}
END_TEST

/* The same with an entry of the mark's own term: its term is known from then on. */
START_TEST(an_entry_of_the_term_of_the_mark_is_known)
{
    struct lq_journal_tail tail = {.term = 9, .mark = {2, 2}, .last = {8, 2}};
    lq_journal_state_init(&state);
    lq_journal_state_begin(&state, &tail);
    ck_assert_int_eq(entry(7, 1), LQ_JOURNAL_ENTRY_TERM);
    ck_assert_int_eq(entry(7, 2), LQ_JOURNAL_OK);
    ck_assert(lq_journal_state_has(&state, 7, 2));
    ck_assert_int_eq(mark(LQ_JOURNAL_MARK, 7, 2), LQ_JOURNAL_OK);
    check_log(7, 7);
}
END_TEST

/* Its mark is older than the deleted entries: of its own term only a bound is known. */
START_TEST(a_mark_can_lie_in_a_deleted_segment)
{
    struct lq_journal_tail tail = {.term = 9, .mark = {2, 1}, .last = {8, 2}};
    lq_journal_state_init(&state);
    lq_journal_state_begin(&state, &tail);
    ck_assert_int_eq(mark(LQ_JOURNAL_MARK, 5, 3), LQ_JOURNAL_MARK_ALONE);
    ck_assert_int_eq(mark(LQ_JOURNAL_MARK, 5, 1), LQ_JOURNAL_OK);
    ck_assert_int_eq(entry(9, 2), LQ_JOURNAL_OK);
    ck_assert_int_eq(mark(LQ_JOURNAL_MARK, 8, 2), LQ_JOURNAL_OK);
    check_log(9, 9);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_state");
    TCase *tcase = tcase_create("state");
    (void)lq_test_seed();
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, equals_a_plain_model_at_random, 0, 4);
    tcase_add_test(tcase, a_mark_keeps_the_log);
    tcase_add_test(tcase, a_restart_drops_the_log);
    tcase_add_test(tcase, a_restart_can_be_ahead_of_the_log);
    tcase_add_test(tcase, an_entry_can_replace_some_of_a_deleted_segment);
    tcase_add_test(tcase, an_entry_of_the_term_of_the_mark_is_known);
    tcase_add_test(tcase, a_mark_can_lie_in_a_deleted_segment);
    suite_add_tcase(suite, tcase);
    return lq_test_run(suite);
}
