/* Commands of a test, in STATE/control: a page of rules that the test writes (lqfaults.py) while
 * the process runs. A test fills a rule and arms it last; every operation looks at all of them. */
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RULES        16
#define CONTROL_SIZE 4096

/* In the byte order of the machine. */
struct rule {
    uint32_t armed;    /* 0: not in use; a stall ends when it falls to 0 */
    uint32_t ops;      /* bits of lq_faults_op */
    int32_t error;     /* errno; 0: only stall */
    uint32_t stall_ms; /* UINT32_MAX: until the rule is disarmed */
    int32_t skip;      /* lets so many operations pass first */
    int32_t times;     /* strikes so often; -1: without end */
    uint64_t hits;     /* how often it struck */
    char pattern[96];  /* of paths, as fnmatch knows them */
};

struct control {
    uint32_t skips_sync;
    uint32_t reserved[31];
    struct rule rules[RULES];
};
_Static_assert(sizeof(struct rule) == 128, "lqfaults.py knows the layout");
_Static_assert(sizeof(struct control) <= CONTROL_SIZE, "it is one page");

static struct control *control;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void begin(void)
{
    int fd = (int)lq_faults_raw(SYS_openat, lq_faults_state_fd(), "control",
                                O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || lq_faults_raw(SYS_ftruncate, fd, CONTROL_SIZE) != 0) {
        lq_faults_refuse("STATE/control: %s", strerror(errno));
    }
    void *page = (void *)lq_faults_raw(SYS_mmap, NULL, CONTROL_SIZE, PROT_READ | PROT_WRITE,
                                       MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        lq_faults_refuse("STATE/control: %s", strerror(errno));
    }
    (void)lq_faults_raw(SYS_close, fd);
    control = page;
}

/* Takes one off a counter unless it is 0; false when it was. A negative counter never ends. */
static bool take(int32_t *counter)
{
    int32_t value = __atomic_load_n(counter, __ATOMIC_RELAXED);
    while (value > 0) {
        if (__atomic_compare_exchange_n(counter, &value, value - 1, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            return true;
        }
    }
    return value < 0;
}

static bool is_armed(const struct rule *rule)
{
    return __atomic_load_n(&rule->armed, __ATOMIC_ACQUIRE) != 0;
}

static void pause_ms(uint32_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000L};
    while (nanosleep(&time, &time) != 0 && errno == EINTR) {
    }
}

static void stall(const struct rule *rule)
{
    if (rule->stall_ms != UINT32_MAX) {
        pause_ms(rule->stall_ms);
        return;
    }
    while (is_armed(rule)) {
        pause_ms(1);
    }
}

static bool fits(const struct rule *rule, enum lq_faults_op op, const char *path, bool grows)
{
    return is_armed(rule) && (rule->ops & op) != 0 && (grows || rule->error != ENOSPC) &&
           fnmatch(rule->pattern, path, 0) == 0;
}

int lq_faults_strike(enum lq_faults_op op, const char *path, bool grows)
{
    int saved = errno;
    int error = 0;
    (void)pthread_once(&once, begin);
    for (int i = 0; i < RULES && error == 0; i++) {
        struct rule *rule = &control->rules[i];
        if (!fits(rule, op, path, grows) || take(&rule->skip) || !take(&rule->times)) {
            continue;
        }
        int wanted = rule->error; /* the rule may be changed during a stall */
        (void)__atomic_add_fetch(&rule->hits, 1, __ATOMIC_RELAXED);
        stall(rule);
        error = wanted;
    }
    errno = saved;
    return error;
}

bool lq_faults_skips_sync(void)
{
    (void)pthread_once(&once, begin);
    return __atomic_load_n(&control->skips_sync, __ATOMIC_RELAXED) != 0;
}
