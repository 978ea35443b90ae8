/* The disk of a running node: carries out the disk effects of a replica (lq_replica.h) on threads
 * of its own, and tells when they are done. In the order of their submission within each lane;
 * lanes do not wait for each other:
 *
 *   journal     SEGMENT, WRITE
 *   files       ALLOCATE, DELETE
 *   snapshots   all of SNAPSHOT_*
 *
 * An answer is given only when what it stands for is durable, directories included. A write or a
 * sync that failed is never tried again, since the page cache can't be trusted after it: FAILED is
 * the last answer, and the node stops. Only for want of room (ENOSPC, EDQUOT) there is a way on,
 * where the effect has one. */
#ifndef LQ_DISK_H
#define LQ_DISK_H

#include "lq_datadir.h"
#include "lq_replica.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct lq_disk;

enum lq_disk_answer_kind {
    LQ_DISK_ALLOCATED,
    LQ_DISK_NO_ROOM, /* for ALLOCATE */
    LQ_DISK_SEGMENT_READY,
    LQ_DISK_WRITTEN,
    LQ_DISK_DELETED,
    LQ_DISK_SNAPSHOT_FINISHED, /* is_incoming */
    LQ_DISK_SNAPSHOT_FAILED,   /* is_incoming: no room */
    LQ_DISK_SNAPSHOT_LOADED,   /* bytes: the whole file */
    LQ_DISK_SNAPSHOT_READ,     /* offset, bytes; len 0: it could not be read */
    LQ_DISK_FAILED,            /* text; nothing follows */
};

struct lq_disk_answer {
    enum lq_disk_answer_kind kind;
    bool is_incoming;
    uint64_t offset;
    const uint8_t *bytes; /* valid until the next lq_disk_take */
    size_t len;
    const char *text;
};

/* What it did since the start, for status and measurements. */
struct lq_disk_counters {
    uint64_t writes, bytes;       /* of the journal */
    uint64_t last_us, longest_us; /* of one journal write, until durable */
    uint64_t free_bytes;          /* of the file system, looked at now */
};

/* Starts the threads. `dir` must stay open as long; the loop is woken up whenever an answer is
 * there to be taken. Never NULL: failing to make a thread is the end of the process. */
struct lq_disk *lq_disk_start(uv_loop_t *loop, const struct lq_datadir *dir);

/* Takes a disk effect: one from ALLOCATE to DELETE, or SNAPSHOT_*. Bytes of a WRITE or SEGMENT stay
 * the replica's and unchanged until its answer; others are copied. */
void lq_disk_submit(struct lq_disk *disk, const struct lq_effect *effect);

/* Fills the next answer, or returns false. */
bool lq_disk_take(struct lq_disk *disk, struct lq_disk_answer *ret_answer);

struct lq_disk_counters lq_disk_counters(struct lq_disk *disk);

/* Waits for what is in progress, drops what is queued behind it, ends the threads and closes the
 * handle of the loop, which has to run once more. The memory is freed from there. */
void lq_disk_stop(struct lq_disk *disk);

#endif
