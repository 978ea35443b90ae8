#include "lq_time.h"

#include "lq_check.h"

#include <sys/timerfd.h>
#include <time.h>

static struct timespec boottime(void)
{
    struct timespec now;
    LQ_CHECK(clock_gettime(CLOCK_BOOTTIME, &now) == 0);
    return now;
}

uint64_t lq_time_now_ms(void)
{
    struct timespec now = boottime();
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t lq_time_now_us(void)
{
    struct timespec now = boottime();
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int lq_alarm_open(void)
{
    return timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
}

void lq_alarm_set(int alarm_fd, uint64_t due_ms)
{
    struct itimerspec when = {0};

    if (due_ms != LQ_NEVER) {
        when.it_value.tv_sec = (time_t)(due_ms / 1000);
        when.it_value.tv_nsec = (long)(due_ms % 1000) * 1000000;
        if (due_ms == 0) {
            when.it_value.tv_nsec = 1; /* all zeros would switch it off */
        }
    }
    /* Setting it also takes back that it was due. */
    LQ_CHECK(timerfd_settime(alarm_fd, TFD_TIMER_ABSTIME, &when, NULL) == 0);
}
