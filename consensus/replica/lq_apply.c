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
    const struct lq_members *members = &replica->members;
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
    if (index % LQ_DIGEST_STEP == 0 && lq_members_find(&replica->members, node) != NULL) {
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

static void tell_outcomes(struct lq_replica *replica, uint64_t index,
                          const struct lq_command *command, const struct lq_stamp *stamp)
{
    struct lq_outcomes *outcomes = &replica->outcomes;
    if (replica->on_applied != NULL) {
        replica->on_applied(replica->on_applied_context, index, stamp, command, outcomes->items,
                            outcomes->count);
    }
    for (size_t i = 0; i < outcomes->count; i++) {
        route(replica, &outcomes->items[i]);
    }
    outcomes->count = 0;
}

/* Commands of origins that are applied, also those that only queue. */
static void note_progress(struct lq_replica *replica, const struct lq_commands *commands)
{
    const struct lq_segment *segment = &commands->segment;
    struct lq_peer *peer;
    if (segment->kind == LQ_SEGMENT_ORIGIN && replica->lead.is_leading &&
        segment->origin.node != replica->options.node &&
        (peer = lq_peer_find(replica, segment->origin.node)) != NULL) {
        peer->has_progress = true;
    }
}

/* Reads the next commands, as many as are looked ahead at; LQ_COMMANDS_ONE when there may be more.
 */
static enum lq_commands_next read_ahead(struct lq_replica *replica, struct lq_commands *commands,
                                        struct lq_ahead *ahead)
{
    enum lq_commands_next next = LQ_COMMANDS_ONE;
    ahead->n = 0;
    while (ahead->n < LQ_AHEAD_MAX &&
           (next = lq_commands_next(commands, &ahead->commands[ahead->n])) == LQ_COMMANDS_ONE) {
        ahead->n++;
        if (commands->commands_left == 0) {
            note_progress(replica, commands);
        }
    }
    lq_table_look_ahead(replica->table, ahead);
    return next;
}

static void apply_commands(struct lq_replica *replica, uint64_t index,
                           const struct lq_log_entry *entry, uint64_t *budget)
{
    struct lq_commands commands;
    struct lq_ahead ahead;
    enum lq_commands_next next = LQ_COMMANDS_BAD;
    if (lq_entry_open(&commands, entry->bytes, entry->len) &&
        commands.stamp.time_ms >= lq_table_counts(replica->table).time_ms) {
        do {
            next = read_ahead(replica, &commands, &ahead);
            for (size_t i = 0; i < ahead.n; i++) {
                lq_table_apply_ahead(replica->table, &ahead, i, &commands.stamp,
                                     &replica->outcomes);
                tell_outcomes(replica, index, &ahead.commands[i], &commands.stamp);
            }
            *budget -= *budget > ahead.n ? ahead.n : *budget;
        } while (next == LQ_COMMANDS_ONE);
    }
    if (next != LQ_COMMANDS_END) {
        lq_replica_stop(replica, "log entry %" PRIu64 " is committed but makes no sense", index);
    } else if (LQ_PLANTED(LQ_PLANT_REBASE) && replica->clock.is_leading) {
        replica->clock.base_ms = commands.stamp.time_ms;
        replica->clock.base_own_ms = replica->now_ms;
    }
}

/* ---- Members. */

/* The origins of nodes that are members no more are closed, at the time of the last entry. */
static void close_origins_of_others(struct lq_replica *replica, uint64_t index)
{
    struct lq_stamp stamp = {.time_ms = lq_table_counts(replica->table).time_ms};
    struct lq_origin_state origin = {0};
    while (lq_table_next_origin(replica->table, origin.id.node, &origin)) {
        if (origin.is_open && lq_members_find(&replica->members, origin.id.node) == NULL) {
            struct lq_command close = {.type = LQ_COMMAND_ORIGIN_CLOSE, .origin = origin.id};
            lq_table_apply(replica->table, &close, &stamp, &replica->outcomes);
            tell_outcomes(replica, index, &close, &stamp);
        }
    }
}

static void apply_members(struct lq_replica *replica, uint64_t index,
                          const struct lq_log_entry *entry)
{
    bool was_member = lq_members_find(&replica->members, replica->options.node) != NULL;
    struct lq_members members;
    if (!lq_members_decode(&members, entry->bytes, entry->len)) {
        lq_replica_stop(replica, "log entry %" PRIu64 " is committed but lists no members", index);
        return;
    }
    for (size_t i = 0; i < replica->members.n; i++) {
        struct lq_peer *peer = lq_peer_find(replica, replica->members.items[i].node);
        if (peer != NULL) {
            peer->was_member = true;
        }
    }
    replica->members = members;
    replica->members_index = index;
    close_origins_of_others(replica, index);
    lq_engine_configured(replica->engine, index, &members);
    lq_effects_note(&replica->effects, LQ_NOTE_MEMBERS, index, 0);
    if (was_member && lq_members_find(&members, replica->options.node) == NULL) {
        replica->removed_ms = replica->now_ms;
    }
}

/* ---- The log. */

static void apply_entry(struct lq_replica *replica, uint64_t *budget)
{
    uint64_t index = replica->applied + 1;
    const struct lq_log_entry *entry = lq_log_at(&replica->log, index);
    LQ_CHECK(entry != NULL);
    if (entry->check !=
            lq_journal_entry_check(index, entry->term, entry->type, entry->bytes, entry->len) &&
        !LQ_PLANTED(LQ_PLANT_BAD_CHECKSUM)) {
        lq_replica_stop(replica, "log entry %" PRIu64 " changed in memory: its checksum is wrong",
                        index);
        return;
    }
    replica->applied = index;
    replica->applied_bytes += entry->len;
    *budget -= *budget > 0;
    switch ((enum lq_entry_type)entry->type) {
    case LQ_ENTRY_COMMANDS:
        apply_commands(replica, index, entry, budget);
        break;
    case LQ_ENTRY_MEMBERS:
        apply_members(replica, index, entry);
        break;
    case LQ_ENTRY_BARRIER:
        break;
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

bool lq_apply_has_more(const struct lq_replica *replica)
{
    return !lq_engine_is_installing(replica->engine) &&
           replica->applied < lq_engine_commit(replica->engine);
}

void lq_apply(struct lq_replica *replica, uint64_t *budget)
{
    while (*budget > 0 && replica->stop == NULL && lq_apply_has_more(replica)) {
        apply_entry(replica, budget);
        lq_replica_watch_role(replica);
    }
}
