/* The disk of a node: its files and what was asked of it but has not happened yet. Requests are
 * carried out in four lanes, as by four threads, each in order; every one takes its time. When the
 * process or its machine dies, the request at the head of each lane happens in part: any of the
 * sectors of a write may have arrived, a rename or a removal may be lost. What was answered is
 * safe. */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include "lq_list.h"
#include "lq_recovery.h"
#include "sim.h"

enum sim_file_kind {
    SIM_FILE_SPARE,    /* allocated, not yet a segment */
    SIM_FILE_SEGMENT,  /* number */
    SIM_FILE_PART,     /* snapshot being written: number (its index), term, is_incoming */
    SIM_FILE_SNAPSHOT, /* number (its index), term */
};

struct sim_file {
    enum sim_file_kind kind;
    bool is_incoming;
    uint64_t number, term;
    uint8_t *bytes;
    size_t len, cap;
};

enum sim_lane_kind {
    SIM_LANE_SPARES,
    SIM_LANE_JOURNAL,
    SIM_LANE_REMOVALS,
    SIM_LANE_SNAPSHOTS,
    SIM_N_LANES,
};

struct sim_node;

struct sim_lane {
    struct sim_disk *disk;
    struct lq_list ops;
    uint64_t event; /* when the first one is done; 0: none */
};

struct sim_disk {
    struct sim_node *node;
    struct sim_file *files;
    size_t n_files, cap_files;
    struct sim_lane lanes[SIM_N_LANES];
    uint32_t latency_us; /* of a write, usually */
    uint64_t stalled_until_us;
    bool is_full;
    bool has_failed[2]; /* the snapshot being written, own and incoming: for want of room */
};

void sim_disk_init(struct sim_disk *disk, struct sim_node *node);
void sim_disk_done(struct sim_disk *disk);

/* Takes a request of the replica, one of the effects that concern the disk. Its answer comes as an
 * input of the node. */
void sim_disk_submit(struct sim_disk *disk, const struct lq_effect *effect);

/* Nothing moves before that time; now or in the past: a stall is over. */
void sim_disk_stall(struct sim_disk *disk, uint64_t until_us);

/* The process is gone: what was in progress may have happened in part, nothing is answered. Called
 * while the bytes of the replica are still there. */
void sim_disk_crash(struct sim_disk *disk);

/* Everything on it is lost. */
void sim_disk_wipe(struct sim_disk *disk);

/* Flips a random bit of a random durable file; false when there is none. */
bool sim_disk_flip(struct sim_disk *disk);

/* Reads everything for a start; the verdict is that of lq_recovery_end. */
struct lq_recovery *sim_disk_recover(struct sim_disk *disk, const uint8_t secret[16],
                                     enum lq_recovery_verdict *ret_verdict);

#endif
