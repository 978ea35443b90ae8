/* Inside of the running disk; lq_disk*.c share it, nobody else includes it.
 *
 * Life of an operation: submit makes it out of an effect and appends it to a lane's queue; the
 * lane's thread takes it out, carries it out, notes what came of it and appends it to the finished
 * ones; take hands its answer to the loop, and makes it free at the next call. So all memory is
 * taken and given back by the loop's thread, and an operation belongs to one thread at any time. */
#ifndef LQ_DISK_IMPL_H
#define LQ_DISK_IMPL_H

#include "lq_disk.h"
#include "lq_list.h"

#include <pthread.h>
#include <stdatomic.h>

/* Bytes that are written, and made durable, at a time where much is to be written: so little that
 * the journal's next write does not wait long behind it. */
#define LQ_DISK_SLICE ((size_t)256 << 10)

/* Of a file that is to become a segment: while it is being filled, and once it is complete. */
#define LQ_DISK_MAKING "spare-making.tmp"
#define LQ_DISK_READY  "spare-ready.tmp"

/* Batches that a node writes after its start before the next segment is made. */
#define LQ_DISK_CALM_WRITES 256

struct lq_disk_op {
    struct lq_list in_queue; /* a lane's, or of the finished or the free ones */
    struct lq_effect effect; /* its `bytes` are not used */
    uint8_t *bytes;          /* own: what is to be written, or room for what is read */
    size_t room;
    /* what came of it */
    bool has_answer; /* else it is only to be freed */
    struct lq_disk_answer answer;
    uint64_t took_us;
};

struct lq_disk_lane {
    struct lq_disk *disk;
    const char *name;
    void (*carry_out)(struct lq_disk *disk, struct lq_disk_op *op);
    /* Does a piece of what nobody waits for, NULL: there is no such thing. Returns how long to
     * leave the disk alone before the next one; UINT64_MAX: nothing is left. */
    uint64_t (*idle)(struct lq_disk *disk);
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wake;
    struct lq_list queue;
    bool is_poked; /* idle is to look again */
};

/* Of the journal's thread: the segment that is written now. */
struct lq_disk_journal {
    int fd;                 /* -1: none yet */
    uint64_t number, bytes; /* of the open segment */
    uint64_t n_writes;      /* into it, since it was opened to go on with it */
    bool is_spare_due;      /* the next one is not being made yet */
    bool is_plain;          /* see lq_file_write_durable */
};

/* Of the files' thread: the file that becomes the next segment. */
struct lq_disk_spare {
    int fd;             /* of the one that is being filled, -1: none is */
    uint64_t len, done; /* of it, or of the complete one */
    bool is_ready;
};

/* Of the snapshots' thread: a file that is being written, the own one or the incoming one. */
struct lq_disk_part {
    int fd; /* -1: none */
    struct lq_snapshot_name name;
    bool has_no_room;    /* the rest is ignored until it is begun anew */
    uint64_t n_unsynced; /* bytes written since the last sync */
};

struct lq_disk {
    const struct lq_datadir *dir;
    uv_async_t async;
    struct lq_disk_lane journal_lane, files_lane, snapshots_lane;
    struct lq_disk_journal journal;
    struct lq_disk_spare spare;
    struct lq_disk_part parts[2]; /* by is_incoming */
    struct {
        int fd; /* of the finished file that was read last, -1: none */
        struct lq_snapshot_name name;
    } reading;
    uint8_t *zeros;          /* LQ_DISK_SLICE of them */
    _Atomic uint64_t wanted; /* size of a spare file to be made ahead; 0: none */
    atomic_bool is_stopping, has_failed;

    pthread_mutex_t mutex; /* guards the next three */
    struct lq_list finished;
    struct lq_disk_op failure; /* the last answer of all, once has_failed */
    char text[LQ_DATADIR_TEXT];

    /* the loop's thread */
    struct lq_list free;
    struct lq_disk_op *taken; /* whose answer was handed out last */
    bool is_over;             /* FAILED was taken */
    struct lq_disk_counters counters;
    uint64_t incoming_len; /* of the incoming snapshot's file, once all that was submitted is
                              written */
};

/* ---- lq_disk_lane.c: threads and queues. */

void lq_disk_lane_start(struct lq_disk_lane *lane);
void lq_disk_lane_add(struct lq_disk_lane *lane, struct lq_disk_op *op);

/* Lets the lane look whether there is something to be done while it is idle. */
void lq_disk_lane_poke(struct lq_disk_lane *lane);

/* Waits until the thread has ended; disk->is_stopping is set already. */
void lq_disk_lane_join(struct lq_disk_lane *lane);

/* ---- lq_disk.c. */

/* Appends an operation to the finished ones and wakes the loop. */
void lq_disk_finish(struct lq_disk *disk, struct lq_disk_op *op);

/* Notes the answer of an operation. */
void lq_disk_answer(struct lq_disk_op *op, enum lq_disk_answer_kind kind);

/* The end: FAILED becomes the last answer, unless it is already. Says what could not be done with
 * which file. */
void lq_disk_fail(struct lq_disk *disk, const char *name, const char *what, int error);

/* ---- lq_disk_journal.c, lq_disk_spare.c, lq_disk_snapshots.c: what each thread does. */

void lq_disk_journal_carry_out(struct lq_disk *disk, struct lq_disk_op *op);
void lq_disk_files_carry_out(struct lq_disk *disk, struct lq_disk_op *op);
void lq_disk_snapshots_carry_out(struct lq_disk *disk, struct lq_disk_op *op);

/* Makes a spare file ahead of its time, if one is wanted. */
uint64_t lq_disk_spare_idle(struct lq_disk *disk);

#endif
