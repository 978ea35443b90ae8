/* Life of a lane: a thread that sleeps until its queue holds something, carries out one operation
 * after the other, and ends when the disk stops; then it finishes what it is at and leaves the rest
 * in the queue. After a failure of any lane the operations are passed on without being touched. */
#include "lq_check.h"
#include "lq_disk_impl.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#define NS_PER_S 1000000000

static struct timespec after_us(uint64_t us)
{
    struct timespec at;
    LQ_CHECK(clock_gettime(CLOCK_MONOTONIC, &at) == 0);
    at.tv_sec += (time_t)(us / 1000000);
    at.tv_nsec += (long)(us % 1000000) * 1000;
    if (at.tv_nsec >= NS_PER_S) {
        at.tv_nsec -= NS_PER_S;
        at.tv_sec++;
    }
    return at;
}

static bool has_reason(const struct lq_disk_lane *lane)
{
    return lane->is_poked || !lq_list_is_empty(&lane->queue) || lane->disk->is_stopping;
}

/* Called with the mutex held. */
static void sleep_for(struct lq_disk_lane *lane, uint64_t us)
{
    struct timespec at;
    if (us == UINT64_MAX) {
        while (!has_reason(lane)) {
            LQ_CHECK(pthread_cond_wait(&lane->wake, &lane->mutex) == 0);
        }
        return;
    }
    at = after_us(us);
    while (!has_reason(lane) && pthread_cond_timedwait(&lane->wake, &lane->mutex, &at) == 0) {
    }
}

/* The next operation; NULL: the lane ends. */
static struct lq_disk_op *next(struct lq_disk_lane *lane)
{
    struct lq_list *link = NULL;
    uint64_t pause_us = UINT64_MAX;
    LQ_CHECK(pthread_mutex_lock(&lane->mutex) == 0);
    while (!lane->disk->is_stopping && (link = lq_list_take(&lane->queue)) == NULL) {
        lane->is_poked = false;
        if (lane->idle != NULL) {
            LQ_CHECK(pthread_mutex_unlock(&lane->mutex) == 0);
            pause_us = lane->idle(lane->disk);
            LQ_CHECK(pthread_mutex_lock(&lane->mutex) == 0);
        }
        sleep_for(lane, pause_us);
    }
    LQ_CHECK(pthread_mutex_unlock(&lane->mutex) == 0);
    return link == NULL ? NULL : LQ_CONTAINER(link, struct lq_disk_op, in_queue);
}

static void *run(void *argument)
{
    struct lq_disk_lane *lane = argument;
    struct lq_disk_op *op;
    while ((op = next(lane)) != NULL) {
        if (!lane->disk->has_failed) {
            lane->carry_out(lane->disk, op);
        }
        lq_disk_finish(lane->disk, op);
    }
    return NULL;
}

void lq_disk_lane_start(struct lq_disk_lane *lane)
{
    pthread_condattr_t attributes;
    sigset_t all, before;
    lq_list_init(&lane->queue);
    LQ_CHECK(pthread_mutex_init(&lane->mutex, NULL) == 0);
    LQ_CHECK(pthread_condattr_init(&attributes) == 0);
    LQ_CHECK(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    LQ_CHECK(pthread_cond_init(&lane->wake, &attributes) == 0);
    LQ_CHECK(pthread_condattr_destroy(&attributes) == 0);
    /* Signals are the loop's. */
    LQ_CHECK(sigfillset(&all) == 0 && pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    LQ_CHECK(pthread_create(&lane->thread, NULL, run, lane) == 0);
    LQ_CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    (void)pthread_setname_np(lane->thread, lane->name);
}

void lq_disk_lane_add(struct lq_disk_lane *lane, struct lq_disk_op *op)
{
    LQ_CHECK(pthread_mutex_lock(&lane->mutex) == 0);
    lq_list_append(&lane->queue, &op->in_queue);
    LQ_CHECK(pthread_mutex_unlock(&lane->mutex) == 0);
    LQ_CHECK(pthread_cond_signal(&lane->wake) == 0); /* it finds the mutex free when it wakes */
}

void lq_disk_lane_poke(struct lq_disk_lane *lane)
{
    LQ_CHECK(pthread_mutex_lock(&lane->mutex) == 0);
    lane->is_poked = true;
    LQ_CHECK(pthread_mutex_unlock(&lane->mutex) == 0);
    LQ_CHECK(pthread_cond_signal(&lane->wake) == 0);
}

void lq_disk_lane_join(struct lq_disk_lane *lane)
{
    lq_disk_lane_poke(lane);
    LQ_CHECK(pthread_join(lane->thread, NULL) == 0);
    LQ_CHECK(pthread_cond_destroy(&lane->wake) == 0);
    LQ_CHECK(pthread_mutex_destroy(&lane->mutex) == 0);
}
