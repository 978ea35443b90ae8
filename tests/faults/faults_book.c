/* The book of what is not durable yet, in STATE/book, mapped and shared: what is stored there is
 * safe from a kill at once, since the pages belong to the kernel.
 *
 *   head (a page) | arena 0 | arena 1
 *
 * Records lie one behind the other in the arena that is in use; `used` is moved over a new one when
 * it is complete. Records that are done with are skipped; when all are, the arena is begun anew,
 * and when many are, or when it is full, the others are copied to the other arena, which then takes
 * over by a single store. A process that starts on the book of an earlier one takes it up as it is:
 * what was not durable then still is not. Two processes at a time are refused. */
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAGIC         "lqfault1"
#define HEAD_BYTES    4096u
#define ARENA_BYTES   (UINT64_C(128) << 20)
#define TIDY_AT_LEAST 4096u /* records that are done with and stand in the way of a walk */

struct head {
    char magic[8];
    uint64_t arena_bytes;
    uint64_t active; /* 0 or 1 */
    uint64_t used[2];
    uint64_t next_seq;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct head *head; /* NULL: not attached */
static bool has_lost;     /* some record may be lost */

static void *arena(uint64_t which)
{
    return (char *)head + HEAD_BYTES + which * ARENA_BYTES;
}

static struct lq_faults_record *first(void)
{
    return arena(head->active);
}

static struct lq_faults_record *next(struct lq_faults_record *record)
{
    return (struct lq_faults_record *)(void *)((char *)record + record->bytes);
}

static struct lq_faults_record *end(void)
{
    return (struct lq_faults_record *)(void *)((char *)arena(head->active) +
                                               head->used[head->active]);
}

static void attach(void)
{
    struct stat st;
    struct stat dir;
    size_t bytes = HEAD_BYTES + 2 * ARENA_BYTES;
    int at = lq_faults_state_fd();
    int fd = (int)lq_faults_raw(SYS_openat, at, "book", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &st) != 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) {
        lq_faults_refuse("the book of the state folder: %s", strerror(errno));
    }
    if (fstat(lq_faults_dir_fd(), &dir) != 0 || dir.st_dev != st.st_dev) {
        lq_faults_refuse("the directory and the state folder must be on one file system");
    }
    if (lq_faults_raw(SYS_ftruncate, fd, bytes) != 0 ||
        (lq_faults_raw(SYS_mkdirat, at, "graves", 0700) != 0 && errno != EEXIST)) {
        lq_faults_refuse("the state folder: %s", strerror(errno));
    }
    head = (struct head *)lq_faults_raw(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                                        fd, 0);
    if (head == MAP_FAILED) {
        lq_faults_refuse("the book: %s", strerror(errno));
    }
    if (st.st_size == 0) {
        head->arena_bytes = ARENA_BYTES;
        head->next_seq = 1;
        memcpy(head->magic, MAGIC, sizeof head->magic);
    } else if (memcmp(head->magic, MAGIC, sizeof head->magic) != 0 ||
               head->arena_bytes != ARENA_BYTES) {
        lq_faults_refuse("the book is of another version");
    }
    for (struct lq_faults_record *r = first(); r != end(); r = next(r)) {
        has_lost = has_lost || (r->live & r->lost) != 0;
    }
}

void lq_faults_lock(void)
{
    int saved = errno;
    (void)pthread_mutex_lock(&mutex);
    if (head == NULL) {
        attach();
    }
    errno = saved;
}

void lq_faults_unlock(void)
{
    (void)pthread_mutex_unlock(&mutex);
}

/* Stores that a reader after a kill must see in this order. */
static void store(uint64_t *where, uint64_t value)
{
    __atomic_store_n(where, value, __ATOMIC_RELEASE);
}

/* Copies what is live to the other arena, which takes over. */
static void tidy(void)
{
    uint64_t other = 1 - head->active;
    char *to = arena(other);
    uint64_t used = 0;
    for (struct lq_faults_record *r = first(); r != end(); r = next(r)) {
        if (r->live != 0) {
            memcpy(to + used, r, r->bytes);
            used += r->bytes;
        }
    }
    store(&head->used[other], used);
    store(&head->active, other);
}

struct lq_faults_record *lq_faults_append(enum lq_faults_kind kind, uint64_t ino, size_t extra)
{
    size_t bytes = sizeof(struct lq_faults_record) + (extra + 7) / 8 * 8;
    if (head->used[head->active] + bytes > ARENA_BYTES) {
        tidy();
        if (head->used[head->active] + bytes > ARENA_BYTES / 2) {
            lq_faults_refuse("too much that was never synced");
        }
    }
    struct lq_faults_record *record = end();
    memset(record, 0, bytes);
    record->bytes = (uint32_t)bytes;
    record->kind = kind;
    record->ino = ino;
    record->seq = head->next_seq;
    store(&head->next_seq, head->next_seq + 1);
    return record;
}

void lq_faults_publish(struct lq_faults_record *record)
{
    store(&head->used[head->active], head->used[head->active] + record->bytes);
}

uint64_t lq_faults_mark(void)
{
    return head->next_seq;
}

/* ---- What a sync does to the book. */

/* The bits of a DATA record that lie within the scope. */
static uint64_t bits_within(const struct lq_faults_record *record,
                            const struct lq_faults_scope *scope)
{
    uint64_t bits = ~UINT64_C(0);
    if (scope->first > record->at) {
        uint64_t skip = scope->first - record->at;
        bits = skip >= LQ_FAULTS_PER_RECORD ? 0 : bits << skip;
    }
    if (scope->end <= record->at) {
        bits = 0;
    } else if (scope->end - record->at < LQ_FAULTS_PER_RECORD) {
        bits &= (UINT64_C(1) << (scope->end - record->at)) - 1;
    }
    return bits;
}

static bool lies_in(const char *path, const char *dir)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return strcmp(dir, ".") == 0;
    }
    return strlen(dir) == (size_t)(slash - path) && strncmp(path, dir, strlen(dir)) == 0;
}

static uint64_t names_within(const struct lq_faults_record *record, const char *dir)
{
    const char *name = (const char *)(record + 1);
    uint64_t bits = lies_in(name, dir) ? 1 : 0;
    if (record->kind == LQ_FAULTS_RENAME && lies_in(name + strlen(name) + 1, dir)) {
        bits |= 2;
    }
    return bits;
}

/* Which bits of a record are within the scope. */
static uint64_t covers(const struct lq_faults_scope *scope, const struct lq_faults_record *record)
{
    if (record->seq >= scope->mark) {
        return 0;
    }
    if (scope->everything) {
        return ~UINT64_C(0);
    }
    switch ((enum lq_faults_kind)record->kind) {
    case LQ_FAULTS_DATA:
        return record->ino == scope->ino ? bits_within(record, scope) : 0;
    case LQ_FAULTS_SIZE:
        return record->ino == scope->ino ? 1 : 0;
    case LQ_FAULTS_CREATE:
    case LQ_FAULTS_UNLINK:
    case LQ_FAULTS_RENAME:
    case LQ_FAULTS_MKDIR:
    case LQ_FAULTS_LINK:
        return scope->dir != NULL ? names_within(record, scope->dir) : 0;
    }
    lq_faults_refuse("the book is damaged");
}

static void settle_one(struct lq_faults_record *record, uint64_t bits, enum lq_faults_fate fate)
{
    switch (fate) {
    case LQ_FAULTS_DURABLE:
        store(&record->live, record->live & ~(bits & ~record->lost));
        if (record->live == 0 && record->grave != 0) {
            lq_faults_bury(record->grave);
        }
        break;
    case LQ_FAULTS_LOST:
        store(&record->lost, record->lost | (record->live & bits));
        has_lost = true;
        break;
    case LQ_FAULTS_DIRTY:
        store(&record->lost, record->lost & ~bits);
        break;
    }
}

void lq_faults_settle(const struct lq_faults_scope *scope, enum lq_faults_fate fate)
{
    uint64_t dead = 0;
    bool is_empty = true;
    if (fate == LQ_FAULTS_DIRTY && !has_lost) {
        return;
    }
    for (struct lq_faults_record *r = first(); r != end(); r = next(r)) {
        uint64_t bits = r->live == 0 ? 0 : covers(scope, r);
        if ((bits & r->live) != 0) {
            settle_one(r, bits, fate);
        }
        dead += r->live == 0;
        is_empty = is_empty && r->live == 0;
    }
    if (is_empty) {
        store(&head->used[head->active], 0);
        has_lost = false;
    } else if (dead > TIDY_AT_LEAST) {
        tidy();
    }
}

void lq_faults_drop_file(uint64_t ino)
{
    for (struct lq_faults_record *r = first(); r != end(); r = next(r)) {
        if (r->ino == ino && (r->kind == LQ_FAULTS_DATA || r->kind == LQ_FAULTS_SIZE)) {
            store(&r->live, 0);
        }
    }
}
