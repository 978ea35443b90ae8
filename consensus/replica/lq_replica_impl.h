/* Inside of the replica: what its parts (lq_replica_state.h) ask of each other. Nobody else
 * includes this. */
#ifndef LQ_REPLICA_IMPL_H
#define LQ_REPLICA_IMPL_H

#include "lq_replica_state.h"

#include <string.h>

/* ---- lq_replica.c */

/* The node must stop: `format` says why. */
__attribute__((format(printf, 2, 3))) void lq_replica_stop(struct lq_replica *replica,
                                                           const char *format, ...);

/* From `low` to `high`. */
uint64_t lq_replica_random(struct lq_replica *replica, uint64_t low, uint64_t high);
/* Looks whether role, term or leader changed, and acts on it. To be called after the engine was. */
void lq_replica_watch_role(struct lq_replica *replica);

/* Puts a record into the journal that messages wait for. */
void lq_replica_put_held(struct lq_replica *replica, const struct lq_journal_record *record);

/* Starts raft over what the log holds. */
void lq_replica_start_engine(struct lq_replica *replica, uint64_t term, uint64_t vote);

/* The stamp of the last entry in the log that has one, or the time of the state. */
uint64_t lq_replica_last_stamp(const struct lq_replica *replica);

/* Table time as this node has it now. */
uint64_t lq_replica_table_ms(const struct lq_replica *replica);

/* ---- lq_peers.c */

/* The peer, or NULL when it was never linked and is no member. */
struct lq_peer *lq_peer_find(struct lq_replica *replica, uint32_t node);
struct lq_peer *lq_peer_get(struct lq_replica *replica, uint32_t node);

/* Whether this node knows that the peer was here before with another disk. */
bool lq_peer_lost_disk(const struct lq_replica *replica, const struct lq_peer *peer);

/* Makes a message for a peer, with the time, its ping and ours. Dropped when it is not linked.
 * `is_held`: it must not leave before term and vote are durable. */
void lq_peer_send(struct lq_replica *replica, struct lq_peer *peer,
                  const struct lq_message *message, const struct lq_message_entry *entries,
                  const struct lq_message_outcome *outcomes, bool is_held);

/* Lets go what was held, once it may leave. */
void lq_peers_release(struct lq_replica *replica);

/* Pings, elections that need not wait, in each turn. */
void lq_peers_turn(struct lq_replica *replica);
uint64_t lq_peers_deadline(const struct lq_replica *replica);

/* Forms the cluster once all its first members have met blank. */
void lq_peers_try_to_form(struct lq_replica *replica);

void lq_peers_free(struct lq_replica *replica);

/* ---- lq_skip.c */

/* The leader's process is gone. */
void lq_skip_leader_died(struct lq_replica *replica);

/* Raft begins, with the vote that the disk has. */
void lq_skip_start(struct lq_replica *replica, uint64_t vote);

/* There is a leader. */
void lq_skip_end(struct lq_replica *replica);

void lq_skip_turn(struct lq_replica *replica);
uint64_t lq_skip_deadline(const struct lq_replica *replica);

/* ---- lq_apply.c */

/* Applies what is committed, as far as the turn has room; lq_apply_renew ends a turn. */
void lq_apply(struct lq_replica *replica);
void lq_apply_renew(struct lq_replica *replica);

/* The state is that of the newest snapshot, or empty: what comes is applied to it. */
void lq_apply_begin(struct lq_replica *replica);

/* The same for a snapshot that was installed on a node that runs: its members may be others. */
void lq_apply_install(struct lq_replica *replica);

bool lq_apply_has_more(const struct lq_replica *replica);

/* The same, and nothing speaks against applying it now. */
bool lq_apply_can(const struct lq_replica *replica);

/* A digest of another voter came. */
void lq_apply_digest(struct lq_replica *replica, uint32_t node, uint64_t index, uint64_t digest);

/* ---- lq_home.c */

void lq_home_init(struct lq_replica *replica);
void lq_home_done(struct lq_replica *replica);
extern const struct lq_backend_ops lq_home_ops;

/* An outcome for the own origin, from the own table or from the leader. */
void lq_home_outcome(struct lq_replica *replica, const struct lq_outcome *outcome);

/* Commands up to `seq` were applied somewhere where it counts. */
void lq_home_applied(struct lq_replica *replica, uint64_t seq);

/* The leader expects `next_seq`. */
void lq_home_resend(struct lq_replica *replica, uint64_t next_seq);

/* Looks at what the table says of the own origin, after an entry with orders. */
void lq_home_look(struct lq_replica *replica);

/* Another state was installed: looks up every request in it. */
void lq_home_reinstalled(struct lq_replica *replica);

/* Opens, hands on, hands on again, gives up: what is due. */
void lq_home_turn(struct lq_replica *replica);
void lq_home_flush(struct lq_replica *replica);
uint64_t lq_home_deadline(const struct lq_replica *replica);

/* Whether commands can be numbered now. */
bool lq_home_is_serving(const struct lq_replica *replica);

/* ---- lq_home_requests.c: requests and their answers. */

void lq_home_answer(struct lq_replica *replica, struct lq_request *request,
                    enum lq_answer_kind kind, uint64_t token);
void lq_home_drop_numbered(struct lq_replica *replica);
uint64_t lq_home_patience(const struct lq_replica *replica);

/* Numbers a command and puts it into the outbox; returns its number. */
uint64_t lq_home_number(struct lq_replica *replica, struct lq_command *command);

/* ---- lq_leader.c */

void lq_lead_init(struct lq_replica *replica);
void lq_lead_done(struct lq_replica *replica);
void lq_lead_begin(struct lq_replica *replica); /* elected */
void lq_lead_end(struct lq_replica *replica);   /* no longer */

/* A segment of `node`'s origin. False: the bytes are no such segment. */
bool lq_lead_submit(struct lq_replica *replica, uint32_t node, const uint8_t *bytes, size_t len);
void lq_lead_open(struct lq_replica *replica, struct lq_origin_id id);
void lq_lead_close(struct lq_replica *replica, struct lq_origin_id id);
void lq_lead_applied(struct lq_replica *replica);
void lq_lead_turn(struct lq_replica *replica);
void lq_lead_flush(struct lq_replica *replica);
uint64_t lq_lead_deadline(const struct lq_replica *replica);
/* Proposes an entry now, whether there is something to put into it or not. */
void lq_lead_propose_empty(struct lq_replica *replica);

/* Owes an outcome to the origin of another node. */
void lq_lead_owe(struct lq_replica *replica, const struct lq_outcome *outcome);

/* ---- lq_snapshots.c */

void lq_snapshots_done(struct lq_replica *replica);
void lq_snapshots_turn(struct lq_replica *replica);
bool lq_snapshots_are_busy(const struct lq_replica *replica);

/* Whether the log has grown to twice of what a snapshot should have cut off. */
bool lq_snapshots_are_overdue(const struct lq_replica *replica);
void lq_snapshots_durable(struct lq_replica *replica); /* more records are */
void lq_snapshots_abort(struct lq_replica *replica);

/* `finished` is the newest from now on; its mark goes into the journal. */
void lq_snapshots_use(struct lq_replica *replica, const struct lq_finished *finished,
                      enum lq_journal_kind mark);

/* ---- lq_transfer.c */

void lq_transfer_want(struct lq_replica *replica, uint32_t node, struct lq_log_point point);
void lq_transfer_chunk(struct lq_replica *replica, uint32_t node, const struct lq_message *chunk);
void lq_transfer_result(struct lq_replica *replica, uint32_t node,
                        const struct lq_message *message);
void lq_transfer_turn(struct lq_replica *replica);
void lq_transfer_finished(struct lq_replica *replica);
void lq_transfer_failed(struct lq_replica *replica);
bool lq_transfer_is_pinned(const struct lq_replica *replica);
void lq_transfer_install(struct lq_replica *replica, struct lq_log_point point);
uint64_t lq_transfer_deadline(const struct lq_replica *replica);

#endif
