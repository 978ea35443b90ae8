#include "sim_checks.h"
#include "sim_disk_impl.h"
#include "sim_world.h"

#include "lq_check.h"
#include "lq_mem.h"

#include <inttypes.h>
#include <string.h>

struct sim_op {
    struct lq_list in_lane;
    enum lq_effect_kind kind;
    uint64_t number, offset;
    size_t len;
    struct lq_journal_write write, seal;
    struct lq_snapshot_name snapshot;
    uint8_t bytes[];
};

static struct sim *world(const struct sim_disk *disk)
{
    return disk->node->sim;
}

void sim_disk_init(struct sim_disk *disk, struct sim_node *node)
{
    *disk = (struct sim_disk){.node = node};
    for (int i = 0; i < SIM_N_LANES; i++) {
        disk->lanes[i].disk = disk;
        lq_list_init(&disk->lanes[i].ops);
    }
}

/* ---- Writes, whole and in part. */

/* Which sectors of a write arrive. */
enum extent { ALL, NONE, PREFIX, SOME };

static enum extent draw_extent(struct sim *sim)
{
    static const enum extent extents[] = {ALL, NONE, PREFIX, SOME, SOME};
    return extents[sim_between(sim, 0, 4)];
}

static void write_sectors(struct sim_disk *disk, struct sim_file *file,
                          const struct lq_journal_write *write, enum extent extent)
{
    size_t n = write->len / LQ_SECTOR;
    size_t prefix = (size_t)sim_between(world(disk), 0, n);
    for (size_t i = 0; i < n && file != NULL; i++) {
        if (extent == ALL || (extent == PREFIX && i < prefix) ||
            (extent == SOME && sim_percent(world(disk), 50))) {
            memcpy(file->bytes + write->offset + i * LQ_SECTOR, write->bytes + i * LQ_SECTOR,
                   LQ_SECTOR);
        }
    }
}

/* A write of the journal, whose file must be there and long enough. */
static struct sim_file *target(struct sim_disk *disk, const struct lq_journal_write *write,
                               enum sim_file_kind kind)
{
    struct sim_file *file =
        sim_disk_find(disk, kind, kind == SIM_FILE_SPARE ? 0 : write->number, 0);
    if (file == NULL || write->offset % LQ_SECTOR != 0 || write->len % LQ_SECTOR != 0 ||
        write->offset > file->len || write->len > file->len - write->offset) {
        sim_fail(world(disk),
                 "node %u writes %zu bytes at %" PRIu64 " of segment %" PRIu64
                 ", which has no such place",
                 disk->node->id, write->len, write->offset, write->number);
        return NULL;
    }
    return file;
}

static void do_write(struct sim_disk *disk, const struct sim_op *op, bool is_crash)
{
    enum extent extent = is_crash ? draw_extent(world(disk)) : ALL;
    write_sectors(disk, target(disk, &op->write, SIM_FILE_SEGMENT), &op->write, extent);
}

/* Header, rename, seal: each is durable before the next begins. A crash comes in one of them. */
static void do_segment(struct sim_disk *disk, const struct sim_op *op, bool is_crash)
{
    unsigned step = is_crash ? (unsigned)sim_between(world(disk), 0, 2) : 3;
    struct sim_file *file = target(disk, &op->write, SIM_FILE_SPARE);
    if (file == NULL) {
        return;
    }
    write_sectors(disk, file, &op->write, step == 0 ? draw_extent(world(disk)) : ALL);
    if (step == 0 || (step == 1 && sim_percent(world(disk), 50))) {
        return;
    }
    file->kind = SIM_FILE_SEGMENT;
    file->number = op->write.number;
    if (step >= 2 && op->seal.len > 0) {
        write_sectors(disk, target(disk, &op->seal, SIM_FILE_SEGMENT), &op->seal,
                      step == 2 ? draw_extent(world(disk)) : ALL);
    }
}

static void do_allocate(struct sim_disk *disk, const struct sim_op *op)
{
    struct sim_file *file = sim_disk_find(disk, SIM_FILE_SPARE, 0, 0);
    sim_disk_remove(disk, file);
    sim_file_resize(sim_disk_add(disk, SIM_FILE_SPARE, 0, 0), op->len);
}

static void do_delete(struct sim_disk *disk, const struct sim_op *op, bool is_crash)
{
    struct sim_file *file = sim_disk_find(disk, SIM_FILE_SEGMENT, op->number, 0);
    if (file == NULL) {
        sim_fail(world(disk), "node %u deletes segment %" PRIu64 ", which is not there",
                 disk->node->id, op->number);
    } else if (!is_crash || sim_percent(world(disk), 50)) {
        sim_trace(world(disk), "%u   segment %" PRIu64 " is removed", disk->node->id, op->number);
        sim_disk_remove(disk, file);
    }
}

/* ---- Snapshots. */

static void do_snapshot_write(struct sim_disk *disk, const struct sim_op *op)
{
    struct sim_file *file = sim_disk_find_part(disk, &op->snapshot);
    if (file == NULL) {
        file = sim_disk_add(disk, SIM_FILE_PART, op->snapshot.index, op->snapshot.term);
        file->is_incoming = op->snapshot.is_incoming;
    }
    if (op->offset == 0) {
        file->len = 0;
    }
    if (op->offset > file->len) {
        sim_fail(world(disk), "node %u leaves a hole in the snapshot at %" PRIu64, disk->node->id,
                 op->snapshot.index);
        return;
    }
    sim_file_resize(file, op->offset + op->len > file->len ? op->offset + op->len : file->len);
    memcpy(file->bytes + op->offset, op->bytes, op->len);
}

static void do_snapshot_finish(struct sim_disk *disk, const struct sim_op *op, bool is_crash)
{
    struct sim_file *part = sim_disk_find_part(disk, &op->snapshot);
    if (is_crash && disk->has_failed[op->snapshot.is_incoming]) {
        return; /* there was no room for it */
    }
    if (part == NULL) {
        sim_fail(world(disk), "node %u finishes a snapshot at %" PRIu64 " that was never written",
                 disk->node->id, op->snapshot.index);
        return;
    }
    if (is_crash && sim_percent(world(disk), 50)) {
        return; /* the rename is lost */
    }
    sim_disk_remove(disk,
                    sim_disk_find(disk, SIM_FILE_SNAPSHOT, op->snapshot.index, op->snapshot.term));
    part = sim_disk_find_part(disk, &op->snapshot); /* the removal may have moved it */
    LQ_CHECK(part != NULL);
    part->kind = SIM_FILE_SNAPSHOT;
    part->is_incoming = false;
    if (!is_crash && !op->snapshot.is_incoming && world(disk)->checks != NULL) {
        sim_checks_snapshot(world(disk)->checks, disk->node->id, part->bytes, part->len);
    }
}

static void do_snapshot_delete(struct sim_disk *disk, const struct sim_op *op)
{
    sim_disk_remove(disk,
                    sim_disk_find(disk, SIM_FILE_SNAPSHOT, op->snapshot.index, op->snapshot.term));
}

static void answer_read(struct sim_disk *disk, const struct sim_op *op)
{
    const struct sim_file *file =
        op->kind == LQ_EFFECT_SNAPSHOT_LOAD
            ? sim_disk_find_part(disk, &op->snapshot)
            : sim_disk_find(disk, SIM_FILE_SNAPSHOT, op->snapshot.index, op->snapshot.term);
    const uint8_t *bytes = file == NULL ? NULL : file->bytes;
    size_t len = bytes == NULL ? 0 : file->len, offset = 0;
    struct sim_input *input;
    if (op->kind == LQ_EFFECT_SNAPSHOT_READ) {
        offset = op->offset < len ? op->offset : len;
        len = op->len < len - offset ? op->len : len - offset;
    }
    input = sim_input_new(SIM_INPUT_DISK, len > 0 ? bytes + offset : NULL, len);
    input->disk = op->kind;
    input->number = op->offset;
    sim_node_input(disk->node, input);
}

/* ---- Lanes. */

static void answer(struct sim_disk *disk, const struct sim_op *op, bool has_failed)
{
    struct sim_input *input = sim_input_new(SIM_INPUT_DISK, NULL, 0);
    input->disk = op->kind;
    input->number = op->snapshot.is_incoming;
    input->flag = has_failed;
    sim_node_input(disk->node, input);
}

/* A snapshot for which there is no room: told once, and the rest of it is ignored. */
static bool snapshot_fails(struct sim_disk *disk, const struct sim_op *op)
{
    bool *has_failed = &disk->has_failed[op->snapshot.is_incoming];
    bool is_begun = op->kind == LQ_EFFECT_SNAPSHOT_WRITE && op->offset == 0;
    if (is_begun) {
        *has_failed = false;
    }
    if (*has_failed) {
        return true;
    }
    if (disk->is_full) {
        *has_failed = true;
        sim_disk_remove(disk, sim_disk_find_part(disk, &op->snapshot));
        answer(disk, op, true);
    }
    return *has_failed;
}

static void carry_out(struct sim_disk *disk, const struct sim_op *op)
{
    if (op->kind == LQ_EFFECT_ALLOCATE && disk->is_full) {
        answer(disk, op, true);
        return;
    }
    if ((op->kind == LQ_EFFECT_SNAPSHOT_WRITE || op->kind == LQ_EFFECT_SNAPSHOT_FINISH) &&
        snapshot_fails(disk, op)) {
        return;
    }
    if (op->kind == LQ_EFFECT_SNAPSHOT_LOAD || op->kind == LQ_EFFECT_SNAPSHOT_READ) {
        answer_read(disk, op);
        return;
    }
    if (op->kind == LQ_EFFECT_ALLOCATE) {
        do_allocate(disk, op);
    } else if (op->kind == LQ_EFFECT_SEGMENT) {
        do_segment(disk, op, false);
    } else if (op->kind == LQ_EFFECT_WRITE) {
        do_write(disk, op, false);
    } else if (op->kind == LQ_EFFECT_DELETE) {
        do_delete(disk, op, false);
    } else if (op->kind == LQ_EFFECT_SNAPSHOT_FINISH) {
        do_snapshot_finish(disk, op, false);
    } else if (op->kind == LQ_EFFECT_SNAPSHOT_WRITE) {
        do_snapshot_write(disk, op);
        return;
    } else if (op->kind == LQ_EFFECT_SNAPSHOT_DELETE) {
        do_snapshot_delete(disk, op);
        return;
    } else {
        sim_disk_remove(disk, sim_disk_find_part(disk, &op->snapshot));
        return;
    }
    answer(disk, op, false);
}

static void carry_out_in_part(struct sim_disk *disk, const struct sim_op *op)
{
    if (op->kind == LQ_EFFECT_SEGMENT) {
        do_segment(disk, op, true);
    } else if (op->kind == LQ_EFFECT_WRITE) {
        sim_trace(world(disk), "%u   a write of %zu sectors is cut short", disk->node->id,
                  op->write.len / LQ_SECTOR);
        do_write(disk, op, true);
    } else if (op->kind == LQ_EFFECT_DELETE) {
        do_delete(disk, op, true);
    } else if (op->kind == LQ_EFFECT_SNAPSHOT_FINISH) {
        do_snapshot_finish(disk, op, true);
    } else if (op->kind == LQ_EFFECT_SNAPSHOT_DELETE && sim_percent(world(disk), 50)) {
        do_snapshot_delete(disk, op);
    }
}

static void on_done(struct sim *sim, void *argument);

/* Slower than this is a stall, which is a fault of its own. */
#define OUTLIER_MAX_US (200 * SIM_MS)

/* The time of one request: usually about the same, now and then much longer. */
static uint64_t draw_latency(struct sim_disk *disk)
{
    uint64_t us =
        1 + sim_between(world(disk), disk->latency_us / 2, 2 * (uint64_t)disk->latency_us);
    if (us < OUTLIER_MAX_US / 10 && sim_percent(world(disk), 1)) {
        us *= 10;
    }
    return us;
}

static void begin(struct sim_lane *lane)
{
    struct sim_disk *disk = lane->disk;
    uint64_t start_us = world(disk)->now_us;
    if (lane->event != 0 || lq_list_is_empty(&lane->ops)) {
        return;
    }
    if (disk->stalled_until_us > start_us) {
        start_us = disk->stalled_until_us;
    }
    lane->event = sim_at(world(disk), start_us + draw_latency(disk), on_done, lane);
}

static void on_done(struct sim *sim, void *argument)
{
    struct sim_lane *lane = argument;
    struct sim_disk *disk = lane->disk;
    struct lq_list *link = lq_list_take(&lane->ops);
    struct sim_op *op;
    (void)sim;
    LQ_CHECK(link != NULL);
    lane->event = 0;
    op = LQ_CONTAINER(link, struct sim_op, in_lane);
    carry_out(disk, op);
    lq_free(op);
    begin(lane);
}

void sim_disk_stall(struct sim_disk *disk, uint64_t until_us)
{
    disk->stalled_until_us = until_us;
    for (int i = 0; i < SIM_N_LANES; i++) {
        sim_cancel(world(disk), disk->lanes[i].event);
        disk->lanes[i].event = 0;
        begin(&disk->lanes[i]);
    }
}

static enum sim_lane_kind lane_of(enum lq_effect_kind kind)
{
    switch (kind) {
    case LQ_EFFECT_ALLOCATE:
        return SIM_LANE_SPARES;
    case LQ_EFFECT_SEGMENT:
    case LQ_EFFECT_WRITE:
        return SIM_LANE_JOURNAL;
    case LQ_EFFECT_DELETE:
        return SIM_LANE_REMOVALS;
    case LQ_EFFECT_SNAPSHOT_WRITE:
    case LQ_EFFECT_SNAPSHOT_FINISH:
    case LQ_EFFECT_SNAPSHOT_DROP:
    case LQ_EFFECT_SNAPSHOT_DELETE:
    case LQ_EFFECT_SNAPSHOT_LOAD:
    case LQ_EFFECT_SNAPSHOT_READ:
        return SIM_LANE_SNAPSHOTS;
    case LQ_EFFECT_SEND:
    case LQ_EFFECT_UNLINK:
    case LQ_EFFECT_NOTE:
    case LQ_EFFECT_STOP:
        break;
    }
    LQ_BUG("no request of a disk");
}

void sim_disk_submit(struct sim_disk *disk, const struct lq_effect *effect)
{
    struct sim_lane *lane = &disk->lanes[lane_of(effect->kind)];
    size_t copied = effect->kind == LQ_EFFECT_SNAPSHOT_WRITE ? effect->len : 0;
    struct sim_op *op = lq_malloc(sizeof *op + copied);
    *op = (struct sim_op){.kind = effect->kind,
                          .number = effect->number,
                          .offset = effect->offset,
                          .len = effect->len,
                          .write = effect->write,
                          .seal = effect->seal,
                          .snapshot = effect->snapshot};
    if (copied > 0) {
        memcpy(op->bytes, effect->bytes, copied);
    }
    lq_list_append(&lane->ops, &op->in_lane);
    begin(lane);
}

/* ---- Ends and beginnings. */

static void drop_ops(struct sim_disk *disk, bool is_crash)
{
    for (int i = 0; i < SIM_N_LANES; i++) {
        struct sim_lane *lane = &disk->lanes[i];
        struct lq_list *link;
        bool is_first = is_crash;
        sim_cancel(world(disk), lane->event);
        lane->event = 0;
        while ((link = lq_list_take(&lane->ops)) != NULL) {
            struct sim_op *op = LQ_CONTAINER(link, struct sim_op, in_lane);
            if (is_first) {
                carry_out_in_part(disk, op);
                is_first = false;
            }
            lq_free(op);
        }
    }
}

void sim_disk_crash(struct sim_disk *disk)
{
    drop_ops(disk, true);
}

void sim_disk_done(struct sim_disk *disk)
{
    drop_ops(disk, false);
    sim_disk_wipe(disk);
    lq_free(disk->files);
}
