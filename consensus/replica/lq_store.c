#include "lq_store.h"

#include "lq_check.h"
#include "lq_heap.h"
#include "lq_mem.h"
#include "lq_planted.h"

#include <string.h>

/* A record that waits for the next batch, with its bytes. */
struct waiting {
    struct lq_list in_store;
    struct lq_journal_record record;
    uint8_t bytes[];
};

void lq_store_init(struct lq_store *store, const struct lq_journal *journal,
                   struct lq_effects *effects)
{
    *store = (struct lq_store){.journal = *journal, .effects = effects};
    store->last_index = journal->state.tail.last.index;
    lq_list_init(&store->waiting);
}

void lq_store_done(struct lq_store *store)
{
    struct lq_list *member;
    while ((member = lq_list_take(&store->waiting)) != NULL) {
        lq_free(LQ_CONTAINER(member, struct waiting, in_store));
    }
    lq_free(store->replaced);
    lq_journal_done(&store->journal);
}

/* ---- Putting. */

static void note_replaced(struct lq_store *store, uint64_t index)
{
    if (store->n_replaced == store->replaced_cap) {
        store->replaced_cap = store->replaced_cap == 0 ? 8 : 2 * store->replaced_cap;
        store->replaced = lq_realloc(store->replaced, store->replaced_cap, sizeof *store->replaced);
    }
    store->replaced[store->n_replaced++] =
        (struct lq_replaced){.position = store->n_put, .index = index};
}

/* Follows the log through a record: what was put before and is replaced now must not be reported as
 * durable for what stands there now. */
static void follow(struct lq_store *store, const struct lq_journal_record *record)
{
    if (record->kind == LQ_JOURNAL_ENTRY) {
        if (record->index <= store->last_index) {
            note_replaced(store, record->index);
        }
        store->last_index = record->index;
    } else if (record->kind == LQ_JOURNAL_RESTART) {
        note_replaced(store, record->index + 1); /* up to there the snapshot has them */
        store->last_index = record->index;
    }
}

static void wait(struct lq_store *store, const struct lq_journal_record *record)
{
    struct waiting *waiting = lq_malloc(sizeof *waiting + record->len);
    waiting->record = *record;
    if (record->len > 0) {
        memcpy(waiting->bytes, record->bytes, record->len);
    }
    waiting->record.bytes = waiting->bytes;
    lq_list_init(&waiting->in_store);
    lq_list_append(&store->waiting, &waiting->in_store);
    store->waiting_bytes += record->len;
}

uint64_t lq_store_put(struct lq_store *store, const struct lq_journal_record *record)
{
    store->n_put++;
    follow(store, record);
    if (lq_list_is_empty(&store->waiting) && lq_journal_put(&store->journal, record)) {
        store->n_journal++;
    } else {
        wait(store, record);
    }
    return store->n_put;
}

/* Moves records that waited into the gathering batch, as far as it has room. */
static void let_in(struct lq_store *store)
{
    while (!lq_list_is_empty(&store->waiting)) {
        struct waiting *first = LQ_CONTAINER(store->waiting.next, struct waiting, in_store);
        if (!lq_journal_put(&store->journal, &first->record)) {
            return;
        }
        store->n_journal++;
        store->waiting_bytes -= first->record.len;
        lq_list_remove(&first->in_store);
        lq_free(first);
    }
}

uint64_t lq_store_durable(const struct lq_store *store)
{
    return store->n_durable;
}

uint64_t lq_store_backlog(const struct lq_store *store)
{
    uint64_t flying = store->journal.is_in_flight ? store->journal.flying.used : 0;
    return store->journal.gathering.used + flying + store->waiting_bytes;
}

/* ---- Writing. */

static void fly(struct lq_store *store)
{
    struct lq_journal_write write;
    if (!lq_journal_finish(&store->journal, &write)) {
        store->state = LQ_STORE_ALLOCATING;
        lq_effects_put(store->effects, &(struct lq_effect){.kind = LQ_EFFECT_ALLOCATE,
                                                           .len = store->journal.segment_bytes});
        return;
    }
    store->state = LQ_STORE_WRITING;
    store->n_flying = store->n_journal;
    store->flying_index = store->journal.state.tail.last.index;
    lq_effects_put(store->effects, &(struct lq_effect){.kind = LQ_EFFECT_WRITE, .write = write});
    let_in(store);
}

void lq_store_run(struct lq_store *store, uint64_t now_ms)
{
    if (store->state == LQ_STORE_FULL && now_ms >= store->retry_ms) {
        store->state = LQ_STORE_IDLE;
    }
    if (store->state == LQ_STORE_IDLE) {
        let_in(store);
        store->since_ms = now_ms;
        if (!lq_journal_is_empty(&store->journal)) {
            fly(store);
        }
    }
}

void lq_store_allocated(struct lq_store *store, uint64_t salt)
{
    struct lq_effect effect = {.kind = LQ_EFFECT_SEGMENT};
    LQ_CHECK(store->state == LQ_STORE_ALLOCATING);
    lq_journal_begin_segment(&store->journal, salt, &effect.write, &effect.seal);
    store->state = LQ_STORE_BEGINNING;
    lq_effects_put(store->effects, &effect);
}

void lq_store_no_room(struct lq_store *store, uint64_t now_ms)
{
    LQ_CHECK(store->state == LQ_STORE_ALLOCATING);
    store->state = LQ_STORE_FULL;
    store->retry_ms = now_ms + LQ_STORE_RETRY_MS;
}

void lq_store_segment_ready(struct lq_store *store)
{
    LQ_CHECK(store->state == LQ_STORE_BEGINNING);
    store->state = LQ_STORE_IDLE;
    fly(store);
}

uint64_t lq_store_written(struct lq_store *store)
{
    uint64_t index = store->flying_index;
    size_t kept = 0;
    LQ_CHECK(store->state == LQ_STORE_WRITING);
    lq_journal_durable(&store->journal);
    store->state = LQ_STORE_IDLE;
    store->n_durable = store->n_flying;
    for (size_t i = 0; i < store->n_replaced; i++) {
        const struct lq_replaced *replaced = &store->replaced[i];
        if (replaced->position > store->n_durable) {
            if (replaced->index <= index && !LQ_PLANTED(LQ_PLANT_STALE_WRITE)) {
                index = replaced->index - 1;
            }
            store->replaced[kept++] = *replaced;
        }
    }
    store->n_replaced = kept;
    return index;
}

void lq_store_trim(struct lq_store *store, uint64_t first_index)
{
    uint64_t number;
    if (store->is_deleting || store->state == LQ_STORE_BEGINNING) {
        return; /* the one before a segment that is being begun is still to be sealed */
    }
    number = lq_journal_deletable(&store->journal, first_index);
    if (number > 0) {
        store->is_deleting = true;
        lq_effects_put(store->effects,
                       &(struct lq_effect){.kind = LQ_EFFECT_DELETE, .number = number});
    }
}

void lq_store_deleted(struct lq_store *store)
{
    LQ_CHECK(store->is_deleting);
    store->is_deleting = false;
    lq_journal_deleted(&store->journal);
}

uint64_t lq_store_waiting_since(const struct lq_store *store)
{
    bool is_waiting = store->state != LQ_STORE_IDLE && store->state != LQ_STORE_FULL;
    return is_waiting ? store->since_ms : LQ_NEVER;
}

uint64_t lq_store_deadline(const struct lq_store *store)
{
    return store->state == LQ_STORE_FULL ? store->retry_ms : LQ_NEVER;
}
