/* The journal: what a node must never forget, as bytes in segment files. This is the pure part: it
 * makes the bytes to be written and judges the bytes that were read; files, threads, clocks and
 * random numbers are the caller's. The format and the crash states that it tells apart are written
 * down in docs/decisions/0010-journal-format.md.
 *
 * Life of a journal. At start all segments go, oldest first, through a scan, which hands out their
 * records and ends with a verdict. CLEAN and TORN can be gone on with (lq_journal_resume), BLANK
 * begins a new journal (lq_journal_init), CORRUPT is refused. Then records are put into the batch
 * that is being gathered; whenever nothing is in flight, the batch is finished, written and made
 * durable in one piece, while the next one gathers. When a batch does not fit into the segment any
 * more, a new segment is begun first. Once a snapshot's mark is durable, old segments may go. */
#ifndef LQ_JOURNAL_H
#define LQ_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a disk writes as a whole or not at all. Everything below begins at a multiple of it. */
#define LQ_SECTOR 512

/* Sizes of a segment file in bytes: a multiple of LQ_SECTOR. The smallest one serves tests, the
 * largest bounds the memory of a scan, which looks at a segment as a whole. */
#define LQ_JOURNAL_SEGMENT_MIN (8 * LQ_SECTOR)
#define LQ_JOURNAL_SEGMENT_MAX (UINT64_C(1) << 30)

/* ---- Records. */

enum lq_journal_kind {
    LQ_JOURNAL_ENTRY = 1, /* a log entry; at or below the last index it replaces the suffix */
    LQ_JOURNAL_TERM = 2,  /* term, and the vote given in it */
    LQ_JOURNAL_BOOT = 3,  /* boot counter: how often this node was started */
    LQ_JOURNAL_MARK = 4,  /* a durable snapshot of this node's own state; its last entry is in the
                             log, which stays */
    LQ_JOURNAL_RESTART =
        5, /* a durable snapshot that was installed: the log begins anew behind it */
};

/* One record. Fields that its kind does not have are 0. */
struct lq_journal_record {
    uint8_t kind;         /* enum lq_journal_kind */
    uint8_t type;         /* ENTRY: raft's entry type; any value */
    uint32_t len;         /* ENTRY: bytes at `bytes`, which may be none */
    uint64_t index;       /* ENTRY, MARK, RESTART */
    uint64_t term;        /* ENTRY, TERM, MARK, RESTART */
    uint64_t vote;        /* TERM: a node id, 0: none */
    uint64_t boot;        /* BOOT */
    uint64_t check;       /* ENTRY: lq_journal_entry_check as the leader made it */
    const uint8_t *bytes; /* ENTRY: not owned */
};

/* The checksum that travels beside an entry: made once by its leader, verified wherever the entry
 * arrives (design: "Journal and snapshots"). */
uint64_t lq_journal_entry_check(uint64_t index, uint64_t term, uint8_t type, const uint8_t *bytes,
                                size_t len);

/* The longest payload of an entry that fits into a batch of segments of this size. */
size_t lq_journal_entry_max(uint64_t segment_bytes);

/* ---- What the records add up to. The writer and the scan fold records in the same way. */

struct lq_journal_point {
    uint64_t index, term; /* 0, 0: none */
};

/* What each segment's header repeats, so that older segments can go. */
struct lq_journal_tail {
    uint64_t term, vote, boot;
    struct lq_journal_point mark; /* of the newest snapshot */
    struct lq_journal_point last; /* of the log */
};

struct lq_journal_state {
    struct lq_journal_tail tail;
    uint64_t first_index; /* the log holds first_index .. tail.last.index; none if that is empty */
    struct lq_journal_point *runs; /* entries from this index on have this term; the end of the log
                                      down to the mark at least */
    size_t n_runs, runs_cap;
};

/* Whether the log is known to hold this entry, at or behind the newest mark. At a start with a
 * snapshot newer than the mark: if not, the log is of no use and a RESTART goes into the journal,
 * else a MARK. */
bool lq_journal_state_has(const struct lq_journal_state *state, uint64_t index, uint64_t term);

/* ---- What can be wrong with stored bytes. */

enum lq_journal_fault {
    LQ_JOURNAL_OK = 0,
    /* which segments there are */
    LQ_JOURNAL_SEGMENT_MISSING = 1, /* a number between two others */
    LQ_JOURNAL_NEWEST_MISSING = 2,  /* the last one names a successor */
    LQ_JOURNAL_OLDEST_MISSING = 3,  /* the log would begin behind the snapshot's end */
    /* a segment as a whole */
    LQ_JOURNAL_SIZE = 4,
    LQ_JOURNAL_HEADER = 5,
    LQ_JOURNAL_VERSION = 6,
    LQ_JOURNAL_OTHER_CLUSTER = 7,
    LQ_JOURNAL_OTHER_NODE = 8,
    LQ_JOURNAL_OTHER_SEGMENT = 9,
    LQ_JOURNAL_CHAIN = 10,
    LQ_JOURNAL_SEAL = 11,
    LQ_JOURNAL_SEAL_MISSING = 12,
    /* batches */
    LQ_JOURNAL_BATCH_HEAD = 13,
    LQ_JOURNAL_BATCH_SEQ = 14,
    LQ_JOURNAL_BATCH_LENGTH = 15,
    LQ_JOURNAL_BATCH_CHECKSUM = 16,
    LQ_JOURNAL_STAMP = 17,
    LQ_JOURNAL_STRAY = 18,
    LQ_JOURNAL_BATCH_LOST = 19,
    /* records */
    LQ_JOURNAL_RECORD = 20,
    LQ_JOURNAL_ENTRY_CHECK = 21,
    LQ_JOURNAL_ENTRY_GAP = 22,
    LQ_JOURNAL_ENTRY_COVERED = 23,
    LQ_JOURNAL_ENTRY_TERM = 24,
    LQ_JOURNAL_TERM_BACK = 25,
    LQ_JOURNAL_VOTE_CHANGED = 26,
    LQ_JOURNAL_BOOT_BACK = 27,
    LQ_JOURNAL_MARK_BACK = 28,
    LQ_JOURNAL_MARK_ALONE = 29,
};

/* What is wrong, in words for the operator, to be followed by file and offset. */
const char *lq_journal_fault_text(enum lq_journal_fault fault);

/* ---- Segments. */

/* What stands in the first sector of a segment. */
struct lq_journal_header {
    uint64_t segment_bytes; /* size of the file */
    uint64_t cluster, node;
    uint64_t number; /* 1, 2, 3 ... */
    uint64_t salt;   /* inside every checksum and stamp of the segment; never 0 */
    /* the end of the segment before; number 1 has none: all 0 */
    uint64_t prev_salt;
    uint64_t prev_end; /* file offset */
    uint64_t prev_seq; /* of the last batch before this segment */
    struct lq_journal_tail tail;
};

/* The last index that the log had at the end of each segment but the newest. */
struct lq_journal_ends {
    uint64_t oldest; /* number of the oldest segment that is there */
    uint64_t *last_indexes;
    size_t n, cap;
};

/* ---- Reading. */

/* Called with each record in the order in which they were written, once the whole batch was
 * verified; its bytes are valid during the call. `state` already includes the record. After each
 * call the log is exactly state->first_index .. state->tail.last.index: whatever else the receiver
 * holds was replaced (an ENTRY of a lower index) or dropped (a RESTART). All of it is
 * void if the verdict becomes CORRUPT. */
typedef void lq_journal_on_record(void *context, const struct lq_journal_record *record,
                                  const struct lq_journal_state *state);

enum lq_journal_verdict {
    LQ_JOURNAL_BLANK,  /* there was no segment */
    LQ_JOURNAL_CLEAN,  /* every byte is accounted for */
    LQ_JOURNAL_TORN,   /* so is it, but for a last batch that was in flight and never answered */
    LQ_JOURNAL_CORRUPT /* refuse to start: go by lq_journal_finding */
};

/* Where and what. CORRUPT: `fault`, the segment and the file offset. TORN: no fault; the segment,
 * where the torn batch begins, and its sequence number. */
struct lq_journal_finding {
    enum lq_journal_fault fault;
    uint64_t number, offset, seq;
};

struct lq_journal_scan {
    lq_journal_on_record *on_record; /* NULL is fine */
    void *context;
    uint64_t cluster, node;
    struct lq_journal_state state;
    struct lq_journal_ends ends;
    struct lq_journal_header header;   /* of the newest segment so far; number 0: none */
    uint64_t end;                      /* where its last good batch ends */
    uint64_t seq;                      /* of that batch */
    uint64_t successor_salt;           /* from its seal; 0: it is not sealed */
    bool is_torn;                      /* something of a batch follows */
    bool follows_sealed;               /* the segment before it is sealed, or was deleted */
    struct lq_journal_finding finding; /* set once there is something to tell */
    uint8_t *body;                     /* of one batch, without stamps */
    size_t body_cap;
};

/* Sets up a scan. `cluster` and `node` are the ids that the segments must carry; 0: those of the
 * first segment. Free with lq_journal_scan_done. */
void lq_journal_scan_init(struct lq_journal_scan *scan, uint64_t cluster, uint64_t node,
                          lq_journal_on_record *on_record, void *context);
void lq_journal_scan_done(struct lq_journal_scan *scan);

/* Takes the next segment: the whole file of that number, `len` bytes. Segments come in ascending
 * order, all that the directory holds. The bytes are hostile until proven good; time and memory are
 * linear in `len`. Returns false when the journal is corrupt: no more segments are taken then. */
bool lq_journal_scan_segment(struct lq_journal_scan *scan, uint64_t number, const uint8_t *bytes,
                             size_t len);

/* The verdict, after the last segment; `ret_finding` is filled when it is TORN or CORRUPT. */
enum lq_journal_verdict lq_journal_scan_end(struct lq_journal_scan *scan,
                                            struct lq_journal_finding *ret_finding);

/* ---- Writing. */

/* The batch being gathered, or the one in flight, as it will stand in the file. */
struct lq_journal_batch {
    uint8_t *sectors;
    size_t cap;  /* bytes */
    size_t used; /* of the sectors' bodies: head and records, without stamps */
};

struct lq_journal {
    struct lq_journal_state state; /* with all records that were put */
    struct lq_journal_tail placed; /* with all batches that were finished */
    uint64_t durable_mark;         /* index of the newest mark that is durable */
    struct lq_journal_ends ends;
    uint64_t cluster, node;
    uint64_t segment_bytes; /* of segments to come */
    struct {
        uint64_t number; /* 0: none yet */
        uint64_t salt, bytes;
        uint64_t end; /* where the next batch goes */
        uint64_t seq; /* of the batch that ends there */
        bool is_closed;
    } segment;
    bool is_in_flight;
    struct lq_journal_batch gathering, flying;
    uint8_t header[LQ_SECTOR], seal[LQ_SECTOR];
};

/* Bytes to be written to a segment's file at an offset, both multiples of LQ_SECTOR. */
struct lq_journal_write {
    uint64_t number, offset;
    const uint8_t *bytes; /* the journal's */
    size_t len;           /* 0: nothing is to be written */
};

/* A new, empty journal whose segments will have that size; the first one is still to be begun. Free
 * with lq_journal_done. */
void lq_journal_init(struct lq_journal *journal, uint64_t cluster, uint64_t node,
                     uint64_t segment_bytes);

/* Goes on where a scan ended CLEAN or TORN; takes what it needs out of the scan, which is good for
 * lq_journal_scan_done only afterwards. `segment_bytes` is the size of segments to come.
 * The caller has made durable what was scanned (a batch can be visible in the page cache without
 * being on the disk), and puts a BOOT record into the first batch. */
void lq_journal_resume(struct lq_journal *journal, struct lq_journal_scan *scan,
                       uint64_t segment_bytes);

void lq_journal_done(struct lq_journal *journal);

/* Adds a record to the batch that is being gathered and copies its bytes. Returns false, and
 * changes nothing, when the batch is as large as a segment can take: finish it first. A batch that
 * holds nothing takes any record, entries up to lq_journal_entry_max. Records must make sense after
 * those before (indexes without a gap, terms that do not decrease, one vote per term, ...): a TERM
 * goes ahead of entries of that term. */
bool lq_journal_put(struct lq_journal *journal, const struct lq_journal_record *record);

/* Whether the batch that is being gathered holds nothing. */
bool lq_journal_is_empty(const struct lq_journal *journal);

/* Finishes the batch, which holds something, while nothing is in flight. True: `ret_write` says
 * what to write, whole, and to make durable; the bytes stay valid and unchanged until
 * lq_journal_durable, and records that are put meanwhile go into the next batch. False: the segment
 * has no room (or there is none yet); begin one, then call again. */
bool lq_journal_finish(struct lq_journal *journal, struct lq_journal_write *ret_write);

/* The write of the batch in flight has reached the disk. If it fails instead, the journal is never
 * used again: the node stops. */
void lq_journal_durable(struct lq_journal *journal);

/* Begins the next segment while nothing is in flight. `salt` is random and not 0. The caller, in
 * this order:
 *   1. has a file of `segment_bytes`, allocated and zero, under a name that is no segment's; only
 *      this can fail for want of room, so it comes before the call;
 *   2. writes `ret_header` to it and makes it durable;
 *   3. renames it to the name of segment ret_header->number and makes the directory durable;
 *   4. writes `ret_seal` to segment ret_seal->number and makes it durable (len 0: there is none);
 *   5. only then finishes a batch.
 * The bytes are valid until the next call. When a step fails the journal is never used again. */
void lq_journal_begin_segment(struct lq_journal *journal, uint64_t salt,
                              struct lq_journal_write *ret_header,
                              struct lq_journal_write *ret_seal);

/* The number of the oldest segment if it may be deleted, else 0. `first_index` is the lowest index
 * that the log must still have at the next start; above the newest durable mark nothing goes. The
 * caller removes the file, makes the directory durable and says lq_journal_deleted before it asks
 * again: after a crash the numbers must be without a gap. */
uint64_t lq_journal_deletable(const struct lq_journal *journal, uint64_t first_index);
void lq_journal_deleted(struct lq_journal *journal);

#endif
