/* Applying: what is committed goes into the table, in the order of the log, the same on every node.
 * Outcomes go to whom they concern: this node's own origin, or, from the leader, the origins of
 * others. */
#include "lq_check.h"
#include "lq_planted.h"
#include "lq_replica_impl.h"

#include <inttypes.h>

/* ---- Digests: now and then the state is compared among all voters. */

static struct lq_seen_digest *digests_of(struct lq_replica *replica, uint32_t node)
{
    for (size_t i = 0; i < replica->n_digests; i++) {
        if (replica->digests[i].node == node) {
            return &replica->digests[i];
        }
    }
    if (replica->n_digests == LQ_MEMBERS_MAX) {
        replica->n_digests = 0; /* ids that came and went */
    }
    replica->digests[replica->n_digests] = (struct lq_seen_digest){.node = node};
    return &replica->digests[replica->n_digests++];
}

static struct lq_digest_at *digest_slot(struct lq_seen_digest *seen, uint64_t index)
{
    return &seen->kept[index / LQ_DIGEST_STEP % LQ_DIGESTS_KEPT];
}

/* Whoever differs from a majority of the voters is wrong. */
static void compare_digests(struct lq_replica *replica, uint64_t index)
{
    const struct lq_members *members = &replica->replay.members;
    struct lq_digest_at mine = *digest_slot(digests_of(replica, replica->options.node), index);
    size_t n_needed = lq_members_n_voters(members) / 2 + 1;
    for (size_t i = 0; i < members->n && mine.index == index; i++) {
        struct lq_digest_at theirs =
            *digest_slot(digests_of(replica, members->items[i].node), index);
        size_t n_agree = 0;
        if (theirs.index != index || theirs.digest == mine.digest) {
            continue;
        }
        for (size_t k = 0; k < members->n; k++) {
            struct lq_digest_at other =
                *digest_slot(digests_of(replica, members->items[k].node), index);
            n_agree += members->items[k].role == LQ_ROLE_VOTER && other.index == index &&
                       other.digest == theirs.digest;
        }
        if (n_agree >= n_needed) {
            lq_replica_stop(replica,
                            "the state of this node at log index %" PRIu64 " differs from that of "
                            "a majority: its memory or disk is damaged; remove it from the "
                            "cluster, empty its data directory and add it under a new id",
                            index);
        }
    }
}

void lq_apply_digest(struct lq_replica *replica, uint32_t node, uint64_t index, uint64_t digest)
{
    if (index % LQ_DIGEST_STEP == 0 && lq_members_find(&replica->replay.members, node) != NULL) {
        *digest_slot(digests_of(replica, node), index) = (struct lq_digest_at){index, digest};
        compare_digests(replica, index);
    }
}

static void tell_digest(struct lq_replica *replica)
{
    struct lq_message message = {.kind = LQ_MESSAGE_DIGEST,
                                 .index = replica->applied,
                                 .digest = lq_table_digest(replica->table)};
    lq_apply_digest(replica, replica->options.node, message.index, message.digest);
    for (size_t i = 0; i < replica->n_peers; i++) {
        lq_peer_send(replica, &replica->peers[i], &message, NULL, NULL, false);
    }
}

/* ---- Commands. */

static void route(struct lq_replica *replica, const struct lq_outcome *outcome)
{
    const struct lq_home *home = &replica->home;
    if (outcome->seq == 0) {
        return; /* of an order of the leader */
    }
    if (outcome->origin.node == home->id.node &&
        outcome->origin.incarnation == home->id.incarnation) {
        lq_home_outcome(replica, outcome);
    } else if (replica->lead.is_leading) {
        lq_lead_owe(replica, outcome);
    }
}

/* The leader tells origins how far their commands got, also those that only queued. */
static void note_progress(struct lq_replica *replica, const struct lq_command *command)
{
    struct lq_peer *peer;
    if (replica->lead.is_leading && lq_command_is_from_origin(command->type) &&
        command->origin.node != replica->options.node &&
        (peer = lq_peer_find(replica, command->origin.node)) != NULL) {
        peer->has_progress = true;
    }
}

static void on_command(void *context, const struct lq_stamp *stamp,
                       const struct lq_command *command, const struct lq_outcomes *outcomes)
{
    struct lq_replica *replica = context;
    if (replica->on_applied != NULL) {
        replica->on_applied(replica->on_applied_context, replica->applied, stamp, command,
                            outcomes->items, outcomes->count);
    }
    note_progress(replica, command);
    for (size_t i = 0; i < outcomes->count; i++) {
        route(replica, &outcomes->items[i]);
    }
    replica->n_commands++;
    if (LQ_PLANTED(LQ_PLANT_REBASE) && replica->clock.is_leading) {
        replica->clock.base_ms = stamp->time_ms;
        replica->clock.base_own_ms = replica->now_ms;
    }
}

void lq_apply_begin(struct lq_replica *replica)
{
    const struct lq_finished *newest = &replica->snapshots.newest;
    lq_replay_done(&replica->replay);
    lq_replay_init(&replica->replay, replica->table, &newest->members, newest->members_index);
    replica->replay.on_command = on_command;
    replica->replay.context = replica;
}

/* ---- Members. */

static void note_members(struct lq_replica *replica)
{
    const struct lq_members *members = &replica->replay.members;
    for (size_t i = 0; i < members->n; i++) {
        struct lq_peer *peer = lq_peer_find(replica, members->items[i].node);
        if (peer != NULL) {
            peer->was_member = true;
        }
    }
}

static void tell_members(struct lq_replica *replica, bool was_member)
{
    const struct lq_replay *replay = &replica->replay;
    lq_effects_note(&replica->effects, LQ_NOTE_MEMBERS, replay->members_index, 0);
    if (was_member && lq_members_find(&replay->members, replica->options.node) == NULL) {
        replica->removed_ms = replica->now_ms;
    }
}

void lq_apply_install(struct lq_replica *replica)
{
    bool was_member = lq_members_find(&replica->replay.members, replica->options.node) != NULL;
    note_members(replica);
    lq_apply_begin(replica);
    tell_members(replica, was_member);
}

/* ---- The log. */

static void apply_entry(struct lq_replica *replica)
{
    uint64_t index = replica->applied + 1;
    const struct lq_log_entry *entry = lq_log_at(&replica->log, index);
    bool was_member = lq_members_find(&replica->replay.members, replica->options.node) != NULL;
    enum lq_replay_fault fault;
    LQ_CHECK(entry != NULL);
    if (entry->type == LQ_ENTRY_MEMBERS) {
        note_members(replica);
    }
    replica->applied = index;
    replica->applied_bytes += entry->len;
    fault = lq_replay_entry(&replica->replay, index, entry);
    if (fault != LQ_REPLAY_OK) {
        lq_replica_stop(replica,
                        "log entry %" PRIu64 " is committed but %s: the memory of this "
                        "node or of the leader that made it is damaged",
                        index, lq_replay_fault_text(fault));
        return;
    }
    if (replica->replay.members_index == index) {
        lq_engine_configured(replica->engine, index, &replica->replay.members);
        tell_members(replica, was_member);
    }
    if (replica->on_applied != NULL) {
        replica->on_applied(replica->on_applied_context, index, NULL, NULL, NULL, 0);
    }
    lq_home_look(replica);
    lq_lead_applied(replica);
    if (index % LQ_DIGEST_STEP == 0) {
        tell_digest(replica);
    }
}

/* A snapshot that is long overdue waits for the disk to have what it would include. */
static bool must_wait_for_disk(const struct lq_replica *replica)
{
    return lq_snapshots_are_overdue(replica) &&
           replica->applied >= lq_engine_last_stored(replica->engine);
}

bool lq_apply_has_more(const struct lq_replica *replica)
{
    return !lq_engine_is_installing(replica->engine) &&
           replica->applied < lq_engine_commit(replica->engine);
}

bool lq_apply_can(const struct lq_replica *replica)
{
    return lq_apply_has_more(replica) && replica->stop == NULL && !must_wait_for_disk(replica);
}

/* A change of members may end this node's leadership: that is looked at afterwards, since what is
 * applied here was committed while it led, and its table time tells how old that is. */
void lq_apply(struct lq_replica *replica)
{
    while (lq_apply_can(replica) && replica->n_commands < replica->turn_commands &&
           replica->applied < replica->turn_applied) {
        apply_entry(replica);
    }
    lq_replica_watch_role(replica);
}

void lq_apply_renew(struct lq_replica *replica)
{
    replica->turn_commands = replica->n_commands + LQ_TURN_COMMANDS;
    replica->turn_applied = replica->applied + LQ_TURN_COMMANDS;
}
