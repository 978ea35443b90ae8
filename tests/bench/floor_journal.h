/* The file of a node of the floor. It is written in full once, so that a sync later has no blocks
 * to allocate and no size to change, and then from the beginning again whenever it is full: nobody
 * reads it. */
#ifndef LQ_BENCH_FLOOR_JOURNAL_H
#define LQ_BENCH_FLOOR_JOURNAL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct lq_bench_floor_journal {
    int fd;
    off_t at;
};

/* Opens `path` anew and fills it, durably. Returns the descriptor, or -1 with errno. */
int lq_bench_floor_journal_make(const char *path);

/* Appends the bytes, durably. Returns 0, or -1 with errno. */
int lq_bench_floor_journal_append(struct lq_bench_floor_journal *journal, const uint8_t *bytes,
                                  size_t len);

#endif
