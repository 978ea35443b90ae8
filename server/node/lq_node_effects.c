/* What the replica asks for, carried out; what the disk has done, told to it. */
#include "lq_check.h"
#include "lq_log.h"
#include "lq_node_impl.h"

#include <stdio.h>
#include <sys/random.h>

/* How often the same trouble is told. */
#define SKIP_LOG_MS 10000

static void fail(struct lq_node *node, const char *text)
{
    if (!node->has_failed) {
        node->has_failed = true;
        lq_log(LQ_LOG_ERROR, text, LQ_NUMBER("node", node->id));
    }
}

/* ---- The disk. */

static uint64_t random_salt(void)
{
    uint64_t salt;
    LQ_CHECK(getrandom(&salt, sizeof salt, 0) == (ssize_t)sizeof salt);
    return salt | 1;
}

static void tell_replica(struct lq_node *node, const struct lq_disk_answer *answer)
{
    struct lq_replica *replica = node->replica;
    switch (answer->kind) {
    case LQ_DISK_ALLOCATED:
        lq_replica_allocated(replica, random_salt());
        break;
    case LQ_DISK_NO_ROOM:
        lq_replica_no_room(replica);
        break;
    case LQ_DISK_SEGMENT_READY:
        lq_replica_segment_ready(replica);
        break;
    case LQ_DISK_WRITTEN:
        lq_replica_written(replica);
        break;
    case LQ_DISK_DELETED:
        lq_replica_deleted(replica);
        break;
    case LQ_DISK_SNAPSHOT_FINISHED:
        lq_replica_snapshot_finished(replica, answer->is_incoming);
        break;
    case LQ_DISK_SNAPSHOT_FAILED:
        lq_replica_snapshot_failed(replica, answer->is_incoming);
        break;
    case LQ_DISK_SNAPSHOT_LOADED:
        lq_replica_snapshot_loaded(replica, answer->bytes, answer->len);
        break;
    case LQ_DISK_SNAPSHOT_READ:
        lq_replica_snapshot_read(replica, answer->offset, answer->bytes, answer->len);
        break;
    case LQ_DISK_FAILED:
        fail(node, answer->text);
        break;
    }
}

void lq_node_take_disk(struct lq_node *node)
{
    struct lq_disk_answer answer;
    while (!node->has_failed && lq_disk_take(node->disk, &answer)) {
        tell_replica(node, &answer);
    }
}

/* ---- Notes. */

static void log_role(const struct lq_node *node, const struct lq_effect *effect)
{
    if (effect->note == LQ_NOTE_LEADER) {
        lq_log(LQ_LOG_INFO, "leads the cluster", LQ_NUMBER("node", node->id),
               LQ_NUMBER("term", effect->a));
    } else if (effect->note == LQ_NOTE_CANDIDATE) {
        lq_log(LQ_LOG_INFO, "asks for votes", LQ_NUMBER("node", node->id),
               LQ_NUMBER("term", effect->a));
    } else if (effect->b != 0) {
        lq_log(LQ_LOG_INFO, "follows a leader", LQ_NUMBER("node", node->id),
               LQ_NUMBER("term", effect->a), LQ_NUMBER("leader", effect->b));
    } else {
        lq_log(LQ_LOG_INFO, "knows no leader", LQ_NUMBER("node", node->id),
               LQ_NUMBER("term", effect->a));
    }
}

/* A node that stops has its origin closed, as a matter of course. */
static void log_closed(const struct lq_node *node, uint64_t incarnation)
{
    if (node->is_leaving) {
        lq_log(LQ_LOG_INFO, "the cluster knows that this node stops",
               LQ_NUMBER("incarnation", incarnation));
    } else {
        lq_log(LQ_LOG_WARN,
               "the cluster closed this node's origin, since it was silent too long or is no "
               "member any more: its clients are disconnected",
               LQ_NUMBER("incarnation", incarnation));
    }
}

static void log_failed_change(const struct lq_effect *effect)
{
    static const char *const kinds[] = {[LQ_CHANGE_ADD] = "add",
                                        [LQ_CHANGE_PROMOTE] = "promote",
                                        [LQ_CHANGE_DEMOTE] = "demote",
                                        [LQ_CHANGE_REMOVE] = "remove",
                                        [LQ_CHANGE_TRANSFER] = "transfer"};
    const char *kind = effect->b < sizeof kinds / sizeof *kinds ? kinds[effect->b] : "change";
    lq_log(LQ_LOG_WARN,
           "a change of members was given up: it cannot be made any more, or the node did not get "
           "there in time",
           LQ_TEXT("change", kind), LQ_NUMBER("member", effect->a));
}

static void change_members(struct lq_node *node, uint64_t index)
{
    const struct lq_members *members = lq_replica_members(node->replica);
    lq_log(LQ_LOG_INFO, "the members are others", LQ_NUMBER("index", index),
           LQ_NUMBER("members", members->n), LQ_NUMBER("voters", lq_members_n_voters(members)));
    lq_links_set_members(node->links, members);
}

/* Without a majority it is tried again and again. */
static void log_skip(struct lq_node *node, uint64_t leader)
{
    const char *msg = leader != 0
                          ? "the leader's process is gone: an election begins at once"
                          : "nobody leads a majority that is up: an election begins at once";
    if (lq_limiter_allows(&node->skips, "election", node->now_ms, SKIP_LOG_MS)) {
        lq_log(LQ_LOG_INFO, msg, LQ_NUMBER("leader", leader));
    }
}

static void note(struct lq_node *node, const struct lq_effect *effect)
{
    switch (effect->note) {
    case LQ_NOTE_FOLLOWER:
    case LQ_NOTE_CANDIDATE:
    case LQ_NOTE_LEADER:
        log_role(node, effect);
        break;
    case LQ_NOTE_SERVING:
        lq_log(LQ_LOG_INFO, "serves clients", LQ_NUMBER("incarnation", effect->a));
        break;
    case LQ_NOTE_CLOSED:
        log_closed(node, effect->a);
        break;
    case LQ_NOTE_MEMBERS:
        change_members(node, effect->a);
        break;
    case LQ_NOTE_SNAPSHOT:
        lq_log(LQ_LOG_INFO, "has taken a snapshot", LQ_NUMBER("index", effect->a));
        break;
    case LQ_NOTE_INSTALLED:
        lq_log(LQ_LOG_INFO, "has installed a snapshot of the leader",
               LQ_NUMBER("index", effect->a));
        break;
    case LQ_NOTE_ORIGIN_DEAD:
        lq_log(LQ_LOG_WARN, "a node is gone or silent: its waiters leave the queues",
               LQ_NUMBER("member", effect->a));
        break;
    case LQ_NOTE_FULL:
        lq_log(LQ_LOG_ERROR, "the disk is full: nothing is accepted until there is room",
               LQ_TEXT("data_dir", node->dir.path));
        break;
    case LQ_NOTE_ROOM:
        lq_log(LQ_LOG_INFO, "the disk has room again", LQ_TEXT("data_dir", node->dir.path));
        break;
    case LQ_NOTE_SKIP:
        log_skip(node, effect->a);
        break;
    case LQ_NOTE_CHANGE_FAILED:
        log_failed_change(effect);
        break;
    }
}

/* ---- Effects. */

static void carry_out(struct lq_node *node, const struct lq_effect *effect)
{
    switch (effect->kind) {
    case LQ_EFFECT_WRITE:
        node->write = *effect;
        node->has_write = true;
        break;
    case LQ_EFFECT_ALLOCATE:
    case LQ_EFFECT_SEGMENT:
    case LQ_EFFECT_DELETE:
    case LQ_EFFECT_SNAPSHOT_WRITE:
    case LQ_EFFECT_SNAPSHOT_FINISH:
    case LQ_EFFECT_SNAPSHOT_DROP:
    case LQ_EFFECT_SNAPSHOT_DELETE:
    case LQ_EFFECT_SNAPSHOT_LOAD:
    case LQ_EFFECT_SNAPSHOT_READ:
        lq_disk_submit(node->disk, effect);
        break;
    case LQ_EFFECT_SEND:
        lq_links_send(node->links, effect->node, effect->bytes, effect->len);
        break;
    case LQ_EFFECT_UNLINK:
        lq_links_unlink(node->links, effect->node, effect->text);
        break;
    case LQ_EFFECT_NOTE:
        note(node, effect);
        break;
    case LQ_EFFECT_STOP:
        fail(node, effect->text);
        break;
    }
}

void lq_node_carry_out(struct lq_node *node)
{
    struct lq_effect effect;
    while (!node->has_failed && lq_replica_take(node->replica, &effect)) {
        carry_out(node, &effect);
    }
}
