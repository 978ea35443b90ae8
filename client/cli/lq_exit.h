/* What loquet exits with: the one table, printed by `loquet --help`. */
#ifndef LQ_EXIT_H
#define LQ_EXIT_H

#include "loquet.h"

#include <stddef.h>

enum lq_exit {
    LQ_EXIT_OK = 0,
    LQ_EXIT_USAGE = 64,
    LQ_EXIT_UNAVAILABLE = 69,
    LQ_EXIT_UNKNOWN = 70,
    LQ_EXIT_SYSTEM = 71,
    LQ_EXIT_OUTPUT = 74,
    LQ_EXIT_NOT_ACQUIRED = 75,
    LQ_EXIT_NOT_HELD = 76,
    LQ_EXIT_DEGRADED = 77,
    LQ_EXIT_REFUSED = 78,
    LQ_EXIT_NOT_EXECUTABLE = 126,
    LQ_EXIT_NOT_FOUND = 127,
    LQ_EXIT_SIGNAL = 128, /* plus its number */
};

struct lq_exit_row {
    const char *code; /* "0", "128+n" */
    const char *text;
};

/* All codes, in the order of the enum; ends with a row without code. */
extern const struct lq_exit_row lq_exit_table[];

/* The code for the result of a request. TIMEOUT is NOT_ACQUIRED here; one that never reached a
 * server is the caller's to tell apart. */
enum lq_exit lq_exit_of(enum loquet_result result);

#endif
