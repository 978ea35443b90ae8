/* What one slot does with its answers: the closed loop drawn in load.h. */
#include "keys.h"
#include "load.h"

static void choose_key(struct lq_bench_load *load, struct lq_bench_slot *slot)
{
    const struct lq_bench_options *o = load->options;
    if (load->phase == LQ_BENCH_PHASE_HOLD) {
        slot->key = load->next_held++;
    } else if (o->keys == LQ_BENCH_SHARED) {
        slot->key = lq_bench_random_below(&load->random, o->key_set);
    } else {
        uint32_t share = (o->key_set - slot->id + load->n_slots - 1) / load->n_slots;
        slot->key = slot->id + load->n_slots * lq_bench_random_below(&load->random, share);
    }
    lq_bench_key_renumber(slot->text, o->key_bytes, slot->key);
}

static void send_acquire(struct lq_bench_load *load, struct lq_bench_slot *slot, uint64_t now_ns)
{
    struct lq_bench_conn *conn = slot->conn;
    choose_key(load, slot);
    slot->owner += (uint64_t)1 << 32;
    slot->sent_ns = now_ns;
    slot->state = LQ_BENCH_SLOT_ACQUIRING;
    conn->out_len =
        (size_t)(load->driver->put_acquire(slot, conn->out + conn->out_len) - conn->out);
}

static void send_release(struct lq_bench_load *load, struct lq_bench_slot *slot, uint64_t now_ns)
{
    struct lq_bench_conn *conn = slot->conn;
    slot->sent_ns = now_ns;
    slot->state = LQ_BENCH_SLOT_RELEASING;
    conn->out_len =
        (size_t)(load->driver->put_release(slot, conn->out + conn->out_len) - conn->out);
    if (load->keys != NULL)
        load->keys[slot->key].released_ns = now_ns;
}

void lq_bench_load_start(struct lq_bench_load *load, struct lq_bench_slot *slot, uint64_t now_ns)
{
    slot->conn->active++;
    load->active++;
    send_acquire(load, slot, now_ns);
}

/* The slot's request was answered and it holds nothing: on with the next key, unless the phase has
 * no more. */
static void go_on(struct lq_bench_load *load, struct lq_bench_slot *slot, uint64_t now_ns)
{
    if (load->phase == LQ_BENCH_PHASE_DRAIN ||
        (load->phase == LQ_BENCH_PHASE_HOLD && load->next_held >= load->options->hold)) {
        slot->state = LQ_BENCH_SLOT_IDLE;
        slot->conn->active--;
        load->active--;
    } else {
        send_acquire(load, slot, now_ns);
    }
}

/* A grant on a shared key. It is a hand-over if this slot was already waiting when the last holder
 * sent R: only then was nothing but the server between the two. */
static void watch_grant(struct lq_bench_load *load, const struct lq_bench_slot *slot,
                        uint64_t token, uint64_t now_ns)
{
    struct lq_bench_key_state *key = &load->keys[slot->key];
    bool handed_over = load->options->wait_s > 0 && slot->sent_ns < key->released_ns;
    if (token <= key->last_token)
        lq_bench_load_error(load, "token %llu on key %u came after token %llu",
                            (unsigned long long)token, slot->key,
                            (unsigned long long)key->last_token);
    key->last_token = token;
    if (handed_over && load->phase == LQ_BENCH_PHASE_MEASURE)
        lq_bench_histogram_record(&load->counts.hand_over, now_ns - key->released_ns);
    key->released_ns = 0;
}

static void granted(struct lq_bench_load *load, struct lq_bench_slot *slot, uint64_t token,
                    uint64_t now_ns)
{
    if (load->phase == LQ_BENCH_PHASE_HOLD) {
        load->held++;
        go_on(load, slot, now_ns);
        return;
    }
    if (load->keys != NULL)
        watch_grant(load, slot, token, now_ns);
    if (load->phase == LQ_BENCH_PHASE_MEASURE)
        lq_bench_histogram_record(&load->counts.acquire, now_ns - slot->sent_ns);
    slot->token = token;
    send_release(load, slot, now_ns);
}

static void refused(struct lq_bench_load *load, struct lq_bench_slot *slot, uint64_t *count,
                    uint64_t now_ns)
{
    if (load->phase == LQ_BENCH_PHASE_HOLD)
        load->hold_refused++;
    else if (load->phase == LQ_BENCH_PHASE_MEASURE)
        ++*count;
    go_on(load, slot, now_ns);
}

void lq_bench_load_answer(struct lq_bench_load *load, struct lq_bench_slot *slot,
                          enum lq_bench_answer answer, uint64_t token, uint64_t now_ns)
{
    struct lq_bench_load_counts *counts = &load->counts;
    switch (answer) {
    case LQ_BENCH_ANSWER_GRANTED:
        granted(load, slot, token, now_ns);
        return;
    case LQ_BENCH_ANSWER_TIMEOUT:
        refused(load, slot, &counts->timeouts, now_ns);
        return;
    case LQ_BENCH_ANSWER_BUSY:
        refused(load, slot, &counts->busy, now_ns);
        return;
    case LQ_BENCH_ANSWER_RELEASED:
        if (load->phase == LQ_BENCH_PHASE_MEASURE) {
            counts->pairs++;
            lq_bench_histogram_record(&counts->release, now_ns - slot->sent_ns);
        }
        go_on(load, slot, now_ns);
        return;
    case LQ_BENCH_ANSWER_NOT_HELD:
        refused(load, slot, &counts->not_held, now_ns);
        return;
    }
}
