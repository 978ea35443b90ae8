#include "lq_dial.h"

#include "lq_check.h"
#include "lq_client_limits.h"

void lq_dial_init(struct lq_dial *dial, size_t n_addresses, uint64_t random)
{
    LQ_CHECK(n_addresses > 0);
    *dial = (struct lq_dial){
        .n = n_addresses,
        .at = (size_t)(random % n_addresses),
        .random = random | 1,
        .backoff_ms = LQ_BACKOFF_MIN_MS,
    };
}

/* The next connection, to whichever address, is another attempt. */
static void begin_attempt(struct lq_dial *dial, size_t at)
{
    dial->at = at;
    dial->attempt++;
    dial->is_proven = false;
}

void lq_dial_set(struct lq_dial *dial, size_t n_addresses)
{
    LQ_CHECK(n_addresses > 0);
    dial->n = n_addresses;
    dial->failed = 0;
    begin_attempt(dial, (size_t)(lq_dial_random(dial) % n_addresses));
}

void lq_dial_restart(struct lq_dial *dial)
{
    dial->failed = 0;
    dial->not_before_ms = 0;
    dial->backoff_ms = LQ_BACKOFF_MIN_MS;
}

uint64_t lq_dial_random(struct lq_dial *dial)
{
    dial->random ^= dial->random << 13;
    dial->random ^= dial->random >> 7;
    dial->random ^= dial->random << 17;
    return dial->random;
}

void lq_dial_connected(struct lq_dial *dial)
{
    dial->is_proven = true;
}

bool lq_dial_failed(struct lq_dial *dial, uint64_t now_ms)
{
    uint64_t half = dial->backoff_ms / 2;

    begin_attempt(dial, (dial->at + 1) % dial->n);
    dial->failures++;
    dial->failed++;
    if (dial->failed < dial->n) {
        return false;
    }
    dial->failed = 0;
    dial->not_before_ms = now_ms + half + lq_dial_random(dial) % (half + 1);
    dial->backoff_ms *= 2;
    if (dial->backoff_ms > LQ_BACKOFF_MAX_MS) {
        dial->backoff_ms = LQ_BACKOFF_MAX_MS;
    }
    return true;
}

bool lq_dial_leave(struct lq_dial *dial, size_t address)
{
    if (address != dial->at || dial->n == 1) {
        return false;
    }
    begin_attempt(dial, (dial->at + 1) % dial->n);
    return true;
}

void lq_dial_succeeded(struct lq_dial *dial)
{
    lq_dial_restart(dial);
}
