/* How a replica begins, what raft asks of it, and how it ends. */
#include "lq_check.h"
#include "lq_limits.h"
#include "lq_mem.h"
#include "lq_planted.h"
#include "lq_recovery_impl.h"
#include "lq_replica_impl.h"

/* The highest boot counter that a new disk begins with: room for as many starts behind it. */
#define FIRST_BOOT_MAX (UINT64_C(1) << 30)

/* Entries in one message, in bytes. */
#define MESSAGE_BYTES (UINT32_C(256) << 10)

void lq_replica_defaults(struct lq_replica_options *options)
{
    *options = (struct lq_replica_options){
        .caps = {.keys = LQ_KEYS_DEFAULT,
                 .waiters_per_key = LQ_WAITERS_PER_KEY_DEFAULT,
                 .waiters = LQ_WAITERS_DEFAULT,
                 .state_bytes = LQ_STATE_BYTES_DEFAULT},
        .heartbeat_ms = 40,
        .election_ms = 250,
        .origin_timeout_ms = 5000,
        .segment_bytes = UINT64_C(8) << 20,
        .entry_bytes = UINT32_C(64) << 10,
        .snapshot_entries = 262144,
        .snapshot_bytes = UINT64_C(64) << 20,
        .trailing_entries = 262144,
        .outbox_bytes = UINT64_C(16) << 20,
    };
}

const char *lq_replica_options_fault(const struct lq_replica_options *options)
{
    const struct lq_members *first = &options->bootstrap;
    if (options->cluster == 0 || options->node == 0) {
        return "the cluster id and the node id must not be 0";
    }
    if (first->n > 0 && !lq_members_is_voter(first, options->node)) {
        return "this node is not among the voters that the cluster begins with";
    }
    if (options->heartbeat_ms == 0 || options->election_ms < 3 * options->heartbeat_ms) {
        return "the election timeout must be at least three heartbeats";
    }
    if (options->origin_timeout_ms < 2 * options->election_ms) {
        return "the origin timeout must be at least two election timeouts";
    }
    if (options->segment_bytes < LQ_JOURNAL_SEGMENT_MIN ||
        options->segment_bytes > LQ_JOURNAL_SEGMENT_MAX ||
        options->segment_bytes % LQ_SECTOR != 0) {
        return "a journal segment must be a multiple of 512 bytes, from 4 KiB to 1 GiB";
    }
    if (options->entry_bytes == 0 || options->entry_bytes > LQ_MESSAGE_MAX / 4 ||
        options->snapshot_entries == 0 || options->snapshot_bytes == 0 ||
        options->outbox_bytes == 0) {
        return "a limit is 0, or the one of entries is above a megabyte";
    }
    return NULL;
}

/* ---- What raft asks for. */

void lq_replica_put_held(struct lq_replica *replica, const struct lq_journal_record *record)
{
    replica->hold_position = lq_store_put(&replica->store, record);
}

static void on_term(void *context, uint64_t term, uint64_t vote)
{
    struct lq_replica *replica = context;
    const struct lq_journal_tail *tail = &replica->store.journal.state.tail;
    struct lq_journal_record record = {
        .kind = LQ_JOURNAL_TERM,
        .term = term,
        .vote = LQ_PLANTED(LQ_PLANT_VOTE_FORGOTTEN) ? 0 : vote,
    };
    if (!lq_list_is_empty(&replica->store.waiting) || tail->term != term || tail->vote != vote) {
        lq_replica_put_held(replica, &record);
    }
}

uint64_t lq_replica_last_stamp(const struct lq_replica *replica)
{
    uint64_t index = lq_log_last(&replica->log).index;
    struct lq_commands commands;
    for (; index > replica->log.base.index; index--) {
        const struct lq_log_entry *entry = lq_log_at(&replica->log, index);
        if (entry->type == LQ_ENTRY_COMMANDS &&
            lq_entry_open(&commands, entry->bytes, entry->len)) {
            return commands.stamp.time_ms;
        }
    }
    return lq_table_counts(replica->table).time_ms;
}

/* What was received says how far the leader's time is. (What this node makes as the leader says
 * nothing new; and raft's first entry of a term comes before the clock knows of it.) */
static void observe_stamps(struct lq_replica *replica)
{
    if (lq_engine_role(replica->engine) == LQ_ENGINE_FOLLOWER) {
        lq_cluster_clock_observe(&replica->clock, lq_log_last(&replica->log).term,
                                 lq_replica_last_stamp(replica), replica->now_ms);
    }
}

static void on_entries(void *context, uint64_t first)
{
    struct lq_replica *replica = context;
    for (uint64_t index = first; index <= lq_log_last(&replica->log).index; index++) {
        const struct lq_log_entry *entry = lq_log_at(&replica->log, index);
        struct lq_journal_record record = {.kind = LQ_JOURNAL_ENTRY,
                                           .type = entry->type,
                                           .len = entry->len,
                                           .index = index,
                                           .term = entry->term,
                                           .check = entry->check,
                                           .bytes = entry->bytes};
        if (entry->len > lq_journal_entry_max(replica->options.segment_bytes)) {
            lq_replica_stop(replica,
                            "an entry of %u bytes does not fit into a journal segment: "
                            "make segments as large as on the other nodes",
                            entry->len);
            return;
        }
        (void)lq_store_put(&replica->store, &record);
    }
    observe_stamps(replica);
}

static void on_message(void *context, uint32_t node, const struct lq_message *message,
                       const struct lq_message_entry *entries)
{
    struct lq_replica *replica = context;
    struct lq_peer *peer = lq_peer_find(replica, node);
    if (peer != NULL) {
        lq_peer_send(replica, peer, message, entries, NULL, true);
    }
}

static void on_snapshot_wanted(void *context, uint32_t node, struct lq_log_point point)
{
    lq_transfer_want(context, node, point);
}

static void on_install(void *context, struct lq_log_point point)
{
    lq_transfer_install(context, point);
}

void lq_replica_start_engine(struct lq_replica *replica, uint64_t term, uint64_t vote)
{
    const struct lq_finished *newest = &replica->snapshots.newest;
    struct lq_engine_start start = {.term = term,
                                    .vote = vote,
                                    .snapshot = {newest->name.index, newest->name.term},
                                    .members = &newest->members,
                                    .members_index = newest->members_index};
    replica->is_formed = term > 0;
    lq_engine_start(replica->engine, &start, replica->now_ms);
    lq_skip_start(replica, vote);
    lq_replica_watch_role(replica);
}

/* ---- Beginning and end. */

static void make_engine(struct lq_replica *replica)
{
    const struct lq_replica_options *options = &replica->options;
    struct lq_engine_options engine = {.node = options->node,
                                       .seed = options->seed,
                                       .heartbeat_ms = options->heartbeat_ms,
                                       .election_ms = options->election_ms,
                                       .message_bytes = MESSAGE_BYTES};
    struct lq_engine_user user = {.context = replica,
                                  .on_term = on_term,
                                  .on_entries = on_entries,
                                  .on_message = on_message,
                                  .on_snapshot_wanted = on_snapshot_wanted,
                                  .on_install = on_install};
    replica->engine = lq_engine_new(&engine, &user, &replica->log);
}

static void take_snapshot_of(struct lq_replica *replica, struct lq_recovery *recovery)
{
    struct lq_finished *newest = &replica->snapshots.newest;
    const struct lq_snapfile_head *head = &recovery->snapshot;
    if (!recovery->has_snapshot) {
        replica->table = lq_table_new(replica->options.secret, 1);
        lq_apply_begin(replica);
        return;
    }
    replica->table = recovery->table;
    recovery->table = NULL;
    *newest = (struct lq_finished){.name = {.index = head->index, .term = head->term},
                                   .total = recovery->snapshot_total,
                                   .check = recovery->snapshot_check,
                                   .members_index = head->members_index,
                                   .members = head->members};
    replica->applied = head->index;
    lq_apply_begin(replica);
}

static void take_journal_of(struct lq_replica *replica, struct lq_recovery *recovery)
{
    const struct lq_replica_options *options = &replica->options;
    struct lq_journal journal;
    if (recovery->verdict == LQ_RECOVERY_BLANK) {
        lq_journal_init(&journal, options->cluster, options->node, options->segment_bytes);
    } else {
        lq_journal_resume(&journal, &recovery->scan, options->segment_bytes);
    }
    lq_store_init(&replica->store, &journal, &replica->effects);
    lq_log_done(&replica->log);
    replica->log = recovery->log;
    lq_log_init(&recovery->log, (struct lq_log_point){0, 0});
}

/* The first batch of this life: its boot counter, and what the snapshot means for the journal. */
static void put_first_records(struct lq_replica *replica, bool needs_restart)
{
    const struct lq_journal_tail tail = replica->store.journal.state.tail;
    const struct lq_snapshot_name *name = &replica->snapshots.newest.name;
    struct lq_journal_record mark = {
        .kind = LQ_JOURNAL_MARK, .index = name->index, .term = name->term};
    /* A new disk begins with a number of its own: one that was lost, and the one that takes its
     * place, must not count the same lives. */
    replica->boot = tail.boot > 0 ? tail.boot + 1 : lq_replica_random(replica, 1, FIRST_BOOT_MAX);
    lq_replica_put_held(
        replica, &(struct lq_journal_record){.kind = LQ_JOURNAL_BOOT, .boot = replica->boot});
    replica->boot_position = replica->hold_position;
    if (needs_restart) {
        if (tail.term < name->term) { /* a mark's term is one that was seen */
            lq_replica_put_held(
                replica, &(struct lq_journal_record){.kind = LQ_JOURNAL_TERM, .term = name->term});
        }
        mark.kind = LQ_JOURNAL_RESTART;
        lq_replica_put_held(replica, &mark);
    } else if (name->index > tail.mark.index) {
        lq_replica_put_held(replica, &mark);
    }
}

static bool is_sole_voter(const struct lq_replica *replica, const struct lq_members *members)
{
    return lq_members_n_voters(members) == 1 && lq_members_is_voter(members, replica->options.node);
}

/* Raft begins at once, unless this is the first start of a node that is to form a cluster. */
static void begin_raft(struct lq_replica *replica, const struct lq_recovery_facts *facts)
{
    struct lq_journal_tail tail = replica->store.journal.state.tail;
    if (tail.term == 0 && replica->options.bootstrap.n > 0) {
        lq_peers_try_to_form(replica);
        return;
    }
    if (tail.term > 0 && is_sole_voter(replica, &facts->members)) {
        /* Raft lets the sole voter lead at once in its old term, in which a standby may have an
         * entry that is not on this disk. */
        tail.term++;
        tail.vote = replica->options.node;
        lq_replica_put_held(replica, &(struct lq_journal_record){.kind = LQ_JOURNAL_TERM,
                                                                 .term = tail.term,
                                                                 .vote = tail.vote});
    }
    lq_replica_start_engine(replica, tail.term, tail.vote);
}

/* An entry holds segments of at most entry_bytes, or one that is a little larger, and as much again
 * of expiries that are due and of those that its keys need: all of it must fit into a segment. */
static void limit_entries(struct lq_replica_options *options)
{
    size_t most = lq_journal_entry_max(options->segment_bytes) / 4;
    if (options->entry_bytes > most) {
        options->entry_bytes = (uint32_t)most;
    }
}

struct lq_replica *lq_replica_new(const struct lq_replica_options *options,
                                  struct lq_recovery *recovery, uint64_t now_ms)
{
    struct lq_replica *replica = lq_calloc(1, sizeof *replica);
    struct lq_recovery_facts facts = lq_recovery_facts(recovery);
    LQ_CHECK(recovery->verdict != LQ_RECOVERY_CORRUPT);
    LQ_CHECK(lq_replica_options_fault(options) == NULL);
    replica->backend.ops = &lq_home_ops;
    replica->options = *options;
    limit_entries(&replica->options);
    replica->now_ms = now_ms;
    replica->random = options->seed;
    lq_effects_init(&replica->effects);
    lq_log_init(&replica->log, (struct lq_log_point){0, 0});
    take_snapshot_of(replica, recovery);
    take_journal_of(replica, recovery);
    lq_cluster_clock_init(&replica->clock, lq_log_last(&replica->log).term,
                          lq_replica_last_stamp(replica), now_ms);
    make_engine(replica);
    lq_home_init(replica);
    lq_lead_init(replica);
    put_first_records(replica, recovery->needs_restart);
    begin_raft(replica, &facts);
    lq_apply_renew(replica);
    lq_store_run(&replica->store, now_ms);
    return replica;
}

void lq_replica_free(struct lq_replica *replica)
{
    if (replica == NULL) {
        return;
    }
    lq_snapshots_done(replica);
    lq_home_done(replica);
    lq_lead_done(replica);
    lq_peers_free(replica);
    lq_engine_free(replica->engine);
    lq_store_done(&replica->store);
    lq_log_done(&replica->log);
    lq_table_free(replica->table);
    lq_replay_done(&replica->replay);
    lq_effects_done(&replica->effects);
    lq_buffer_done(&replica->leaving);
    lq_free(replica);
}
