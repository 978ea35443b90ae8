#include "sim_queue.h"

#include "lq_check.h"
#include "lq_mem.h"

#define FIRST_CAP 256

void sim_queue_init(struct sim_queue *queue)
{
    *queue = (struct sim_queue){.n_slots = 1, .cap = FIRST_CAP};
    queue->slots = lq_calloc(queue->cap, sizeof *queue->slots);
    queue->heap = lq_calloc(queue->cap, sizeof *queue->heap);
}

void sim_queue_done(struct sim_queue *queue)
{
    lq_free(queue->slots);
    lq_free(queue->heap);
}

static bool is_earlier(const struct sim_queue *queue, uint32_t a, uint32_t b)
{
    const struct sim_event *left = &queue->slots[a], *right = &queue->slots[b];
    return left->us != right->us ? left->us < right->us : left->order < right->order;
}

static void set(struct sim_queue *queue, uint32_t place, uint32_t slot)
{
    queue->heap[place] = slot;
    queue->slots[slot].place = place;
}

static void rise(struct sim_queue *queue, uint32_t place, uint32_t slot)
{
    while (place > 1 && is_earlier(queue, slot, queue->heap[place / 2])) {
        set(queue, place, queue->heap[place / 2]);
        place /= 2;
    }
    set(queue, place, slot);
}

static void sink(struct sim_queue *queue, uint32_t place, uint32_t slot)
{
    for (uint32_t child = 2 * place; child <= queue->count; child = 2 * place) {
        if (child < queue->count && is_earlier(queue, queue->heap[child + 1], queue->heap[child])) {
            child++;
        }
        if (!is_earlier(queue, queue->heap[child], slot)) {
            break;
        }
        set(queue, place, queue->heap[child]);
        place = child;
    }
    set(queue, place, slot);
}

static uint32_t take_slot(struct sim_queue *queue)
{
    uint32_t slot = queue->first_free;
    if (slot != 0) {
        queue->first_free = queue->slots[slot].next_free;
        return slot;
    }
    if (queue->n_slots == queue->cap) {
        queue->cap *= 2;
        queue->slots = lq_realloc(queue->slots, queue->cap, sizeof *queue->slots);
        queue->heap = lq_realloc(queue->heap, queue->cap, sizeof *queue->heap);
    }
    queue->slots[queue->n_slots].generation = 0;
    return queue->n_slots++;
}

uint64_t sim_queue_add(struct sim_queue *queue, uint64_t us, sim_fn *fn, void *argument)
{
    uint32_t slot = take_slot(queue);
    struct sim_event *event = &queue->slots[slot];
    *event = (struct sim_event){.us = us,
                                .order = queue->n_scheduled++,
                                .fn = fn,
                                .argument = argument,
                                .generation = event->generation + 1};
    queue->count++;
    rise(queue, queue->count, slot);
    return (uint64_t)event->generation << 32 | slot;
}

static void drop(struct sim_queue *queue, uint32_t slot)
{
    uint32_t place = queue->slots[slot].place, last = queue->heap[queue->count];
    LQ_CHECK(place >= 1 && place <= queue->count);
    queue->count--;
    if (last != slot) {
        if (place > 1 && is_earlier(queue, last, queue->heap[place / 2])) {
            rise(queue, place, last);
        } else {
            sink(queue, place, last);
        }
    }
    queue->slots[slot].place = 0;
    queue->slots[slot].next_free = queue->first_free;
    queue->first_free = slot;
}

void sim_queue_remove(struct sim_queue *queue, uint64_t id)
{
    uint32_t slot = (uint32_t)id;
    if (id == 0) {
        return;
    }
    LQ_CHECK(slot < queue->n_slots);
    if (queue->slots[slot].place != 0 && queue->slots[slot].generation == (uint32_t)(id >> 32)) {
        drop(queue, slot);
    }
}

bool sim_queue_take(struct sim_queue *queue, uint64_t until_us, struct sim_event *ret_event)
{
    uint32_t slot = queue->count > 0 ? queue->heap[1] : 0;
    if (slot == 0 || queue->slots[slot].us > until_us) {
        return false;
    }
    *ret_event = queue->slots[slot];
    drop(queue, slot);
    return true;
}
