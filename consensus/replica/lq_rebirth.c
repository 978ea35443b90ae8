/* Both operations find an old life (a table, and where it stood in which cluster), check that it
 * can go on, and write down the new one. */
#include "lq_rebirth.h"

#include "lq_check.h"
#include "lq_recovery_impl.h"
#include "lq_snapshot.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Indexes and terms that no cluster reaches; a file that says more is not ours. Tokens and boot
 * counters must leave room for the life to come. */
#define POINT_MAX (UINT64_C(1) << 61)
#define TOKEN_MAX (UINT64_MAX / 4)
#define BOOT_MAX  (UINT32_MAX / 2)

#define SLICE_LOCKS 100000

struct old_life {
    struct lq_table *table;
    uint64_t cluster;
    struct lq_log_point last;
    uint64_t term;    /* the highest that was seen */
    uint64_t boot;    /* of this node, as far as its journal tells; 0: there is none */
    bool was_standby; /* or no member at all */
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct lq_rebirth *rebirth,
                                                         const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(rebirth->text, sizeof rebirth->text, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- What is not done. */

static bool options_are_sound(struct lq_rebirth *rebirth, const struct lq_rebirth_options *options)
{
    struct lq_members members = {0};
    if (options->cluster == 0) {
        return refuse(rebirth, "the new cluster needs an id that is not 0");
    }
    if (options->node == 0) {
        return refuse(rebirth, "the node needs an id that is not 0");
    }
    return lq_members_add(&members, options->node, options->address, LQ_ROLE_VOTER) ||
           refuse(rebirth, "the node needs an address of the form HOST:PORT, at most %d characters",
                  LQ_ADDRESS_MAX);
}

/* The boot counter that is to stand in the new journal: the next start uses the one after it. */
static uint64_t boot_of(const struct old_life *old, uint32_t node)
{
    struct lq_origin_state origin;
    uint64_t boot = old->boot > 0 ? old->boot : 1;
    if (lq_table_origin(old->table, node, &origin) && origin.id.incarnation >> 32 > boot) {
        boot = origin.id.incarnation >> 32;
    }
    return boot;
}

static bool can_go_on(struct lq_rebirth *rebirth, const struct old_life *old,
                      const struct lq_rebirth_options *options)
{
    if (options->cluster == old->cluster) {
        return refuse(rebirth,
                      "the new cluster needs an id of its own: %016" PRIx64 " is the old one's",
                      old->cluster);
    }
    if (old->last.index == 0 || old->last.term == 0) {
        return refuse(rebirth, "there is no state: this node was never part of a cluster");
    }
    if (old->last.index > POINT_MAX || old->last.term > POINT_MAX || old->term > POINT_MAX) {
        return refuse(rebirth, "the index or term of the log is beyond what a cluster can reach");
    }
    if (lq_table_counts(old->table).last_token > TOKEN_MAX) {
        return refuse(rebirth, "the last token is so high that it can't be raised");
    }
    return boot_of(old, options->node) <= BOOT_MAX ||
           refuse(rebirth, "the boot counter of node %" PRIu32 " is beyond what a node can reach",
                  options->node);
}

/* ---- The new files. */

static void write_snapshot(struct lq_rebirth *rebirth, struct lq_table *table,
                           const struct lq_rebirth_options *options)
{
    struct lq_snapfile_head head = {.cluster = options->cluster,
                                    .index = rebirth->index,
                                    .term = rebirth->term,
                                    .members_index = rebirth->index};
    struct lq_buffer state;
    struct lq_snapfile_writer *writer;
    struct lq_snapshot *snapshot;
    uint64_t total, check;
    bool is_complete;
    LQ_CHECK(lq_members_add(&head.members, options->node, options->address, LQ_ROLE_VOTER));
    lq_buffer_init(&state);
    writer = lq_snapfile_begin(&head, &rebirth->snapshot);
    snapshot = lq_snapshot_begin(table, &state);
    do {
        is_complete = lq_snapshot_step(snapshot, SLICE_LOCKS, &state);
        lq_snapfile_add(writer, state.bytes, state.len, &rebirth->snapshot);
        state.len = 0;
    } while (!is_complete);
    lq_snapfile_end(writer, &rebirth->snapshot, &total, &check);
    LQ_CHECK(total == rebirth->snapshot.len);
    lq_snapshot_end(snapshot);
    lq_snapfile_free(writer);
    lq_buffer_done(&state);
}

static void place(struct lq_buffer *segment, const struct lq_journal_write *write)
{
    LQ_CHECK(write->number == 1 && write->offset <= segment->len &&
             write->len <= segment->len - write->offset);
    memcpy(segment->bytes + write->offset, write->bytes, write->len);
}

/* A journal that knows nothing but how far the old life went, and where the snapshot stands. */
static void write_segment(struct lq_rebirth *rebirth, uint64_t boot,
                          const struct lq_rebirth_options *options)
{
    const struct lq_journal_record records[] = {
        {.kind = LQ_JOURNAL_TERM, .term = rebirth->term},
        {.kind = LQ_JOURNAL_RESTART, .index = rebirth->index, .term = rebirth->term},
        {.kind = LQ_JOURNAL_BOOT, .boot = boot},
    };
    size_t len = (size_t)options->segment_bytes;
    struct lq_journal journal;
    struct lq_journal_write header, seal, batch;
    lq_journal_init(&journal, options->cluster, options->node, options->segment_bytes);
    memset(lq_buffer_extend(&rebirth->segment, len), 0, len);
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        LQ_CHECK(lq_journal_put(&journal, &records[i]));
    }
    lq_journal_begin_segment(&journal, options->salt, &header, &seal);
    LQ_CHECK(seal.len == 0);
    place(&rebirth->segment, &header);
    LQ_CHECK(lq_journal_finish(&journal, &batch));
    place(&rebirth->segment, &batch);
    lq_journal_durable(&journal);
    lq_journal_done(&journal);
}

static bool make(struct lq_rebirth *rebirth, const struct old_life *old,
                 const struct lq_rebirth_options *options)
{
    uint64_t boot;
    if (!can_go_on(rebirth, old, options)) {
        return false;
    }
    boot = boot_of(old, options->node);
    rebirth->old_cluster = old->cluster;
    rebirth->last_index = old->last.index;
    rebirth->last_term = old->last.term;
    rebirth->index = old->last.index + 1;
    rebirth->term = (old->term > old->last.term ? old->term : old->last.term) + 1;
    rebirth->dropped = lq_table_counts(old->table).waiters;
    lq_table_reborn(old->table, LQ_REBIRTH_TOKENS);
    rebirth->keys = lq_table_counts(old->table).keys;
    rebirth->last_token = lq_table_counts(old->table).last_token;
    write_snapshot(rebirth, old->table, options);
    write_segment(rebirth, boot, options);
    (void)snprintf(rebirth->text, sizeof rebirth->text,
                   "node %" PRIu32 " is the new cluster %016" PRIx64 ": the state of cluster "
                   "%016" PRIx64 " up to log index %" PRIu64 " of term %" PRIu64 ", %" PRIu64
                   " locks held, %" PRIu64 " waiters dropped, tokens go on above %" PRIu64
                   "; what the old cluster did after that is lost%s",
                   options->node, options->cluster, old->cluster, old->last.index, old->last.term,
                   rebirth->keys, rebirth->dropped, rebirth->last_token,
                   old->was_standby ? " (this node was no voter there: is there no better one?)"
                                    : "");
    return true;
}

/* ---- From the disk of a survivor. */

static bool may_recover(struct lq_rebirth *rebirth, const struct lq_recovery *recovery,
                        const struct lq_rebirth_options *options)
{
    const struct lq_journal_header *header = &recovery->scan.header;
    switch (recovery->verdict) {
    case LQ_RECOVERY_BLANK:
        return refuse(rebirth, "there is no state: the disk is blank");
    case LQ_RECOVERY_CORRUPT:
        return refuse(rebirth,
                      "the disk is damaged (%.300s). Take another survivor; if there is none, "
                      "restore from a snapshot file",
                      recovery->text);
    case LQ_RECOVERY_GOOD:
    case LQ_RECOVERY_TORN:
        break;
    }
    if (header->node != options->node) {
        return refuse(rebirth, "this is the disk of node %" PRIu64 ", not of node %" PRIu32,
                      header->node, options->node);
    }
    return !recovery->has_snapshot || recovery->snapshot.cluster == header->cluster ||
           refuse(rebirth, "the snapshot is of another cluster than the journal");
}

bool lq_rebirth_recover(struct lq_recovery *recovery, const struct lq_rebirth_options *options,
                        struct lq_rebirth *ret)
{
    struct old_life old = {0};
    struct lq_members members;
    struct lq_table_counts counts;
    *ret = (struct lq_rebirth){0};
    if (!options_are_sound(ret, options) || !may_recover(ret, recovery, options)) {
        return false;
    }
    if (!lq_recovery_replay(recovery, &members, &counts)) {
        return refuse(ret, "%.300s", lq_recovery_text(recovery));
    }
    old.table = recovery->table;
    old.cluster = recovery->scan.header.cluster;
    old.last = lq_log_last(&recovery->log);
    old.term = recovery->scan.state.tail.term;
    old.boot = recovery->scan.state.tail.boot;
    old.was_standby = !lq_members_is_voter(&members, options->node);
    return make(ret, &old, options);
}

/* ---- From a backup. */

bool lq_rebirth_restore(const uint8_t *bytes, size_t len, const struct lq_rebirth_options *options,
                        struct lq_rebirth *ret)
{
    struct lq_snapfile_head head;
    struct lq_buffer state;
    enum lq_snapfile_fault fault;
    struct old_life old = {0};
    uint64_t check;
    bool is_done;
    *ret = (struct lq_rebirth){0};
    if (!options_are_sound(ret, options)) {
        return false;
    }
    lq_buffer_init(&state);
    fault = lq_snapfile_read(bytes, len, UINT64_MAX, &head, &state, &check);
    if (fault != LQ_SNAPFILE_OK) {
        return refuse(ret, "the snapshot is not good: %s", lq_snapfile_fault_text(fault));
    }
    old.table = lq_snapshot_restore(state.bytes, state.len, options->secret);
    lq_buffer_done(&state);
    if (old.table == NULL) {
        return refuse(ret, "the snapshot is not good: its state makes no sense");
    }
    old.cluster = head.cluster;
    old.last = (struct lq_log_point){head.index, head.term};
    old.term = head.term;
    is_done = make(ret, &old, options);
    lq_table_free(old.table);
    return is_done;
}

void lq_rebirth_done(struct lq_rebirth *rebirth)
{
    lq_buffer_done(&rebirth->snapshot);
    lq_buffer_done(&rebirth->segment);
}
