#include "lq_recovery.h"

#include "lq_check.h"
#include "lq_engine.h"
#include "lq_heap.h"
#include "lq_mem.h"
#include "lq_recovery_impl.h"
#include "lq_replay.h"
#include "lq_snapshot.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* How an operator goes on when what a disk holds can't be trusted. */
#define REJOIN                                                                                     \
    "; nothing was changed. If the other nodes still form a majority, remove this node from the "  \
    "cluster, empty its data directory and add it again under a new id"

static void on_record(void *context, const struct lq_journal_record *record,
                      const struct lq_journal_state *state);

struct lq_recovery *lq_recovery_new(uint64_t cluster, uint32_t node, const uint8_t secret[16])
{
    struct lq_recovery *recovery = lq_calloc(1, sizeof *recovery);
    recovery->cluster = cluster;
    recovery->node = node;
    memcpy(recovery->secret, secret, sizeof recovery->secret);
    lq_journal_scan_init(&recovery->scan, cluster, node, on_record, recovery);
    lq_log_init(&recovery->log, (struct lq_log_point){0, 0});
    return recovery;
}

void lq_recovery_free(struct lq_recovery *recovery)
{
    if (recovery == NULL) {
        return;
    }
    lq_journal_scan_done(&recovery->scan);
    lq_table_free(recovery->table);
    lq_log_done(&recovery->log);
    lq_free(recovery);
}

__attribute__((format(printf, 2, 3))) static void say(struct lq_recovery *recovery,
                                                      const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(recovery->text, sizeof recovery->text, format, arguments);
    va_end(arguments);
}

/* ---- Reading. */

bool lq_recovery_snapshot(struct lq_recovery *recovery, const uint8_t *bytes, size_t len)
{
    struct lq_buffer state;
    struct lq_snapfile_head head;
    uint64_t check;
    enum lq_snapfile_fault fault;
    lq_buffer_init(&state);
    fault = lq_snapfile_read(bytes, len, UINT64_MAX, &head, &state, &check);
    if (fault == LQ_SNAPFILE_OK && recovery->cluster != 0 && head.cluster != recovery->cluster) {
        fault = LQ_SNAPFILE_HEADER;
    }
    if (fault == LQ_SNAPFILE_OK) {
        recovery->table = lq_snapshot_restore(state.bytes, state.len, recovery->secret);
        recovery->has_snapshot = recovery->table != NULL;
    }
    if (recovery->has_snapshot) {
        recovery->snapshot = head;
        recovery->snapshot_total = len;
        recovery->snapshot_check = check;
    }
    lq_buffer_done(&state);
    return recovery->has_snapshot;
}

/* The entry before `index`, as far as the journal knows its term. */
static struct lq_log_point point_before(const struct lq_journal_state *state, uint64_t index)
{
    struct lq_log_point point = {.index = index - 1};
    for (size_t i = 0; i < state->n_runs && state->runs[i].index <= point.index; i++) {
        point.term = state->runs[i].term;
    }
    return point;
}

static void on_record(void *context, const struct lq_journal_record *record,
                      const struct lq_journal_state *state)
{
    struct lq_recovery *recovery = context;
    struct lq_log *log = &recovery->log;
    if (record->kind == LQ_JOURNAL_RESTART) {
        lq_log_restart(log, (struct lq_log_point){record->index, record->term});
        recovery->has_log = true;
    } else if (record->kind == LQ_JOURNAL_ENTRY) {
        if (!recovery->has_log || record->index <= log->base.index) {
            lq_log_restart(log, point_before(state, record->index));
            recovery->has_log = true;
        } else if (record->index <= lq_log_last(log).index) {
            lq_log_truncate(log, record->index);
        }
        lq_log_append(log, record->term, record->type, record->check, record->bytes, record->len);
    } else if (!recovery->has_log && state->tail.last.index > 0) {
        lq_log_restart(log, (struct lq_log_point){state->tail.last.index, state->tail.last.term});
        recovery->has_log = true;
    }
}

void lq_recovery_segment(struct lq_recovery *recovery, uint64_t number, const uint8_t *bytes,
                         size_t len)
{
    recovery->n_segments++;
    if (!recovery->is_refused) {
        recovery->is_refused = !lq_journal_scan_segment(&recovery->scan, number, bytes, len);
    }
}

/* ---- Judging. */

static enum lq_recovery_verdict judge_journal(struct lq_recovery *recovery)
{
    struct lq_journal_finding finding = {0};
    switch (lq_journal_scan_end(&recovery->scan, &finding)) {
    case LQ_JOURNAL_BLANK:
        return LQ_RECOVERY_BLANK;
    case LQ_JOURNAL_CLEAN:
        return LQ_RECOVERY_GOOD;
    case LQ_JOURNAL_TORN:
        recovery->fault_segment = finding.number;
        say(recovery,
            "the last batch of journal segment %" PRIu64 " at offset %" PRIu64
            " is torn: it was in flight and was never acknowledged; going on without it",
            finding.number, finding.offset);
        return LQ_RECOVERY_TORN;
    case LQ_JOURNAL_CORRUPT:
        break;
    }
    recovery->fault_segment = finding.number;
    say(recovery, "journal segment %" PRIu64 ", offset %" PRIu64 ": %s" REJOIN, finding.number,
        finding.offset, lq_journal_fault_text(finding.fault));
    return LQ_RECOVERY_CORRUPT;
}

static enum lq_recovery_verdict refuse(struct lq_recovery *recovery, const char *why)
{
    say(recovery, "%s" REJOIN, why);
    return LQ_RECOVERY_CORRUPT;
}

/* Whether the log goes on behind the snapshot without a gap, and agrees with it. */
static enum lq_recovery_verdict judge_snapshot(struct lq_recovery *recovery,
                                               enum lq_recovery_verdict verdict)
{
    const struct lq_journal_state *state = &recovery->scan.state;
    struct lq_log *log = &recovery->log;
    struct lq_log_point at = {recovery->snapshot.index, recovery->snapshot.term};
    if (!recovery->has_snapshot) {
        bool is_needed = state->tail.mark.index > 0 || log->base.index > 0;
        return is_needed ? refuse(recovery, "no good snapshot is left, and the log alone begins "
                                            "behind it")
                         : verdict;
    }
    if (at.index < state->tail.mark.index && log->base.index > at.index) {
        return refuse(recovery, "the newest snapshot is not good, and the log begins behind an "
                                "older one");
    }
    if (lq_log_term_of(log, at.index) != at.term &&
        !(lq_journal_state_has(state, at.index, at.term) && log->base.index <= at.index)) {
        if (state->tail.mark.index > at.index) {
            return refuse(recovery, "the newest snapshot is missing");
        }
        recovery->needs_restart = true;
        lq_log_restart(log, at);
    } else if (log->base.term == 0 && log->base.index > 0) {
        lq_log_compact(log, at.index); /* what stands before the first entry is not known */
    }
    return verdict;
}

/* Every entry must be what the replica and raft can take. */
static bool entries_are_sound(const struct lq_log *log)
{
    struct lq_members members;
    for (size_t i = 0; i < log->count; i++) {
        const struct lq_log_entry *entry = lq_log_at(log, log->base.index + 1 + i);
        bool is_first = log->base.index + 1 + i == 1;
        if (entry->type < LQ_ENTRY_COMMANDS || entry->type > LQ_ENTRY_MEMBERS ||
            (is_first && entry->type != LQ_ENTRY_MEMBERS) ||
            (entry->type == LQ_ENTRY_MEMBERS &&
             !lq_members_decode(&members, entry->bytes, entry->len))) {
            return false;
        }
    }
    return true;
}

enum lq_recovery_verdict lq_recovery_end(struct lq_recovery *recovery)
{
    enum lq_recovery_verdict verdict = judge_journal(recovery);
    const struct lq_journal_point *last = &recovery->scan.state.tail.last;
    if (verdict != LQ_RECOVERY_CORRUPT && !recovery->has_log && last->index > 0) {
        /* Only the header of a segment without a record tells of the log. */
        lq_log_restart(&recovery->log, (struct lq_log_point){last->index, last->term});
    }
    if (verdict == LQ_RECOVERY_BLANK && recovery->has_snapshot) {
        verdict = refuse(recovery, "there is a snapshot but no journal");
    } else if (verdict != LQ_RECOVERY_CORRUPT && verdict != LQ_RECOVERY_BLANK) {
        verdict = judge_snapshot(recovery, verdict);
    }
    if (verdict != LQ_RECOVERY_CORRUPT && !entries_are_sound(&recovery->log)) {
        verdict = refuse(recovery, "the log holds an entry that no node writes");
    }
    recovery->verdict = verdict;
    return verdict;
}

bool lq_recovery_replay(struct lq_recovery *recovery, struct lq_members *ret_members,
                        struct lq_table_counts *ret_counts)
{
    uint64_t index = recovery->has_snapshot ? recovery->snapshot.index : 0;
    uint64_t last = lq_log_last(&recovery->log).index;
    enum lq_replay_fault fault = LQ_REPLAY_OK;
    struct lq_replay replay;
    LQ_CHECK(recovery->verdict != LQ_RECOVERY_CORRUPT);
    if (recovery->table == NULL) {
        recovery->table = lq_table_new(recovery->secret, 1);
    }
    lq_replay_init(&replay, recovery->table, &recovery->snapshot.members,
                   recovery->snapshot.members_index);
    while (fault == LQ_REPLAY_OK && index < last) {
        const struct lq_log_entry *entry = lq_log_at(&recovery->log, ++index);
        LQ_CHECK(entry != NULL); /* lq_recovery_end has seen that there is no gap */
        fault = lq_replay_entry(&replay, index, entry);
    }
    if (fault == LQ_REPLAY_OK) {
        *ret_members = replay.members;
        *ret_counts = lq_table_counts(recovery->table);
    } else {
        say(recovery, "log entry %" PRIu64 " %s", index, lq_replay_fault_text(fault));
    }
    lq_replay_done(&replay);
    return fault == LQ_REPLAY_OK;
}

const char *lq_recovery_text(const struct lq_recovery *recovery)
{
    return recovery->text;
}

uint64_t lq_recovery_fault_segment(const struct lq_recovery *recovery)
{
    return recovery->fault_segment;
}

struct lq_recovery_facts lq_recovery_facts(const struct lq_recovery *recovery)
{
    const struct lq_journal_tail *tail = &recovery->scan.state.tail;
    const struct lq_log *log = &recovery->log;
    struct lq_recovery_facts facts = {.term = tail->term,
                                      .vote = tail->vote,
                                      .boot = tail->boot,
                                      .first_index = log->base.index + 1,
                                      .last_index = lq_log_last(log).index,
                                      .last_term = lq_log_last(log).term};
    if (recovery->has_snapshot) {
        facts.snapshot_index = recovery->snapshot.index;
        facts.snapshot_term = recovery->snapshot.term;
        facts.members = recovery->snapshot.members;
    }
    for (size_t i = 0; i < log->count; i++) {
        const struct lq_log_entry *entry = lq_log_at(log, log->base.index + 1 + i);
        if (entry->type == LQ_ENTRY_MEMBERS &&
            log->base.index + 1 + i > recovery->snapshot.members_index) {
            (void)lq_members_decode(&facts.members, entry->bytes, entry->len);
        }
    }
    return facts;
}
