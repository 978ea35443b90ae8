/* The data directory of a node, what it is made of and who may use it.
 *
 *   lock                          held by the process that uses the directory
 *   identity                      text: format version, cluster id, node id; written once
 *   segment-NUMBER                journal segments (lq_journal.h), number of 20 digits
 *   snapshot-INDEX-TERM           snapshot files (lq_snapfile.h), two numbers of 20 digits
 *   *.tmp                         not finished; removed at the start
 *
 * Nothing here runs while a node serves: opening and reading are done before its loop begins. All
 * failures are told as text for the operator, with the path and what to do. */
#ifndef LQ_DATADIR_H
#define LQ_DATADIR_H

#include "lq_recovery.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LQ_DATADIR_TEXT 1024 /* of a message */
#define LQ_DATADIR_NAME 64   /* of a file */

/* Version of the layout above. A directory of another one is refused. */
#define LQ_DATADIR_VERSION 1

struct lq_datadir {
    char path[256];
    int fd;      /* of the directory */
    int lock_fd; /* -1: opened to be read only */
    bool has_identity;
    uint64_t cluster; /* from the identity; 0: none yet */
    uint32_t node;
    char text[LQ_DATADIR_TEXT];        /* what went wrong; "" while nothing did */
    char passed_over[LQ_DATADIR_NAME]; /* the newest snapshot that is damaged; "": none */
};

/* Opens a directory for a node: makes it (mode 0700, parents must be there) unless it exists, takes
 * the lock, reads the identity. False: see `text`; nothing is left open. A directory with files
 * that are not a node's, but without identity, is refused: it is likely a wrong path. */
bool lq_datadir_open(struct lq_datadir *dir, const char *path);

/* The same to look only: nothing is made, changed or locked. */
bool lq_datadir_open_read_only(struct lq_datadir *dir, const char *path);

/* Writes the identity of a directory that has none: durable with its name. */
bool lq_datadir_identify(struct lq_datadir *dir, uint64_t cluster, uint32_t node);

void lq_datadir_close(struct lq_datadir *dir);

/* Reads all of it: snapshots, newest first, until one is good; then the segments, oldest first.
 * Unless it was opened to be read only, everything that was read is made durable first, unfinished
 * files are removed, and so are finished snapshots older than the accepted one but the newest of
 * them. The recovery, after its verdict, or NULL when a file could not be read (`text`). `secret`
 * keys the table's hashes; free with lq_recovery_free. */
struct lq_recovery *lq_datadir_recover(struct lq_datadir *dir, const uint8_t secret[16],
                                       enum lq_recovery_verdict *ret_verdict);

/* Names of files, relative to the directory. */
void lq_datadir_segment_name(uint64_t number, char ret_name[LQ_DATADIR_NAME]);
void lq_datadir_snapshot_name(uint64_t index, uint64_t term, char ret_name[LQ_DATADIR_NAME]);

#endif
