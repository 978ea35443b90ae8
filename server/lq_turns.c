#include "lq_turns.h"

#include "lq_clock.h"
#include "lq_log.h"
#include "lq_mem.h"

void lq_turns_init(struct lq_turns *turns, bool is_on)
{
    *turns = (struct lq_turns){.is_on = is_on, .last_us = lq_clock_cpu_us()};
}

void lq_turns_note(struct lq_turns *turns)
{
    uint64_t now_us;
    if (!turns->is_on) {
        return;
    }
    now_us = lq_clock_cpu_us();
    if (now_us - turns->last_us > turns->longest_us) {
        turns->longest_us = now_us - turns->last_us;
    }
    turns->last_us = now_us;
    turns->count++;
}

void lq_turns_log(const struct lq_turns *turns)
{
    if (turns->is_on) {
        lq_log(LQ_LOG_INFO, "turns", LQ_NUMBER("longest_us", turns->longest_us),
               LQ_NUMBER("count", turns->count), LQ_NUMBER("cpu_us", turns->last_us),
               LQ_NUMBER("allocations", lq_mem_allocations()));
    }
}
