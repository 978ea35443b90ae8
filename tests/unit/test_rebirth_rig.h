/* What the tests of rebirth share: the disk of a node of an old cluster, written by hand, a backup
 * of it, and the operations on both. */
#ifndef TEST_REBIRTH_RIG_H
#define TEST_REBIRTH_RIG_H

#include "lq_engine.h"
#include "lq_entry.h"
#include "lq_rebirth.h"
#include "lq_replay.h"
#include "lq_snapshot.h"
#include "test_journal_rig.h"

#define NEW_CLUSTER   UINT64_C(0xC2)
#define SEGMENT_BYTES 65536
#define BOOT          UINT64_C(5) /* of the old disk */
#define LAST_INDEX    6
#define LAST_TERM     2
#define SEEN_TERM     4 /* voted in, without an entry */

static const uint8_t secret[16] = {1, 2, 3};
static const struct lq_caps caps = {100, 100, 100, 1 << 20};
static const struct lq_origin_id one = {1, UINT64_C(1) << 32 | 1};
static const struct lq_origin_id three = {NODE, BOOT << 32 | 2};

/* ---- The old cluster. Origins 1 and 3 hold "a" (token 1, 5,000 to 15,001 ms) and "b" (token 2, to
 * 23,001 ms), each waits for the other's, and the log ends at 5,000 ms. */

static inline struct lq_command acquire(const char *key, uint8_t wait_s, uint8_t lease_s)
{
    return (struct lq_command){.type = LQ_COMMAND_ACQUIRE,
                               .wait_s = wait_s,
                               .lease_s = lease_s,
                               .key_len = (uint16_t)strlen(key),
                               .owner = 7,
                               .key = (const uint8_t *)key};
}

static inline void begin_entry(struct lq_buffer *out, uint64_t time_ms)
{
    lq_buffer_init(out);
    lq_entry_begin(out, &(struct lq_stamp){.time_ms = time_ms, .caps = caps});
}

static inline void add_command(struct lq_buffer *out, struct lq_origin_id origin, uint64_t seq,
                               struct lq_command command)
{
    size_t position = lq_segment_begin(out, LQ_SEGMENT_ORIGIN, origin, seq);
    command.origin = origin;
    command.seq = seq;
    lq_segment_add(out, position, &command);
    lq_entry_count_segment(out);
}

static inline void add_opening(struct lq_buffer *out, struct lq_origin_id origin)
{
    size_t position = lq_segment_begin(out, LQ_SEGMENT_LEADER, (struct lq_origin_id){0}, 0);
    lq_segment_add(out, position,
                   &(struct lq_command){.type = LQ_COMMAND_ORIGIN_OPEN, .origin = origin});
    lq_entry_count_segment(out);
}

/* The bytes of the entry at `index`, and its type. */
static inline uint8_t make_entry(uint64_t index, struct lq_buffer *out)
{
    struct lq_members members = {0};
    struct lq_command renew = acquire("a", 0, 10);
    lq_buffer_init(out);
    switch (index) {
    case 1:
        ck_assert(lq_members_add(&members, 1, "one:1", LQ_ROLE_VOTER));
        ck_assert(lq_members_add(&members, 2, "two:1", LQ_ROLE_VOTER));
        ck_assert(lq_members_add(&members, NODE, "three:1", LQ_ROLE_VOTER));
        lq_members_encode(&members, out);
        return LQ_ENTRY_MEMBERS;
    case 2:
        memset(lq_buffer_extend(out, 8), 0, 8);
        return LQ_ENTRY_BARRIER;
    case 3:
        begin_entry(out, 1000);
        add_opening(out, one);
        add_opening(out, three);
        return LQ_ENTRY_COMMANDS;
    case 4:
        begin_entry(out, 2000);
        add_command(out, one, 1, acquire("a", 0, 10));
        add_command(out, three, 1, acquire("a", 60, 10));
        return LQ_ENTRY_COMMANDS;
    case 5:
        begin_entry(out, 3000);
        add_command(out, three, 2, acquire("b", 0, 20));
        add_command(out, one, 2, acquire("b", 60, 10));
        return LQ_ENTRY_COMMANDS;
    default:
        renew.type = LQ_COMMAND_RENEW;
        renew.owner = 0;
        renew.token = 1;
        begin_entry(out, 5000);
        add_command(out, one, 3, renew);
        return LQ_ENTRY_COMMANDS;
    }
}

static inline uint64_t term_of(uint64_t index)
{
    return index < LAST_INDEX ? 1 : LAST_TERM;
}

static inline void put_bytes(struct rig *rig, uint64_t index, uint8_t type,
                             const struct lq_buffer *bytes)
{
    uint64_t check = lq_journal_entry_check(index, term_of(index), type, bytes->bytes, bytes->len);
    rig_put(rig, (struct lq_journal_record){.kind = LQ_JOURNAL_ENTRY,
                                            .type = type,
                                            .len = (uint32_t)bytes->len,
                                            .index = index,
                                            .term = term_of(index),
                                            .check = check,
                                            .bytes = bytes->bytes});
}

static inline void old_disk_init(struct rig *rig)
{
    struct lq_buffer bytes;
    rig_init(rig, SEGMENT_BYTES, 0);
    rig_put_boot(rig, BOOT);
    for (uint64_t index = 1; index <= LAST_INDEX; index++) {
        uint8_t type = make_entry(index, &bytes);
        if (rig->journal.state.tail.term < term_of(index)) {
            rig_put_term(rig, term_of(index), 1);
        }
        put_bytes(rig, index, type, &bytes);
        rig_flush(rig);
        lq_buffer_done(&bytes);
    }
    rig_put_term(rig, SEEN_TERM, 2);
    rig_flush(rig);
}

static inline struct lq_buffer file_of(struct lq_snapfile_head head, struct lq_table *table)
{
    struct lq_buffer file = {0}, state = {0};
    struct lq_snapfile_writer *writer;
    struct lq_snapshot *snapshot;
    uint64_t total, check;
    ck_assert(lq_members_add(&head.members, 1, "one:1", LQ_ROLE_VOTER));
    ck_assert(lq_members_add(&head.members, NODE, "three:1", LQ_ROLE_VOTER));
    writer = lq_snapfile_begin(&head, &file);
    snapshot = lq_snapshot_begin(table, &state);
    ck_assert(lq_snapshot_step(snapshot, UINT64_MAX, &state));
    lq_snapfile_add(writer, state.bytes, state.len, &file);
    lq_snapfile_end(writer, &file, &total, &check);
    lq_snapshot_end(snapshot);
    lq_snapfile_free(writer);
    lq_buffer_done(&state);
    return file;
}

/* The old cluster's state after the entry at `last`. */
static inline struct lq_table *table_at(uint64_t last)
{
    struct lq_table *table = lq_table_new(secret, 1);
    struct lq_members none = {0};
    struct lq_replay replay;
    lq_replay_init(&replay, table, &none, 0);
    for (uint64_t index = 1; index <= last; index++) {
        struct lq_buffer bytes;
        struct lq_log_entry entry = {.term = term_of(index), .type = make_entry(index, &bytes)};
        entry.bytes = bytes.bytes;
        entry.len = (uint32_t)bytes.len;
        entry.check = lq_journal_entry_check(index, entry.term, entry.type, entry.bytes, entry.len);
        ck_assert_int_eq(lq_replay_entry(&replay, index, &entry), LQ_REPLAY_OK);
        lq_buffer_done(&bytes);
    }
    ck_assert_uint_eq(replay.members.n, 3);
    ck_assert_uint_eq(replay.members_index, 1);
    lq_replay_done(&replay);
    return table;
}

static inline struct lq_buffer snapshot_at(uint64_t index, uint64_t cluster)
{
    struct lq_table *table = table_at(index);
    struct lq_snapfile_head head = {
        .cluster = cluster, .index = index, .term = term_of(index), .members_index = 1};
    struct lq_buffer file = file_of(head, table);
    lq_table_free(table);
    return file;
}

/* ---- The operations. */

static inline struct lq_rebirth_options usual_options(void)
{
    struct lq_rebirth_options options = {.cluster = NEW_CLUSTER,
                                         .node = NODE,
                                         .address = "three:9",
                                         .segment_bytes = SEGMENT_BYTES,
                                         .salt = 99};
    memcpy(options.secret, secret, sizeof secret);
    return options;
}

/* `snapshot` may be NULL. */
static inline struct lq_recovery *read_disk(uint64_t cluster, const struct files *files,
                                            const struct lq_buffer *snapshot,
                                            enum lq_recovery_verdict verdict)
{
    struct lq_recovery *recovery = lq_recovery_new(cluster, 0, secret);
    if (snapshot != NULL) {
        ck_assert(lq_recovery_snapshot(recovery, snapshot->bytes, snapshot->len));
    }
    for (size_t i = 0; i < files->n; i++) {
        lq_recovery_segment(recovery, files->names[i], files->bytes[i], files->lens[i]);
    }
    ck_assert_int_eq(lq_recovery_end(recovery), verdict);
    return recovery;
}

static inline void recover(const struct files *files, const struct lq_buffer *snapshot,
                           struct lq_rebirth *ret)
{
    struct lq_rebirth_options options = usual_options();
    struct lq_recovery *recovery = read_disk(CLUSTER, files, snapshot, LQ_RECOVERY_GOOD);
    if (!lq_rebirth_recover(recovery, &options, ret)) {
        ck_abort_msg("refused: %s", ret->text);
    }
    lq_recovery_free(recovery);
}

static inline void check_refused(bool is_done, struct lq_rebirth *rebirth, const char *why)
{
    if (is_done || strstr(rebirth->text, why) == NULL) {
        ck_abort_msg("expected a refusal with \"%s\", got: %s", why, rebirth->text);
    }
    ck_assert_uint_eq(rebirth->snapshot.len + rebirth->segment.len, 0);
    lq_rebirth_done(rebirth);
}

static inline void check_not_recovered(const struct files *files, const struct lq_buffer *snapshot,
                                       enum lq_recovery_verdict verdict,
                                       const struct lq_rebirth_options *options, const char *why)
{
    struct lq_recovery *recovery = read_disk(0, files, snapshot, verdict);
    struct lq_rebirth rebirth;
    bool is_done = lq_rebirth_recover(recovery, options, &rebirth);
    check_refused(is_done, &rebirth, why);
    lq_recovery_free(recovery);
}

/* ---- For every test. */

static struct rig old;
static struct lq_buffer backup;

static inline void setup(void)
{
    old_disk_init(&old);
    backup = snapshot_at(4, CLUSTER);
}

static inline void teardown(void)
{
    rig_done(&old);
    lq_buffer_done(&backup);
}

#endif
