/* What the records of a journal add up to, and which record makes sense after those before. The
 * writer and the scan go through the same function: what the one would not write, the other does
 * not believe.
 *
 * Of the log only the terms are kept, as runs of equal ones: they tell whether terms decrease along
 * the log, and whether a snapshot's last entry is in it. When the oldest segments are gone, the
 * first header says where the log stood; below that point terms are unknown, and the snapshot marks
 * that allowed the deletion cover it. That is why a RESTART is a record of its own: whether a mark
 * left the log as it was could not be told from the terms any more. */
#include "lq_check.h"
#include "lq_journal_impl.h"
#include "lq_mem.h"

#include <string.h>

void lq_journal_state_init(struct lq_journal_state *state)
{
    *state = (struct lq_journal_state){.first_index = 1};
}

void lq_journal_state_done(struct lq_journal_state *state)
{
    lq_free(state->runs);
    lq_journal_state_init(state);
}

static void push_run(struct lq_journal_state *state, uint64_t index, uint64_t term)
{
    if (state->n_runs == state->runs_cap) {
        state->runs_cap = state->runs_cap == 0 ? 8 : 2 * state->runs_cap;
        state->runs = lq_realloc(state->runs, state->runs_cap, sizeof *state->runs);
    }
    state->runs[state->n_runs++] = (struct lq_journal_point){.index = index, .term = term};
}

/* How many runs begin at or below `index`. */
static size_t runs_up_to(const struct lq_journal_state *state, uint64_t index)
{
    size_t low = 0, high = state->n_runs;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (state->runs[middle].index <= index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void begin_log_behind(struct lq_journal_state *state, struct lq_journal_point last)
{
    state->tail.last = last;
    state->first_index = last.index + 1;
    state->n_runs = 0;
    if (last.index > 0) {
        push_run(state, last.index, last.term);
    }
}

void lq_journal_state_begin(struct lq_journal_state *state, const struct lq_journal_tail *tail)
{
    state->tail = *tail;
    begin_log_behind(state, tail->last);
}

static bool is_point(struct lq_journal_point point)
{
    return (point.index == 0) == (point.term == 0) && point.index <= LQ_JOURNAL_NUMBER_MAX;
}

bool lq_journal_tail_is_sound(const struct lq_journal_tail *tail)
{
    bool is_at_mark = tail->mark.index == tail->last.index;
    return is_point(tail->mark) && is_point(tail->last) && tail->mark.index <= tail->last.index &&
           tail->mark.term <= tail->last.term &&
           (!is_at_mark || tail->mark.term == tail->last.term) && tail->last.term <= tail->term &&
           tail->term <= LQ_JOURNAL_NUMBER_MAX && (tail->vote == 0 || tail->term > 0);
}

bool lq_journal_tail_equals(const struct lq_journal_tail *a, const struct lq_journal_tail *b)
{
    return a->term == b->term && a->vote == b->vote && a->boot == b->boot &&
           a->mark.index == b->mark.index && a->mark.term == b->mark.term &&
           a->last.index == b->last.index && a->last.term == b->last.term;
}

static enum lq_journal_fault fold_entry(struct lq_journal_state *state, uint64_t index,
                                        uint64_t term)
{
    struct lq_journal_tail *tail = &state->tail;
    size_t kept;
    uint64_t before;
    if (index > tail->last.index + 1 || index == 0) {
        return LQ_JOURNAL_ENTRY_GAP;
    }
    if (index <= tail->mark.index) {
        return LQ_JOURNAL_ENTRY_COVERED;
    }
    kept = runs_up_to(state, index - 1);
    before = kept > 0 ? state->runs[kept - 1].term : tail->mark.term;
    if (term == 0 || term < before || term > tail->term) {
        return LQ_JOURNAL_ENTRY_TERM;
    }
    state->n_runs = kept;
    if (kept == 0 || term != before) {
        push_run(state, index, term);
    }
    if (index < state->first_index) {
        state->first_index = index; /* replaces entries of a segment that is gone */
    }
    tail->last = (struct lq_journal_point){.index = index, .term = term};
    return LQ_JOURNAL_OK;
}

static enum lq_journal_fault fold_term(struct lq_journal_tail *tail, uint64_t term, uint64_t vote)
{
    if (term < tail->term || term == 0 || term > LQ_JOURNAL_NUMBER_MAX) {
        return LQ_JOURNAL_TERM_BACK;
    }
    if (term == tail->term && tail->vote != 0 && vote != tail->vote) {
        return LQ_JOURNAL_VOTE_CHANGED;
    }
    tail->term = term;
    tail->vote = vote;
    return LQ_JOURNAL_OK;
}

static enum lq_journal_fault fold_boot(struct lq_journal_tail *tail, uint64_t boot)
{
    if (boot <= tail->boot) {
        return LQ_JOURNAL_BOOT_BACK;
    }
    tail->boot = boot;
    return LQ_JOURNAL_OK;
}

/* The entry that the mark names is in the log, as far as is known: when it stood in a deleted
 * segment, the terms behind it still bound its own. */
static bool has_mark(const struct lq_journal_state *state, struct lq_journal_point mark)
{
    size_t known = runs_up_to(state, mark.index);
    if (mark.index > state->tail.last.index) {
        return false;
    }
    return known > 0 ? state->runs[known - 1].term == mark.term : mark.term <= state->runs[0].term;
}

static enum lq_journal_fault fold_mark(struct lq_journal_state *state,
                                       const struct lq_journal_record *record)
{
    struct lq_journal_point mark = {.index = record->index, .term = record->term};
    struct lq_journal_tail *tail = &state->tail;
    size_t known = runs_up_to(state, mark.index);
    if (!is_point(mark) || mark.index == 0 || mark.index < tail->mark.index ||
        mark.term < tail->mark.term || mark.term > tail->term ||
        (mark.index == tail->mark.index && mark.term != tail->mark.term)) {
        return LQ_JOURNAL_MARK_BACK;
    }
    if (record->kind == LQ_JOURNAL_MARK && !has_mark(state, mark)) {
        return LQ_JOURNAL_MARK_ALONE;
    }
    tail->mark = mark;
    if (record->kind == LQ_JOURNAL_RESTART) {
        begin_log_behind(state, mark);
    } else if (known > 1) { /* nothing asks below the mark any more */
        state->n_runs -= known - 1;
        memmove(state->runs, state->runs + known - 1, state->n_runs * sizeof *state->runs);
    }
    return LQ_JOURNAL_OK;
}

bool lq_journal_state_has(const struct lq_journal_state *state, uint64_t index, uint64_t term)
{
    size_t known = runs_up_to(state, index);
    return index <= state->tail.last.index && known > 0 && state->runs[known - 1].term == term;
}

enum lq_journal_fault lq_journal_state_fold(struct lq_journal_state *state,
                                            const struct lq_journal_record *record)
{
    switch ((enum lq_journal_kind)record->kind) {
    case LQ_JOURNAL_ENTRY:
        return fold_entry(state, record->index, record->term);
    case LQ_JOURNAL_TERM:
        return fold_term(&state->tail, record->term, record->vote);
    case LQ_JOURNAL_BOOT:
        return fold_boot(&state->tail, record->boot);
    case LQ_JOURNAL_MARK:
    case LQ_JOURNAL_RESTART:
        return fold_mark(state, record);
    }
    return LQ_JOURNAL_RECORD;
}

void lq_journal_ends_init(struct lq_journal_ends *ends, uint64_t oldest)
{
    *ends = (struct lq_journal_ends){.oldest = oldest};
}

void lq_journal_ends_done(struct lq_journal_ends *ends)
{
    lq_free(ends->last_indexes);
    lq_journal_ends_init(ends, 0);
}

void lq_journal_ends_add(struct lq_journal_ends *ends, uint64_t last_index)
{
    if (ends->n == ends->cap) {
        ends->cap = ends->cap == 0 ? 8 : 2 * ends->cap;
        ends->last_indexes = lq_realloc(ends->last_indexes, ends->cap, sizeof *ends->last_indexes);
    }
    ends->last_indexes[ends->n++] = last_index;
}

void lq_journal_ends_drop_oldest(struct lq_journal_ends *ends)
{
    LQ_CHECK(ends->n > 0);
    ends->oldest++;
    ends->n--;
    memmove(ends->last_indexes, ends->last_indexes + 1, ends->n * sizeof *ends->last_indexes);
}
