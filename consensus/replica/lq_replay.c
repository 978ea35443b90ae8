#include "lq_replay.h"

#include "lq_engine.h"
#include "lq_entry.h"
#include "lq_journal.h"
#include "lq_planted.h"

void lq_replay_init(struct lq_replay *replay, struct lq_table *table,
                    const struct lq_members *members, uint64_t members_index)
{
    *replay =
        (struct lq_replay){.table = table, .members = *members, .members_index = members_index};
    lq_outcomes_init(&replay->outcomes);
}

void lq_replay_done(struct lq_replay *replay)
{
    lq_outcomes_done(&replay->outcomes);
}

const char *lq_replay_fault_text(enum lq_replay_fault fault)
{
    switch (fault) {
    case LQ_REPLAY_OK:
        return "is sound";
    case LQ_REPLAY_CHECKSUM:
        return "has a wrong checksum";
    case LQ_REPLAY_TYPE:
        return "is of a type that no node writes";
    case LQ_REPLAY_COMMANDS:
        return "makes no sense";
    case LQ_REPLAY_MEMBERS:
        return "lists no members";
    }
    return "has an unknown fault";
}

static void tell(struct lq_replay *replay, const struct lq_stamp *stamp,
                 const struct lq_command *command)
{
    if (replay->on_command != NULL) {
        replay->on_command(replay->context, stamp, command, &replay->outcomes);
    }
    replay->outcomes.count = 0;
}

/* Reads the next commands, as many as are looked ahead at; LQ_COMMANDS_ONE when there may be more.
 */
static enum lq_commands_next read_ahead(const struct lq_table *table, struct lq_commands *commands,
                                        struct lq_ahead *ahead)
{
    enum lq_commands_next next = LQ_COMMANDS_ONE;
    ahead->n = 0;
    while (ahead->n < LQ_AHEAD_MAX &&
           (next = lq_commands_next(commands, &ahead->commands[ahead->n])) == LQ_COMMANDS_ONE) {
        ahead->n++;
    }
    lq_table_look_ahead(table, ahead);
    return next;
}

static enum lq_replay_fault apply_commands(struct lq_replay *replay,
                                           const struct lq_log_entry *entry)
{
    struct lq_commands commands;
    struct lq_ahead ahead;
    enum lq_commands_next next = LQ_COMMANDS_BAD;
    if (!lq_entry_open(&commands, entry->bytes, entry->len) ||
        commands.stamp.time_ms < lq_table_counts(replay->table).time_ms) {
        return LQ_REPLAY_COMMANDS;
    }
    do {
        next = read_ahead(replay->table, &commands, &ahead);
        for (size_t i = 0; i < ahead.n; i++) {
            lq_table_apply_ahead(replay->table, &ahead, i, &commands.stamp, &replay->outcomes);
            tell(replay, &commands.stamp, &ahead.commands[i]);
        }
    } while (next == LQ_COMMANDS_ONE);
    return next == LQ_COMMANDS_END ? LQ_REPLAY_OK : LQ_REPLAY_COMMANDS;
}

/* The origins of nodes that are members no more are closed, at the time of the last entry. */
static enum lq_replay_fault apply_members(struct lq_replay *replay, uint64_t index,
                                          const struct lq_log_entry *entry)
{
    struct lq_stamp stamp = {.time_ms = lq_table_counts(replay->table).time_ms};
    struct lq_origin_state origin = {0};
    if (!lq_members_decode(&replay->members, entry->bytes, entry->len)) {
        return LQ_REPLAY_MEMBERS;
    }
    replay->members_index = index;
    while (lq_table_next_origin(replay->table, origin.id.node, &origin)) {
        if (origin.is_open && lq_members_find(&replay->members, origin.id.node) == NULL) {
            struct lq_command close = {.type = LQ_COMMAND_ORIGIN_CLOSE, .origin = origin.id};
            lq_table_apply(replay->table, &close, &stamp, &replay->outcomes);
            tell(replay, &stamp, &close);
        }
    }
    return LQ_REPLAY_OK;
}

enum lq_replay_fault lq_replay_entry(struct lq_replay *replay, uint64_t index,
                                     const struct lq_log_entry *entry)
{
    if (entry->check !=
            lq_journal_entry_check(index, entry->term, entry->type, entry->bytes, entry->len) &&
        !LQ_PLANTED(LQ_PLANT_BAD_CHECKSUM)) {
        return LQ_REPLAY_CHECKSUM;
    }
    switch ((enum lq_entry_type)entry->type) {
    case LQ_ENTRY_COMMANDS:
        return apply_commands(replay, entry);
    case LQ_ENTRY_MEMBERS:
        return apply_members(replay, index, entry);
    case LQ_ENTRY_BARRIER:
        return LQ_REPLAY_OK;
    }
    return LQ_REPLAY_TYPE;
}
