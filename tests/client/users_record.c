/* Records. A send is stamped before its call, an answer after it returned. */
#include "users.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t lq_user_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t monotonic(const struct lq_user *user, uint64_t boottime_ms)
{
    return (uint64_t)((int64_t)(boottime_ms * 1000000) + user->all->offset_ns);
}

/* One event; `rest` begins with a comma. One call, so that lines of threads do not mix. */
__attribute__((format(printf, 4, 5))) static void put(struct lq_user *user, uint64_t t,
                                                      const char *kind, const char *rest, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, rest);
    (void)vsnprintf(text, sizeof text, rest, arguments);
    va_end(arguments);
    (void)fprintf(user->all->history, "{\"t\":%" PRIu64 ",\"e\":\"%s\",\"conn\":%u%s}\n", t, kind,
                  user->conn, text);
}

void lq_record_open(struct lq_user *user)
{
    static unsigned last_conn;
    user->conn = __atomic_add_fetch(&last_conn, 1, __ATOMIC_RELAXED);
    put(user, lq_user_now(), "open", ",\"client\":%u,\"node\":0", user->number);
}

void lq_record_close(struct lq_user *user, const char *why)
{
    put(user, lq_user_now(), "close", ",\"why\":\"%s\"", why);
    lq_record_open(user);
}

static void fail(const char *call, enum loquet_result result, const struct loquet_why *why)
{
    (void)fprintf(stderr, "%s: %s: %s\n", call, loquet_result_text(result), why->text);
    exit(1);
}

enum loquet_result lq_record_acquire(struct lq_user *user, uint32_t wait_ms,
                                     struct loquet_cancel *cancel)
{
    struct loquet_request request = {
        .key = user->key, .wait_ms = wait_ms, .lease_s = user->lease_s, .cancel = cancel};
    uint64_t owner = ((uint64_t)user->number << 40) + ++user->n_owners;
    struct loquet_why why;
    enum loquet_result result;

    user->asked = lq_user_now();
    put(user, user->asked, "send",
        ",\"op\":\"A\",\"key\":\"%s\",\"owner\":%" PRIu64 ",\"wait\":%u,\"lease\":%u", user->key,
        owner, (wait_ms + 999) / 1000, user->lease_s);
    if (cancel != NULL) { /* it may be given up at any moment */
        put(user, lq_user_now(), "send", ",\"op\":\"C\",\"key\":\"%s\",\"owner\":%" PRIu64,
            user->key, owner);
    }
    result = loquet_acquire(user->all->client, &request, &user->ticket, &why);
    switch (result) {
    case LOQUET_ACQUIRED:
        user->token = loquet_ticket_token(user->ticket);
        user->ends_ms = loquet_ticket_ends_ms(user->ticket);
        put(user, lq_user_now(), "recv",
            ",\"op\":\"A\",\"key\":\"%s\",\"owner\":%" PRIu64 ",\"token\":%" PRIu64
            ",\"until\":%" PRIu64,
            user->key, owner, user->token, monotonic(user, user->ends_ms));
        break;
    case LOQUET_TIMEOUT:
    case LOQUET_BUSY:
    case LOQUET_CLOSED: /* certainly not, too; and only for want of a server */
        put(user, lq_user_now(), "recv", ",\"op\":\"%s\",\"key\":\"%s\",\"owner\":%" PRIu64,
            result == LOQUET_TIMEOUT ? "T" : "B", user->key, owner);
        break;
    case LOQUET_INDETERMINATE: /* also of a grant that crossed its giving up, without any fault */
        lq_record_close(user, cancel != NULL ? "own" : "unknown");
        break;
    case LOQUET_INVALID:
    case LOQUET_RELEASED:
    case LOQUET_RENEWED:
    case LOQUET_NOT_HELD:
    case LOQUET_ALIVE:
        fail("acquire", result, &why);
    }
    return result;
}

static void put_touch(struct lq_user *user, uint64_t t, const char *kind, const char *op)
{
    put(user, t, kind,
        ",\"op\":\"%s\",\"key\":\"%s\",\"token\":%" PRIu64 ",\"lease\":%u,\"until\":%" PRIu64, op,
        user->key, user->token, user->lease_s, monotonic(user, user->ends_ms));
}

/* What came of a release or renewal; `op` is that of success. */
static void put_touched(struct lq_user *user, enum loquet_result result, const char *op,
                        const struct loquet_why *why)
{
    if (result == LOQUET_RELEASED || result == LOQUET_RENEWED) {
        put_touch(user, lq_user_now(), "recv", op);
    } else if (result == LOQUET_NOT_HELD && *op != 'R') {
        put_touch(user, lq_user_now(), "recv", "N");
    } else if (result == LOQUET_NOT_HELD || result == LOQUET_INDETERMINATE ||
               result == LOQUET_CLOSED) {
        /* A release that was repeated may have found itself done: no longer held, since whenever.
         */
        lq_record_close(user, "unknown");
    } else {
        fail(op, result, why);
    }
}

enum loquet_result lq_record_release(struct lq_user *user, struct loquet_ticket *ticket)
{
    struct loquet_why why;
    enum loquet_result result;

    put_touch(user, lq_user_now(), "send", "R");
    result = loquet_release(ticket, &why);
    put_touched(user, result, "R", &why);
    return result;
}

enum loquet_result lq_record_renew(struct lq_user *user)
{
    struct loquet_why why;
    enum loquet_result result;

    put_touch(user, lq_user_now(), "send", "K");
    result = loquet_renew(user->ticket, user->lease_s, &why);
    user->ends_ms = loquet_ticket_ends_ms(user->ticket);
    put_touched(user, result, "K", &why);
    return result;
}

/* When the library sent the renewal that its end of the lease counts from: the lease, less 2 %,
 * before that, and not before the acquire, whatever rounding makes of it. */
static uint64_t renewal_sent(const struct lq_user *user)
{
    uint64_t sent = monotonic(user, user->ends_ms - (uint64_t)user->lease_s * 980 - 1);
    return sent > user->asked ? sent : user->asked;
}

void lq_record_kept(struct lq_user *user)
{
    uint64_t ends_ms = loquet_ticket_ends_ms(user->ticket);
    if (ends_ms > user->ends_ms) {
        user->ends_ms = ends_ms;
        put_touch(user, renewal_sent(user), "send", "K");
        put_touch(user, lq_user_now(), "recv", "K");
    }
}

/* A renewal that was not confirmed may be under way, or done. */
static void put_open_renewal(struct lq_user *user)
{
    put_touch(user, renewal_sent(user), "send", "K");
}

void lq_record_loss(struct lq_user *user)
{
    put_open_renewal(user);
    if (user->loss == LOQUET_LOSS_CERTAIN) {
        put_touch(user, lq_user_now(), "recv", "N");
    } else {
        lq_record_close(user, "lost");
    }
}

void lq_record_death(struct lq_user *user)
{
    put_open_renewal(user);
    lq_record_close(user, "own");
}
