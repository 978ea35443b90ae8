/* The journal at work: records are put, gathered into batches, written one batch at a time, and
 * counted as durable. The shell's answers drive it; what is to be done goes to the effects. */
#ifndef LQ_STORE_H
#define LQ_STORE_H

#include "lq_effects.h"
#include "lq_journal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How long a full disk is left alone before it is asked again. */
#define LQ_STORE_RETRY_MS 500

enum lq_store_state {
    LQ_STORE_IDLE,
    LQ_STORE_ALLOCATING, /* a file for the next segment is being made */
    LQ_STORE_FULL,       /* there was no room; asked again at retry_ms */
    LQ_STORE_BEGINNING,  /* the next segment is being begun */
    LQ_STORE_WRITING,    /* a batch is in flight */
};

/* An entry that was put replaced others, from `index` on; remembered until it is durable. */
struct lq_replaced {
    uint64_t position, index;
};

struct lq_store {
    struct lq_journal journal;
    struct lq_effects *effects;
    enum lq_store_state state;
    uint64_t since_ms; /* when what the disk does now was begun */
    uint64_t retry_ms;
    uint64_t n_put;         /* records put so far: the position of the latest */
    uint64_t n_journal;     /* of them, those in the journal's batches */
    uint64_t n_flying;      /* of them, those in the batch in flight or durable */
    uint64_t n_durable;     /* of them, those that are durable */
    uint64_t flying_index;  /* last entry of the log with the batch in flight */
    uint64_t last_index;    /* last entry of the log with all that was put */
    struct lq_list waiting; /* records that the gathering batch had no room for */
    uint64_t waiting_bytes;
    struct lq_replaced *replaced;
    size_t n_replaced, replaced_cap;
    bool is_deleting;
};

/* Takes over a journal that was begun or resumed. */
void lq_store_init(struct lq_store *store, const struct lq_journal *journal,
                   struct lq_effects *effects);
void lq_store_done(struct lq_store *store);

/* Puts a record; its bytes are copied. Returns its position: it is durable when lq_store_durable is
 * at or above that. */
uint64_t lq_store_put(struct lq_store *store, const struct lq_journal_record *record);

uint64_t lq_store_durable(const struct lq_store *store);

/* Bytes that wait for the disk. */
uint64_t lq_store_backlog(const struct lq_store *store);

/* Starts whatever can be started. To be called at the end of each turn, and at retry_ms. */
void lq_store_run(struct lq_store *store, uint64_t now_ms);

/* The shell's answers. */
void lq_store_allocated(struct lq_store *store, uint64_t salt);
void lq_store_no_room(struct lq_store *store, uint64_t now_ms);
void lq_store_segment_ready(struct lq_store *store);

/* The batch in flight is durable. Returns the highest index up to which the log, as it is now, is
 * durable by that; 0 when it says nothing. */
uint64_t lq_store_written(struct lq_store *store);

/* Deletes an old segment if the log from `first_index` on does without it. */
void lq_store_trim(struct lq_store *store, uint64_t first_index);
void lq_store_deleted(struct lq_store *store);

/* Since when the disk has owed an answer, LQ_NEVER: it owes none. */
uint64_t lq_store_waiting_since(const struct lq_store *store);

/* When lq_store_run should be called without any event. */
uint64_t lq_store_deadline(const struct lq_store *store);

#endif
