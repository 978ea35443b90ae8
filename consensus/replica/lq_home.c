/* This node's origin: how the commands of its clients get to the leader and are applied exactly
 * once.
 *
 * The table applies a command only if its number follows the last one. So a command is numbered
 * once, when there is a leader to hand it to, and kept in the outbox until it is known to be
 * applied; whatever happens to leaders, links and messages, it is handed on again under the same
 * number. Its outcome comes from the leader, or from this node's own table: the first one counts.
 */
#include "lq_check.h"
#include "lq_mem.h"
#include "lq_planted.h"
#include "lq_replica_impl.h"

/* How often the opening of the origin is asked for. */
#define ASK_MS 50

/* Parcels without progress for so long are handed on again, some at a time. */
#define AGAIN_MS    150
#define AGAIN_COUNT 16

/* Parcels handed on in one turn: a megabyte. */
#define HAND_COUNT 64

/* A leader's "send again" within this time after the last one is about the same loss. */
#define RESEND_PAUSE_MS 5

static void drop_parcel(struct lq_home *home, struct lq_parcel *parcel)
{
    home->outbox_bytes -= parcel->segment.len;
    if (home->parcel == parcel) {
        home->parcel = NULL;
    }
    lq_list_remove(&parcel->in_outbox);
    lq_buffer_done(&parcel->segment);
    lq_free(parcel);
}

static struct lq_parcel *parcel_of(struct lq_list *member)
{
    return LQ_CONTAINER(member, struct lq_parcel, in_outbox);
}

static void drop_outbox(struct lq_home *home)
{
    while (!lq_list_is_empty(&home->outbox)) {
        drop_parcel(home, parcel_of(home->outbox.next));
    }
}

static uint64_t hash_request(const struct lq_map_node *node, const void *context)
{
    (void)context;
    return lq_map_spread(LQ_CONTAINER(node, const struct lq_request, by_seq)->seq);
}

static uint64_t hash_token(const struct lq_map_node *node, const void *context)
{
    (void)context;
    return lq_map_spread(LQ_CONTAINER(node, const struct lq_request, by_token)->token);
}

void lq_home_init(struct lq_replica *replica)
{
    struct lq_home *home = &replica->home;
    lq_list_init(&home->outbox);
    lq_list_init(&home->held);
    lq_list_init(&home->changes);
    for (int i = 0; i < LQ_HOME_TIMERS; i++) {
        lq_list_init(&home->timers[i]);
    }
    lq_map_init(&home->by_seq, hash_request, NULL);
    lq_map_init(&home->by_token, hash_token, NULL);
}

void lq_home_done(struct lq_replica *replica)
{
    struct lq_home *home = &replica->home;
    drop_outbox(home);
    lq_map_done(&home->by_seq);
    lq_map_done(&home->by_token);
    lq_free(home->answers);
}

bool lq_home_is_serving(const struct lq_replica *replica)
{
    return replica->home.is_open && replica->leader != 0 && replica->stop == NULL;
}

/* ---- Numbering. */

static struct lq_parcel *open_parcel(struct lq_replica *replica)
{
    struct lq_home *home = &replica->home;
    struct lq_parcel *parcel = home->parcel;
    if (parcel != NULL && parcel->segment.len < LQ_PARCEL_BYTES &&
        parcel->segment.len < replica->options.entry_bytes / 2) {
        return parcel;
    }
    if (lq_list_is_empty(&home->outbox)) {
        home->grown_ms = replica->now_ms;
    }
    parcel = lq_calloc(1, sizeof *parcel);
    parcel->first_seq = home->last_seq + 1;
    lq_buffer_init(&parcel->segment);
    (void)lq_segment_begin(&parcel->segment, LQ_SEGMENT_ORIGIN, home->id, parcel->first_seq);
    home->outbox_bytes += parcel->segment.len;
    lq_list_init(&parcel->in_outbox);
    lq_list_append(&home->outbox, &parcel->in_outbox);
    home->parcel = parcel;
    return parcel;
}

uint64_t lq_home_number(struct lq_replica *replica, struct lq_command *command)
{
    struct lq_home *home = &replica->home;
    struct lq_parcel *parcel = open_parcel(replica);
    home->outbox_bytes -= parcel->segment.len;
    command->origin = home->id;
    command->seq = ++home->last_seq;
    lq_segment_add(&parcel->segment, 0, command);
    parcel->last_seq = home->last_seq;
    home->outbox_bytes += parcel->segment.len;
    return command->seq;
}

/* ---- Handing on. */

static void hand(struct lq_replica *replica, struct lq_parcel *parcel)
{
    struct lq_home *home = &replica->home;
    if (home->parcel == parcel) {
        home->parcel = NULL; /* it is complete */
    }
    parcel->is_handed = true;
    home->told_ms = replica->now_ms;
    if (replica->leader == replica->options.node) {
        (void)lq_lead_submit(replica, replica->leader, parcel->segment.bytes, parcel->segment.len);
    } else {
        struct lq_peer *peer = lq_peer_find(replica, replica->leader);
        if (peer != NULL && !peer->is_full) {
            lq_peer_send(replica, peer,
                         &(struct lq_message){.kind = LQ_MESSAGE_SUBMIT,
                                              .term = replica->term,
                                              .bytes = parcel->segment.bytes,
                                              .len = parcel->segment.len},
                         NULL, NULL, false);
        }
    }
}

/* Planted: what is handed on again is numbered anew. */
static void renumber(struct lq_home *home)
{
    struct lq_parcel *last, *copy;
    struct lq_commands commands;
    struct lq_command command;
    if (!LQ_PLANTED(LQ_PLANT_NEW_NUMBER) || lq_list_is_empty(&home->outbox)) {
        return;
    }
    last = parcel_of(home->outbox.prev);
    copy = lq_calloc(1, sizeof *copy);
    copy->first_seq = home->last_seq + 1;
    lq_buffer_init(&copy->segment);
    (void)lq_segment_begin(&copy->segment, LQ_SEGMENT_ORIGIN, home->id, copy->first_seq);
    LQ_CHECK(lq_segment_open(&commands, last->segment.bytes, last->segment.len));
    while (lq_commands_next(&commands, &command) == LQ_COMMANDS_ONE) {
        lq_segment_add(&copy->segment, 0, &command);
        copy->last_seq = ++home->last_seq;
    }
    home->outbox_bytes += copy->segment.len;
    lq_list_init(&copy->in_outbox);
    lq_list_append(&home->outbox, &copy->in_outbox);
    home->parcel = NULL;
}

/* Parcels with numbers from `seq` on, at most `max` of them, are to be handed on again. */
static void again_from(struct lq_home *home, uint64_t seq, unsigned max)
{
    struct lq_list *at = home->outbox.next;
    for (; at != &home->outbox && max > 0; at = at->next) {
        if (parcel_of(at)->last_seq >= seq) {
            parcel_of(at)->is_handed = false;
            home->is_ragged = true;
            max--;
        }
    }
}

void lq_home_resend(struct lq_replica *replica, uint64_t next_seq)
{
    struct lq_home *home = &replica->home;
    if (replica->now_ms >= home->resent_ms + RESEND_PAUSE_MS) {
        home->resent_ms = replica->now_ms;
        again_from(home, next_seq, UINT32_MAX);
    }
}

/* The first parcel that may have to be handed on: new ones are the last. */
static struct lq_list *first_unhanded(struct lq_home *home)
{
    struct lq_list *at = &home->outbox;
    if (home->is_ragged) {
        return home->outbox.next;
    }
    while (at->prev != &home->outbox && !parcel_of(at->prev)->is_handed) {
        at = at->prev;
    }
    return at;
}

void lq_home_flush(struct lq_replica *replica)
{
    struct lq_home *home = &replica->home;
    bool is_ready = replica->leader != replica->options.node || replica->lead.is_ready;
    unsigned n = 0;
    home->has_more = false;
    if (replica->leader == 0 || !is_ready || !home->is_open) {
        return;
    }
    for (struct lq_list *at = first_unhanded(home); at != &home->outbox && n < HAND_COUNT;
         at = at->next) {
        if (!parcel_of(at)->is_handed) {
            hand(replica, parcel_of(at));
            n++;
        }
    }
    home->has_more = n == HAND_COUNT;
    home->is_ragged = home->is_ragged && home->has_more;
}

void lq_home_applied(struct lq_replica *replica, uint64_t seq)
{
    struct lq_home *home = &replica->home;
    if (seq <= home->through || seq > home->last_seq) {
        return;
    }
    home->through = seq;
    home->told_ms = home->grown_ms = replica->now_ms;
    while (!lq_list_is_empty(&home->outbox) && parcel_of(home->outbox.next)->last_seq <= seq) {
        drop_parcel(home, parcel_of(home->outbox.next));
    }
}

/* ---- Opening and closing. */

static void opened(struct lq_replica *replica, const struct lq_origin_state *state)
{
    struct lq_home *home = &replica->home;
    home->is_open = true;
    home->last_seq = home->through = state->last_seq;
    lq_effects_note(&replica->effects, LQ_NOTE_SERVING, home->id.incarnation, 0);
}

/* This life of the origin is over: what has a number will never be known, and the next life begins.
 */
static void closed(struct lq_replica *replica)
{
    struct lq_home *home = &replica->home;
    lq_effects_note(&replica->effects, LQ_NOTE_CLOSED, home->id.incarnation, 0);
    home->is_open = false;
    home->id.incarnation++;
    home->asked_ms = 0;
    home->last_seq = home->through = 0;
    drop_outbox(home);
    lq_home_drop_numbered(replica);
}

void lq_home_look(struct lq_replica *replica)
{
    struct lq_home *home = &replica->home;
    struct lq_origin_state state;
    if (home->id.incarnation == 0 ||
        !lq_table_origin(replica->table, replica->options.node, &state)) {
        return;
    }
    if (state.id.incarnation >> 32 > replica->boot) {
        lq_replica_stop(replica, "this node was started before with a later state of its disk "
                                 "than the one it has now: its disk is an old copy; remove it "
                                 "from the cluster, empty its data directory and add it under a "
                                 "new id");
    } else if (state.id.incarnation != home->id.incarnation) {
        return;
    } else if (!state.is_open) {
        closed(replica);
    } else if (!home->is_open) {
        opened(replica, &state);
    } else {
        lq_home_applied(replica, state.last_seq);
    }
}

/* Whether the leader is to be asked to open the origin or, when this node leaves, to close it. */
static bool is_asking(const struct lq_replica *replica)
{
    const struct lq_home *home = &replica->home;
    return home->is_open == replica->is_leaving && home->id.incarnation != 0 &&
           replica->leader != 0 &&
           lq_members_find(&replica->replay.members, replica->options.node) != NULL;
}

static void ask(struct lq_replica *replica)
{
    struct lq_home *home = &replica->home;
    struct lq_peer *peer = lq_peer_find(replica, replica->leader);
    struct lq_message message = {.kind = home->is_open ? LQ_MESSAGE_CLOSE : LQ_MESSAGE_OPEN,
                                 .incarnation = home->id.incarnation};
    if (!is_asking(replica) || replica->now_ms < home->asked_ms + ASK_MS) {
        return;
    }
    home->asked_ms = replica->now_ms;
    if (peer != NULL) {
        lq_peer_send(replica, peer, &message, NULL, NULL, false);
    } else if (home->is_open) {
        lq_lead_close(replica, home->id);
    } else {
        lq_lead_open(replica, home->id);
    }
}

/* ---- Turns. */

static void watch_leader(struct lq_replica *replica)
{
    struct lq_home *home = &replica->home;
    if (home->handed_to == replica->leader && home->handed_term == replica->term) {
        return;
    }
    home->handed_to = replica->leader;
    home->handed_term = replica->term;
    if (replica->leader != 0) {
        home->asked_ms = 0;
        home->resent_ms = replica->now_ms;
        renumber(home);
        again_from(home, 0, UINT32_MAX);
    }
}

void lq_home_turn(struct lq_replica *replica)
{
    struct lq_home *home = &replica->home;
    watch_leader(replica);
    ask(replica);
    if (!lq_list_is_empty(&home->outbox) && replica->now_ms >= home->told_ms + AGAIN_MS) {
        home->told_ms = replica->now_ms;
        again_from(home, 0, AGAIN_COUNT);
    }
}

uint64_t lq_home_deadline(const struct lq_replica *replica)
{
    const struct lq_home *home = &replica->home;
    uint64_t deadline = lq_home_patience(replica);
    if (home->n_taken < home->n_answers || home->has_more) {
        return 0;
    }
    if (is_asking(replica)) {
        deadline = lq_earlier(deadline, home->asked_ms + ASK_MS);
    }
    if (!lq_list_is_empty(&home->outbox)) {
        deadline = lq_earlier(deadline, home->told_ms + AGAIN_MS);
    }
    return deadline;
}
