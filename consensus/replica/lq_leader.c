/* The leader's part: it takes the segments of all origins, in the order of their numbers, puts them
 * into entries, with what is due ahead of them, and owes each origin the outcomes. It proposes
 * nothing before all entries of earlier terms are applied, so that its cursors are the table's. */
#include "lq_leader_impl.h"

#include "lq_check.h"
#include "lq_mem.h"
#include "lq_planted.h"

/* While a lock is held and nothing else is logged, an empty entry this often keeps table time in
 * the log: a restart of all nodes loses no more. */
#define IDLE_ENTRY_MS 1000

void lq_lead_init(struct lq_replica *replica)
{
    lq_list_init(&replica->lead.gathered);
}

static void drop_gathered(struct lq_lead *lead)
{
    struct lq_list *member;
    while ((member = lq_list_take(&lead->gathered)) != NULL) {
        lq_free(LQ_CONTAINER(member, struct lq_piece, in_gathered));
    }
    lead->gathered_bytes = 0;
}

void lq_lead_done(struct lq_replica *replica)
{
    struct lq_lead *lead = &replica->lead;
    drop_gathered(lead);
    lq_buffer_done(&lead->entry);
}

/* ---- Terms. */

void lq_lead_begin(struct lq_replica *replica)
{
    struct lq_lead *lead = &replica->lead;
    lq_cluster_clock_lead(&replica->clock, replica->term, replica->now_ms);
    lead->is_leading = true;
    lead->is_ready = false;
    lead->first_index = lead->proposed = lead->expires_index = 0;
    lead->n_cursors = lead->n_orders = 0;
    for (size_t i = 0; i < replica->n_peers; i++) {
        struct lq_peer *peer = &replica->peers[i];
        peer->heard_loop = replica->loop_ms; /* silence counts from the election on */
        peer->refused_loop = replica->loop_ms;
        peer->n_outcomes = 0;
        peer->has_progress = false;
    }
    lq_lead_propose(replica); /* each term begins with an entry of its own */
}

void lq_lead_end(struct lq_replica *replica)
{
    struct lq_lead *lead = &replica->lead;
    lq_cluster_clock_follow(&replica->clock, replica->now_ms);
    lead->is_leading = lead->is_ready = false;
    drop_gathered(lead);
    for (size_t i = 0; i < replica->n_peers; i++) {
        replica->peers[i].n_outcomes = 0;
        replica->peers[i].has_progress = false;
        replica->peers[i].sending.is_active = false;
    }
    replica->promoting = 0;
    replica->transfer_to = 0;
    replica->replacing.new_node = replica->replacing.done_new = 0;
}

/* ---- Segments of origins. */

/* The cursor of an origin that is open in the table, or NULL. */
static struct lq_cursor *cursor_of(struct lq_replica *replica, struct lq_origin_id id)
{
    struct lq_lead *lead = &replica->lead;
    struct lq_origin_state state;
    struct lq_cursor *cursor = NULL;
    if (!lq_table_origin(replica->table, id.node, &state) || !state.is_open ||
        state.id.incarnation != id.incarnation) {
        return NULL;
    }
    for (size_t i = 0; i < lead->n_cursors; i++) {
        if (lead->cursors[i].id.node == id.node) {
            cursor = &lead->cursors[i];
        }
    }
    if (cursor == NULL) {
        if (lead->n_cursors == LQ_MEMBERS_MAX) {
            lead->n_cursors = 0; /* ids that came and went: all begin anew from the table */
        }
        cursor = &lead->cursors[lead->n_cursors++];
        *cursor = (struct lq_cursor){0};
    }
    if (cursor->id.node != id.node || cursor->id.incarnation != id.incarnation) {
        *cursor = (struct lq_cursor){.id = id, .last_seq = state.last_seq};
    }
    return cursor;
}

/* Whether the bytes begin as a segment of that node's origin does; `ret_commands` is ready to read
 * it. */
static bool open_segment(uint32_t node, const uint8_t *bytes, size_t len,
                         struct lq_commands *ret_commands)
{
    return len <= LQ_PARCEL_MAX && lq_segment_open(ret_commands, bytes, len) &&
           ret_commands->segment.kind == LQ_SEGMENT_ORIGIN &&
           ret_commands->segment.origin.node == node;
}

/* Whether the rest of it is a segment, too, down to the last command. */
static bool is_whole(struct lq_commands *commands)
{
    struct lq_command command;
    enum lq_commands_next next;
    do {
        next = lq_commands_next(commands, &command);
    } while (next == LQ_COMMANDS_ONE);
    return next == LQ_COMMANDS_END;
}

static void say_resend(struct lq_replica *replica, const struct lq_cursor *cursor)
{
    struct lq_peer *peer = lq_peer_find(replica, cursor->id.node);
    if (cursor->id.node == replica->options.node) {
        lq_home_resend(replica, cursor->last_seq + 1);
    } else if (peer != NULL) {
        lq_peer_send(replica, peer,
                     &(struct lq_message){.kind = LQ_MESSAGE_RESEND,
                                          .term = replica->term,
                                          .incarnation = cursor->id.incarnation,
                                          .next_seq = cursor->last_seq + 1},
                     NULL, NULL, false);
    }
}

/* From now on commands are taken: what came before was not, so that all origins send again. */
static void ask_all(struct lq_replica *replica)
{
    struct lq_origin_state origin = {0};
    while (lq_table_next_origin(replica->table, origin.id.node, &origin)) {
        if (origin.is_open) {
            say_resend(replica, cursor_of(replica, origin.id));
        }
    }
}

void lq_lead_applied(struct lq_replica *replica)
{
    struct lq_lead *lead = &replica->lead;
    if (lead->is_leading && !lead->is_ready && lead->first_index != 0 &&
        replica->applied >= lead->first_index) {
        lead->is_ready = true;
        ask_all(replica);
    }
}

static void gather(struct lq_lead *lead, const uint8_t *bytes, size_t len)
{
    struct lq_piece *piece = lq_malloc(sizeof *piece + len);
    piece->len = len;
    memcpy(piece->bytes, bytes, len);
    lq_list_init(&piece->in_gathered);
    lq_list_append(&lead->gathered, &piece->in_gathered);
    lead->gathered_bytes += len;
}

/* The origin has missed what it was told: once more. */
static void tell_again(struct lq_replica *replica, uint32_t node)
{
    struct lq_peer *peer = lq_peer_find(replica, node);
    if (peer != NULL) {
        peer->has_progress = true;
    }
}

bool lq_lead_submit(struct lq_replica *replica, uint32_t node, const uint8_t *bytes, size_t len)
{
    struct lq_lead *lead = &replica->lead;
    struct lq_commands commands;
    struct lq_cursor *cursor;
    uint64_t last_seq;
    if (!open_segment(node, bytes, len, &commands)) {
        return false;
    }
    cursor = lead->is_ready ? cursor_of(replica, commands.segment.origin) : NULL;
    if (cursor == NULL) {
        return true; /* not ready: it will come again; closed: its node will see that in the log */
    }
    last_seq = commands.segment.first_seq + commands.segment.n_commands - 1;
    if (commands.segment.first_seq > cursor->last_seq + 1) {
        if (!cursor->is_dropped) { /* else it is asked for once there is room */
            say_resend(replica, cursor);
        }
    } else if (last_seq <= cursor->last_seq && !LQ_PLANTED(LQ_PLANT_NO_DEDUPLICATION)) {
        tell_again(replica, node);
    } else if (lead->gathered_bytes + len > LQ_GATHER_BYTES_MAX) {
        cursor->is_dropped = true;
    } else if (node != replica->options.node && !is_whole(&commands)) {
        return false;
    } else {
        cursor->last_seq = last_seq;
        gather(lead, bytes, len);
    }
    return true;
}

void lq_lead_ask_again(struct lq_replica *replica)
{
    struct lq_lead *lead = &replica->lead;
    for (size_t i = 0; i < lead->n_cursors && lead->gathered_bytes < LQ_GATHER_BYTES_MAX / 2; i++) {
        if (lead->cursors[i].is_dropped) {
            lead->cursors[i].is_dropped = false;
            say_resend(replica, &lead->cursors[i]);
        }
    }
}

/* ---- Orders: openings and closings of origins. */

/* Puts an order in; false when it is there already, or can't be now. */
static bool order(struct lq_replica *replica, enum lq_command_type type, struct lq_origin_id id)
{
    struct lq_lead *lead = &replica->lead;
    for (size_t i = 0; i < lead->n_orders; i++) {
        if (lead->orders[i].type == type && lead->orders[i].origin.node == id.node &&
            lead->orders[i].origin.incarnation == id.incarnation) {
            return false;
        }
    }
    if (!lead->is_ready || lead->n_orders == sizeof lead->orders / sizeof lead->orders[0]) {
        return false;
    }
    lead->orders[lead->n_orders++] = (struct lq_command){.type = (uint8_t)type, .origin = id};
    return true;
}

void lq_lead_open(struct lq_replica *replica, struct lq_origin_id id)
{
    if (id.incarnation != 0 && lq_members_find(&replica->replay.members, id.node) != NULL) {
        (void)order(replica, LQ_COMMAND_ORIGIN_OPEN, id);
    }
}

void lq_lead_close(struct lq_replica *replica, struct lq_origin_id id)
{
    struct lq_origin_state state;
    if (lq_table_origin(replica->table, id.node, &state) && state.is_open &&
        state.id.incarnation == id.incarnation) {
        if (order(replica, LQ_COMMAND_ORIGIN_CLOSE, id) && id.node != replica->options.node) {
            lq_effects_note(&replica->effects, LQ_NOTE_ORIGIN_DEAD, id.node, 0);
        }
    }
}

/* ---- Outcomes owed to the origins of others. */

void lq_lead_owe(struct lq_replica *replica, const struct lq_outcome *outcome)
{
    struct lq_peer *peer = lq_peer_find(replica, outcome->origin.node);
    bool is_news = outcome->kind != LQ_OUTCOME_QUEUED && outcome->kind != LQ_OUTCOME_SKIPPED &&
                   outcome->kind != LQ_OUTCOME_NOT_QUEUED;
    if (peer == NULL || !peer->is_linked || !is_news) {
        return;
    }
    if (peer->outcomes_of != outcome->origin.incarnation) {
        peer->n_outcomes = 0; /* that life is over: nobody asks for them any more */
    }
    if (peer->n_outcomes == peer->outcomes_cap) {
        peer->outcomes_cap = peer->outcomes_cap == 0 ? 64 : 2 * peer->outcomes_cap;
        peer->outcomes = lq_realloc(peer->outcomes, peer->outcomes_cap, sizeof *peer->outcomes);
    }
    peer->outcomes_of = outcome->origin.incarnation;
    peer->outcomes[peer->n_outcomes++] = (struct lq_message_outcome){.kind = outcome->kind,
                                                                     .lease_s = outcome->lease_s,
                                                                     .seq = outcome->seq,
                                                                     .token = outcome->token,
                                                                     .stamp_ms = outcome->stamp_ms};
    if (peer->n_outcomes == LQ_OUTCOMES_MAX) {
        lq_lead_pay(replica, peer);
    }
}

void lq_lead_pay(struct lq_replica *replica, struct lq_peer *peer)
{
    struct lq_origin_state state;
    if (peer->n_outcomes == 0 && !peer->has_progress) {
        return;
    }
    if (lq_table_origin(replica->table, peer->node, &state)) {
        bool is_present = peer->n_outcomes == 0 || peer->outcomes_of == state.id.incarnation;
        lq_peer_send(replica, peer,
                     &(struct lq_message){.kind = LQ_MESSAGE_OUTCOMES,
                                          .term = replica->term,
                                          .incarnation = state.id.incarnation,
                                          .through = state.last_seq,
                                          .count = is_present ? (uint32_t)peer->n_outcomes : 0},
                     NULL, peer->outcomes, false);
    }
    peer->n_outcomes = 0;
    peer->has_progress = false;
}

/* ---- Time. */

/* When table time will be at `table_ms`, by the own clock. */
static uint64_t own_time_of(const struct lq_replica *replica, uint64_t table_ms)
{
    uint64_t now = lq_replica_table_ms(replica);
    return table_ms > now ? replica->now_ms + (table_ms - now) : replica->now_ms;
}

void lq_lead_turn(struct lq_replica *replica)
{
    struct lq_lead *lead = &replica->lead;
    if (lead->is_leading && lead->first_index == 0) {
        lq_lead_propose(replica);
    }
}

uint64_t lq_lead_deadline(const struct lq_replica *replica)
{
    const struct lq_lead *lead = &replica->lead;
    uint64_t due_ms, deadline = LQ_NEVER;
    if (!lead->is_ready || lq_change_stops_proposals(replica) || !lq_lead_has_room(replica)) {
        return LQ_NEVER;
    }
    due_ms = lq_table_next_deadline(replica->table, LQ_WHICH_ALL);
    if (due_ms != LQ_NEVER && replica->applied >= lead->expires_index) {
        deadline = own_time_of(replica, due_ms);
    }
    if (lq_table_counts(replica->table).keys > 0) {
        deadline = lq_earlier(deadline, lead->proposed_ms + IDLE_ENTRY_MS);
    }
    return deadline;
}

bool lq_lead_is_idle_due(const struct lq_replica *replica)
{
    return replica->now_ms >= replica->lead.proposed_ms + IDLE_ENTRY_MS &&
           lq_table_counts(replica->table).keys > 0;
}
