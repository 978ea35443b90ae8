/* What the parts of the fault layer share. The layer (liblqfaults.so) is loaded with LD_PRELOAD
 * under a server and stands between it and the files of one directory. It keeps a book of all that
 * was done there and not made durable yet, together with what is needed to undo it. The book lives
 * in a file mapped into the process, so it survives a kill at any moment; powerloss.py then turns
 * the directory into a state that a power loss could have left.
 *
 *   faults_paths.c     which directory, which file a path or a descriptor means
 *   faults_book.c      the book: records, forgetting, making room
 *   faults_control.c   errors, stalls and refusal of syncs, on command of a test
 *   faults_data.c      writes, sizes, syncs
 *   faults_names.c     creating, renaming, removing
 *   faults_hooks.c     the functions of libc that are replaced
 *   faults_refused.c   those by which a file could be changed unseen: they end the process
 *
 * Rules of the house: a record is in the book before its effect is on the file, so a kill between
 * the two leaves a record that undoes nothing. It leaves the book only after the sync that covers
 * it has succeeded and before that sync returns. Records and effects happen under one lock; syncs
 * and stalls do not hold it. What the layer can't follow is refused with a message and abort().
 * The layer keeps no table of descriptors, only of files, so dup and the like can't hide one. */
#ifndef LQ_FAULTS_H
#define LQ_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define LQ_FAULTS_SECTOR     512u
#define LQ_FAULTS_PATH       256 /* of a path relative to the directory */
#define LQ_FAULTS_PER_RECORD 64u /* sectors of one record: one bit each */

/* ---- Paths and files (faults_paths.c). */

/* A file or name under the directory. The directory itself is ".". */
struct lq_faults_place {
    uint64_t ino;              /* 0: not looked up, or there is none */
    int reader;                /* descriptor of the layer for reading the file; -1: none */
    char path[LQ_FAULTS_PATH]; /* relative to the directory */
};

/* The system call itself, past all hooks. Returns -1 and sets errno like the functions of libc. */
long lq_faults_raw(long number, ...);

/* Ends the process with a message: printf's format and arguments. */
void lq_faults_refuse(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* False when no directory was named (LQ_FAULTS_DIR, LQ_FAULTS_STATE): then nothing is done. */
bool lq_faults_active(void);

/* The state folder as a descriptor, for openat. */
int lq_faults_state_fd(void);
/* The directory itself as a descriptor; it is made on demand, as it may not exist at first. */
int lq_faults_dir_fd(void);

/* Whether a descriptor is of a file or directory inside; fills ret_place (`ino`, `path`). */
bool lq_faults_is_inside(int fd, struct lq_faults_place *ret_place);

/* The same for a path as the calls ending in -at take it. With `follow`, of what it leads to; else
 * of the name itself, whatever it names. The file need not exist. */
bool lq_faults_resolve(int at, const char *path, bool follow, struct lq_faults_place *ret_place);

/* Under the lock. Fills `reader`, which stays open until the file is gone: that also keeps the
 * number of the file from being used again. `fd` is any descriptor of it. */
void lq_faults_know(int fd, struct lq_faults_place *place);
/* A file is gone for good: its reader is closed. */
void lq_faults_gone(uint64_t ino);

/* ---- The book (faults_book.c). All but lock and unlock are called under the lock. */

enum lq_faults_kind {
    LQ_FAULTS_DATA = 1,   /* sectors from `at` on, old contents behind the record */
    LQ_FAULTS_SIZE = 2,   /* `at` is the old size */
    LQ_FAULTS_CREATE = 3, /* of a name; names: path */
    LQ_FAULTS_UNLINK = 4, /* names: path; `grave` keeps the file */
    LQ_FAULTS_RENAME = 5, /* names: from, to; `grave` keeps what `to` was before, 0: nothing */
    LQ_FAULTS_MKDIR = 6,  /* names: path */
    LQ_FAULTS_LINK = 7,   /* names: new path */
};

/* In the file, in the byte order of the machine; powerloss.py reads it. */
struct lq_faults_record {
    uint32_t bytes; /* of all of it, a multiple of 8 */
    uint32_t kind;
    uint64_t seq; /* rises from record to record, never used twice */
    uint64_t ino;
    uint64_t live; /* what is not durable: DATA a bit for each sector, names 1: directory of the
                      first name, 2: of the second; 0: nothing, the record is done with */
    uint64_t lost; /* of `live`: a sync failed, so it never reaches the disk by itself */
    uint64_t at;
    uint64_t zero;  /* DATA: sectors that were zero, and so have no contents here */
    uint64_t grave; /* name of a file in the state folder */
};

void lq_faults_lock(void);
void lq_faults_unlock(void);

/* A new record with room for `extra` bytes behind it, all zero. It counts once it is published. */
struct lq_faults_record *lq_faults_append(enum lq_faults_kind kind, uint64_t ino, size_t extra);
void lq_faults_publish(struct lq_faults_record *record);

/* Records from now on have this number or a greater one. */
uint64_t lq_faults_mark(void);

/* What a sync covers: records below `mark` of one file, or of the names in one directory. */
struct lq_faults_scope {
    uint64_t mark;
    uint64_t ino;    /* 0: of no file */
    uint64_t first;  /* sectors, of DATA */
    uint64_t end;    /* UINT64_MAX: to the end */
    const char *dir; /* NULL: no names */
    bool everything; /* all files and names (sync, syncfs) */
};

enum lq_faults_fate {
    LQ_FAULTS_DURABLE, /* forget it */
    LQ_FAULTS_LOST,    /* the sync failed: it was dropped, and a later sync won't bring it back */
    LQ_FAULTS_DIRTY,   /* it was written again: what was lost there goes to disk with it */
};
void lq_faults_settle(const struct lq_faults_scope *scope, enum lq_faults_fate fate);

/* Drops what is known of a file that exists no more, as its number may be used again. */
void lq_faults_drop_file(uint64_t ino);

/* ---- Commands of a test (faults_control.c). */

enum lq_faults_op {
    LQ_FAULTS_ON_WRITE = 1,
    LQ_FAULTS_ON_SYNC = 2,
    LQ_FAULTS_ON_ALLOCATE = 4, /* fallocate, and ftruncate that grows */
    LQ_FAULTS_ON_CREATE = 8,   /* open that makes a file, mkdir, link */
    LQ_FAULTS_ON_RENAME = 16,
    LQ_FAULTS_ON_UNLINK = 32,
    LQ_FAULTS_ON_OPEN = 64, /* of a file that exists */
};

/* Stalls as long as a rule says, and returns the error that a rule wants, or 0. `grows` says
 * whether the operation needs new room on the disk: ENOSPC strikes only then. */
int lq_faults_strike(enum lq_faults_op op, const char *path, bool grows);
/* Whether syncs are to do nothing, as in a program without them. */
bool lq_faults_skips_sync(void);

/* ---- The operations, as their namesakes of libc return and set errno. */

/* One write. `offset` -1: at the descriptor's own place. */
struct lq_faults_store {
    int fd;
    const struct iovec *parts;
    int count;
    off_t offset;
    int flags; /* RWF_* */
};
/* `place` is of the descriptor, which is inside. */
ssize_t lq_faults_write(const struct lq_faults_store *store, struct lq_faults_place *place);
int lq_faults_truncate(int fd, off_t length);
int lq_faults_allocate(int fd, int mode, off_t offset, off_t length);
int lq_faults_sync(int fd, bool only_data);
void lq_faults_sync_all(void);
/* Under the lock: writes into the book what a file loses when it is cut to `length`. */
void lq_faults_record_cut(const struct lq_faults_place *place, off_t length);

int lq_faults_open(int at, const char *path, int flags, mode_t mode);
/* Under the lock: lets go of the file in a grave, since nothing can bring it back any more. */
void lq_faults_bury(uint64_t grave);
int lq_faults_unlink(int at, const char *path, int flags);
int lq_faults_mkdir(int at, const char *path, mode_t mode);
/* Where a name is, where it is to be, and the flags of renameat2 or linkat. */
struct lq_faults_move {
    int from_at;
    const char *from;
    int to_at;
    const char *to;
    unsigned flags;
};
int lq_faults_rename(const struct lq_faults_move *move);
int lq_faults_link(const struct lq_faults_move *move);

#endif
