/* Many threads at work through one blocking client, each recording what it asked and was told, in
 * the form that tests/judge/history.py describes. A thread is a client there, with a connection of
 * its own in name: what is unknown to it ends that connection. */
#ifndef LQ_USERS_H
#define LQ_USERS_H

#include "loquet.h"

#include <pthread.h>
#include <stdio.h>

enum lq_user_kind {
    LQ_USER_CHURN,   /* many keys, nobody in the way */
    LQ_USER_HOT,     /* queues on a few keys */
    LQ_USER_POLL,    /* tries those without waiting */
    LQ_USER_LONG,    /* holds for several leases, renewed by the library; some die with the lock */
    LQ_USER_RENEW,   /* the same, renewed by hand */
    LQ_USER_GIVE_UP, /* waits, and gives up */
    LQ_USER_FOREIGN, /* releases by a ticket made of key and token */
    LQ_USER_KINDS,
};

/* What all users share. */
struct lq_users {
    struct loquet_client *client;
    FILE *history;
    const char *prefix; /* of all keys */
    int64_t offset_ns;  /* CLOCK_MONOTONIC less CLOCK_BOOTTIME */
    volatile bool is_over;
};

struct lq_user {
    struct lq_users *all;
    enum lq_user_kind kind;
    unsigned number, conn;
    uint64_t random;
    uint64_t n_owners;
    pthread_t thread;
    /* The present lock. */
    struct loquet_ticket *ticket;
    char key[64];
    uint64_t token, ends_ms; /* as recorded last */
    uint64_t asked;          /* when the acquire was sent */
    uint32_t lease_s;
    volatile int loss; /* enum loquet_loss, 0: none; written by the library's thread */
};

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t lq_user_now(void);

/* A number below `n`. */
uint64_t lq_user_draw(struct lq_user *user, uint64_t n);

void lq_user_sleep_ms(uint64_t ms);

/* ---- Records (users_record.c). */

void lq_record_open(struct lq_user *user);

/* The outcome is unknown, or the lock was lost: this name of a connection is used up. */
void lq_record_close(struct lq_user *user, const char *why);

/* Calls of the library, recorded before and after. */
enum loquet_result lq_record_acquire(struct lq_user *user, uint32_t wait_ms,
                                     struct loquet_cancel *cancel);
enum loquet_result lq_record_release(struct lq_user *user, struct loquet_ticket *ticket);
enum loquet_result lq_record_renew(struct lq_user *user);

/* Looks at a ticket that is kept: what the library renewed meanwhile. */
void lq_record_kept(struct lq_user *user);

/* Records what the library said of its loss. */
void lq_record_loss(struct lq_user *user);

/* A kept lock is left to its lease. */
void lq_record_death(struct lq_user *user);

/* ---- What one thread does (users_kinds.c). */

void *lq_user_main(void *argument);

#endif
