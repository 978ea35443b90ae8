/* Entries, as the leader puts them together. */
#include "lq_leader_impl.h"

#include "lq_check.h"
#include "lq_limits.h"
#include "lq_mem.h"

/* A segment of orders and expiries at the head of an entry that is being put together. */
struct head {
    struct lq_buffer *entry;
    size_t at;
    bool is_begun;
};

static void add_order(struct head *head, const struct lq_command *command)
{
    if (!head->is_begun) {
        head->is_begun = true;
        head->at = lq_segment_begin(head->entry, LQ_SEGMENT_LEADER, (struct lq_origin_id){0}, 0);
    }
    lq_segment_add(head->entry, head->at, command);
}

static void visit_expire(void *context, const struct lq_command *expire)
{
    add_order(context, expire);
}

/* Due expiries of the keys that this segment touches go ahead of it. */
static void expire_touched(struct lq_replica *replica, struct head *head,
                           const struct lq_piece *piece, uint64_t time_ms)
{
    struct lq_commands commands;
    struct lq_command command, expire;
    if (lq_table_next_deadline(replica->table, LQ_WHICH_ALL) > time_ms ||
        !lq_segment_open(&commands, piece->bytes, piece->len)) {
        return;
    }
    while (lq_commands_next(&commands, &command) == LQ_COMMANDS_ONE) {
        if (command.type == LQ_COMMAND_ACQUIRE &&
            lq_table_key_due(replica->table, command.key, command.key_len, time_ms, &expire)) {
            add_order(head, &expire);
        }
    }
}

/* Whether expiries are to be drained: not while those of an earlier entry are in flight, which
 * would be proposed again. */
static bool may_drain(const struct lq_replica *replica)
{
    return replica->applied >= replica->lead.expires_index;
}

/* Expiries in one entry: what a turn may cost, and no more bytes than the entry has room for. */
static size_t n_expires_max(const struct lq_replica *replica)
{
    size_t fitting = replica->options.entry_bytes / LQ_COMMAND_MAX + 1;
    return fitting < LQ_TURN_EXPIRES ? fitting : LQ_TURN_EXPIRES;
}

/* Fills the head of the entry: orders, due expiries, those of touched keys. Returns how many pieces
 * fit behind it. */
static size_t fill_head(struct lq_replica *replica, struct head *head, uint64_t time_ms,
                        bool *ret_drained)
{
    struct lq_lead *lead = &replica->lead;
    size_t n_pieces = 0, bytes = 0;
    for (size_t i = 0; i < lead->n_orders; i++) {
        add_order(head, &lead->orders[i]);
    }
    lead->n_orders = 0;
    *ret_drained =
        may_drain(replica) &&
        lq_table_due_all(replica->table, time_ms, n_expires_max(replica), visit_expire, head) > 0;
    for (const struct lq_list *at = lead->gathered.next; at != &lead->gathered; at = at->next) {
        const struct lq_piece *piece = LQ_CONTAINER(at, const struct lq_piece, in_gathered);
        bytes += piece->len;
        if (n_pieces > 0 && bytes > replica->options.entry_bytes) {
            break;
        }
        expire_touched(replica, head, piece, time_ms);
        n_pieces++;
    }
    if (head->is_begun) {
        lq_entry_count_segment(head->entry);
    }
    return n_pieces;
}

static void add_pieces(struct lq_lead *lead, size_t n_pieces)
{
    const struct lq_list *at = lead->gathered.next;
    for (size_t i = 0; i < n_pieces; i++, at = at->next) {
        const struct lq_piece *piece = LQ_CONTAINER(at, const struct lq_piece, in_gathered);
        lq_buffer_add(&lead->entry, piece->bytes, piece->len);
        lq_entry_count_segment(&lead->entry);
    }
}

static void drop_pieces(struct lq_lead *lead, size_t n_pieces)
{
    for (size_t i = 0; i < n_pieces; i++) {
        struct lq_piece *piece = LQ_CONTAINER(lead->gathered.next, struct lq_piece, in_gathered);
        lq_list_remove(&piece->in_gathered);
        lead->gathered_bytes -= piece->len;
        lq_free(piece);
    }
}

/* Raft did not take it: cursors begin anew from the table, and origins send again. */
static void refused(struct lq_lead *lead)
{
    lead->n_cursors = 0;
    while (!lq_list_is_empty(&lead->gathered)) {
        drop_pieces(lead, 1);
    }
}

void lq_lead_propose(struct lq_replica *replica)
{
    struct lq_lead *lead = &replica->lead;
    struct lq_stamp stamp = {.caps = replica->options.caps};
    struct head head = {.entry = &lead->entry};
    uint64_t last_ms = lq_replica_last_stamp(replica);
    size_t n_pieces;
    bool drained = false;
    if (lq_change_stops_proposals(replica)) {
        return;
    }
    stamp.time_ms = lq_replica_table_ms(replica);
    stamp.time_ms = stamp.time_ms > last_ms ? stamp.time_ms : last_ms;
    lead->entry.len = 0;
    lq_entry_begin(&lead->entry, &stamp);
    n_pieces = lead->is_ready ? fill_head(replica, &head, stamp.time_ms, &drained) : 0;
    add_pieces(lead, n_pieces);
    if (!lq_engine_submit(replica->engine, LQ_ENTRY_COMMANDS, lead->entry.bytes, lead->entry.len)) {
        refused(lead);
        return;
    }
    lead->proposed = lq_log_last(&replica->log).index;
    lead->proposed_ms = replica->now_ms;
    lead->first_index = lead->first_index == 0 ? lead->proposed : lead->first_index;
    if (lead->is_ready && drained) {
        lead->expires_index = lead->proposed;
    }
    drop_pieces(lead, n_pieces);
}

void lq_lead_propose_empty(struct lq_replica *replica)
{
    if (replica->lead.is_leading) {
        lq_lead_propose(replica);
    }
}

bool lq_lead_has_room(const struct lq_replica *replica)
{
    return replica->lead.proposed < replica->applied + LQ_INFLIGHT_MAX;
}

static bool has_work(const struct lq_replica *replica)
{
    const struct lq_lead *lead = &replica->lead;
    bool is_due = may_drain(replica) && lq_table_next_deadline(replica->table, LQ_WHICH_ALL) <=
                                            lq_replica_table_ms(replica);
    return !lq_list_is_empty(&lead->gathered) || lead->n_orders > 0 || is_due ||
           lq_lead_is_idle_due(replica);
}

void lq_lead_flush(struct lq_replica *replica)
{
    struct lq_lead *lead = &replica->lead;
    uint64_t before;
    if (!lead->is_leading) {
        return;
    }
    do {
        before = lead->proposed;
        if (lead->is_ready && lq_lead_has_room(replica) && has_work(replica)) {
            lq_lead_propose(replica);
        }
    } while (lead->proposed != before);
    lq_lead_ask_again(replica);
    for (size_t i = 0; i < replica->n_peers; i++) {
        lq_lead_pay(replica, &replica->peers[i]);
    }
}
