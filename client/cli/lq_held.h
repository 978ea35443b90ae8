/* A lock, as the command line knows it: acquired here, or named by arguments. */
#ifndef LQ_HELD_H
#define LQ_HELD_H

#include "loquet.h"

struct lq_held {
    uint64_t token;
    uint64_t sent_ms; /* when the lease began, at the earliest; 0: unknown */
    uint64_t ends_ms; /* its conservative end; 0: unknown */
    uint32_t lease_s; /* 0: unknown */
    uint32_t key_len;
    char key[LOQUET_KEY_MAX + 1]; /* zero-terminated */
};

#endif
