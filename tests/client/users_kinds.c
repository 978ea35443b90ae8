/* What one thread does, again and again until all is over. */
#include "users.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HOT_KEYS = 3, LONG_KEYS = 6, CHURN_KEYS = 200 };

#define LOOK_MS 20 /* how often a kept lock is looked at */

uint64_t lq_user_draw(struct lq_user *user, uint64_t n)
{
    user->random ^= user->random << 13;
    user->random ^= user->random >> 7;
    user->random ^= user->random << 17;
    return user->random % n;
}

void lq_user_sleep_ms(uint64_t ms)
{
    struct timespec pause = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL);
}

static void choose_key(struct lq_user *user, const char *name, uint64_t n)
{
    (void)snprintf(user->key, sizeof user->key, "%s%s-%" PRIu64, user->all->prefix, name,
                   lq_user_draw(user, n));
}

static void let_go(struct lq_user *user)
{
    loquet_ticket_free(user->ticket);
    user->ticket = NULL;
}

static void release(struct lq_user *user)
{
    (void)lq_record_release(user, user->ticket);
    let_go(user);
}

static void churn(struct lq_user *user)
{
    choose_key(user, "churn", CHURN_KEYS);
    user->lease_s = 5;
    if (lq_record_acquire(user, 0, NULL) == LOQUET_ACQUIRED) {
        release(user);
    }
}

static void hot(struct lq_user *user)
{
    choose_key(user, "hot", HOT_KEYS);
    user->lease_s = 2 + (uint32_t)lq_user_draw(user, 4);
    if (lq_record_acquire(user, 1000 * (1 + (uint32_t)lq_user_draw(user, 8)), NULL) ==
        LOQUET_ACQUIRED) {
        lq_user_sleep_ms(lq_user_draw(user, 20));
        release(user);
    }
}

static void poll_hot(struct lq_user *user)
{
    choose_key(user, "hot", HOT_KEYS);
    user->lease_s = 2;
    if (lq_record_acquire(user, 0, NULL) == LOQUET_ACQUIRED) {
        release(user);
    }
    lq_user_sleep_ms(5 + lq_user_draw(user, 30));
}

static void take_loss(struct loquet_ticket *ticket, enum loquet_loss loss, void *context)
{
    struct lq_user *user = context;
    (void)ticket;
    __atomic_store_n(&user->loss, (int)loss, __ATOMIC_RELEASE);
}

/* Holds while the library renews. */
static void hold_kept(struct lq_user *user)
{
    uint64_t until = lq_user_now() + lq_user_draw(user, 5000) * 1000000;
    while (lq_user_now() < until && __atomic_load_n(&user->loss, __ATOMIC_ACQUIRE) == 0 &&
           !user->all->is_over) {
        lq_user_sleep_ms(LOOK_MS);
        lq_record_kept(user);
    }
}

static void long_hold(struct lq_user *user)
{
    choose_key(user, "long", LONG_KEYS);
    user->lease_s = 1 + (uint32_t)lq_user_draw(user, 2);
    if (lq_record_acquire(user, 5000, NULL) != LOQUET_ACQUIRED) {
        return;
    }
    user->loss = 0;
    if (loquet_keep(user->ticket, take_loss, user)) {
        hold_kept(user);
    }
    if (user->loss != 0) {
        lq_record_loss(user);
        let_go(user);
    } else if (lq_user_draw(user, 10) == 0) {
        let_go(user); /* it dies with the lock */
        lq_record_death(user);
    } else {
        release(user);
    }
}

static void renew_by_hand(struct lq_user *user)
{
    choose_key(user, "long", LONG_KEYS);
    user->lease_s = 2;
    if (lq_record_acquire(user, 5000, NULL) != LOQUET_ACQUIRED) {
        return;
    }
    for (uint64_t i = lq_user_draw(user, 4); i > 0; i--) {
        lq_user_sleep_ms(lq_user_draw(user, 700));
        if (lq_record_renew(user) != LOQUET_RENEWED) {
            break;
        }
    }
    release(user);
}

/* Fires after a while, from another thread. */
static void *fire_later(void *argument)
{
    struct loquet_cancel *cancel = argument;
    lq_user_sleep_ms(1 + lq_user_now() % 200);
    loquet_cancel_fire(cancel);
    return NULL;
}

static void give_up(struct lq_user *user)
{
    struct loquet_cancel *cancel = loquet_cancel_new(user->all->client);
    pthread_t thread;

    choose_key(user, "hot", HOT_KEYS);
    user->lease_s = 2;
    if (cancel == NULL || pthread_create(&thread, NULL, fire_later, cancel) != 0) {
        exit(1);
    }
    if (lq_record_acquire(user, 5000, cancel) == LOQUET_ACQUIRED) {
        release(user);
    }
    (void)pthread_join(thread, NULL);
    loquet_cancel_free(cancel);
}

static void foreign(struct lq_user *user)
{
    struct loquet_ticket *made;

    choose_key(user, "hot", HOT_KEYS);
    user->lease_s = 5;
    if (lq_record_acquire(user, 3000, NULL) != LOQUET_ACQUIRED) {
        return;
    }
    made = loquet_ticket_make(user->all->client, user->key, strlen(user->key), user->token);
    if (made == NULL) {
        exit(1);
    }
    (void)lq_record_release(user, made);
    loquet_ticket_free(made);
    let_go(user);
}

void *lq_user_main(void *argument)
{
    static void (*const acts[LQ_USER_KINDS])(struct lq_user * user) = {
        [LQ_USER_CHURN] = churn,         [LQ_USER_HOT] = hot,
        [LQ_USER_POLL] = poll_hot,       [LQ_USER_LONG] = long_hold,
        [LQ_USER_RENEW] = renew_by_hand, [LQ_USER_GIVE_UP] = give_up,
        [LQ_USER_FOREIGN] = foreign,
    };
    struct lq_user *user = argument;

    lq_record_open(user);
    while (!user->all->is_over) {
        acts[user->kind](user);
    }
    return NULL;
}
