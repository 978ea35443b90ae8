/* The client's troubles in words, for people: the one place where their texts are. */
#ifndef LQ_EXPLAIN_H
#define LQ_EXPLAIN_H

#include "lq_core.h"

/* Writes what last went wrong with the core's request, "" when nothing did. `where` is the endpoint
 * concerned, `code` the errno of the socket call that failed, 0 when it took too long. */
void lq_explain(const struct lq_core *core, const char *where, int code, char *ret_text,
                size_t cap);

/* Whether a request that ended so needs no explanation. */
bool lq_explain_is_success(enum loquet_result result);

#endif
